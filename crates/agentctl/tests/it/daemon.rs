//! The daemon: only one serves, and answers are the same with it, without it, and while it fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;

use agentctl_core::fleet::Rows;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Dice, TestHome, eventually, rounds, sandboxed};

use crate::opencode::{self, DATA};
use crate::{configure, fixtures_dir, home};

pub(crate) const SOCKET: &str = ".local/state/agentctl/run/agentctl.sock";
const ALL: [&str; 6] = ["list", "-a", "--since", "all", "--tree", "--json"];

/// A raw connection to the socket.
pub(crate) struct Wire {
    stream: BufReader<UnixStream>,
}

impl Wire {
    pub(crate) fn open(home: &TestHome) -> Self {
        let stream = UnixStream::connect(home.path().join(SOCKET)).expect("a listener");
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn greeted(home: &TestHome) -> Self {
        let mut wire = Self::open(home);
        let welcome = wire.ask("hello", &json!({"protocol": 1}));
        assert_eq!(welcome["result"]["protocol"], 1, "{welcome}");
        wire
    }

    pub(crate) fn stream(&mut self) -> &mut UnixStream {
        self.stream.get_mut()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("sent");
    }

    pub(crate) fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("heard");
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    /// Reads one frame of a packed list.
    pub(crate) fn frame(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("a length");
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        self.stream.read_exact(&mut bytes).expect("that many bytes");
        bytes
    }

    /// Like `ask`; `None` if the daemon closes the connection.
    pub(crate) fn try_ask(&mut self, method: &str, params: &Value) -> Option<Value> {
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let _hung_up = self.stream.get_mut().write_all(format!("{request}\n").as_bytes());
        let mut line = String::new();
        self.stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
        serde_json::from_str::<Value>(&line).ok()?.get("result").cloned()
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.send(format!("{request}\n").as_bytes());
        self.hear()
    }
}

/// Returns these rows as the frame in which a daemon sends them.
pub(crate) fn framed(rows: &Rows) -> Vec<u8> {
    let rows = rows.encode(0..rows.len()).expect("encoded");
    let length = u32::try_from(rows.len()).expect("short");
    [&length.to_le_bytes(), &rows[..]].concat()
}

/// Starts the daemon and returns its pid.
pub(crate) fn started(home: &TestHome) -> u32 {
    let output = home.run(&["daemon", "start"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let pid = status(home)["pid"].as_u64().expect("a pid");
    u32::try_from(pid).expect("fits")
}

fn status(home: &TestHome) -> Value {
    home.run(&["daemon", "status", "--json"]).json()
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).expect("a pid"), signal).expect("sent");
}

/// Returns the processes of daemons, also while they start.
fn daemons() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("listed").flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
        words.get(1..3) == Some(&[&b"daemon"[..], b"run"])
    })
    .collect()
}

/// Returns a home with the recorded sessions of every agent that keeps them in files.
fn inhabited() -> TestHome {
    let home = home();
    for agent in crate::fixtures::agents_with_homes() {
        let cases = std::fs::read_dir(fixtures_dir().join(agent)).expect("recorded homes");
        for case in cases.flatten() {
            home.plant(&case.path(), ".");
        }
    }
    home
}

/// Returns a document without the times of its evidence.
fn timeless(mut document: Value) -> Value {
    let rows = document.get_mut("sessions").and_then(Value::as_array_mut);
    for row in rows.into_iter().flatten() {
        for evidence in row["evidence"].as_array_mut().into_iter().flatten() {
            evidence["at"] = Value::Null;
        }
    }
    document
}

/// Compares two documents; fails with the rows that differ, not with all of them.
fn assert_same(told: Value, own: &Value, when: &str) {
    let told = timeless(told);
    let rows = |document: &Value| document["sessions"].as_array().cloned().unwrap_or_default();
    let (theirs, ours) = (rows(&told), rows(own));
    for (their, our) in theirs.iter().zip(&ours) {
        assert_eq!(their, our, "{when}");
    }
    assert_eq!((theirs.len(), &told["faults"]), (ours.len(), &own["faults"]), "{when}");
}

/// Returns the output of a command without the daemon.
fn printed_alone(home: &TestHome, args: &[&str]) -> String {
    let mut command = home.command(args);
    let output = command.env("AGENTCTL_NO_DAEMON", "1").output().expect("runs");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the document of a command without the daemon.
fn alone(home: &TestHome, args: &[&str]) -> Value {
    timeless(serde_json::from_str(&printed_alone(home, args)).expect("JSON"))
}

/// Returns the printed words without ages and without times of evidence.
fn ageless(printed: &str) -> Vec<Vec<&str>> {
    let is_age = |word: &str| {
        word.strip_suffix(['s', 'm', 'h', 'd']).is_some_and(|n| n.parse::<u64>().is_ok())
    };
    let lines = printed.lines().filter(|line| !line.trim_start().starts_with("\"at\": "));
    lines.map(|line| line.split(' ').filter(|w| !w.is_empty() && !is_age(w)).collect()).collect()
}

#[test]
fn of_fifty_concurrent_starts_one_daemon_serves_and_all_connect_to_it() {
    sandboxed(|| {
        let home = home();
        let starts: Vec<_> = (0..50)
            .map(|_| {
                let mut command = home.command(&["daemon", "start"]);
                command.stderr(Stdio::piped()).spawn().expect("starts")
            })
            .collect();
        let mut told: Vec<String> = starts
            .into_iter()
            .map(|start| {
                let output = start.wait_with_output().expect("ends");
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{said}");
                said.split("pid ").nth(1).expect("a pid").trim().to_owned()
            })
            .collect();
        told.dedup();
        assert_eq!(told.len(), 1, "all name one daemon: {told:?}");
        let pid: u32 = told[0].parse().expect("a number");
        let only = eventually("those that lost the race are gone", || {
            let there = daemons();
            (there.len() <= 1).then_some(there)
        });
        assert_eq!(only, [pid]);
        let refused = home.run(&["daemon", "run"]);
        assert_eq!((refused.code, refused.stderr.contains("already running")), (Some(5), true));
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
        assert_eq!(daemons(), [0_u32; 0], "`stop` returns after the end of the daemon");
        assert_eq!(home.run(&["daemon", "status"]).code, Some(1));
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0), "again is no error");
    });
}

#[test]
fn answers_are_the_same_with_and_without_a_daemon() {
    sandboxed(|| {
        let home = inhabited();
        let mut agent = home.command(&["demo-agent", "--session-id", "alive", "-p", "x [[hang]]"]);
        let mut agent = agent.stdout(Stdio::null()).spawn().expect("starts");
        eventually("the agent runs", || {
            let listed = home.run(&["list", "--json"]).sessions();
            listed.iter().any(|s| s["id"] == "alive" && s["status"] == "running").then_some(())
        });
        crate::launched::until_asked(&home, "alive");
        started(&home);
        let own = alone(&home, &ALL);
        assert!(own["sessions"].as_array().expect("rows").len() > 20, "enough rows to compare");
        let mut wire = Wire::greeted(&home);
        for _ in 0..3 {
            let told = wire.ask("session.list", &json!({"all": true, "children": true}));
            assert_same(told["result"].clone(), &own, "answer of the daemon");
            assert_same(home.run(&ALL).json(), &own, "asked by the command");
        }
        for args in [&ALL[..], &ALL[..5], &ALL[..4]] {
            let (told, own) = (home.run(args).stdout, printed_alone(&home, args));
            assert!(own.lines().count() > 20, "enough rows to compare");
            assert_eq!(ageless(&told), ageless(&own), "printed: {args:?}");
        }
        let live = wire.ask("session.list", &json!({}));
        assert_same(live["result"].clone(), &alone(&home, &["list", "--json"]), "what lives");
        agent.kill().expect("killed");
        agent.wait().expect("reaped");
        let after = wire.ask("session.list", &json!({}))["result"]["sessions"].clone();
        let ids = after.as_array().expect("rows").iter().map(|row| &row["id"]);
        assert!(ids.clone().all(|id| *id != "alive"), "a request sees every change before it");
    });
}

/// Sets the modification time of a file into the past: only then its contents are cached.
fn settle(home: &TestHome, name: &str) {
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    let file = std::fs::File::options().append(true).open(home.path().join(name)).expect("there");
    file.set_modified(long_ago).expect("set");
}

#[test]
fn a_changed_database_is_reported_despite_the_cache() {
    sandboxed(|| {
        let home = home();
        let (name, log) = (format!("{DATA}/opencode.db"), format!("{DATA}/opencode.db-wal"));
        let store = opencode::Store::new(&home, &name);
        store.session(opencode::A, "/w", None);
        settle(&home, &name);
        started(&home);
        let titles = || {
            let listed = home.run(&["list", "-a", "--json"]).sessions();
            listed.iter().map(|row| row["title"].clone()).collect::<Vec<_>>()
        };
        for round in 0..6 {
            let title = format!("title {round}");
            let sql = "update session set title = ?1";
            assert_eq!(store.connection.execute(sql, [&title]).expect("written"), 1);
            if round % 3 == 1 {
                // Moves the change from the write-ahead log into the database.
                let moved = "pragma wal_checkpoint(truncate)";
                store.connection.query_row(moved, [], |_| Ok(())).expect("moved");
                settle(&home, &name);
            }
            settle(&home, &log);
            for time in ["read", "cached"] {
                assert_eq!(titles(), [json!(title)], "{time}, round {round}");
            }
        }
    });
}

#[test]
fn invalid_frames_get_an_error_and_the_connection_goes_on() {
    sandboxed(|| {
        let home = home();
        started(&home);
        let mut rude = Wire::open(&home);
        let answer = rude.ask("session.list", &json!({}));
        assert_eq!(answer["error"]["code"], -32000, "hello comes first");
        let mut skewed = Wire::open(&home);
        let answer = skewed.ask("hello", &json!({"protocol": 99}));
        assert!(answer["error"]["message"].as_str().expect("words").contains("protocol 1"));

        let mut wire = Wire::greeted(&home);
        for (frame, code) in [
            ("rubbish\n", -32700),
            ("{\"jsonrpc\":\"2.0\"\n", -32700),
            ("[]\n", -32600),
            ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"daemon.status\"}\n", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no.such\"}\n", -32601),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session.list\",\"params\":{\"x\":1}}\n",
                -32602,
            ),
        ] {
            wire.send(frame.as_bytes());
            let answer = wire.hear();
            assert_eq!(answer["error"]["code"], code, "{frame} {answer}");
        }
        wire.send(b"\n\xff\xfe\n");
        assert_eq!(wire.hear()["error"]["code"], -32700);
        // A line of four times the limit is discarded, and the next one is answered.
        wire.send(&vec![b'x'; 4 << 20]);
        wire.send(b"\n");
        assert_eq!(wire.hear()["error"]["code"], -32600);
        assert_eq!(wire.ask("daemon.status", &json!({}))["result"]["running"], true);
    });
}

#[test]
fn socket_and_log_are_private_to_the_user() {
    sandboxed(|| {
        let home = home();
        // The permissions of an existing directory are corrected.
        let directory = home.path().join(".local/state/agentctl/run");
        std::fs::create_dir_all(&directory).expect("made");
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777)).expect("set");
        started(&home);
        let mode = |path: &std::path::Path| path.metadata().expect("there").mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&home.path().join(SOCKET)), 0o600);
        assert_eq!(mode(&home.path().join(".local/state/agentctl/daemon.log")), 0o600);

        let linked = crate::home();
        std::fs::create_dir_all(linked.path().join(".local/state/agentctl")).expect("made");
        std::fs::create_dir(linked.path().join("elsewhere")).expect("made");
        let place = linked.path().join(".local/state/agentctl/run");
        std::os::unix::fs::symlink(linked.path().join("elsewhere"), place).expect("linked");
        let refused = linked.run(&["daemon", "start"]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("not a directory of its own"), "{}", refused.stderr);
    });
}

#[test]
fn killing_or_wiping_the_daemon_during_requests_changes_no_answer() {
    sandboxed(|| {
        let home = inhabited();
        let own = alone(&home, &ALL);
        let state = home.path().join(".local/state/agentctl");
        let mut dice = Dice::new();
        println!("AGENTCTL_SEED={}", dice.seed);
        for round in 0..rounds(25) {
            let pid = started(&home);
            let asks: Vec<_> = (0..2)
                .map(|_| home.command(&ALL).stdout(Stdio::piped()).spawn().expect("starts"))
                .collect();
            for _ in 0..dice.below(40) {
                std::thread::yield_now();
            }
            if round % 3 == 2 {
                // The daemon may create a file at the same time: retry.
                eventually("it is wiped", || {
                    let _busy = std::fs::remove_dir_all(&state);
                    (!state.exists()).then_some(())
                });
            } else {
                signal(pid, Signal::KILL);
            }
            for ask in asks {
                let output = ask.wait_with_output().expect("ends");
                let told = serde_json::from_slice(&output.stdout).expect("JSON");
                assert_same(told, &own, &format!("round {round}"));
            }
            eventually("it has gone", || daemons().is_empty().then_some(()));
        }
        assert_same(home.run(&ALL).json(), &own, "asked by the command");
    });
}

#[test]
fn a_wiped_directory_ends_the_daemon_and_changes_no_answer() {
    sandboxed(|| {
        let home = inhabited();
        let own = alone(&home, &ALL);
        let first = started(&home);
        std::fs::remove_dir_all(home.path().join(".local/state/agentctl")).expect("wiped");
        assert_same(home.run(&ALL).json(), &own, "asked by the command");
        let second = started(&home);
        assert_ne!(first, second);
        eventually("the first daemon notices that its lock is lost", || {
            (daemons() == [second]).then_some(())
        });
        assert_same(home.run(&ALL).json(), &own, "asked by the command");
    });
}

#[test]
fn a_stopped_daemon_times_out_and_the_command_answers_itself() {
    sandboxed(|| {
        let home = inhabited();
        let own = alone(&home, &ALL);
        // The timeout for `hello` is a tenth of this.
        configure(&home, &[("live", "10s")], "");
        let pid = started(&home);
        signal(pid, Signal::STOP);
        assert_same(home.run(&ALL).json(), &own, "the command answers itself");
        let mute = home.run(&["daemon", "status"]);
        assert_eq!((mute.code, mute.stderr.contains("does not answer")), (Some(1), true));
        let refused = home.run(&["daemon", "stop"]);
        assert_eq!((refused.code, refused.stderr.contains("--force")), (Some(1), true));
        let killed = home.run(&["daemon", "restart", "--force"]);
        assert_eq!(killed.code, Some(0), "{}", killed.stderr);
        assert_eq!(status(&home)["running"], true);
        assert!(!daemons().contains(&pid));
    });
}

/// Replaces the daemon: answers `hello` with this welcome, and every list with no session. Returns the number
/// of questions.
fn impostor(home: &TestHome, welcome: &Value) -> std::thread::JoinHandle<usize> {
    let path = home.path().join(SOCKET);
    let _old = std::fs::remove_file(&path);
    let listener = UnixListener::bind(path).expect("bound");
    let welcome = welcome.clone();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let mut stream = BufReader::new(stream);
        let mut asked = 0;
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|n| n > 0) {
            let request: Value = serde_json::from_str(&line).expect("JSON");
            let result = match request["method"].as_str() {
                Some("hello") => welcome.clone(),
                _ => {
                    asked += 1;
                    json!({"faults": [], "frames": 0})
                }
            };
            let reply = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            let _gone = stream.get_mut().write_all(format!("{reply}\n").as_bytes());
            line.clear();
        }
        asked
    })
}

#[test]
fn only_a_daemon_with_the_same_fingerprint_is_asked() {
    sandboxed(|| {
        let mut home = inhabited();
        started(&home);
        let hello = json!({"protocol": 1, "encoding": "postcard"});
        let welcome = Wire::open(&home).ask("hello", &hello)["result"].clone();
        assert_eq!(status(&home)["same_world"], true);
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
        let told = impostor(&home, &welcome);
        assert_eq!(home.run(&ALL).sessions(), [] as [Value; 0], "the answer of the daemon is used");
        assert_eq!(told.join().expect("ends"), 1);
        // Another home of an agent: another fingerprint.
        home.set("CLAUDE_CONFIG_DIR", home.at("other").to_string_lossy());
        let told = impostor(&home, &welcome);
        assert_ne!(home.run(&ALL).sessions(), [] as [Value; 0]);
        assert_eq!(told.join().expect("ends"), 0);
        home.set("CLAUDE_CONFIG_DIR", "");
        // `list` without `-a` does not ask the daemon.
        let told = impostor(&home, &welcome);
        assert_eq!(home.run(&["list"]).code, Some(0));
        home.set("AGENTCTL_NO_DAEMON", "1");
        assert_ne!(home.run(&ALL).sessions(), [] as [Value; 0]);
        drop(UnixStream::connect(home.path().join(SOCKET)));
        assert_eq!(told.join().expect("ends"), 0);
    });
}

#[test]
fn without_file_descriptors_the_daemon_waits_and_recovers() {
    sandboxed(|| {
        let home = home();
        let pid = started(&home);
        let limit = rustix::process::Rlimit { current: Some(24), maximum: Some(24) };
        let target = Pid::from_raw(pid.cast_signed());
        rustix::process::prlimit(target, rustix::process::Resource::Nofile, limit).expect("set");
        let crowd: Vec<UnixStream> = (0..64)
            .map(|_| UnixStream::connect(home.path().join(SOCKET)).expect("queued"))
            .collect();
        eventually("the failed accept is logged", || {
            home.run(&["daemon", "logs"]).stdout.contains("accept").then_some(())
        });
        drop(crowd);
        eventually("it serves again", || {
            (home.run(&["daemon", "status"]).code == Some(0)).then_some(())
        });
        assert_eq!(daemons(), [pid]);
    });
}

#[test]
fn a_slow_client_delays_no_other_client() {
    sandboxed(|| {
        let home = inhabited();
        started(&home);
        let mut slow = Wire::greeted(&home);
        for _ in 0..200 {
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": "session.list", "params": {"all": true}});
            slow.send(format!("{request}\n").as_bytes());
        }
        // The slow client reads nothing; all other clients are answered.
        let crowd: Vec<_> = (0..500)
            .map(|_| {
                let path = home.path().join(SOCKET);
                std::thread::spawn(move || {
                    let stream = UnixStream::connect(path).expect("a listener");
                    let mut wire = Wire { stream: BufReader::new(stream) };
                    wire.ask("hello", &json!({"protocol": 1}));
                    wire.ask("session.list", &json!({"all": true}))["result"]["sessions"]
                        .as_array()
                        .map(Vec::len)
                })
            })
            .collect();
        let counts: Vec<_> = crowd.into_iter().map(|t| t.join().expect("ends")).collect();
        assert!(counts[0].is_some_and(|n| n > 20));
        assert!(counts.iter().all(|n| *n == counts[0]), "{counts:?}");
        drop(slow);
    });
}

#[test]
fn a_full_disk_loses_only_log_lines() {
    sandboxed(|| {
        let home = inhabited();
        let state = home.at(".local/state/agentctl/x");
        let state = state.parent().expect("a parent").to_string_lossy().into_owned();
        let mount = ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", &state];
        let mounted = std::process::Command::new("mount").args(mount).status().expect("mount");
        assert!(mounted.success());
        let own = alone(&home, &ALL);
        let pid = started(&home);
        let mut full = std::fs::File::create(format!("{state}/filler")).expect("made");
        assert!(full.write_all(&vec![0; 1 << 20]).is_err(), "it is full");
        let mut wire = Wire::greeted(&home);
        let told = wire.ask("session.list", &json!({"all": true, "children": true}));
        assert_same(told["result"].clone(), &own, "on a full disk");
        assert_eq!(home.run(&["daemon", "status"]).code, Some(0));
        assert_eq!(daemons(), [pid]);
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
    });
}

#[test]
fn the_service_file_never_kills_an_agent() {
    sandboxed(|| {
        let home = home();
        let unit = home.run(&["daemon", "install", "--print"]).stdout;
        for line in ["Type=notify", "KillMode=process", "Restart=always", "SendSIGKILL=no"] {
            assert!(unit.lines().any(|l| l == line), "{line} is missing in {unit}");
        }
        let start = unit.lines().find_map(|l| l.strip_prefix("ExecStart=")).expect("a command");
        assert_eq!(start, format!("\"{}\" daemon run", env!("CARGO_BIN_EXE_agentctl")));
        // Uninstalling a service that is not installed is no error.
        let output = home.run(&["daemon", "uninstall"]);
        assert_eq!((output.code, output.stderr.contains("not installed")), (Some(0), true));
    });
}

#[test]
fn readiness_is_reported_once_the_daemon_answers() {
    sandboxed(|| {
        let mut home = home();
        let path = home.at("notify.sock");
        let manager = std::os::unix::net::UnixDatagram::bind(&path).expect("bound");
        home.set("NOTIFY_SOCKET", path.to_string_lossy());
        let mut served =
            home.command(&["daemon", "run"]).stderr(Stdio::null()).spawn().expect("starts");
        let mut words = [0; 64];
        let count = manager.recv(&mut words).expect("told");
        assert_eq!(&words[..count], b"READY=1\n");
        assert_eq!(
            Wire::greeted(&home).ask("daemon.status", &json!({}))["result"]["running"],
            true
        );
        signal(served.id(), Signal::TERM);
        assert_eq!(served.wait().expect("ends").code(), Some(0));
    });
}

//! Asks of Claude Code that our asker holds: the double of the agent starts the asker as the real one does, and
//! the asker, the answers and the checks are real.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Agent, Output, eventually, sandboxed};

use crate::assert_list_equals_status;
use crate::claude_code::{A, Claude, prompt, record, tool_use};
use crate::inbox_bars::rounds;

/// A session that asks, and the output of its hook.
pub(crate) struct Asking {
    pub(crate) claude: Claude,
    pub(crate) agent: Agent,
}

const ALLOWED: &str = r#"{"hookSpecificOutput":{"decision":{"behavior":"allow"},"hookEventName":"PermissionRequest"}}"#;

/// Stands for the path of the transcript in the input of a hook.
pub(crate) const TRANSCRIPT: &str = "{transcript}";

/// The longest time for which a folder is removed again and again.
const REMOVAL_LIMIT: Duration = Duration::from_mins(1);

/// The input of the hook of a command.
pub(crate) fn hook_input(command: &str) -> Value {
    json!({"session_id": A, "hook_event_name": "PermissionRequest", "tool_name": "Bash", "cwd": "/ws",
        "transcript_path": TRANSCRIPT,
        "tool_input": {"command": command, "description": "x"},
        "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]})
}

impl Asking {
    /// Starts an agent whose record says this, and which runs our asker with this input.
    pub(crate) fn new(more: &Value, input: &[u8]) -> Self {
        Self::with_script(more, input, |_| String::new())
    }

    /// A session without a terminal whose hook writes its decision there.
    fn writing_to(output: &str) -> Self {
        let more = json!({"status": "busy", "entrypoint": "sdk-cli"});
        let input = hook_input("touch x").to_string();
        Self::starting(Claude::new(), &more, input.as_bytes(), output, |_| String::new())
    }

    /// The same as [`Asking::new`], with a further script that the agent starts.
    pub(crate) fn with_script(
        more: &Value,
        input: &[u8],
        script: impl Fn(&Path) -> String,
    ) -> Self {
        Self::starting(Claude::new(), more, input, "", script)
    }

    fn starting(
        claude: Claude,
        more: &Value,
        input: &[u8],
        output: &str,
        script: impl Fn(&Path) -> String,
    ) -> Self {
        let script = script(&claude.home.path());
        let call = tool_use("t1", "Bash", &json!({"command": "touch x", "description": "x"}));
        claude.transcript(A, &[prompt("make it"), call]);
        let input = String::from_utf8_lossy(input);
        let transcript = transcript_path(&claude.home.path());
        let input_path = claude.home.write("input.json", input.replace(TRANSCRIPT, &transcript));
        let runtime = claude.home.path().join(".local/state/agentctl/run");
        let hook = format!(
            "exec '{}' asker '{}' claude-code 600 < '{}' > '{}'",
            env!("CARGO_BIN_EXE_agentctl"),
            runtime.display(),
            input_path.display(),
            if output.is_empty() { claude.home.at("decision") } else { output.into() }.display(),
        );
        let text = record(A, &claude.cwd, more);
        // The double passes over a word that it does not know.
        let mode = if more["entrypoint"] == "sdk-cli" { "-p" } else { "-" };
        let mut words = vec![mode, "write", &claude.record_path, &text, "start", &hook];
        if !script.is_empty() {
            words.extend(["start", &script]);
        }
        let mut agent = claude.home.agent("claude", "ws", &words);
        agent.ready();
        Self { claude, agent }
    }

    /// A session without a terminal that asks for a command.
    fn headless() -> Self {
        let more = json!({"status": "busy", "entrypoint": "sdk-cli"});
        Self::new(&more, hook_input("touch x").to_string().as_bytes())
    }

    pub(crate) fn rows(&self) -> Vec<Value> {
        let document = self.claude.home.run(&["asks", "--json"]).json();
        document["asks"].as_array().cloned().unwrap_or_default()
    }

    /// Waits for the ask that the asker holds.
    pub(crate) fn ask(&self) -> Value {
        eventually("the asker holds the ask", || {
            self.rows().into_iter().find(|ask| ask["via"] == "asker")
        })
    }

    pub(crate) fn answer(&self, ask: &Value, decision: &[&str]) -> Output {
        let id = ask["id"].as_str().expect("an id");
        self.claude.home.run(&[&["answer", id], decision].concat())
    }

    /// The output of the hook so far.
    pub(crate) fn decision(&self) -> String {
        std::fs::read_to_string(self.claude.home.path().join("decision")).unwrap_or_default()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.claude.home.path().join(".local/state/agentctl/run/asks")
    }

    /// Returns the socket of the asker, which appears after the ask.
    fn socket(&self) -> PathBuf {
        eventually("the asker listens", || {
            let entries = std::fs::read_dir(self.folder()).ok()?.flatten();
            let mut paths = entries.map(|entry| entry.path());
            paths.find(|path| path.extension().is_some_and(|end| end == "sock"))
        })
    }

    /// Returns the processes that are askers.
    pub(crate) fn askers() -> Vec<u32> {
        let is_asker = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(b"asker")
        };
        let pids = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_asker).collect()
    }

    pub(crate) fn until_no_asker() {
        eventually("the asker has ended", || Self::askers().is_empty().then_some(()));
    }
}

/// The path of the transcript in a home.
pub(crate) fn transcript_path(home: &Path) -> String {
    home.join(format!(".claude/projects/-ws/{A}.jsonl")).to_string_lossy().into_owned()
}

/// The runtime folder of a home.
pub(crate) const RUNTIME: &str = ".local/state/agentctl/run";

/// A session that asks for `touch x`, and for another command once it is told to, with a second asker.
pub(crate) fn asking_twice(command: &str, runtime: &str) -> Asking {
    let second = hook_input(command).to_string();
    let start = |home: &Path| {
        std::fs::write(home.join("second.json"), &second).expect("written");
        format!(
            "mkfifo '{0}/go'; read -r go < '{0}/go'; exec '{1}' asker '{0}/{runtime}' claude-code 600 < '{0}/second.json' > '{0}/decision2'",
            home.display(),
            env!("CARGO_BIN_EXE_agentctl"),
        )
    };
    Asking::with_script(
        &json!({"status": "busy", "entrypoint": "sdk-cli"}),
        hook_input("touch x").to_string().as_bytes(),
        start,
    )
}

/// Lets the second ask open, and returns it.
pub(crate) fn second_ask(asking: &Asking, command: &str) -> Value {
    let go = asking.claude.home.path().join("go");
    let mut fifo = eventually("the second asker waits for its turn", || {
        std::fs::OpenOptions::new().write(true).open(&go).ok()
    });
    fifo.write_all(b"go\n").expect("written");
    let title = format!("Bash: {command}");
    eventually("the second ask is open", || {
        asking.rows().into_iter().find(|ask| ask["title"] == title.as_str())
    })
}

fn tell(socket: &Path, line: &[u8]) -> Value {
    let mut stream = UnixStream::connect(socket).expect("connected");
    stream.write_all(line).expect("sent");
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).expect("replied");
    serde_json::from_str(&reply).expect("JSON")
}

#[test]
fn an_ask_is_held_listed_and_allowed_once() {
    sandboxed(|| {
        let asking = Asking::headless();
        let ask = asking.ask();
        assert_eq!((&ask["kind"], &ask["title"]), (&"permission".into(), &"Bash: touch x".into()));
        assert_eq!(ask["parts"], json!([{"kind": "command", "text": "touch x", "cut": false}]));
        assert_eq!(ask["pid"], asking.agent.pid());
        assert_eq!(ask["then"], "denied");
        let row = asking.claude.row(A);
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"waiting".into(), &"permission".into())
        );
        assert_list_equals_status(&asking.claude.home);
        assert_eq!(asking.decision(), "", "nothing is decided before the answer");
        let taken = asking.answer(&ask, &["--allow"]);
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        assert_eq!(asking.decision(), ALLOWED);
        Asking::until_no_asker();
        assert!(std::fs::read_dir(asking.folder()).expect("there").next().is_none());
        assert_eq!(asking.answer(&ask, &["--deny"]).code, Some(4));
        assert_eq!(asking.claude.row(A)["status"], "running");
        assert_eq!(asking.decision(), ALLOWED);
    });
}

#[test]
fn a_rule_is_stored_only_as_it_was_offered_and_a_denial_carries_its_words() {
    sandboxed(|| {
        let asking = Asking::headless();
        let ask = asking.ask();
        assert_eq!(ask["choices"][2]["rule"], "mode acceptEdits");
        assert_eq!(asking.answer(&ask, &["--always", "2"]).code, Some(2), "it was not offered");
        assert_eq!(asking.answer(&ask, &["--option", "1"]).code, Some(2), "it is no question");
        assert_eq!(asking.answer(&ask, &["--deny", "--message", "not today"]).code, Some(0));
        assert!(asking.decision().contains(r#""behavior":"deny","message":"not today""#));
        let asking = Asking::headless();
        assert_eq!(asking.answer(&asking.ask(), &["--always", "1"]).code, Some(0));
        let stored = r#""updatedPermissions":[{"destination":"session","mode":"acceptEdits","type":"setMode"}]"#;
        assert!(asking.decision().contains(stored), "{}", asking.decision());
    });
}

/// A2: of many answers at once the asker takes one.
#[test]
fn of_eight_answers_at_once_one_is_taken() {
    sandboxed(|| {
        for _ in 0..rounds(5) {
            let asking = Asking::headless();
            let id = asking.ask()["id"].as_str().expect("an id").to_owned();
            let children: Vec<_> = (0..8)
                .map(|n| {
                    let decision = if n % 2 == 0 { "--allow" } else { "--deny" };
                    let mut command = asking.claude.home.command(&["answer", &id, decision]);
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                    (decision, command.spawn().expect("started"))
                })
                .collect();
            let mut taken = Vec::new();
            for (decision, mut child) in children {
                let code = child.wait().expect("ended").code();
                assert!(matches!(code, Some(0 | 1 | 4 | 5)), "{code:?}");
                taken.extend((code == Some(0)).then_some(decision));
            }
            assert_eq!(taken.len(), 1, "{taken:?}");
            assert_eq!(asking.decision() == ALLOWED, taken == ["--allow"], "{}", asking.decision());
        }
    });
}

/// A8: rubbish, another ask and a line without an end are no answer.
#[test]
fn whatever_is_no_answer_to_this_ask_decides_nothing() {
    sandboxed(|| {
        let asking = Asking::headless();
        let ask = asking.ask();
        let socket = asking.socket();
        let other = json!({"ask": ask["id"], "reply": "allow"}).to_string();
        let long = vec![b'x'; 100 << 10];
        for line in [b"\n".as_slice(), b"allow\n", b"{}\n", other.as_bytes(), b"\n", &long] {
            if let Ok(mut stream) = UnixStream::connect(&socket) {
                // The asker may hang up before everything is written.
                let _refused = stream.write_all(line);
                let _ended = stream.shutdown(std::net::Shutdown::Write);
                let mut reply = String::new();
                let _hung_up = BufReader::new(stream).read_line(&mut reply);
                assert!(!reply.contains("\"taken\":true"), "{reply}");
            }
        }
        let reply = tell(&socket, format!("{other}\n").as_bytes());
        assert_eq!(reply["taken"], false, "the id of the row is not the id that the asker holds");
        assert_eq!(asking.decision(), "");
        assert_eq!(asking.answer(&asking.ask(), &["--allow"]).code, Some(0));
    });
}

/// A3: the asker itself checks the process that answers, also one that knows the ask.
#[test]
fn the_asker_refuses_a_process_below_an_agent() {
    sandboxed(|| {
        let script = |home: &Path| {
            let (orders, reply) = (home.join("orders"), home.join("reply"));
            format!(
                "mkfifo '{0}'; exec 3<>'{0}'; read -r socket <&3; read -r line <&3; exec '{1}' tell \"$socket\" \"$line\" '{2}'",
                orders.display(),
                testkit::fake_agent().display(),
                reply.display()
            )
        };
        let more = json!({"status": "busy", "entrypoint": "sdk-cli"});
        let input = hook_input("touch x").to_string();
        let asking = Asking::with_script(&more, input.as_bytes(), script);
        let home = asking.claude.home.path();
        let (orders, reply) = (home.join("orders"), home.join("reply"));
        let ask = asking.ask();
        let pid = Asking::askers()[0];
        let held = held_ask(pid);
        let order = json!({"ask": held, "reply": "allow"});
        let mut fifo = eventually("the process below the agent listens", || {
            std::fs::OpenOptions::new().write(true).open(&orders).ok()
        });
        let text = format!("{}\n{order}\n", asking.socket().display());
        fifo.write_all(text.as_bytes()).expect("written");
        let said = eventually("the asker has replied", || std::fs::read_to_string(&reply).ok());
        assert!(said.contains("\"taken\":false") && said.contains("below an agent"), "{said}");
        assert_eq!(asking.decision(), "");
        let by_hand = tell(&asking.socket(), format!("{order}\n").as_bytes());
        assert_eq!(by_hand["taken"], true, "the same order from elsewhere: {by_hand}");
        assert_eq!(asking.decision(), ALLOWED);
        assert_eq!(asking.answer(&ask, &["--allow"]).code, Some(4));
    });
}

/// Returns the id of the ask that an asker holds, computed from its memory file.
fn held_ask(pid: u32) -> String {
    let kernel = agentctl_core::kernel::Kernel::open().expect("a kernel");
    let process = kernel.process(pid).expect("readable").expect("alive").id;
    let held = kernel.held_text(&process, "agentctl-ask", 1 << 20).expect("readable");
    agentctl_core::adapters::asker::ask_id(&process, &held.expect("held"))
}

#[test]
fn an_asker_ends_with_its_agent() {
    sandboxed(|| {
        let mut asking = Asking::headless();
        asking.ask();
        asking.agent.kill();
        Asking::until_no_asker();
        assert_eq!(asking.decision(), "");
        assert!(asking.rows().is_empty());
    });
}

/// A4: the folder of the sockets is gone: the ask is still listed under its id, and can be answered.
#[test]
fn an_ask_outlives_our_folders() {
    sandboxed(|| {
        let asking = Asking::headless();
        let before = asking.ask();
        // An asker that makes its socket now would fill the folder again while it is removed.
        asking.socket();
        std::fs::remove_dir_all(asking.claude.home.path().join(".local/state/agentctl"))
            .expect("wiped");
        let after = asking.ask();
        assert_eq!(before["id"], after["id"]);
        let taken = asking.answer(&after, &["--allow"]);
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        assert_eq!(asking.decision(), ALLOWED);
    });
}

/// The folder of the socket is removed again and again while the asker makes it.
#[test]
fn an_asker_outlives_the_removal_of_a_folder_that_it_makes() {
    sandboxed(|| {
        for _ in 0..10 {
            let claude = Claude::new();
            let folder = claude.home.path().join(".local/state/agentctl");
            let is_over = AtomicBool::new(false);
            let asking = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let began = Instant::now();
                    while !is_over.load(Ordering::SeqCst) && began.elapsed() < REMOVAL_LIMIT {
                        let _partly = std::fs::remove_dir_all(&folder);
                        std::thread::yield_now();
                    }
                });
                let more = json!({"status": "busy", "entrypoint": "sdk-cli"});
                let input = hook_input("touch x").to_string();
                let asking =
                    Asking::starting(claude, &more, input.as_bytes(), "", |_| String::new());
                asking.ask();
                is_over.store(true, Ordering::SeqCst);
                asking
            });
            let taken = asking.answer(&asking.ask(), &["--allow"]);
            assert_eq!(taken.code, Some(0), "{}", taken.stderr);
            assert_eq!(asking.decision(), ALLOWED);
        }
    });
}

/// A5: the dialog in the terminal was answered, of which the hook is not told.
#[test]
fn an_asker_leaves_when_the_terminal_has_answered() {
    sandboxed(|| {
        let more = json!({"status": "waiting", "waitingFor": "permission prompt"});
        let asking = Asking::new(&more, hook_input("touch x").to_string().as_bytes());
        assert_eq!(asking.ask()["then"], "only its terminal asks");
        let path = asking.claude.record_path.replace("{pid}", &asking.agent.pid().to_string());
        let text = std::fs::read_to_string(&path).expect("there");
        std::fs::write(&path, text.replace("waiting", "busy")).expect("written");
        assert_eq!(asking.claude.row(A)["status"], "running", "the record decides");
        Asking::until_no_asker();
        assert_eq!(asking.decision(), "");
    });
}

#[test]
fn input_that_is_no_ask_of_a_proved_session_ends_the_asker_without_a_word() {
    sandboxed(|| {
        let mut stranger = hook_input("touch x");
        stranger["session_id"] = "cccccccc-0000-4000-8000-000000000003".into();
        let mut other = hook_input("touch x");
        other["hook_event_name"] = "PreToolUse".into();
        let inputs = [String::new(), "rubbish".to_owned(), stranger.to_string(), other.to_string()];
        for input in inputs {
            let more = json!({"status": "busy", "entrypoint": "sdk-cli"});
            let asking = Asking::new(&more, input.as_bytes());
            Asking::until_no_asker();
            assert_eq!(asking.decision(), "", "{input}");
            assert!(asking.rows().is_empty(), "{input}");
        }
    });
}

/// A5: whatever settles an ask elsewhere, no asker is left.
#[test]
fn no_asker_is_left_when_the_terminal_answers_or_the_agent_dies() {
    sandboxed(|| {
        for round in 0..rounds(4) {
            let more = json!({"status": "waiting", "waitingFor": "permission prompt"});
            let mut asking = Asking::new(&more, hook_input("touch x").to_string().as_bytes());
            asking.ask();
            if round.is_multiple_of(2) {
                let path =
                    asking.claude.record_path.replace("{pid}", &asking.agent.pid().to_string());
                let text = std::fs::read_to_string(&path).expect("there");
                std::fs::write(&path, text.replace("waiting", "busy")).expect("written");
            } else {
                asking.agent.kill();
            }
            Asking::until_no_asker();
            assert!(asking.rows().is_empty(), "round {round}");
            assert_eq!(asking.decision(), "");
        }
    });
}

/// A8: a decision that the agent cannot read was not taken.
#[test]
fn an_answer_that_the_agent_cannot_read_is_not_taken() {
    sandboxed(|| {
        let asking = Asking::writing_to("/dev/full");
        let ask = asking.ask();
        let lost = asking.answer(&ask, &["--allow"]);
        assert_ne!(lost.code, Some(0), "{}", lost.stdout);
        Asking::until_no_asker();
    });
}

/// A8: an ask cannot be changed where it is held.
#[test]
fn nothing_can_change_an_ask_that_is_held() {
    sandboxed(|| {
        let asking = Asking::headless();
        let before = asking.ask();
        let pid = Asking::askers()[0];
        let held = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("readable").flatten();
        let held = held.map(|entry| entry.path()).find(|path| {
            std::fs::read_link(path)
                .is_ok_and(|to| to.to_string_lossy().contains("memfd:agentctl-ask"))
        });
        let held = held.expect("it holds the ask");
        let written = std::fs::OpenOptions::new().write(true).open(&held);
        let written = written.and_then(|mut file| file.write_all(b"{\"input\":1}"));
        assert!(written.is_err(), "the memory file is sealed");
        assert!(std::fs::OpenOptions::new().write(true).truncate(true).open(&held).is_err());
        assert_eq!(asking.ask()["id"], before["id"]);
    });
}

/// A2: answers to one ask are delivered one after the other, also while the asker is slow.
#[test]
fn a_second_answer_is_not_delivered_while_the_first_is_on_its_way() {
    sandboxed(|| {
        let asking = Asking::headless();
        let ask = asking.ask();
        let asker = Asking::askers()[0];
        // The ask is shown before the socket listens; `0001` in its flags means that it does.
        let socket = asking.folder().join(format!("{asker}.sock"));
        let socket = socket.to_string_lossy().into_owned();
        eventually("the asker listens", || {
            let sockets = std::fs::read_to_string("/proc/net/unix").expect("readable");
            let mut own = sockets.lines().filter(|line| line.ends_with(&socket));
            own.any(|line| line.split_whitespace().nth(3) == Some("00010000")).then_some(())
        });
        let asker =
            rustix::process::Pid::from_raw(i32::try_from(asker).expect("a pid")).expect("a pid");
        rustix::process::kill_process(asker, rustix::process::Signal::STOP).expect("it lives");
        let id = ask["id"].as_str().expect("an id");
        let mut first = asking.claude.home.command(&["answer", id, "--allow"]);
        let first = crate::wait::Running(first.stdout(Stdio::null()).spawn().expect("started"));
        let lock = asking.folder().with_file_name("answers").join(format!("{id}.lock"));
        eventually("the first holds the lock", || lock.exists().then_some(()));
        let second = asking.answer(&ask, &["--deny"]);
        assert!(second.stderr.contains("another answer"), "{}", second.stderr);
        rustix::process::kill_process(asker, rustix::process::Signal::CONT).expect("it lives");
        assert_eq!(first.output().code, Some(0));
        assert_eq!(asking.decision(), ALLOWED);
        assert!(!lock.exists(), "the file of the lock is removed");
    });
}

/// A terminal without our hook: shown in full, with the place where it can be answered.
#[test]
fn an_ask_of_a_terminal_is_shown_in_full_and_not_answered_from_here() {
    sandboxed(|| {
        let claude = Claude::new();
        let edit = json!({"file_path": "a.rs", "old_string": "x\ny", "new_string": "x\nz"});
        claude.transcript(A, &[prompt("edit"), tool_use("t1", "Edit", &edit)]);
        let more = json!({"status": "waiting", "waitingFor": "permission prompt"});
        let _agent = claude.live(A, &more);
        let document = claude.home.run(&["asks", "--json"]).json();
        let ask = &document["asks"][0];
        let diff =
            json!([{"kind": "diff", "path": "a.rs", "unified": "@@\n x\n-y\n+z\n", "cut": false}]);
        assert_eq!((&ask["parts"], &ask["via"]), (&diff, &Value::Null));
        assert!(ask["why_not"].as_str().is_some_and(|why| why.contains("asks --hook")), "{ask}");
        let id = ask["id"].as_str().expect("an id");
        let refused = claude.home.run(&["answer", id, "--allow"]);
        assert_eq!(refused.code, Some(5));
        // The double has no terminal, so `attach` would be refused too.
        assert!(!refused.stderr.contains("agentctl attach"), "{}", refused.stderr);
        let mut home = claude.home;
        let table = crate::terminal::shown(&mut home, 80, &["asks"]);
        assert!(table.contains("(elsewhere) permission"), "{table}");
        for decision in [&["--option", "1"][..], &["--field", "1=a"], &["--text", "x"], &[]] {
            let told = home.run(&[&["answer", id], decision].concat());
            assert_eq!((told.code, told.stderr), (refused.code, refused.stderr.clone()));
        }
    });
}

#[test]
fn the_hook_for_own_settings_is_json_with_whole_paths() {
    sandboxed(|| {
        let claude = Claude::new();
        let settings = claude.home.run(&["asks", "--hook"]).json();
        let command = &settings["hooks"]["PermissionRequest"][0]["hooks"][0]["command"];
        let command = command.as_str().expect("a command");
        assert!(command.starts_with("exec '/") && command.contains("' asker '/"), "{command}");
    });
}

#[test]
fn an_asker_removes_the_sockets_of_killed_ones() {
    sandboxed(|| {
        let asking = asking_twice("touch y", RUNTIME);
        asking.ask();
        let killed = Asking::askers()[0];
        let socket = asking.folder().join(format!("{killed}.sock"));
        eventually("the asker listens", || socket.exists().then_some(()));
        let pid = rustix::process::Pid::from_raw(killed.cast_signed()).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
        eventually("it has ended", || (!Asking::askers().contains(&killed)).then_some(()));
        assert!(socket.exists(), "a killed asker leaves its socket");
        let ask = second_ask(&asking, "touch y");
        assert_eq!(asking.answer(&ask, &["--deny"]).code, Some(0));
        assert!(!socket.exists(), "the next asker removes it");
    });
}

#[test]
fn an_asker_is_answered_in_a_folder_with_a_long_path() {
    sandboxed(|| {
        let long = "r".repeat(120);
        let asking = asking_twice("touch y", &long);
        let ask = second_ask(&asking, "touch y");
        let told = asking.answer(&ask, &["--deny", "--message", "no"]);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
    });
}

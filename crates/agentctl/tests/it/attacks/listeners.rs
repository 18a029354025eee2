//! Class: listeners and their clients (S6, S9, S13, S14, S16).

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agentctl_core::fleet::Rows;
use agentctl_core::model::Session;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{OtherUser, Output, TestHome, another_user, eventually, sandboxed, spawn_at};

use crate::daemon::{SOCKET, Wire, framed, signal, started};
use crate::{configure, home, metrics};

/// A command that is still running after this long is taken to hang: far more than any limit of the program.
const HANGS: Duration = Duration::from_secs(100);

/// Runs a command and fails when it hangs.
fn ends(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let pid = child.id();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match ended.recv_timeout(HANGS) {
        Ok(output) => output.into(),
        Err(_) => {
            signal(pid, Signal::KILL);
            panic!("it hangs: {command:?}");
        }
    }
}

fn welcome(home: &TestHome) -> Value {
    started(home);
    let hello = json!({"protocol": 1, "encoding": "postcard"});
    let welcome = Wire::open(home).ask("hello", &hello)["result"].clone();
    assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
    welcome
}

/// The answers of a daemon that lies.
fn lies(welcome: &Value) -> Value {
    let lie: Session = serde_json::from_value(json!({
        "id": "PWNED", "adapter": "demo", "root": "", "status": "running", "processes": [],
        "hosted": false, "notes": [], "evidence": [],
    }))
    .expect("a session");
    let mut status = json!({"schema_version": 1, "running": true, "pid": 1, "version": "PWNED",
        "since": "2026-01-01T00:00:00.000Z", "socket": "", "log": "", "same_world": null,
        "sessions": null, "locks": null, "fuses": null, "subscribers": null, "trouble": null,
        "webhooks": [], "notify": null, "metrics": null, "faults": []});
    status["since"] = welcome["since"].clone();
    json!({
        "hello": welcome,
        "session.list": {"faults": [], "frames": 1},
        "list_bytes": framed(&Rows::of(&[lie])),
        "daemon.status": status,
        "daemon.shutdown": {"pid": 1},
        "events.subscribe": {"subscribed": true},
    })
}

/// A folder that every user may use, like `/tmp`, with a program in it that every user may run.
struct Shared {
    folder: tempfile::TempDir,
}

impl Shared {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("made");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777))
            .expect("set");
        std::fs::copy(testkit::fake_agent(), folder.path().join("server")).expect("copied");
        std::fs::create_dir(folder.path().join("agentctl")).expect("made");
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self, answers: &Value, by: Option<OtherUser>) -> Server {
        std::fs::write(self.at("answers.json"), answers.to_string()).expect("written");
        let mut command = match by {
            Some(other) => other.command(self.at("server")),
            None => Command::new(self.at("server")),
        };
        let socket = self.at("agentctl/agentctl.sock");
        command.arg("serve-rpc").arg(&socket).arg(self.at("answers.json")).arg("stay");
        Server::start(&mut command)
    }
}

/// A process of a test that is killed with the value.
struct Server(Child);

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let said = child.stdout.as_mut().expect("piped");
        BufReader::new(said).read_line(&mut line).expect("it speaks");
        assert!(line.starts_with("ready"), "the server did not start: {line}");
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn assert_not_believed(home: &TestHome, why: &str) {
    for args in [&["list", "-a"][..], &["list", "-a", "--json"]] {
        let listed = home.run(args);
        assert!(!listed.stdout.contains("PWNED"), "{listed:?}");
        assert_eq!(listed.code, Some(0), "{listed:?}");
        assert!(listed.stderr.contains("warning: ") && listed.stderr.contains(why), "{listed:?}");
    }
    let status = home.run(&["daemon", "status"]);
    assert!(status.stdout.starts_with("not running"), "{status:?}");
    assert_eq!(status.code, Some(1), "{status:?}");
    assert!(status.stderr.contains(why), "{status:?}");
    let stop = home.run(&["daemon", "stop", "--force"]);
    assert!(stop.stderr.contains("the daemon is not running"), "{stop:?}");
    let set = home.run(&["fuse", "set", ".", "--ttl", "1h"]);
    assert!(set.stderr.contains("fuses do not fire until a daemon runs"), "{set:?}");
    assert!(set.stderr.contains(why), "{set:?}");
}

/// S9: another user made the folder in a runtime directory that every user may write to.
#[test]
#[ignore = "needs root: it plays another user"]
fn a_daemon_in_another_users_folder_is_not_believed() {
    sandboxed(|| {
        let other = another_user();
        let mut home = home();
        let welcome = welcome(&home);
        let shared = Shared::new();
        other.give(&shared.at("agentctl"));
        home.set("XDG_RUNTIME_DIR", shared.at("").to_string_lossy());
        let server = shared.serve(&lies(&welcome), Some(other));
        assert_not_believed(&home, "belongs to another user");
        // The folder decides even if the process behind the socket belongs to this user.
        drop(server);
        let _server = shared.serve(&lies(&welcome), None);
        assert_not_believed(&home, "belongs to another user");
    });
}

/// S9: the folder belongs to this user by now, and the listener in it is an older one of another user.
#[test]
#[ignore = "needs root: it plays another user"]
fn a_daemon_of_another_user_is_not_believed() {
    sandboxed(|| {
        let other = another_user();
        let mut home = home();
        let welcome = welcome(&home);
        let shared = Shared::new();
        let folder = shared.at("agentctl");
        let mode = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode));
        mode(0o777).expect("set");
        home.set("XDG_RUNTIME_DIR", shared.at("").to_string_lossy());
        let _server = shared.serve(&lies(&welcome), Some(other));
        mode(0o700).expect("set");
        for args in [&["list", "-a"][..], &["list", "-a", "--json"]] {
            let listed = home.run(args);
            assert!(!listed.stdout.contains("PWNED"), "{listed:?}");
            assert!(listed.stderr.contains("is served by uid 65534"), "{listed:?}");
        }
        assert_eq!(home.run(&["daemon", "status"]).code, Some(1));
    });
}

/// S9: a folder that others may write to is never trusted for a socket, whoever owns it.
#[test]
fn a_daemon_in_a_folder_that_others_may_write_to_is_not_believed() {
    sandboxed(|| {
        let mut home = home();
        let welcome = welcome(&home);
        let shared = Shared::new();
        let folder = shared.at("agentctl");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).expect("set");
        home.set("XDG_RUNTIME_DIR", shared.at("").to_string_lossy());
        let _server = shared.serve(&lies(&welcome), None);
        let listed = home.run(&["list", "-a"]);
        assert!(!listed.stdout.contains("PWNED"), "{listed:?}");
        assert!(listed.stderr.contains("can be written by others"), "{listed:?}");
        std::fs::remove_dir_all(&folder).expect("removed");
        std::os::unix::fs::symlink(shared.at("elsewhere"), &folder).expect("linked");
        std::fs::create_dir(shared.at("elsewhere")).expect("made");
        let _server = shared.serve(&lies(&welcome), None);
        let listed = home.run(&["list", "-a"]);
        assert!(!listed.stdout.contains("PWNED"), "a link: {listed:?}");
    });
}

/// A program that listens on the daemon's socket and answers nothing.
fn mute(home: &TestHome) -> UnixListener {
    let path = home.at(SOCKET);
    std::fs::set_permissions(
        path.parent().expect("a folder"),
        std::fs::Permissions::from_mode(0o700),
    )
    .expect("set");
    let _old = std::fs::remove_file(&path);
    UnixListener::bind(path).expect("bound")
}

/// S13: the process that called `listen` has ended, and its pid belongs to another process now.
#[test]
fn stopping_a_daemon_by_force_spares_a_stranger_with_its_pid() {
    sandboxed(|| {
        let home = home();
        drop(mute(&home));
        let socket = home.path().join(SOCKET);
        std::fs::remove_file(&socket).expect("removed");
        let mut bequeath = Command::new(testkit::fake_agent());
        bequeath.arg("bequeath").arg(&socket).args(["exit", "0"]).stdout(Stdio::null());
        let mut first = spawn_at(6000, &mut bequeath);
        assert!(first.wait().expect("ends").success());
        let mut stranger = testkit::Echo::start("cat", Some(6000));
        let stopped = ends(home.command(&["daemon", "stop", "--force"]));
        assert!(stranger.answers(), "{stopped:?}");
        assert_eq!(stopped.code, Some(1), "{stopped:?}");
    });
}

/// S13: a listener on the socket that is not our daemon is not killed.
#[test]
fn stopping_a_daemon_by_force_spares_other_programs() {
    sandboxed(|| {
        let home = home();
        drop(mute(&home));
        let answers = home.write("answers.json", "{}");
        let socket = home.path().join(SOCKET);
        let mut command = Command::new(testkit::fake_agent());
        command.arg("serve-rpc").arg(&socket).arg(answers).arg("stay");
        let mut server = Server::start(&mut command);
        let stopped = ends(home.command(&["daemon", "stop", "--force"]));
        assert!(server.0.try_wait().expect("asked").is_none(), "{stopped:?}");
        assert_eq!(stopped.code, Some(1), "{stopped:?}");
        assert!(stopped.stderr.contains("is not an agentctl daemon"), "{stopped:?}");
    });
}

/// S14: connections that send nothing keep no scrape out.
#[test]
fn idle_connections_do_not_keep_a_scrape_out() {
    sandboxed(|| {
        let home = metrics::measured("");
        started(&home);
        let (port, token) = (metrics::port(&home), metrics::token(&home));
        let headers = format!("Host: localhost:{port}\r\nAuthorization: Bearer {token}\r\n");
        let connect = || TcpStream::connect(("127.0.0.1", port)).expect("connected");
        let mut idle: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
        // Half a head is no request either.
        for stream in &mut idle[..150] {
            let _full = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: local");
        }
        // An idle connection may stay for ten seconds while no other connection needs its place.
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(metrics::ask(port, "GET /metrics", &headers).code, 200);
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    });
}

/// S14: wrong tokens are throttled, the right one never is.
#[test]
fn wrong_tokens_do_not_keep_the_right_one_out() {
    sandboxed(|| {
        let home = metrics::measured("");
        started(&home);
        let (port, token) = (metrics::port(&home), metrics::token(&home));
        let with = |token: &str| {
            let headers = format!("Host: localhost:{port}\r\nAuthorization: Bearer {token}\r\n");
            metrics::ask(port, "GET /metrics", &headers).code
        };
        let mut throttled = 0;
        for _ in 0..100 {
            throttled += u32::from(with("wrong-wrong-wrong") == 429);
            assert_eq!(with(&token), 200, "after {throttled} throttled guesses");
        }
        assert!(throttled > 0, "guessing has an end");
    });
}

/// Fills the queue of a listener that never accepts.
fn fill(path: &Path) -> Vec<UnixStream> {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };
    let address = SocketAddrUnix::new(path).expect("an address");
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let mut held = Vec::new();
    loop {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket = socket.expect("a socket");
        if connect(&socket, &address).is_err() {
            return held;
        }
        held.push(socket.into());
        assert!(held.len() < 10_000, "the queue has an end");
    }
}

/// S16: a listener whose queue is full makes no command hang, and `events` ends on a signal.
#[test]
fn a_listener_that_never_accepts_is_not_waited_for() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[("live", "2s")], "");
        let listener = mute(&home);
        rustix::net::listen(&listener, 1).expect("a short queue");
        let _queue = fill(&home.path().join(SOCKET));
        let listed = ends(home.command(&["list", "-a"]));
        assert_eq!(listed.code, Some(0), "{listed:?}");
        let status = ends(home.command(&["daemon", "status"]));
        assert_eq!(status.code, Some(1), "{status:?}");
        assert!(status.stderr.contains("does not answer"), "{status:?}");
        let stopped = ends(home.command(&["daemon", "stop", "--force"]));
        assert_eq!(stopped.code, Some(1), "{stopped:?}");
    });
}

/// S16: SIGTERM ends `events` while it waits for a daemon that does not answer.
#[test]
fn events_can_be_ended_while_it_waits_for_the_daemon() {
    sandboxed(|| {
        let home = home();
        let listener = mute(&home);
        let mut events = home.command(&["events"]).stdout(Stdio::null()).spawn().expect("starts");
        let (_peer, _) = listener.accept().expect("it connects");
        // It is counted from the moment it has connected: the daemon is waited for much longer.
        signal(events.id(), Signal::TERM);
        let began = Instant::now();
        let ended = events.wait().expect("ends");
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert!(began.elapsed() < Duration::from_secs(4), "it did not wait for the daemon");
    });
}

/// S16: a daemon that sends without end is given up, not kept in memory.
#[test]
fn an_endless_answer_is_cut_at_a_limit() {
    const MOST: usize = 256 << 20;
    sandboxed(|| {
        let home = home();
        let listener = mute(&home);
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let part = vec![b'x'; 1 << 16];
            let mut sent = 0;
            while sent < MOST && stream.write_all(&part).is_ok() {
                sent += part.len();
            }
            sent
        });
        let listed = ends(home.command(&["list", "-a"]));
        assert_eq!(listed.code, Some(0), "{listed:?}");
        let sent = server.join().expect("ends");
        assert!(sent <= 150 << 20, "{sent} bytes of one line were read");
    });
}

/// S16: a packed list that is none, or that announces more than may be read, is not shown: the command looks
/// by itself. That it is shown when it is sound is asserted first.
#[test]
fn a_packed_list_that_is_none_is_not_shown() {
    sandboxed(|| {
        let home = home();
        let welcome = welcome(&home);
        let sound = lies(&welcome);
        let list: Vec<u8> = serde_json::from_value(sound["list_bytes"].clone()).expect("bytes");
        let with = |frames: u64, bytes: &[u8]| {
            let mut results = sound.clone();
            results["session.list"] = json!({"faults": [], "frames": frames});
            results["list_bytes"] = json!(bytes);
            results
        };
        let garbage = [&9_u32.to_le_bytes()[..], &[0xff; 9]].concat();
        let huge = [&u32::MAX.to_le_bytes()[..], &list[4..]].concat();
        let mut renamed = sound.clone();
        renamed["hello"]["encoding"] = "json".into();
        for (results, shown) in [
            (sound.clone(), true),
            (with(1, &garbage), false),
            (with(1, &huge), false),
            (with(2, &[&list[..], &garbage].concat()), false),
            (with(2, &[&list[..], &[0; 4]].concat()), false),
            (with(u64::MAX, &[&list[..], &garbage].concat()), false),
            (renamed, false),
        ] {
            let socket = home.at(SOCKET);
            let file = home.write("results.json", results.to_string());
            let mut command = Command::new(testkit::fake_agent());
            command.arg("serve-rpc").arg(&socket).arg(file).arg("stay");
            let _server = Server::start(&mut command);
            for args in [&["list", "-a"][..], &["list", "-a", "--json"]] {
                let listed = ends(home.command(args));
                assert_eq!(listed.code, Some(0), "{listed:?}");
                assert_eq!(listed.stdout.contains("PWNED"), shown, "{listed:?}");
            }
        }
    });
}

/// S16: a FIFO in the place of the lock file makes no command hang.
#[test]
fn a_fifo_in_the_place_of_the_lock_file_is_not_waited_for() {
    sandboxed(|| {
        let home = home();
        let lock = home.at(".local/state/agentctl/daemon.lock");
        let made = Command::new("mkfifo").arg(&lock).status().expect("mkfifo of coreutils");
        assert!(made.success());
        assert_eq!(ends(home.command(&["list", "-a"])).code, Some(0));
        assert_eq!(ends(home.command(&["daemon", "status"])).code, Some(1));
        let start = ends(home.command(&["daemon", "start"]));
        assert_eq!(start.code, Some(1), "{start:?}");
        assert!(start.stderr.contains("daemon.lock"), "{start:?}");
        std::fs::remove_file(&lock).expect("removed");
        // Nor is one in the place of the log.
        let log = home.at(".local/state/agentctl/daemon.log");
        let made = Command::new("mkfifo").arg(&log).status().expect("mkfifo of coreutils");
        assert!(made.success());
        let start = ends(home.command(&["daemon", "start"]));
        assert_eq!(start.code, Some(1), "{start:?}");
        assert!(start.stderr.contains("daemon.log"), "{start:?}");
        assert_eq!(ends(home.command(&["daemon", "logs"])).code, Some(1));
    });
}

/// Starts a daemon that may have only this many files open.
fn confined(home: &TestHome, files: u32) -> Child {
    let mut command = Command::new("prlimit");
    let run = home.command(&["daemon", "run"]);
    command.arg(format!("--nofile={files}")).arg(run.get_program()).args(run.get_args());
    command.env_clear().envs(run.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let daemon = command.stderr(Stdio::null()).stdin(Stdio::null()).spawn().expect("starts");
    eventually("it serves", || UnixStream::connect(home.path().join(SOCKET)).ok().map(drop));
    daemon
}

/// S16: connections without a request keep no client out, no matter how many there are.
#[test]
fn idle_connections_are_evicted_for_requests() {
    sandboxed(|| {
        let home = home();
        let mut daemon = confined(&home, 128);
        let _idle: Vec<Wire> = (0..200).map(|_| Wire::greeted(&home)).collect();
        let status = ends(home.command(&["daemon", "status"]));
        assert_eq!(status.code, Some(0), "{status:?}");
        assert!(status.stdout.starts_with("running"), "{status:?}");
        daemon.kill().expect("killed");
        daemon.wait().expect("reaped");
    });
}

/// S16: a daemon all of whose connections are in use is busy. It is not called absent.
#[test]
fn a_full_daemon_is_called_busy() {
    sandboxed(|| {
        let home = home();
        let mut daemon = confined(&home, 128);
        let mut listening: Vec<Wire> = Vec::new();
        for _ in 0..200 {
            let mut wire = Wire::open(&home);
            let hello = wire.try_ask("hello", &json!({"protocol": 1}));
            if hello.and_then(|_| wire.try_ask("events.subscribe", &json!({}))).is_none() {
                break;
            }
            listening.push(wire);
        }
        assert!(listening.len() > 10, "{}", listening.len());
        let status = ends(home.command(&["daemon", "status"]));
        assert_eq!(status.code, Some(1), "{status:?}");
        assert!(!status.stdout.contains("not running"), "{status:?}");
        assert!(status.stderr.contains("in use"), "{status:?}");
        let listed = ends(home.command(&["list", "-a"]));
        assert_eq!(listed.code, Some(0), "{listed:?}");
        drop(listening);
        eventually("it serves again", || {
            (home.run(&["daemon", "status"]).code == Some(0)).then_some(())
        });
        daemon.kill().expect("killed");
        daemon.wait().expect("reaped");
    });
}

/// Returns the most memory that a process has had, in bytes.
fn peak(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("readable");
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// S16: requests that are never finished cost a bounded amount of memory.
#[test]
fn unfinished_requests_cost_little_memory() {
    sandboxed(|| {
        let home = home();
        let pid = started(&home);
        let before = peak(pid);
        let part = vec![b'x'; (1 << 20) - 16];
        let mut held = Vec::new();
        for _ in 0..300 {
            let mut wire = Wire::greeted(&home);
            let stream = wire.stream();
            stream.set_write_timeout(Some(Duration::from_secs(5))).expect("set");
            // A closed connection is the expected result.
            let _refused = stream.write_all(&part);
            held.push(wire);
        }
        assert_eq!(home.run(&["daemon", "status"]).code, Some(0));
        let grown = peak(pid) - before;
        assert!(grown < 100 << 20, "{grown} bytes for requests that were never finished");
    });
}

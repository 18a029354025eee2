//! Forged locks and open files of Codex homes.

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::Value;
use testkit::{TestHome, sandboxed};

use crate::codex::{A, B, exec, rollout, started};
use crate::home;

fn list(home: &TestHome) -> testkit::Output {
    home.run(&["list", "-a", "--since", "all", "--json"])
}

/// Asserts that a stop of this thread signals no process.
fn assert_out_of_reach(home: &TestHome, id: &str, victim: &mut testkit::Agent) {
    let row = list(home).session(id);
    assert_eq!((&row["status"], &row["pid"]), (&"unknown".into(), &Value::Null), "{row}");
    for args in [&["stop", id][..], &["stop", id, "--force"]] {
        assert_ne!(home.run(args).code, Some(0), "{args:?}");
    }
    let alive = Path::new(&format!("/proc/{}/exe", victim.pid())).exists();
    assert!(alive, "the victim was killed");
}

/// S1: a hard link of a file that another program holds locked (a build's `.cargo-lock`).
#[test]
fn a_hard_link_to_another_programs_lock_joins_no_process() {
    sandboxed(|| {
        let mut home = home();
        let build = home.at("target/.cargo-lock");
        let mut victim = home.agent("cargo", "ws", &["lock", build.to_str().expect("utf-8")]);
        victim.ready();
        let forged = home.at(&format!("ws/.x/thread-writer-locks/{A}.lock"));
        std::fs::hard_link(&build, &forged).expect("linked");
        home.set("CODEX_HOME", home.path().join("ws/.x").to_string_lossy());
        let mut decoy = home.agent("codex", "ws", &["exec"]);
        decoy.ready();
        home.set("CODEX_HOME", "");
        assert_out_of_reach(&home, A, &mut victim);
    });
}

/// S1: the same, and the holder is a Codex: one of another thread, or of another home.
#[test]
fn a_hard_link_to_another_threads_lock_joins_no_process() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started()]);
        let mut victim = exec(&home, &[A], &["exec"]);
        let ours = home.path().join(format!(".codex/thread-writer-locks/{A}.lock"));
        let forged = home.path().join(format!(".codex/thread-writer-locks/{B}.lock"));
        std::fs::hard_link(ours, forged).expect("linked");
        assert_out_of_reach(&home, B, &mut victim);
    });
}

/// S1: the holder of the lock is not Codex, or a Codex whose environment names another home.
#[test]
fn a_lock_held_by_an_unproved_process_joins_no_process() {
    sandboxed(|| {
        for (name, moved) in [("vim", false), ("codex", true), ("codex-helper", false)] {
            let mut home = home();
            rollout(&home, A, &[started()]);
            let lock = crate::codex::lock(&home, A);
            if moved {
                home.set("CODEX_HOME", home.path().join("elsewhere").to_string_lossy());
            }
            let mut victim = home.agent(name, "ws", &["exec", "lock", &lock]);
            victim.ready();
            home.set("CODEX_HOME", "");
            assert_out_of_reach(&home, A, &mut victim);
        }
    });
}

/// S1: a rollout open in a Codex whose own environment names another home.
#[test]
fn a_rollout_open_in_a_codex_of_another_home_joins_no_process() {
    sandboxed(|| {
        let mut home = home();
        let path = rollout(&home, A, &[started()]);
        home.set("CODEX_HOME", home.path().join("elsewhere").to_string_lossy());
        let mut victim =
            home.agent("codex", "ws", &["exec", "open", path.to_str().expect("utf-8")]);
        victim.ready();
        home.set("CODEX_HOME", "");
        assert_out_of_reach(&home, A, &mut victim);
    });
}

/// S1: a process that only calls itself `codex`.
#[test]
fn a_program_that_calls_itself_codex_is_none() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started()]);
        let lock = crate::codex::lock(&home, A);
        drop(home.agent("vim", "ws", &["exit", "0"]));
        let mut shell = std::process::Command::new("bash");
        let line =
            format!("exec -a codex {} exec lock {lock}", home.path().join("bin/vim").display());
        shell.args(["-c", &line]).env_clear().env("HOME", home.path());
        shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = shell.spawn().expect("started");
        let mut said = String::new();
        let out = child.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said).expect("read");
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"unknown".into(), &Value::Null), "{row}");
        assert_eq!(list(&home).sessions().len(), 1, "no row of its own either");
        drop(child.stdin.take());
        child.wait().expect("reaped");
    });
}

/// Returns every byte that the connections sent which wait at this listener.
fn bytes_sent(listener: &UnixListener) -> Vec<u8> {
    let mut sent = Vec::new();
    listener.set_nonblocking(true).expect("does not block");
    while let Ok((mut connection, _)) = listener.accept() {
        connection.set_nonblocking(false).expect("blocks");
        connection.read_to_end(&mut sent).expect("read to its end");
    }
    sent
}

/// N7: a process whose arguments name the socket of another server. That server gets no request and no
/// order, neither in a home that only the process names nor in the default home.
#[test]
fn a_server_that_names_the_socket_of_another_process_is_not_asked() {
    sandboxed(|| {
        for place in ["ws/.x", ".codex"] {
            let mut home = home();
            crate::configure(&home, &[("live", "8s")], "");
            rollout(&home, A, &[started()]);
            if place != ".codex" {
                drop(home.at(place));
                let usual = home.path().join(".codex");
                std::fs::rename(usual, home.path().join(place)).expect("moved");
            }
            let socket = home.at("run/other.sock");
            let other = UnixListener::bind(&socket).expect("bound");
            let listen = format!("unix://{}", socket.display());
            let lock = home.at(&format!("{place}/thread-writer-locks/{A}.lock"));
            home.set("CODEX_HOME", home.path().join(place).to_string_lossy());
            let script = ["app-server", "--listen", &listen, "lock", lock.to_str().expect("utf-8")];
            let mut decoy = home.agent("codex", "ws", &script);
            decoy.ready();
            home.set("CODEX_HOME", "");
            let listed = list(&home);
            assert!(listed.stderr.contains("is served by another process"), "{}", listed.stderr);
            for args in [&["stop", A][..], &["stop", A, "--force"]] {
                assert_ne!(home.run(args).code, Some(0), "{place}: {args:?}");
            }
            let sent = bytes_sent(&other);
            assert!(sent.is_empty(), "{place}: {}", String::from_utf8_lossy(&sent));
            assert!(crate::stop::lives(decoy.pid()), "{place}");
        }
    });
}

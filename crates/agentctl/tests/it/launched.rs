//! Helpers for tests of launched agents: starting them, and reading their processes without the code under
//! test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;
use testkit::{TestHome, eventually};

/// Makes a directory below the home and returns its path.
pub(crate) fn folder(home: &TestHome, name: &str) -> String {
    let path = home.path().join(name);
    fs::create_dir_all(&path).expect("made");
    path.to_string_lossy().into_owned()
}

/// Launches the demo agent into a directory of its own and returns its session id.
pub(crate) fn launch(home: &TestHome, directory: &str, prompt: &str, more: &[&str]) -> String {
    let cwd = folder(home, directory);
    let mut args = vec!["launch", "demo", "-p", prompt, "--cwd", &cwd];
    args.extend(more);
    let launched = home.run(&args);
    assert_eq!(launched.code, Some(0), "{}", launched.stderr);
    let id = launched.stdout.strip_suffix('\n').expect("one line").to_owned();
    assert!(!id.contains(char::is_whitespace), "the id stands alone: {id}");
    id
}

pub(crate) fn status(home: &TestHome, id: &str) -> Value {
    home.run(&["status", id, "--json"]).json()
}

/// Waits until a session's record contains this text. A launch returns as soon as its agent has told its
/// id, so the text may come later.
pub(crate) fn until_said(home: &TestHome, id: &str, words: &str) {
    eventually(&format!("`{words}` is in the record"), || {
        home.run(&["logs", id]).stdout.contains(words).then_some(())
    });
}

/// Waits until a session's turn has begun: an agent that dies earlier was not killed in a turn.
pub(crate) fn until_asked(home: &TestHome, id: &str) {
    eventually("its turn has begun", || (!status(home, id)["prompt"].is_null()).then_some(()));
}

pub(crate) fn until_stopped(home: &TestHome, id: &str) -> Value {
    eventually("it has stopped", || {
        Some(status(home, id)).filter(|s| s["status"] == "stopped" || s["status"] == "error")
    })
}

/// Makes a program of this name that is a shell script.
pub(crate) fn script(home: &TestHome, name: &str, text: &str) -> PathBuf {
    let path = home.write(&format!("bin/{name}"), format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

/// A process in this test's namespace, as its `/proc` folder shows it.
pub(crate) struct Seen {
    pub(crate) pid: u32,
    pub(crate) argv: Vec<String>,
    pub(crate) environ: Vec<String>,
}

pub(crate) fn words(path: &str) -> Vec<String> {
    let bytes = fs::read(path).unwrap_or_default();
    let words = bytes.split(|b| *b == 0).filter(|w| !w.is_empty());
    words.map(|w| String::from_utf8_lossy(w).into_owned()).collect()
}

pub(crate) fn everyone() -> Vec<Seen> {
    let pids = fs::read_dir("/proc").expect("proc").flatten();
    let pids = pids.filter_map(|e| e.file_name().to_string_lossy().parse::<u32>().ok());
    pids.map(|pid| Seen {
        pid,
        argv: words(&format!("/proc/{pid}/cmdline")),
        environ: words(&format!("/proc/{pid}/environ")),
    })
    .collect()
}

pub(crate) fn shims() -> Vec<Seen> {
    let mut all = everyone();
    all.retain(|p| p.argv.get(1).is_some_and(|a| a == "shim"));
    all
}

/// Returns the processes that carry the marker of any run.
pub(crate) fn marked() -> Vec<Seen> {
    let mut all = everyone();
    all.retain(|p| p.environ.iter().any(|v| v.starts_with("AGENTCTL_RUN=")));
    all
}

/// Kills a process with SIGKILL and returns when it is dead, reaped or not.
pub(crate) fn kill(pid: u32) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let pid = Pid::from_raw(pid.cast_signed()).expect("a pid");
    let held = pidfd_open(pid, PidfdFlags::empty()).expect("it is there");
    pidfd_send_signal(&held, Signal::KILL).expect("killed");
    poll(&mut [PollFd::new(&held, PollFlags::IN)], None).expect("it dies");
}

pub(crate) fn runs(home: &TestHome) -> Vec<Value> {
    home.run(&["runs", "--json"]).json()["runs"].as_array().cloned().expect("a list")
}

//! The fake agent itself: without an integration test of this crate cargo would not build it.

use std::io::Write;
use std::process::{Command, Stdio};

#[test]
#[allow(clippy::disallowed_methods)]
fn it_holds_what_its_script_says_and_leaves_when_asked() {
    let dir = tempfile::tempdir().expect("dir");
    let lock = dir.path().join("x.lock");
    let mut child = Command::new(env!("CARGO_BIN_EXE_fake-agent"))
        .args(["lock", lock.to_str().expect("utf-8"), "say", "{pid}"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut said = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).expect("speaks");
    assert_eq!(line.trim(), child.id().to_string());
    assert!(std::fs::File::open(&lock).expect("there").try_lock().is_err(), "the lock is held");
    child.stdin.take().expect("piped").flush().expect("flushed");
    assert!(child.wait().expect("ends").success());
}

//! Agents that begin where no folder is watched are noticed by their processes (W17).
//!
//! No other change happens in these namespaces: an event here proves that a process was noticed, long
//! before the look that comes once a minute.
#![cfg(target_os = "linux")]
// Tests build their own host; helpers of tests panic like the tests themselves.
#![allow(clippy::disallowed_methods, clippy::expect_used)]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_core::adapters::ALL;
use agentctl_core::events::Watcher;
use agentctl_core::fleet::Fleet;
use agentctl_core::host::{Deadlines, Host};
use agentctl_core::kernel::Kernel;
use agentctl_core::model::Time;
use testkit::{Agent, TestHome, sandboxed};

const ID: &str = "aaaaaaaa-0000-4000-8000-000000000001";
/// Half of the time after which everything is looked at in any case.
const IN_TIME: Duration = Duration::from_secs(30);
/// Long enough for everything that lives to have been counted.
const COUNTED: Duration = Duration::from_secs(3);

fn host(home: &TestHome) -> Arc<Host> {
    Arc::new(Host {
        deadlines: Deadlines { live: IN_TIME, all: IN_TIME, ..Deadlines::default() },
        ..Host::new(home.path(), Kernel::open().expect("a kernel"), || Time(jiff::Timestamp::now()))
    })
}

/// A home of Claude Code that is not watched.
struct Moved {
    home: TestHome,
    watcher: Watcher,
}

impl Moved {
    fn new() -> Self {
        let home = TestHome::new("unused");
        let mut watcher = Watcher::new(Fleet::new(host(&home), ALL)).expect("a watcher");
        // Each newly watched object causes another look.
        for _ in 0..3 {
            watcher.look();
            watcher.wait(Duration::from_millis(300)).expect("waited");
        }
        watcher.look();
        Self { home, watcher }
    }

    /// The script that makes a fake agent a session of Claude Code.
    fn script(&self) -> Vec<String> {
        let record = serde_json::json!({
            "sessionId": ID, "cwd": "/work", "startedAt": 1_794_728_785_156_i64, "procStart": "{start}",
            "pidDomain": "linux:{machine}:pid:[{ns}]", "kind": "interactive", "entrypoint": "cli",
            "version": "2.1.325", "status": "busy",
        });
        let path = self.home.path().join("moved/sessions/{pid}.json");
        vec!["write".into(), path.to_string_lossy().into_owned(), record.to_string()]
    }

    fn program(&self) -> PathBuf {
        let program = self.home.at("bin/claude");
        if !program.exists() {
            std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        }
        program
    }

    /// Starts a program in a clean environment that names the moved home.
    fn start(&self, program: &Path, args: &[String]) -> Agent {
        let mut command = Command::new(program);
        command.args(args).env_clear().env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin");
        command.env("CLAUDE_CONFIG_DIR", self.home.path().join("moved"));
        command.current_dir(self.home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        Agent { child: command.spawn().expect("starts") }
    }

    /// Waits and looks until this event of the session is reported.
    fn until(&mut self, kind: &str) {
        let until = Instant::now() + IN_TIME;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.watcher.wait(left).expect("waited");
            assert!(Instant::now() < until, "{kind} was not told in time");
            let told = self.watcher.look().events;
            let own = told.iter().filter(|event| event.session_id.as_deref() == Some(ID));
            if own.into_iter().any(|event| event.kind.word() == kind) {
                return;
            }
        }
    }
}

#[test]
fn a_session_in_a_home_that_only_its_own_environment_names_begins_and_ends() {
    sandboxed(|| {
        let mut moved = Moved::new();
        let mut agent = moved.start(&moved.program(), &moved.script());
        moved.until("session.started");
        agent.kill();
        moved.until("session.stopped");
    });
}

/// `exec` moves no counter: a shell that was there for a while becomes the agent.
#[test]
fn a_shell_that_becomes_an_agent_is_noticed() {
    sandboxed(|| {
        let mut moved = Moved::new();
        let mut script = vec!["-c".into(), "read -r line; exec \"$0\" \"$@\"".into()];
        script.push(moved.program().to_string_lossy().into_owned());
        script.extend(moved.script());
        let mut agent = moved.start(Path::new("/bin/sh"), &script);
        moved.watcher.wait(COUNTED).expect("waited");
        agent.child.stdin.as_mut().expect("piped").write_all(b"go\n").expect("heard");
        moved.until("session.started");
        agent.kill();
        moved.until("session.stopped");
    });
}

/// A script has the name of its file, and so has the program that it becomes.
#[test]
fn a_script_of_the_agents_name_that_becomes_the_agent_is_noticed() {
    sandboxed(|| {
        let mut moved = Moved::new();
        let wrapper = moved.home.at("wrappers/claude");
        let program = moved.program();
        let text = format!("#!/bin/sh\nread -r line\nexec '{}' \"$@\"\n", program.display());
        std::fs::write(&wrapper, text).expect("written");
        std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).expect("executable");
        let mut agent = moved.start(&wrapper, &moved.script());
        moved.watcher.wait(COUNTED).expect("waited");
        agent.child.stdin.as_mut().expect("piped").write_all(b"go\n").expect("heard");
        moved.until("session.started");
    });
}

#[test]
fn other_processes_and_threads_are_no_reason_to_look() {
    sandboxed(|| {
        let mut moved = Moved::new();
        let program = moved.home.at("bin/make");
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(moved.start(&program, &[]));
            std::thread::spawn(|| {}).join().expect("a thread");
            let began = Instant::now();
            moved.watcher.wait(COUNTED).expect("waited");
            assert!(began.elapsed() >= COUNTED, "it was woken");
        }
    });
}

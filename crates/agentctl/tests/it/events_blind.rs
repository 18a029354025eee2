//! `events` where the kernel reports few or no file events: it polls, and every command that is asked
//! reports that.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use testkit::{TestHome, UserNamespace, eventually, sandboxed};

use crate::daemon::{signal, started};
use crate::events::{Stream, tell};
use crate::home;
use crate::launched::{folder, launch};
use crate::wait::Running;

fn limit(what: &str, count: u32) -> String {
    format!(
        "all {what} are taken: user.max_inotify_{what} is {count}; raise it: sysctl -w user.max_inotify_{what}="
    )
}

/// Returns the part of `doctor` about the delay of changes.
fn changes(command: &mut Command) -> (String, String) {
    let output = command.stdin(Stdio::null()).output().expect("runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let row = checks.iter().find(|c| c["area"] == "events" && c["name"] == "changes");
    let text = |key: &str| row.expect("a row")[key].as_str().expect("text").to_owned();
    (text("state"), text("detail"))
}

#[test]
fn at_a_kernel_limit_it_polls_and_names_the_limit() {
    sandboxed(|| {
        for (what, count) in [("instances", 0), ("watches", 1)] {
            let mut home = home();
            home.write(".codex/config.toml", "");
            let doctor = ["doctor", "--json"];
            assert_eq!(changes(&mut home.command(&doctor)).0, "ok");
            let namespace = UserNamespace::with_inotify_limit(what, count);
            home.enter(&namespace);
            let stream = Stream::from(&mut home.command(&["events"]));
            let said = eventually("it is said", || Some(stream.said()).filter(|s| !s.is_empty()));
            assert!(
                said.contains("changes may be seen late: file events are not available"),
                "{said}"
            );
            assert!(said.contains(&limit(what, count)), "{said}");
            let (state, detail) = changes(&mut home.command(&doctor));
            assert_eq!(state, "degraded", "{detail}");
            assert!(detail.contains(&limit(what, count)), "{detail}");
            folder(&home, "w");
            let id = launch(&home, "w", "x [[ask:go?]] [[say:y]]", &[]);
            stream.until(&id, &["started", "waiting"]);
            tell(&home, &id, "go");
            stream.last(&id, "stopped");
            assert_eq!(stream.said(), said, "once");
        }
    });
}

#[test]
fn a_daemon_at_a_kernel_limit_reports_it() {
    sandboxed(|| {
        let mut home = home();
        let namespace = UserNamespace::with_inotify_limit("watches", 1);
        home.enter(&namespace);
        let mut daemon = home.command(&["daemon", "run"]);
        let _daemon =
            Running(daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts"));
        let status = || home.run(&["daemon", "status", "--json"]).json();
        let trouble = eventually("it says so", || status()["trouble"].as_str().map(str::to_owned));
        assert!(trouble.contains(&limit("watches", 1)), "{trouble}");
        let shown = home.run(&["daemon", "status"]).stdout;
        assert!(shown.contains(&trouble), "{shown}");
        let (state, detail) = changes(&mut home.command(&["doctor", "--json"]));
        assert_eq!(
            (state.as_str(), detail),
            ("degraded", format!("the daemon may see them late: {trouble}"))
        );
        let stream = Stream::of_daemon(&home, &[]);
        folder(&home, "w");
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        stream.until(&id, &["started", "waiting"]);
    });
}

/// Changes more files than the kernel keeps events of, in a folder that is watched.
fn flood(home: &TestHome) {
    let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("a limit");
    let most: u32 = most.trim().parse().expect("a number");
    let files = ["a", "b"].map(|name| home.at(&format!(".local/state/agentctl/locks/.{name}")));
    // The same event twice in a row is one.
    for round in 0..most {
        std::fs::write(&files[(round % 2) as usize], "x").expect("written");
    }
}

const OVERFLOW: &str =
    "more files changed at once than the system keeps for us (fs.inotify.max_queued_events)";

#[test]
fn lost_file_events_are_compensated_and_reported() {
    sandboxed(|| {
        let home = home();
        home.write(".local/state/agentctl/locks/.a", "");
        let daemon = started(&home);
        let (own, told) = (Stream::of(&home, &[]), Stream::of_daemon(&home, &[]));
        folder(&home, "w");
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        for stream in [&own, &told] {
            stream.last(&id, "waiting");
        }
        assert_eq!(home.run(&["daemon", "status", "--json"]).json()["trouble"], Value::Null);
        own.signal(Signal::STOP);
        signal(daemon, Signal::STOP);
        flood(&home);
        // No process gets an event for this change.
        tell(&home, &id, "go");
        own.signal(Signal::CONT);
        signal(daemon, Signal::CONT);
        for stream in [&own, &told] {
            stream.last(&id, "stopped");
        }
        eventually("it is said", || own.said().contains(OVERFLOW).then_some(()));
        let status = || home.run(&["daemon", "status", "--json"]).json();
        eventually("the daemon says so", || (status()["trouble"] == OVERFLOW).then_some(()));
        let (state, detail) = changes(&mut home.command(&["doctor", "--json"]));
        assert_eq!(state, "degraded", "{detail}");
        assert!(detail.contains(OVERFLOW), "{detail}");
        // All later changes are reported, too.
        assert_eq!(home.run(&["lock", "w"]).code, Some(0));
        for stream in [&own, &told] {
            let locked = |e: &Value| e["type"] == "lock.acquired" && e["lock"]["kind"] == "manual";
            eventually("it is told", || stream.heard().into_iter().find(|e| locked(e)));
        }
    });
}

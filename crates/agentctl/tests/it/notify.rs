//! Notifications with real programs: once per event, not for late events, and without delaying others.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentctl::config::NotifySettings;
use agentctl::daemon::notify::Notify;
use agentctl_core::events::{Event, EventKind};
use agentctl_core::model::{Outcome, Reason, ReasonKind};
use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::event_sinks::{Recorder, at, event, host, session};
use crate::home;
use crate::launched::script;

pub(crate) struct Stage {
    pub(crate) home: TestHome,
    pub(crate) notify: Notify,
    pub(crate) said: Recorder,
}

pub(crate) fn stage(settings: impl FnOnce(&TestHome) -> NotifySettings) -> Stage {
    let home = home();
    let said = Recorder::default();
    let settings = settings(&home);
    let notify = Notify::start(settings, &host(&home, || at(0)), said.say()).expect("started");
    Stage { home, notify, said }
}

pub(crate) fn with(program: PathBuf) -> NotifySettings {
    let command = Some(vec![program.to_string_lossy().into_owned(), "a  'b".into()]);
    NotifySettings { command, ..NotifySettings::default() }
}

pub(crate) fn waiting(id: &str) -> Arc<Event> {
    let mut session = session();
    session.status = agentctl_core::model::Status::Waiting;
    session.reason =
        Some(Reason::with(ReasonKind::Permission, "Bash: npm <b>test</b>\u{1b}[31m\0"));
    session.title = Some("Fix the login\nnow".into());
    event(EventKind::Waiting, id, session)
}

/// Waits until a file below the home has this many lines.
fn lines(home: &TestHome, name: &str, count: usize) -> Vec<String> {
    eventually("the program has written", || {
        let text = fs::read_to_string(home.path().join(name)).ok()?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Some(lines).filter(|lines| lines.len() >= count)
    })
}

#[test]
fn the_default_command_gets_a_title_and_escaped_text() {
    sandboxed(|| {
        let stage = stage(|home| {
            let text = "for a in \"$@\"; do printf '%s|' \"$a\"; done | tr '\\n' '~' > \"$HOME/args.new\"; mv \"$HOME/args.new\" \"$HOME/args\"";
            script(home, "notify-send", &format!("HOME='{}'\n{text}", home.path().display()));
            NotifySettings::default()
        });
        stage.notify.offer(&waiting("e-1"));
        let args = lines(&stage.home, "args", 1).remove(0);
        assert_eq!(
            args,
            "--app-name=agentctl|--|demo needs you|permission: Bash: npm &lt;b&gt;test&lt;/b&gt;\\x1b[31m\\x00~Fix the login now~/w/shop|"
        );
        eventually("it is counted", || (stage.notify.status().shown == 1).then_some(()));
    });
}

#[test]
fn a_configured_command_gets_variables_and_json_on_stdin() {
    sandboxed(|| {
        let stage = stage(|home| {
            let here = home.path().display().to_string();
            let text = format!(
                "cat > '{here}/in.json'\nenv | grep ^AGENTCTL_ | sort > '{here}/env'\necho \"$1\" >> '{here}/env'\necho end >> '{here}/env'"
            );
            with(script(home, "mine", &text))
        });
        let mut ended = session();
        ended.outcome = Some(Outcome::Killed);
        stage.notify.offer(&event(EventKind::Stopped, "e-9", ended));
        let told = eventually("it was told", || {
            let text = fs::read_to_string(stage.home.path().join("env")).ok()?;
            text.ends_with("end\n").then_some(text)
        });
        crate::hook_page::assert_documented("Notification commands", &told);
        for line in [
            "AGENTCTL_EVENT=session.stopped",
            "AGENTCTL_EVENT_ID=e-9",
            "AGENTCTL_ADAPTER=demo",
            "AGENTCTL_SESSION_ID=s-1",
            "AGENTCTL_CWD=/w/shop",
            "AGENTCTL_STATUS=stopped",
            "AGENTCTL_TITLE=demo was killed",
            "AGENTCTL_TEXT=/w/shop",
            "a  'b",
        ] {
            assert!(told.lines().any(|l| l == line), "no {line} in\n{told}");
        }
        let json = fs::read(stage.home.path().join("in.json")).expect("written");
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!((&json["id"], &json["type"]), (&"e-9".into(), &"session.stopped".into()));
        let left: Vec<_> = fs::read_dir(stage.home.path().join(".local/state/agentctl"))
            .expect("there")
            .flatten()
            .collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn an_event_is_shown_once_and_late_events_never() {
    sandboxed(|| {
        let stage = stage(|home| {
            let log = home.path().join("log");
            let text = format!("echo \"$AGENTCTL_EVENT_ID\" >> '{}'", log.display());
            with(script(home, "mine", &text))
        });
        let mut late = (*waiting("late")).clone();
        late.late = true;
        stage.notify.offer(&Arc::new(late));
        stage.notify.offer(&event(EventKind::Running, "unwanted", session()));
        let mut subagent = session();
        subagent.parent = Some("s-0".into());
        stage.notify.offer(&event(EventKind::Stopped, "subagent", subagent));
        for id in ["e-1", "e-1", "e-2", "e-1"] {
            stage.notify.offer(&waiting(id));
            // One after the other: two programs run at once, in any order.
            let before = stage.notify.status().shown;
            eventually("it is shown or was", || {
                let log = fs::read_to_string(stage.home.path().join("log")).unwrap_or_default();
                (log.contains(id) && stage.notify.status().shown >= before.max(1)).then_some(())
            });
        }
        stage.notify.offer(&waiting("last"));
        assert_eq!(lines(&stage.home, "log", 3), ["e-1", "e-2", "last"]);
    });
}

#[test]
fn failing_programs_are_counted_logged_and_delay_no_other() {
    sandboxed(|| {
        let stage = stage(|home| {
            let log = home.path().join("log");
            let text = format!(
                "case $AGENTCTL_EVENT_ID in\nbad) echo no\\\\033[31mbus >&2; exit 3;;\nhang) sleep 1000 & wait;;\n*) echo \"$AGENTCTL_EVENT_ID\" >> '{}';;\nesac",
                log.display()
            );
            // Long enough for a program that does not hang, on any machine.
            NotifySettings { limit: Duration::from_secs(10), ..with(script(home, "mine", &text)) }
        });
        for id in ["hang", "bad", "good"] {
            stage.notify.offer(&waiting(id));
        }
        assert_eq!(lines(&stage.home, "log", 1), ["good"]);
        eventually("both failures are counted", || {
            let status = stage.notify.status();
            (status.failed == 2 && status.shown == 1).then_some(())
        });
        let said = stage.said.all().join("\n");
        assert!(said.contains("exited with 3: no"), "{said}");
        assert!(said.contains("was ended after"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
        eventually("the hanging program and its children are gone", || {
            let all = crate::launched::everyone();
            (!all.iter().any(|p| p.argv.iter().any(|a| a == "1000"))).then_some(())
        });
    });
}

#[test]
fn a_missing_or_unsafe_program_is_only_reported() {
    sandboxed(|| {
        let stage = stage(|_| NotifySettings {
            command: Some(vec!["no-such-program".into()]),
            ..NotifySettings::default()
        });
        stage.notify.offer(&waiting("e-1"));
        eventually("it is counted", || (stage.notify.status().failed == 1).then_some(()));
        let error = stage.notify.status().last_error.expect("an error");
        assert!(error.contains("`no-such-program` is not a program"), "{error}");
    });
}

#[test]
fn when_all_programs_hang_the_queue_is_limited() {
    sandboxed(|| {
        let stage = stage(|home| with(script(home, "mine", "sleep 1000")));
        for number in 0..100 {
            stage.notify.offer(&waiting(&format!("e-{number}")));
        }
        let status = stage.notify.status();
        // Two run and 32 wait; the threads may not have taken their first event yet.
        assert!((66..=68).contains(&status.dropped), "{status:?}");
        assert!(stage.said.all().iter().any(|s| s.contains("dropped")));
    });
}

//! The first moments of a session in OpenCode's terminal: it is in the database before the log names it.

use serde_json::Value;
use testkit::{Agent, TestHome, sandboxed};

use crate::assert_list_equals_status;
use crate::opencode::{A, DATA, Store, agent, answered, asked, line, list, working, world};

/// A terminal that has written that it has started, and of no session.
fn terminal(home: &TestHome, run: &str) -> Agent {
    agent(home, &[], &[line(run, "message=init")])
}

/// The rows of these processes, and of the session A.
fn rows(home: &TestHome, pids: &[u32]) -> Vec<Value> {
    let theirs = |row: &Value| row["id"] == A || pids.iter().any(|pid| row["pid"] == *pid);
    list(home).sessions().into_iter().filter(theirs).collect()
}

fn make_session(store: &Store, directory: &str) {
    store.session_made(A, directory, None, 0);
}

/// The log names a session seconds after the database holds it: the terminal that has begun it is shown in the
/// row of the session, and is not idle.
#[test]
fn a_terminal_that_may_have_begun_a_session_has_no_idle_row_beside_it() {
    sandboxed(|| {
        let (home, store, directory) = world();
        let only = terminal(&home, "aaaa0001");
        let before = rows(&home, &[only.pid()]);
        assert_eq!(before.len(), 1, "{before:?}");
        assert_eq!(before[0]["status"], "idle", "{before:?}");
        make_session(&store, &directory);
        for message in [None, Some(asked()), Some(working())] {
            if let Some(message) = message {
                store.message(A, 0, &message);
            }
            let now = rows(&home, &[only.pid()]);
            assert_eq!(now.len(), 1, "{now:?}");
            assert_eq!(
                (&now[0]["id"], &now[0]["status"]),
                (&A.into(), &"unknown".into()),
                "{now:?}"
            );
            assert_eq!(now[0]["pid"], only.pid(), "{now:?}");
            assert_eq!(now[0]["processes"][0]["join"], "inferred", "{now:?}");
            assert_list_equals_status(&home);
        }
        // Its process is named by place and time only: nothing is signalled.
        for args in [&["stop", A][..], &["stop", A, "--force"]] {
            let refused = home.run(args);
            assert_eq!(refused.code, Some(5), "{args:?}: {}", refused.stderr);
        }
        assert!(crate::stop::lives(only.pid()));
    });
}

/// Of two terminals one has begun the session: neither is known to be idle.
#[test]
fn of_two_terminals_that_may_have_begun_a_session_neither_is_idle() {
    sandboxed(|| {
        let (home, store, directory) = world();
        let both = [terminal(&home, "aaaa0001"), terminal(&home, "aaaa0002")];
        let pids = both.each_ref().map(Agent::pid);
        make_session(&store, &directory);
        let now = rows(&home, &pids);
        assert_eq!(now.len(), 3, "{now:?}");
        assert!(now.iter().all(|row| row["status"] == "unknown"), "{now:?}");
    });
}

/// The log names a session that the terminal has made, and the prompt is not in the database yet.
#[test]
fn a_session_without_its_first_prompt_is_not_idle() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        let run = "aaaa0001";
        let made = line(run, &format!("message=created id={A} slug=quiet-fox"));
        let agent = agent(&home, &[], &[line(run, "message=init"), made]);
        let now = rows(&home, &[agent.pid()]);
        assert_eq!(now.len(), 1, "{now:?}");
        assert_eq!((&now[0]["id"], &now[0]["status"]), (&A.into(), &"unknown".into()), "{now:?}");
        store.message(A, 0, &asked());
        let now = rows(&home, &[agent.pid()]);
        assert_eq!((now.len(), &now[0]["status"]), (1, &"running".into()), "{now:?}");
    });
}

/// Before 1.17 each process had a log of its own: a log that no process has open belongs to an ended
/// process.
#[test]
fn a_session_in_the_log_of_an_ended_process_was_not_begun_by_a_terminal() {
    sandboxed(|| {
        let (home, store, directory) = world();
        let database = home.at(&format!("{DATA}/opencode.db")).to_string_lossy().into_owned();
        let log = home.at(&format!("{DATA}/log/2026-11-15T145716.log"));
        let line = "INFO  2026-11-15T14:57:16 +0ms service=default version=1.14.41 opencode";
        let script = ["keep", &log.to_string_lossy(), line, "open", &database];
        let mut terminal = home.agent("opencode", "ws", &script);
        terminal.ready();
        make_session(&store, &directory);
        store.message(A, 0, &answered("stop"));
        assert_eq!(list(&home).session(A)["status"], "unknown", "no log names it");
        let made = format!("INFO  2026-11-15T14:58:16 +0ms service=session id={A} created\n");
        home.write(&format!("{DATA}/log/2026-11-15T145816.log"), made);
        assert_eq!(list(&home).session(A)["status"], "stopped");
        let now = rows(&home, &[terminal.pid()]);
        let own = now.iter().find(|row| row["pid"] == terminal.pid()).expect("its own row");
        assert_eq!((&own["id"], &own["status"]), (&Value::Null, &"idle".into()), "{own}");
    });
}

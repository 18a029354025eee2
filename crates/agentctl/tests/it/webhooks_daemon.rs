//! Webhooks and notifications of the real daemon for the end of a launched agent, also when the daemon is
//! killed or does not run.

use std::fs;

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::receiver::{Manner, Receiver, Request};
use testkit::{TestHome, eventually, eventually_or, sandboxed};

use crate::daemon::{signal, started};
use crate::inbox::{ask_of, id_of};
use crate::launched::{launch, runs, script};
use crate::{configure, home};

const SECRET: &str = "hush-hush-9876543210";

fn configured(receiver: &Receiver, more: &str) -> TestHome {
    let home = home();
    configure(&home, &[], &webhook_tables(receiver, more));
    home
}

fn webhook_tables(receiver: &Receiver, more: &str) -> String {
    let url = format!("http://127.0.0.1:{}/PATHSECRET", receiver.port);
    format!(
        "[[webhooks]]\nurl = \"{url}\"\nallow_private = true\nsecret = \"{SECRET}\"\nname = \"ops\"\ntypes = [\"stopped\", \"error\"]\n{more}\n"
    )
}

/// Waits for a request about a session that matches.
#[track_caller]
fn told(receiver: &Receiver, id: &str, is: impl Fn(&Value) -> bool) -> Request {
    let stand = || {
        let told = receiver
            .requests()
            .into_iter()
            .map(|r| r.json()["id"].to_string() + &r.json()["late"].to_string());
        format!("told: {:?}", told.collect::<Vec<_>>())
    };
    eventually_or("its end is told", stand, || {
        let about = |r: &Request| r.json()["session_id"] == id && is(&r.json());
        receiver.requests().into_iter().find(about)
    })
}

/// Waits until the lock of the last daemon is free.
fn until_free(home: &TestHome) {
    let lock = home.path().join(".local/state/agentctl/daemon.lock");
    eventually("the lock is free", || {
        let lock = fs::File::open(&lock).expect("there");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()
    });
}

fn delivered(home: &TestHome) -> u64 {
    let status = home.run(&["daemon", "status", "--json"]).json();
    status["webhooks"][0]["delivered"].as_u64().expect("a number")
}

#[test]
fn an_end_is_posted_with_its_exit_code_and_callback_fields() {
    sandboxed(|| {
        let (receiver, trap) = (Receiver::start([]), Receiver::start([]));
        let mut home = configured(&receiver, "");
        for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"] {
            home.set(name, format!("http://127.0.0.1:{}", trap.port));
        }
        started(&home);
        let callback = ["--callback-session", "agent:main:main", "--callback-agent", "main"];
        let id = launch(&home, "w", "fix it [[tool:kill -9 $PPID]]", &callback);
        let request = told(&receiver, &id, |_| true);
        let body = request.json();
        assert_eq!(
            (&body["exit_status"], &body["hook_type"]),
            (&json!(137), &json!("session.stopped"))
        );
        assert_eq!((&body["adapter"], &body["late"]), (&json!("demo"), &json!(false)));
        let meta = json!({ "openclaw_callback_session_key": "agent:main:main", "openclaw_callback_agent_id": "main" });
        assert_eq!(body["meta"], meta);
        assert_eq!(body["cwd"], json!(home.path().join("w")));
        assert!(body["summary"].as_str().expect("a summary").starts_with("fix it"));
        assert!(body["duration_seconds"].as_f64().expect("a number") >= 0.0);
        assert!(request.header("webhook-signature").is_some_and(|s| s.starts_with("v1,")));
        // A signature of the body alone could be replayed, so it needs `body_signatures`.
        for name in ["x-agentctl-signature", "x-signature", "x-hub-signature-256"] {
            assert_eq!(request.header(name), None, "{name}");
        }
        let failed = launch(&home, "v", "x [[error:no luck]]", &[]);
        let body = told(&receiver, &failed, |_| true).json();
        assert_eq!((&body["exit_status"], &body["type"]), (&json!(1), &json!("session.error")));
        assert_eq!(body["hook_type"], "session.stopped");
        assert_eq!(trap.connections(), 0, "no proxy is asked");
        eventually("both are counted", || (delivered(&home) == 2).then_some(()));
        let shown = home.run(&["daemon", "status", "--json"]).stdout
            + &home.run(&["daemon", "status"]).stdout
            + &home.run(&["daemon", "logs"]).stdout;
        assert!(shown.contains("ops"), "{shown}");
        assert!(!shown.contains(SECRET) && !shown.contains("PATHSECRET"), "{shown}");
    });
}

#[test]
fn the_next_daemon_sends_undelivered_ends_late_with_the_same_id() {
    sandboxed(|| {
        // A retry after the end of this test: no request is running when the daemon is killed.
        let later = Manner::With(500, "Retry-After: 3600".into());
        let receiver = Receiver::always(later);
        let home = configured(&receiver, "");
        let pid = started(&home);
        let id = launch(&home, "w", "x [[say:ok]]", &[]);
        let refused = told(&receiver, &id, |_| true);
        signal(pid, Signal::KILL);
        until_free(&home);
        // The daemon is dead: requests from here on are those of the next one.
        let refusals = receiver.requests().len();
        receiver.from_now_on(Manner::Status(204));
        started(&home);
        let late = eventually("it is taken", || {
            let own = |r: &Request| r.json()["session_id"] == id;
            receiver.requests().into_iter().skip(refusals).find(own)
        });
        assert_eq!(late.json()["late"], true);
        assert_eq!(late.header("webhook-id"), refused.header("webhook-id"));
        let run = runs(&home).pop().expect("a run");
        let at = &late.json()["at"];
        assert_eq!((at, &late.json()["exit_status"]), (&run["ended_at"], &json!(0)));
        eventually("it is counted", || (delivered(&home) == 1).then_some(()));
        // A delivered end is marked: the next daemon does not send it again.
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
        until_free(&home);
        started(&home);
        let other = launch(&home, "w", "x [[say:ok]]", &[]);
        let _other = told(&receiver, &other, |_| true);
        let taken = receiver.requests().split_off(refusals);
        let same = |r: &&Request| r.header("webhook-id") == refused.header("webhook-id");
        assert_eq!(taken.iter().filter(same).count(), 1);
    });
}

#[test]
fn an_end_without_a_daemon_is_sent_late_with_its_own_time_and_not_shown() {
    sandboxed(|| {
        let receiver = Receiver::start([]);
        let home = configured(&receiver, "[notify]\ncommand = [\"mine\"]");
        let log = home.path().join("log");
        let text = format!("echo \"$AGENTCTL_SESSION_ID\" >> '{}'", log.display());
        let _program = script(&home, "mine", &text);
        // The first daemon makes the endpoint known: ends before that are not sent.
        started(&home);
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
        until_free(&home);
        let missed = launch(&home, "w", "x [[say:ok]]", &[]);
        // The shim records the exit code a moment after the end.
        let run =
            eventually("its end is kept", || runs(&home).pop().filter(|r| !r["exit"].is_null()));
        started(&home);
        let body = told(&receiver, &missed, |_| true).json();
        assert_eq!((&body["late"], &body["exit_status"]), (&json!(true), &json!(0)));
        assert_eq!(body["at"], run["ended_at"], "{body}");
        let seen = launch(&home, "w", "x [[say:ok]]", &[]);
        let shown = eventually("the other one is shown", || {
            fs::read_to_string(&log).ok().filter(|text| text.contains(&seen))
        });
        assert_eq!(shown, format!("{seen}\n"), "once, and no history");
        eventually("it is counted", || {
            let status = home.run(&["daemon", "status", "--json"]).json();
            (status["notify"]["shown"] == 1 && status["notify"]["failed"] == 0).then_some(())
        });
        assert!(home.run(&["daemon", "status"]).stdout.contains("notify    1 shown, 0 failed"));
    });
}

#[test]
fn a_new_endpoint_gets_no_ends_from_before_it_was_configured() {
    sandboxed(|| {
        let (first, second) = (Receiver::start([]), Receiver::start([]));
        let home = configured(&first, "");
        let missed = launch(&home, "w", "x [[say:ok]]", &[]);
        eventually("its end is kept", || runs(&home).pop().filter(|r| !r["exit"].is_null()));
        started(&home);
        let seen = launch(&home, "w", "x [[say:ok]]", &[]);
        told(&first, &seen, |_| true);
        let about = |receiver: &Receiver, id: &str| {
            receiver.requests().iter().filter(|r| r.json()["session_id"] == id).count()
        };
        assert_eq!(about(&first, &missed), 0, "it ended before the endpoint was configured");

        // An end while no daemon runs is sent late to the known endpoint, and not to one added since.
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
        until_free(&home);
        let between = launch(&home, "w", "x [[say:ok]]", &[]);
        eventually("its end is kept", || {
            runs(&home).into_iter().find(|r| r["session"] == *between && !r["exit"].is_null())
        });
        let url = format!("http://127.0.0.1:{}/other", second.port);
        let added = format!("[[webhooks]]\nurl = \"{url}\"\nallow_private = true");
        configure(&home, &[], &webhook_tables(&first, &added));
        started(&home);
        let late = told(&first, &between, |_| true);
        assert_eq!(late.json()["late"], true);
        let after = launch(&home, "w", "x [[say:ok]]", &[]);
        told(&second, &after, |_| true);
        assert_eq!(about(&second, &between), 0, "it ended before the endpoint was added");
    });
}

#[test]
fn an_ask_is_posted_when_it_is_opened_and_when_it_is_settled() {
    sandboxed(|| {
        let receiver = Receiver::start([]);
        let home = home();
        let types = "types = [\"ask.opened\", \"ask.settled\"]";
        let tables = webhook_tables(&receiver, "");
        configure(&home, &[], &tables.replace("types = [\"stopped\", \"error\"]", types));
        started(&home);
        let id = launch(&home, "w", "x [[permit:true]] [[say:done]]", &[]);
        let ask = ask_of(&home, &id);
        let opened = told(&receiver, &id, |body| body["type"] == "ask.opened").json();
        for field in ["id", "title", "kind", "parts", "choices", "via"] {
            assert_eq!(opened["ask"][field], ask[field], "{field}");
        }
        assert_eq!(ask["title"], "shell: true");
        assert_eq!(home.run(&["answer", &id_of(&ask), "--allow"]).code, Some(0));
        let settled = told(&receiver, &id, |body| body["type"] == "ask.settled").json();
        for field in ["id", "title"] {
            assert_eq!(settled["ask"][field], ask[field], "{field}");
        }
        let told = receiver.requests().into_iter().map(|request| request.json()["type"].clone());
        assert_eq!(told.collect::<Vec<_>>(), ["ask.opened", "ask.settled"]);
    });
}

//! `events` beside a daemon that is killed, and beside other watchers that report the same.

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::receiver::{Manner, Receiver};
use testkit::{TestHome, eventually, sandboxed};

use crate::claude_code::{self, Claude, prompt};
use crate::daemon::{signal, started};
use crate::events::{Stream, tell};
use crate::home;
use crate::launched::{folder, launch, runs};

/// The events of this type about this directory, in their order.
fn about(stream: &Stream, kind: &str, directory: &str) -> Vec<Value> {
    let own = |e: &Value| {
        e["type"] == kind
            && (e["lock"]["directory"] == directory || e["fuse"]["directory"] == directory)
    };
    stream.heard().into_iter().filter(own).collect()
}

fn ended(home: &TestHome, id: &str) -> Value {
    eventually("its end is kept", || {
        runs(home).into_iter().find(|run| run["session"] == id && !run["exit"].is_null())
    })
}

#[test]
fn a_change_without_a_daemon_is_reported_once_by_each_listener() {
    sandboxed(|| {
        let claude = Claude::new();
        let home = &claude.home;
        let daemon = started(home);
        let all = Stream::of_daemon(home, &[]);
        // A stream that wants only ends must know the starts too.
        let types = "fuse.set,fuse.cancelled,lock.released,stopped";
        let ends = Stream::of_daemon(home, &["--type", types]);
        let (ours, mine) = (folder(home, "ours"), folder(home, "mine"));
        let id = launch(home, "ours", "x [[hang]]", &[]);
        claude.transcript(claude_code::A, &[prompt("fix it")]);
        let mut agent = claude.live(claude_code::A, &json!({"status": "busy"}));
        let theirs = home.run(&["status", claude_code::A, "--json"]).json()["cwd"].clone();
        let theirs = theirs.as_str().expect("a directory").to_owned();
        assert_eq!(home.run(&["lock", "mine", "--by", "me"]).code, Some(0));
        for directory in [&ours, &theirs, &mine] {
            eventually("it is told", || about(&all, "lock.acquired", directory).pop());
        }
        // A stream that has received this event has received all earlier ones.
        assert_eq!(home.run(&["fuse", "set", "mine", "--ttl", "2h"]).code, Some(0));
        let fuse = eventually("it is told", || about(&all, "fuse.set", &mine).pop());
        eventually("it is told", || about(&ends, "fuse.set", &mine).pop());
        for stream in [&all, &ends] {
            stream.signal(Signal::STOP);
        }
        signal(daemon, Signal::KILL);
        let pid = home.run(&["status", &id, "--json"]).json()["pid"].to_string();
        let sent = std::process::Command::new("kill").args(["-s", "KILL", &pid]).status();
        assert!(sent.expect("sent").success());
        let run = ended(home, &id);
        agent.kill();
        assert_eq!(home.run(&["unlock", "mine"]).code, Some(0));
        let fuse = fuse["fuse"]["id"].as_str().expect("an id");
        let mut cancel = home.command(&["fuse", "cancel", fuse]);
        let cancelled = cancel.env("AGENTCTL_NO_DAEMON", "1").output().expect("runs");
        assert!(cancelled.status.success(), "{cancelled:?}");
        for stream in [&all, &ends] {
            stream.signal(Signal::CONT);
        }
        for stream in [&all, &ends] {
            for directory in [&ours, &theirs, &mine] {
                eventually("it is free", || about(stream, "lock.released", directory).pop());
            }
            eventually("it is out", || about(stream, "fuse.cancelled", &mine).pop());
            let over = stream.last(&id, "stopped");
            assert_eq!(
                (&over["at"], &over["session"]["exit"]["signal"]),
                (&run["ended_at"], &json!(9))
            );
            stream.last(claude_code::A, "stopped");
        }
        // No event of it is repeated: the next event comes after it.
        let next = folder(home, "next");
        assert_eq!(home.run(&["lock", "next"]).code, Some(0));
        eventually("it is told", || about(&all, "lock.acquired", &next).pop());
        assert_eq!(home.run(&["unlock", "next"]).code, Some(0));
        for stream in [&all, &ends] {
            eventually("the next one is told", || about(stream, "lock.released", &next).pop());
            for directory in [&ours, &theirs, &mine] {
                assert_eq!(about(stream, "lock.released", directory).len(), 1, "{directory}");
            }
            assert_eq!(about(stream, "fuse.cancelled", &mine).len(), 1);
            for session in [id.as_str(), claude_code::A] {
                let times = stream.kinds(session).iter().filter(|k| *k == "stopped").count();
                assert_eq!(times, 1, "{session}");
            }
        }
        assert!(ends.heard().iter().all(|e| e["type"] != "lock.acquired"));
    });
}

#[test]
fn every_reporter_gives_an_edge_the_same_id_and_time() {
    sandboxed(|| {
        let receiver = Receiver::always(Manner::Status(500));
        let home = home();
        let url = format!("http://127.0.0.1:{}/", receiver.port);
        let config =
            format!("[[webhooks]]\nurl = \"{url}\"\nallow_private = true\nname = \"ops\"\n");
        home.write(".config/agentctl/config.toml", config);
        let daemon = started(&home);
        let (live, own) = (Stream::of_daemon(&home, &[]), Stream::of(&home, &[]));
        folder(&home, "w");
        let id = launch(&home, "w", "x [[ask:go?]] [[error:no luck]]", &[]);
        for stream in [&live, &own] {
            stream.last(&id, "waiting");
        }
        tell(&home, &id, "go");
        let over = live.last(&id, "error");
        let run = ended(&home, &id);
        assert_eq!(over["at"], run["ended_at"]);
        let short = |event: &Value| (event["id"].clone(), event["at"].clone());
        let of = |stream: &Stream, kind: &str| {
            let told =
                stream.heard().into_iter().find(|e| e["session_id"] == id && e["type"] == kind);
            told.as_ref().map(short).expect("told")
        };
        own.last(&id, "error");
        for kind in ["session.started", "session.waiting", "session.error"] {
            assert_eq!(of(&live, kind), of(&own, kind), "{kind}");
        }
        // The replay of it.
        let again = Stream::of(&home, &["--since", "1h"]);
        let through = Stream::of_daemon(&home, &["--since", "1h"]);
        for stream in [&again, &through] {
            stream.until(&id, &["started", "error"]);
            for kind in ["session.started", "session.error"] {
                assert_eq!(of(stream, kind), of(&live, kind), "{kind}");
            }
        }
        // The late report of it, by the next daemon.
        signal(daemon, Signal::KILL);
        receiver.from_now_on(Manner::Status(204));
        let late = eventually("it is told late", || {
            let mut told = receiver.requests().into_iter();
            told.find(|r| r.json()["session_id"] == id && r.json()["late"] == true)
        });
        assert_eq!(late.header("webhook-id"), over["id"].as_str());
        assert_eq!(short(&late.json()), short(&over));
    });
}

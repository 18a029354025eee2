//! `events`: the stream while sessions start, work, ask and end, with the demo agent.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::launched::{folder, launch, runs, status, until_asked};
use crate::wait::Running;

/// A stream of events that is read as it comes.
pub(crate) struct Stream {
    child: Option<Running>,
    pid: u32,
    lines: Arc<Mutex<Vec<Value>>>,
    said: Arc<Mutex<String>>,
}

/// Says whether an event is about the status of a session; those of asks carry the session too.
pub(crate) fn is_of_session(event: &Value) -> bool {
    event["type"].as_str().is_some_and(|kind| kind.starts_with("session."))
}

impl Stream {
    /// Begins to listen, and returns once it sleeps.
    pub(crate) fn of(home: &TestHome, args: &[&str]) -> Self {
        let mut command = home.command(&[&["events"], args].concat());
        Self::from(&mut command)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn from(command: &mut Command) -> Self {
        let mut stream = Self::heard_from(command.env("AGENTCTL_NO_DAEMON", "1"));
        stream.child = stream.child.take().map(Running::asleep);
        stream.settled();
        stream
    }

    /// Begins to listen to the daemon, and returns once that has one listener more.
    pub(crate) fn of_daemon(home: &TestHome, args: &[&str]) -> Self {
        let listening = || {
            let status = home.run(&["daemon", "status", "--json"]).json();
            status["subscribers"].as_u64().unwrap_or_default()
        };
        let before = listening();
        let stream = Self::heard_from(&mut home.command(&[&["events"], args].concat()));
        eventually("the daemon has a listener more", || (listening() > before).then_some(()));
        stream
    }

    /// Begins to listen, and returns at once.
    pub(crate) fn heard_from(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child: Child = command.spawn().expect("starts");
        let (lines, said) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(String::new())));
        let (heard, talk) = (Arc::clone(&lines), Arc::clone(&said));
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                let event = serde_json::from_str(&line.expect("text")).expect("one JSON a line");
                heard.lock().expect("sound").push(event);
            }
        });
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines() {
                talk.lock().expect("sound").push_str(&(line.expect("text") + "\n"));
            }
        });
        let pid = child.id();
        Self { child: Some(Running(child)), pid, lines, said }
    }

    pub(crate) fn switches(&self) -> u64 {
        let path = format!("/proc/{0}/task/{0}/status", self.pid);
        let status = std::fs::read_to_string(path).expect("it lives");
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|l| l.trim().parse().ok()).expect("a number")
    }

    /// Waits until it has armed its watches after its first looks, and sleeps.
    pub(crate) fn settled(&self) {
        let mut last = (self.switches(), Instant::now());
        eventually("it sleeps for a while", || {
            let now = self.switches();
            if now != last.0 {
                last = (now, Instant::now());
            }
            (last.1.elapsed() > Duration::from_millis(400)).then_some(())
        });
    }

    pub(crate) fn heard(&self) -> Vec<Value> {
        self.lines.lock().expect("sound").clone()
    }

    /// Returns the event types of a session, in their order.
    pub(crate) fn kinds(&self, id: &str) -> Vec<String> {
        let own = self.heard().into_iter().filter(|event| event["session_id"] == id);
        let kind = |event: Value| {
            event["type"].as_str().and_then(|kind| kind.strip_prefix("session.")).map(str::to_owned)
        };
        own.filter_map(kind).collect()
    }

    /// Waits until these are the event types of a session, and returns the last event.
    #[track_caller]
    pub(crate) fn until(&self, id: &str, kinds: &[&str]) -> Value {
        eventually(&format!("{kinds:?} is told of {id}"), || {
            (self.kinds(id) == kinds).then_some(())
        });
        let events = self.heard();
        let last = events.iter().rev().find(|e| e["session_id"] == id && is_of_session(e));
        last.cloned().expect("one")
    }

    /// Waits until this is the last event of a session, whatever came before it.
    #[track_caller]
    pub(crate) fn last(&self, id: &str, kind: &str) -> Value {
        eventually(&format!("{kind} is told of {id} last"), || {
            let told =
                self.heard().into_iter().rfind(|e| e["session_id"] == id && is_of_session(e));
            told.filter(|event| event["type"] == format!("session.{kind}"))
        })
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().expect("sound").clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid).expect("a pid")).expect("a pid");
        kill_process(pid, signal).expect("it lives");
    }

    /// Waits for its end.
    fn code(&mut self) -> Option<i32> {
        let mut running = self.child.take().expect("once");
        running.0.wait().expect("ends").code()
    }
}

/// Prints the received events if the test fails.
impl Drop for Stream {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let heard = self.heard();
            let short = |e: &Value| format!("{} {}", e["type"], e);
            let heard: Vec<String> = heard.iter().map(short).collect();
            println!("heard:\n{}\nsaid:\n{}", heard.join("\n"), self.said());
        }
    }
}

pub(crate) fn tell(home: &TestHome, id: &str, words: &str) {
    assert_eq!(home.run(&["demo-agent", "--tell", id, "-p", words]).code, Some(0));
}

fn run_of(home: &TestHome, id: &str) -> String {
    let row = runs(home).into_iter().find(|run| run["session"] == id).expect("its run");
    row["id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_launched_session_is_reported_from_start_to_exit_code() {
    sandboxed(|| {
        let home = home();
        // Nothing of any agent is there yet, not even a folder.
        let stream = Stream::of(&home, &[]);
        folder(&home, "w");
        let more = ["--callback-session", "boss-1", "--callback-agent", "claude", "--group", "g"];
        let id = launch(&home, "w", "x [[ask:go?]] [[error:no luck]]", &more);
        let event = stream.until(&id, &["started", "waiting"]);
        let run = run_of(&home, &id);
        assert_eq!(event["session"]["reason"]["kind"], "question");
        assert_eq!(event["callback"], json!({"session": "boss-1", "agent": "claude"}));
        assert_eq!((&event["adapter"], &event["late"]), (&"demo".into(), &false.into()));
        let begun = stream.heard().into_iter().find(|e| e["type"] == "session.started");
        let begun = begun.expect("told");
        assert_eq!(begun["id"], format!("{run}-started"));
        assert_eq!(begun["run"], run.as_str());
        assert_eq!(
            (&begun["session"]["run"], &begun["session"]["group"]),
            (&json!(run), &json!("g"))
        );
        tell(&home, &id, "go");
        let over = stream.last(&id, "error");
        assert_eq!(over["id"], format!("{run}-stopped"));
        assert_eq!(over["run"], run.as_str());
        let session = &over["session"];
        assert_eq!(session["exit"], json!({"code": 1, "signal": null}));
        assert_eq!((&session["outcome"], &session["status"]), (&"failed".into(), &"error".into()));
        assert_eq!(over["at"], session["ended_at"], "when its parent saw it end");
        assert_eq!(over["callback"]["session"], "boss-1");
        let own = |e: &&Value| e["lock"]["directory"] == folder(&home, "w").as_str();
        eventually("the directory is free again", || {
            let heard = stream.heard();
            let locks: Vec<&Value> = heard.iter().filter(own).map(|e| &e["type"]).collect();
            (locks == ["lock.acquired", "lock.released"]).then_some(())
        });
        assert_eq!(stream.said(), "");
    });
}

#[test]
fn each_kind_of_end_is_distinguished() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &[]);
        let ways = [
            (
                "w1",
                "x [[ask:go?]] [[say:y]]",
                None,
                "stopped",
                "finished",
                json!({"code": 0, "signal": null}),
            ),
            (
                "w2",
                "x [[hang]]",
                Some("KILL"),
                "stopped",
                "killed",
                json!({"code": null, "signal": 9}),
            ),
            (
                "w3",
                "x [[hang]]",
                Some("INT"),
                "stopped",
                "interrupted",
                json!({"code": 130, "signal": null}),
            ),
        ];
        for (cwd, script, signal, kind, outcome, exit) in ways {
            folder(&home, cwd);
            let id = launch(&home, cwd, script, &[]);
            eventually("it is told", || stream.kinds(&id).first().cloned());
            until_asked(&home, &id);
            match signal {
                None => tell(&home, &id, "go"),
                Some(signal) => {
                    let pid = home.run(&["status", &id, "--json"]).json()["pid"].to_string();
                    let sent = Command::new("kill").args(["-s", signal, &pid]).status();
                    assert!(sent.expect("sent").success());
                }
            }
            let over = eventually("its end is told", || {
                let heard = stream.heard();
                heard
                    .into_iter()
                    .find(|e| e["session_id"] == id && e["type"] == format!("session.{kind}"))
            });
            assert_eq!(
                (&over["session"]["outcome"], &over["session"]["exit"]),
                (&json!(outcome), &exit),
                "{script}"
            );
        }
    });
}

#[test]
fn a_session_between_two_looks_is_reported_from_its_run() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &[]);
        folder(&home, "w");
        // It cannot look while it is held.
        stream.signal(Signal::STOP);
        let id = launch(&home, "w", "x [[say:hello]]", &[]);
        eventually("it is over", || {
            runs(&home).into_iter().find(|run| run["session"] == id && !run["exit"].is_null())
        });
        stream.signal(Signal::CONT);
        let over = stream.until(&id, &["started", "stopped"]);
        let run = run_of(&home, &id);
        assert_eq!(over["id"], format!("{run}-stopped"));
        assert_eq!(over["run"], run.as_str());
        assert_eq!(over["session"]["exit"]["code"], 0);
        assert_eq!(over["session"]["outcome"], "finished");
        // Their own times, and the same when they are remembered.
        let again = Stream::of(&home, &["--since", "1h", "--adapter", "demo"]);
        again.until(&id, &["started", "stopped"]);
        let short = |events: Vec<Value>| -> Vec<(Value, Value)> {
            let own = events.into_iter().filter(|e| e["session_id"] == id && is_of_session(e));
            own.map(|e| (e["id"].clone(), e["at"].clone())).collect()
        };
        assert_eq!(short(stream.heard()), short(again.heard()));
        assert!(again.heard().iter().all(|e| e["late"] == false));
        // No event of it is repeated.
        let other = launch(&home, "w", "x [[say:hello]]", &[]);
        again.last(&other, "stopped");
        assert_eq!(again.kinds(&id).len(), 2);
        let none = Stream::of(&home, &["--since", "2090-01-01"]);
        let third = launch(&home, "w", "x [[say:hello]]", &[]);
        none.last(&third, "stopped");
        assert_eq!(none.kinds(&id), [""; 0]);
    });
}

#[test]
fn without_its_shim_the_end_is_reported_without_an_exit_code() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &[]);
        folder(&home, "w");
        let id = launch(&home, "w", "x [[hang]]", &[]);
        stream.until(&id, &["started"]);
        until_asked(&home, &id);
        let shims = crate::launched::shims();
        assert_eq!(shims.len(), 1);
        let pid = home.run(&["status", &id, "--json"]).json()["pid"].to_string();
        for pid in [shims[0].pid.to_string(), pid] {
            let sent = Command::new("kill").args(["-s", "KILL", &pid]).status();
            assert!(sent.expect("sent").success());
        }
        let over = stream.until(&id, &["started", "stopped"]);
        assert_eq!(
            (&over["session"]["exit"], &over["session"]["outcome"]),
            (&Value::Null, &json!("killed"))
        );
        assert_eq!(over["id"], format!("{}-stopped", run_of(&home, &id)));
    });
}

#[test]
fn two_watchers_agree_independently_of_each_other() {
    sandboxed(|| {
        let home = home();
        let (mut first, second) = (Stream::of(&home, &[]), Stream::of(&home, &[]));
        folder(&home, "w");
        let id = launch(&home, "w", "x [[ask:go?]] [[ask:really?]] [[say:y]]", &[]);
        let ids = |stream: &Stream| -> Vec<Value> {
            stream
                .heard()
                .iter()
                .filter(|e| e["session_id"] == id)
                .map(|e| e["id"].clone())
                .collect()
        };
        first.until(&id, &["started", "waiting"]);
        second.until(&id, &["started", "waiting"]);
        // One stream may have looked before the session had its id: then its lock was reported earlier.
        let both: Vec<Value> =
            ids(&first).into_iter().filter(|i| ids(&second).contains(i)).collect();
        // The same is true of states before its question.
        assert!(!both.is_empty(), "{:?} {:?}", first.heard(), second.heard());
        first.signal(Signal::KILL);
        assert_eq!(first.code(), None);
        // All our files are deleted while it continues.
        std::fs::remove_dir_all(home.path().join(".local/state/agentctl")).expect("wiped");
        tell(&home, &id, "go");
        let again = eventually("it asks again", || {
            let mut asked = second.heard().into_iter().filter(|e| e["type"] == "session.waiting");
            asked.next_back().filter(|e| e["session"]["reason"]["detail"] == "really?")
        });
        assert_eq!(again["session_id"], id);
        tell(&home, &id, "yes");
        let over = eventually("its end is told", || {
            second.heard().into_iter().find(|e| e["type"] == "session.stopped")
        });
        assert_eq!((&over["session_id"], &over["session"]["run"]), (&json!(id), &Value::Null));
        assert_eq!(over["session"]["outcome"], "finished");
    });
}

#[test]
fn a_closed_reader_and_a_signal_end_it_with_success() {
    sandboxed(|| {
        let home = home();
        let mut command = home.command(&["events"]);
        command.env("AGENTCTL_NO_DAEMON", "1").stdout(Stdio::piped());
        let mut child = Running(command.spawn().expect("starts")).asleep();
        // No event comes: it must notice by itself.
        drop(child.0.stdout.take());
        assert_eq!(child.0.wait().expect("ends").code(), Some(0));
        for signal in [Signal::INT, Signal::TERM] {
            let mut stream = Stream::of(&home, &[]);
            stream.signal(signal);
            assert_eq!(stream.code(), Some(0), "{signal:?}: {}", stream.said());
        }
    });
}

#[test]
fn only_wanted_events_are_reported() {
    sandboxed(|| {
        let home = home();
        let types =
            Stream::of(&home, &["--type", "waiting", "--type", "session.stopped,lock.released"]);
        let others = Stream::of(&home, &["--adapter", "codex"]);
        let all = Stream::of(&home, &[]);
        folder(&home, "w");
        let id = launch(&home, "w", "x [[ask:go?]] [[say:y]]", &[]);
        types.until(&id, &["waiting"]);
        // A stream that has not seen it alive by then has seen no occupied directory.
        eventually("everybody has seen it", || {
            all.heard().into_iter().find(|e| e["type"] == "lock.acquired")
        });
        eventually("everybody has seen it wait", || {
            all.heard().into_iter().find(|e| e["type"] == "session.waiting")
        });
        tell(&home, &id, "go");
        types.until(&id, &["waiting", "stopped"]);
        let released = |stream: &Stream| {
            eventually("all is told", || {
                stream.heard().into_iter().find(|e| e["type"] == "lock.released")
            })
        };
        released(&types);
        released(&all);
        assert_eq!(types.heard().len(), 3, "{:?}", types.heard());
        assert_eq!(others.heard(), [Value::Null; 0]);
        let wrong = home.run(&["events", "--type", "session.wating"]);
        assert_eq!(wrong.code, Some(2));
        assert!(wrong.stderr.contains("session.waiting"), "{}", wrong.stderr);
        assert_eq!(home.run(&["events", "--since", "yesterday"]).code, Some(2));
        for bad in ["", "two words", "línea", &"x".repeat(257)] {
            let refused = home.run(&["launch", "demo", "-p", "x", "--callback-agent", bad]);
            assert_eq!(refused.code, Some(2), "{bad:?}: {}", refused.stderr);
        }
    });
}

#[test]
fn manual_locks_and_fuses_are_reported() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &[]);
        let directory = folder(&home, "w");
        let told = |kind: &str, count: usize| {
            eventually(&format!("{kind}; told: {:?}", stream.heard()), || {
                let heard = stream.heard();
                let own: Vec<Value> = heard.into_iter().filter(|e| e["type"] == kind).collect();
                (own.len() == count).then(|| own.last().cloned()).flatten()
            })
        };
        assert_eq!(home.run(&["lock", "w", "--by", "me", "--reason", "mine"]).code, Some(0));
        let lock = told("lock.acquired", 1);
        assert_eq!(lock["lock"]["directory"], directory.as_str());
        assert_eq!((&lock["lock"]["kind"], &lock["lock"]["by"]), (&json!("manual"), &json!("me")));
        assert_eq!(lock["at"], lock["lock"]["since"]);
        assert_eq!(home.run(&["unlock", "w"]).code, Some(0));
        told("lock.released", 1);
        // A lock that expires is released without a command.
        assert_eq!(home.run(&["lock", "w", "--ttl", "5s"]).code, Some(0));
        told("lock.acquired", 2);
        told("lock.released", 2);
        assert_eq!(home.run(&["fuse", "set", "w", "--ttl", "2h"]).code, Some(0));
        let fuse = told("fuse.set", 1);
        let id = fuse["fuse"]["id"].as_str().expect("an id").to_owned();
        assert_eq!(home.run(&["fuse", "extend", &id, "--ttl", "3h"]).code, Some(0));
        told("fuse.extended", 1);
        assert_eq!(home.run(&["fuse", "cancel", &id]).code, Some(0));
        told("fuse.cancelled", 1);
    });
}

#[test]
fn while_nothing_happens_it_sleeps() {
    sandboxed(|| {
        let home = home();
        let id = {
            folder(&home, "w");
            launch(&home, "w", "x [[ask:go?]]", &[])
        };
        // Its question would wake the stream.
        eventually("it asks", || (status(&home, &id)["status"] == "waiting").then_some(()));
        let stream = Stream::of(&home, &[]);
        let before = stream.switches();
        // Files of other programs, our own reads, and files beside the watched ones.
        home.write("elsewhere/file", "x");
        assert_eq!(home.run(&["list", "--json"]).code, Some(0));
        home.write(".local/state/agentctl/notes", "x");
        stream.settled();
        assert_eq!(stream.switches(), before, "{:?}", stream.heard());
        tell(&home, &id, "go");
        stream.last(&id, "stopped");
    });
}

#[test]
fn hooks_receive_the_callback() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        let hook = "sh -c 'env > \"$HOME/seen\"; echo end >> \"$HOME/seen\"'";
        let more = ["--on-complete", hook, "--callback-session", "s-1"];
        launch(&home, "w", "x [[say:hello]]", &more);
        let text = eventually("the hook has run", || {
            let mut text = String::new();
            let mut file = std::fs::File::open(home.path().join("seen")).ok()?;
            file.read_to_string(&mut text).ok()?;
            Some(text).filter(|t| t.ends_with("end\n"))
        });
        assert!(text.contains("AGENTCTL_CALLBACK_SESSION=s-1\n"), "{text}");
        assert!(text.contains("AGENTCTL_CALLBACK_AGENT=\n"), "{text}");
    });
}

/// The contract promises `--json`; there is no other form.
#[test]
fn json_can_be_asked_for() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &["--json"]);
        let id = launch(&home, "w", "x [[hang]]", &[]);
        stream.until(&id, &["started"]);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

//! `wait`: its exit code for every end of a session, and that it sleeps until a wake-up.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Output, TestHome, UserNamespace, eventually, sandboxed};

use crate::claude_code::{A, B, Claude, prompt, record, said};
use crate::home;

/// A child process that is killed when the value is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a pid")).expect("a pid");
        kill_process(pid, signal).expect("it lives");
    }

    /// Reads a counter of the main thread.
    fn switches(&self) -> u64 {
        let pid = self.0.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/status"));
        let status = status.expect("it lives");
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|l| l.trim().parse().ok()).expect("a number")
    }

    /// Says whether the process blocks in `poll`.
    pub(crate) fn sleeps(&self) -> bool {
        // poll or ppoll, on x86-64 and on arm64.
        let polls = |text: &str| ["7 ", "271 ", "73 "].iter().any(|n| text.starts_with(n));
        let syscall = std::fs::read_to_string(format!("/proc/{}/syscall", self.0.id()));
        syscall.is_ok_and(|text| polls(&text))
    }

    /// Waits until the process has registered its wake-ups and sleeps.
    pub(crate) fn asleep(self) -> Self {
        eventually("the waiter sleeps", || self.sleeps().then_some(()));
        self
    }

    /// Waits until the process has opened a pidfd of that process.
    fn holding(self, pid: u32) -> Self {
        let wanted = format!("Pid:\t{pid}");
        let holds = |entry: std::fs::DirEntry| {
            std::fs::read_to_string(entry.path()).is_ok_and(|t| t.lines().any(|l| l == wanted))
        };
        eventually("the waiter has hold of the process", || {
            let own = std::fs::read_dir(format!("/proc/{}/fdinfo", self.0.id())).ok()?;
            own.flatten().any(holds).then_some(())
        });
        self.asleep()
    }

    /// Does something that wakes the process, and waits until it sleeps again.
    pub(crate) fn through(self, change: impl FnOnce()) -> Self {
        let before = self.switches();
        change();
        eventually("the waiter wakes", || (self.switches() > before).then_some(()));
        self.asleep()
    }

    pub(crate) fn output(mut self) -> Output {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.0.stdout.take().map(|mut s| s.read_to_string(&mut stdout).expect("read"));
        self.0.stderr.take().map(|mut s| s.read_to_string(&mut stderr).expect("read"));
        Output { code: self.0.wait().expect("ends").code(), stdout, stderr }
    }
}

pub(crate) fn wait(home: &TestHome, args: &[&str]) -> Running {
    // Shorter than the safety interval: without a wake-up the wait is late.
    let all = [&["wait", "--timeout", "50s"], args].concat();
    let mut command = home.command(&all);
    Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts"))
}

fn demo(home: &TestHome, id: &str, args: &[&str]) -> Running {
    let all = [&["demo-agent", "--session-id", id], args].concat();
    Running(home.command(&all).stdout(Stdio::null()).spawn().expect("starts"))
}

fn until(home: &TestHome, id: &str, status: &str) -> Value {
    eventually(&format!("{id} is {status}"), || {
        let listed = home.run(&["list", "-a", "--json"]).sessions();
        listed
            .into_iter()
            .find(|s| s["id"] == id && s["status"] == status && !s["prompt"].is_null())
    })
}

fn tell(home: &TestHome, id: &str, words: &str) {
    assert_eq!(home.run(&["demo-agent", "--tell", id, "-p", words]).code, Some(0));
}

/// A named pipe below the home: `cat` of it blocks until the pipe is written.
fn gate(home: &TestHome, name: &str) -> std::path::PathBuf {
    let path = home.at(name);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, 0o600.into(), 0).expect("made");
    path
}

#[track_caller]
pub(crate) fn assert_said(said: &Output, code: i32, line: &str) {
    assert_eq!((said.code, said.stdout.as_str()), (Some(code), line), "{}", said.stderr);
}

#[test]
fn each_way_a_turn_ends_has_its_exit_code() {
    sandboxed(|| {
        let home = home();
        let ways: [(&str, &str, Option<Signal>, i32, &str); 5] = [
            ("done", "x [[ask:go?]] [[say:y]]", None, 0, "done  stopped  finished\n"),
            (
                "failed",
                "x [[ask:go?]] [[error:no luck]]",
                None,
                1,
                "failed  error  failure: no luck\n",
            ),
            ("killed", "x [[hang]]", Some(Signal::KILL), 1, "killed  stopped  killed\n"),
            ("broken", "x [[hang]]", Some(Signal::INT), 1, "broken  stopped  interrupted\n"),
            (
                "ended",
                "x [[tool:exec sleep 600]]",
                Some(Signal::TERM),
                1,
                "ended  stopped  interrupted\n",
            ),
        ];
        for (id, script, signal, code, line) in ways {
            let agent = demo(&home, id, &["-p", script]);
            until(&home, id, if signal.is_some() { "running" } else { "waiting" });
            // A session that waits for a human ends the default wait, so another status is waited for here.
            let waiter = match signal {
                Some(_) => wait(&home, &[id]).asleep(),
                None => wait(&home, &[id, "--for", "stopped"]).asleep(),
            };
            match signal {
                Some(signal) => agent.signal(signal),
                None => tell(&home, id, "go"),
            }
            let said = waiter.output();
            let wanted = if signal.is_some() { code } else { 0 };
            assert_said(&said, wanted, line);
            // The session has ended: the answer comes at once, and a failed turn is a failure.
            assert_said(&home.run(&["wait", id]), code, line);
        }
    });
}

#[test]
fn a_running_turn_is_waited_for_to_its_end() {
    sandboxed(|| {
        let home = home();
        for (id, last, code, line) in [
            ("done", "[[say:y]]", 0, "done  stopped  finished\n"),
            ("failed", "[[error:no luck]]", 1, "failed  error  failure: no luck\n"),
        ] {
            let gate = gate(&home, id);
            let script = format!("x [[tool:cat {id}]] {last}");
            let _agent = demo(&home, id, &["-p", &script]);
            until(&home, id, "running");
            let waiter = wait(&home, &[id]).asleep();
            std::fs::write(&gate, "go").expect("opened");
            let said = waiter.output();
            assert_said(&said, code, line);
            // A short unknown status at the end is not reported; on a busy machine it may last longer than
            // the grace period.
            let doubts = |line: &str| line.contains(&format!("the status of {id} is unknown"));
            assert!(said.stderr.lines().all(doubts), "{}", said.stderr);
        }
    });
}

#[test]
fn idle_is_over_and_a_question_needs_a_human() {
    sandboxed(|| {
        let home = home();
        let agent = demo(&home, "one", &["--stay", "-p", "x [[tool:exec sleep 600]]"]);
        until(&home, "one", "running");
        let waiter = wait(&home, &["one"]).asleep();
        drop(agent);
        assert_eq!(waiter.output().code, Some(1));

        let _agent = demo(&home, "two", &["--stay", "-p", "x [[ask:Which one?]] [[say:y]]"]);
        until(&home, "two", "waiting");
        let said = home.run(&["wait", "two"]);
        assert_said(&said, 10, "two  waiting  question: Which one?\n");
        assert!(said.stderr.starts_with("hint: `agentctl asks "), "{}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "the line says the rest already");
        let waiter = wait(&home, &["two", "--for", "idle"]).asleep();
        tell(&home, "two", "this one");
        let said = waiter.output();
        assert_said(&said, 0, "two  idle\n");
        assert!(said.stderr.contains("two waits for a human"), "{}", said.stderr);
        assert_said(&home.run(&["wait", "two"]), 0, "two  idle\n");
        // A second turn of the same process is waited for like the first.
        let waiter = wait(&home, &["two", "--for", "waiting"]).asleep();
        tell(&home, "two", "x [[ask:And now?]]");
        assert_said(&waiter.output(), 0, "two  waiting  question: And now?\n");
    });
}

#[test]
fn an_unreachable_status_is_reported() {
    sandboxed(|| {
        let home = home();
        let mut ended = demo(&home, "done", &["-p", "x [[say:y]]"]);
        ended.0.wait().expect("ends");
        let mut failed = demo(&home, "failed", &["-p", "x [[error:no]]"]);
        failed.0.wait().expect("ends");
        for (status, done, failed) in [
            ("running", 1, 1),
            ("waiting", 1, 1),
            ("idle", 1, 1),
            ("stopped", 0, 0),
            ("error", 1, 0),
        ] {
            let code = |id| home.run(&["wait", id, "--for", status]).code;
            assert_eq!((code("done"), code("failed")), (Some(done), Some(failed)), "{status}");
        }
        let agent = demo(&home, "live", &["--stay", "-p", "x [[say:y]]"]);
        until(&home, "live", "idle");
        assert_eq!(home.run(&["wait", "live", "--for", "idle"]).code, Some(0));
        let waiters = ["running", "waiting", "error", "stopped"]
            .map(|status| (status, wait(&home, &["live", "--for", status]).asleep()));
        drop(agent);
        for (status, waiter) in waiters {
            assert_eq!(waiter.output().code, Some(i32::from(status != "stopped")), "{status}");
        }
    });
}

#[test]
fn the_timeout_may_pass_first() {
    sandboxed(|| {
        let home = home();
        let _agent = demo(&home, "one", &["-p", "x [[hang]]"]);
        until(&home, "one", "running");
        let said = home.run(&["wait", "one", "--timeout", "50ms"]);
        assert_said(&said, 124, "");
        assert!(said.stderr.contains("timed out after 0.05 s: one is running"), "{}", said.stderr);
        let said = home.run(&["wait", "one", "--timeout", "0s", "--json"]);
        assert_eq!(said.code, Some(124), "{}", said.stderr);
        let document = said.json();
        assert_eq!(
            (&document["schema_version"], &document["timed_out"]),
            (&1.into(), &true.into())
        );
        assert_eq!(document["sessions"][0]["status"], "running");
        assert_eq!(home.run(&["wait", "nobody"]).code, Some(4));
        assert_eq!(home.run(&["wait", "one", "--timeout", "soon"]).code, Some(2));
    });
}

#[test]
fn all_sessions_must_meet_the_condition_or_any_one() {
    sandboxed(|| {
        let home = home();
        let first = demo(&home, "first", &["-p", "x [[hang]]"]);
        let second = demo(&home, "second", &["--stay", "-p", "x [[hang]]"]);
        let third = demo(&home, "third", &["-p", "x [[hang]]"]);
        for id in ["first", "second", "third"] {
            until(&home, id, "running");
        }
        let all = wait(&home, &["first", "third", "first", "--json"]).asleep();
        let any = wait(&home, &["first", "third", "--any"]).asleep();
        let gone = wait(&home, &["first", "second", "--any", "--for", "idle"]).asleep();
        first.signal(Signal::KILL);
        assert_said(&any.output(), 1, "first  stopped  killed\n");
        third.signal(Signal::INT);
        let said = all.output();
        assert_eq!(said.code, Some(1));
        let outcomes: Vec<Value> =
            said.sessions().iter().map(|s| json!([s["id"], s["outcome"]])).collect();
        assert_eq!(outcomes, [json!(["first", "killed"]), json!(["third", "interrupted"])]);
        assert!(said.sessions()[0]["tokens"].is_object(), "{}", said.stdout);
        // A session that can no longer meet the condition leaves it to the other; then none is left.
        let gone = gone.asleep();
        second.signal(Signal::KILL);
        let said = gone.output();
        assert_said(&said, 1, "first  stopped  killed\nsecond  stopped  killed\n");
    });
}

#[test]
fn a_session_that_needs_a_human_is_reported_while_others_work() {
    sandboxed(|| {
        let home = home();
        let _busy = demo(&home, "busy", &["-p", "x [[hang]]"]);
        let _asks = demo(&home, "asks", &["--stay", "-p", "x [[say:y]]"]);
        until(&home, "busy", "running");
        until(&home, "asks", "idle");
        let said = home.run(&["wait", "busy", "asks", "--timeout", "0s"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(124), "asks  idle\n"));
        let gate = gate(&home, "go");
        tell(&home, "asks", "x [[tool:cat go]] [[ask:Well?]]");
        until(&home, "asks", "running");
        let waiter = wait(&home, &["busy", "asks"]).asleep();
        std::fs::write(gate, "go").expect("opened");
        assert_said(&waiter.output(), 10, "asks  waiting  question: Well?\n");
    });
}

#[test]
fn an_unknown_session_is_waited_for_and_reported() {
    sandboxed(|| {
        let home = home();
        let mut ended = demo(&home, "it", &["-p", "x [[say:y]]"]);
        ended.0.wait().expect("ends");
        // The record is unreadable, so its process may be the one that serves the session.
        let planted = home.write(".local/share/agentctl-demo/live/1.json", "{ torn");
        let mut waiter = wait(&home, &["it"]);
        let mut said = String::new();
        let stderr = waiter.0.stderr.take().expect("piped");
        let mut stderr = BufReader::new(stderr);
        while !said.contains("the status of it is unknown") {
            assert!(stderr.read_line(&mut said).expect("read") > 0, "{said}");
        }
        assert!(said.contains("still waiting"), "{said}");
        std::fs::remove_file(planted).expect("removed");
        assert_said(&waiter.output(), 0, "it  stopped  finished\n");
    });
}

#[test]
fn a_session_that_another_process_takes_over_is_followed() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x")]);
        let mut first = claude.live(A, &json!({"status": "busy"}));
        let waiter = wait(&claude.home, &[A]).asleep();
        let mut second = None;
        let waiter = waiter.through(|| second = Some(claude.live(A, &json!({"status": "busy"}))));
        let waiter = waiter.through(|| first.kill());
        let mut waiter = waiter.through(|| claude.transcript(A, &[prompt("x"), said("done")]));
        assert!(waiter.0.try_wait().expect("asked").is_none(), "its second process lives");
        second.expect("started").kill();
        assert_said(
            &waiter.output(),
            0,
            "aaaaaaaa-0000-4000-8000-000000000001  stopped  finished\n",
        );
    });
}

/// Rewrites a live record in place, as Claude Code does.
fn rewrite(claude: &Claude, pid: u32, change: &Value) {
    let path = claude.record_path.replace("{pid}", &pid.to_string());
    let mut record: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("there")).expect("JSON");
    for (key, value) in change.as_object().expect("an object") {
        record[key] = value.clone();
    }
    std::fs::write(path, record.to_string()).expect("written");
}

#[test]
fn changes_of_a_live_record_are_noticed() {
    sandboxed(|| {
        let claude = Claude::new();
        let agent = claude.live(A, &json!({}));
        // No status, no transcript, no folder: the agent is starting.
        let starts = wait(&claude.home, &[A]).asleep();
        let waits = wait(&claude.home, &[A, "--for", "waiting"]).asleep();
        let starts = starts.through(|| claude.transcript(A, &[prompt("x")]));
        let busy = json!({"status": "busy"});
        let starts = starts.through(|| rewrite(&claude, agent.pid(), &busy));
        rewrite(
            &claude,
            agent.pid(),
            &json!({"status": "waiting", "waitingFor": "permission prompt"}),
        );
        assert_said(
            &starts.output(),
            10,
            "aaaaaaaa-0000-4000-8000-000000000001  waiting  permission\n",
        );
        assert_eq!(waits.output().code, Some(0));
        let idles = wait(&claude.home, &[A, "--for", "idle"]).asleep();
        rewrite(&claude, agent.pid(), &json!({"status": "busy", "waitingFor": null}));
        rewrite(&claude, agent.pid(), &json!({"status": "idle"}));
        assert_said(&idles.output(), 0, "aaaaaaaa-0000-4000-8000-000000000001  idle\n");
        assert_eq!(claude.home.run(&["wait", A]).code, Some(0));
    });
}

/// A line of a transcript with the current time, so that it is not older than the process.
fn now(claude: &Claude, line: &Value) -> String {
    let mut line = line.clone();
    line["cwd"] = claude.cwd.clone().into();
    line["timestamp"] = format!("{:.3}", jiff::Timestamp::now()).into();
    format!("{line}\n")
}

#[test]
fn a_one_prompt_process_is_over_when_it_has_exited() {
    sandboxed(|| {
        let failed = json!({"type": "assistant", "isApiErrorMessage": true, "message": {"id": "m", "model": "<synthetic>",
            "role": "assistant", "content": [{"type": "text", "text": "API Error: 500"}]}});
        for (last, code) in [(said("done"), 0), (failed, 1)] {
            let claude = Claude::new();
            let mut agent = claude.live(
                A,
                &json!({"status": "busy", "entrypoint": "sdk-cli", "startedAt": 1_600_000_000_000_i64}),
            );
            let text = now(&claude, &prompt("x")) + &now(&claude, &last);
            claude.home.write(&format!(".claude/projects/-ws/{A}.jsonl"), text);
            let waiter = wait(&claude.home, &[A]).asleep();
            // It is idle once more, and then has no record for a moment.
            let idle = json!({"status": "idle"});
            let waiter = waiter.through(|| rewrite(&claude, agent.pid(), &idle));
            let path = claude.record_path.replace("{pid}", &agent.pid().to_string());
            let mut waiter = waiter.through(|| std::fs::remove_file(path).expect("removed"));
            assert!(waiter.0.try_wait().expect("asked").is_none(), "it is still leaving");
            let late = wait(&claude.home, &[A]).holding(agent.pid());
            agent.kill();
            assert_eq!((waiter.output().code, late.output().code), (Some(code), Some(code)));
        }
    });
}

#[test]
fn a_process_without_a_session_is_followed_into_it() {
    sandboxed(|| {
        let claude = Claude::new();
        std::fs::create_dir_all(claude.home.path().join(".claude")).expect("made");
        let mut agent = claude.home.agent("claude", "ws", &["-p"]);
        agent.ready();
        let pid = agent.pid().to_string();
        let waiter = wait(&claude.home, &[&pid]).asleep();
        let gone = wait(&claude.home, &[&pid, "--for", "stopped"]).asleep();
        let start = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        let start = start.rsplit(") ").next().and_then(|s| s.split(' ').nth(19)).expect("a tick");
        let text = record(B, &claude.cwd, &json!({"status": "idle", "pidDomain": null}));
        let text = text.replace("{start}", start);
        std::fs::create_dir_all(claude.home.path().join(".claude/sessions")).expect("made");
        std::fs::write(claude.record_path.replace("{pid}", &pid), text).expect("written");
        assert_said(&waiter.output(), 0, "bbbbbbbb-0000-4000-8000-000000000002  idle\n");
        let gone = gone.asleep();
        agent.kill();
        assert_said(&gone.output(), 0, "bbbbbbbb-0000-4000-8000-000000000002  stopped  unknown\n");

        let mut agent = claude.home.agent("claude", "ws", &["-p"]);
        agent.ready();
        let waiter = wait(&claude.home, &[&agent.pid().to_string()]).asleep();
        agent.kill();
        assert_said(&waiter.output(), 1, "-  stopped  unknown\n");
    });
}

#[test]
fn a_home_that_only_its_process_named_is_read_after_its_end() {
    sandboxed(|| {
        let mut claude = Claude::new();
        let moved = claude.home.path().join("moved");
        claude.record_path =
            claude.home.at("moved/sessions/{pid}.json").to_string_lossy().into_owned();
        claude.home.set("CLAUDE_CONFIG_DIR", moved.to_string_lossy());
        let mut agent = claude.live(A, &json!({"status": "busy"}));
        claude.home.set("CLAUDE_CONFIG_DIR", "");
        let text = now(&claude, &prompt("x")) + &now(&claude, &said("y"));
        claude.home.write(&format!("moved/projects/-ws/{A}.jsonl"), text);
        let waiter = wait(&claude.home, &[A]).asleep();
        agent.kill();
        assert_said(
            &waiter.output(),
            0,
            "aaaaaaaa-0000-4000-8000-000000000001  stopped  finished\n",
        );
    });
}

#[test]
fn it_sleeps_until_a_relevant_change() {
    sandboxed(|| {
        let home = home();
        let agent = demo(&home, "one", &["-p", "x [[hang]]"]);
        until(&home, "one", "running");
        let mut waiter = wait(&home, &["one"]).asleep();
        let before = waiter.switches();
        // Longer than any polling interval. Meanwhile other processes read the same files and write beside
        // them.
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(2500) {
            assert_eq!(home.run(&["list", "--json"]).sessions().len(), 1);
            home.write(".local/share/agentctl-demo/sessions/other.jsonl", "{}\n");
        }
        assert_eq!(waiter.switches(), before, "it looked though nothing had happened");
        assert!(waiter.0.try_wait().expect("asked").is_none());
        agent.signal(Signal::KILL);
        assert_said(&waiter.output(), 1, "one  stopped  killed\n");
    });
}

#[test]
fn without_file_events_it_polls_and_says_so() {
    sandboxed(|| {
        let mut home = home();
        let namespace = UserNamespace::with_inotify_limit("instances", 0);
        home.enter(&namespace);
        let _agent = demo(&home, "one", &["--stay", "-p", "x [[ask:go?]]"]);
        until(&home, "one", "waiting");
        let mut command = home.command(&["wait", "one", "--for", "idle"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let waiter = Running(command.spawn().expect("starts")).asleep();
        tell(&home, "one", "go");
        let said = waiter.output();
        assert_said(&said, 0, "one  idle\n");
        assert!(said.stderr.contains("checking once a second instead"), "{}", said.stderr);
    });
}

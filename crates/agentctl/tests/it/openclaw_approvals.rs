//! Approvals of OpenClaw through a scripted gateway on loopback: listed, answered once, and only where the
//! configuration of the gateway allows it.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::gateway::{Demand, Gateway};
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::openclaw::{A, beside, row};

/// A session that was begun here, and its gateway.
pub(crate) struct Asking {
    gateway: Gateway,
    pub(crate) home: TestHome,
    id: String,
    key: String,
}

const ONCE: [&str; 2] = ["allow-once", "deny"];

impl Asking {
    /// Begins a session; with these further settings of its gateway.
    fn begin(more: &str) -> Self {
        let gateway = Gateway::start();
        let home = beside(&gateway, more);
        let launched = home.run(&["launch", "openclaw", "-p", "go"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let id = launched.stdout.trim().to_owned();
        let key = gateway.world().rows[0]["key"].as_str().expect("a key").to_owned();
        Self { gateway, home, id, key }
    }

    /// Begins one that asks for a command with these decisions.
    pub(crate) fn for_decisions(decisions: &[&str]) -> Self {
        let asking = Self::begin("approvals = true\n");
        asking.gateway.world().approvals.ask("ap-1", &asking.key, "touch x", decisions);
        asking
    }

    fn asks(&self) -> Vec<Value> {
        let document = self.home.run(&["asks", "--json"]).json();
        document["asks"].as_array().cloned().expect("a list")
    }

    fn ask(&self) -> String {
        let asks = self.asks();
        assert_eq!(asks.len(), 1, "{asks:?}");
        asks[0]["id"].as_str().expect("an id").to_owned()
    }

    fn answer(&self, decision: &[&str]) -> Output {
        self.home.run(&[&["answer", &self.ask()], decision].concat())
    }

    fn status(&self) -> Value {
        self.home.run(&["status", &self.id, "--json"]).json()
    }

    /// The parameters of every request of this method.
    fn asked(&self, wanted: &str) -> Vec<Value> {
        let world = self.gateway.world();
        let fitting = world.asked.iter().filter(|(method, _)| method == wanted);
        fitting.map(|(_, params)| params.clone()).collect()
    }
}

#[test]
fn an_approval_is_listed_in_full_and_allowed_once() {
    sandboxed(|| {
        let asking = Asking::for_decisions(&ONCE);
        let row = asking.status();
        assert_eq!(
            (&row["status"], &row["reason"]["kind"], &row["reason"]["detail"]),
            (&"waiting".into(), &"permission".into(), &"exec: touch x".into())
        );
        let ask = asking.asks().remove(0);
        assert_eq!((&ask["kind"], &ask["via"]), (&"permission".into(), &"gateway".into()));
        assert_eq!(
            (&ask["session_id"], &ask["cwd"]),
            (&asking.id.clone().into(), &"/srv/ws".into())
        );
        let command = json!({"kind": "command", "text": "touch x", "cut": false});
        assert_eq!(ask["parts"][0], command);
        assert_eq!(ask["tool"]["input"]["host"], "gateway", "{ask}");
        let keys: Vec<&str> = ask["choices"]
            .as_array()
            .expect("choices")
            .iter()
            .filter_map(|c| c["key"].as_str())
            .collect();
        assert_eq!(keys, ["allow", "deny"]);
        assert_eq!((&ask["then"], ask["until"].is_null()), (&"denied".into(), false));
        for verb in ["send", "resume"] {
            let refused = asking.home.run(&[verb, &asking.id, "yes"]);
            assert_eq!(refused.code, Some(10), "{verb}: {}", refused.stderr);
        }
        let id = asking.ask();
        let told = asking.answer(&["--allow"]);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        let resolved = json!({"id": "ap-1", "kind": "exec", "decision": "allow-once"});
        assert_eq!(asking.asked("approval.resolve"), [resolved]);
        assert_eq!(asking.status()["status"], "running");
        assert_eq!(asking.home.run(&["answer", &id, "--deny"]).code, Some(4));
        assert_eq!(asking.asked("approval.resolve").len(), 1, "nothing is answered twice");
    });
}

#[test]
fn only_what_is_offered_is_sent_and_words_do_not_travel() {
    sandboxed(|| {
        let asking = Asking::for_decisions(&ONCE);
        for decision in [&["--always", "1"][..], &["--stop"], &["--text", "yes"]] {
            assert_eq!(asking.answer(decision).code, Some(2), "{decision:?}");
        }
        assert!(asking.asked("approval.resolve").is_empty());
        let told = asking.answer(&["--deny", "--message", "not today"]);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        assert_eq!(asking.asked("approval.resolve")[0]["decision"], "deny");
        assert!(!asking.asked("approval.resolve")[0].to_string().contains("not today"));
        let all = ["allow-once", "allow-always", "deny"];
        asking.gateway.world().approvals.ask("ap-2", &asking.key, "touch y", &all);
        let rule = asking.asks()[0]["choices"][2].clone();
        assert!(
            rule["rule"].as_str().is_some_and(|rule| rule.contains("/usr/bin/touch")),
            "{rule}"
        );
        assert_eq!(asking.answer(&["--always", "1"]).code, Some(0));
        assert_eq!(asking.asked("approval.resolve")[1]["decision"], "allow-always");
    });
}

#[test]
fn of_several_answers_one_is_taken_and_the_others_are_told() {
    sandboxed(|| {
        let asking = Asking::for_decisions(&ONCE);
        let id = asking.ask();
        let decisions = ["--allow", "--deny", "--allow", "--deny"];
        let begun: Vec<_> = decisions
            .iter()
            .map(|decision| {
                let mut command = asking.home.command(&["answer", &id, decision]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
            })
            .collect();
        let ends = begun.into_iter().map(|child| child.wait_with_output().expect("ended"));
        let taken: Vec<&str> = ends
            .zip(decisions)
            .filter(|(output, _)| output.status.code() == Some(0))
            .map(|(_, decision)| decision)
            .collect();
        assert_eq!(taken.len(), 1, "{taken:?}");
        let settled = asking.gateway.world().approvals.settled["ap-1"].clone();
        let did = if settled["status"] == "allowed" { "--allow" } else { "--deny" };
        assert_eq!(taken[0], did, "{settled}");
    });
}

#[test]
fn an_answer_that_came_too_late_is_told_why() {
    sandboxed(|| {
        for (status, words) in [
            ("allowed", "another answer was taken"),
            ("expired", "expired"),
            ("cancelled", "its run was ended"),
        ] {
            let asking = Asking::for_decisions(&ONCE);
            // It is still listed when it is looked at, and settled when the answer arrives.
            let row = asking.gateway.world().approvals.open[0].clone();
            asking.gateway.world().approvals.end("ap-1", status, "x");
            asking.gateway.world().approvals.open.push(row);
            let told = asking.answer(&["--allow"]);
            assert_eq!(told.code, Some(5), "{status}: {}", told.stderr);
            assert!(told.stderr.contains(words), "{status}: {}", told.stderr);
        }
    });
}

#[test]
fn a_lost_answer_is_not_called_taken() {
    sandboxed(|| {
        let asking = Asking::for_decisions(&ONCE);
        asking.gateway.world().approvals.lost_answer = true;
        let told = asking.answer(&["--allow"]);
        assert_eq!(told.code, Some(1), "{}", told.stdout);
        assert_eq!(asking.asked("approval.resolve").len(), 1, "nothing is repeated");
    });
}

#[test]
fn the_right_is_asked_for_only_where_the_gateway_is_opted_in() {
    sandboxed(|| {
        for (more, is_opted_in) in [("", false), ("approvals = true\n", true)] {
            let asking = Asking::begin(more);
            let mut waiter = asking.home.command(&["wait", &asking.id]).spawn().expect("started");
            eventually("it listens", || {
                (!asking.asked("sessions.subscribe").is_empty()).then_some(())
            });
            waiter.kill().expect("killed");
            waiter.wait().expect("reaped");
            asking.gateway.world().approvals.ask("ap-1", &asking.key, "touch x", &ONCE);
            let status = if is_opted_in { "waiting" } else { "running" };
            assert_eq!(asking.status()["status"], status);
            assert_eq!(asking.asks().len(), usize::from(is_opted_in));
            assert_eq!(!asking.asked("exec.approval.list").is_empty(), is_opted_in);
            let connects = asking.asked("connect");
            let approves = |connect: &&Value| connect["scopes"].to_string().contains("approvals");
            assert_eq!(connects.iter().any(|connect| approves(&connect)), is_opted_in);
            let capable = |connect: &&Value| connect["caps"] == json!(["exec-approvals"]);
            assert_eq!(connects.iter().any(|connect| capable(&connect)), is_opted_in, "{more}");
            let is_admin = |connect: &Value| connect["scopes"].to_string().contains("admin");
            assert!(!connects.iter().any(is_admin), "never by itself");
            // A look is no approver: while it is connected, no command waits for it.
            let lists = ["operator.read", "operator.approvals"];
            let looks = connects.iter().filter(|connect| connect["scopes"] == json!(lists));
            assert!(!is_opted_in || looks.clone().any(|connect| connect["caps"] == json!([])));
        }
    });
}

#[test]
fn approvals_of_other_clients_need_an_administrator() {
    sandboxed(|| {
        for (more, is_seen) in [("", false), ("admin = true\n", true)] {
            let gateway = Gateway::start();
            let home = beside(&gateway, &format!("approvals = true\n{more}"));
            gateway.world().rows = vec![row(A, Some("running"), true)];
            let key = gateway.world().rows[0]["key"].as_str().expect("a key").to_owned();
            gateway.world().approvals.ask("ap-1", &key, "touch x", &ONCE);
            let asks = home.run(&["asks", "--json"]).json();
            assert_eq!(asks["asks"].as_array().expect("a list").len(), usize::from(is_seen));
        }
    });
}

#[test]
fn without_the_right_sessions_are_listed_and_the_gap_is_named() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "approvals = true\n");
        gateway.world().rows = vec![row(A, Some("running"), true)];
        gateway.world().devices.demand = Demand::Strips;
        assert_eq!(home.run(&["list", "--json"]).code, Some(3), "its device is not approved yet");
        let request = gateway.world().devices.pending[0].0.clone();
        gateway.world().devices.approve(&request);
        let listed = home.run(&["list", "--json"]);
        assert_eq!(listed.code, Some(3), "{}", listed.stdout);
        assert_eq!(listed.session(A)["status"], "running");
        assert!(listed.stderr.contains("its approvals are not known"), "{}", listed.stderr);
        assert!(listed.stderr.contains("operator.approvals"), "{}", listed.stderr);
    });
}

#[test]
fn a_request_that_is_not_known_here_is_shown_and_not_answered() {
    sandboxed(|| {
        let asking = Asking::for_decisions(&ONCE);
        asking.gateway.world().approvals.open[0]["approvalKind"] = "plugin".into();
        let ask = asking.asks().remove(0);
        assert!(ask["via"].is_null() && ask["why_not"].is_string(), "{ask}");
        assert_eq!((&ask["parts"][0]["kind"], &ask["choices"]), (&"json".into(), &json!([])));
        assert_eq!(asking.answer(&["--allow"]).code, Some(5));
        assert!(asking.asked("approval.resolve").is_empty());
    });
}

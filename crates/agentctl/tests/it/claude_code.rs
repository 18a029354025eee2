//! Claude Code alive: live records written by real processes, verified against the real kernel.

use serde_json::{Value, json};
use testkit::{Agent, TestHome, eventually, sandboxed};

use crate::{assert_list_equals_status, home};

pub(crate) const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
pub(crate) const B: &str = "bbbbbbbb-0000-4000-8000-000000000002";
const DOMAIN: &str = "linux:{machine}:pid:[{ns}]";

/// Returns a live record with further fields.
pub(crate) fn record(id: &str, cwd: &str, more: &Value) -> String {
    let mut record = json!({
        "sessionId": id, "cwd": cwd, "startedAt": 1_794_728_785_156_i64, "procStart": "{start}",
        "pidDomain": DOMAIN, "kind": "interactive", "entrypoint": "cli", "version": "2.1.325",
    });
    for (key, value) in more.as_object().expect("an object") {
        record[key] = value.clone();
    }
    record.to_string()
}

pub(crate) struct Claude {
    pub(crate) home: TestHome,
    pub(crate) cwd: String,
    pub(crate) record_path: String,
}

impl Claude {
    pub(crate) fn new() -> Self {
        let home = home();
        let cwd = home.path().join("ws");
        let record_path = home.at(".claude/sessions/{pid}.json").to_string_lossy().into_owned();
        Self { home, cwd: cwd.to_string_lossy().into_owned(), record_path }
    }

    /// A process named `claude` that says this of itself.
    pub(crate) fn live(&self, id: &str, more: &Value) -> Agent {
        let text = record(id, &self.cwd, more);
        let mut agent = self.home.agent("claude", "ws", &["write", &self.record_path, &text]);
        agent.ready();
        agent
    }

    pub(crate) fn transcript(&self, id: &str, lines: &[Value]) {
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            let mut line = line.clone();
            line["cwd"] = self.cwd.clone().into();
            line["sessionId"] = id.into();
            line["timestamp"] = format!("2026-11-15T08:00:{index:02}.000Z").into();
            text.push_str(&format!("{line}\n"));
        }
        self.home.write(&format!(".claude/projects/-ws/{id}.jsonl"), text);
    }

    pub(crate) fn list(&self) -> testkit::Output {
        self.home.run(&["list", "-a", "--since", "all", "--json"])
    }

    pub(crate) fn row(&self, id: &str) -> Value {
        self.list().session(id)
    }
}

pub(crate) fn prompt(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}})
}

pub(crate) fn tool_use(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "assistant", "message": {"id": "m1", "model": "claude-opus-5-5", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": id, "name": name, "input": input}], "usage": {"input_tokens": 5, "output_tokens": 2}}})
}

pub(crate) fn said(text: &str) -> Value {
    json!({"type": "assistant", "message": {"id": "m2", "model": "claude-opus-5-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 7, "output_tokens": 3}}})
}

#[test]
fn the_status_of_the_live_record_is_shown() {
    sandboxed(|| {
        let cases = [
            // Its transcript has an entry of its own time.
            (json!({}), "running", "tool", "Bash: npm test".into()),
            (json!({"status": "busy"}), "running", "tool", "Bash: npm test".into()),
            (json!({"status": "idle"}), "idle", "-", Value::Null),
            (
                json!({"status": "shell"}),
                "idle",
                "background",
                "a background shell is at work".into(),
            ),
            (
                json!({"status": "waiting", "waitingFor": "permission prompt"}),
                "waiting",
                "permission",
                "Bash: npm test".into(),
            ),
            (
                json!({"status": "waiting", "waitingFor": "dialog open"}),
                "waiting",
                "dialog",
                "dialog open".into(),
            ),
            (
                json!({"status": "something new"}),
                "unknown",
                "unreadable",
                "its live record says `something new`, which is not understood".into(),
            ),
        ];
        for (says, status, kind, detail) in cases {
            let claude = Claude::new();
            claude.transcript(
                A,
                &[prompt("fix it"), tool_use("t1", "Bash", &json!({"command": "npm test"}))],
            );
            let agent = claude.live(A, &says);
            let row = claude.row(A);
            assert_eq!(row["status"], status, "{says}");
            assert_eq!(row["reason"]["kind"].as_str().unwrap_or("-"), kind, "{says}");
            assert_eq!(row["reason"]["detail"], detail, "{says}");
            assert_eq!((&row["pid"], &row["hosted"]), (&agent.pid().into(), &false.into()));
            assert_eq!(row["processes"][0]["pid"], agent.pid());
            assert_list_equals_status(&claude.home);
        }
    });
}

#[test]
fn tools_refused_by_a_rule_are_noted() {
    sandboxed(|| {
        let claude = Claude::new();
        let refused = json!({"type": "user", "permissionDecision": {"decision": "reject", "source": "config"},
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": "touch needs approval"}]}});
        let call = tool_use("t1", "Bash", &json!({"command": "touch /etc/x"}));
        claude.transcript(A, &[prompt("x"), call, refused, said("all done")]);
        let row = claude.row(A);
        assert_eq!((&row["status"], &row["outcome"]), (&"stopped".into(), &"finished".into()));
        assert_eq!(
            row["notes"],
            json!(["1 tool call was refused without anyone being asked: touch needs approval"])
        );
        assert_list_equals_status(&claude.home);
    });
}

#[test]
fn escape_before_the_first_answer_is_no_killing() {
    sandboxed(|| {
        let claude = Claude::new();
        let mut asked = prompt("x");
        let goodbye = json!({"type": "cost-state", "totalCostUSD": 0});
        for (entrypoint, outcome) in [("cli", "unknown"), ("sdk-cli", "killed")] {
            asked["entrypoint"] = entrypoint.into();
            claude.transcript(A, &[asked.clone(), goodbye.clone()]);
            assert_eq!(claude.row(A)["outcome"], outcome, "{entrypoint}");
        }
    });
}

#[test]
fn a_question_and_a_plan_differ_from_a_permission() {
    sandboxed(|| {
        let question = json!({"questions": [{"question": "Which one?"}]});
        for (waiting_for, name, input, kind, detail) in [
            ("input needed", "AskUserQuestion", question, "question", "Which one?"),
            (
                "permission prompt",
                "ExitPlanMode",
                json!({"plan": "do it all"}),
                "plan",
                "do it all",
            ),
        ] {
            let claude = Claude::new();
            claude.transcript(A, &[prompt("x"), tool_use("t1", name, &input)]);
            let _agent = claude.live(A, &json!({"status": "waiting", "waitingFor": waiting_for}));
            let row = claude.row(A);
            assert_eq!(
                (&row["status"], &row["reason"]["kind"], &row["reason"]["detail"]),
                (&"waiting".into(), &kind.into(), &detail.into())
            );
        }
    });
}

#[test]
fn retries_are_seen_with_and_without_a_terminal() {
    sandboxed(|| {
        let claude = Claude::new();
        let _agent = claude.live(A, &json!({"status": "busy"}));
        let error = json!({"type": "system", "subtype": "api_error", "retryAttempt": 3, "maxRetries": 10, "error": {"formatted": "529 overloaded"}});
        claude.transcript(
            A,
            &[prompt("x"), json!({"type": "api-request", "requestDigest": "d"}), error],
        );
        let row = claude.row(A);
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"running".into(), &"retrying".into())
        );
        assert_eq!(row["reason"]["detail"], "attempt 3 of 10: 529 overloaded");

        let request = json!({"type": "api-request", "requestDigest": "same"});
        claude.transcript(A, &[prompt("x"), request.clone(), request.clone(), request]);
        assert_eq!(claude.row(A)["reason"]["detail"], "attempt 3");

        // An attempt that was answered is over.
        claude.transcript(
            A,
            &[
                prompt("x"),
                json!({"type": "api-request", "requestDigest": "d"}),
                json!({"type": "api-request", "requestDigest": "d"}),
                tool_use("t1", "Bash", &json!({"command": "ls"})),
            ],
        );
        assert_eq!(claude.row(A)["reason"]["kind"], "tool");
    });
}

#[test]
fn a_live_process_with_an_unreadable_record_is_shown() {
    sandboxed(|| {
        let claude = Claude::new();
        let mut agent = claude.live(A, &json!({"status": "busy"}));
        claude.transcript(A, &[prompt("x"), tool_use("t1", "Bash", &json!({"command": "make"}))]);
        let path = claude.home.path().join(format!(".claude/projects/-ws/{A}.jsonl"));
        let text = std::fs::read_to_string(&path)
            .expect("there")
            .replace("2026-11-15T08:00:01.000Z", "2099-01-01T00:00:00.000Z");
        std::fs::write(&path, text).expect("written");
        let record = claude.record_path.replace("{pid}", &agent.pid().to_string());
        let good = std::fs::read_to_string(&record).expect("there");
        std::fs::write(&record, "{\"sessionId\":").expect("torn");
        let listed = claude.list();
        assert_eq!(listed.code, Some(3));
        assert_eq!(
            (&listed.session(A)["status"], &listed.session(A)["reason"]["kind"]),
            (&"unknown".into(), &"unreadable".into())
        );

        let mut unsigned: Value = serde_json::from_str(&good).expect("JSON");
        unsigned.as_object_mut().expect("an object").remove("procStart");
        std::fs::write(&record, unsigned.to_string()).expect("written");
        assert_eq!(
            claude.row(A)["status"],
            "unknown",
            "nothing proves that the process wrote this record"
        );
        agent.kill();
        assert_eq!(claude.row(A)["status"], "stopped");
    });
}

#[test]
fn a_record_left_behind_proves_nothing() {
    sandboxed(|| {
        let claude = Claude::new();
        claude
            .transcript(A, &[prompt("x"), tool_use("t1", "Bash", &json!({"command": "sleep 90"}))]);
        let mut agent = claude.live(A, &json!({"status": "busy"}));
        assert_eq!(claude.row(A)["status"], "running");
        agent.child.kill().expect("killed");
        // Not reaped: kill(pid, 0) would still say alive.
        let row = eventually("the zombie is seen as gone", || {
            Some(claude.row(A)).filter(|r| r["status"] == "stopped")
        });
        assert_eq!((&row["outcome"], &row["pid"]), (&"killed".into(), &Value::Null));
        agent.child.wait().expect("reaped");
        assert_eq!(claude.row(A)["status"], "stopped");
        assert!(claude.home.path().join(format!(".claude/sessions/{}.json", agent.pid())).exists());
        assert!(claude.home.run(&["list", "--json"]).sessions().is_empty());
        assert_list_equals_status(&claude.home);
    });
}

#[test]
fn a_stranger_with_the_recorded_pid_is_not_the_agent() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        let stranger = claude.live(A, &json!({"status": "busy", "procStart": "12345"}));
        let row = claude.row(A);
        assert_eq!(
            (&row["status"], &row["pid"]),
            (&"stopped".into(), &Value::Null),
            "it was silent before this process began"
        );
        drop(stranger);
        // Any other program with that pid is no suspect either.
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        let text = record(A, &claude.cwd, &json!({"status": "busy", "procStart": "12345"}));
        let mut stranger =
            claude.home.agent("sleeper", "other", &["write", &claude.record_path, &text]);
        stranger.ready();
        assert_eq!(claude.row(A)["status"], "stopped");
    });
}

#[test]
fn another_domain_is_unknown_and_never_stopped() {
    sandboxed(|| {
        for domain in [
            "linux:{machine}:pid:[42]",
            "linux:00000000000000000000000000000000:pid:[{ns}]",
            "nonsense",
        ] {
            let claude = Claude::new();
            claude.transcript(A, &[prompt("x"), said("done")]);
            let mut agent = claude.live(A, &json!({"status": "busy", "pidDomain": domain}));
            agent.kill();
            let row = claude.row(A);
            assert_eq!(
                (&row["status"], &row["reason"]["kind"]),
                (&"unknown".into(), &"elsewhere".into()),
                "{domain}"
            );
            assert_eq!(
                claude.home.run(&["list", "--json"]).sessions().len(),
                1,
                "it may live: it is listed"
            );
            assert_list_equals_status(&claude.home);
        }
    });
}

#[test]
fn clear_gives_one_process_a_new_session() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        let agent = claude.live(A, &json!({"status": "idle"}));
        assert_eq!(claude.row(A)["status"], "idle");
        let path = claude.record_path.replace("{pid}", &agent.pid().to_string());
        let text = std::fs::read_to_string(&path).expect("there").replace(A, B);
        std::fs::write(&path, text).expect("rewritten in place");
        let listed = claude.list();
        assert_eq!(listed.session(A)["status"], "stopped");
        let new = listed.session(B);
        assert_eq!(
            (&new["status"], &new["pid"], &new["prompt"]),
            (&"idle".into(), &agent.pid().into(), &Value::Null)
        );
        assert_list_equals_status(&claude.home);
    });
}

#[test]
fn the_command_line_names_no_session() {
    sandboxed(|| {
        for flag in ["--resume", "--session-id"] {
            let claude = Claude::new();
            claude.transcript(A, &[prompt("x"), said("done")]);
            // Started for one session, moved to another by `/clear`: its arguments stay as they were.
            let text = record(B, &claude.cwd, &json!({"status": "idle"}));
            let script = [flag, A, "write", &claude.record_path, &text];
            let mut agent = claude.home.agent("claude", "ws", &script);
            agent.ready();
            let listed = claude.list();
            let told = |id: &str| {
                (listed.session(id)["status"].clone(), listed.session(id)["pid"].clone())
            };
            assert_eq!(told(A), ("stopped".into(), Value::Null), "{flag}");
            assert_eq!(told(B), ("idle".into(), agent.pid().into()), "{flag}");
            assert_list_equals_status(&claude.home);
        }
    });
}

#[test]
fn only_a_name_given_by_a_person_is_shown() {
    sandboxed(|| {
        for (source, name) in [("derived", Value::Null), ("user", "ws-5d".into())] {
            let claude = Claude::new();
            let says = json!({"status": "idle", "name": "ws-5d", "nameSource": source});
            let _agent = claude.live(A, &says);
            assert_eq!(claude.row(A)["name"], name, "{source}");
        }
    });
}

#[test]
fn two_processes_on_one_session_are_one_row() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        let one = claude.live(A, &json!({"status": "idle"}));
        let two = claude.live(A, &json!({"status": "busy"}));
        let row = claude.row(A);
        assert_eq!(row["status"], "running", "the one that works speaks for both");
        let mut pids: Vec<u64> = row["processes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|p| p["pid"].as_u64())
            .collect();
        pids.sort_unstable();
        let mut expected = [u64::from(one.pid()), u64::from(two.pid())];
        expected.sort_unstable();
        assert_eq!(pids, expected);
        assert!(
            row["notes"][0].as_str().is_some_and(|n| n.starts_with("2 processes run this session"))
        );
        assert_list_equals_status(&claude.home);
    });
}

#[test]
fn a_stopped_agent_is_paused() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x")]);
        let agent = claude.live(A, &json!({"status": "busy"}));
        let signal = |name: &str| {
            let sent =
                std::process::Command::new("kill").args([name, &agent.pid().to_string()]).status();
            assert!(sent.expect("kill").success());
        };
        signal("-STOP");
        let row = eventually("it is paused", || {
            Some(claude.row(A)).filter(|r| r["reason"]["kind"] == "paused")
        });
        assert_eq!(row["status"], "running");
        signal("-CONT");
        eventually("it goes on", || Some(claude.row(A)).filter(|r| r["reason"].is_null()));
    });
}

#[test]
fn a_moved_home_is_found_through_the_process_that_uses_it() {
    sandboxed(|| {
        let mut claude = Claude::new();
        let moved =
            claude.home.at("profile/x").parent().expect("a parent").to_string_lossy().into_owned();
        claude.home.set("CLAUDE_CONFIG_DIR", &moved);
        claude.record_path = format!("{moved}/sessions/{{pid}}.json");
        let _agent = claude.live(A, &json!({"status": "idle"}));
        let told = claude.row(A);
        assert_eq!((&told["status"], &told["root"]), (&"idle".into(), &moved.clone().into()));
        claude.home.set("CLAUDE_CONFIG_DIR", "");
        assert_eq!(claude.row(A)["root"], moved.clone(), "nobody told us; the process did");
        let roots = format!("[roots]\nclaude-code = [\"{moved}\"]\n");
        crate::configure(&claude.home, &[], &roots);
        assert_eq!(claude.list().sessions().len(), 1, "found in three ways, shown once");
    });
}

#[test]
fn a_live_record_that_cannot_be_listed_makes_absence_unknown() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        assert_eq!(claude.row(A)["status"], "stopped");
        std::fs::remove_dir_all(claude.home.path().join(".claude/sessions")).expect("removed");
        claude.home.write(".claude/sessions", "a file in the directory's place");

        let listed = claude.list();
        assert_eq!(listed.code, Some(3), "{}", listed.stderr);
        assert_eq!(
            (&listed.session(A)["status"], &listed.session(A)["outcome"]),
            (&"unknown".into(), &Value::Null)
        );
        assert!(listed.stderr.contains("warning: claude-code"), "{}", listed.stderr);
        assert_list_equals_status(&claude.home);
    });
}

#[test]
fn subagents_work_under_their_parent() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("I sent somebody.")]);
        let line = |v: &Value| format!("{v}\n");
        let child = line(
            &json!({"type": "user", "isSidechain": true, "timestamp": "2026-11-15T08:00:05.000Z", "message": {"role": "user", "content": "look"}}),
        ) + &line(&tool_use("t9", "Grep", &json!({"pattern": "needle"})));
        claude.home.write(&format!(".claude/projects/-ws/{A}/subagents/agent-a1b2c3.jsonl"), child);
        let agent = claude.live(A, &json!({"status": "busy"}));
        let row = claude.row(A);
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"running".into(), &"subagents".into())
        );
        assert_eq!(claude.list().sessions().len(), 1, "never a row of its own");
        let tree = claude.home.run(&["list", "--tree", "--json"]).sessions();
        assert_eq!(
            tree.iter().map(|s| s["id"].as_str().unwrap_or("-")).collect::<Vec<_>>(),
            [A, "a1b2c3"]
        );
        assert_eq!(
            (&tree[1]["parent"], &tree[1]["status"], &tree[1]["pid"]),
            (&A.into(), &"running".into(), &agent.pid().into())
        );
        let alone = claude.home.run(&["status", "a1b2c3", "--json"]).json();
        assert_eq!(
            crate::comparable(&alone),
            crate::comparable(&tree[1]),
            "what the tree shows can be asked for"
        );
        assert!(claude.home.run(&["logs", "a1b2c3"]).stdout.contains("Grep(needle)"));

        std::fs::write(
            claude.record_path.replace("{pid}", &agent.pid().to_string()),
            std::fs::read_to_string(claude.record_path.replace("{pid}", &agent.pid().to_string()))
                .expect("there")
                .replace("\"busy\"", "\"waiting\",\"waitingFor\":\"permission prompt\""),
        )
        .expect("rewritten");
        let row = claude.row(A);
        assert_eq!(
            (&row["reason"]["kind"], &row["reason"]["detail"]),
            (&"permission".into(), &"Grep: needle".into())
        );
    });
}

#[test]
fn a_torn_record_of_a_live_process_proves_no_session_unserved() {
    sandboxed(|| {
        let claude = Claude::new();
        // Older than the process: a session that was resumed and has not gone on yet.
        claude.transcript(A, &[prompt("x")]);
        assert_eq!(claude.row(A)["outcome"], "killed");
        let mut agent = claude.home.agent("claude", "ws", &["write", &claude.record_path, "{"]);
        agent.ready();
        let listed = claude.list();
        assert_eq!(
            (&listed.session(A)["status"], listed.code),
            (&"unknown".into(), Some(3)),
            "{}",
            listed.stderr
        );
        agent.kill();
        assert_eq!(claude.row(A)["outcome"], "killed", "a stale record says nothing");
    });
}

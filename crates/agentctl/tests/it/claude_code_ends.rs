//! How Claude Code sessions ended: orderly ends that no message of the model shows (W4).

use serde_json::{Value, json};
use testkit::sandboxed;

use crate::assert_list_equals_status;
use crate::claude_code::{A, Claude, prompt, tool_use};

fn attachment(attachment: &Value) -> Value {
    json!({"type": "attachment", "attachment": attachment})
}

fn result(id: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]}})
}

fn cost(total: f64) -> Value {
    json!({"type": "cost-state", "totalCostUSD": total})
}

fn call() -> Value {
    tool_use("t1", "Bash", &json!({"command": "true"}))
}

fn assert_ended(lines: &[Value], outcome: &str, word: &str) {
    let claude = Claude::new();
    claude.transcript(A, lines);
    let row = claude.row(A);
    let said = format!("{}{}", row["reason"]["detail"], row["notes"]);
    assert_eq!(row["outcome"], outcome, "{said} after {lines:#?}");
    assert!(said.contains(word), "`{word}` is missing in {said}");
    assert_list_equals_status(&claude.home);
}

/// W4.
#[test]
fn a_limit_of_turns_is_a_failure() {
    sandboxed(|| {
        let reached =
            attachment(&json!({"type": "max_turns_reached", "maxTurns": 1, "turnCount": 2}));
        let lines = [prompt("x"), call(), result("t1"), reached, cost(0.1)];
        assert_ended(&lines, "failed", "limit of 1 turn");
    });
}

/// W4: also where the hook's message or the deferred call is long.
#[test]
fn an_end_by_a_hook_is_finished_and_says_so() {
    sandboxed(|| {
        let long = "x".repeat(5000);
        let stop = json!({"type": "hook_stopped_continuation", "message": "no", "hookName": "PostToolUse:Bash", "zz": long});
        assert_ended(
            &[prompt("x"), call(), result("t1"), attachment(&stop), cost(0.1)],
            "finished",
            "PostToolUse:Bash",
        );
        let defer = json!({"type": "hook_deferred_tool", "toolName": "Bash", "hookName": "PreToolUse:Bash", "zz": long});
        assert_ended(&[prompt("x"), call(), attachment(&defer), cost(0.1)], "finished", "deferred");
        let blocked = json!({"type": "system", "subtype": "informational", "content": "Operation stopped by hook",
            "preventContinuation": true, "entrypoint": "sdk-cli"});
        assert_ended(&[prompt("x"), blocked, cost(0.0)], "finished", "stopped by hook");
        let older = prompt("Operation stopped by hook: no");
        assert_ended(&[prompt("x"), older], "finished", "stopped by hook: no");
    });
}

/// W4: the process that gives its structured output takes its leave; without that it was killed.
#[test]
fn a_structured_output_is_finished_once_the_process_has_left() {
    sandboxed(|| {
        let given = attachment(&json!({"type": "structured_output", "zz": "x".repeat(5000)}));
        let call = tool_use("t1", "StructuredOutput", &json!({"a": "b"}));
        let lines = [prompt("x"), call, given, result("t1")];
        assert_ended(&lines, "killed", "");
        let left = |goodbye: Value| [lines.to_vec(), vec![goodbye]].concat();
        assert_ended(&left(cost(0.1)), "finished", "");
        assert_ended(&left(json!({"type": "last-prompt", "lastPrompt": "x"})), "finished", "");
    });
}

/// W4: the cost of a process is the difference to the cost of earlier processes.
#[test]
fn a_budget_that_is_spent_is_a_failure_and_a_signal_is_not() {
    sandboxed(|| {
        let budget =
            attachment(&json!({"type": "budget_usd", "used": 0, "total": 1.0, "remaining": 1.0}));
        let run = |total: f64| vec![prompt("x"), budget.clone(), call(), cost(total)];
        assert_ended(&run(1.5), "failed", "budget of $1");
        assert_ended(&run(0.5), "killed", "");
        let again = |total: f64| [vec![prompt("before"), cost(3.0)], run(total)].concat();
        assert_ended(&again(3.5), "killed", "");
        assert_ended(&again(4.5), "failed", "budget of $1");
        // Versions before 2.1.280 do not write the cost.
        let goodbye = json!({"type": "last-prompt", "lastPrompt": "x"});
        assert_ended(&[prompt("x"), budget.clone(), call(), goodbye], "unknown", "budget");
        // SIGTERM during a tool leaves an open call and the same goodbye, without any budget.
        assert_ended(&[prompt("x"), call(), cost(0.1)], "killed", "");
    });
}

fn budget(total: f64) -> Value {
    attachment(&json!({"type": "budget_usd", "used": 0, "total": total, "remaining": total}))
}

fn answered(text: &str, message: &str) -> Value {
    let mut line = crate::claude_code::said(text);
    line["message"]["id"] = message.into();
    line
}

/// W4: the budget may end behind the result of a call and behind the last answer.
#[test]
fn a_budget_that_a_result_or_the_last_answer_used_up_is_a_failure() {
    sandboxed(|| {
        let reached = "budget of $1";
        let with_result =
            |total: f64| [prompt("x"), budget(1.0), call(), result("t1"), cost(total)];
        assert_ended(&with_result(1.5), "failed", reached);
        assert_ended(&with_result(0.5), "killed", "");
        let said = || answered("done", "m2");
        let with_answer = |total: f64| vec![prompt("x"), budget(1.0), said(), cost(total)];
        assert_ended(&with_answer(1.5), "failed", reached);
        assert_ended(&with_answer(0.5), "finished", "");
        // A long line is between the budget and the answer.
        let bulk = attachment(&json!({"type": "prompt_snapshot", "zz": "x".repeat(400_000)}));
        let far = [prompt("x"), budget(1.0), bulk, said(), cost(1.5)];
        assert_ended(&far, "failed", reached);
        // Cost and budget of earlier processes do not count for this one.
        let before = || vec![prompt("w"), budget(1.0), answered("before", "m0"), cost(3.0)];
        assert_ended(&[before(), with_answer(3.5)].concat(), "finished", "");
        assert_ended(&[before(), with_answer(4.5)].concat(), "failed", reached);
        let without = vec![prompt("x"), said(), cost(9.0)];
        assert_ended(&[before(), without.clone()].concat(), "finished", "");
        let mut not_left = before();
        not_left.truncate(3);
        assert_ended(&[not_left, without].concat(), "finished", "");
    });
}

/// W4: versions before 2.1.280 do not write the cost.
#[test]
fn an_end_under_a_budget_is_unknown_where_the_cost_is_not_written() {
    sandboxed(|| {
        let farewell = || json!({"type": "last-prompt", "lastPrompt": "x"});
        for end in [answered("done", "m2"), call()] {
            let lines = written_by("2.1.200", &[prompt("x"), budget(1.0), end]);
            assert_ended(&lines, "unknown", "budget of $1");
            assert_ended(&[lines, vec![farewell()]].concat(), "unknown", "budget of $1");
        }
    });
}

/// W4: `error_max_structured_output_retries` leaves nothing but the last refused output.
#[test]
fn outputs_that_never_match_the_schema_are_a_failure() {
    sandboxed(|| {
        let attempt = |n: usize| {
            let mut call = tool_use(&format!("t{n}"), "StructuredOutput", &json!({"b": 1}));
            call["message"]["id"] = format!("m{n}").into();
            [call, result(&format!("t{n}"))]
        };
        let attempts = |count: usize| (0..count).flat_map(attempt).collect::<Vec<_>>();
        let run = |count: usize| [vec![prompt("x")], attempts(count)].concat();
        let left = |lines: Vec<Value>| [lines, vec![cost(0.1)]].concat();
        assert_ended(&left(run(5)), "failed", "did not match the schema");
        // The limit can be set lower, and SIGTERM leaves the same files.
        assert_ended(&left(run(2)), "unknown", "out of retries or terminated");
        assert_ended(&left([run(4), run(2)].concat()), "unknown", "out of retries or terminated");
        assert_ended(&run(5), "killed", "");
    });
}

/// The launch bug of the review: `launch claude-code -p /context --wait`.
#[test]
fn a_command_that_was_carried_out_without_a_turn_is_finished() {
    sandboxed(|| {
        let command = |entrypoint: &str| {
            let asked = json!({"type": "user", "message": {"role": "user", "content": "<command-name>/context</command-name>"}});
            let answer = json!({"type": "system", "subtype": "local_command", "entrypoint": entrypoint,
                "content": "<local-command-stdout>## Context Usage</local-command-stdout>"});
            vec![asked, answer, cost(0.0)]
        };
        assert_ended(&command("sdk-cli"), "finished", "");
        // In a terminal it says nothing about the turn before it.
        let interrupted = prompt("[Request interrupted by user]");
        let lines = [vec![prompt("x"), interrupted], command("cli")].concat();
        assert_ended(&lines, "interrupted", "");
    });
}

/// Gives every message the version that wrote it.
fn written_by(version: &str, lines: &[Value]) -> Vec<Value> {
    let mut lines = lines.to_vec();
    for line in lines.iter_mut().filter(|line| line.get("message").is_some()) {
        line["version"] = version.into();
    }
    lines
}

/// Before 2.1.280 SIGINT and SIGTERM leave the same files; SIGKILL leaves no farewell.
#[test]
fn a_signal_that_leaves_the_files_of_another_signal_is_an_unknown_end() {
    sandboxed(|| {
        let farewell = || json!({"type": "last-prompt", "lastPrompt": "x"});
        let in_tool = [prompt("x"), call()];
        let in_call = [prompt("x"), call(), result("t1")];
        for version in ["2.1.100", "2.1.150", "2.1.200"] {
            for open in [&in_tool[..], &in_call[..], &in_tool[..1]] {
                let open = written_by(version, open);
                assert_ended(&open, "killed", "");
                let left = [open, vec![farewell()]].concat();
                assert_ended(&left, "unknown", "interrupted or terminated");
            }
            let done = written_by(version, &[prompt("x"), crate::claude_code::said("done")]);
            assert_ended(&[done, vec![farewell()]].concat(), "finished", "");
        }
        let later = [written_by("2.1.280", &in_tool), vec![farewell(), cost(0.1)]].concat();
        assert_ended(&later, "killed", "");
    });
}

/// Versions up to 2.0 write nothing about limits, budgets, hooks and signals.
#[test]
fn an_open_turn_of_a_version_that_writes_no_ends_is_an_unknown_end() {
    sandboxed(|| {
        let dequeue = || json!({"type": "queue-operation", "operation": "dequeue"});
        let done = [prompt("x"), crate::claude_code::said("done")];
        for version in ["1.0.128", "2.0.77", "2.1.0-beta"] {
            let written = |lines: &[Value]| written_by(version, lines);
            let why = "does not write why";
            assert_ended(&written(&[prompt("x"), call()]), "unknown", why);
            assert_ended(&written(&[prompt("x"), call(), result("t1")]), "unknown", why);
            assert_ended(&written(&[prompt("x")]), "unknown", why);
            assert_ended(&written(&[&[dequeue()], &done[..]].concat()), "finished", "");
            // The prompt itself is written only with the first answer.
            let begun = written(&[&done[..], &[dequeue()]].concat());
            assert_ended(&begun, "unknown", "a prompt was taken up");
        }
        let interrupted = prompt("[Request interrupted by user]");
        assert_ended(&written_by("2.0.77", &[prompt("x"), interrupted]), "interrupted", "");
    });
}

/// A subagent ends with the process that it began in: a process that resumes its session has not that one.
#[test]
fn a_subagent_of_an_earlier_process_was_killed_with_it() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), tool_use("t1", "Agent", &json!({"prompt": "look"}))]);
        let mut child = tool_use("t9", "Grep", &json!({"pattern": "needle"}));
        child["timestamp"] = "2026-11-15T08:00:05.000Z".into();
        let path = format!(".claude/projects/-ws/{A}/subagents/agent-a1b2c3.jsonl");
        claude.home.write(&path, format!("{child}\n"));
        let began = 1_794_728_785_156_i64; // 07:46 of the same day
        for (started_at, reason, status, outcome) in [
            (began, "background".into(), "running", Value::Null),
            (began + 86_400_000, Value::Null, "stopped", "killed".into()),
        ] {
            let more = json!({"status": "idle", "startedAt": started_at});
            let _agent = claude.live(A, &more);
            let tree = claude.home.run(&["list", "--tree", "-a", "--json"]).sessions();
            assert_eq!((&tree[0]["status"], &tree[0]["reason"]["kind"]), (&"idle".into(), &reason));
            assert_eq!((&tree[1]["status"], &tree[1]["outcome"]), (&status.into(), &outcome));
            let alone = claude.home.run(&["status", "a1b2c3", "--json"]).json();
            assert_eq!(crate::comparable(&alone), crate::comparable(&tree[1]));
            assert_list_equals_status(&claude.home);
        }
    });
}

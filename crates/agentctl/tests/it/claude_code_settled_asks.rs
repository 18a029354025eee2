//! Two asks of one Claude Code session: they share its live record, so the result of a call says which of them was
//! settled in the terminal.

use std::io::Write;

use serde_json::{Value, json};
use testkit::{eventually, sandboxed};

use crate::claude_code::tool_use;
use crate::claude_code_asks::{Asking, RUNTIME, TRANSCRIPT, hook_input, transcript_path};

const FIRST: &str = "touch x";

/// Starts a session in a terminal that asks for two commands at once, the first of which is [`FIRST`].
fn asking_for_two(second: &str) -> Asking {
    let more = json!({"status": "waiting", "waitingFor": "permission prompt"});
    let asking = Asking::with_script(&more, hook_input(FIRST).to_string().as_bytes(), |home| {
        let input = hook_input(second).to_string();
        let input = input.replace(TRANSCRIPT, &transcript_path(home));
        std::fs::write(home.join("second.json"), input).expect("written");
        format!(
            "exec '{1}' asker '{0}/{RUNTIME}' claude-code 600 < '{0}/second.json' > '{0}/decision2'",
            home.display(),
            env!("CARGO_BIN_EXE_agentctl"),
        )
    });
    let input = json!({"command": second, "description": "x"});
    write(&asking, &tool_use("t2", "Bash", &input));
    until_held(&asking, 2);
    asking
}

/// Waits until as many asks are held, and returns them.
fn until_held(asking: &Asking, count: usize) -> Vec<Value> {
    eventually("the asks are held", || {
        let rows = asking.rows();
        (rows.len() == count && Asking::askers().len() == count).then_some(rows)
    })
}

/// Appends a line to the transcript.
fn write(asking: &Asking, line: &Value) {
    let path = transcript_path(&asking.claude.home.path());
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("there");
    file.write_all(format!("{line}\n").as_bytes()).expect("written");
}

/// The person denies a call in the terminal of the session.
fn deny_in_terminal(asking: &Asking, call: &str) {
    let result = json!({"type": "tool_result", "tool_use_id": call, "is_error": true,
        "content": "The user doesn't want to proceed with this tool use."});
    write(asking, &json!({"type": "user", "message": {"role": "user", "content": [result]}}));
}

fn of_command(rows: &[Value], command: &str) -> Value {
    let title = format!("Bash: {command}");
    rows.iter().find(|ask| ask["title"] == title.as_str()).cloned().expect("its ask is open")
}

#[test]
fn an_ask_that_was_settled_in_the_terminal_leaves_while_another_is_open() {
    sandboxed(|| {
        let asking = asking_for_two("touch y");
        deny_in_terminal(&asking, "t1");
        let rows = until_held(&asking, 1);
        let taken = asking.answer(&of_command(&rows, "touch y"), &["--allow"]);
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        assert_eq!(asking.decision(), "", "the first ask was never answered from here");
    });
}

#[test]
fn an_answer_to_an_ask_that_was_just_denied_in_the_terminal_is_refused() {
    sandboxed(|| {
        let asking = asking_for_two("touch y");
        let first = of_command(&asking.rows(), FIRST);
        deny_in_terminal(&asking, "t1");
        let refused = asking.answer(&first, &["--allow"]);
        assert!(matches!(refused.code, Some(4 | 5)), "{refused:?}");
        assert_eq!(asking.decision(), "");
    });
}

#[test]
fn of_two_asks_for_the_same_command_none_leaves_before_both_are_settled() {
    sandboxed(|| {
        let asking = asking_for_two(FIRST);
        deny_in_terminal(&asking, "t1");
        let rows = asking.rows();
        assert_eq!(rows.len(), 2, "the result does not say which of them it belongs to: {rows:?}");
        let taken = asking.answer(&rows[1], &["--allow"]);
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        deny_in_terminal(&asking, "t2");
        Asking::until_no_asker();
    });
}

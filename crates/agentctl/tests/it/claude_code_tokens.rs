//! Claude Code: the tokens of a message whose figures grow from one line of the transcript to the next.

use serde_json::{Value, json};
use testkit::sandboxed;

use crate::claude_code::{A, Claude, prompt};

/// One line of the message `id`: a content block, and the tokens counted by the time it was written.
fn block(id: &str, content: &Value, usage: &Value) -> Value {
    json!({"type": "assistant", "message": {"id": id, "model": "claude-opus-5-5",
        "stop_reason": "end_turn", "content": [content], "usage": usage}})
}

fn usage(input: u64, output: u64) -> Value {
    json!({"input_tokens": input, "output_tokens": output,
        "cache_read_input_tokens": 70, "cache_creation_input_tokens": 11})
}

/// Two messages. The API reports a small output figure first and the final one last; the largest figure
/// of each field counts, in any order of the lines.
fn lines() -> Vec<Value> {
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = json!({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}});
    let mut early = block("m1", &text("I will list it."), &usage(5, 3));
    early["message"]["stop_reason"] = Value::Null;
    vec![
        prompt("x"),
        block("m1", &json!({"type": "thinking", "thinking": "hm"}), &usage(5, 3)),
        early,
        block("m1", &call, &usage(5, 159)),
        block("m2", &text("one"), &usage(900, 40)),
        block("m2", &text("two"), &usage(7, 2)),
    ]
}

#[test]
fn the_largest_figures_of_a_message_count_once() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &lines());
        let status = claude.home.run(&["status", A, "--json"]).json();
        let sum = json!({"input": 905, "output": 199, "cache_read": 140, "cache_write": 22});
        assert_eq!(status["tokens"], sum, "{status:#}");
    });
}

/// Subagents of 2.1.100 to 2.1.280, and all of 2.0, write the lines of a message before it has ended and
/// never again: the small output figure is all there is.
#[test]
fn tokens_are_unknown_when_the_final_figures_of_an_answer_were_not_written() {
    sandboxed(|| {
        let claude = Claude::new();
        let mut lines = lines();
        let mut first_only = block("m3", &json!({"type": "text", "text": "three"}), &usage(5, 1));
        first_only["message"]["stop_reason"] = Value::Null;
        lines.push(first_only);
        claude.transcript(A, &lines);
        let status = claude.home.run(&["status", A, "--json"]).json();
        assert_eq!(status["tokens"], Value::Null, "{status:#}");
        let note = "tokens are not known: the final figures of 1 answers were not written";
        assert!(status["notes"].as_array().is_some_and(|n| n.contains(&note.into())), "{status:#}");
    });
}

#[test]
fn the_usage_of_log_lines_adds_up_to_the_tokens_of_the_session() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &lines());
        let logs = claude.home.run(&["logs", A, "--json", "-n", "100"]);
        let outputs: Vec<Value> = logs
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["usage"].clone())
            .collect();
        let growth = |input: u64, output: u64, cached: u64, written: u64| json!({"input": input, "output": output, "cache_read": cached, "cache_write": written});
        let expected = [
            Value::Null,
            growth(5, 3, 70, 11),
            growth(0, 156, 0, 0),
            growth(900, 40, 70, 11),
            Value::Null,
        ];
        assert_eq!(outputs, expected, "{}", logs.stdout);
    });
}

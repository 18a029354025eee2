//! The answers of each API, whole and as events.

use super::*;

#[test]
fn messages_whole() {
    let model = start();
    let prompt = "hi [[think:let me see]] [[tool:echo 1]] [[say:all done]]";
    let step = post(&model, ANTHROPIC, &anthropic(prompt, 0)).json();
    assert_eq!(step["type"], "message");
    assert_eq!(step["model"], "claude-x");
    assert_eq!(step["stop_reason"], "tool_use");
    assert_eq!(step["content"][0]["thinking"], "let me see");
    assert_eq!(step["content"][1], json!({"type": "text", "text": "step 1 of 1"}));
    assert_eq!(step["content"][2]["name"], "Bash");
    let input = json!({"command": "echo 1", "description": "scripted command"});
    assert_eq!(step["content"][2]["input"], input);
    let last = post(&model, ANTHROPIC, &anthropic(prompt, 1)).json();
    assert_eq!(last["stop_reason"], "end_turn");
    assert_eq!(last["content"][1], json!({"type": "text", "text": "all done"}));
}

#[test]
fn messages_as_events() {
    let model = start();
    let prompt = "[[think:hm]] [[tool:echo 1]] [[say: all  done\nnow ]]";
    let step = post(&model, ANTHROPIC, &streamed(anthropic(prompt, 0))).events();
    for (name, data) in &step {
        assert_eq!(data["type"], name.as_str());
    }
    let start = ["content_block_start", "content_block_delta"];
    let expected = [
        &["message_start"],
        &start[..],
        &["content_block_delta", "content_block_stop"], // a thought is signed
        &start,
        &[
            "content_block_delta",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
        ],
        &start,
        &["content_block_stop", "message_delta", "message_stop"],
    ];
    assert_eq!(names(&step), expected.concat());
    assert_eq!(joined(&step, "content_block_delta", "/delta/thinking"), "hm");
    assert_eq!(joined(&step, "content_block_delta", "/delta/text"), "step 1 of 1");
    let call = joined(&step, "content_block_delta", "/delta/partial_json");
    let call: Value = serde_json::from_str(&call).expect("JSON");
    assert_eq!(call["command"], "echo 1");
    assert_eq!(joined(&step, "message_delta", "/delta/stop_reason"), "tool_use");
    // The real service knows the output only at the end.
    let output = |event: &Value, place: &str| event.pointer(place).and_then(Value::as_u64);
    let (first, (_, delta)) = (&step[0].1, &step[step.len() - 2]);
    let early = output(first, "/message/usage/output_tokens");
    let final_figure = output(delta, "/usage/output_tokens");
    assert!(early == Some(1) && final_figure > early, "{early:?} {final_figure:?}");
    let indices: Vec<u64> = step.iter().filter_map(|(_, data)| data["index"].as_u64()).collect();
    assert!(indices.is_sorted() && indices.last() == Some(&2), "{indices:?}");

    let last = post(&model, ANTHROPIC, &streamed(anthropic(prompt, 1))).events();
    assert_eq!(joined(&last, "content_block_delta", "/delta/text"), " all  done\nnow ");
    assert_eq!(joined(&last, "message_delta", "/delta/stop_reason"), "end_turn");
    assert_eq!(names(&last).last(), Some(&"message_stop"));
}

#[test]
fn responses_whole() {
    let model = start();
    let prompt = "[[think:hm]] [[tool:echo 1]] [[call:space/look {\"at\": [1]}]] [[say:done]]";
    let step = post(&model, RESPONSES, &responses(prompt, 0)).json();
    assert_eq!(step["status"], "completed");
    assert_eq!(step["output"][0]["summary"][0]["text"], "hm");
    assert_eq!(step["output"][1]["type"], "function_call");
    assert_eq!(step["output"][1]["name"], "exec_command");
    assert_eq!(step["output"][1]["arguments"], r#"{"cmd":"echo 1"}"#);
    let step = post(&model, RESPONSES, &responses(prompt, 1)).json();
    assert_eq!(step["output"][1]["namespace"], "space");
    assert_eq!(step["output"][1]["name"], "look");
    assert_eq!(step["output"][1]["arguments"], r#"{"at":[1]}"#);
    let last = post(&model, RESPONSES, &responses(prompt, 2)).json();
    assert_eq!(last["output"][1]["content"][0]["text"], "done");
    assert_eq!(last["usage"]["output_tokens_details"]["reasoning_tokens"], 3);
}

#[test]
fn responses_as_events() {
    let model = start();
    let prompt = "[[think:hm]] [[tool:echo 1]] [[say:all is done]]";
    let step = post(&model, RESPONSES, &streamed(responses(prompt, 0))).events();
    for (number, (name, data)) in step.iter().enumerate() {
        assert_eq!(data["type"], name.as_str());
        assert_eq!(data["sequence_number"], number);
    }
    let expected = [
        "response.created",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names(&step), expected);
    let last = post(&model, RESPONSES, &streamed(responses(prompt, 1))).events();
    assert_eq!(joined(&last, "response.output_text.delta", "/delta"), "all is done");
    let (_, completed) = last.last().expect("an event");
    assert_eq!(completed["response"]["output"][1]["content"][0]["text"], "all is done");
    let (_, created) = &last[0];
    assert_eq!(created["response"]["id"], completed["response"]["id"]);
    assert_eq!(created["response"]["status"], "in_progress");
}

#[test]
fn chat_whole() {
    let model = start();
    let prompt = "[[think:hm]] [[tool:echo 1]] [[say:done]]";
    let step = post(&model, CHAT, &chat(prompt, 0)).json();
    assert_eq!(step["object"], "chat.completion");
    assert_eq!(step["choices"][0]["finish_reason"], "tool_calls");
    let message = &step["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "hm");
    let function = &message["tool_calls"][0]["function"];
    assert_eq!(function["name"], "bash");
    let arguments: Value =
        serde_json::from_str(function["arguments"].as_str().expect("a string")).expect("JSON");
    assert_eq!(arguments, json!({"command": "echo 1", "timeout": 60_000}));
    let last = post(&model, CHAT, &chat(prompt, 1)).json();
    assert_eq!(last["choices"][0]["message"]["content"], "done");
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
}

#[test]
fn chat_as_events() {
    let model = start();
    let prompt = "[[tool:echo 1]] [[say:all is done]]";
    let step = post(&model, CHAT, &streamed(chat(prompt, 0))).events();
    assert!(step.iter().all(|(name, _)| name.is_empty()));
    let calls = "/choices/0/delta/tool_calls/0";
    assert_eq!(joined(&step, "", &format!("{calls}/function/name")), "bash");
    assert_eq!(joined(&step, "", "/choices/0/finish_reason"), "tool_calls");
    let index = step.iter().find_map(|(_, data)| data.pointer(&format!("{calls}/index")));
    assert_eq!(index, Some(&json!(0)));
    let last = post(&model, CHAT, &streamed(chat(prompt, 1))).events();
    assert_eq!(joined(&last, "", "/choices/0/delta/content"), "all is done");
    assert_eq!(joined(&last, "", "/choices/0/finish_reason"), "stop");
    let [.., (_, usage), (_, done)] = &last[..] else { panic!("{last:?}") };
    assert_eq!(usage["choices"], json!([]));
    assert!(usage["usage"]["total_tokens"].is_u64(), "{usage}");
    assert_eq!(*done, Value::Null);
}

//! `OpenAI` chat completions: reads a request, and writes the answer as a completion and as chunks.

use serde_json::{Value, json};

use super::Usage;
use super::anthropic::without_reminders;
use super::exchange::{Answer, Asked, Event, Said, Turn, now_s, pieces, text_of};
use super::http::id;
use super::tools::Tool;

/// Reads the newest prompt and counts the tool results behind it.
pub(super) fn asked(body: &Value) -> Asked {
    let (prompt, steps_done) = prompt(body);
    let tools = body["tools"].as_array().into_iter().flatten();
    Asked {
        prompt,
        steps_done,
        tools: tools.map(|tool| Tool::of(&tool["function"], "parameters")).collect(),
        key: body["prompt_cache_key"].as_str().or(body["user"].as_str()).map(str::to_owned),
        wants_json: body["response_format"].to_string().contains("json"),
    }
}

fn prompt(body: &Value) -> (String, usize) {
    let mut steps = 0;
    for message in body["messages"].as_array().into_iter().flatten().rev() {
        match message["role"].as_str() {
            Some("tool" | "function") => steps += 1,
            Some("user") => {
                let text = without_reminders(&text_of(&message["content"]));
                // An agent's own context message is not a prompt.
                if !text.is_empty() && !text.starts_with("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT") {
                    return (text, steps);
                }
            }
            _ => {}
        }
    }
    (String::new(), steps)
}

/// Writes the turn as this API does.
pub(super) fn answer(turn: &Turn) -> Answer {
    let (mut message, finish) = match &turn.said {
        Said::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Said::Call { name, arguments, .. } => {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let call = json!({"id": id("call_"), "type": "function", "function": function});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            (message, "tool_calls")
        }
    };
    if let Some(think) = &turn.think {
        // Not OpenAI's own field; servers that reason over this API agree on it.
        message["reasoning_content"] = json!(think);
    }
    let (input, output) = turn.tokens(&message);
    let reasoning = if turn.think.is_some() { output.min(3) } else { 0 };
    let usage = Usage { input, output, cache_read: input.min(7), cache_write: 0, reasoning };
    let mut body = json!({
        "id": id("chatcmpl-"), "object": "chat.completion.chunk", "created": now_s(),
        "model": turn.model, "choices": [],
    });
    let events = events(&body, &message, finish, usage);
    body["object"] = json!("chat.completion");
    body["choices"] = json!([{"index": 0, "message": message, "finish_reason": finish}]);
    body["usage"] = numbers(usage);
    Answer { body, usage, events }
}

fn events(base: &Value, message: &Value, finish: &str, usage: Usage) -> Vec<Event> {
    let chunk = |delta: Value, finish: Option<&str>| {
        let mut chunk = base.clone();
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        Event::new(None, &chunk)
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    if let Some(think) = message.get("reasoning_content") {
        events.push(chunk(json!({"reasoning_content": think}), None));
    }
    if let Some(text) = message["content"].as_str() {
        let piece = |piece| chunk(json!({"content": piece}), None).a_piece();
        events.extend(pieces(text).map(piece));
    }
    for (index, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let mut call = call.clone();
        call["index"] = json!(index);
        events.push(chunk(json!({"tool_calls": [call]}), None));
    }
    events.push(chunk(json!({}), Some(finish)).ending_a_block());
    let mut last = base.clone();
    last["usage"] = numbers(usage);
    events.push(Event::new(None, &last).reporting(usage));
    events.push(Event::done());
    events
}

fn numbers(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_messages_after_the_prompt_are_counted() {
        let body = json!({"messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "old"},
            {"role": "tool", "content": "x"},
            {"role": "user", "content": [{"type": "text", "text": "new"}]},
            {"role": "assistant", "tool_calls": []},
            {"role": "tool", "content": "x"},
        ]});
        assert_eq!(prompt(&body), ("new".to_owned(), 1));
    }
}

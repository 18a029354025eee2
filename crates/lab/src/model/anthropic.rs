//! Anthropic Messages: reads a request, and writes the answer as a message and as events.

use serde_json::{Value, json};

use super::Usage;
use super::exchange::{Answer, Asked, Event, Said, Turn, pieces};
use super::http::id;
use super::tools::Tool;

/// The text with which the client marks an interrupted turn.
const INTERRUPTED: &str = "[Request interrupted by user";

/// Reads the newest real prompt and counts the tool results behind it.
pub(super) fn asked(body: &Value) -> Asked {
    let (prompt, steps_done) = prompt(body);
    let tools = body["tools"].as_array().into_iter().flatten();
    let format = format!("{}{}", body["output_config"], body["output_format"]);
    Asked {
        prompt,
        steps_done,
        tools: tools.map(|tool| Tool::of(tool, "input_schema")).collect(),
        key: body["metadata"]["user_id"].as_str().map(session),
        wants_json: format.contains("json"),
    }
}

fn prompt(body: &Value) -> (String, usize) {
    let mut steps = 0;
    for message in body["messages"].as_array().into_iter().flatten().rev() {
        if message["role"] != "user" {
            continue;
        }
        let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let results = blocks.iter().filter(|block| block["type"] == "tool_result").count();
        let said = message["content"].as_str().into_iter();
        let said = said.chain(blocks.iter().filter_map(|block| block["text"].as_str()));
        let texts: Vec<String> =
            said.map(without_reminders).filter(|text| !text.is_empty()).collect();
        // The client joins later messages to the interrupted one: only the texts after the interruption
        // count.
        let stop = texts.iter().rposition(|text| text.starts_with(INTERRUPTED));
        let since = stop.map(|at| &texts[at + 1..]).filter(|since| !since.is_empty());
        match since {
            Some(since) => return (since.join("\n"), steps),
            None if results > 0 => steps += results,
            None if texts.is_empty() => {}
            None => return (texts.join("\n"), steps),
        }
    }
    (String::new(), steps)
}

/// Removes the text that the client itself adds to prompts.
pub(super) fn without_reminders(text: &str) -> String {
    const OPEN: &str = "<system-reminder>";
    const CLOSE: &str = "</system-reminder>";
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, inside)) = rest.split_once(OPEN) {
        let Some((_, after)) = inside.split_once(CLOSE) else { break };
        kept.push_str(before);
        rest = after;
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}

/// Finds the session in the user's name: newer clients write JSON there, older ones one long word.
fn session(user: &str) -> String {
    let json: Option<Value> = serde_json::from_str(user).ok();
    let named = json.as_ref().and_then(|json| json["session_id"].as_str());
    let word = || user.rsplit_once("_session_").map(|(_, id)| id);
    named.or_else(word).unwrap_or(user).to_owned()
}

/// Writes the turn as this API does.
pub(super) fn answer(turn: &Turn) -> Answer {
    let mut blocks = Vec::new();
    if let Some(think) = &turn.think {
        blocks.push(json!({"type": "thinking", "thinking": think, "signature": "c2lnbmF0dXJl"}));
    }
    let stop = match &turn.said {
        Said::Text(text) => {
            blocks.push(json!({"type": "text", "text": text}));
            "end_turn"
        }
        Said::Call { note, name, arguments } => {
            blocks.push(json!({"type": "text", "text": note}));
            blocks.push(json!({
                "type": "tool_use", "id": id("toolu_"), "name": name, "input": arguments,
            }));
            "tool_use"
        }
    };
    let blocks = Value::from(blocks);
    let (input, output) = turn.tokens(&blocks);
    let usage = Usage { input, output, cache_read: 7, cache_write: 11, reasoning: 0 };
    // Before the end only the input is known; the real service reports an output of about 1.
    let early = Usage { output: 1, ..usage };
    let mut message = json!({
        "id": id("msg_"), "type": "message", "role": "assistant", "model": turn.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": numbers(early),
    });
    let start = json!({"type": "message_start", "message": message});
    let mut events = vec![named(start).reporting(early)];
    for (index, block) in blocks.as_array().into_iter().flatten().enumerate() {
        events.extend(block_events(index, block));
    }
    events.push(
        named(json!({
            "type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": numbers(usage),
        }))
        .reporting(usage),
    );
    events.push(named(json!({"type": "message_stop"})));
    message["content"] = blocks;
    message["stop_reason"] = json!(stop);
    message["usage"] = numbers(usage);
    Answer { body: message, usage, events }
}

fn numbers(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "service_tier": "standard",
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0,
        },
    })
}

fn block_events(index: usize, block: &Value) -> Vec<Event> {
    let mut empty = block.clone();
    let delta = |delta: Value| {
        named(json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let deltas: Vec<Event> = match block["type"].as_str() {
        Some("text") => {
            empty["text"] = json!("");
            let text = block["text"].as_str().unwrap_or_default();
            let piece = |piece| delta(json!({"type": "text_delta", "text": piece})).a_piece();
            pieces(text).map(piece).collect()
        }
        Some("thinking") => {
            empty["thinking"] = json!("");
            empty["signature"] = json!("");
            vec![
                delta(json!({"type": "thinking_delta", "thinking": block["thinking"]})),
                delta(json!({"type": "signature_delta", "signature": block["signature"]})),
            ]
        }
        _ => {
            empty["input"] = json!({});
            let input = block["input"].to_string();
            vec![delta(json!({"type": "input_json_delta", "partial_json": input}))]
        }
    };
    let start = json!({"type": "content_block_start", "index": index, "content_block": empty});
    let stop = json!({"type": "content_block_stop", "index": index});
    [vec![named(start)], deltas, vec![named(stop).ending_a_block()]].concat()
}

/// Makes an event that has the name its type says.
fn named(data: Value) -> Event {
    Event::new(data["type"].as_str(), &data)
}

/// Returns the document of an error.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(messages: Value) -> (String, usize) {
        prompt(&json!({"messages": messages}))
    }

    #[test]
    fn tool_results_after_the_prompt_are_counted() {
        let result = json!({"role": "user", "content": [{"type": "tool_result", "content": "x"}]});
        let messages = json!([
            {"role": "user", "content": "old"},
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>a\nb</system-reminder>"},
                {"type": "text", "text": "new <system-reminder>c</system-reminder>"},
            ]},
            {"role": "assistant", "content": "text"},
            result, result,
            {"role": "user", "content": "<system-reminder>d</system-reminder>"},
        ]);
        assert_eq!(read(messages), ("new".to_owned(), 2));
        assert_eq!(read(json!([])), (String::new(), 0));
    }

    #[test]
    fn only_messages_after_an_interruption_count() {
        let messages = json!([
            {"role": "user", "content": "[[tool:sleep 9]]"},
            {"role": "user", "content": [
                {"type": "tool_result", "content": "rejected"},
                {"type": "text", "text": "[Request interrupted by user for tool use]"},
                {"type": "text", "text": "next"},
            ]},
        ]);
        assert_eq!(read(messages), ("next".to_owned(), 0));
    }

    #[test]
    fn the_session_is_found_in_either_form() {
        assert_eq!(session(r#"{"device_id": "d", "session_id": "s"}"#), "s");
        assert_eq!(session("user_ab_account__session_s-1"), "s-1");
        assert_eq!(session("somebody"), "somebody");
    }
}

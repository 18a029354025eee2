//! `OpenAI` Responses: reads a request, and writes the answer as a response and as events.

use serde_json::{Value, json};

use super::Usage;
use super::exchange::{Answer, Asked, Event, Said, Turn, now_s, pieces, text_of};
use super::http::id;
use super::tools::Tool;

const RESULTS: [&str; 3] =
    ["function_call_output", "custom_tool_call_output", "local_shell_call_output"];

/// Reads the newest real prompt and counts the tool results behind it.
pub(super) fn asked(body: &Value) -> Asked {
    let (prompt, steps_done) = prompt(&body["input"]);
    let tools = body["tools"].as_array().into_iter().flatten();
    Asked {
        prompt,
        steps_done,
        tools: tools.map(|tool| Tool::of(tool, "parameters")).collect(),
        key: body["prompt_cache_key"].as_str().map(str::to_owned),
        wants_json: body["text"]["format"].to_string().contains("json"),
    }
}

fn prompt(input: &Value) -> (String, usize) {
    if let Some(text) = input.as_str() {
        return (text.to_owned(), 0);
    }
    let mut steps = 0;
    for item in input.as_array().into_iter().flatten().rev() {
        let kind = item["type"].as_str().unwrap_or("message");
        if RESULTS.contains(&kind) {
            steps += 1;
        } else if kind == "message" && item["role"] == "user" {
            let text = text_of(&item["content"]);
            // Text that begins like markup is added by the client: `<environment_context>` and the
            // like.
            if !text.is_empty() && !text.starts_with('<') {
                return (text, steps);
            }
        }
    }
    (String::new(), steps)
}

/// Writes the turn as this API does.
pub(super) fn answer(turn: &Turn) -> Answer {
    let mut items = Vec::new();
    if let Some(think) = &turn.think {
        let summary = json!([{"type": "summary_text", "text": think}]);
        items.push(json!({"type": "reasoning", "id": id("rs_"), "summary": summary}));
    }
    items.push(match &turn.said {
        Said::Text(text) => json!({
            "type": "message", "id": id("msg_"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Said::Call { name, arguments, .. } => function_call(name, arguments),
    });
    let items = Value::from(items);
    let (input, output) = turn.tokens(&items);
    let reasoning = if turn.think.is_some() { output.min(3) } else { 0 };
    let usage = Usage { input, output, cache_read: input.min(7), cache_write: 0, reasoning };
    let mut response = json!({
        "id": id("resp_"), "object": "response", "created_at": now_s(), "model": turn.model,
        "status": "in_progress", "output": [], "error": null, "incomplete_details": null,
        "parallel_tool_calls": false, "tools": [],
    });
    let mut stream = Stream::default();
    stream.push("response.created", json!({"response": response}));
    for (index, item) in items.as_array().into_iter().flatten().enumerate() {
        stream.item(index, item);
    }
    response["status"] = json!("completed");
    response["output"] = items;
    response["usage"] = numbers(usage);
    let last = stream.event("response.completed", json!({"response": response}));
    stream.events.push(last.reporting(usage));
    Answer { body: response, usage, events: stream.events }
}

fn function_call(name: &str, arguments: &Value) -> Value {
    let (space, name) = match name.rsplit_once('/') {
        Some((space, name)) => (Some(space), name),
        None => (None, name),
    };
    let mut item = json!({
        "type": "function_call", "id": id("fc_"), "call_id": id("call_"), "name": name,
        "arguments": arguments.to_string(), "status": "completed",
    });
    if let Some(space) = space {
        item["namespace"] = json!(space);
    }
    item
}

fn numbers(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    })
}

/// Events are numbered as they come.
#[derive(Default)]
struct Stream {
    events: Vec<Event>,
}

impl Stream {
    fn event(&self, kind: &str, mut data: Value) -> Event {
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.events.len());
        Event::new(Some(kind), &data)
    }

    fn push(&mut self, kind: &str, data: Value) {
        self.events.push(self.event(kind, data));
    }

    fn item(&mut self, index: usize, item: &Value) {
        let mut begun = item.clone();
        let at = json!({"item_id": item["id"], "output_index": index});
        match item["type"].as_str() {
            Some("message") => {
                begun["status"] = json!("in_progress");
                begun["content"] = json!([]);
                self.added(index, begun);
                self.message(&at, &item["content"][0]);
            }
            Some("reasoning") => {
                begun["summary"] = json!([]);
                self.added(index, begun);
                self.summary(&at, &item["summary"][0]);
            }
            _ => {
                begun["status"] = json!("in_progress");
                begun["arguments"] = json!("");
                self.added(index, begun);
                let arguments = &item["arguments"];
                let kind = "response.function_call_arguments";
                self.push(&format!("{kind}.delta"), with(&at, json!({"delta": arguments})));
                self.push(&format!("{kind}.done"), with(&at, json!({"arguments": arguments})));
            }
        }
        let done = json!({"output_index": index, "item": item});
        self.events.push(self.event("response.output_item.done", done).ending_a_block());
    }

    fn added(&mut self, index: usize, item: Value) {
        self.push("response.output_item.added", json!({"output_index": index, "item": item}));
    }

    fn message(&mut self, at: &Value, part: &Value) {
        let at = with(at, json!({"content_index": 0}));
        let empty = json!({"type": "output_text", "text": "", "annotations": []});
        self.push("response.content_part.added", with(&at, json!({"part": empty})));
        for piece in pieces(part["text"].as_str().unwrap_or_default()) {
            let data = with(&at, json!({"delta": piece}));
            self.events.push(self.event("response.output_text.delta", data).a_piece());
        }
        self.push("response.output_text.done", with(&at, json!({"text": part["text"]})));
        self.push("response.content_part.done", with(&at, json!({"part": part})));
    }

    fn summary(&mut self, at: &Value, part: &Value) {
        let at = with(at, json!({"summary_index": 0}));
        let empty = json!({"type": "summary_text", "text": ""});
        let text = &part["text"];
        self.push("response.reasoning_summary_part.added", with(&at, json!({"part": empty})));
        self.push("response.reasoning_summary_text.delta", with(&at, json!({"delta": text})));
        self.push("response.reasoning_summary_text.done", with(&at, json!({"text": text})));
        self.push("response.reasoning_summary_part.done", with(&at, json!({"part": part})));
    }
}

/// Joins two objects.
fn with(first: &Value, second: Value) -> Value {
    let mut joined = first.clone();
    if let (Some(joined), Value::Object(second)) = (joined.as_object_mut(), second) {
        joined.extend(second);
    }
    joined
}

/// Returns the document of an error.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"error": {"type": kind, "code": kind, "message": message}})
}

/// Returns the error for an unknown model.
pub(super) fn no_model(model: &str) -> Value {
    json!({"error": {
        "type": "invalid_request_error", "param": "model", "code": "model_not_found",
        "message": format!("The requested model '{model}' does not exist."),
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_own_context_is_no_prompt() {
        let user = |text: &str| {
            let content = json!([{"type": "input_text", "text": text}]);
            json!({"type": "message", "role": "user", "content": content})
        };
        let input = json!([
            user("<environment_context>x</environment_context>"),
            user("the prompt"),
            {"type": "function_call"},
            {"type": "function_call_output", "output": "x"},
            {"type": "custom_tool_call_output", "output": "x"},
            user("<turn_aborted>"),
        ]);
        assert_eq!(prompt(&input), ("the prompt".to_owned(), 2));
        assert_eq!(prompt(&json!("bare")), ("bare".to_owned(), 0));
    }

    #[test]
    fn a_namespace_is_split_off() {
        let call = function_call("mcp__x/read", &json!({}));
        assert_eq!((&call["namespace"], &call["name"]), (&json!("mcp__x"), &json!("read")));
        assert_eq!(function_call("read", &json!({})).get("namespace"), None);
    }
}

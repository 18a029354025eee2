//! The conversation of a session: `chat.history`, page by page, with the answer that is being written.
//!
//! Each message is one native line; [`read`] turns a line into messages of the common shape. A row of
//! the list counts the last run only, so tokens are summed here, over the whole conversation.

use serde_json::{Value, json};

use super::wire::{Conversation as Talk, GatewayError};
use crate::adapters::Conversation;
use crate::model::{FaultCode, Image, Message, Role, Time, Tokens, ToolCall, ToolResult};

/// Messages per request: the most that a gateway gives.
const PAGE_MESSAGES: u64 = 1_000;
/// Most messages of a conversation that are read.
const MAX_MESSAGES: usize = 100_000;

/// Reads a whole conversation, oldest message first; the flag is true if no message is missing.
pub(super) fn all(talk: &mut Talk, key: &str) -> Result<(Conversation, bool), GatewayError> {
    let nonsense = |what: &str| {
        GatewayError::new(
            FaultCode::Protocol,
            format!("the gateway sent an invalid answer: {what}"),
        )
    };
    // The newest page comes first, each page in order.
    let mut pages: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut unfinished = None;
    let (mut offset, mut count) = (0, 0);
    loop {
        let params = json!({"sessionKey": key, "limit": PAGE_MESSAGES, "offset": offset});
        let page = talk.ask("chat.history", &params)?;
        let messages = page["messages"].as_array().ok_or_else(|| nonsense("no messages"))?;
        if offset == 0 {
            let run = &page["inFlightRun"];
            let speaks = run["text"].as_str().is_some_and(|t| !t.is_empty());
            unfinished = speaks.then(|| json!({ "inFlightRun": run }).to_string().into_bytes());
        }
        count += messages.len();
        pages.push(messages.iter().map(|m| m.to_string().into_bytes()).collect());
        if page["hasMore"] != true {
            let lines = pages.into_iter().rev().flatten().collect();
            return Ok((Conversation { lines, unfinished }, true));
        }
        let next = page["nextOffset"].as_u64().unwrap_or(offset + messages.len() as u64);
        if next <= offset || messages.is_empty() {
            return Err(nonsense("its pages do not advance"));
        }
        if count > MAX_MESSAGES {
            let lines = pages.into_iter().rev().flatten().collect();
            return Ok((Conversation { lines, unfinished }, false));
        }
        offset = next;
    }
}

/// The tokens and the cost of a conversation; cost only where every counted message has one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) tokens: Tokens,
    pub(super) cost_usd: f64,
    pub(super) priced: bool,
}

/// Sums the tokens and cost of a conversation, each message once.
pub(super) fn spent(lines: &[Vec<u8>]) -> Spent {
    let mut spent = Spent { priced: true, ..Spent::default() };
    let mut seen = std::collections::HashSet::new();
    for line in lines {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
        let Some(usage) = usage(&message) else { continue };
        if id(&message).is_some_and(|id| !seen.insert(id)) {
            continue;
        }
        spent.tokens.add(usage);
        match message["usage"]["cost"]["total"].as_f64() {
            Some(cost) => spent.cost_usd += cost,
            None => spent.priced = false,
        }
    }
    spent
}

fn usage(message: &Value) -> Option<Tokens> {
    let usage = message.get("usage").filter(|u| u.is_object())?;
    let count = |field: &str| usage[field].as_u64().unwrap_or(0);
    Some(Tokens {
        input: count("input"),
        output: count("output"),
        cache_read: count("cacheRead"),
        cache_write: count("cacheWrite"),
    })
}

fn id(message: &Value) -> Option<String> {
    let id = message["__openclaw"]["id"].as_str().or_else(|| message["id"].as_str());
    id.map(str::to_owned)
}

/// Turns one native line into messages.
pub(super) fn read(line: &[u8]) -> Vec<Message> {
    let Ok(native) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
    let time = |value: &Value| value.as_i64().and_then(Time::from_millis);
    if let Some(run) = native.get("inFlightRun") {
        let mut message = Message::of(Role::Assistant);
        message.at = time(&run["startedAt"]);
        message.text = run["text"].as_str().map(str::to_owned);
        return vec![message];
    }
    let role = match native["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("toolResult" | "tool") => Role::Tool,
        Some("system") => Role::System,
        _ => return Vec::new(),
    };
    let mut message = Message::of(role);
    message.id = id(&native);
    message.at = time(&native["timestamp"]);
    message.model = native["model"].as_str().map(str::to_owned);
    message.usage = usage(&native);
    let (mut said, mut images) = (Vec::new(), Vec::new());
    match &native["content"] {
        Value::String(text) => said.push(text.clone()),
        Value::Array(blocks) => {
            for block in blocks {
                match block["type"].as_str() {
                    Some("image") => {
                        let media_type = block["mimeType"].as_str().map(str::to_owned);
                        images.push(Image { media_type, name: None });
                    }
                    Some("thinking") => {
                        let thought = block["thinking"].as_str().unwrap_or_default();
                        message.thinking = Some(thought.to_owned());
                    }
                    Some("text") => said.extend(block["text"].as_str().map(str::to_owned)),
                    Some("toolCall") => message.tool_calls.push(ToolCall {
                        id: block["id"].as_str().map(str::to_owned),
                        name: block["name"].as_str().unwrap_or("?").to_owned(),
                        input: block["arguments"].clone(),
                    }),
                    _ => {}
                }
            }
        }
        _ => {}
    }
    let said = said.join("\n");
    if role == Role::Tool {
        message.tool_results.push(ToolResult {
            id: native["toolCallId"].as_str().map(str::to_owned),
            text: said,
            is_error: native["isError"] == true,
            images,
            ..ToolResult::default()
        });
        return vec![message];
    }
    message.images = images;
    if !said.is_empty() {
        message.text = Some(said);
    } else if let Some(error) = native["errorMessage"].as_str().filter(|e| !e.is_empty()) {
        message.text = Some(error.to_owned());
    }
    vec![message]
}

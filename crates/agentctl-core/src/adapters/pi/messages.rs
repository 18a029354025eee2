//! An entry of a Pi session as a message of the common shape.

use serde::Deserialize;
use serde_json::Value;

use super::lines::{Entry, Usage, text_of};
use crate::model::{Image, Message, Role, ToolCall, ToolResult};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    role: String,
    #[serde(default)]
    content: Value,
    model: Option<String>,
    usage: Option<Usage>,
    stop_reason: Option<String>,
    error_message: Option<String>,
    tool_call_id: Option<String>,
    #[serde(default)]
    is_error: bool,
    // A command that the user ran directly (`!command`).
    command: Option<String>,
    output: Option<String>,
    exit_code: Option<i64>,
}

/// Turns one line into messages; a line that is not part of the conversation gives none.
pub(in crate::adapters) fn read(line: &[u8]) -> Vec<Message> {
    let Some(entry) = Entry::parse(line) else { return Vec::new() };
    let Some(said) = entry.message::<Said>() else { return Vec::new() };
    let Some(mut message) = shaped(said) else { return Vec::new() };
    message.id = entry.id.as_deref().map(str::to_owned);
    message.at = entry.at();
    vec![message]
}

fn shaped(said: Said) -> Option<Message> {
    let text = Some(text_of(&said.content)).filter(|t| !t.is_empty());
    match said.role.as_str() {
        "user" => Some(Message { text, images: images(&said.content), ..Message::of(Role::User) }),
        "assistant" => Some(answer(said, text)),
        "toolResult" => {
            let text = text.unwrap_or_default();
            let result = ToolResult {
                id: said.tool_call_id,
                text,
                is_error: said.is_error,
                images: images(&said.content),
                ..ToolResult::default()
            };
            Some(Message { tool_results: vec![result], ..Message::of(Role::Tool) })
        }
        "bashExecution" => {
            let text = format!("$ {}\n{}", said.command?, said.output.unwrap_or_default());
            let failed = said.exit_code.is_some_and(|code| code != 0);
            let result = ToolResult { text, is_error: failed, ..ToolResult::default() };
            Some(Message { tool_results: vec![result], ..Message::of(Role::Tool) })
        }
        // Pi's own system prompt is not part of the conversation.
        _ => None,
    }
}

fn answer(said: Said, text: Option<String>) -> Message {
    let thinking = thinking(&said.content);
    let calls = said.content.as_array().into_iter().flatten().filter_map(call).collect();
    let failure = match (said.stop_reason.as_deref(), said.error_message) {
        (Some("error"), why) => Some(format!("error: {}", why.as_deref().unwrap_or("unknown"))),
        (Some("aborted"), _) => Some("interrupted".to_owned()),
        _ => None,
    };
    let text = match (text, failure) {
        (Some(text), Some(failure)) => Some(format!("{text}\n{failure}")),
        (text, failure) => text.or(failure),
    };
    Message {
        text,
        thinking,
        tool_calls: calls,
        model: said.model,
        usage: said.usage.map(Into::into),
        ..Message::of(Role::Assistant)
    }
}

/// Returns the thinking blocks of an answer as one text.
fn thinking(content: &Value) -> Option<String> {
    let blocks = content.as_array().into_iter().flatten();
    let texts = blocks.filter(|block| block["type"] == "thinking");
    let texts: Vec<&str> = texts.map(|b| b["thinking"].as_str().unwrap_or_default()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Returns the images of a message.
fn images(content: &Value) -> Vec<Image> {
    let blocks = content.as_array().into_iter().flatten();
    let media_type = |block: &Value| block["mimeType"].as_str().map(str::to_owned);
    blocks
        .filter(|block| block["type"] == "image")
        .map(|block| Image { media_type: media_type(block), name: None })
        .collect()
}

/// Returns a block of an answer as a tool call, if it is one.
pub(super) fn call(block: &Value) -> Option<ToolCall> {
    if block["type"] != "toolCall" {
        return None;
    }
    Some(ToolCall {
        id: block["id"].as_str().map(str::to_owned),
        name: block["name"].as_str().unwrap_or_default().to_owned(),
        input: block["arguments"].clone(),
    })
}

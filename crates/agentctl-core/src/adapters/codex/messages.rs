//! A rollout line as a message of the common shape.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Value;

use super::rollout::{Line, Usage};
use crate::adapters::LineFacts;
use crate::model::{Image, Message, Role, ToolCall, ToolResult};

/// Turns one line into messages; a line that is not part of the conversation gives none.
pub(super) fn read(bytes: &[u8]) -> Vec<Message> {
    let Some(line) = Line::parse(bytes) else { return Vec::new() };
    let message = match line.kind.as_ref() {
        "event_msg" => event(&line),
        "response_item" => item(&line),
        "token_usage_record" => usage(&line),
        _ => None,
    };
    let at = line.at();
    message.map(|m| Message { at, ..m }).into_iter().collect()
}

/// Returns the user's prompt, if this line holds one.
pub(super) fn prompt(line: &Line<'_>) -> Option<String> {
    let payload: Value = line.payload()?;
    match payload["type"].as_str()? {
        "item_completed" if payload["item"]["type"] == "UserMessage" => {
            Some(text_of(&payload["item"]["content"]))
        }
        "user_message" => payload["message"].as_str().map(str::to_owned),
        _ => None,
    }
}

/// Number of first bytes of a line in which its kind is looked for before it is parsed.
const PREFIX_BYTES: usize = 512;

/// Says whether an `event_msg` line holds a prompt. Most lines are rejected by their first bytes.
pub(super) fn is_prompt(bytes: &[u8]) -> bool {
    static WORDS: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| ["\"user_message\"", "\"UserMessage\""].map(Finder::new));
    let line = || Line::parse(bytes).filter(|line| line.kind == "event_msg");
    begins_with_one_of(bytes, WORDS.as_slice()) && line().and_then(|l| prompt(&l)).is_some()
}

/// Says whether one of these words stands in the first bytes of a line.
fn begins_with_one_of(bytes: &[u8], words: &[Finder<'_>]) -> bool {
    let prefix = &bytes[..bytes.len().min(PREFIX_BYTES)];
    words.iter().any(|word| word.find(prefix).is_some())
}

/// Returns the branch of the first line, or the context of a `token_count` line.
pub(super) fn line_facts(bytes: &[u8]) -> LineFacts {
    static WORDS: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| ["\"session_meta\"", "\"token_count\""].map(Finder::new));
    if !begins_with_one_of(bytes, WORDS.as_slice()) {
        return LineFacts::default();
    }
    let payload: Option<FactsPayload> = Line::parse(bytes).and_then(|line| line.payload());
    let FactsPayload { git, info } = payload.unwrap_or_default();
    let info = info.unwrap_or_default();
    LineFacts {
        branch: git.and_then(|git| git.branch),
        context_tokens: info.last_token_usage.and_then(|usage| usage.total_tokens),
        context_window: info.model_context_window,
    }
}

/// The payload of a `session_meta` or `token_count` line, as far as it tells facts.
#[derive(Default, Deserialize)]
struct FactsPayload {
    git: Option<Git>,
    info: Option<TokenInfo>,
}

#[derive(Deserialize)]
struct Git {
    branch: Option<String>,
}

#[derive(Default, Deserialize)]
struct TokenInfo {
    last_token_usage: Option<TotalUsage>,
    model_context_window: Option<u64>,
}

#[derive(Deserialize)]
struct TotalUsage {
    total_tokens: Option<u64>,
}

fn event(line: &Line<'_>) -> Option<Message> {
    let payload: Value = line.payload()?;
    if let Some(text) = prompt(line) {
        let images = images(&payload["item"]["content"]);
        let text = Some(text).filter(|text| !text.is_empty() || images.is_empty());
        return Some(Message { text, images, ..Message::of(Role::User) });
    }
    let said = match payload["type"].as_str()? {
        "turn_aborted" => "interrupted".to_owned(),
        "task_complete" => format!("the turn failed: {}", payload["error"]["message"].as_str()?),
        _ => return None,
    };
    Some(Message { text: Some(said), ..Message::of(Role::System) })
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    role: Option<String>,
    #[serde(default)]
    content: Value,
    name: Option<String>,
    arguments: Option<String>,
    input: Option<String>,
    #[serde(default)]
    action: Value,
    call_id: Option<String>,
    #[serde(default)]
    output: Value,
    /// Of `reasoning`: what of it the model's service lets the user see.
    #[serde(default)]
    summary: Value,
}

fn item(line: &Line<'_>) -> Option<Message> {
    let item: Item = line.payload()?;
    match item.kind.as_str() {
        // The user's messages are events; other `user` messages are added by Codex itself.
        "message" if item.role.as_deref() == Some("assistant") => {
            let text = Some(text_of(&item.content));
            Some(Message { id: item.id, text, ..Message::of(Role::Assistant) })
        }
        "function_call" | "custom_tool_call" | "local_shell_call" => {
            let given = item.arguments.or(item.input);
            let parsed =
                given.as_deref().map(|g| serde_json::from_str(g).unwrap_or_else(|_| g.into()));
            let input = parsed.unwrap_or(item.action);
            let name = item.name.unwrap_or_else(|| "shell".into());
            let call = ToolCall { id: item.call_id, name, input };
            Some(Message { id: item.id, tool_calls: vec![call], ..Message::of(Role::Assistant) })
        }
        "function_call_output" | "custom_tool_call_output" => {
            let text = match &item.output {
                Value::String(text) => text.clone(),
                Value::Object(map) => map.get("content").map(text_of).unwrap_or_default(),
                other => text_of(other),
            };
            let refused = item.output.get("success").and_then(Value::as_bool) == Some(false);
            let is_error = refused || failed_command(&text);
            let images = images(item.output.get("content").unwrap_or(&item.output));
            let result =
                ToolResult { id: item.call_id, text, is_error, images, ..ToolResult::default() };
            Some(Message { id: item.id, tool_results: vec![result], ..Message::of(Role::Tool) })
        }
        "reasoning" => {
            let texts = [text_of(&item.summary), text_of(&item.content)];
            let thinking = Some(texts.into_iter().find(|t| !t.is_empty()).unwrap_or_default());
            Some(Message { id: item.id, thinking, ..Message::of(Role::Assistant) })
        }
        _ => None,
    }
}

/// Says whether the lines that Codex writes above the output of a command name an exit code other than 0.
fn failed_command(output: &str) -> bool {
    const HEAD_LINES: usize = 8;
    const CODES: [&str; 2] = ["Process exited with code ", "Exit code: "];
    let head = output.lines().take(HEAD_LINES).take_while(|line| *line != "Output:");
    let mut codes = head.filter_map(|line| CODES.iter().find_map(|c| line.strip_prefix(c)));
    codes.next().is_some_and(|code| code.trim().parse::<i64>().is_ok_and(|code| code != 0))
}

fn images(content: &Value) -> Vec<Image> {
    let blocks = content.as_array().into_iter().flatten();
    let is_image = |block: &&Value| {
        matches!(block["type"].as_str(), Some("image" | "local_image" | "input_image"))
    };
    let image = |block: &Value| {
        let name = block["path"].as_str().map(str::to_owned);
        let url = block["image_url"].as_str().and_then(|url| url.strip_prefix("data:"));
        let media_type = url.and_then(|url| url.split(';').next()).map(str::to_owned);
        Image { media_type, name }
    };
    blocks.filter(is_image).map(image).collect()
}

fn usage(line: &Line<'_>) -> Option<Message> {
    #[derive(Deserialize)]
    struct Spent {
        usage: Usage,
    }
    let spent: Spent = line.payload()?;
    Some(Message { usage: Some(spent.usage.into()), ..Message::of(Role::Assistant) })
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|b| b.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

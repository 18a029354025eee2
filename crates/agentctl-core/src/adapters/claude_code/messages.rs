//! A transcript line as a message of the common shape.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::lines::{Block, Line, is_prompt};
use crate::model::{FileEdit, Hunk, Image, Message, Role, ToolCall, ToolResult};
use crate::native::jsonl;

/// The text of a line that Claude Code writes when the user interrupts it.
const INTERRUPTED: &str = "[Request interrupted by user";

/// Turns one line into messages; a line that is not part of the conversation gives none.
pub(super) fn read(bytes: &[u8]) -> Vec<Message> {
    let Some(line) = Line::parse(bytes).filter(|l| !l.is_meta) else { return Vec::new() };
    let message = match line.kind.as_ref() {
        "user" => user(&line, bytes),
        "assistant" => assistant(&line),
        "system" => system(&line),
        "attachment" => absorbed(&line),
        _ => None,
    };
    let at = line.at();
    let uuid = line.uuid.as_deref().map(str::to_owned);
    let complete = |mut message: Message| {
        message.at = at;
        message.id = message.id.or(uuid);
        message
    };
    message.map(complete).into_iter().collect()
}

/// Number of first bytes of an attachment in which its kind is looked for before it is parsed.
const QUEUED_PREFIX_BYTES: usize = 64;
/// Number of first bytes of a line in which its kind is looked for before it is parsed.
const PREFIX_BYTES: usize = 2 << 10;

/// Returns the prompt that a line holds. Most lines are rejected by their first bytes. The searched text cannot
/// stand inside a JSON string, where its quotes would be escaped.
pub(super) fn prompt(bytes: &[u8]) -> Option<Message> {
    let prefix = &bytes[..bytes.len().min(PREFIX_BYTES)];
    let holds = |text: &str| memchr::memmem::find(prefix, text.as_bytes()).is_some();
    if holds("\"type\":\"assistant\"") || holds("\"tool_result\"") {
        return None;
    }
    let line = Line::parse(bytes).filter(|line| !line.is_meta)?;
    if line.kind == "attachment" {
        return absorbed(&line).filter(|_| !line.is_sidechain);
    }
    if line.kind != "user" || line.is_sidechain || line.is_compact_summary {
        return None;
    }
    let message = user(&line, bytes).filter(|m| m.role == Role::User)?;
    // The program itself tells the model that a task in the background has ended.
    message.text.as_ref().filter(|text| !text.starts_with("<task-notification>"))?;
    Some(Message { id: line.uuid.map(Cow::into_owned), ..message })
}

/// Returns the git branch that a line names. Claude Code writes `HEAD` where no branch is checked out.
pub(super) fn branch(bytes: &[u8]) -> Option<String> {
    let branch = Line::parse(bytes)?.git_branch?;
    Some(branch.into_owned()).filter(|branch| !branch.is_empty() && branch != "HEAD")
}

fn user(line: &Line<'_>, bytes: &[u8]) -> Option<Message> {
    let mut message = Message::of(Role::User);
    for block in line.message.as_ref()?.blocks() {
        match (block.kind.as_str(), block.text) {
            ("text", Some(text)) if is_prompt(&text) => {
                if text.starts_with(INTERRUPTED) {
                    message.role = Role::System;
                }
                append(&mut message, text);
            }
            ("image", _) => message.images.push(image(&block.source)),
            ("tool_result", _) => {
                message.role = Role::Tool;
                message.tool_results.push(ToolResult {
                    id: block.tool_use_id,
                    text: result_text(&block.content),
                    is_error: block.is_error.unwrap_or(false),
                    images: result_images(&block.content),
                    edits: Vec::new(),
                });
            }
            _ => {}
        }
    }
    if let [result] = message.tool_results.as_mut_slice() {
        result.edits = edits(bytes);
    }
    (!message.is_empty()).then_some(message)
}

/// Returns the message that the user sent while a turn was running, and that the turn took in.
fn absorbed(line: &Line<'_>) -> Option<Message> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Queued {
        #[serde(rename = "type")]
        kind: String,
        prompt: Value,
        #[serde(rename = "source_uuid")]
        source_uuid: Option<String>,
        command_mode: Option<String>,
    }
    let raw = line.attachment?.get();
    // Most attachments are long and of another kind.
    let beginning = &raw.as_bytes()[..raw.len().min(QUEUED_PREFIX_BYTES)];
    memchr::memmem::find(beginning, b"\"queued_command\"")?;
    let queued: Queued = serde_json::from_str(raw).ok()?;
    let is_prompt = queued.command_mode.as_deref().is_none_or(|mode| mode == "prompt");
    if queued.kind != "queued_command" || !is_prompt {
        return None;
    }
    let text = result_text(&queued.prompt);
    let mut message = Message::of(Role::User);
    message.id = queued.source_uuid;
    message.text = Some(text).filter(|text| !text.trim().is_empty());
    message.text.is_some().then_some(message)
}

fn image(source: &Value) -> Image {
    let media_type = source["media_type"].as_str().map(str::to_owned);
    Image { media_type, name: source["url"].as_str().map(str::to_owned) }
}

fn result_images(content: &Value) -> Vec<Image> {
    let blocks = content.as_array().into_iter().flatten();
    blocks.filter(|block| block["type"] == "image").map(|block| image(&block["source"])).collect()
}

/// Returns the file changes that Claude Code records beside the result of `Edit`, `MultiEdit` and `Write`.
fn edits(bytes: &[u8]) -> Vec<FileEdit> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Recorded {
        tool_use_result: Change,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Change {
        file_path: Option<String>,
        structured_patch: Vec<Place>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Place {
        old_start: Option<u32>,
        new_start: Option<u32>,
        lines: Vec<String>,
    }
    // Most results are of other tools and may be long.
    if memchr::memmem::find(bytes, b"\"structuredPatch\"").is_none() {
        return Vec::new();
    }
    let Some(Recorded { tool_use_result: change }) = jsonl::parse(bytes) else { return Vec::new() };
    let hunk = |p: Place| Hunk { old_start: p.old_start, new_start: p.new_start, lines: p.lines };
    let hunks: Vec<Hunk> = change.structured_patch.into_iter().map(hunk).collect();
    if hunks.is_empty() { Vec::new() } else { vec![FileEdit { path: change.file_path, hunks }] }
}

fn assistant(line: &Line<'_>) -> Option<Message> {
    let body = line.message.as_ref()?;
    let role = if body.is_synthetic() { Role::System } else { Role::Assistant };
    let mut message = Message::of(role);
    for block in body.blocks() {
        let Block { kind, text, id, name, input, thinking, .. } = block;
        match (kind.as_str(), text) {
            ("text", Some(text)) => append(&mut message, text),
            ("thinking" | "redacted_thinking", _) => {
                message.thinking = Some(thinking.unwrap_or_default());
            }
            ("tool_use", _) => {
                message.tool_calls.push(ToolCall { id, name: name.unwrap_or_default(), input });
            }
            _ => {}
        }
    }
    if message.is_empty() {
        return None;
    }
    message.id = body.id.as_deref().map(str::to_owned);
    if role == Role::Assistant {
        message.model = body.model.as_deref().map(str::to_owned);
        message.usage = body.usage.map(Into::into);
    }
    Some(message)
}

fn system(line: &Line<'_>) -> Option<Message> {
    let mut message = Message::of(Role::System);
    let value: Option<Value> =
        line.error.or(line.content).and_then(|r| serde_json::from_str(r.get()).ok());
    match line.subtype.as_deref()? {
        "api_error" => {
            let value = value?;
            let said =
                value.get("formatted").or_else(|| value.get("message")).and_then(Value::as_str);
            let attempt = line.retry_attempt.map(|n| format!(" (attempt {n})")).unwrap_or_default();
            message.text = Some(format!(
                "the model call failed{attempt}: {}",
                said.unwrap_or("no reason given")
            ));
        }
        "local_command" => {
            let text = value?.as_str()?.to_owned();
            let text =
                text.replace("<local-command-stdout>", "").replace("</local-command-stdout>", "");
            message.text = Some(text).filter(|t| !t.trim().is_empty());
            message.text.as_ref()?;
        }
        _ => return None,
    }
    Some(message)
}

fn append(message: &mut Message, text: String) {
    match &mut message.text {
        Some(before) => {
            before.push('\n');
            before.push_str(&text);
        }
        None => message.text = Some(text),
    }
}

pub(super) fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|b| b.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

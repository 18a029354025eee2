//! A transcript line as a message of the common shape.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
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

/// Returns the prompt that a line holds. Most lines are rejected without parsing them.
pub(super) fn prompt(bytes: &[u8]) -> Option<Message> {
    if may_hold_prompt(bytes) { parsed_prompt(bytes) } else { None }
}

fn parsed_prompt(bytes: &[u8]) -> Option<Message> {
    let line = Line::parse(bytes).filter(|line| line.kind == "user")?;
    if line.is_meta || line.is_sidechain || line.is_compact_summary {
        return None;
    }
    let message = user(&line, bytes).filter(|m| m.role == Role::User)?;
    // The program itself tells the model that a task in the background has ended.
    message.text.as_ref().filter(|text| !text.starts_with("<task-notification>"))?;
    Some(Message { id: line.uuid.map(Cow::into_owned), ..message })
}

/// Says whether a line may hold a prompt. The searched texts cannot stand inside a JSON string, where their
/// quotes would be escaped.
fn may_hold_prompt(bytes: &[u8]) -> bool {
    static USER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"user\""));
    static ASSISTANT: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new("\"type\":\"assistant\""));
    static RESULT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"tool_result\""));
    let is_of_user = match jsonl::own_type(bytes) {
        Some(kind) => kind == b"user",
        None => USER.find(bytes).is_some(),
    };
    let prefix = &bytes[..bytes.len().min(PREFIX_BYTES)];
    is_of_user && RESULT.find(prefix).is_none() && ASSISTANT.find(prefix).is_none()
}

/// Returns the git branch that a line names. Claude Code writes `HEAD` where no branch is checked out.
pub(super) fn branch(bytes: &[u8]) -> Option<String> {
    if may_name_branch(bytes) { parsed_branch(bytes) } else { None }
}

fn parsed_branch(bytes: &[u8]) -> Option<String> {
    let branch = Line::parse(bytes)?.git_branch?;
    Some(branch.into_owned()).filter(|branch| !branch.is_empty() && branch != "HEAD")
}

/// Says whether a line has a field of that name with another value than `HEAD`.
fn may_name_branch(bytes: &[u8]) -> bool {
    static FIELD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"gitBranch\""));
    let is_branch = |at: usize| {
        let value = &bytes[at + FIELD.needle().len()..];
        !value.starts_with(b":\"HEAD\"") && !value.starts_with(b":\"\"")
    };
    FIELD.find_iter(bytes).any(is_branch)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// Returns the lines of the recorded transcripts of all versions.
    fn recorded_lines() -> Vec<Vec<u8>> {
        let fixtures =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/claude-code");
        let (mut pending, mut lines) = (vec![fixtures], Vec::new());
        while let Some(path) = pending.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(path).expect("a directory");
                pending.extend(entries.map(|entry| entry.expect("an entry").path()));
            } else if path.extension().is_some_and(|extension| extension == "jsonl") {
                let text = std::fs::read(path).expect("a file");
                lines.extend(text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
            }
        }
        lines
    }

    /// Writes the fields of a line in every order, with and without spaces.
    fn in_every_order(fields: &[(&str, serde_json::Value)]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for first in 0..fields.len() {
            let (behind, before) = fields.split_at(first);
            for (colon, comma) in [(":", ","), (": ", ", ")] {
                let field = |(key, value): &(&str, serde_json::Value)| {
                    format!("{}{colon}{value}", json!(key))
                };
                let fields: Vec<String> = before.iter().chain(behind).map(field).collect();
                lines.push(format!("{{{}}}", fields.join(comma)).into_bytes());
            }
        }
        lines
    }

    fn made_lines() -> Vec<Vec<u8>> {
        let long = "x".repeat(2 * PREFIX_BYTES);
        let quoted = r#"{"type":"assistant","gitBranch":"HEAD"} "tool_result""#;
        let texts = ["a prompt", long.as_str(), quoted, "<task-notification>"];
        let kinds = ["user", "assistant", "attachment", "queue-operation"];
        let branches = ["main", "HEAD", ""];
        let mut lines = Vec::new();
        for text in texts {
            let blocks = json!([{"type": "text", "text": text}]);
            let result = json!([{"type": "tool_result", "tool_use_id": "t", "content": text}]);
            for content in [json!(text), blocks, result] {
                for (kind, branch) in kinds.iter().flat_map(|k| branches.map(|b| (*k, b))) {
                    lines.extend(in_every_order(&[
                        ("type", json!(kind)),
                        ("message", json!({"role": "user", "content": content})),
                        ("uuid", json!("u")),
                        ("toolUseResult", json!({"gitBranch": "HEAD", "type": "user"})),
                        ("gitBranch", json!(branch)),
                    ]));
                }
            }
        }
        lines
    }

    #[test]
    fn lines_that_are_not_parsed_hold_neither_a_prompt_nor_a_branch() {
        let recorded = recorded_lines();
        let (mut prompts, mut branches) = (0, 0);
        for line in recorded.iter().chain(&made_lines()) {
            let shown = String::from_utf8_lossy(line);
            assert_eq!(prompt(line), parsed_prompt(line), "{shown}");
            assert_eq!(branch(line), parsed_branch(line), "{shown}");
            prompts += usize::from(prompt(line).is_some());
            branches += usize::from(branch(line).is_some());
        }
        assert!(prompts > 100 && branches > 100, "{prompts} prompts, {branches} branches");
    }
}

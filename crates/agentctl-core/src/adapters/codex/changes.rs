//! The file changes that a rollout line records: the hunks of `apply_patch` (`FileChange` items since 0.148,
//! `patch_apply_end` before), and only its arguments in older versions. Other shell commands leave no record.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::messages::begins_with_one_of;
use super::rollout::Line;
use crate::adapters::changes::{
    CallEnd, ChangeNote, EditKind, RecordedEdit, hunks_of_unified, patched,
};
use crate::model::{ChangeTold, ChangedBy, Time};

/// The names of its shell tools.
const SHELLS: [&str; 6] =
    ["exec_command", "shell", "shell_command", "local_shell", "container.exec", "unified_exec"];
/// The kinds of lines that are read.
const WORDS: [&str; 5] =
    ["_call\"", "_call_output\"", "\"patch_apply_end\"", "\"FileChange\"", "\"CommandExecution\""];

#[derive(Deserialize)]
struct Payload {
    #[serde(rename = "type")]
    kind: String,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    input: Option<String>,
    #[serde(default)]
    action: Value,
    #[serde(default)]
    output: Value,
    success: Option<bool>,
    changes: Option<BTreeMap<String, Change>>,
    item: Option<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    status: Option<String>,
    changes: Option<BTreeMap<String, Change>>,
}

#[derive(Deserialize)]
struct Change {
    #[serde(rename = "type")]
    kind: String,
    content: Option<String>,
    unified_diff: Option<String>,
    move_path: Option<String>,
}

/// Returns what a line says about changed files.
pub(super) fn read(bytes: &[u8]) -> Vec<ChangeNote> {
    static FINDERS: std::sync::LazyLock<[memchr::memmem::Finder<'static>; 5]> =
        std::sync::LazyLock::new(|| WORDS.map(memchr::memmem::Finder::new));
    if !begins_with_one_of(bytes, FINDERS.as_slice()) {
        return Vec::new();
    }
    let Some(line) = Line::parse(bytes) else { return Vec::new() };
    let at = line.at();
    let note = line.payload::<Payload>().and_then(|payload| note(payload, at));
    note.into_iter().collect()
}

fn note(payload: Payload, at: Option<Time>) -> Option<ChangeNote> {
    match payload.kind.as_str() {
        "function_call" | "custom_tool_call" | "local_shell_call" => called(payload, at),
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            let end = end_of(&payload.output);
            Some(ChangeNote::Ended { call: payload.call_id?, end, edits: Vec::new() })
        }
        "patch_apply_end" => {
            let end = if payload.success == Some(true) { CallEnd::Done } else { CallEnd::Failed };
            let edits = edits(payload.changes, at);
            Some(ChangeNote::Ended { call: payload.call_id?, end, edits })
        }
        "item_completed" => item(payload.item?, at),
        _ => None,
    }
}

fn item(item: Item, at: Option<Time>) -> Option<ChangeNote> {
    let end = match item.status.as_deref() {
        Some("completed") => CallEnd::Done,
        Some("declined") => CallEnd::Refused,
        _ => CallEnd::Failed,
    };
    let edits = match item.kind.as_str() {
        "FileChange" => edits(item.changes, at),
        "CommandExecution" if end == CallEnd::Refused => Vec::new(),
        _ => return None,
    };
    Some(ChangeNote::Ended { call: item.id?, end, edits })
}

fn called(payload: Payload, at: Option<Time>) -> Option<ChangeNote> {
    let call = payload.call_id?;
    let is_shell = payload.kind == "local_shell_call"
        || payload.name.as_deref().is_some_and(|name| SHELLS.contains(&name));
    let is_patch = payload.name.as_deref() == Some("apply_patch");
    if !is_shell && !is_patch {
        return None;
    }
    let text = match (payload.arguments.or(payload.input), payload.action) {
        (Some(text), _) => argument(&text),
        (None, action) => words(&action["command"]),
    };
    let is_patch = is_patch || text.contains("apply_patch");
    let mut edits = if is_patch { patched(&text) } else { Vec::new() };
    if edits.is_empty() {
        return is_shell.then_some(ChangeNote::Command { call });
    }
    for edit in &mut edits {
        edit.at = at;
    }
    Some(ChangeNote::Called { call, edits })
}

/// Returns the command or the patch of a call: a text, or a field of a JSON object.
fn argument(text: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    let fields = ["cmd", "command", "input", "patch"].map(|field| words(&value[field]));
    fields.into_iter().find(|field| !field.is_empty()).unwrap_or_default()
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            words.join(" ")
        }
        _ => String::new(),
    }
}

/// Says how a call ended. `Failed` is meant for patches: a failed command may have changed files.
fn end_of(output: &Value) -> CallEnd {
    let text = output.as_str().or_else(|| output["content"].as_str()).unwrap_or_default();
    let head = text.split("Output:").next().unwrap_or_default();
    if head.contains("rejected by user") && !head.contains("Process exited") {
        CallEnd::Refused
    } else if text.contains("Success. Updated the following files") {
        CallEnd::Done
    } else {
        CallEnd::Failed
    }
}

fn edits(changes: Option<BTreeMap<String, Change>>, at: Option<Time>) -> Vec<RecordedEdit> {
    let edit = |(path, change): (String, Change)| {
        let by = ChangedBy::Patch;
        let edit = match (change.kind.as_str(), change.content, change.unified_diff) {
            ("add", Some(content), _) => RecordedEdit::of(path, EditKind::Added, by)
                .with_content(content, ChangeTold::Content),
            ("delete", Some(content), _) => RecordedEdit::of(path, EditKind::Deleted, by)
                .with_content(content, ChangeTold::Content),
            ("delete", None, _) => RecordedEdit::of(path, EditKind::Deleted, by),
            (_, _, diff) => {
                let hunks = diff.as_deref().and_then(hunks_of_unified);
                let (path, from) = match change.move_path {
                    Some(target) => (target, Some(path)),
                    None => (path, None),
                };
                let edit = RecordedEdit::of(path, EditKind::Changed, by).with_hunks(hunks);
                RecordedEdit { from, ..edit }
            }
        };
        RecordedEdit { at, ..edit }
    };
    changes.unwrap_or_default().into_iter().map(edit).collect()
}

//! The file changes that a Pi session records: the patch of its edit tool (1.5; in 0.73 only its arguments), and
//! the arguments of its write tool. Whether a written file was there before is not recorded.

use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;

use super::lines::Entry;
use super::messages::call;
use crate::adapters::changes::{
    CallEnd, ChangeNote, EditKind, RecordedEdit, Replacement, hunks_of_unified,
};
use crate::model::{ChangeTold, ChangedBy, Time, ToolCall};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    role: String,
    #[serde(default)]
    content: Value,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    #[serde(default)]
    details: Value,
    #[serde(default)]
    is_error: bool,
}

/// Returns what a line says about changed files.
pub(in crate::adapters) fn read(bytes: &[u8]) -> Vec<ChangeNote> {
    let words = ["\"toolCall\"", "\"toolResult\""];
    if !words.iter().any(|word| memmem::find(bytes, word.as_bytes()).is_some()) {
        return Vec::new();
    }
    let Some(entry) = Entry::parse(bytes) else { return Vec::new() };
    let Some(said) = entry.message::<Said>() else { return Vec::new() };
    let at = entry.at();
    match said.role.as_str() {
        "assistant" => {
            let calls = said.content.as_array().into_iter().flatten().filter_map(call);
            calls.filter_map(|call| called(call, at)).collect()
        }
        "toolResult" => ended(said, at).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn called(tool: ToolCall, at: Option<Time>) -> Option<ChangeNote> {
    let (call, input) = (tool.id?, tool.input);
    let path = || input["path"].as_str().map(str::to_owned);
    let edit = match tool.name.as_str() {
        "bash" => return Some(ChangeNote::Command { call }),
        "write" => RecordedEdit::of(path()?, EditKind::Written, ChangedBy::Write)
            .with_content(input["content"].as_str()?.to_owned(), ChangeTold::Arguments),
        "edit" => {
            let listed = input["edits"].as_array().into_iter().flatten();
            let texts = listed.chain([&input]).filter_map(|edit| {
                let old = edit["oldText"].as_str()?.to_owned();
                let new = edit["newText"].as_str()?.to_owned();
                Some(Replacement { old, new, everywhere: false })
            });
            RecordedEdit::of(path()?, EditKind::Changed, ChangedBy::Edit)
                .with_replacements(texts.collect())
        }
        _ => return None,
    };
    Some(ChangeNote::Called { call, edits: vec![RecordedEdit { at, ..edit }] })
}

fn ended(said: Said, at: Option<Time>) -> Option<ChangeNote> {
    let call = said.tool_call_id?;
    let end = if said.is_error { CallEnd::Failed } else { CallEnd::Done };
    let edit = match (said.tool_name.as_deref(), said.details["patch"].as_str()) {
        (Some("edit"), Some(patch)) => patch_edit(patch),
        _ => None,
    };
    let edits = edit.map(|edit| RecordedEdit { at, ..edit }).into_iter().collect();
    Some(ChangeNote::Ended { call, end, edits })
}

/// Reads the patch of an edit. Its heading names the file as the call did.
fn patch_edit(patch: &str) -> Option<RecordedEdit> {
    let path = patch.lines().next()?.strip_prefix("--- ")?;
    let hunks = hunks_of_unified(patch)?;
    Some(RecordedEdit::of(path, EditKind::Changed, ChangedBy::Edit).with_hunks(Some(hunks)))
}

//! The file changes that OpenCode records: the diff of its edit tool, the content of its write tool, the files
//! that changed during a step (`patch` parts), and the differences of a whole turn (`summary.diffs`).

use serde::Deserialize;
use serde_json::{Value, json};

use super::entry::Part;
use crate::adapters::changes::{
    CallEnd, ChangeNote, EditKind, RecordedEdit, Replacement, hunks_of_unified, patched,
};
use crate::model::{ChangeTold, ChangedBy, Time};

/// A line of a conversation, see `messages.rs`.
#[derive(Deserialize)]
struct Line {
    tells: String,
    #[serde(default)]
    info: Info,
    part: Option<Part>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    diffs: Vec<Diff>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    id: String,
}

/// One file of `summary.diffs`.
#[derive(Deserialize)]
struct Diff {
    file: String,
    patch: Option<String>,
    status: Option<String>,
}

/// Returns what a line says about changed files.
pub(super) fn read(bytes: &[u8]) -> Vec<ChangeNote> {
    let words = [
        "\"tells\":\"call\"",
        "\"tells\":\"result\"",
        "\"tells\":\"changed\"",
        "\"tells\":\"turn\"",
    ];
    if !words.iter().any(|word| memchr::memmem::find(bytes, word.as_bytes()).is_some()) {
        return Vec::new();
    }
    let Ok(line) = serde_json::from_slice::<Line>(bytes) else { return Vec::new() };
    note(line).into_iter().collect()
}

fn note(line: Line) -> Option<ChangeNote> {
    if line.tells == "turn" {
        let net = line.diffs.into_iter().map(turn_edit).collect();
        return Some(ChangeNote::Turn { id: line.info.id, net });
    }
    let part = line.part?;
    let call = part.call_id.clone().filter(|call| !call.is_empty())?;
    match line.tells.as_str() {
        "call" => called(&part, call),
        "result" => {
            let end = match (part.state.status.as_str(), part.is_refused()) {
                (_, true) => CallEnd::Refused,
                ("completed", _) => CallEnd::Done,
                _ => CallEnd::Failed,
            };
            let at = part.state.time.end.and_then(Time::from_millis);
            let edits = edit(&part).map(|edit| RecordedEdit { at, ..edit });
            Some(ChangeNote::Ended { call, end, edits: edits.into_iter().collect() })
        }
        "changed" => {
            let by = ChangedBy::Shell;
            let at = part.state.time.end.and_then(Time::from_millis);
            let edit = |path| RecordedEdit { at, ..RecordedEdit::of(path, EditKind::Written, by) };
            let edits = line.files.into_iter().map(edit).collect();
            Some(ChangeNote::Ended { call, end: CallEnd::Done, edits })
        }
        _ => None,
    }
}

fn called(part: &Part, call: String) -> Option<ChangeNote> {
    let input = &part.state.input;
    let text = |key: &str| input[key].as_str().map(str::to_owned);
    let at = part.state.time.start.and_then(Time::from_millis);
    let mut edits = match part.tool.as_deref()? {
        "bash" => return Some(ChangeNote::Command { call }),
        "edit" => {
            let (old, new) = (text("oldString")?, text("newString")?);
            let everywhere = input["replaceAll"].as_bool().unwrap_or(false);
            let edit = RecordedEdit::of(text("filePath")?, EditKind::Changed, ChangedBy::Edit);
            vec![edit.with_replacements(vec![Replacement { old, new, everywhere }])]
        }
        "write" => {
            let edit = RecordedEdit::of(text("filePath")?, EditKind::Written, ChangedBy::Write);
            vec![edit.with_content(text("content")?, ChangeTold::Arguments)]
        }
        "patch" | "apply_patch" => patched(&text("patchText")?),
        _ => return None,
    };
    for edit in &mut edits {
        edit.at = at;
    }
    Some(ChangeNote::Called { call, edits })
}

/// Returns the change that the result of a file tool records.
fn edit(part: &Part) -> Option<RecordedEdit> {
    let (input, metadata) = (&part.state.input, part.state.metadata.as_ref()?);
    let path = input["filePath"].as_str()?;
    match part.tool.as_deref()? {
        "edit" => {
            let hunks = hunks_of_unified(metadata["diff"].as_str()?)?;
            let is_new = input["oldString"] == "" && hunks.iter().all(|hunk| hunk.old_start == 0);
            let kind = if is_new { EditKind::Added } else { EditKind::Changed };
            Some(RecordedEdit::of(path, kind, ChangedBy::Edit).with_hunks(Some(hunks)))
        }
        "write" => {
            let kind = match metadata["exists"].as_bool() {
                Some(false) => EditKind::Added,
                Some(true) => EditKind::Changed,
                None => EditKind::Written,
            };
            let content = input["content"].as_str()?.to_owned();
            let edit = RecordedEdit::of(path, kind, ChangedBy::Write);
            Some(edit.with_content(content, ChangeTold::Content))
        }
        _ => None,
    }
}

fn turn_edit(diff: Diff) -> RecordedEdit {
    let kind = match diff.status.as_deref() {
        Some("added") => EditKind::Added,
        Some("deleted") => EditKind::Deleted,
        _ => EditKind::Changed,
    };
    let hunks = diff.patch.as_deref().and_then(hunks_of_unified);
    RecordedEdit::of(diff.file, kind, ChangedBy::Shell).with_hunks(hunks)
}

/// Makes the line that says which files changed during the step of a shell command. Files that file tools of
/// the step name are left out: their own results tell them.
pub(super) fn changed_line(info: &Value, patch: &Value, parts: &[Part]) -> Option<Vec<u8>> {
    let shell = parts.iter().rev().find(|part| part.tool.as_deref() == Some("bash"))?;
    let named: Vec<&str> =
        parts.iter().filter_map(|part| part.state.input["filePath"].as_str()).collect();
    let files = patch["files"].as_array()?.iter().filter_map(Value::as_str);
    let files: Vec<&str> = files.filter(|file| !named.contains(file)).collect();
    let state = json!({ "time": { "end": shell.state.time.end } });
    let part = json!({ "type": "patch", "callID": shell.call_id, "state": state });
    let line =
        json!({ "tells": "changed", "info": { "id": info["id"] }, "part": part, "files": files });
    (!files.is_empty()).then(|| line.to_string().into_bytes())
}

/// Makes the line that holds the differences of a turn, once they are recorded with its prompt.
pub(super) fn turn_line(info: &Value) -> Option<Vec<u8>> {
    let diffs = info["summary"]["diffs"].as_array().filter(|diffs| !diffs.is_empty())?;
    let line = json!({ "tells": "turn", "info": { "id": info["id"] }, "diffs": diffs });
    Some(line.to_string().into_bytes())
}

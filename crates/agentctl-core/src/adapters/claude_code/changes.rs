//! The file changes that a transcript line records: hunks beside the results of its file tools, and, since a
//! version between 2.1.200 and 2.1.280, beside the results of shell commands in a git work tree.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::adapters::changes::{
    CallEnd, ChangeNote, EditKind, LineHunk, RecordedEdit, Replacement, difference,
};
use crate::model::{ChangeTold, ChangedBy, Time};
use crate::native::jsonl;

/// The texts with which a call that never ran is answered.
const REFUSALS: [&str; 4] = [
    "User rejected tool use",
    "The user doesn't want to",
    "Claude requested permissions",
    "Error: Claude requested permissions",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Body<'a>>,
    #[serde(borrow)]
    tool_use_result: Option<&'a RawValue>,
    permission_decision: Option<Decision>,
}

#[derive(Deserialize)]
struct Decision {
    decision: Option<String>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    id: Option<String>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    input: Value,
    tool_use_id: Option<String>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Returns what a line says about changed files.
pub(super) fn read(bytes: &[u8]) -> Vec<ChangeNote> {
    let is_call = memmem::find(bytes, b"\"tool_use\"").is_some();
    if !is_call && memmem::find(bytes, b"\"tool_result\"").is_none() {
        return Vec::new();
    }
    let Some(line) = jsonl::parse::<Line<'_>>(bytes) else { return Vec::new() };
    let content = line.message.as_ref().and_then(|message| message.content);
    let blocks: Option<Vec<Block<'_>>> = content.and_then(|c| serde_json::from_str(c.get()).ok());
    let blocks = blocks.unwrap_or_default();
    let results = blocks.iter().filter(|block| block.kind == "tool_result").count();
    // The record beside a message belongs to its only result.
    let recorded = line.tool_use_result.filter(|_| results == 1);
    let at = line.timestamp.as_deref().and_then(Time::parse);
    let decision = line.permission_decision.as_ref().and_then(|d| d.decision.as_deref());
    let notes = blocks.into_iter().filter_map(|block| match block.kind.as_ref() {
        "tool_use" => called(block, at),
        "tool_result" => ended(block, at, (decision, recorded)),
        _ => None,
    });
    notes.collect()
}

fn called(block: Block<'_>, at: Option<Time>) -> Option<ChangeNote> {
    let (call, input) = (block.id?, block.input);
    let text = |key: &str| input[key].as_str().map(str::to_owned);
    let edit = match block.name.as_deref()? {
        "Bash" => return Some(ChangeNote::Command { call }),
        "Write" => RecordedEdit::of(text("file_path")?, EditKind::Written, ChangedBy::Write)
            .with_content(text("content")?, ChangeTold::Arguments),
        "Edit" | "MultiEdit" => {
            let single = [&input];
            let several = input["edits"].as_array().map(|edits| edits.iter().collect::<Vec<_>>());
            let texts = several.as_deref().unwrap_or(&single).iter().filter_map(|edit| {
                let old = edit["old_string"].as_str()?.to_owned();
                let new = edit["new_string"].as_str()?.to_owned();
                let everywhere = edit["replace_all"].as_bool().unwrap_or(false);
                Some(Replacement { old, new, everywhere })
            });
            RecordedEdit::of(text("file_path")?, EditKind::Changed, ChangedBy::Edit)
                .with_replacements(texts.collect())
        }
        "NotebookEdit" => {
            RecordedEdit::of(text("notebook_path")?, EditKind::Changed, ChangedBy::Edit)
        }
        _ => return None,
    };
    Some(ChangeNote::Called { call, edits: vec![RecordedEdit { at, ..edit }] })
}

fn ended(
    block: Block<'_>,
    at: Option<Time>,
    (decision, recorded): (Option<&str>, Option<&RawValue>),
) -> Option<ChangeNote> {
    let call = block.tool_use_id?;
    let end = if decision == Some("reject") || is_refusal(recorded) || is_refusal(block.content) {
        CallEnd::Refused
    } else if block.is_error == Some(true) {
        CallEnd::Failed
    } else {
        CallEnd::Done
    };
    let mut edits = if end == CallEnd::Done { edits(recorded) } else { Vec::new() };
    for edit in &mut edits {
        edit.at = at;
    }
    Some(ChangeNote::Ended { call, end, edits })
}

fn is_refusal(text: Option<&RawValue>) -> bool {
    let text: Option<Cow<'_, str>> = text.and_then(|text| serde_json::from_str(text.get()).ok());
    text.is_some_and(|text| REFUSALS.iter().any(|refusal| text.starts_with(refusal)))
}

/// The record beside a result, as far as it is about files. Texts that may be long are read when needed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    file_path: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    structured_patch: Option<Vec<Place>>,
    #[serde(borrow)]
    original_file: Option<&'a RawValue>,
    bash_edit_diff: Option<ShellDiff>,
    #[serde(rename = "notebook_path")]
    notebook: Option<String>,
    #[serde(borrow, rename = "original_file")]
    notebook_before: Option<&'a RawValue>,
    #[serde(borrow, rename = "updated_file")]
    notebook_after: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShellDiff {
    #[serde(default)]
    files: Vec<ShellFile>,
    /// Every changed file, also those whose lines are too many to be recorded.
    #[serde(default)]
    changed_files: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShellFile {
    file_path: String,
    hunks: Option<Vec<Place>>,
    #[serde(default)]
    created: bool,
    #[serde(default)]
    deleted: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    old_start: u64,
    old_lines: u64,
    new_start: u64,
    new_lines: u64,
    lines: Joined,
}

/// Lines as one text, so that a long list of short lines costs its bytes only.
struct Joined(String);

impl<'de> Deserialize<'de> for Joined {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lines;
        impl<'de> Visitor<'de> for Lines {
            type Value = Joined;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("lines")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Joined, A::Error> {
                let mut text = String::new();
                while let Some(line) = seq.next_element::<Cow<'de, str>>()? {
                    text.push_str(&line);
                    text.push('\n');
                }
                Ok(Joined(text))
            }
        }
        deserializer.deserialize_seq(Lines)
    }
}

impl Place {
    /// Returns the place numbered as in a unified diff: Claude Code names the line itself where no line stands.
    fn hunk(&self) -> Option<LineHunk> {
        let number = |start: u64, lines: u64| {
            if lines == 0 { start.saturating_sub(1) } else { start }
        };
        let starts =
            (number(self.old_start, self.old_lines), number(self.new_start, self.new_lines));
        let hunk = LineHunk::of_lines(starts, self.lines.0.split_terminator('\n'))?;
        (hunk.sizes() == (self.old_lines, self.new_lines)).then_some(hunk)
    }
}

fn hunks(places: &[Place]) -> Option<Vec<LineHunk>> {
    places.iter().map(Place::hunk).collect()
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

fn edits(recorded: Option<&RawValue>) -> Vec<RecordedEdit> {
    let Some(raw) = recorded.map(RawValue::get) else { return Vec::new() };
    // Most results are of other tools and may be long.
    let words = ["\"structuredPatch\"", "\"bashEditDiff\"", "\"notebook_path\""];
    if !words.iter().any(|word| memmem::find(raw.as_bytes(), word.as_bytes()).is_some()) {
        return Vec::new();
    }
    let Ok(recorded) = serde_json::from_str::<Recorded<'_>>(raw) else { return Vec::new() };
    if let Some(diff) = recorded.bash_edit_diff {
        return shell(diff);
    }
    if let Some(path) = recorded.notebook {
        let edit = RecordedEdit::of(path, EditKind::Changed, ChangedBy::Edit);
        let texts = (text(recorded.notebook_before), text(recorded.notebook_after));
        let (Some(before), Some(after)) = texts else { return vec![edit] };
        let edit = edit.with_hunks(Some(difference(&before, &after)));
        return vec![RecordedEdit { before: Some(before), ..edit }];
    }
    let (Some(path), Some(places)) = (recorded.file_path, recorded.structured_patch) else {
        return Vec::new();
    };
    let kind = text(recorded.kind);
    let by = if kind.is_some() { ChangedBy::Write } else { ChangedBy::Edit };
    if kind.as_deref() == Some("create")
        && let Some(content) = text(recorded.content)
    {
        let edit = RecordedEdit::of(path, EditKind::Added, by);
        return vec![edit.with_content(content, ChangeTold::Content)];
    }
    let before = text(recorded.original_file);
    let edit = RecordedEdit::of(path, EditKind::Changed, by).with_hunks(hunks(&places));
    vec![RecordedEdit { before, ..edit }]
}

/// Returns the changes by a shell command.
fn shell(diff: ShellDiff) -> Vec<RecordedEdit> {
    let by = ChangedBy::Shell;
    let mut edits: Vec<RecordedEdit> = Vec::new();
    for file in diff.files {
        let kind = match (file.created, file.deleted) {
            (true, _) => EditKind::Added,
            (_, true) => EditKind::Deleted,
            _ => EditKind::Changed,
        };
        let hunks = file.hunks.as_deref().and_then(hunks);
        edits.push(RecordedEdit::of(file.file_path, kind, by).with_hunks(hunks));
    }
    let told: std::collections::HashSet<String> =
        edits.iter().map(|edit| edit.path.clone()).collect();
    let others = diff.changed_files.into_iter().filter(|path| !told.contains(path));
    // Whether they were there before is not recorded.
    edits.extend(others.map(|path| RecordedEdit::of(path, EditKind::Written, by)));
    edits
}

//! The file changes that the demo agent records: the content of each written file before and after.

use super::format::Line;
use crate::adapters::changes::{CallEnd, ChangeNote, EditKind, RecordedEdit, difference};
use crate::model::{ChangeTold, ChangedBy};

/// Returns what a line says about changed files.
pub(super) fn read(line: &[u8]) -> Vec<ChangeNote> {
    let Ok(line) = serde_json::from_slice::<Line>(line) else { return Vec::new() };
    let at = line.at();
    let note = match line {
        Line::Tool { call, .. } => ChangeNote::Command { call },
        Line::Write { call, path, content, .. } => {
            let edit = RecordedEdit::of(path, EditKind::Written, ChangedBy::Write);
            let edit = edit.with_content(content, ChangeTold::Arguments);
            ChangeNote::Called { call, edits: vec![RecordedEdit { at, ..edit }] }
        }
        Line::Result { call, is_error, wrote, denied, .. } => {
            let end = match (denied, is_error) {
                (true, _) => CallEnd::Refused,
                (_, true) => CallEnd::Failed,
                _ => CallEnd::Done,
            };
            let edit = wrote.map(|wrote| {
                let kind = if wrote.existed { EditKind::Changed } else { EditKind::Added };
                let edit = RecordedEdit::of(wrote.path, kind, ChangedBy::Write);
                let edit = match &wrote.before {
                    Some(before) => edit.with_hunks(Some(difference(before, &wrote.content))),
                    None => edit.with_content(wrote.content, ChangeTold::Content),
                };
                RecordedEdit { at, before: wrote.before, ..edit }
            });
            ChangeNote::Ended { call, end, edits: edit.into_iter().collect() }
        }
        _ => return Vec::new(),
    };
    vec![note]
}

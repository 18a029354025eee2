//! The arguments of `apply_patch`: files and changed texts without line numbers.

use super::{EditBody, EditKind, RecordedEdit, Replacement};
use crate::model::{ChangeTold, ChangedBy};

/// Returns the changes that a patch in the format of `apply_patch` asks for; none if the text holds no patch.
pub(crate) fn patched(text: &str) -> Vec<RecordedEdit> {
    let Some((_, patch)) = text.split_once("*** Begin Patch") else { return Vec::new() };
    let mut edits: Vec<RecordedEdit> = Vec::new();
    for line in patch.lines().take_while(|line| *line != "*** End Patch") {
        if let Some((path, kind)) = file(line) {
            edits.push(RecordedEdit::of(path, kind, ChangedBy::Patch));
        } else if let Some(edit) = edits.last_mut() {
            add_line(edit, line);
        }
    }
    for edit in &mut edits {
        edit.told =
            if edit.kind == EditKind::Deleted { ChangeTold::Path } else { ChangeTold::Arguments };
    }
    edits
}

fn file(line: &str) -> Option<(&str, EditKind)> {
    let marks = [
        ("*** Add File: ", EditKind::Added),
        ("*** Update File: ", EditKind::Changed),
        ("*** Delete File: ", EditKind::Deleted),
    ];
    marks.iter().find_map(|(mark, kind)| Some((line.strip_prefix(mark)?, *kind)))
}

fn add_line(edit: &mut RecordedEdit, line: &str) {
    if let Some(target) = line.strip_prefix("*** Move to: ") {
        edit.from = Some(std::mem::replace(&mut edit.path, target.to_owned()));
        return;
    }
    if edit.kind == EditKind::Added {
        if let EditBody::Path = edit.body {
            edit.body = EditBody::Content(String::new());
        }
        if let (EditBody::Content(content), Some(text)) = (&mut edit.body, line.strip_prefix('+')) {
            content.push_str(text);
            content.push('\n');
        }
        return;
    }
    if let EditBody::Path = edit.body {
        edit.body = EditBody::Replaced(Vec::new());
    }
    let EditBody::Replaced(texts) = &mut edit.body else { return };
    if line.starts_with("@@") || texts.is_empty() {
        texts.push(Replacement { old: String::new(), new: String::new(), everywhere: false });
    }
    let (Some(last), Some(mark)) = (texts.last_mut(), line.chars().next()) else { return };
    let text = &line[mark.len_utf8()..];
    if matches!(mark, ' ' | '-') {
        last.old.push_str(text);
        last.old.push('\n');
    }
    if matches!(mark, ' ' | '+') {
        last.new.push_str(text);
        last.new.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_its_files_and_their_texts() {
        let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n x\n-y\n+z\n\
                     *** Add File: n\n+1\n+2\n*** Delete File: d\n*** End Patch\n*** Add File: no\nEOF";
        let edits = patched(patch);
        let named: Vec<_> = edits.iter().map(|e| (e.path.as_str(), e.kind)).collect();
        let expected = [("b", EditKind::Changed), ("n", EditKind::Added), ("d", EditKind::Deleted)];
        assert_eq!(named, expected);
        assert_eq!(edits[0].from.as_deref(), Some("a"));
        let EditBody::Replaced(texts) = &edits[0].body else { panic!("{:?}", edits[0]) };
        assert_eq!((texts[0].old.as_str(), texts[0].new.as_str()), ("x\ny\n", "x\nz\n"));
        assert_eq!(edits[1].body, EditBody::Content("1\n2\n".into()));
        assert!(patched("no patch").is_empty());
    }
}

//! File changes of a tool call as lines with `+` and `-`.
//!
//! The agent's own record of a change has line numbers and context. Without one, the change is made of the input
//! of the call: see [`ToolCall::wanted_edits`].

use agentctl_core::model::{FileEdit, Hunk, ToolCall, ToolResult};

use super::layout::View;
use super::plain::plain;
use super::wrap::{Indent, wrap_code};
use super::{Span, SpanStyle};

/// Returns the file changes of a call.
pub(super) fn edits(call: &ToolCall, result: Option<&ToolResult>) -> Vec<FileEdit> {
    match result {
        Some(result) if !result.edits.is_empty() => result.edits.clone(),
        // A refused change is no change.
        Some(result) if result.is_error => Vec::new(),
        _ => call.wanted_edits(),
    }
}

/// Says whether changes are whole new contents from the input of a call, which does not know what the files held before.
pub(super) fn are_contents(edits: &[FileEdit]) -> bool {
    let mut hunks = edits.iter().flat_map(|edit| &edit.hunks);
    hunks.any(|hunk| hunk.old_start.is_none() && hunk.new_start.is_some())
}

/// Returns the numbers of added and removed lines.
pub(super) fn counts(edits: &[FileEdit]) -> (usize, usize) {
    let lines = || edits.iter().flat_map(|edit| &edit.hunks).flat_map(|hunk| &hunk.lines);
    let marked = |mark: char| lines().filter(|line| line.starts_with(mark)).count();
    (marked('+'), marked('-'))
}

/// Returns the first lines of changes, and the number of lines that are left out.
pub(super) fn first_lines(mut edits: Vec<FileEdit>, most: usize) -> (Vec<FileEdit>, usize) {
    let mut hunks: Vec<&mut Hunk> = edits.iter_mut().flat_map(|edit| &mut edit.hunks).collect();
    let total: usize = hunks.iter().map(|hunk| hunk.lines.len()).sum();
    // One more line is shown rather than a fold of one line.
    if total <= most + 1 {
        return (edits, 0);
    }
    let mut left = most;
    for hunk in &mut hunks {
        hunk.lines.truncate(left);
        left -= hunk.lines.len();
    }
    for edit in &mut edits {
        edit.hunks.retain(|hunk| !hunk.lines.is_empty());
    }
    edits.retain(|edit| !edit.hunks.is_empty());
    (edits, total - most)
}

/// Lays out changes, one row of spans for each line or part of a line.
pub(super) fn rows(edits: &[FileEdit], indent: &Indent, view: &View) -> Vec<Vec<Span>> {
    let mut rows = Vec::new();
    for edit in edits {
        if let Some(path) = edit.path.as_deref().filter(|_| edits.len() > 1) {
            let mut row = indent.first.clone();
            row.push(Span::new(SpanStyle::Strong, crate::text::one_line(path)));
            rows.push(row);
        }
        for (at, hunk) in edit.hunks.iter().enumerate() {
            if at > 0 {
                let mut row = indent.first.clone();
                row.push(Span::new(SpanStyle::Dimmed, "⋯"));
                rows.push(row);
            }
            rows.extend(hunk_rows(hunk, indent, view));
        }
    }
    rows
}

fn hunk_rows(hunk: &Hunk, indent: &Indent, view: &View) -> Vec<Vec<Span>> {
    let mut rows = Vec::new();
    let (mut old, mut new) = (hunk.old_start, hunk.new_start);
    for line in &hunk.lines {
        let mark = line.chars().next().unwrap_or(' ');
        let text = plain(line.get(mark.len_utf8()..).unwrap_or_default());
        let step = |number: &mut Option<u32>| {
            let now = *number;
            *number = now.map(|n| n.saturating_add(1));
            now
        };
        let (number, style) = match mark {
            '+' => (step(&mut new), SpanStyle::Added),
            '-' => (step(&mut old), SpanStyle::Removed),
            ' ' => {
                let _old = step(&mut old);
                (step(&mut new), SpanStyle::Dimmed)
            }
            // A note such as `\ No newline at end of file`.
            _ => continue,
        };
        let number = number.map(|number| format!("{number:>4} ")).unwrap_or_default();
        let gap = " ".repeat(number.len() + 2);
        let mut indent = indent.with(Span::new(SpanStyle::Dimmed, number), Span::plain(gap));
        indent.first.push(Span::new(style, format!("{mark} ")));
        rows.extend(wrap_code(
            &Span::new(style, view.cut(&text.replace('\n', " "), &indent)),
            &indent,
            view.width,
        ));
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(name: &str, input: Value) -> Vec<FileEdit> {
        edits(&ToolCall { id: None, name: name.into(), input }, None)
    }

    #[test]
    fn changes_are_counted_in_the_words_of_every_agent() {
        let claude = json!({"file_path": "a", "old_string": "x\ny\nz", "new_string": "x\nY\nz\nw"});
        let opencode = json!({"filePath": "a", "oldString": "x\ny\nz", "newString": "x\nY\nz\nw"});
        let pi = json!({"path": "a", "edits": [{"oldText": "x\ny\nz", "newText": "x\nY\nz\nw"}]});
        for (name, input) in [("Edit", claude), ("edit", opencode), ("edit", pi)] {
            let made = of(name, input);
            assert_eq!(counts(&made), (2, 1), "{made:?}");
            assert_eq!(made[0].hunks[0].lines, [" x", "-y", "+Y", " z", "+w"]);
        }
        let patch = "*** Begin Patch\n*** Update File: a\n@@ fn x\n y\n-old\n+new\n+more\n*** Add File: b\n+c\n*** End Patch";
        let made = of("apply_patch", patch.into());
        assert_eq!((made.len(), counts(&made)), (2, (3, 1)));
        assert!(!are_contents(&made));
        let made = of("Write", json!({"file_path": "a", "content": "1\n2\n3\n"}));
        assert_eq!((counts(&made), are_contents(&made)), ((3, 0), true));
        assert!(of("Bash", json!({"command": "ls", "content": "x"})).is_empty());
    }

    #[test]
    fn numbers_count_both_sides_and_refused_changes_are_none() {
        let lines = vec![" a".into(), "-b".into(), "+c".into(), "+d\u{1b}[2J".into(), " e".into()];
        let hunk = Hunk { old_start: Some(9), new_start: Some(9), lines };
        let edit = FileEdit { path: None, hunks: vec![hunk] };
        let drawn: Vec<String> =
            rows(std::slice::from_ref(&edit), &Indent::default(), &View::plain(40))
                .iter()
                .map(|row| row.iter().map(|s| s.text.as_str()).collect())
                .collect();
        assert_eq!(drawn, ["   9   a", "  10 - b", "  10 + c", "  11 + d\\x1b[2J", "  12   e"]);
        let input = json!({"file_path": "a", "old_string": "x", "new_string": "y"});
        let call = ToolCall { id: None, name: "Edit".into(), input };
        let refused = ToolResult { is_error: true, ..ToolResult::default() };
        assert!(edits(&call, Some(&refused)).is_empty());
        let recorded = ToolResult { edits: vec![edit], ..ToolResult::default() };
        let recorded = edits(&call, Some(&recorded));
        assert_eq!((counts(&recorded), are_contents(&recorded)), ((2, 1), false));
    }
}

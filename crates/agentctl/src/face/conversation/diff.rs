//! File changes of a tool call as lines with `+` and `-`.
//!
//! The agent's own record of a change has line numbers and context. Without one, the change is made of the input
//! of the call: old and new text, a new file's content, or a patch. No file of the project is read.

use agentctl_core::model::{FileEdit, Hunk, ToolCall, ToolResult, is_patch};
use serde_json::Value;

use super::layout::View;
use super::plain::plain;
use super::wrap::{Indent, wrap_code};
use super::{Span, SpanStyle};

/// Most pairs of lines that are compared; longer texts are shown as removed and added as a whole.
const MAX_COMPARED: usize = 250_000;

/// Returns the file changes of a call.
pub(super) fn edits(call: &ToolCall, result: Option<&ToolResult>) -> Vec<FileEdit> {
    match result {
        Some(result) if !result.edits.is_empty() => result.edits.clone(),
        // A refused change is no change.
        Some(result) if result.is_error => Vec::new(),
        _ => wanted(call),
    }
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

/// Returns the changes that the input of a call asks for.
fn wanted(call: &ToolCall) -> Vec<FileEdit> {
    if let Some(patch) = patch(&call.input) {
        return patched(patch);
    }
    let text = |value: &Value, keys: [&str; 3]| {
        keys.iter().find_map(|key| value[*key].as_str()).map(str::to_owned)
    };
    let path = text(&call.input, ["file_path", "filePath", "path"]);
    let replaced = |value: &Value| {
        let old = text(value, ["old_string", "oldString", "oldText"])?;
        let new = text(value, ["new_string", "newString", "newText"])?;
        Some(Hunk { lines: compared(&old, &new), ..Hunk::default() })
    };
    let list = call.input["edits"].as_array().into_iter().flatten();
    let mut hunks: Vec<Hunk> =
        replaced(&call.input).into_iter().chain(list.filter_map(replaced)).collect();
    if call.name.eq_ignore_ascii_case("write")
        && let Some(content) = call.input["content"].as_str()
    {
        let lines = content.lines().map(|line| format!("+{line}")).collect();
        hunks.push(Hunk { new_start: Some(1), lines, ..Hunk::default() });
    }
    if hunks.is_empty() { Vec::new() } else { vec![FileEdit { path, hunks }] }
}

fn patch(input: &Value) -> Option<&str> {
    let texts = [Some(input), input.get("input"), input.get("patch"), input.get("patchText")];
    texts.into_iter().flatten().filter_map(Value::as_str).find(|text| is_patch(text))
}

/// Reads a patch in the format of `apply_patch`.
fn patched(patch: &str) -> Vec<FileEdit> {
    let mut edits: Vec<FileEdit> = Vec::new();
    for line in patch.lines() {
        let file = ["*** Update File: ", "*** Add File: ", "*** Delete File: "]
            .iter()
            .find_map(|mark| line.strip_prefix(mark));
        if let Some(path) = file {
            let hunks = vec![Hunk::default()];
            edits.push(FileEdit { path: Some(path.to_owned()), hunks });
        } else if let Some(edit) = edits.last_mut() {
            if line.starts_with("@@") {
                edit.hunks.push(Hunk::default());
            } else if line.starts_with(['+', '-', ' '])
                && let Some(hunk) = edit.hunks.last_mut()
            {
                hunk.lines.push(line.to_owned());
            }
        }
    }
    for edit in &mut edits {
        edit.hunks.retain(|hunk| !hunk.lines.is_empty());
    }
    edits
}

/// Compares two texts line by line: the longest common subsequence stays.
fn compared(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[same..], &new[same..]);
    let pairs = old_rest.iter().rev().zip(new_rest.iter().rev());
    let same_end = pairs.take_while(|(a, b)| a == b).count();
    let (a, b) = (&old_rest[..old_rest.len() - same_end], &new_rest[..new_rest.len() - same_end]);
    let mut lines: Vec<String> = old[..same].iter().map(|line| format!(" {line}")).collect();
    if a.len().saturating_mul(b.len()) > MAX_COMPARED {
        lines.extend(a.iter().map(|line| format!("-{line}")));
        lines.extend(b.iter().map(|line| format!("+{line}")));
    } else {
        lines.extend(subsequence(a, b));
    }
    lines.extend(old[old.len() - same_end..].iter().map(|line| format!(" {line}")));
    lines
}

fn subsequence(a: &[&str], b: &[&str]) -> Vec<String> {
    // lengths[i][j]: the longest common subsequence of a[i..] and b[j..].
    let mut lengths = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i][j] = if a[i] == b[j] {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            lines.push(format!(" {}", a[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < a.len() && (j == b.len() || lengths[i + 1][j] >= lengths[i][j + 1]) {
            lines.push(format!("-{}", a[i]));
            i += 1;
        } else {
            lines.push(format!("+{}", b[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        assert_eq!(counts(&of("Write", json!({"file_path": "a", "content": "1\n2\n3\n"}))), (3, 0));
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
        assert_eq!(counts(&edits(&call, Some(&recorded))), (2, 1));
    }
}

//! The file changes that a tool call asks for, made of its input: old and new text, the content of a new file, or
//! a patch. No file of the project is read.

use serde_json::Value;

use super::{FileEdit, Hunk, ToolCall, is_patch};

/// Most pairs of lines that are compared; longer texts are shown as removed and added as a whole.
const MAX_COMPARED: usize = 250_000;

impl ToolCall {
    /// Returns the file changes that the input of the call asks for.
    #[must_use]
    pub fn wanted_edits(&self) -> Vec<FileEdit> {
        wanted(self)
    }
}

impl FileEdit {
    /// Returns the change in the unified format. Places without line numbers begin with `@@` alone.
    #[must_use]
    pub fn unified(&self) -> String {
        let mut text = String::new();
        for hunk in &self.hunks {
            text.push_str(&hunk.heading());
            for line in &hunk.lines {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

impl Hunk {
    fn heading(&self) -> String {
        let count = |other: char| self.lines.iter().filter(|line| !line.starts_with(other)).count();
        match (self.old_start, self.new_start) {
            (None, None) => "@@\n".to_owned(),
            (old, new) => {
                let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
                format!("@@ -{old},{} +{new},{} @@\n", count('+'), count('-'))
            }
        }
    }
}

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

    #[test]
    fn a_change_is_a_unified_diff_of_the_texts_that_the_call_gives() {
        let call = |name: &str, input| ToolCall { id: None, name: name.into(), input };
        let edit =
            call("Edit", json!({"file_path": "a", "old_string": "x\ny", "new_string": "x\nz"}));
        assert_eq!(edit.wanted_edits()[0].unified(), "@@\n x\n-y\n+z\n");
        let write = call("Write", json!({"file_path": "a", "content": "1\n2\n"}));
        assert_eq!(write.wanted_edits()[0].unified(), "@@ -0,0 +1,2 @@\n+1\n+2\n");
    }
}

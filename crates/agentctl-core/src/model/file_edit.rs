//! The changes of a file by a tool, in the shape of a unified diff.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The changes of one file by a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct FileEdit {
    /// The file, as the agent named it.
    pub path: Option<String>,
    /// The changed places, in the order of the file.
    pub hunks: Vec<Hunk>,
}

/// One changed place of a file, as in a unified diff.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Hunk {
    /// The first line of the place before the change, counted from 1; null where it is not known.
    pub old_start: Option<u32>,
    /// The first line of the place after the change, counted from 1; null where it is not known.
    pub new_start: Option<u32>,
    /// The lines, each with its mark: a space, `-` or `+`.
    pub lines: Vec<String>,
}

impl FileEdit {
    /// Reads the hunks of a unified diff; `None` if it has none.
    #[must_use]
    pub fn from_unified(path: Option<String>, diff: &str) -> Option<Self> {
        let mut hunks: Vec<Hunk> = Vec::new();
        for line in diff.lines() {
            if let Some(place) = line.strip_prefix("@@ ") {
                let start = |mark: char| {
                    let number = place.split_whitespace().find_map(|w| w.strip_prefix(mark))?;
                    number.split(',').next()?.parse().ok()
                };
                let (old_start, new_start) = (start('-'), start('+'));
                hunks.push(Hunk { old_start, new_start, lines: Vec::new() });
            } else if let (Some(hunk), true) = (hunks.last_mut(), line.starts_with([' ', '-', '+']))
            {
                hunk.lines.push(line.to_owned());
            } else if let (Some(hunk), "") = (hunks.last_mut(), line) {
                // Some writers leave out the space of an empty line.
                hunk.lines.push(" ".to_owned());
            }
        }
        (!hunks.is_empty()).then_some(Self { path, hunks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unified_diff_is_read_hunk_by_hunk() {
        let diff = "Index: a.rs\n===\n--- a.rs\n+++ a.rs\n@@ -3,2 +3,3 @@\n keep\n-old\n+new\n\\ No newline\n@@ -9 +10 @@\n-x\n";
        let edit = FileEdit::from_unified(None, diff).expect("hunks");
        assert_eq!(edit.hunks.len(), 2);
        assert_eq!((edit.hunks[1].old_start, edit.hunks[1].new_start), (Some(9), Some(10)));
        assert_eq!(edit.hunks[0].lines, [" keep", "-old", "+new"]);
        assert_eq!(FileEdit::from_unified(None, "nothing"), None);
    }
}

//! One change as `git diff` writes it, so that `git apply` and `patch -p1` accept it.

use std::fmt::Write;

use crate::adapters::changes::LineHunk;

/// The file of a patch.
pub(super) struct Patched<'a> {
    pub(super) path: &'a str,
    pub(super) from: Option<&'a str>,
    pub(super) is_new: bool,
    pub(super) is_deleted: bool,
}

/// Returns the patch.
pub(super) fn text(file: &Patched<'_>, hunks: &[LineHunk]) -> String {
    let old = quoted("a/", file.from.unwrap_or(file.path));
    let new = quoted("b/", file.path);
    let mut out = format!("diff --git {old} {new}\n");
    if file.is_new {
        out.push_str("new file mode 100644\n");
    } else if file.is_deleted {
        out.push_str("deleted file mode 100644\n");
    } else if let Some(from) = file.from {
        // Writing to a String cannot fail.
        let _infallible =
            writeln!(out, "rename from {}\nrename to {}", quoted("", from), quoted("", file.path));
    }
    if hunks.is_empty() {
        return out;
    }
    let old = if file.is_new { "/dev/null" } else { old.as_str() };
    let new = if file.is_deleted { "/dev/null" } else { new.as_str() };
    // A tab ends a name with blanks.
    let end = |name: &str| if name.contains(' ') && !name.starts_with('"') { "\t" } else { "" };
    let _infallible = writeln!(out, "--- {old}{}\n+++ {new}{}", end(old), end(new));
    for hunk in hunks {
        hunk.write(&mut out);
    }
    out
}

/// Quotes a path as git does, if it holds a character that would end or hide it.
fn quoted(prefix: &str, path: &str) -> String {
    let is_plain = |c: char| !crate::text::is_harmful(c) && !matches!(c, '"' | '\\' | '\n' | '\t');
    if path.chars().all(is_plain) {
        return format!("{prefix}{path}");
    }
    let mut out = format!("\"{prefix}");
    for byte in path.bytes() {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b' '..=b'~' => out.push(char::from(byte)),
            // Writing to a String cannot fail.
            other => drop(write!(out, "\\{other:03o}")),
        }
    }
    out.push('"');
    out
}

//! Foreign text as plain lines: colours removed, tabs expanded, every other control character made visible.

use std::borrow::Cow;

use crate::text::clean;

/// Columns of a tab stop.
const TAB_COLUMNS: usize = 4;

/// Returns a text whose lines hold no control characters. Colour sequences of tools are removed.
pub(super) fn uncoloured(text: &str) -> String {
    plain(&without_colours(text))
}

/// Returns a text whose lines hold no control characters.
pub(super) fn plain(text: &str) -> String {
    let text =
        if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { Cow::from(text) };
    let text = clean(&text);
    if !text.contains('\t') {
        return text.into_owned();
    }
    let lines: Vec<String> = text.split('\n').map(expanded).collect();
    lines.join("\n")
}

fn expanded(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 8);
    let mut column = 0;
    for c in line.chars() {
        if c == '\t' {
            let gap = TAB_COLUMNS - column % TAB_COLUMNS;
            out.extend(std::iter::repeat_n(' ', gap));
            column += gap;
        } else {
            out.push(c);
            column += 1;
        }
    }
    out
}

/// Removes `ESC [ … m`, the sequences that set colours and nothing else.
fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let code = &rest[at + 2..];
        let end = code.find(|c: char| !(c.is_ascii_digit() || matches!(c, ';' | ':')));
        match end.filter(|end| code[*end..].starts_with('m')) {
            Some(end) => rest = &code[end + 1..],
            None => {
                out.push('\u{1b}');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_and_everything_else_that_controls_a_terminal_is_shown() {
        assert_eq!(uncoloured("\u{1b}[1;31merror\u{1b}[0m: x"), "error: x");
        assert_eq!(uncoloured("\u{1b}[38:5:9mred\u{1b}[m"), "red");
        assert_eq!(uncoloured("a\u{1b}[2Jb\u{1b}]0;t\u{7}c"), "a\\x1b[2Jb\\x1b]0;t\\x07c");
        assert_eq!(uncoloured("\u{1b}[\u{1b}[31m31m"), "\\x1b[31m", "none is made by a removal");
        assert_eq!(uncoloured("\u{1b}[31"), "\\x1b[31");
        assert_eq!(plain("\u{1b}[31mtext"), "\\x1b[31mtext");
        assert_eq!(plain("a\r\nb\rc\n\tx\ny\tz"), "a\nb\\x0dc\n    x\ny   z");
    }
}

//! Fits text into columns and neutralises control characters before it is printed.
//!
//! [`agentctl_core::text`] decides which characters are neutralised.

use std::borrow::Cow;
use std::path::Path;

pub use agentctl_core::text::{
    SafeJson, bounded, byte_size, clean, counted, in_one_line, is_unsafe, nearest, one_line,
    safe_json, with_tilde,
};
use agentctl_core::text::{is_plain, push_clean, shell_word};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns a path as a word of a shell command, with the home as `~`: `~/shop`, `~/'two words'`.
#[must_use]
pub fn path_word(home: &Path, path: &str) -> String {
    let short = with_tilde(home, path);
    match short.strip_prefix("~/") {
        Some(below) => format!("~/{}", shell_word(below)),
        None if short == "~" => short,
        None => shell_word(&short),
    }
}

/// Maximum number of characters per column: limits the combining characters, which have no width.
const MAX_CHARS_PER_COLUMN: usize = 8;

/// Neutralises control characters in a rendered table, except newlines and the colours that we use.
#[must_use]
pub fn clean_drawn(text: &str) -> Cow<'_, str> {
    if !is_unsafe(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        push_clean_line(&mut out, line);
    }
    Cow::Owned(out)
}

fn push_clean_line(out: &mut String, mut rest: &str) {
    if !is_unsafe(rest) {
        return out.push_str(rest);
    }
    while !rest.is_empty() {
        if let Some(length) = colour(rest) {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        // Up to the next escape sequence, which may be one of our colours.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let next = rest[first..].find('\x1b').map_or(rest.len(), |at| at + first);
        push_clean(out, &rest[..next]);
        rest = &rest[next..];
    }
}

/// Returns the length of the escape sequence at the start of a text, if it sets one of our own styles.
fn colour(text: &str) -> Option<usize> {
    let (code, _) = text.strip_prefix("\x1b[")?.split_once('m')?;
    let ours =
        matches!(code, "0" | "1" | "2" | "3") || matches!(code.as_bytes(), [b'3', b'1'..=b'7']);
    ours.then(|| "\x1b[m".len() + code.len())
}

/// Cuts a text to a number of columns and marks the cut with an ellipsis. Also limits characters without
/// width.
#[must_use]
pub fn fit(text: &str, columns: usize) -> String {
    let most = columns.saturating_mul(MAX_CHARS_PER_COLUMN);
    if self::columns(text) <= columns && text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars().take(most) {
        let width = c.width().unwrap_or(0);
        if used + width + 1 > columns {
            break;
        }
        used += width;
        out.push(c);
    }
    out.push('…');
    out
}

/// Cuts a path to a number of columns from the left: the end of a path distinguishes it.
#[must_use]
pub fn fit_path(path: &str, columns: usize) -> String {
    if path.width() <= columns {
        return path.to_owned();
    }
    let mut kept: Vec<char> = Vec::new();
    let mut used = 1;
    for c in path.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        kept.push(c);
    }
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}

/// Wraps a text into lines of a number of columns, between words if possible.
#[must_use]
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut rest = word;
        loop {
            let line = lines.last().map_or(0, |l| l.width());
            let gap = usize::from(line > 0);
            if line + gap + rest.width() <= columns {
                let last = lines.last_mut().into_iter();
                last.for_each(|l| l.extend([&" "[..gap], rest]));
                break;
            }
            if line > 0 {
                lines.push(String::new());
                continue;
            }
            let cut = rest.char_indices().scan(0, |w, (at, c)| {
                *w += c.width().unwrap_or(0);
                Some((at, *w))
            });
            let cut = cut.take_while(|(_, w)| *w <= columns).count().max(1);
            let at = rest.char_indices().nth(cut).map_or(rest.len(), |(at, _)| at);
            lines.last_mut().into_iter().for_each(|l| l.push_str(&rest[..at]));
            rest = &rest[at..];
            if rest.is_empty() {
                break;
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Breaks a text between words like [`wrap`], but never between two backticks: a command must be whole to be copied.
/// A command that is too long has a line of its own.
#[must_use]
pub fn wrap_with_commands(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in pieces(text) {
        let line = lines.last().map_or(0, |line| line.width());
        let gap = usize::from(line > 0);
        if line + gap + piece.width() <= columns {
            let last = lines.last_mut().into_iter();
            last.for_each(|line| line.extend([&" "[..gap], piece]));
            continue;
        }
        let broken =
            if piece.contains('`') { vec![piece.to_owned()] } else { wrap(piece, columns) };
        if line == 0 {
            lines.pop();
        }
        lines.extend(broken);
    }
    lines
}

/// Splits a text at its blanks, except those between two backticks.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut from, mut ticks) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '`' if ticks % 2 == 1 || text[at + 1..].contains('`') => ticks += 1,
            ' ' if ticks % 2 == 0 => {
                pieces.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[from..]);
    pieces
}

/// Breaks a line at exactly this number of columns: the blanks of a command or a patch have a meaning.
#[must_use]
pub fn break_line(line: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut current, mut used) = (Vec::new(), String::new(), 0);
    for c in line.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide > columns.max(2) {
            lines.push(std::mem::take(&mut current));
            used = 0;
        }
        used += wide;
        current.push(c);
    }
    lines.push(current);
    lines
}

/// Breaks a line of words at this number of columns: behind a blank if there is one, else like [`break_line`]. All lines
/// begin with its indentation. Every character stays but the blanks at the end of a line that is full.
#[must_use]
pub fn break_prose(line: &str, columns: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let indent = if indent * 2 > columns { 0 } else { indent };
    let (indent, mut rest) = line.split_at(indent);
    let room = (columns - indent.len()).max(2);
    let mut lines = Vec::new();
    loop {
        let mut used = 0;
        let fits = |c: &char| {
            used += c.width().unwrap_or(0);
            used <= room
        };
        let end: usize = rest.chars().take_while(fits).map(char::len_utf8).sum();
        let words = rest[..end].rfind(' ').map(|at| at + 1);
        let at = if rest[end..].is_empty() || rest[end..].starts_with(' ') { None } else { words };
        let (line, others) = rest.split_at(at.unwrap_or(end));
        lines.push(format!("{indent}{line}"));
        rest = others.trim_start_matches(' ');
        if rest.is_empty() {
            return lines;
        }
    }
}

/// Returns the width of a text in columns.
#[must_use]
pub fn columns(text: &str) -> usize {
    if is_plain(text) { text.len() } else { text.width() }
}

/// Writes bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Returns the bytes of a text in hexadecimal digits; `None` if it is none.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// Returns a value as one line of JSON without control characters.
pub fn json_line(value: &impl serde::Serialize) -> serde_json::Result<String> {
    let mut line = Vec::new();
    push_json(&mut line, value)?;
    // serde_json writes valid UTF-8.
    Ok(String::from_utf8(line).unwrap_or_default())
}

/// Appends a value as JSON without control characters.
pub fn push_json(line: &mut Vec<u8>, value: &impl serde::Serialize) -> serde_json::Result<()> {
    let formatter = SafeJson(serde_json::ser::CompactFormatter);
    value.serialize(&mut serde_json::Serializer::with_formatter(line, formatter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendered_text_keeps_only_our_own_colours() {
        let drawn = "\x1b[1mSTATUS\x1b[0m\n\x1b[32mrunning\x1b[0m x\n";
        assert_eq!(clean_drawn(drawn), drawn);
        for (bad, good) in [
            ("\x1b]0;PWN\x07x\n", "\\x1b]0;PWN\\x07x\n"),
            ("\x1b[8mhidden", "\\x1b[8mhidden"),
            ("\x1b[2Jx", "\\x1b[2Jx"),
            ("\x1b[31;5mx", "\\x1b[31;5mx"),
            ("\x1b[", "\\x1b["),
            ("\u{9b}31mx\u{202e}", "\\x9b31mx\\u{202e}"),
        ] {
            assert_eq!(clean_drawn(bad), good);
        }
    }

    #[test]
    fn wrapping_loses_nothing_and_keeps_to_the_width() {
        let text = "a somewhat longer sentence with onesingleveryverylongword and 日本語テキスト";
        for columns in [2, 7, 12, 200] {
            let lines = wrap(text, columns);
            assert!(lines.iter().all(|l| l.width() <= columns), "{lines:?}");
            let squeezed = |t: &str| t.chars().filter(|c| *c != ' ').collect::<String>();
            assert_eq!(squeezed(&lines.concat()), squeezed(text));
        }
        assert_eq!(wrap("one two", 3), ["one", "two"]);
        assert_eq!(fit_path("/home/ada/projects/shop", 12), "…ojects/shop");
    }

    #[test]
    fn prose_is_broken_between_words_below_its_beginning() {
        assert_eq!(break_prose("  one two three", 9), ["  one two", "  three"]);
        assert_eq!(break_prose("one two three", 8), ["one two ", "three"]);
        assert_eq!(break_prose("one two    three", 7), ["one two", "three"]);
        assert_eq!(break_prose("a verylongword b", 5), ["a ", "veryl", "ongwo", "rd b"]);
        assert_eq!(break_prose("日本語 a", 5), ["日本", "語 a"]);
        assert_eq!(break_prose("", 5), [""]);
        for columns in 1..20 {
            let text = "    one  two   three four";
            let squeezed = |text: &str| text.replace(' ', "");
            let lines = break_prose(text, columns);
            assert!(lines.iter().all(|line| line.width() <= columns.max(2)), "{lines:?}");
            assert_eq!(squeezed(&lines.concat()), squeezed(text));
        }
    }

    #[test]
    fn one_line_without_a_copy_equals_one_line_with_a_copy() {
        let copied = |text: &str| clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [
            "",
            " ",
            "a",
            " a",
            "a ",
            "a b",
            "a  b",
            "a\tb",
            "a\nb",
            "日本語 テキスト",
            "日本\u{3000}語",
            "a · b…",
            "a\u{a0}b",
            "a\u{200b}b",
            "\u{1b}[31m",
            "é \u{85} x",
            "… …",
            "…  …",
        ] {
            assert_eq!(in_one_line(text), copied(text), "{text:?}");
        }
        assert!(matches!(in_one_line("a · b…"), Cow::Borrowed(_)), "nothing to do");
    }

    #[test]
    fn cutting_counts_columns_not_bytes() {
        assert_eq!(fit("日本語テキスト", 7), "日本語…");
        assert_eq!(fit("plain", 5), "plain");
        let marks = format!("a{}", "\u{301}".repeat(100_000));
        assert!(fit(&marks, 10).chars().count() <= 81, "marks take no column");
    }
}

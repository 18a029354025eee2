//! Making strangers' text safe to show, and fitting it into columns.
//!
//! Transcripts, titles, paths and branch names may hold anything. Every C0 but newline and tab, DEL, C1,
//! bidirectional and zero-width characters are shown as `\xNN` or `\u{NNNN}`: no title, clipboard,
//! cursor or colour sequence reaches the terminal.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

fn is_harmful(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Says whether a text is nothing but printable ASCII, as most texts are: then a byte is a column.
fn is_plain(text: &str) -> bool {
    // Without a way out in the middle the compiler looks at many bytes at once.
    let all = |bytes: &[u8]| bytes.iter().fold(true, |plain, b| plain & matches!(b, b' '..=b'~'));
    text.as_bytes().chunks(64).all(all)
}

/// Neutralises control sequences; newlines and tabs stay.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if is_plain(text) || !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if !is_harmful(c) {
            out.push(c);
        } else if u32::from(c) < 0x100 {
            // Writing to a String cannot fail.
            let _infallible = write!(out, "\\x{:02x}", u32::from(c));
        } else {
            let _infallible = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
    }
    Cow::Owned(out)
}

/// Neutralises control sequences and folds white space: one line.
#[must_use]
pub fn one_line(text: &str) -> String {
    in_one_line(text).into_owned()
}

/// The same, for many: most texts are one line already.
#[must_use]
pub fn in_one_line(text: &str) -> Cow<'_, str> {
    let mut after_blank = true;
    let is_line = text.chars().all(|c| {
        let blank = c == ' ';
        let fits = if c.is_ascii() {
            matches!(c, ' '..='~')
        } else {
            !c.is_whitespace() && !is_harmful(c)
        };
        fits && !(std::mem::replace(&mut after_blank, blank) && blank)
    });
    if is_line && !text.ends_with(' ') {
        return Cow::Borrowed(text);
    }
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ").into()
}

/// Cuts a text to this many columns, with an ellipsis when something is missing.
#[must_use]
pub fn fit(text: &str, columns: usize) -> String {
    if self::columns(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
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

/// Cuts a path to this many columns from the left: its end tells it from others.
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

/// Breaks a text into lines of at most this many columns, between words where it can.
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

/// Returns how many columns a text takes.
#[must_use]
pub fn columns(text: &str) -> usize {
    if is_plain(text) { text.len() } else { text.width() }
}

/// Returns a value as one line of such JSON.
pub fn json_line(value: &impl serde::Serialize) -> serde_json::Result<String> {
    let mut line = Vec::new();
    push_json(&mut line, value)?;
    // Only a formatter that splits characters could have done otherwise.
    Ok(String::from_utf8(line).unwrap_or_default())
}

/// Adds a value to a line of such JSON.
pub fn push_json(line: &mut Vec<u8>, value: &impl serde::Serialize) -> serde_json::Result<()> {
    let formatter = SafeJson(serde_json::ser::CompactFormatter);
    value.serialize(&mut serde_json::Serializer::with_formatter(line, formatter))
}

/// Writes a line of JSON over many lines, as `serde_json` does by itself.
pub fn write_indented(mut out: impl std::io::Write, line: &str) -> std::io::Result<()> {
    let bytes = line.as_bytes();
    let mut margin = vec![b'\n'];
    let (mut from, mut at) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = after_string(bytes, at),
            b'{' | b'[' => {
                margin.extend(b"  ");
                at += 1;
                // What is empty stays together.
                if matches!(bytes.get(at), Some(b'}' | b']')) {
                    margin.truncate(margin.len() - 2);
                    at += 1;
                } else {
                    out.write_all(&bytes[from..at])?;
                    out.write_all(&margin)?;
                    from = at;
                }
            }
            b'}' | b']' => {
                margin.truncate(margin.len().saturating_sub(2).max(1));
                out.write_all(&bytes[from..at])?;
                out.write_all(&margin)?;
                from = at;
                at += 1;
            }
            b',' => {
                at += 1;
                out.write_all(&bytes[from..at])?;
                out.write_all(&margin)?;
                from = at;
            }
            b':' => {
                at += 1;
                out.write_all(&bytes[from..at])?;
                out.write_all(b" ")?;
                from = at;
            }
            _ => at += 1,
        }
    }
    out.write_all(&bytes[from..])
}

/// Returns where a string that begins here has ended.
fn after_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// Writes JSON whose strings hold no raw character that [`clean`] would neutralise.
pub struct SafeJson<F>(pub F);

impl<F: serde_json::ser::Formatter> serde_json::ser::Formatter for SafeJson<F> {
    fn write_string_fragment<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> std::io::Result<()> {
        if is_plain(fragment) || !fragment.contains(is_harmful) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut units = [0; 2];
        let mut bytes = [0; 4];
        for c in fragment.chars() {
            if is_harmful(c) {
                for unit in c.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                writer.write_all(c.encode_utf8(&mut bytes).as_bytes())?;
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
    ) -> std::io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
    ) -> std::io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
    ) -> std::io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_move_a_terminal_is_shown_instead() {
        let bad = "a\x1b]52;c;x\x07b\u{9b}31m\u{202e}c\u{200b}\r\x7f\u{e0041}\nd\te";
        let good = clean(bad);
        assert!(!good.contains(is_harmful));
        assert_eq!(
            good,
            "a\\x1b]52;c;x\\x07b\\x9b31m\\u{202e}c\\u{200b}\\x0d\\x7f\\u{e0041}\nd\te"
        );
    }

    #[test]
    fn json_keeps_the_data_and_loses_the_danger() {
        let bad = "a\x1b[31m\u{9b}\u{202e}\u{e0041}z";
        let mut out = Vec::new();
        let formatter = SafeJson(serde_json::ser::CompactFormatter);
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
        serde::Serialize::serialize(bad, &mut serializer).expect("written");
        let text = String::from_utf8(out).expect("utf-8");
        assert!(!text.contains(is_harmful), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).expect("valid"), bad);
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
    fn one_line_is_one_line_whether_it_was_or_not() {
        let slowly = |text: &str| clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
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
            assert_eq!(in_one_line(text), slowly(text), "{text:?}");
        }
        assert!(matches!(in_one_line("a · b…"), Cow::Borrowed(_)), "nothing to do");
    }

    #[test]
    fn cutting_counts_columns_not_bytes() {
        assert_eq!(fit("日本語テキスト", 7), "日本語…");
        assert_eq!(fit("plain", 5), "plain");
    }

    #[test]
    fn a_line_of_json_is_indented_as_if_it_had_been_written_so() {
        let value = serde_json::json!({
            "empty": {"object": {}, "array": [], "text": ""},
            "awkward": ["{[,:]}", "a \\ \"quoted\" \\", "\\\"", "日本語 \u{202e} \n", null, -1.5e-7, true],
            "deep": [[[[]]], [{"a": [{}, {"b": [[], {}]}]}], "x"],
            "\"key\": [": {"\\": 1},
        });
        for value in [value.clone(), value["deep"].clone(), "plain".into(), 7.into(), ().into()] {
            let mut indented = Vec::new();
            write_indented(&mut indented, &value.to_string()).expect("written");
            let indented = String::from_utf8(indented).expect("utf-8");
            assert_eq!(indented, serde_json::to_string_pretty(&value).expect("written"));
        }
    }
}

//! Foreign text, made safe to show: which characters are neutralised, and how.
//!
//! Transcripts, titles, paths, branch names and servers may hold anything. Control characters (C0 but newline and
//! tab, DEL, C1) move a terminal. Format characters (Unicode category Cf) and the code points that Unicode
//! says are not shown (`Default_Ignorable_Code_Point`) hide or reorder text. They are shown as `\xNN` or
//! `\u{NNNN}`; the variation selectors of emoji, and the joiners between emoji, are left out: no title,
//! clipboard, cursor or colour sequence reaches a terminal, a chat or a variable.

mod emoji;
mod nearest;

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

use self::emoji::belongs_to_emoji;
pub use self::nearest::nearest;

/// Longest excerpt of a program's output in a message.
const LAST_LINES_BYTES: usize = 1000;
/// Most lines of that excerpt.
const MAX_LAST_LINES: usize = 10;

/// Ranges of code points above ASCII and C1 that are not shown as they are, in their order: category Cf and
/// `Default_Ignorable_Code_Point` of Unicode 17, and the two separators that end a line.
const HIDDEN: [(char, char); 26] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    // The end of the table: no code point is above it.
    ('\u{10ffff}', '\u{10ffff}'),
];

/// Says whether a character would control a terminal or be invisible.
#[must_use]
pub fn is_harmful(c: char) -> bool {
    match c {
        // Fast path: most text is ASCII, accented letters, or CJK, which has one filler in the table.
        ' '..='~'
        | '\n'
        | '\t'
        | '\u{a0}'..='\u{ac}'
        | '\u{ae}'..='\u{34e}'
        | '\u{3165}'..='\u{fdff}' => false,
        '\0'..='\u{9f}' => true,
        _ => {
            let at = HIDDEN.partition_point(|(_, last)| *last < c);
            HIDDEN.get(at).is_some_and(|(first, _)| *first <= c)
        }
    }
}

/// Number of bytes that are checked at once.
const CHUNK: usize = 64;

/// Says whether a text is printable ASCII only, so that a byte is a column.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    text.as_bytes().chunks(CHUNK).all(is_plain_chunk)
}

/// Without an early exit, so that the compiler can vectorize it.
fn is_plain_chunk(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |plain, b| plain & matches!(b, b' '..=b'~'))
}

/// Says whether a text holds a character that must be neutralised. Such characters are rare, so chunks of
/// printable ASCII are skipped as a whole.
fn holds(text: &str, wanted: fn(char) -> bool) -> bool {
    let mut from = 0;
    while from < text.len() {
        let to = (from + CHUNK).min(text.len());
        if is_plain_chunk(&text.as_bytes()[from..to]) {
            from = to;
            continue;
        }
        let to = text.ceil_char_boundary(to);
        if text[from..to].contains(wanted) {
            return true;
        }
        from = to;
    }
    false
}

/// Says whether a text holds a character that [`clean`] would neutralise.
#[must_use]
pub fn is_unsafe(text: &str) -> bool {
    holds(text, is_harmful)
}

/// Neutralises control and hidden characters; newlines and tabs stay.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if !is_unsafe(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    push_clean(&mut out, text);
    Cow::Owned(out)
}

/// Returns a number with its noun: `1 file`, `2 files`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Returns a text as one line: control characters neutralised, white space collapsed.
#[must_use]
pub fn one_line(text: &str) -> String {
    in_one_line(text).into_owned()
}

/// Like [`one_line`], without a copy if the text is one line already.
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

/// Returns a path on one line, with the home directory shortened to `~`.
#[must_use]
pub fn with_tilde(home: &Path, path: &str) -> String {
    let home = home.to_string_lossy();
    let short = match path.strip_prefix(home.as_ref()) {
        Some("") => Cow::Borrowed("~"),
        Some(rest) if rest.starts_with('/') => format!("~{rest}").into(),
        _ => path.into(),
    };
    one_line(&short)
}

/// Returns a number of bytes in the largest unit that leaves a whole number.
#[must_use]
pub fn byte_size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MB", bytes >> 20),
        _ => format!("{} GB", bytes >> 30),
    }
}

/// Appends a text whose control and hidden characters are neutralised; newlines and tabs stay.
pub fn push_clean(out: &mut String, text: &str) {
    for (at, c) in text.char_indices() {
        // They are left out: emoji are then shown one after another, in as many columns on every terminal.
        if !belongs_to_emoji(&text[..at], c, &text[at + c.len_utf8()..]) {
            push_clean_char(out, c);
        }
    }
}

fn push_clean_char(out: &mut String, c: char) {
    // Writing to a String cannot fail.
    let _infallible = if !is_harmful(c) {
        out.push(c);
        Ok(())
    } else if u32::from(c) < 0x100 {
        write!(out, "\\x{:02x}", u32::from(c))
    } else {
        write!(out, "\\u{{{:x}}}", u32::from(c))
    };
}

/// Cleans a text and cuts it to at most this many bytes, at a character boundary.
#[must_use]
pub fn bounded(text: &str, most: usize) -> Cow<'_, str> {
    // Cut before cleaning, to limit the work, and after it, because escapes are longer.
    let cut = &text[..text.floor_char_boundary(most)];
    match clean(cut) {
        Cow::Borrowed(text) => Cow::Borrowed(text),
        Cow::Owned(mut text) => {
            text.truncate(text.floor_char_boundary(most));
            Cow::Owned(text)
        }
    }
}

/// Returns JSON whose strings hold no raw character that [`clean`] would neutralise. The input must be
/// JSON: then such a character can only be part of a string.
#[must_use]
pub fn safe_json(json: &str) -> Cow<'_, str> {
    if !holds(json, is_harmful_in_json) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_harmful_in_json(c) { push_escaped(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// A carriage return is whitespace between strings and cannot be part of one.
fn is_harmful_in_json(c: char) -> bool {
    c != '\r' && is_harmful(c)
}

fn push_escaped(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _infallible = write!(out, "\\u{unit:04x}");
    }
}

/// Writes JSON whose strings hold no raw character that [`clean`] would neutralise.
pub struct SafeJson<F>(pub F);

impl<F: serde_json::ser::Formatter> serde_json::ser::Formatter for SafeJson<F> {
    fn write_string_fragment<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> std::io::Result<()> {
        if !is_unsafe(fragment) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut out = String::with_capacity(fragment.len() + 64);
        for c in fragment.chars() {
            if is_harmful(c) { push_escaped(&mut out, c) } else { out.push(c) }
        }
        writer.write_all(out.as_bytes())
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

/// Returns the last lines of a program's output as one line: as many as fit, and at least one.
#[must_use]
pub fn last_lines(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty()).rev();
    let Some(last) = lines.next() else { return "no output".to_owned() };
    let mut text = bounded(last, LAST_LINES_BYTES).into_owned();
    for line in lines.take(MAX_LAST_LINES - 1) {
        if text.len() + line.len() > LAST_LINES_BYTES {
            break;
        }
        text = format!("{line}; {text}");
    }
    text
}

/// Quotes a text as one word of a shell, where it needs quotes.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_character_is_shown_as_text() {
        let bad = "a\x1b]52;c;x\x07b\u{9b}31m\u{202e}c\u{200b}\r\x7f\u{e0041}\nd\te";
        let good = clean(bad);
        assert!(!good.contains(is_harmful));
        assert_eq!(
            good,
            "a\\x1b]52;c;x\\x07b\\x9b31m\\u{202e}c\\u{200b}\\x0d\\x7f\\u{e0041}\nd\te"
        );
    }

    #[test]
    fn emoji_that_are_joined_are_shown_one_after_another() {
        assert_eq!(clean("👩\u{200d}👩\u{200d}👧 and ❤\u{fe0f}\u{200d}🔥"), "👩👩👧 and ❤🔥");
        for (bad, good) in [
            ("a\u{200d}b", "a\\u{200d}b"),
            ("👩\u{200d}b", "👩\\u{200d}b"),
            ("a\u{200d}👧", "a\\u{200d}👧"),
            ("👩\u{200d}\u{200d}👧", "👩\\u{200d}\\u{200d}👧"),
            ("\u{200d}", "\\u{200d}"),
            ("no\u{fe0f}tes", "no\\u{fe0f}tes"),
            ("a\u{fe00}b", "a\\u{fe00}b"),
            ("1\u{fe0f}\u{20e3}", "1\u{20e3}"),
            ("\u{a9}\u{fe0f}", "\u{a9}"),
            // Mathematics, lines and letters are no emoji, and a keycap has a digit, `#` or `*`.
            ("a\u{2215}\u{fe0f}b", "a\u{2215}\\u{fe0f}b"),
            ("c\u{fe0f}\u{20e3}d", "c\\u{fe0f}\u{20e3}d"),
            ("e\u{2500}\u{200d}\u{2500}f", "e\u{2500}\\u{200d}\u{2500}f"),
            ("1\u{fe0f}", "1\\u{fe0f}"),
            // A second selector is none of the emoji.
            ("❤\u{fe0f}\u{fe0e}", "❤\\u{fe0e}"),
            ("1\u{fe0f}\u{fe0f}\u{20e3}", "1\\u{fe0f}\\u{fe0f}\u{20e3}"),
            ("🏳\u{fe0f}\u{fe0f}\u{200d}🌈", "🏳\\u{fe0f}\\u{200d}🌈"),
        ] {
            assert_eq!(clean(bad), good);
            assert_eq!(clean(good), good, "cleaning twice");
        }
    }

    #[test]
    fn the_table_is_in_order_and_the_short_cuts_skip_nothing_of_it() {
        for pair in HIDDEN.windows(2) {
            assert!(pair[0].1 < pair[1].0, "{pair:?}");
        }
        for (first, last) in &HIDDEN[..HIDDEN.len() - 1] {
            assert!((*first..=*last).all(is_harmful), "{first:?}");
        }
        for shown in [
            'a', 'é', 'ß', 'Ω', 'ж', 'ש', 'ع', 'ก', '日', '한', '…', '─', '\u{301}', '😀', '\u{a0}',
        ] {
            assert!(!is_harmful(shown), "{shown:?}");
        }
    }

    #[test]
    fn json_keeps_the_data_without_control_characters() {
        let bad = "a\x1b[31m\u{9b}\u{202e}\u{e0041}\u{fe0f}z";
        let mut out = Vec::new();
        let formatter = SafeJson(serde_json::ser::CompactFormatter);
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
        serde::Serialize::serialize(bad, &mut serializer).expect("written");
        let text = String::from_utf8(out).expect("utf-8");
        assert!(!text.contains(is_harmful), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).expect("valid"), bad);
        let raw = serde_json::json!({"\u{202e}key": bad}).to_string();
        let safe = safe_json(&raw);
        assert!(raw.contains(is_harmful) && !safe.contains(is_harmful), "{safe}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("valid");
        assert_eq!(read(&raw), read(&safe));
    }

    #[test]
    fn a_text_is_cut_between_characters_and_after_it_was_cleaned() {
        assert_eq!(bounded("plain", 10), "plain");
        // At any offset of a long text.
        for at in 0..200 {
            let text = format!("{}\u{202e}{}", "é".repeat(at), "x".repeat(200 - at));
            assert!(is_unsafe(&text) && !clean(&text).contains(is_harmful), "{at}");
            assert!(!is_unsafe(&text.replace('\u{202e}', "日")), "{at}");
        }
        assert_eq!(bounded("plain", 3), "pla");
        assert_eq!(bounded("日本語", 7), "日本");
        assert_eq!(bounded("a\0b", 10), "a\\x00b");
        assert_eq!(bounded(&"\u{1b}".repeat(100), 9).len(), 9);
    }
}

//! The characters that the terminal shows. A locale without UTF-8 gets ASCII.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

use crate::text::{clean, columns, fit};

/// The characters of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Charset {
    /// All characters.
    #[default]
    Unicode,
    /// ASCII only.
    Ascii,
}

impl Charset {
    /// Returns a text that must be read whole, such as a command, before it is laid out. In ASCII a character that
    /// has no column of its own becomes its number, so that everything in the text has its place on the screen.
    #[must_use]
    pub(crate) fn spelled(self, text: &str) -> String {
        let text = clean(text);
        match self {
            Self::Unicode => text.into_owned(),
            Self::Ascii => ascii(&text, |c| c.escape_unicode().to_string()),
        }
    }

    /// Like [`Self::spelled`], on one line: line ends and tabs are shown as `\n` and `\t`.
    #[must_use]
    pub(crate) fn spelled_in_line(self, text: &str) -> String {
        self.spelled(text).replace('\n', "\\n").replace('\t', "\\t")
    }

    /// Returns a text that was laid out already; its width stays.
    #[must_use]
    pub(crate) fn drawn(self, text: &str) -> Cow<'_, str> {
        let text = clean(text);
        if self == Self::Unicode || text.is_ascii() {
            return text;
        }
        let drawn = ascii(&text, |_| String::new());
        let width = columns(&text);
        // Several characters may share their columns.
        let drawn =
            if drawn.len() > width { fit(&drawn, width).replace('…', "~") } else { drawn };
        drawn.into()
    }
}

/// Replaces the characters of frames and marks; every other character beyond ASCII becomes `?` in each of its
/// columns, and without a column what `widthless` makes of it.
fn ascii(text: &str, widthless: impl Fn(char) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => out.push(c),
            '─' | '·' | '−' => out.push('-'),
            '│' => out.push('|'),
            '└' => out.push('`'),
            '▸' | '→' => out.push('>'),
            '←' => out.push('<'),
            '…' => out.push('~'),
            '↓' => out.push('v'),
            '↑' => out.push('^'),
            c => match c.width().unwrap_or(0) {
                0 => out.push_str(&widthless(c)),
                width => out.extend(std::iter::repeat_n('?', width)),
            },
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_was_laid_out_keeps_its_width() {
        let text = "e\u{301} 日本 … 👩\u{1f3fd} 🇩🇪 └ x";
        assert_eq!(Charset::Ascii.drawn(text).len(), columns(text));
        assert!(Charset::Ascii.drawn(text).starts_with("e ???? ~ "));
        assert_eq!(Charset::Unicode.drawn(text), text);
        assert_eq!(Charset::Ascii.spelled("e\u{301} 日"), "e\\u{301} ??");
        assert_eq!(Charset::Unicode.spelled_in_line("a\nb\tc"), "a\\nb\\tc");
    }
}

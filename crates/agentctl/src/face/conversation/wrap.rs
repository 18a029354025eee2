//! Wraps styled text at a width: between words if possible, each further line under the first.

use unicode_width::UnicodeWidthChar;

use super::{Span, SpanStyle};
use crate::text::columns;

/// Least columns that text is given, however deep it is indented.
const LEAST_COLUMNS: usize = 8;
/// Most characters without width in a row: more would draw over other lines.
const MAX_ZERO_WIDTH: usize = 8;

/// The space in front of wrapped lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Indent {
    /// In front of the first line.
    pub(super) first: Vec<Span>,
    /// In front of the others.
    pub(super) rest: Vec<Span>,
}

impl Indent {
    /// The same text in front of every line.
    pub(super) fn of(spans: Vec<Span>) -> Self {
        Self { first: spans.clone(), rest: spans }
    }

    /// This indent with more behind it.
    pub(super) fn with(&self, first: Span, rest: Span) -> Self {
        let mut indent = self.clone();
        indent.first.push(first);
        indent.rest.push(rest);
        indent
    }

    pub(super) fn columns(&self) -> usize {
        spans_columns(&self.rest)
    }
}

pub(super) fn spans_columns(spans: &[Span]) -> usize {
    spans.iter().map(|span| columns(&span.text)).sum()
}

/// Wraps spans to a width; without a width they are one line.
pub(super) fn wrap(spans: &[Span], indent: &Indent, width: Option<usize>) -> Vec<Vec<Span>> {
    let room = width.map(|width| width.saturating_sub(indent.columns()).max(LEAST_COLUMNS));
    let mut wrapper = Wrapper { room, lines: vec![Vec::new()], used: 0 };
    for token in tokens(spans) {
        match token {
            Token::Space(style, text) => wrapper.space(style, text),
            Token::Word(pieces) => wrapper.word(&pieces),
        }
    }
    let lines = wrapper.lines.into_iter().enumerate();
    lines
        .map(|(at, mut line)| {
            trim_end(&mut line);
            let mut whole = if at == 0 { indent.first.clone() } else { indent.rest.clone() };
            whole.append(&mut line);
            if at > 0 || !whole.is_empty() {
                trim_end(&mut whole);
            }
            whole
        })
        .collect()
}

/// Wraps one line of code or output: its own indentation is kept by the lines that continue it.
pub(super) fn wrap_code(line: &Span, indent: &Indent, width: Option<usize>) -> Vec<Vec<Span>> {
    let text = line.text.trim_start_matches(' ');
    let own = line.text.len() - text.len();
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent.columns()));
    let own = own.min(room / 2);
    let gap = Span::new(line.style, " ".repeat(own));
    let indent = if own == 0 { indent.clone() } else { indent.with(gap.clone(), gap) };
    wrap(&[Span::new(line.style, text)], &indent, width)
}

/// A word or the space between two words.
enum Token<'a> {
    Space(SpanStyle, &'a str),
    /// The pieces of a word, which may be of several styles.
    Word(Vec<(SpanStyle, &'a str)>),
}

fn tokens(spans: &[Span]) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for span in spans {
        let mut rest = span.text.as_str();
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| (c == ' ') != (first == ' ')).unwrap_or(rest.len());
            let (piece, after) = rest.split_at(end);
            rest = after;
            match tokens.last_mut() {
                _ if first == ' ' => tokens.push(Token::Space(span.style, piece)),
                Some(Token::Word(pieces)) => pieces.push((span.style, piece)),
                _ => tokens.push(Token::Word(vec![(span.style, piece)])),
            }
        }
    }
    tokens
}

struct Wrapper {
    room: Option<usize>,
    lines: Vec<Vec<Span>>,
    used: usize,
}

impl Wrapper {
    fn space(&mut self, style: SpanStyle, text: &str) {
        let width = text.len();
        match self.room {
            // Spaces at the edge are left out.
            Some(_) if self.used == 0 => {}
            Some(room) if self.used + width > room => self.break_line(),
            _ => {
                self.push(style, text);
                self.used += width;
            }
        }
    }

    fn word(&mut self, pieces: &[(SpanStyle, &str)]) {
        let room = self.room.unwrap_or(usize::MAX);
        let width: usize = pieces.iter().map(|(_, text)| columns(text)).sum();
        if self.used > 0 && self.used.saturating_add(width) > room {
            self.break_line();
        }
        let mut zero_width = 0;
        for (style, c) in pieces.iter().flat_map(|(style, text)| text.chars().map(|c| (*style, c)))
        {
            let width = c.width().unwrap_or(0);
            zero_width = if width == 0 { zero_width + 1 } else { 0 };
            if zero_width > MAX_ZERO_WIDTH {
                continue;
            }
            if self.used > 0 && self.used + width > room {
                self.break_line();
            }
            self.push(style, c.encode_utf8(&mut [0; 4]));
            self.used += width;
        }
    }

    fn break_line(&mut self) {
        self.lines.push(Vec::new());
        self.used = 0;
    }

    fn push(&mut self, style: SpanStyle, text: &str) {
        let Some(line) = self.lines.last_mut() else { return };
        match line.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            _ => line.push(Span::new(style, text)),
        }
    }
}

/// Removes spaces at the end.
pub(super) fn trim_end(line: &mut Vec<Span>) {
    while let Some(last) = line.last_mut() {
        last.text.truncate(last.text.trim_end_matches(' ').len());
        if !last.text.is_empty() {
            return;
        }
        line.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        let indent = Indent::of(vec![Span::plain("  ")]);
        let lines = wrap(&[Span::plain(text)], &indent, Some(width));
        lines.iter().map(|line| line.iter().map(|s| s.text.as_str()).collect()).collect()
    }

    #[test]
    fn lines_fit_the_width_in_every_script_and_keep_their_indent() {
        assert_eq!(wrapped("one two three", 10), ["  one two", "  three"]);
        assert_eq!(wrapped("abcdefghijkl mn", 12), ["  abcdefghij", "  kl mn"]);
        // Two columns each.
        assert_eq!(wrapped("日本語日本語", 10), ["  日本語日", "  本語"]);
        assert_eq!(wrapped("go 🚀🚀🚀🚀", 10), ["  go", "  🚀🚀🚀🚀"]);
        let combining = format!("a{}b", "\u{301}".repeat(100));
        assert_eq!(wrapped(&combining, 10)[0].chars().count(), 2 + 1 + 8 + 1);
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(wrapped("deep", 0), ["  deep"], "never less than a few columns");
    }

    #[test]
    fn a_line_of_code_continues_under_itself() {
        let line = Span::plain("    let x = call(a, b);");
        let indent = Indent::of(vec![Span::plain("| ")]);
        let lines = wrap_code(&line, &indent, Some(20));
        let text = |line: &Vec<Span>| line.iter().map(|s| s.text.as_str()).collect::<String>();
        assert_eq!(
            lines.iter().map(text).collect::<Vec<_>>(),
            ["|     let x =", "|     call(a, b);"]
        );
    }
}

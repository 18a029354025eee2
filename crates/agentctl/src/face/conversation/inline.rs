//! Inline Markdown: bold, italic, code spans, links. Anything that is not clearly markup stays as it is.

use super::{Span, SpanStyle};

/// Most bytes of a piece of markup. A text full of beginnings without an end is not searched to its end each time.
const MAX_MARKUP_BYTES: usize = 2000;
/// Bytes of a message, and of one line of it, that are read as Markdown. The rest is shown as it is written: a search
/// for the end of each beginning would take minutes in a message of megabytes.
pub(super) const MAX_MARKDOWN_BYTES: usize = 64 << 10;
/// Most places that are tried as the end of emphasis.
const MAX_ENDS: usize = 32;

/// Whether the characters of the markup are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Markup {
    /// Styles carry it.
    Styled,
    /// The characters stay, because there are no styles.
    Written,
}

/// Turns one paragraph into spans.
pub(super) fn inline(text: &str, base: SpanStyle, markup: Markup) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut plain = String::new();
    let (mut rest, unread) = text.split_at(text.floor_char_boundary(MAX_MARKDOWN_BYTES));
    let mut before = None;
    while let Some(first) = rest.chars().next() {
        let near = &rest[..rest.floor_char_boundary(MAX_MARKUP_BYTES)];
        let found = match first {
            '\\' => escaped(near),
            '`' => code(near),
            '*' | '_' => emphasis(near, before),
            '[' => link(near),
            _ => None,
        };
        let Some(found) = found else {
            plain.push(first);
            before = Some(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        if !plain.is_empty() {
            spans.push(Span::new(base, std::mem::take(&mut plain)));
        }
        let whole = &rest[..found.length];
        before = whole.chars().next_back();
        rest = &rest[found.length..];
        match markup {
            Markup::Written => spans.push(Span::new(found.style.unwrap_or(base), whole)),
            Markup::Styled => {
                let style = found.style.unwrap_or(base);
                match found.style {
                    // Emphasis may hold code and links.
                    Some(SpanStyle::Strong | SpanStyle::Emphasis) => {
                        spans.extend(inline(found.inner, style, markup));
                    }
                    _ => spans.push(Span::new(style, found.inner)),
                }
                if let Some(address) = found.address {
                    spans.push(Span::new(SpanStyle::Dimmed, format!(" ({address})")));
                }
            }
        }
    }
    plain.push_str(unread);
    if !plain.is_empty() {
        spans.push(Span::new(base, plain));
    }
    spans
}

/// A piece of markup at the start of a text.
struct Found<'a> {
    /// Bytes with the markup.
    length: usize,
    inner: &'a str,
    style: Option<SpanStyle>,
    /// The address of a link, if it differs from its text.
    address: Option<&'a str>,
}

fn escaped(text: &str) -> Option<Found<'_>> {
    let inner = text.get(1..2).filter(|c| c.chars().all(|c| c.is_ascii_punctuation()))?;
    Some(Found { length: 2, inner, style: None, address: None })
}

fn code(text: &str) -> Option<Found<'_>> {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let mark = &text[..ticks];
    let body = &text[ticks..];
    let mut from = 0;
    let end = loop {
        let at = from + body.get(from..)?.find(mark)?;
        let run = body[at..].len() - body[at..].trim_start_matches('`').len();
        if run == ticks {
            break at;
        }
        from = at + run;
    };
    let inner = &body[..end];
    let trimmed = inner.strip_prefix(' ').and_then(|t| t.strip_suffix(' '));
    let inner = trimmed.filter(|t| !t.trim().is_empty()).unwrap_or(inner);
    let length = ticks + end + ticks;
    Some(Found { length, inner, style: Some(SpanStyle::Code), address: None })
}

fn emphasis(text: &str, before: Option<char>) -> Option<Found<'_>> {
    let first = text.chars().next()?;
    let (mark, style) = match (text.get(..2)?, first) {
        ("**", _) => ("**", SpanStyle::Strong),
        ("__", _) => ("__", SpanStyle::Strong),
        (_, '*') => ("*", SpanStyle::Emphasis),
        (_, _) => ("_", SpanStyle::Emphasis),
    };
    // `snake_case` and `__init__` are names.
    if first == '_' && before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let body = &text[mark.len()..];
    if body.starts_with(|c: char| c.is_whitespace() || c == first) {
        return None;
    }
    let mut from = 0;
    for _ in 0..MAX_ENDS {
        let end = from + body.get(from..)?.find(mark)?;
        let (inner, after) = (&body[..end], &body[end + mark.len()..]);
        let is_within_word = first == '_' && after.starts_with(char::is_alphanumeric);
        let is_open = inner.is_empty()
            || inner.ends_with(char::is_whitespace)
            || after.starts_with(first)
            || is_within_word
            || !inner.matches('`').count().is_multiple_of(2);
        if !is_open {
            let length = end + 2 * mark.len();
            return Some(Found { length, inner, style: Some(style), address: None });
        }
        from = end + mark.len();
    }
    None
}

fn link(text: &str) -> Option<Found<'_>> {
    let (inner, after) = text[1..].split_once("](")?;
    if inner.contains(['[', ']', '\n']) || inner.is_empty() {
        return None;
    }
    let (address, _) = after.split_once(')')?;
    if address.contains(char::is_whitespace) {
        return None;
    }
    let length = 1 + inner.len() + 2 + address.len() + 1;
    // The address is always shown: a link must not lead elsewhere than it says.
    let address = (address != inner).then_some(address);
    Some(Found { length, inner, style: None, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styled(text: &str) -> Vec<(SpanStyle, String)> {
        let spans = inline(text, SpanStyle::Plain, Markup::Styled);
        spans.into_iter().map(|span| (span.style, span.text)).collect()
    }

    #[test]
    fn markup_becomes_styles_and_names_stay_names() {
        use SpanStyle::{Code, Dimmed, Emphasis, Plain, Strong};
        let own = |spans: &[(SpanStyle, &str)]| -> Vec<(SpanStyle, String)> {
            spans.iter().map(|(style, text)| (*style, (*text).to_owned())).collect()
        };
        assert_eq!(
            styled("a **b** *c* `d*e*` f"),
            own(&[
                (Plain, "a "),
                (Strong, "b"),
                (Plain, " "),
                (Emphasis, "c"),
                (Plain, " "),
                (Code, "d*e*"),
                (Plain, " f"),
            ])
        );
        for text in
            ["snake_case_name", "2 * 3 * 4", "**", "a ** b", "`open", "[x] done", "f(a)[0](b c)"]
        {
            assert_eq!(styled(text), own(&[(Plain, text)]), "{text}");
        }
        assert_eq!(
            styled("[docs](https://a.example)"),
            own(&[(Plain, "docs"), (Dimmed, " (https://a.example)")])
        );
        assert_eq!(styled("``a`b``"), own(&[(Code, "a`b")]));
        let written = inline("a **b**", Plain, Markup::Written);
        assert_eq!(written.iter().map(|s| s.text.as_str()).collect::<String>(), "a **b**");
    }

    #[test]
    fn text_full_of_beginnings_without_an_end_is_read_in_one_pass() {
        // Each beginning looks at most a few thousand bytes ahead: a search to the end would take hours.
        for piece in ["*a ", "_a ", "**a ", "`a ``b ", "[a", "[a](", "**_*_**_"] {
            let text = piece.repeat(100_000);
            let spans = inline(&text, SpanStyle::Plain, Markup::Written);
            let length: usize = spans.iter().map(|span| span.text.len()).sum();
            assert_eq!(length, text.len(), "{piece}");
        }
    }

    #[test]
    fn only_the_beginning_of_a_long_line_is_read_as_markdown() {
        let text = format!("**a** {} **b**", "[".repeat(MAX_MARKDOWN_BYTES));
        let spans = inline(&text, SpanStyle::Plain, Markup::Styled);
        assert_eq!(spans[0].text, "a");
        assert!(spans.last().is_some_and(|span| span.text.ends_with(" **b**")));
        assert_eq!(spans.len(), 2);
    }
}

//! Block Markdown as lines: headings, lists, quotes, code blocks, tables, paragraphs.
//!
//! Agents write one paragraph on one line, so lines are not joined: each is wrapped for itself.

use super::inline::{MAX_MARKDOWN_BYTES, Markup, inline};
use super::table::{table, table_length};
use super::wrap::{Indent, wrap, wrap_code};
use super::{Span, SpanStyle};

/// Lays out a text that is cleaned already.
pub(super) fn markdown(
    text: &str,
    indent: &Indent,
    width: Option<usize>,
    markup: Markup,
) -> Vec<Vec<Span>> {
    let (text, unread) = split_long(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        if let Some(fence) = fence(line) {
            let body = &lines[at + 1..];
            let length = body.iter().position(|l| closes(l, fence)).unwrap_or(body.len());
            code_block(&body[..length], (fence, line), &mut out, (indent, width, markup));
            at += length + 2;
            continue;
        }
        let length = table_length(&lines[at..]);
        if length > 0 {
            out.extend(table(&lines[at..at + length], indent, width, markup));
            at += length;
            continue;
        }
        out.extend(block(line, indent, width, markup));
        at += 1;
    }
    out.extend(unread.lines().flat_map(|line| wrap(&[Span::plain(line)], indent, width)));
    out
}

/// Splits a long text into the lines that are read as Markdown and those that are shown as they are written.
fn split_long(text: &str) -> (&str, &str) {
    let from = text.floor_char_boundary(MAX_MARKDOWN_BYTES);
    match text[from..].find('\n') {
        Some(end) => text.split_at(from + end + 1),
        None => (text, ""),
    }
}

/// Returns the mark that begins a code block.
fn fence(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.len() - text.trim_start_matches(mark).len();
    // A code span on one line is no block.
    (length >= 3 && !text[length..].contains('`')).then(|| &text[..length])
}

fn closes(line: &str, fence: &str) -> bool {
    let text = line.trim();
    text.starts_with(fence) && text.trim_start_matches(&fence[..1]).is_empty()
}

fn code_block(
    body: &[&str],
    (fence, opening): (&str, &str),
    out: &mut Vec<Vec<Span>>,
    (indent, width, markup): (&Indent, Option<usize>, Markup),
) {
    let mark = |text: &str| {
        let mut line = indent.rest.clone();
        line.push(Span::new(SpanStyle::Dimmed, text));
        line
    };
    if markup == Markup::Written {
        out.push(mark(opening.trim()));
    }
    let inner = match markup {
        Markup::Styled => {
            let gap = Span::new(SpanStyle::Dimmed, "│ ");
            indent.with(gap.clone(), gap)
        }
        Markup::Written => indent.clone(),
    };
    let deep = opening.len() - opening.trim_start().len();
    for line in body {
        // The block's own indentation (in a list) is not part of its code.
        let spaces = line.len() - line.trim_start_matches(' ').len();
        let line = &line[spaces.min(deep)..];
        out.extend(wrap_code(&Span::new(SpanStyle::Code, line), &inner, width));
    }
    if markup == Markup::Written {
        out.push(mark(fence));
    }
}

fn block(line: &str, indent: &Indent, width: Option<usize>, markup: Markup) -> Vec<Vec<Span>> {
    let text = line.trim_start_matches(' ');
    let own = " ".repeat((line.len() - text.len()).min(16));
    let indent = if own.is_empty() {
        indent.clone()
    } else {
        indent.with(Span::plain(&own), Span::plain(&own))
    };
    if let Some(heading) = heading(text) {
        let shown = if markup == Markup::Styled { heading } else { text };
        return wrap(&inline(shown, SpanStyle::Heading, markup), &indent, width);
    }
    if is_break(text) {
        let mut line = indent.rest.clone();
        line.push(Span::new(SpanStyle::Dimmed, "───"));
        return vec![line];
    }
    if let Some(quoted) = text.strip_prefix('>') {
        let mark = Span::new(SpanStyle::Dimmed, "▏ ");
        let quoted = quoted.strip_prefix(' ').unwrap_or(quoted);
        let inner = inline(quoted, SpanStyle::Dimmed, markup);
        return wrap(&inner, &indent.with(mark.clone(), mark), width);
    }
    if let Some((mark, item)) = list_item(text) {
        let gap = " ".repeat(crate::text::columns(&mark));
        let indent = indent.with(Span::new(SpanStyle::Dimmed, mark), Span::plain(gap));
        return wrap(&inline(item, SpanStyle::Plain, markup), &indent, width);
    }
    wrap(&inline(text, SpanStyle::Plain, markup), &indent, width)
}

fn heading(text: &str) -> Option<&str> {
    let level = text.len() - text.trim_start_matches('#').len();
    let rest = text[level..].strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| rest.trim().trim_end_matches('#').trim_end())
}

fn is_break(text: &str) -> bool {
    let text = text.trim_end();
    text.len() >= 3 && ['-', '*', '_'].iter().any(|c| text.chars().all(|t| t == *c))
}

/// Splits a list item into its mark and its text.
fn list_item(text: &str) -> Option<(String, &str)> {
    let bullets = [("- [ ] ", "☐ "), ("- [x] ", "☑ "), ("- ", "• "), ("* ", "• "), ("+ ", "• ")];
    for (written, shown) in bullets {
        if let Some(item) = text.strip_prefix(written) {
            return Some((shown.to_owned(), item));
        }
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &text[digits..];
    let is_number = (1..=9).contains(&digits) && (rest.starts_with(". ") || rest.starts_with(") "));
    is_number.then(|| (text[..digits + 2].to_owned(), &rest[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, width: usize, markup: Markup) -> Vec<String> {
        let indent = Indent::of(vec![Span::plain("  ")]);
        let lines = markdown(text, &indent, Some(width), markup);
        lines.iter().map(|line| line.iter().map(|s| s.text.as_str()).collect()).collect()
    }

    #[test]
    fn blocks_are_laid_out_and_continue_under_their_own_text() {
        let text = "## Why\n\n- one two three four\n  1. deep item here\n> said\n\n```rust\nfn a() {\n    b();\n}\n```\ndone";
        assert_eq!(
            drawn(text, 18, Markup::Styled),
            [
                "  Why",
                "",
                "  • one two three",
                "    four",
                "    1. deep item",
                "       here",
                "  ▏ said",
                "",
                "  │ fn a() {",
                "  │     b();",
                "  │ }",
                "  done",
            ]
        );
        let written = drawn("## Why\n```sh\nls\n```", 40, Markup::Written);
        assert_eq!(written, ["  ## Why", "  ```sh", "  ls", "  ```"]);
    }

    #[test]
    fn text_that_only_looks_like_markup_is_not_lost() {
        for text in ["#hashtag", "-flag", "1.5 is a number", "a | b", "```code``` in a line", "***"]
        {
            let all: String = drawn(text, 60, Markup::Styled).concat();
            assert!(all.contains(text) || text == "***" || text.contains("```"), "{text}: {all}");
        }
        assert_eq!(drawn("```\nnever closed", 60, Markup::Styled), ["  │ never closed"]);
    }
}

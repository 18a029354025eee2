//! Markdown tables: aligned where they fit, one cell below the other where they do not.

use super::inline::{Markup, inline};
use super::wrap::{Indent, spans_columns, trim_end, wrap};
use super::{Span, SpanStyle};

/// Columns between two cells.
const GAP: &str = "  ";
/// Least columns of a cell that is wrapped.
const LEAST_CELL: usize = 8;
/// Most cells of a row; a longer row is text.
const MAX_CELLS: usize = 50;

/// Splits a line of a table into cells; `None` if it is none.
fn cells(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let body = line.strip_prefix('|')?;
    let body = body.strip_suffix('|').unwrap_or(body);
    let mut cells = vec![String::new()];
    let (mut is_escaped, mut is_code) = (false, false);
    for c in body.chars() {
        match c {
            '|' if !is_escaped && !is_code => cells.push(String::new()),
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            _ => {
                is_code ^= c == '`';
                if is_escaped && c != '|' {
                    cells.last_mut()?.push('\\');
                }
                cells.last_mut()?.push(c);
            }
        }
        is_escaped = false;
    }
    let is_table = cells.len() <= MAX_CELLS;
    is_table.then(|| cells.into_iter().map(|cell| cell.trim().to_owned()).collect())
}

/// Says whether a line separates the heading of a table from its rows.
fn is_rule(line: &str) -> bool {
    let is_dashes =
        |cell: &String| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':'));
    cells(line).is_some_and(|cells| cells.iter().all(is_dashes))
}

/// Returns the number of lines of the table at the start of these lines; 0 if there is none.
pub(super) fn table_length(lines: &[&str]) -> usize {
    match lines {
        [head, rule, ..] if cells(head).is_some() && is_rule(rule) => {
            lines.iter().take_while(|line| cells(line).is_some()).count()
        }
        _ => 0,
    }
}

/// Lays out a table.
pub(super) fn table(
    lines: &[&str],
    indent: &Indent,
    width: Option<usize>,
    markup: Markup,
) -> Vec<Vec<Span>> {
    let rows: Vec<Vec<Vec<Span>>> = lines
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 1)
        .map(|(at, line)| {
            let style = if at == 0 { SpanStyle::Strong } else { SpanStyle::Plain };
            let cells = cells(line).unwrap_or_default();
            cells.iter().map(|cell| inline(cell, style, markup)).collect()
        })
        .collect();
    let count = rows.first().map_or(0, Vec::len);
    let natural: Vec<usize> = (0..count)
        .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|c| spans_columns(c)).max())
        .map(|widest| widest.unwrap_or(0).max(1))
        .collect();
    let room = width.map(|width| width.saturating_sub(indent.columns()));
    let gaps = GAP.len() * count.saturating_sub(1);
    match widths(&natural, room.map(|room| room.saturating_sub(gaps))) {
        Some(widths) => aligned(&rows, &widths, indent),
        None => stacked(&rows, indent, width),
    }
}

/// Returns the widths of the columns: the widest ones shrink until all fit; `None` if they would be too narrow.
fn widths(natural: &[usize], room: Option<usize>) -> Option<Vec<usize>> {
    let mut widths = natural.to_vec();
    let Some(room) = room else { return Some(widths) };
    let mut excess = widths.iter().sum::<usize>().saturating_sub(room);
    while excess > 0 {
        let widest = widths.iter_mut().max().filter(|width| **width > LEAST_CELL)?;
        *widest -= 1;
        excess -= 1;
    }
    Some(widths)
}

fn aligned(rows: &[Vec<Vec<Span>>], widths: &[usize], indent: &Indent) -> Vec<Vec<Span>> {
    let mut lines = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<Vec<Vec<Span>>> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| {
                let cell = row.get(column).map_or(&[][..], Vec::as_slice);
                wrap(cell, &Indent::default(), Some(*width))
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for part in 0..height {
            let mut line = indent.rest.clone();
            for (column, width) in widths.iter().enumerate() {
                let spans = cells[column].get(part).map_or(&[][..], Vec::as_slice);
                line.extend(spans.iter().cloned());
                if column + 1 < widths.len() {
                    let fill = width.saturating_sub(spans_columns(spans));
                    line.push(Span::plain(format!("{}{GAP}", " ".repeat(fill))));
                }
            }
            trim_end(&mut line);
            lines.push(line);
        }
        if at == 0 {
            let dashes: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            let mut rule = indent.rest.clone();
            rule.push(Span::new(SpanStyle::Dimmed, dashes.join(GAP)));
            lines.push(rule);
        }
    }
    lines
}

/// One cell on each line, with the name of its column.
fn stacked(rows: &[Vec<Vec<Span>>], indent: &Indent, width: Option<usize>) -> Vec<Vec<Span>> {
    let Some((head, body)) = rows.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    for row in body {
        for (at, cell) in row.iter().enumerate() {
            let mut spans = head.get(at).cloned().unwrap_or_default();
            spans.push(Span::new(SpanStyle::Dimmed, ": "));
            spans.extend(cell.iter().cloned());
            let first = Span::plain(if at == 0 { "" } else { "  " });
            lines.extend(wrap(&spans, &indent.with(first, Span::plain("  ")), width));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(lines: &[&str], width: usize) -> Vec<String> {
        let indent = Indent::of(vec![Span::plain(" ")]);
        let rows = table(lines, &indent, Some(width), Markup::Styled);
        rows.iter().map(|row| row.iter().map(|s| s.text.as_str()).collect()).collect()
    }

    #[test]
    fn a_table_is_aligned_wrapped_in_its_cells_or_stacked() {
        let lines = ["| file | tests |", "|---|--:|", "| `login.rs` | 日本 ok |", "| a\\|b | 2 |"];
        assert_eq!(table_length(&lines), 4);
        assert_eq!(
            drawn(&lines, 60),
            [" file      tests", " ────────  ───────", " login.rs  日本 ok", " a|b       2"]
        );
        let long = ["| a | b |", "|---|---|", "| one two three four five | x |"];
        assert_eq!(drawn(&long, 20)[2..], [" one two three     x", " four five"]);
        let many = ["|a|b|c|", "|-|-|-|", "|some words|other words|more words|"];
        assert_eq!(drawn(&many, 20), [" a: some words", "   b: other words", "   c: more words"]);
        assert_eq!(table_length(&["| not a table", "text"]), 0);
    }
}

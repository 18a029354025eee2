//! Tool calls and their results as lines.

use agentctl_core::model::{FileEdit, Image, TaskState, ToolCall, ToolResult};

use super::diff;
use super::layout::View;
use super::plain::uncoloured;
use super::wrap::{Indent, spans_columns, wrap, wrap_code};
use super::{Line, LineKind, Span, SpanStyle};
use crate::text::{counted, fit, fit_path, one_line};

/// Lines of a tool's output that are shown.
const OUTPUT_LINES: usize = 4;
/// Lines of a failed tool's output that are shown: the last ones, which say why it failed.
const FAILED_LINES: usize = 8;
/// Lines of a change that are shown.
const CHANGE_LINES: usize = 20;
/// Lines of a new file that are shown.
const NEW_FILE_LINES: usize = 8;
/// The columns of a tool call where the width of the display is not bounded.
const CALL_COLUMNS: usize = 200;
/// Rows that one line of output may take while it is folded.
const OUTPUT_ROWS: usize = 2;

/// The part of a long text that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    First(usize),
    Last(usize),
}

/// Returns a call with what it does and its result, if there is one.
pub(super) fn call_lines(
    call: &ToolCall,
    result: Option<&ToolResult>,
    took: Option<String>,
    view: &View,
) -> Vec<Line> {
    let edits = diff::edits(call, result);
    let mut lines = call_line(call, size(&edits), took, view);
    lines.extend(tasks(call, view));
    if !edits.is_empty() {
        lines.extend(change_lines(&edits, call, view));
    }
    if let Some(result) = result {
        lines.extend(answer_lines(call, result, view));
    }
    lines
}

/// Returns the lines of a result below its call. A change or a list of tasks is shown by the call already: "the
/// file was updated" adds nothing.
pub(super) fn answer_lines(call: &ToolCall, result: &ToolResult, view: &View) -> Vec<Line> {
    let says_enough = !call.tasks().is_empty() || !diff::edits(call, Some(result)).is_empty();
    if says_enough && !result.is_error { Vec::new() } else { result_lines(result, view) }
}

fn change_lines(edits: &[FileEdit], call: &ToolCall, view: &View) -> Vec<Line> {
    let is_new = diff::counts(edits).1 == 0 && call.name.eq_ignore_ascii_case("write");
    let most = match (view.is_full, is_new) {
        (true, _) => usize::MAX - 1,
        (false, true) => NEW_FILE_LINES,
        (false, false) => CHANGE_LINES,
    };
    let (shown, hidden) = diff::first_lines(edits.to_vec(), most);
    let rows = diff::rows(&shown, &Indent::of(vec![Span::plain("    ")]), view);
    let rows = rows.into_iter().map(|row| Line::new(LineKind::ToolDetail, row));
    let fold = (hidden > 0).then(|| {
        fold_line(vec![Span::plain("    ")], format!("… {}", counted(hidden, "more line")), view)
    });
    rows.chain(fold).collect()
}

/// Returns the size of changes: `+2 −1`, or `3 lines` of contents of which it is not known what they replace.
fn size(edits: &[FileEdit]) -> Vec<Span> {
    match diff::counts(edits) {
        (0, 0) => Vec::new(),
        (lines, 0) if diff::are_contents(edits) => {
            vec![Span::new(SpanStyle::Dimmed, format!("  {}", counted(lines, "line")))]
        }
        (added, removed) => vec![
            Span::plain("  "),
            Span::new(SpanStyle::Added, format!("+{added}")),
            Span::plain(" "),
            Span::new(SpanStyle::Removed, format!("−{removed}")),
        ],
    }
}

fn call_line(call: &ToolCall, mut tail: Vec<Span>, took: Option<String>, view: &View) -> Vec<Line> {
    tail.extend(took.map(|took| Span::new(SpanStyle::Dimmed, format!("  {took}"))));
    let mark = vec![Span::plain("  "), Span::new(SpanStyle::CallMark, "▸"), Span::plain(" ")];
    if view.is_full {
        let indent = Indent { first: mark, rest: vec![Span::plain("    ")] };
        let text = call_text(call, usize::MAX);
        let spans: Vec<Span> = std::iter::once(Span::plain(text)).chain(tail).collect();
        let rows = wrap(&spans, &indent, view.width);
        return rows.into_iter().map(|row| Line::new(LineKind::ToolCall, row)).collect();
    }
    let columns = view.width.map_or(CALL_COLUMNS, |width| width.saturating_sub(4));
    let columns = columns.saturating_sub(spans_columns(&tail));
    let spans = mark.into_iter().chain([Span::plain(call_text(call, columns))]).chain(tail);
    vec![Line::new(LineKind::ToolCall, spans.collect())]
}

/// Returns `Bash(npm test)` in this many columns.
fn call_text(call: &ToolCall, columns: usize) -> String {
    let name = name(call);
    let Some(argument) = call.telling() else { return fit(&name, columns) };
    let argument = one_line(&argument);
    let room = columns.saturating_sub(crate::text::columns(&name) + 2);
    // The end of a path tells more than its beginning.
    let is_path = argument.starts_with(['/', '~']) && !argument.contains(' ');
    let argument = if is_path && room > 1 { fit_path(&argument, room) } else { argument };
    fit(&format!("{name}({argument})"), columns)
}

/// Returns the name of a tool; of a tool of an MCP server first the server's.
fn name(call: &ToolCall) -> String {
    let name = one_line(&call.name);
    match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, tool)) => format!("{server} {tool}"),
        None => name,
    }
}

fn tasks(call: &ToolCall, view: &View) -> Vec<Line> {
    let mut lines = Vec::new();
    for task in call.tasks() {
        let (word, style) = match task.state {
            TaskState::Done => ("done   ", SpanStyle::Dimmed),
            TaskState::Active => ("doing  ", SpanStyle::Strong),
            TaskState::Pending => ("to do  ", SpanStyle::Plain),
            TaskState::Cancelled => ("dropped", SpanStyle::Dimmed),
        };
        let indent = Indent {
            first: vec![Span::plain("    "), Span::new(SpanStyle::Dimmed, format!("{word} "))],
            rest: vec![Span::plain(" ".repeat(12))],
        };
        let rows = wrap(&[Span::new(style, one_line(task.text))], &indent, view.width);
        lines.extend(rows.into_iter().map(|row| Line::new(LineKind::ToolDetail, row)));
    }
    folded(lines, Shown::First(CHANGE_LINES), "    ", view)
}

/// Returns the output of a tool: its first lines, or the last ones if it failed.
pub(super) fn result_lines(result: &ToolResult, view: &View) -> Vec<Line> {
    let (kind, mark, shown) = if result.is_error {
        let mark = Span::new(SpanStyle::Failed, "    ✗ ");
        (LineKind::ToolError, mark, Shown::Last(FAILED_LINES))
    } else {
        (LineKind::ToolOutput, Span::new(SpanStyle::Dimmed, "    │ "), Shown::First(OUTPUT_LINES))
    };
    let text = uncoloured(without_header(&result.text));
    let text = text.trim_matches('\n').trim_end();
    let mut lines = folded_text(text, (kind, SpanStyle::Dimmed), (&mark, shown), view);
    lines.extend(result.images.iter().map(|image| {
        Line::new(
            LineKind::Image,
            vec![mark.clone(), Span::new(SpanStyle::Dimmed, image_words(image))],
        )
    }));
    if lines.is_empty() && result.is_error {
        lines.push(Line::new(kind, vec![mark, Span::new(SpanStyle::Dimmed, "failed")]));
    }
    lines
}

/// Returns `[image: shot.png]`.
pub(super) fn image_words(image: &Image) -> String {
    match image.name.as_ref().or(image.media_type.as_ref()) {
        Some(word) => format!("[image: {}]", one_line(word)),
        None => "[image]".to_owned(),
    }
}

/// Removes the lines about time and exit code that some agents write above the output of a command.
fn without_header(text: &str) -> &str {
    const HEADS: [&str; 3] = ["Chunk ID: ", "Exit code: ", "Wall time: "];
    const HEAD_LINES: usize = 8;
    if !HEADS.iter().any(|head| text.starts_with(head)) {
        return text;
    }
    let mut rest = text;
    for _ in 0..HEAD_LINES {
        let Some((line, after)) = rest.split_once('\n') else { break };
        rest = after;
        if line == "Output:" {
            return rest;
        }
    }
    text
}

/// Lays out lines of text behind a mark, folded unless the view is full.
pub(super) fn folded_text(
    text: &str,
    (kind, style): (LineKind, SpanStyle),
    (mark, shown): (&Span, Shown),
    view: &View,
) -> Vec<Line> {
    let all: Vec<&str> = text.lines().collect();
    let (from, to) = shown.range(all.len(), view);
    let indent = Indent::of(vec![mark.clone()]);
    let mut is_cut = false;
    let mut lines = Vec::new();
    for line in &all[from..to] {
        let line = line.trim_end();
        let is_output = matches!(kind, LineKind::ToolOutput | LineKind::ToolError);
        let short = if is_output { view.cut(line, &indent) } else { line.to_owned() };
        is_cut |= short != line;
        let rows = wrap_code(&Span::new(style, short), &indent, view.width);
        lines.extend(rows.into_iter().map(|row| Line::new(kind, row)));
    }
    let fold = |words: String| fold_line(vec![mark.clone()], words, view);
    let hidden = all.len() - (to - from);
    match shown {
        _ if hidden == 0 && is_cut => lines.push(fold("… long lines are cut".to_owned())),
        _ if hidden == 0 => {}
        Shown::First(_) => lines.push(fold(format!("… {}", counted(hidden, "more line")))),
        Shown::Last(_) => lines.insert(0, fold(format!("… {}", counted(hidden, "earlier line")))),
    }
    lines
}

/// Folds lines that are laid out already.
fn folded(mut lines: Vec<Line>, shown: Shown, indent: &str, view: &View) -> Vec<Line> {
    let (from, to) = shown.range(lines.len(), view);
    let hidden = lines.len() - (to - from);
    if hidden > 0 {
        lines.truncate(to);
        let words = format!("… {}", counted(hidden, "more line"));
        lines.push(fold_line(vec![Span::plain(indent)], words, view));
    }
    lines
}

fn fold_line(mut spans: Vec<Span>, words: String, view: &View) -> Line {
    spans.push(Span::new(SpanStyle::Dimmed, format!("{words} ({})", view.unfold)));
    Line::new(LineKind::Fold, spans)
}

impl View {
    /// Cuts a line of output to a few rows, unless the view is full.
    pub(super) fn cut(&self, line: &str, indent: &Indent) -> String {
        match self.width.filter(|_| !self.is_full) {
            Some(width) => fit(line, width.saturating_sub(indent.columns()).max(1) * OUTPUT_ROWS),
            None => line.to_owned(),
        }
    }
}

impl Shown {
    /// Returns the part of this many lines that is shown. One more line is shown rather than a fold of one line.
    fn range(self, count: usize, view: &View) -> (usize, usize) {
        match self {
            _ if view.is_full => (0, count),
            Self::First(most) | Self::Last(most) if count <= most + 1 => (0, count),
            Self::First(most) => (0, most),
            Self::Last(most) => (count - most, count),
        }
    }
}

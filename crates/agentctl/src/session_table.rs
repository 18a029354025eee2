//! Renders sessions as a table that fits the terminal. Thousands of rows are rendered on all cores.

mod fields;
mod listed;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use agentctl_core::fleet::Rows;
use agentctl_core::host::Host;
use agentctl_core::model::{ReasonKind, Session, Status, Time};
use anstyle::Style;

use crate::face::age;
use crate::parallel::in_parts;
use crate::text::{columns, fit, fit_path, in_one_line, with_tilde};
use crate::ui::{Canvas, Ui};

pub use self::fields::{FIELDS_BEYOND_THE_TABLE, SessionRow};
pub use self::listed::{LineCell, ListWidths, ListedRow};

/// Number of columns. The first one, NAME, is left out of a table in which no session has a name.
const COLUMNS: usize = 7;
const HEADER: [&str; COLUMNS] = ["NAME", "STATUS", "AGENT", "ID", "ACTIVE", "DIRECTORY", "WHAT"];
const NAME: usize = 0;
const STATUS: usize = 1;
const AGENT: usize = 2;
const ID: usize = 3;
const ACTIVE: usize = 4;
const DIRECTORY: usize = 5;
const WHAT: usize = 6;
/// Widest column of names on a wide and on a narrow terminal.
const MAX_NAME_WIDTH: usize = 24;
const MIN_NAME_WIDTH: usize = 8;

/// Number of rows per batch. A batch is rendered in parallel and then written, which limits memory.
const ROWS_PER_BATCH: usize = 16_384;

type Cells<'a> = [Cow<'a, str>; COLUMNS];

/// How a table of sessions is drawn.
#[derive(Clone, Copy, Debug)]
pub struct TableForm {
    /// The properties of the output.
    pub canvas: Canvas,
    /// Whether there is a heading.
    pub has_headers: bool,
    /// Whether ids are whole.
    pub has_whole_ids: bool,
}

impl From<Canvas> for TableForm {
    fn from(canvas: Canvas) -> Self {
        Self { canvas, has_headers: true, has_whole_ids: false }
    }
}

/// Renders sessions as aligned lines. On a terminal they fit its width; piped they are not cut.
#[must_use]
pub fn drawn(form: impl Into<TableForm>, host: &Host, sessions: &Rows) -> String {
    let mut text = String::new();
    let done = draw(form.into(), host, sessions, &mut |part| {
        text.push_str(part);
        Ok(())
    });
    debug_assert!(done.is_ok(), "writing to a String cannot fail");
    text
}

/// Renders sessions like [`drawn`], and passes the text on in parts.
pub fn draw(
    form: TableForm,
    host: &Host,
    sessions: &Rows,
    write: &mut dyn FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    if sessions.is_empty() {
        return Ok(());
    }
    let canvas = form.canvas;
    let parts = parts(form, host, sessions);
    let mut widths = if form.has_headers { HEADER.map(columns) } else { [1; COLUMNS] };
    for part in &parts {
        for (width, other) in widths.iter_mut().zip(part.widths) {
            *width = (*width).max(other);
        }
    }
    if parts.iter().all(|part| part.widths[NAME] == 0) {
        widths[NAME] = 0;
    }
    if let Some(total) = canvas.width {
        let what = widths[WHAT];
        shrink(&mut widths, total);
        leave_out(&mut widths, what, total);
    }
    if form.has_headers {
        let mut text = String::new();
        let bold = Style::new().bold();
        line(&mut text, canvas, &HEADER, &widths, [bold, bold]);
        write(&text)?;
    }
    // A part is dropped once it is drawn: cells and text of many sessions are not in memory together.
    for part in parts {
        for first in (0..part.rows.len()).step_by(ROWS_PER_BATCH) {
            let rows = &part.rows[first..part.rows.len().min(first + ROWS_PER_BATCH)];
            let drawn = in_parts(rows.len(), |range| {
                let mut text = String::new();
                for row in &rows[range] {
                    let styles = [Ui::status_style(row.status), Style::new()];
                    line(&mut text, canvas, &part.cells(row), &widths, styles);
                }
                text
            });
            drawn.iter().try_for_each(|text| write(text))?;
        }
    }
    Ok(())
}

/// Makes the cells of all rows, on all cores.
fn parts(form: TableForm, host: &Host, sessions: &Rows) -> Vec<Part> {
    let depths = depths(sessions);
    let now = host.now();
    in_parts(sessions.len(), |range| {
        let mut part = Part::default();
        for (at, session) in range.filter_map(|at| Some((at, sessions.get(at)?))) {
            let id = if form.has_whole_ids { sessions.id(at) } else { sessions.short_id(at) };
            part.push(session.status, &cells((host, now), &session, depths[at], id));
        }
        part
    })
}

/// The cells of some rows, one text after another: a row of its own strings would be several times as large.
#[derive(Default)]
struct Part {
    text: String,
    rows: Vec<Row>,
    /// The widest cell of each column.
    widths: [usize; COLUMNS],
}

/// A row of a [`Part`].
struct Row {
    status: Status,
    /// The position of its first cell in the text of the part.
    begin: usize,
    /// The length of each cell.
    lengths: [usize; COLUMNS],
}

impl Part {
    fn push(&mut self, status: Status, cells: &Cells<'_>) {
        let begin = self.text.len();
        let mut lengths = [0; COLUMNS];
        for ((cell, width), length) in cells.iter().zip(&mut self.widths).zip(&mut lengths) {
            *width = (*width).max(columns(cell));
            self.text.push_str(cell);
            *length = cell.len();
        }
        self.rows.push(Row { status, begin, lengths });
    }

    fn cells(&self, row: &Row) -> [&str; COLUMNS] {
        let mut rest = &self.text[row.begin..];
        row.lengths.map(|length| {
            let (cell, others) = rest.split_at(length);
            rest = others;
            cell
        })
    }
}

fn line(
    out: &mut String,
    canvas: Canvas,
    row: &[&str; COLUMNS],
    widths: &[usize; COLUMNS],
    [first, rest]: [Style; 2],
) {
    for (index, (cell, width)) in row.iter().zip(widths).enumerate().filter(|(_, (_, w))| **w > 0) {
        let cell = if cell.is_empty() { &"-" } else { cell };
        let last = index + 1 == row.len();
        let text = match (canvas.width, index) {
            (None, _) => Cow::Borrowed(*cell),
            (Some(_), DIRECTORY) => Cow::Owned(fit_path(cell, *width)),
            (Some(_), _) => Cow::Owned(fit(cell, *width)),
        };
        let gap = if last { 0 } else { width.saturating_sub(columns(&text)) + 2 };
        canvas.paint_onto(out, if index == STATUS { first } else { rest }, &text);
        out.extend(std::iter::repeat_n(' ', gap));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
}

/// Fits the widths into the total: the directory shrinks first, the last column gets the rest.
fn shrink(widths: &mut [usize; COLUMNS], total: usize) {
    widths[NAME] = widths[NAME].min((total / 5).clamp(MIN_NAME_WIDTH, MAX_NAME_WIDTH));
    let gaps = 2 * (widths.iter().filter(|width| **width > 0).count() - 1);
    let fixed: usize = widths[..DIRECTORY].iter().sum();
    let room = total.saturating_sub(fixed + gaps);
    let directory = widths[DIRECTORY].min((room / 3).max(12));
    let both = widths[DIRECTORY] + widths[WHAT];
    let directory = if both <= room { widths[DIRECTORY] } else { directory };
    widths[DIRECTORY] = directory;
    widths[WHAT] = widths[WHAT].min(room.saturating_sub(directory).max(8));
}

/// Leaves out columns of a table that is too wide for the terminal, or whose last column would be too narrow to be
/// read: `what` is the width that it needs. No line is wrapped.
fn leave_out(widths: &mut [usize; COLUMNS], what: usize, total: usize) {
    const LEFT_OUT: [usize; 4] = [ACTIVE, DIRECTORY, AGENT, NAME];
    const READABLE: usize = 14;
    let used = |widths: &[usize; COLUMNS]| {
        let shown = widths.iter().filter(|width| **width > 0);
        shown.map(|width| width + 2).sum::<usize>().saturating_sub(2)
    };
    for column in LEFT_OUT {
        if used(widths) <= total && widths[WHAT] >= what.min(READABLE) {
            break;
        }
        widths[column] = 0;
        // The last column takes the room, as far as it needs it.
        let room = total.saturating_sub(used(widths));
        widths[WHAT] = (widths[WHAT] + room).min(what.max(widths[WHAT]));
    }
    let too_much = used(widths).saturating_sub(total);
    widths[WHAT] = widths[WHAT].saturating_sub(too_much).max(1);
}

fn cells<'a>(
    (host, now): (&Host, Time),
    session: &'a Session,
    depth: usize,
    shown_id: Option<&'a str>,
) -> Cells<'a> {
    let status = match session.status {
        Status::Waiting => "! waiting",
        other => other.word(),
    };
    let id: Cow<'_, str> = match (shown_id, session.pid) {
        (Some(id), _) => in_one_line(id),
        (None, Some(pid)) => format!("pid {pid}").into(),
        (None, None) => "-".into(),
    };
    let id = if depth == 0 { id } else { format!("{}└ {id}", "  ".repeat(depth - 1)).into() };
    let when = session.last_activity_at.or(session.started_at);
    [
        session.name.as_deref().map(in_one_line).unwrap_or_default(),
        status.into(),
        in_one_line(session.adapter),
        id,
        when.map_or("-".into(), |t| age(now, t).into()),
        session.cwd.as_deref().map_or("-".into(), |c| directory(host, c).into()),
        what(host, session),
    ]
}

/// Returns the indentation level of each session: the number of its ancestors, limited because a chain of
/// subagents may have any length.
fn depths(sessions: &Rows) -> Vec<usize> {
    const MAX_DEPTH: usize = 8;
    let mut depths = vec![0; sessions.len()];
    if (0..sessions.len()).all(|at| sessions.parent(at).is_none()) {
        return depths;
    }
    let mut parents: HashMap<&str, Option<&str>> = HashMap::new();
    for at in 0..sessions.len() {
        if let Some(id) = sessions.id(at) {
            parents.entry(id).or_insert(sessions.parent(at));
        }
    }
    for (at, depth) in depths.iter_mut().enumerate() {
        let mut parent = sessions.parent(at);
        while *depth < MAX_DEPTH
            && let Some(id) = parent
        {
            *depth += 1;
            parent = parents.get(id).copied().flatten();
        }
    }
    depths
}

/// Returns the last cell. First a foreign home, because its texts may mislead; then the reason, because a
/// person must act on it; then the title.
fn what<'a>(host: &Host, session: &'a Session) -> Cow<'a, str> {
    let what = state_and_title(session);
    if !session.foreign_home {
        return what;
    }
    let home = directory(host, &session.root);
    format!("home {home} is named only by its process · {what}").into()
}

fn state_and_title(session: &Session) -> Cow<'_, str> {
    let reason = session.reason.as_ref().map(|r| match &r.detail {
        // The detail of a tool call needs no prefix.
        Some(detail) if r.kind == ReasonKind::Tool || detail.starts_with(r.kind.word()) => {
            in_one_line(detail)
        }
        Some(detail) => format!("{}: {}", r.kind.word(), in_one_line(detail)).into(),
        None => r.kind.word().into(),
    });
    let ended = if session.status == Status::Stopped { session.outcome } else { None };
    let state = reason.or(ended.map(|outcome| outcome.word().into()));
    let title = session.title.as_deref().map(in_one_line);
    match (state, title) {
        (Some(state), Some(title)) => format!("{state} · {title}").into(),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "-".into(),
    }
}

/// Returns a path as one line, with the home directory shortened to `~`.
#[must_use]
pub fn directory(host: &Host, path: &str) -> String {
    with_tilde(&host.home, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_cuts_names_and_leaves_them_out_last() {
        let at = |total: usize| {
            let mut widths = [38, 9, 11, 10, 6, 27, 60];
            shrink(&mut widths, total);
            leave_out(&mut widths, 60, total);
            let shown = widths.iter().filter(|width| **width > 0);
            let used = shown.map(|width| width + 2).sum::<usize>() - 2;
            assert!(used <= total, "{used} of {total}: {widths:?}");
            widths
        };
        assert_eq!(at(200)[NAME], 24);
        assert_eq!((at(60)[NAME], at(60)[DIRECTORY]), (12, 0));
        assert_eq!((at(40)[NAME], at(40)[AGENT]), (0, 0));
    }
}

//! Sessions as rows of a table that fits the terminal.

use std::borrow::Cow;
use std::collections::HashMap;

use agentctl_core::host::Host;
use agentctl_core::model::{Status, Time};
use anstyle::Style;

use crate::row::Row;
use crate::text::{columns, fit, fit_path};
use crate::ui::{Ui, age};

const HEADER: [&str; 6] = ["STATUS", "AGENT", "ID", "ACTIVE", "DIRECTORY", "WHAT"];

/// Draws rows as aligned lines; on a terminal they fit its width, piped they are whole.
pub(super) fn table(ui: &Ui, host: &Host, sessions: &[Row<'_>]) -> Vec<String> {
    if sessions.is_empty() {
        return Vec::new();
    }
    let short = short_ids(sessions);
    let now = host.now();
    let rows: Vec<[Cow<'_, str>; 6]> =
        sessions.iter().map(|s| cells(now, s, sessions, &short)).collect();
    let mut widths = HEADER.map(columns);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns(cell));
        }
    }
    if let Some(total) = ui.width() {
        shrink(&mut widths, total);
    }
    let mut lines = vec![line(
        ui,
        &HEADER.map(Cow::Borrowed),
        &widths,
        Style::new().bold(),
        Style::new().bold(),
    )];
    for (row, session) in rows.iter().zip(sessions) {
        lines.push(line(ui, row, &widths, Ui::status_style(session.status), Style::new()));
    }
    lines
}

fn line(
    ui: &Ui,
    row: &[Cow<'_, str>; 6],
    widths: &[usize; 6],
    first: Style,
    rest: Style,
) -> String {
    let mut out = String::with_capacity(widths[..5].iter().sum::<usize>() + row[5].len() + 64);
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        let last = index + 1 == row.len();
        let text = match (ui.width(), HEADER[index]) {
            (None, _) => Cow::Borrowed(cell.as_ref()),
            (Some(_), "DIRECTORY") => Cow::Owned(fit_path(cell, *width)),
            (Some(_), _) => Cow::Owned(fit(cell, *width)),
        };
        let gap = if last { 0 } else { width.saturating_sub(columns(&text)) + 2 };
        ui.paint_onto(&mut out, if index == 0 { first } else { rest }, &text);
        out.extend(std::iter::repeat_n(' ', gap));
    }
    out.truncate(out.trim_end().len());
    out
}

/// Gives the last column what is left, and takes from the directory before anything else.
fn shrink(widths: &mut [usize; 6], total: usize) {
    let gaps = 2 * (widths.len() - 1);
    let fixed: usize = widths[..4].iter().sum();
    let room = total.saturating_sub(fixed + gaps);
    let directory = widths[4].min((room / 3).max(12));
    let directory = if widths[4] + widths[5] <= room { widths[4] } else { directory };
    widths[4] = directory;
    widths[5] = widths[5].min(room.saturating_sub(directory).max(8));
}

/// The fewest characters of each id, eight or more, that keep it apart from the others shown.
fn short_ids<'a>(sessions: &'a [Row<'_>]) -> HashMap<&'a str, usize> {
    let mut ids: Vec<&str> = sessions.iter().filter_map(|s| s.id.as_deref()).collect();
    ids.sort_unstable();
    ids.dedup();
    let common = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let mut short = HashMap::new();
    for (index, id) in ids.iter().enumerate() {
        let before = if index > 0 { common(ids[index - 1], id) } else { 0 };
        let after = ids.get(index + 1).map_or(0, |next| common(next, id));
        short.insert(*id, (before.max(after) + 1).max(8).min(id.len()));
    }
    short
}

fn cells<'a>(
    now: Time,
    session: &'a Row<'_>,
    all: &[Row<'_>],
    short: &HashMap<&str, usize>,
) -> [Cow<'a, str>; 6] {
    let status = match session.status {
        Status::Waiting => "! waiting",
        other => other.word(),
    };
    let id: Cow<'_, str> = match (&session.id, session.pid) {
        (Some(id), _) => {
            let length = short.get(id.as_ref()).copied().unwrap_or(id.len());
            id.get(..length).unwrap_or(id).into()
        }
        (None, Some(pid)) => format!("pid {pid}").into(),
        (None, None) => "-".into(),
    };
    let depth = depth(session, all);
    let id = if depth == 0 { id } else { format!("{}└ {id}", "  ".repeat(depth - 1)).into() };
    [
        status.into(),
        session.adapter.as_ref().into(),
        id,
        session.when.map_or("-".into(), |t| age(now, t).into()),
        session.directory.as_deref().unwrap_or("-").into(),
        session.what.as_str().into(),
    ]
}

fn depth(session: &Row<'_>, all: &[Row<'_>]) -> usize {
    let mut depth = 0;
    let mut parent = session.parent.as_deref();
    while let Some(id) = parent.filter(|_| depth < 8) {
        depth += 1;
        parent = all.iter().find(|s| s.id.as_deref() == Some(id)).and_then(|s| s.parent.as_deref());
    }
    depth
}

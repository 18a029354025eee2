//! The header and the list.

use agentctl_core::model::Status;
use ratatui::style::Style;

use super::{Canvas, arrows, bold, dimmed, lines_of, status_style};
use crate::face::age_to_the_minute;
use crate::session_table::{LineCell, ListWidths};
use crate::text::{columns, fit};
use crate::tui::app::App;
use crate::tui::keys::Focus;
use crate::tui::layout::{Band, Layout};
use ratatui::style::Modifier;

/// The key of the help page, for the header.
const HELP: &str = "? help";
/// Columns before a row: the mark of the selection.
const MARGIN: u16 = 2;

pub(super) fn draw_header(canvas: &mut Canvas, app: &App, band: Band) {
    let line = band.top;
    let column = draw_counts(canvas, app, line);
    let mut words = Vec::new();
    if !app.list.filter.text.is_empty() {
        let (_, shown) = app.list.position();
        words.push(format!("/{} ({shown})", app.list.filter.text));
    }
    if app.has_history {
        words.push("history".to_owned());
    }
    if app.has_tree {
        words.push("tree".to_owned());
    }
    words.push(if words.is_empty() { "/ filter  ? help" } else { HELP }.to_owned());
    let words = words.join(" · ");
    let room = usize::from(canvas.width().saturating_sub(column + 3));
    // A filter hides sessions, so it is shown before the help.
    let words = match words.rsplit_once(" · ") {
        _ if columns(&words) <= room => words,
        Some((without_help, _)) => fit(without_help, room),
        None if columns(HELP) <= room => HELP.to_owned(),
        None => String::new(),
    };
    if columns(&words) > 1 {
        let wide = u16::try_from(columns(&words)).unwrap_or(0);
        canvas.text((canvas.width().saturating_sub(wide + 1), line), &words, dimmed());
    }
}

/// Draws the numbers of sessions by status, as far as they fit, and returns the column behind them.
fn draw_counts(canvas: &mut Canvas, app: &App, line: u16) -> u16 {
    const NAME: &str = "agentctl";
    let mut counts: Vec<(String, Style)> = app.counts().into_iter().map(count_text).collect();
    if counts.is_empty() {
        let text = if app.is_starting { "looking …" } else { "no session" };
        counts.push((text.to_owned(), Style::new()));
    }
    let needed: usize = counts.iter().map(|(text, _)| columns(text) + 3).sum();
    let mut column = 1;
    // On a narrow screen the numbers matter more than the name of the program.
    if usize::from(canvas.width()) > needed + NAME.len() {
        column = canvas.text((column, line), NAME, bold());
        column = canvas.text((column, line), "  ", Style::new());
    }
    for (at, (text, style)) in counts.iter().enumerate() {
        let gap = if at == 0 { "" } else { " · " };
        let room = usize::from(canvas.width().saturating_sub(column + 1));
        if columns(gap) + columns(text) > room {
            return canvas.text((column, line), "…", dimmed());
        }
        column = canvas.text((column, line), gap, dimmed());
        column = canvas.text((column, line), text, *style);
    }
    column
}

fn count_text((status, count): (Status, usize)) -> (String, Style) {
    let style = if status == Status::Stopped { Style::new() } else { status_style(status) };
    (format!("{count} {}", status.word()), style)
}

pub(super) fn draw(canvas: &mut Canvas, app: &App, layout: Layout) {
    let room = usize::from(canvas.width().saturating_sub(MARGIN + 1));
    let widths = app.list.widths.fitted(room);
    for line in lines_of(layout.heading) {
        let end = draw_cells(canvas, line, &widths.heading(), |_| bold());
        draw_position(canvas, app, (end, line), layout.list);
    }
    if app.list.shown.is_empty() {
        draw_emptiness(canvas, app, layout.list);
    }
    let rows = app.list.visible(layout.list.height);
    for (line, (is_selected, row)) in lines_of(layout.list).zip(rows) {
        draw_row(canvas, app, line, (is_selected, row), widths);
    }
    for line in lines_of(layout.warning) {
        let more = app.warnings.len().saturating_sub(1);
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        if let Some(warning) = app.warnings.first() {
            let room = usize::from(canvas.width()).saturating_sub(columns(&more) + 12);
            let text = format!("warning: {}{more}", fit(warning, room));
            canvas.text((1, line), &text, status_style(Status::Waiting));
        }
    }
}

fn draw_row(
    canvas: &mut Canvas,
    app: &App,
    line: u16,
    (is_selected, row): (bool, &crate::tui::app::TopRow),
    widths: ListWidths,
) {
    let age = row.row.active.map_or("-".to_owned(), |then| age_to_the_minute(app.now, then));
    let cells = row.row.line(widths, &age);
    let is_live = row.row.status.is_live() && !row.is_gone;
    let mut plain = if is_live { Style::new() } else { dimmed() };
    let mut status = if row.is_gone { dimmed() } else { status_style(row.row.status) };
    if is_selected {
        let modifier = if app.focus == Focus::List { Modifier::REVERSED } else { Modifier::BOLD };
        (plain, status) = (Style::new().add_modifier(modifier), status.add_modifier(modifier));
        if app.focus == Focus::List {
            let blank = " ".repeat(usize::from(canvas.width()));
            canvas.text((0, line), &blank, plain);
        }
        canvas.text((0, line), "▸", plain);
    }
    draw_cells(canvas, line, &cells, |cell| if cell.is_status { status } else { plain });
}

/// Writes which part of the list is visible, at the right end of the heading.
fn draw_position(canvas: &mut Canvas, app: &App, (end, line): (u16, u16), list: Band) {
    let hidden = app.list.out_of_sight(list.height);
    if hidden.above + hidden.below == 0 || list.height == 0 {
        return;
    }
    let (at, count) = app.list.position();
    let waiting = if hidden.waiting > 0 { format!(" !{}", hidden.waiting) } else { String::new() };
    let parts = format!("{at}/{count}{}", arrows(hidden.above, hidden.below));
    let wide = u16::try_from(columns(&parts) + columns(&waiting)).unwrap_or(u16::MAX);
    let begin = canvas.width().saturating_sub(wide.saturating_add(1));
    if begin > end {
        let column = canvas.text((begin, line), &parts, dimmed());
        canvas.text((column, line), &waiting, status_style(Status::Waiting));
    }
}

/// Draws cells, and returns the column behind them.
fn draw_cells(
    canvas: &mut Canvas,
    line: u16,
    cells: &[LineCell],
    style: impl Fn(&LineCell) -> Style,
) -> u16 {
    let mut column = MARGIN;
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            column = column.saturating_add(2);
        }
        column = canvas.text((column, line), &cell.text, style(cell));
    }
    column
}

fn draw_emptiness(canvas: &mut Canvas, app: &App, band: Band) {
    let lines: &[&str] = if app.is_starting {
        &[]
    } else if !app.list.rows.is_empty() {
        &["no session matches the filter", "Esc clears it"]
    } else if app.has_history {
        &["no session of the last 7 days", "`agentctl demo` starts a few demo agents"]
    } else {
        &["nothing is running; H shows ended sessions", "`agentctl demo` starts a few demo agents"]
    };
    for (line, text) in lines_of(band).zip(lines) {
        canvas.text((MARGIN, line), text, dimmed());
    }
}

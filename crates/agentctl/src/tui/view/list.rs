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

/// Columns between the counts and the words at the right end, and behind those.
const WORDS_GAP: usize = 4;

pub(super) fn draw_header(canvas: &mut Canvas, app: &App, band: Band) {
    let line = band.top;
    let width = usize::from(canvas.width());
    let words = header_words(app, usize::MAX);
    // A filter and a mode change what is listed, so they are shown before the words of the counts.
    let taken = if words.is_empty() { 1 } else { columns(&words) + WORDS_GAP };
    let fits = |form: &CountForm| counts_width(app, *form) + taken < width;
    let form = COUNT_FORMS.into_iter().find(fits).unwrap_or(CountForm::Short);
    let column = draw_counts(canvas, app, (line, form));
    let room = width.saturating_sub(usize::from(column) + WORDS_GAP - 1);
    let helps = if words.is_empty() {
        vec!["/ filter  ? help".to_owned(), HELP.to_owned()]
    } else {
        vec![format!("{words} · {HELP}"), words]
    };
    let shown = helps.into_iter().find(|words| columns(words) <= room);
    let shown = shown.unwrap_or_else(|| fit(&header_words(app, room), room));
    if columns(&shown) > 1 {
        let wide = u16::try_from(columns(&shown)).unwrap_or(0);
        canvas.text((canvas.width().saturating_sub(wide + 1), line), &shown, dimmed());
    }
}

/// Returns the filter and the modes of the list. The text of the filter is cut where there is no room for all.
fn header_words(app: &App, room: usize) -> String {
    let modes = [(app.has_history, "history"), (app.has_tree, "tree")];
    let modes = modes.into_iter().filter(|(is_on, _)| *is_on).map(|(_, word)| word.to_owned());
    let (text, (_, shown)) = (app.list.filter.text.as_str(), app.list.position());
    let with_filter = |text: &str| {
        let filter = (!text.is_empty()).then(|| format!("/{text} ({shown})"));
        filter.into_iter().chain(modes.clone()).collect::<Vec<_>>().join(" · ")
    };
    let words = with_filter(text);
    let excess = columns(&words).saturating_sub(room);
    if excess == 0 {
        words
    } else {
        with_filter(&fit(text, columns(text).saturating_sub(excess).max(1)))
    }
}

/// How the numbers of sessions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountForm {
    /// Behind the name of the program.
    Named,
    /// With the words of the statuses.
    Words,
    /// With the beginnings of the words.
    Short,
}

const COUNT_FORMS: [CountForm; 3] = [CountForm::Named, CountForm::Words, CountForm::Short];
/// The name of the program before the counts.
const NAME: &str = "agentctl  ";

impl CountForm {
    fn gap(self) -> &'static str {
        if self == Self::Short { " " } else { " · " }
    }

    fn text(self, status: Status, count: usize) -> String {
        if self != Self::Short {
            return format!("{count} {}", status.word());
        }
        match status {
            Status::Waiting => format!("{count}!"),
            Status::Running => format!("{count} run"),
            Status::Idle => format!("{count} idle"),
            Status::Unknown => format!("{count}?"),
            Status::Error => format!("{count} err"),
            Status::Stopped => format!("{count} stop"),
        }
    }
}

/// Returns the numbers of sessions by status, each with its style.
fn count_texts(app: &App, form: CountForm) -> Vec<(String, Style)> {
    let styled = |(status, count)| {
        let style = if status == Status::Stopped { Style::new() } else { status_style(status) };
        (form.text(status, count), style)
    };
    let counts: Vec<(String, Style)> = app.counts().into_iter().map(styled).collect();
    if !counts.is_empty() {
        return counts;
    }
    let text = if app.is_starting { "looking …" } else { "no session" };
    vec![(text.to_owned(), Style::new())]
}

fn counts_width(app: &App, form: CountForm) -> usize {
    let counts = count_texts(app, form);
    let gaps = counts.len().saturating_sub(1) * columns(form.gap());
    let name = if form == CountForm::Named { columns(NAME) } else { 0 };
    1 + name + gaps + counts.iter().map(|(text, _)| columns(text)).sum::<usize>()
}

/// Draws the numbers of sessions by status, as far as they fit, and returns the column behind them.
fn draw_counts(canvas: &mut Canvas, app: &App, (line, form): (u16, CountForm)) -> u16 {
    let mut column = 1;
    if form == CountForm::Named {
        column = canvas.text((column, line), NAME, bold());
    }
    for (at, (text, style)) in count_texts(app, form).iter().enumerate() {
        let gap = if at == 0 { "" } else { form.gap() };
        let room = usize::from(canvas.width().saturating_sub(column + 1));
        if columns(gap) + columns(text) > room {
            return canvas.text((column, line), "…", dimmed());
        }
        column = canvas.text((column, line), gap, dimmed());
        column = canvas.text((column, line), text, *style);
    }
    column
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

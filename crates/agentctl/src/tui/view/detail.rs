//! The detail of the selected session: the conversation or a page.

use agentctl_core::model::Role;
use ratatui::style::{Color, Modifier, Style};

use super::{Canvas, arrows, bold, dimmed, lines_of};
use crate::face::{Line, LineKind, SpanStyle};
use crate::text::fit;
use crate::tui::app::{App, DETAILS, Detail, PageLineKind};
use crate::tui::keys::Focus;
use crate::tui::layout::{Band, Layout};

pub(super) fn draw(canvas: &mut Canvas, app: &App, layout: Layout) {
    for line in lines_of(layout.bar) {
        draw_bar(canvas, app, (line, layout.detail));
    }
    let Some(session) = app.list.selected_key() else { return };
    match app.detail {
        Detail::Ask if app.ask.is_some() => {}
        Detail::Talk | Detail::Ask => draw_talk(canvas, app, layout.detail),
        detail if app.page.shows(session, detail) => {
            let lines = app.page.lines.iter().skip(app.page.first);
            for (at, line) in lines_of(layout.detail).zip(lines) {
                canvas.text((1, at), &line.text, page_style(line.kind));
            }
        }
        _ => {
            for line in lines_of(layout.detail).take(1) {
                canvas.text((1, line), "reading …", dimmed());
            }
        }
    }
}

/// A screen with fewer columns is narrow.
const NARROW: u16 = 66;
/// Columns of a session's name in the bar.
const NAME: usize = 20;
/// Columns of a session's name in the bar of a narrow screen.
const NARROW_NAME: usize = 12;

fn draw_bar(canvas: &mut Canvas, app: &App, (line, detail): (u16, Band)) {
    let Some(row) = app.list.selected() else {
        return canvas.rule(line, &[], "");
    };
    let has_focus = app.focus == Focus::Detail;
    let name_style = if has_focus { bold().add_modifier(Modifier::REVERSED) } else { bold() };
    let is_narrow = canvas.width() < NARROW;
    let id = row.row.short_id();
    let name = match (row.row.name(), is_narrow) {
        ("", true) => format!(" {id} "),
        ("", false) => format!(" {} {id} ", row.row.adapter),
        (name, true) => format!(" {} ", fit(name, NARROW_NAME)),
        (name, false) => format!(" {} ({} {id}) ", fit(name, NAME), row.row.adapter),
    };
    let mut title = vec![(name, name_style), ("─".to_owned(), dimmed())];
    for (at, name) in DETAILS.iter().enumerate() {
        let is_shown = *name == app.detail;
        let gap = if at == 0 || is_narrow { " " } else { " · " };
        title.push((gap.to_owned(), dimmed()));
        let text = format!("{} {}", at + 1, name.word());
        let style = if is_shown { bold().add_modifier(Modifier::UNDERLINED) } else { dimmed() };
        title.push((text, style));
    }
    title.push((" ".to_owned(), dimmed()));
    let right = match app.detail {
        Detail::Talk if !app.talk.is_read => String::new(),
        Detail::Talk if app.talk.is_following() => "following".to_owned(),
        Detail::Talk => "held: f follows".to_owned(),
        Detail::Ask => String::new(),
        Detail::Why | Detail::Facts | Detail::Changes => page_rest(app, detail),
    };
    canvas.rule(line, &title, &right);
}

/// Says how many lines of the page are out of sight, such as `↑9 ↓3`.
fn page_rest(app: &App, band: Band) -> String {
    if !app.list.selected_key().is_some_and(|key| app.page.shows(key, app.detail)) {
        return String::new();
    }
    let above = app.page.first;
    let below = app.page.lines.len().saturating_sub(above + usize::from(band.height));
    arrows(above, below).trim_start().to_owned()
}

fn draw_talk(canvas: &mut Canvas, app: &App, band: Band) {
    let height = usize::from(band.height);
    let talk = &app.talk;
    let words = match (&talk.problem, talk.is_read, talk.lines.is_empty()) {
        (Some(problem), _, true) => Some(problem.as_str()),
        (None, true, true) => Some("no messages yet"),
        (None, false, true) => Some("reading …"),
        _ => None,
    };
    if let (Some(words), true) = (words, height > 0) {
        canvas.text((1, band.top), words, dimmed());
        return;
    }
    let below = talk.below.min(talk.lines.len().saturating_sub(height));
    let end = talk.lines.len() - below;
    let lines = &talk.lines[end.saturating_sub(height)..end];
    for (at, line) in lines_of(band).zip(lines) {
        draw_line(canvas, at, line);
    }
}

fn draw_line(canvas: &mut Canvas, at: u16, line: &Line) {
    let mut column = 1;
    for span in &line.spans {
        column = canvas.text((column, at), &span.text, span_style(line.kind, span.style));
    }
}

fn span_style(kind: LineKind, style: SpanStyle) -> Style {
    let style = match style {
        SpanStyle::Plain => Style::new(),
        SpanStyle::Author(Role::User) => bold().fg(Color::Cyan),
        SpanStyle::Author(Role::Assistant) => bold().fg(Color::Green),
        SpanStyle::Author(_) | SpanStyle::Heading | SpanStyle::Strong => bold(),
        SpanStyle::CallMark => Style::new().fg(Color::Yellow),
        SpanStyle::Dimmed => dimmed(),
        SpanStyle::Emphasis => Style::new().add_modifier(Modifier::ITALIC),
        SpanStyle::Code => Style::new().fg(Color::Cyan),
        SpanStyle::Added => Style::new().fg(Color::Green),
        SpanStyle::Removed | SpanStyle::Failed => Style::new().fg(Color::Red),
    };
    let is_dim = matches!(kind, LineKind::ToolOutput | LineKind::Thinking | LineKind::Fold);
    if is_dim && style == Style::new() { dimmed() } else { style }
}

fn page_style(kind: PageLineKind) -> Style {
    match kind {
        PageLineKind::Text => Style::new(),
        PageLineKind::Heading => bold(),
        PageLineKind::Dimmed => dimmed(),
        PageLineKind::Added => Style::new().fg(Color::Green),
        PageLineKind::Removed => Style::new().fg(Color::Red),
        PageLineKind::Error => bold().fg(Color::Red),
    }
}

//! The ask of the selected session.

use ratatui::style::{Color, Modifier, Style};

use super::{Canvas, arrows, bold, dimmed, lines_of};
use crate::face::{AskLineKind, age_to_the_minute, local_minute};
use crate::text::columns;
use crate::tui::app::{App, Settlement, ShownAsk};
use crate::tui::keys::Focus;
use crate::tui::layout::Layout;

pub(super) fn draw(canvas: &mut Canvas, app: &App, layout: Layout) {
    let Some(shown) = &app.ask else { return };
    let is_settled = shown.settled.is_some();
    for line in lines_of(layout.ask_bar) {
        let end = shown.first + usize::from(layout.ask.height);
        let below = shown.lines.len().saturating_sub(end);
        match shown.settled {
            Some(settled) => draw_settled_bar(canvas, (shown, settled), below, line),
            None => draw_bar(canvas, app, (shown, below), line),
        }
    }
    let lines = shown.lines.iter().skip(shown.first);
    for (at, line) in lines_of(layout.ask).zip(lines) {
        let style = if is_settled { dimmed() } else { line_style(line.kind) };
        canvas.text((1, at), &line.text, style);
    }
    let width = app.text_width();
    let keys = app.ask_key_lines(width);
    for (at, line) in lines_of(layout.ask_keys).zip(&keys) {
        let style = if app.focus == Focus::Ask && !is_settled { bold() } else { dimmed() };
        canvas.text((1, at), line, style);
    }
}

/// The words on the bar of an ask that goes on below the last line that is shown.
const MORE: &str = "more below";

fn draw_bar(canvas: &mut Canvas, app: &App, (shown, below): (&ShownAsk, usize), line: u16) {
    let ask = &shown.ask;
    let place = app.asks.iter().position(|open| open.id == ask.id);
    let place = place.map(|at| format!(", {} of {}", at + 1, app.asks.len())).unwrap_or_default();
    let style = match app.focus {
        Focus::Ask => bold().fg(Color::Yellow).add_modifier(Modifier::REVERSED),
        _ => bold().fg(Color::Yellow),
    };
    let mut right = Vec::new();
    if let Some(since) = ask.since {
        let age = age_to_the_minute(app.now, since);
        right.push(if age == "now" { "just now".to_owned() } else { format!("since {age}") });
    }
    if let Some(until) = ask.until {
        right.push(format!("until {}", local_minute(until)));
    }
    if below > 0 {
        // On a narrow screen this matters more than the time.
        if canvas.width() < 66 {
            right.clear();
        }
        right.push(MORE.to_owned());
    }
    let title = [(format!(" ask {}{place} ", ask.short_id()), style)];
    canvas.rule(line, &title, &right.join(", "));
}

/// Draws the bar of an ask that is not open any more. The end and the mark of a cut matter more than the id, which goes
/// if they do not fit beside it: nobody can answer the ask. If the words of the mark do not fit either, it is an arrow.
fn draw_settled_bar(
    canvas: &mut Canvas,
    (shown, settled): (&ShownAsk, Settlement),
    below: usize,
    line: u16,
) {
    let id = format!(" ask {} ", shown.ask.short_id());
    let end = format!(" {} ", settled.sentence());
    let room = |title: usize| canvas.rule_room(title);
    let (has_id, mark) = match below {
        0 => (true, String::new()),
        _ if room(columns(&id) + 1 + columns(&end)) >= MORE.len() => (true, MORE.to_owned()),
        _ if room(columns(&end)) >= MORE.len() => (false, MORE.to_owned()),
        _ => (false, arrows(0, below).trim_start().to_owned()),
    };
    let mut title = vec![(end, bold())];
    if has_id {
        title.splice(0..0, [(id, dimmed()), ("─".to_owned(), dimmed())]);
    }
    canvas.rule(line, &title, &mark);
}

fn line_style(kind: AskLineKind) -> Style {
    match kind {
        AskLineKind::Heading => bold().fg(Color::Yellow),
        AskLineKind::Fact | AskLineKind::Remark => dimmed(),
        AskLineKind::Text | AskLineKind::Prose | AskLineKind::Choice => Style::new(),
        AskLineKind::Added => Style::new().fg(Color::Green),
        AskLineKind::Removed => Style::new().fg(Color::Red),
    }
}

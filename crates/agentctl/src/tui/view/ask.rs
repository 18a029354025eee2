//! The ask of the selected session.

use ratatui::style::{Color, Modifier, Style};

use super::{Canvas, bold, dimmed, lines_of};
use crate::face::{AskLineKind, age_to_the_minute, local_minute};
use crate::tui::app::{App, ShownAsk};
use crate::tui::keys::Focus;
use crate::tui::layout::Layout;

pub(super) fn draw(canvas: &mut Canvas, app: &App, layout: Layout) {
    let Some(shown) = &app.ask else { return };
    let is_settled = shown.settled.is_some();
    for line in lines_of(layout.ask_bar) {
        let is_cut = shown.first + usize::from(layout.ask.height) < shown.lines.len();
        draw_bar(canvas, app, (shown, is_cut), line);
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

fn draw_bar(canvas: &mut Canvas, app: &App, (shown, is_cut): (&ShownAsk, bool), line: u16) {
    let ask = &shown.ask;
    let place = app.asks.iter().position(|open| open.id == ask.id);
    let place = place.map(|at| format!(", {} of {}", at + 1, app.asks.len())).unwrap_or_default();
    let style = match (&shown.settled, app.focus) {
        (Some(_), _) => dimmed(),
        (None, Focus::Ask) => bold().fg(Color::Yellow).add_modifier(Modifier::REVERSED),
        (None, _) => bold().fg(Color::Yellow),
    };
    let mut title = vec![(format!(" ask {}{place} ", ask.short_id()), style)];
    let mut right = Vec::new();
    match &shown.settled {
        Some(settled) => {
            title.push(("─ ".to_owned(), dimmed()));
            title.push((format!("{} ", settled.sentence()), bold()));
        }
        None => {
            if let Some(since) = ask.since {
                let age = age_to_the_minute(app.now, since);
                right.push(if age == "now" {
                    "just now".to_owned()
                } else {
                    format!("since {age}")
                });
            }
            if let Some(until) = ask.until {
                right.push(format!("until {}", local_minute(until)));
            }
            if is_cut {
                // On a narrow screen this matters more than the time.
                if canvas.width() < 66 {
                    right.clear();
                }
                right.push("more below".to_owned());
            }
        }
    }
    canvas.rule(line, &title, &right.join(", "));
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

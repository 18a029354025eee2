//! The footer: the line that is typed, a notice, or the most useful keys.

use ratatui::style::{Color, Style};

use super::{Canvas, bold, dimmed, lines_of};
use crate::text::{clean, columns, fit, wrap};
use crate::tui::app::{App, Purpose, Typed};
use crate::tui::keys::Focus;
use crate::tui::layout::Band;

pub(super) fn draw(canvas: &mut Canvas, app: &App, band: Band, cursor: &mut Option<(u16, u16)>) {
    if let Some(typed) = &app.typed {
        *cursor = draw_typed(canvas, typed, band.top);
        return;
    }
    if let Some(notice) = &app.notice {
        let style = if notice.is_error { bold().fg(Color::Red) } else { Style::new() };
        let width = app.text_width();
        let lines =
            notice.lines.iter().flat_map(|line| wrap(&clean(line).replace('\n', " "), width));
        for (at, line) in lines_of(band).zip(lines) {
            canvas.text((1, at), &line, style);
        }
        return;
    }
    let keys = match app.focus {
        Focus::Ask => "Esc back to the list · j k scroll · ? help",
        Focus::Detail => {
            "Esc back · j k scroll · 1-5 details · f follow · s send · x stop · ? help"
        }
        Focus::List if app.ask.is_some() => {
            "Enter answer · 1-5 details · n next ask · s send · x stop · q quit"
        }
        Focus::List => "Enter open · 1-5 details · / filter · H history · s send · x stop · q quit",
    };
    canvas.text((1, band.top), &fit(keys, app.text_width()), dimmed());
}

/// Draws the line that is typed, and returns the place of the cursor.
fn draw_typed(canvas: &mut Canvas, typed: &Typed, line: u16) -> Option<(u16, u16)> {
    let width = usize::from(canvas.width()).saturating_sub(2);
    if matches!(typed.purpose, Purpose::Confirm(..)) {
        canvas.text((1, line), &fit(&typed.prompt(), width), bold());
        return None;
    }
    let prompt = fit(&typed.prompt(), width.saturating_sub(10).max(10));
    let column = canvas.text((1, line), &prompt, bold());
    let shown = |text: &str| {
        if typed.is_secret { "*".repeat(text.chars().count()) } else { clean(text).into_owned() }
    };
    let (before, after) = (shown(&typed.text[..typed.cursor]), shown(&typed.text[typed.cursor..]));
    let room = usize::from(canvas.width().saturating_sub(column + 2));
    // The end before the cursor stays visible.
    let mut skipped = before.as_str();
    while columns(skipped) > room {
        let first = skipped.chars().next().map_or(0, char::len_utf8);
        skipped = &skipped[first..];
    }
    let place = canvas.text((column, line), skipped, Style::new());
    canvas.text((place, line), &after, Style::new());
    Some((place, line))
}

//! The footer: the line that is typed, a notice, or the most useful keys.

use ratatui::style::{Color, Style};

use super::{Canvas, bold, dimmed, lines_of};
use crate::text::{clean, columns, fit};
use crate::tui::app::{App, Purpose, Secrecy, Typed};
use crate::tui::keys::Focus;
use crate::tui::layout::Band;

pub(super) fn draw(canvas: &mut Canvas, app: &App, band: Band, cursor: &mut Option<(u16, u16)>) {
    if let Some(typed) = &app.typed {
        let last = band.height.saturating_sub(1);
        draw_notice(canvas, app, Band { height: last, ..band });
        *cursor = draw_typed(canvas, typed, band.top + last);
        return;
    }
    if app.notice.is_some() {
        return draw_notice(canvas, app, band);
    }
    let mut keys = keys(app);
    if let Some(row) = app.list.selected() {
        keys.retain(|key| match *key {
            SEND => !row.waits(),
            STOP => !row.has_ended(),
            _ => true,
        });
    }
    while columns(&keys.join(" · ")) > app.text_width() {
        keys.pop();
    }
    canvas.text((1, band.top), &keys.join(" · "), dimmed());
}

/// A session that waits takes no message.
const SEND: &str = "s send";
/// A session that has ended is not stopped.
const STOP: &str = "x stop";

/// Returns the most useful of the keys that do something now.
fn keys(app: &App) -> Vec<&'static str> {
    let is_settled = app.ask.as_ref().is_some_and(|shown| shown.settled.is_some());
    let has_ask = app.ask.is_some() && !is_settled;
    match app.focus {
        // Any key goes back, as the ask says.
        Focus::Ask if is_settled => Vec::new(),
        Focus::Ask => vec!["Esc back to the list", "j k scroll", "? help"],
        Focus::Detail => {
            vec!["Esc back", "j k scroll", "1-5 details", "f follow", SEND, STOP, "? help"]
        }
        Focus::List if app.list.selected().is_none() => {
            vec!["/ filter", "H history", "? help", "q quit"]
        }
        Focus::List if has_ask && app.asks.len() > 1 => {
            vec!["Enter answer", "1-5 details", "n next ask", STOP, "? help", "q quit"]
        }
        Focus::List if has_ask => vec!["Enter answer", "1-5 details", STOP, "? help", "q quit"],
        Focus::List => {
            vec!["Enter open", "1-5 details", "/ filter", "H history", SEND, STOP, "q quit"]
        }
    }
}

/// Draws as much of the notice as there is room for; a cut is marked.
fn draw_notice(canvas: &mut Canvas, app: &App, band: Band) {
    let is_error = app.notice.as_ref().is_some_and(|notice| notice.is_error);
    let style = if is_error { bold().fg(Color::Red) } else { Style::new() };
    let (lines, height) = (app.notice_lines(), usize::from(band.height));
    let is_cut = lines.len() > height;
    for (at, (line, number)) in lines_of(band).zip(lines.iter().zip(1..)) {
        if is_cut && number == height {
            canvas.text((1, at), &fit(&format!("{line} …"), app.text_width()), style);
        } else {
            canvas.text((1, at), line, style);
        }
    }
}

/// Draws the line that is typed, and returns the place of the cursor.
fn draw_typed(canvas: &mut Canvas, typed: &Typed, line: u16) -> Option<(u16, u16)> {
    let width = usize::from(canvas.width()).saturating_sub(2);
    if matches!(typed.purpose, Purpose::Confirm(..)) {
        canvas.text((1, line), &fit(&typed.prompt(width), width), bold());
        return None;
    }
    let prompt = fit(&typed.prompt(width), width.saturating_sub(10).max(10));
    let column = canvas.text((1, line), &prompt, bold());
    let shown = |text: &str| {
        if typed.secrecy == Secrecy::Secret {
            "*".repeat(text.chars().count())
        } else {
            clean(text).into_owned()
        }
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

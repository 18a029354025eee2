//! The help page, from the table of keys.

use ratatui::style::Style;

use super::{Canvas, bold, dimmed};
use crate::tui::app::App;
use crate::tui::keys::SECTIONS;

/// Width of the column of keys.
const KEYS: usize = 8;

pub(super) fn draw(canvas: &mut Canvas, app: &App, first: usize) {
    let lines = lines();
    let height = usize::from(app.size.1.saturating_sub(1)).max(1);
    for (at, (text, style)) in (0..).zip(lines.iter().skip(first).take(height)) {
        canvas.text((1, at), text, *style);
    }
    let more = if lines.len() > height { "j k PgDn g G scroll · " } else { "" };
    let line = app.size.1.saturating_sub(1);
    canvas.text((1, line), &format!("{more}any other key goes back"), dimmed());
}

fn lines() -> Vec<(String, Style)> {
    let mut lines = vec![("Keys of agentctl top".to_owned(), bold())];
    for (section, bindings) in SECTIONS {
        lines.push((String::new(), Style::new()));
        lines.push(((*section).to_owned(), bold()));
        for binding in *bindings {
            let gap = KEYS.saturating_sub(crate::text::columns(binding.shown));
            let text = format!("  {}{}{}", binding.shown, " ".repeat(gap), binding.what);
            lines.push((text, Style::new()));
        }
    }
    lines
}

//! Draws the state: every cell of a frame from the state and the look of the terminal, and nothing else.

mod ask;
mod detail;
mod footer;
mod help;
mod list;

use agentctl_core::model::Status;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::app::App;
use super::charset::Charset;
use super::layout::Band;
use crate::text::columns;

/// The colours of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Palette {
    /// The eight colours that every terminal has.
    Colours,
    /// None: bold, dim and reverse are left.
    Plain,
}

/// A frame, and the place of the cursor if a line is typed.
pub(crate) struct Frame {
    /// The cells.
    pub(crate) cells: Buffer,
    /// The cursor.
    pub(crate) cursor: Option<(u16, u16)>,
}

/// Draws the state.
#[must_use]
pub(crate) fn draw(app: &App, palette: Palette) -> Frame {
    let area = Rect::new(0, 0, app.size.0, app.size.1);
    let mut canvas = Canvas { cells: Buffer::empty(area), palette, charset: app.charset };
    let mut cursor = None;
    let Some(layout) = app.layout else {
        canvas.text((0, 0), "agentctl top needs 30 x 6", Style::new());
        return Frame { cells: canvas.cells, cursor };
    };
    if let Some(first) = app.help {
        help::draw(&mut canvas, app, first);
        return Frame { cells: canvas.cells, cursor };
    }
    list::draw_header(&mut canvas, app, layout.header);
    list::draw(&mut canvas, app, layout);
    detail::draw(&mut canvas, app, layout);
    ask::draw(&mut canvas, app, layout);
    footer::draw(&mut canvas, app, layout.footer, &mut cursor);
    Frame { cells: canvas.cells, cursor }
}

/// The cells that are drawn on.
struct Canvas {
    cells: Buffer,
    palette: Palette,
    charset: Charset,
}

impl Canvas {
    fn width(&self) -> u16 {
        self.cells.area.width
    }

    /// Writes a text and returns the column behind it. It is cut at the right edge; control characters are
    /// neutralised.
    fn text(&mut self, (column, line): (u16, u16), text: &str, style: Style) -> u16 {
        if line >= self.cells.area.height || column >= self.width() {
            return column;
        }
        let text = self.charset.drawn(text);
        // Nothing of the style of a cell that was drawn before stays.
        let style = Style {
            fg: style.fg.filter(|_| self.palette == Palette::Colours).or(Some(Color::Reset)),
            sub_modifier: Modifier::all().difference(style.add_modifier),
            ..style
        };
        let room = usize::from(self.width() - column);
        let (end, _) = self.cells.set_stringn(column, line, &text, room, style);
        end
    }

    /// Returns how many columns are left for the words at the right end of a rule, behind a title of so many columns.
    fn rule_room(&self, title: usize) -> usize {
        usize::from(self.width()).saturating_sub(title + 5)
    }

    /// Writes a line across a pane: a title, and words at its right end.
    fn rule(&mut self, line: u16, title: &[(String, Style)], right: &str) {
        let dash = "─".repeat(usize::from(self.width()));
        let style = Style::new().add_modifier(Modifier::DIM);
        self.text((0, line), &dash, style);
        let mut column = 1;
        for (text, style) in title {
            column = self.text((column, line), text, *style);
        }
        // Words that do not fit are left out.
        let room = self.rule_room(usize::from(column) - 1);
        if (1..=room).contains(&columns(right)) {
            let wide = u16::try_from(columns(right)).unwrap_or(0);
            let begin = self.width().saturating_sub(wide + 3);
            self.text((begin, line), &format!(" {right} "), Style::new());
        }
    }
}

/// Returns the lines of a band.
fn lines_of(band: Band) -> impl Iterator<Item = u16> {
    band.top..band.top + band.height
}

/// Returns how many rows or lines are above and below, such as ` ↑9 ↓3`.
fn arrows(above: usize, below: usize) -> String {
    let part = |mark: char, count: usize| match count {
        0 => String::new(),
        count => format!(" {mark}{count}"),
    };
    format!("{}{}", part('↑', above), part('↓', below))
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dimmed() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn status_style(status: Status) -> Style {
    match status {
        Status::Waiting => bold().fg(Color::Yellow),
        Status::Running => Style::new().fg(Color::Green),
        Status::Idle => Style::new().fg(Color::Cyan),
        Status::Unknown => Style::new().fg(Color::Magenta),
        Status::Error => Style::new().fg(Color::Red),
        Status::Stopped => dimmed(),
    }
}

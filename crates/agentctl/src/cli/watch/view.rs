//! A watched list as it is shown: on a screen of its own, or printed whenever it changes. `list` and every other
//! listing command share this.

use std::ops::Range;

use agentctl_core::model::Time;
use anstyle::Style;

use super::super::shape::Shape;
use crate::face::{Feed, ListRow, StreamEnd};
use crate::failure::Failure;
use crate::text::{fit, one_line};
use crate::ui::{Canvas, Screen, ScreenCalls, Ui};

/// Most lines of a screen that warnings take.
const MAX_WARNINGS: usize = 3;
/// The columns of the mark in front of each row.
const MARK_WIDTH: usize = 2;

/// A list at one moment.
pub(in crate::cli) trait Frame {
    /// The kind of its rows.
    type Row: ListRow;

    /// Returns the form in which it is shown.
    fn shape(&self) -> &Shape<Self::Row>;

    /// Says whether more than an age differs from the list before.
    fn has_changed(&self) -> bool;

    /// Returns the first line of a screen of this width.
    fn heading(&self, width: usize) -> String;

    /// Returns when its ages and the clock are to be drawn again.
    fn next_paint(&self, now: Time) -> Time;

    /// Returns the lines that are shown instead of an empty list.
    fn empty_lines(&self) -> Vec<String>;

    /// Returns the warnings, each as one line.
    fn warnings(&self) -> Vec<String>;

    /// Returns the number of rows.
    fn row_count(&self) -> usize;

    /// Draws the rows of the list, in its order.
    fn draw(&self, canvas: Canvas) -> String;

    /// Draws at most this many rows, those that need a person first.
    fn draw_top(&self, canvas: Canvas, count: usize) -> TopRows;
}

/// The first rows of a list.
pub(in crate::cli) struct TopRows {
    /// Their lines, with the heading of the columns.
    pub(in crate::cli) text: String,
    /// Says for each row whether the last change changed it.
    pub(in crate::cli) changed: Vec<bool>,
}

/// The way in which a list is shown.
pub(in crate::cli) enum View {
    /// On the screen of a terminal.
    Screen(Box<ScreenView>),
    /// One list after another.
    Printed(PrintedView),
    /// One JSON document a line.
    Json,
}

impl View {
    /// Opens a screen if stdout is a terminal and the form is not JSON.
    pub(in crate::cli) fn open(
        ui: &Ui,
        is_json: bool,
        feed: &Feed,
        end: &StreamEnd,
    ) -> std::io::Result<Self> {
        if is_json {
            return Ok(Self::Json);
        }
        if !ui.has_screen() {
            return Ok(Self::Printed(PrintedView::default()));
        }
        let (end, notifier) = (end.clone(), feed.notifier());
        let (leave, redraw) = (move || end.end(), move || notifier.notify());
        let calls = ScreenCalls {
            stay: Box::new(|| false),
            leave: Box::new(leave),
            redraw: Box::new(redraw),
        };
        let screen = Screen::open(calls)?;
        Ok(Self::Screen(Box::new(ScreenView { screen, lines: Vec::new(), valid: None })))
    }

    pub(in crate::cli) fn is_screen(&self) -> bool {
        matches!(self, Self::Screen(_))
    }
}

/// Lists that are printed one after another, off a terminal.
#[derive(Default)]
pub(in crate::cli) struct PrintedView {
    text: Option<String>,
}

impl PrintedView {
    /// Prints the list if more than an age differs from the list that was printed last.
    pub(in crate::cli) fn print(&mut self, ui: &mut Ui, frame: &impl Frame) -> Result<(), Failure> {
        if !frame.has_changed() {
            return Ok(());
        }
        let shape = frame.shape();
        let text = if frame.row_count() > 0 { frame.draw(shape.canvas(ui)) } else { String::new() };
        if self.text.as_ref() == Some(&text) {
            return Ok(());
        }
        let has_limit = shape.arrangement.limit == Some(0);
        if frame.row_count() == 0 && !shape.is_for_programs() && !has_limit {
            for line in frame.empty_lines() {
                ui.line(&line)?;
            }
        }
        ui.drawn(&text)?;
        ui.line("")?;
        self.text = Some(text);
        Ok(())
    }
}

/// The list on the alternate screen of a terminal.
pub(in crate::cli) struct ScreenView {
    screen: Screen,
    lines: Vec<String>,
    /// When the lines were made, and when their ages and the clock are to be made again.
    valid: Option<Range<Time>>,
}

impl ScreenView {
    /// Says whether an age or the clock on the screen may be out of date. The list itself is not: it is made again
    /// after every change.
    pub(in crate::cli) fn is_due(&self, now: Time) -> bool {
        // Also if the clock was set back.
        self.valid.as_ref().is_some_and(|valid| !valid.contains(&now))
    }

    /// Draws the list, with the rows that need a person on top and as many rows as fit the height.
    pub(in crate::cli) fn paint(
        &mut self,
        ui: &mut Ui,
        now: Time,
        frame: &impl Frame,
    ) -> Result<(), Failure> {
        ui.measure_again();
        let height = self.screen.height();
        let canvas = ui.canvas();
        let width = canvas.width.unwrap_or(80);
        let mut lines = vec![fit(&frame.heading(width), width)];
        let warning = |text: &String| fit(&one_line(&format!("warning: {text}")), width);
        let warnings: Vec<String> =
            frame.warnings().iter().take(MAX_WARNINGS).map(warning).collect();
        let room = height.saturating_sub(lines.len() + warnings.len()).max(1);
        lines.extend(table(frame, canvas, room));
        lines.extend(warnings);
        lines.truncate(height);
        self.valid = Some(now..frame.next_paint(now));
        if self.screen.take_stale() || self.lines != lines {
            ui.draw_screen(&self.screen, &lines)?;
            self.lines = lines;
        }
        Ok(())
    }
}

/// Returns the rows that fit, each with its mark, below the headings of the columns.
fn table(frame: &impl Frame, canvas: Canvas, room: usize) -> Vec<String> {
    let (shape, all) = (frame.shape(), frame.row_count());
    if all == 0 {
        return frame.empty_lines();
    }
    let width = canvas.width.map(|width| width.saturating_sub(MARK_WIDTH));
    let has_headers = shape.has_headers && !shape.is_for_programs();
    let mut count = room.saturating_sub(usize::from(has_headers)).max(1);
    if all > count {
        count = count.saturating_sub(1).max(1);
    }
    let TopRows { text, changed } = frame.draw_top(Canvas { width, ..canvas }, count);
    let marks: Vec<bool> =
        std::iter::repeat_n(false, usize::from(has_headers)).chain(changed).collect();
    let mut lines = marked(canvas, &text, &marks);
    if shape.is_for_programs() {
        // These lines have no colour, and are not cut yet.
        let width = canvas.width.unwrap_or(usize::MAX);
        lines = lines.iter().map(|line| fit(line, width)).take(count).collect();
    }
    if all > count {
        lines.push(format!("  … {} more", all - count));
    }
    lines
}

/// Puts a mark in front of the changed rows. A template may print several lines for a row: these have no marks.
fn marked(canvas: Canvas, text: &str, marks: &[bool]) -> Vec<String> {
    let has_marks = text.lines().count() == marks.len();
    let mark = |at: usize| if has_marks && marks[at] { "* " } else { "  " };
    let lines = text.lines().enumerate().map(|(at, line)| {
        let mut marked = String::new();
        canvas.paint_onto(&mut marked, Style::new().bold(), mark(at));
        marked.push_str(line);
        marked
    });
    lines.collect()
}

/// The warnings that were reported, in lists that are printed one after another.
pub(in crate::cli) struct Reported<T>(pub(in crate::cli) Vec<T>);

impl<T: Clone + PartialEq> Reported<T> {
    /// Returns the warnings that the list before did not have.
    pub(in crate::cli) fn new_ones(&mut self, now: &[T]) -> Vec<T> {
        let before = std::mem::replace(&mut self.0, now.to_vec());
        now.iter().filter(|warning| !before.contains(warning)).cloned().collect()
    }
}

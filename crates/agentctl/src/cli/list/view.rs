//! A watched list as it is shown: on a screen of its own, or printed whenever it changes.

use std::ops::Range;

use agentctl_core::fleet::Rows;
use agentctl_core::host::Host;
use agentctl_core::model::{Fault, Session, Status, Time};
use anstyle::Style;

use super::super::shape::Form;
use super::{ListArgs, Shape, drawn, empty};
use crate::face::{ListChanges, id_or_pid, local_hour};
use crate::failure::Failure;
use crate::session_table::SessionRow;
use crate::text::{columns, fit, one_line};
use crate::ui::{Canvas, Screen, Ui};

/// Most lines of a screen that warnings take.
const MAX_WARNINGS: usize = 3;
/// How often ages that are counted in seconds are drawn again.
const SECONDS_PACE_MS: i64 = 5_000;
const MINUTE_MS: i64 = 60_000;
/// The columns of the mark in front of each row.
const MARK_WIDTH: usize = 2;

/// A list and everything that decides how it is drawn.
pub(super) struct Scene<'a> {
    pub(super) host: &'a Host,
    pub(super) args: &'a ListArgs,
    pub(super) shape: &'a Shape<SessionRow>,
    pub(super) listing: &'a Rows,
    /// The differences from the list before.
    pub(super) changes: &'a ListChanges,
    /// More than an age differs from the list before.
    pub(super) has_changed: bool,
}

/// Lists that are printed one after another, off a terminal.
#[derive(Default)]
pub(super) struct PrintedView {
    text: Option<String>,
}

impl PrintedView {
    /// Prints the list if more than an age differs from the list that was printed last.
    pub(super) fn print(&mut self, ui: &mut Ui, scene: &Scene<'_>) -> Result<(), Failure> {
        // A template may name a time, which no comparison of rows contains.
        let names_time = match &scene.shape.form {
            Form::Template(template) => template.uses(&["last_activity_at"]),
            _ => false,
        };
        if !scene.has_changed && !names_time {
            return Ok(());
        }
        let text = drawn(scene.shape, scene.shape.canvas(ui), scene.host, scene.listing);
        if self.text.as_ref() == Some(&text) {
            return Ok(());
        }
        let has_limit = scene.shape.arrangement.limit == Some(0);
        if scene.listing.is_empty() && !scene.shape.is_for_programs() && !has_limit {
            for line in empty(scene.args, &scene.listing.faults) {
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
pub(super) struct ScreenView {
    screen: Screen,
    lines: Vec<String>,
    /// When the lines were made, and when their ages and the clock are to be made again.
    valid: Option<Range<Time>>,
}

impl ScreenView {
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, lines: Vec::new(), valid: None }
    }

    /// Says whether an age or the clock on the screen may be out of date. The list itself is not: it is made again
    /// after every change.
    pub(super) fn is_due(&self, now: Time) -> bool {
        // Also if the clock was set back.
        self.valid.as_ref().is_some_and(|valid| !valid.contains(&now))
    }

    /// Draws the list, with the sessions that need a person on top and as many rows as fit the height.
    pub(super) fn paint(&mut self, ui: &mut Ui, scene: &Scene<'_>) -> Result<(), Failure> {
        ui.measure_again();
        let height = self.screen.height();
        let canvas = ui.canvas();
        let width = canvas.width.unwrap_or(80);
        let mut lines = vec![heading(scene, width)];
        let warnings = warnings(&scene.listing.faults, width);
        let room = height.saturating_sub(lines.len() + warnings.len()).max(1);
        lines.extend(table(scene, canvas, room));
        lines.extend(warnings);
        lines.truncate(height);
        let now = scene.host.now();
        self.valid = Some(now..next_paint(now, scene.listing));
        if self.screen.take_stale() || self.lines != lines {
            ui.draw_screen(&self.screen, &lines)?;
            self.lines = lines;
        }
        Ok(())
    }
}

/// Returns when ages and clock are drawn again: at the next minute, or after a few seconds if an age is counted in
/// seconds.
fn next_paint(now: Time, listing: &Rows) -> Time {
    let is_young = |at: Option<Time>| {
        at.is_some_and(|at| (0..MINUTE_MS).contains(&(now.millis() - at.millis())))
    };
    let counts_seconds =
        listing.iter().any(|s| is_young(s.last_activity_at) || is_young(s.started_at));
    let to_minute = MINUTE_MS - now.millis().rem_euclid(MINUTE_MS);
    let wait = if counts_seconds { to_minute.min(SECONDS_PACE_MS) } else { to_minute };
    Time::from_millis(now.millis() + wait).unwrap_or(now)
}

/// Returns the first line: it ends in the key that leaves, so the text before it is cut if it is too long.
fn heading(scene: &Scene<'_>, width: usize) -> String {
    const QUITS: &str = " · q quits";
    let count = |status: Status| scene.listing.iter().filter(|s| s.status == status).count();
    let counts = Status::ALL.iter().map(|status| (count(*status), status.word()));
    let counts: Vec<String> =
        counts.filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let counts = if counts.is_empty() { "no session".to_owned() } else { counts.join(", ") };
    let clock = local_hour(scene.host.now());
    let began = scene.changes.began_to_wait();
    let waiting: Vec<String> = began.iter().map(|s| shown_name(scene.listing, s)).collect();
    let waiting = if waiting.is_empty() {
        String::new()
    } else {
        format!("now waiting: {} · ", waiting.join(", "))
    };
    let text = one_line(&format!("{clock} · {waiting}{counts}"));
    fit(&format!("{}{QUITS}", fit(&text, width.saturating_sub(columns(QUITS)))), width)
}

/// Returns the name of a session, else the part of its id that the table shows, or its pid.
fn shown_name(listing: &Rows, session: &Session) -> String {
    if let Some(name) = &session.name {
        return name.clone();
    }
    let id = session.id.as_deref();
    let at = id.and_then(|id| (0..listing.len()).find(|at| listing.id(*at) == Some(id)));
    id_or_pid(at.and_then(|at| listing.short_id(at)).or(id), session.pid)
}

/// Returns the rows that fit, each with its mark, below the headings of the columns.
fn table(scene: &Scene<'_>, canvas: Canvas, room: usize) -> Vec<String> {
    if scene.listing.is_empty() {
        return empty(scene.args, &scene.listing.faults);
    }
    let width = canvas.width.map(|width| width.saturating_sub(MARK_WIDTH));
    let places = waiting_first(scene.listing);
    let has_headers = scene.shape.has_headers && !scene.shape.is_for_programs();
    let mut count = room.saturating_sub(usize::from(has_headers)).max(1);
    if places.len() > count {
        count = count.saturating_sub(1).max(1);
    }
    let shown = scene.listing.picked(&places[..count.min(places.len())]);
    let text = drawn(scene.shape, Canvas { width, ..canvas }, scene.host, &shown);
    let marks: Vec<bool> = std::iter::repeat_n(false, usize::from(has_headers))
        .chain(shown.iter().map(|session| scene.changes.is_changed(&session)))
        .collect();
    let mut lines = marked(canvas, &text, &marks);
    if scene.shape.is_for_programs() {
        // These lines have no colour, and are not cut yet.
        let width = canvas.width.unwrap_or(usize::MAX);
        lines = lines.iter().map(|line| fit(line, width)).take(count).collect();
    }
    if places.len() > count {
        lines.push(format!("  … {} more", places.len() - count));
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

/// Returns the places of the rows, those of sessions that wait for a person first.
fn waiting_first(listing: &Rows) -> Vec<usize> {
    let waits = |at: &usize| listing.get(*at).is_some_and(|s| s.status == Status::Waiting);
    let (waiting, others): (Vec<usize>, Vec<usize>) = (0..listing.len()).partition(waits);
    [waiting, others].concat()
}

fn warnings(faults: &[Fault], width: usize) -> Vec<String> {
    let line = |fault: &Fault| {
        let place = fault.root.as_deref().map(|root| format!(" ({root})")).unwrap_or_default();
        fit(&one_line(&format!("warning: {}{place}: {}", fault.adapter, fault.message)), width)
    };
    faults.iter().take(MAX_WARNINGS).map(line).collect()
}

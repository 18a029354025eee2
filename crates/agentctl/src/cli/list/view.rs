//! The list of sessions at one moment, for a watched list.

use agentctl_core::fleet::Rows;
use agentctl_core::host::Host;
use agentctl_core::model::{Session, Status, Time};

use super::super::shape::Form;
use super::super::watch::view::{Frame, TopRows};
use super::{ListArgs, Shape, drawn, empty};
use crate::face::{ListChanges, fault_text, id_or_pid, local_hour};
use crate::session_table::SessionRow;
use crate::text::{columns, fit, one_line};
use crate::ui::Canvas;

/// How often ages that are counted in seconds are drawn again.
const SECONDS_PACE_MS: i64 = 5_000;
const MINUTE_MS: i64 = 60_000;

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

impl Frame for Scene<'_> {
    type Row = SessionRow;

    fn shape(&self) -> &Shape<SessionRow> {
        self.shape
    }

    fn has_changed(&self) -> bool {
        // A template may name a time, which no comparison of rows contains.
        let names_time = match &self.shape.form {
            Form::Template(template) => template.uses(&["last_activity_at"]),
            _ => false,
        };
        self.has_changed || names_time
    }

    fn heading(&self, width: usize) -> String {
        heading(self, width)
    }

    fn next_paint(&self, now: Time) -> Time {
        next_paint(now, self.listing)
    }

    fn empty_lines(&self) -> Vec<String> {
        empty(self.args, &self.listing.faults)
    }

    fn warnings(&self) -> Vec<String> {
        self.listing.faults.iter().map(fault_text).collect()
    }

    fn row_count(&self) -> usize {
        self.listing.len()
    }

    fn draw(&self, canvas: Canvas) -> String {
        drawn(self.shape, canvas, self.host, self.listing)
    }

    fn draw_top(&self, canvas: Canvas, count: usize) -> TopRows {
        let places = waiting_first(self.listing);
        let shown = self.listing.picked(&places[..count.min(places.len())]);
        let changed = shown.iter().map(|session| self.changes.is_changed(&session)).collect();
        TopRows { text: drawn(self.shape, canvas, self.host, &shown), changed }
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

/// Returns the places of the rows, those of sessions that wait for a person first.
fn waiting_first(listing: &Rows) -> Vec<usize> {
    let waits = |at: &usize| listing.get(*at).is_some_and(|s| s.status == Status::Waiting);
    let (waiting, others): (Vec<usize>, Vec<usize>) = (0..listing.len()).partition(waits);
    [waiting, others].concat()
}

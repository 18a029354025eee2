//! The changes of asks between two looks: an ask was opened, or it was settled.

use std::collections::{BTreeMap, BTreeSet};

use super::Key;
use super::tracked::Tracked;
use crate::events::{Event, EventKind};
use crate::model::{Ask, Session, Status, Time};

/// The open asks of the last look, by their id.
pub(super) type OpenAsks = BTreeMap<String, Ask>;

/// The asks of a look, and the moment at which it began.
pub(super) struct AskLook<'a> {
    pub(super) asks: &'a [Ask],
    pub(super) sessions: &'a [Session],
    pub(super) at: Time,
}

/// Adds the events of asks, and returns the asks that are open now. An ask whose session cannot be seen stays
/// open: a missing row proves nothing. An ask of a session whose prompt is held back for its detail is not
/// reported yet.
pub(super) fn step(
    last: &OpenAsks,
    look: &AskLook<'_>,
    tracked: &BTreeMap<Key, Tracked>,
    events: &mut Vec<Event>,
) -> OpenAsks {
    let held: BTreeSet<&Key> =
        tracked.iter().filter(|(_, tracked)| tracked.held.is_some()).map(|(key, _)| key).collect();
    let is_held = |ask: &Ask| held.iter().any(|key| key.has_ask(ask));
    let mut open = OpenAsks::new();
    for ask in look.asks.iter().filter(|ask| !is_held(ask)) {
        if !last.contains_key(&ask.id) {
            let at = ask.since.unwrap_or(look.at);
            events.push(about(EventKind::AskOpened, ask, at, session_of(look.sessions, ask)));
        }
        open.insert(ask.id.clone(), ask.clone());
    }
    for (id, ask) in last {
        if open.contains_key(id) {
            continue;
        }
        let session = session_of(look.sessions, ask);
        let is_followed = tracked.keys().any(|key| key.has_ask(ask));
        let is_unclear = match session {
            Some(session) => session.status == Status::Unknown,
            None => is_followed,
        };
        if is_unclear || is_held(ask) {
            open.insert(id.clone(), ask.clone());
            continue;
        }
        events.push(about(EventKind::AskSettled, ask, look.at, session));
    }
    open
}

/// Adds to each event about a session that began to wait the first ask of that session.
pub(super) fn add_to_waiting(look: &AskLook<'_>, events: &mut [Event]) {
    for event in events.iter_mut().filter(|event| event.kind == EventKind::Waiting) {
        let key = event.session.as_ref().and_then(Key::of);
        let ask = key.and_then(|key| look.asks.iter().find(|ask| key.has_ask(ask)));
        event.ask = ask.cloned();
    }
}

/// Records an event that another watcher reported.
pub(super) fn suppose(open: &mut OpenAsks, told: &Event) {
    let Some(ask) = &told.ask else { return };
    match told.kind {
        EventKind::AskOpened => drop(open.insert(ask.id.clone(), ask.clone())),
        EventKind::AskSettled => drop(open.remove(&ask.id)),
        _ => {}
    }
}

fn session_of<'a>(sessions: &'a [Session], ask: &Ask) -> Option<&'a Session> {
    sessions.iter().find(|session| Key::of(session).is_some_and(|key| key.has_ask(ask)))
}

fn about(kind: EventKind, ask: &Ask, at: Time, session: Option<&Session>) -> Event {
    let word = if kind == EventKind::AskOpened { "opened" } else { "settled" };
    let mut event = Event::new(kind, format!("{}-{word}", ask.id), at);
    event.adapter = Some(ask.adapter);
    event.session_id.clone_from(&ask.session_id);
    event.session = session.cloned();
    event.ask = Some(ask.clone());
    event
}

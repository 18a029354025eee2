//! Makes the events about sessions: kind, id and content.

use super::LaunchInfo;
use super::tracked::Tracked;
use crate::events::{Event, EventKind};
use crate::model::{ProcId, Session, Status, Time, identity};

/// Returns the kind of event for a status.
#[must_use]
pub fn kind_of(status: Status) -> EventKind {
    match status {
        Status::Running => EventKind::Running,
        Status::Waiting => EventKind::Waiting,
        Status::Idle => EventKind::Idle,
        Status::Stopped => EventKind::Stopped,
        Status::Error => EventKind::Error,
        Status::Unknown => EventKind::Unknown,
    }
}

pub(super) fn begun_id(run: &str) -> String {
    format!("{run}-started")
}

pub(super) fn over_id(launch: &LaunchInfo) -> String {
    format!("{}-stopped", launch.run)
}

pub(super) fn about(
    kind: EventKind,
    id: String,
    at: Time,
    session: &Session,
    launch: Option<&LaunchInfo>,
) -> Event {
    let mut event = Event::new(kind, id, at);
    event.adapter = Some(session.adapter);
    event.session_id.clone_from(&session.id);
    event.session = Some(session.clone());
    event.callback = launch.and_then(|launch| launch.callback.clone());
    let of_run = matches!(kind, EventKind::Started | EventKind::Stopped | EventKind::Error);
    event.run = launch.filter(|_| of_run).map(|launch| launch.run.clone());
    event
}

pub(super) fn process_text(session: &Session) -> Option<String> {
    let text = |p: &ProcId| format!("{}:{}:{:?}:{}", p.pid, p.start_ticks, p.inode, p.boot_id);
    session.processes.first().map(|serving| text(&serving.id))
}

/// Returns the id of a start. Two watchers that see the same process start, or ask the same server, compute
/// the same id.
pub(super) fn started_id(session: &Session) -> String {
    let began = session.started_at.map(|t| t.to_string());
    let sign = process_text(session).or(began).unwrap_or_default();
    let id = session.id.as_deref().unwrap_or_default();
    identity(&[session.adapter, &session.root, id, EventKind::Started.word(), &sign])
}

pub(super) fn edge_id(kind: EventKind, tracked: &Tracked) -> String {
    let session = &tracked.session;
    let newest = session.ended_at.or(session.last_activity_at).map(|t| t.to_string());
    let reason = session.reason.as_ref();
    let why = reason.map(|r| (r.kind.word(), r.detail.as_deref().unwrap_or_default()));
    let (why, detail) = why.unwrap_or_default();
    identity(&[
        session.adapter,
        &session.root,
        session.id.as_deref().unwrap_or_default(),
        kind.word(),
        &newest.unwrap_or_default(),
        // Two processes may serve the session without a new entry.
        &tracked.process,
        why,
        detail,
        tracked.told.as_ref().map_or("", |told| told.status.word()),
        &tracked.count.to_string(),
    ])
}

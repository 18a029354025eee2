//! Locks and fuses between two looks.

use super::{Event, EventKind, identity};
use crate::fuses::Fuse;
use crate::locks::{Kind, Lock, SOURCE};
use crate::model::{Fault, Time};

/// What one look says about locks and fuses, and what could not be asked.
#[derive(Clone, Debug, Default)]
pub struct Things {
    /// Who keeps a directory.
    pub locks: Vec<Lock>,
    /// The fuses that burn.
    pub fuses: Vec<Fuse>,
    /// What could not be asked: what is missing there may be hidden.
    pub faults: Vec<Fault>,
}

/// Tells what has changed; returns what the next look is compared with.
pub(super) fn step(
    before: &Things,
    now: &Things,
    at: Time,
    followed: &dyn Fn(&'static str, &str) -> bool,
    events: &mut Vec<Event>,
) -> Things {
    let mut next = now.clone();
    for lock in &now.locks {
        if !before.locks.iter().any(|was| is_same(was, lock)) {
            events.push(about_lock(EventKind::LockAcquired, lock, at));
        }
    }
    for was in &before.locks {
        if now.locks.iter().any(|lock| is_same(was, lock)) {
            continue;
        }
        if is_hidden(was, now, followed) {
            next.locks.push(was.clone());
        } else {
            events.push(about_lock(EventKind::LockReleased, was, at));
        }
    }
    for fuse in &now.fuses {
        match before.fuses.iter().find(|was| was.id == fuse.id) {
            None => events.push(about_fuse(EventKind::FuseSet, fuse, fuse.set_at.min(at))),
            Some(was) if was.due_at != fuse.due_at => {
                events.push(about_fuse(EventKind::FuseExtended, fuse, at));
            }
            Some(_) => {}
        }
    }
    for was in &before.fuses {
        let here = now.fuses.iter().any(|fuse| fuse.id == was.id);
        // One that is due goes because it is fired, and who fires it tells so.
        if !here && was.due_at.is_none_or(|due| due > at) {
            events.push(about_fuse(EventKind::FuseCancelled, was, at));
        }
    }
    next
}

/// Says whether two looks saw the same keeper. A process that has found its session is still the same.
fn is_same(a: &Lock, b: &Lock) -> bool {
    let (left, right) = (&a.holder, &b.holder);
    if a.directory != b.directory || left.kind != right.kind {
        return false;
    }
    match left.kind {
        Kind::Manual => left.since == right.since && left.by == right.by,
        Kind::Occupied => {
            let session = left.session.is_some()
                && (left.adapter, &left.session) == (right.adapter, &right.session);
            session || (left.pid.is_some() && left.pid == right.pid)
        }
    }
}

/// Says whether a keeper that is missing may still be there.
fn is_hidden(was: &Lock, now: &Things, followed: &dyn Fn(&'static str, &str) -> bool) -> bool {
    let faulty = |adapter| now.faults.iter().any(|fault| fault.adapter == adapter);
    match (was.holder.kind, was.holder.adapter, &was.holder.session) {
        (Kind::Manual, ..) => faulty(SOURCE),
        (Kind::Occupied, Some(adapter), Some(session)) => followed(adapter, session),
        (Kind::Occupied, Some(adapter), None) => faulty(adapter),
        (Kind::Occupied, None, _) => false,
    }
}

fn about_lock(kind: EventKind, lock: &Lock, now: Time) -> Event {
    let holder = &lock.holder;
    let at = match kind {
        EventKind::LockAcquired => holder.since.filter(|since| *since <= now).unwrap_or(now),
        _ => now,
    };
    let who = match (&holder.session, holder.pid) {
        (Some(session), _) => session.clone(),
        (None, Some(pid)) => pid.to_string(),
        (None, None) => holder.by.clone().unwrap_or_default(),
    };
    let since = holder.since.map(|t| t.to_string()).unwrap_or_default();
    let id = identity(&[kind.word(), &lock.directory, holder.kind.word(), &who, &since]);
    let mut event = Event::new(kind, id, at);
    event.adapter = holder.adapter;
    event.session_id.clone_from(&holder.session);
    event.lock = Some(lock.clone());
    event
}

/// Makes the event of a fuse, also for whoever fires it.
#[must_use]
pub fn about_fuse(kind: EventKind, fuse: &Fuse, at: Time) -> Event {
    let due = fuse.due_at.map(|t| t.to_string()).unwrap_or_default();
    let mut event = Event::new(kind, identity(&[kind.word(), &fuse.id, &due]), at);
    event.session_id.clone_from(&fuse.session);
    event.fuse = Some(fuse.clone());
    event
}

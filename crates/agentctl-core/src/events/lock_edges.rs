//! The changes of locks and fuses between two looks.

use super::{Event, EventKind};
use crate::fuses::{Fuse, FuseState};
use crate::locks::{Holder, Kind, Lock};
use crate::model::{Fault, OWN_SOURCE, Time, identity};

/// The locks, fuses and faults of one look.
#[derive(Clone, Debug, Default)]
pub struct LocksAndFuses {
    /// The directories that are occupied or locked.
    pub locks: Vec<Lock>,
    /// The fuses, including those that have just expired.
    pub fuses: Vec<Fuse>,
    /// Some fuse files could not be read, so a missing fuse may still exist.
    pub fuses_hidden: bool,
    /// The faults of the look: a missing lock may be hidden by one of them.
    pub faults: Vec<Fault>,
}

impl LocksAndFuses {
    /// Records an event that another watcher reported.
    pub(super) fn suppose(&mut self, told: &Event) {
        if let Some(lock) = &told.lock {
            self.locks.retain(|was| !is_same(was, lock));
            if told.kind == EventKind::LockAcquired {
                self.locks.push(lock.clone());
            }
        }
        if let Some(fuse) = &told.fuse {
            self.fuses.retain(|was| was.id != fuse.id);
            if matches!(told.kind, EventKind::FuseSet | EventKind::FuseExtended) {
                self.fuses.push(fuse.clone());
            }
        }
    }
}

/// Reports the changes; returns the state that the next look is compared with.
pub(super) fn step(
    before: &LocksAndFuses,
    now: &LocksAndFuses,
    at: Time,
    followed: &dyn Fn(&'static str, &str) -> bool,
    events: &mut Vec<Event>,
) -> LocksAndFuses {
    let mut next = now.clone();
    // A new occupant that may be one already reported is reported when it is known to be another.
    let is_new = |lock: &Lock| !before.locks.iter().any(|was| is_same(was, lock));
    next.locks.retain(|lock| !(is_new(lock) && may_be_another(lock, &now.locks)));
    keep_one_of_each(&before.locks, &mut next.locks);
    for lock in next.locks.iter().filter(|lock| is_new(lock)) {
        events.push(about_lock(EventKind::LockAcquired, lock, at));
    }
    for was in &before.locks {
        if now.locks.iter().any(|lock| is_same(was, lock)) {
            continue;
        }
        if is_hidden(was, now, followed) {
            next.locks.push(was.clone());
        } else {
            let at = freed(was, events, at);
            events.push(about_lock(EventKind::LockReleased, was, at));
        }
    }
    let burns = |fuse: &&Fuse| fuse.state == FuseState::Burning;
    for fuse in now.fuses.iter().filter(burns) {
        match before.fuses.iter().find(|was| was.id == fuse.id) {
            None => events.push(about_fuse(EventKind::FuseSet, fuse, fuse.set_at.min(at))),
            Some(was) if was.extended_at != fuse.extended_at => {
                let when = fuse.extended_at.unwrap_or(at).min(at);
                events.push(about_fuse(EventKind::FuseExtended, fuse, when));
            }
            Some(_) => {}
        }
    }
    // An expired fuse is still listed; its event is sent when it fires.
    for was in before.fuses.iter().filter(burns) {
        if now.fuses.iter().any(|fuse| fuse.id == was.id) {
            continue;
        }
        if now.fuses_hidden {
            next.fuses.push(was.clone());
        } else {
            events.push(about_fuse(EventKind::FuseCancelled, was, at));
        }
    }
    next
}

/// While a process exits, one occupant may show as two: a session without a process, and a process without
/// a session. The occupant that was reported is kept.
fn keep_one_of_each(before: &[Lock], now: &mut Vec<Lock>) {
    for was in before {
        if now.iter().filter(|lock| is_same(was, lock)).count() > 1 {
            now.retain(|lock| !is_same(was, lock));
            now.push(was.clone());
        }
    }
}

/// Says whether two looks saw the same occupant. A process that has got a session is still the same.
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

/// Says whether a session without a process may be served by a process without a session in the same place.
fn may_be_another(lock: &Lock, all: &[Lock]) -> bool {
    let unserved = |holder: &Holder| {
        holder.kind == Kind::Occupied && holder.session.is_some() && holder.pid.is_none()
    };
    unserved(&lock.holder)
        && all.iter().any(|other| {
            let holder = &other.holder;
            other.directory == lock.directory
                && holder.adapter == lock.holder.adapter
                && holder.session.is_none()
                && holder.pid.is_some()
        })
}

/// Returns when a directory became free: when its lock expired, or when the session that occupied it ended,
/// as far as that was reported.
fn freed(was: &Lock, events: &[Event], now: Time) -> Time {
    let holder = &was.holder;
    let ended = |event: &&Event| {
        matches!(event.kind, EventKind::Stopped | EventKind::Error)
            && (event.adapter, &event.session_id) == (holder.adapter, &holder.session)
    };
    let ended = events.iter().find(ended).filter(|_| holder.session.is_some());
    let expired = holder.until.filter(|at| *at <= now);
    expired.or(ended.map(|event| event.at)).unwrap_or(now)
}

/// Says whether an occupant that is missing may still be there.
fn is_hidden(
    was: &Lock,
    now: &LocksAndFuses,
    followed: &dyn Fn(&'static str, &str) -> bool,
) -> bool {
    let faulty = |adapter| now.faults.iter().any(|fault| fault.adapter == adapter);
    match (was.holder.kind, was.holder.adapter, &was.holder.session) {
        (Kind::Manual, ..) => faulty(OWN_SOURCE),
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
    let session = holder.session.as_deref().unwrap_or_default();
    // A session may come back to its directory, as another process.
    let pid = holder.pid.map(|pid| pid.to_string()).unwrap_or_default();
    let by = holder.by.as_deref().unwrap_or_default();
    let since = holder.since.map(|t| t.to_string()).unwrap_or_default();
    let id =
        identity(&[kind.word(), &lock.directory, holder.kind.word(), session, &pid, by, &since]);
    let mut event = Event::new(kind, id, at);
    event.adapter = holder.adapter;
    event.session_id.clone_from(&holder.session);
    event.lock = Some(lock.clone());
    event
}

/// Makes the event of a fuse, also when it fires. Fields that may hold a secret are left out.
#[must_use]
pub fn about_fuse(kind: EventKind, fuse: &Fuse, at: Time) -> Event {
    // A fuse is set, cancelled and fired once, but may be extended several times.
    let when = fuse.extended_at.filter(|_| kind == EventKind::FuseExtended);
    let when = when.map(|t| t.to_string()).unwrap_or_default();
    let mut event = Event::new(kind, identity(&[kind.word(), &fuse.id, &when]), at);
    event.session_id.clone_from(&fuse.session);
    event.fuse = Some(fuse.told());
    event
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn kept(session: Option<&str>, pid: Option<u32>) -> Lock {
        let holder = Holder {
            kind: Kind::Occupied,
            session: session.map(str::to_owned),
            adapter: Some("demo"),
            pid,
            by: None,
            reason: None,
            since: None,
            until: None,
            what: String::new(),
        };
        Lock { directory: "/w".to_owned(), holder }
    }

    /// Plays looks one after the other and returns what is told.
    fn told(looks: &[&[Lock]]) -> Vec<(&'static str, Option<u32>)> {
        let mut before = LocksAndFuses::default();
        let mut events = Vec::new();
        for locks in looks {
            let now = LocksAndFuses { locks: locks.to_vec(), ..LocksAndFuses::default() };
            let at = Time::from_millis(0).unwrap();
            before = step(&before, &now, at, &|_, _| false, &mut events);
        }
        let pid = |event: &Event| event.lock.as_ref().and_then(|lock| lock.holder.pid);
        events.iter().map(|event| (event.kind.word(), pid(event))).collect()
    }

    #[test]
    fn a_session_that_its_process_is_not_joined_to_yet_keeps_its_directory_once() {
        let (process, session) = (kept(None, Some(7)), kept(Some("s"), None));
        let joined = kept(Some("s"), Some(7));
        let once = [("lock.acquired", Some(7)), ("lock.released", Some(7))];
        assert_eq!(told(&[&[process.clone(), session.clone()], from_ref(&joined), &[]]), once);
        let looks: [&[Lock]; 4] =
            [from_ref(&process), &[process.clone(), session.clone()], from_ref(&joined), &[]];
        assert_eq!(told(&looks), once);
        // Its process ends, and cannot be joined to it any more.
        let ends: [&[Lock]; 3] = [from_ref(&joined), &[process.clone(), session.clone()], &[]];
        assert_eq!(told(&ends), once);
        // They are two after all: each is told.
        let other = kept(Some("t"), Some(7));
        let both = told(&[&[process, session.clone()], &[other, session]]);
        assert_eq!(both, [("lock.acquired", Some(7)), ("lock.acquired", None)]);
    }
}

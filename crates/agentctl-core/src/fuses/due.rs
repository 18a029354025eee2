//! Which fuses are due, and when the next one is.
//!
//! Everything is reckoned from the clock on the wall and from one look at what lives; nothing is
//! remembered. What is not known (a cost, when a session last did something, whether another one works
//! in the directory) makes no fuse burn down.

use crate::fleet;
use crate::host::Host;
use crate::locks;
use crate::model::{Listing, ReasonKind, Session, Status, Time};

use super::{Bound, Cause, Fuse, FuseState, after};

/// A fuse that has burnt down.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// The fuse, as it was read.
    pub fuse: Fuse,
    /// Why.
    pub cause: Cause,
    /// When its condition came true, as far as that can be told.
    pub at: Time,
}

/// Returns the fuses that have burnt down by now.
///
/// The listing is a look at what lives, with what rests in shared servers. `cost` says what a session has
/// cost so far; it is asked only where a fuse depends on it.
pub fn due(
    host: &Host,
    fuses: &[Fuse],
    listing: &Listing,
    cost: &mut dyn FnMut(&Session) -> Option<f64>,
    now: Time,
) -> Vec<Due> {
    let burning = fuses.iter().filter(|f| f.state == FuseState::Burning);
    let due = burning.filter_map(|fuse| {
        let moments = moments(host, fuse, listing);
        let past = moments.into_iter().filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at);
        let (at, cause) = past.or_else(|| {
            let most = fuse.max_cost_usd?;
            let sessions = sessions(host, fuse, listing);
            let over = sessions.into_iter().any(|s| cost(s).is_some_and(|cost| cost >= most));
            over.then_some((now, Cause::MaxCost))
        })?;
        Some(Due { fuse: fuse.clone(), cause, at })
    });
    due.collect()
}

/// Returns when the next fuse burns down if nothing else happens until then.
#[must_use]
pub fn next_due(host: &Host, fuses: &[Fuse], listing: &Listing, now: Time) -> Option<Time> {
    let burning = fuses.iter().filter(|f| f.state == FuseState::Burning);
    let moments = burning.flat_map(|fuse| moments(host, fuse, listing));
    moments.map(|(at, _)| at).filter(|at| *at > now).min()
}

/// The moments at which a fuse burns down, as things stand now; what it costs aside.
fn moments(host: &Host, fuse: &Fuse, listing: &Listing) -> Vec<(Time, Cause)> {
    let mut moments: Vec<(Time, Cause)> =
        fuse.due_at.map(|at| (at, Cause::Ttl)).into_iter().collect();
    if fuse.idle_ms.is_none() && fuse.max_runtime_ms.is_none() {
        return moments;
    }
    let sessions = sessions(host, fuse, listing);
    if let Some(limit) = fuse.idle_ms
        && let Some(at) = idle_since(host, fuse, &sessions, listing).and_then(|t| after(t, limit))
    {
        moments.push((at, Cause::Idle));
    }
    if let Some(limit) = fuse.max_runtime_ms {
        let began = sessions.iter().filter_map(|s| runs_since(host, s)).min();
        moments.extend(began.and_then(|t| after(t, limit)).map(|at| (at, Cause::MaxRuntime)));
    }
    moments
}

/// The sessions a fuse is about: the one it is bound to, or those at work in its directory.
fn sessions<'a>(host: &Host, fuse: &Fuse, listing: &'a Listing) -> Vec<&'a Session> {
    let live = listing.sessions.iter().filter(|s| s.status.is_live() && s.parent.is_none());
    match fuse.bound() {
        Some(Bound::Directory(directory)) => live
            .filter(|s| !fleet::rests(s) && locks::works_in(host, s, directory.as_ref()))
            .collect(),
        Some(Bound::Session { adapter, root, id }) => live
            .filter(|s| s.adapter == adapter && s.root == root && s.id.as_ref() == Some(&id))
            .collect(),
        None => Vec::new(),
    }
}

/// Since when all of them have been idle; `None` when one is not, or when that cannot be told.
fn idle_since(host: &Host, fuse: &Fuse, sessions: &[&Session], listing: &Listing) -> Option<Time> {
    // One that could not be seen may be at work.
    if fuse.directory.is_some() && listing.faults.iter().any(locks::is_blind) {
        return None;
    }
    let mut latest: Option<Time> = None;
    for session in sessions {
        let at_work = session.reason.as_ref().is_some_and(|r| r.kind == ReasonKind::Background);
        if session.status != Status::Idle || at_work {
            return None;
        }
        // An old session that was opened again a moment ago has been idle for a moment.
        let opened = if session.hosted { None } else { processes(host, session).max() };
        let since = session.last_activity_at?.max(opened.unwrap_or(session.last_activity_at?));
        latest = latest.max(Some(since));
    }
    latest
}

/// Since when a session has been running: its oldest process, or where it has none of its own, since it
/// began.
fn runs_since(host: &Host, session: &Session) -> Option<Time> {
    if session.hosted || session.processes.is_empty() {
        return session.started_at;
    }
    processes(host, session).min()
}

/// When its processes began, as the kernel says.
fn processes(host: &Host, session: &Session) -> impl Iterator<Item = Time> {
    session.processes.iter().map(|serving| &serving.id).filter_map(|id| {
        let process = host.kernel.process(id.pid).ok().flatten()?;
        if process.id == *id { process.started_at } else { None }
    })
}

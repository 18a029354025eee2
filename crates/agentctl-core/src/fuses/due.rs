//! Computes which fuses are due, and when the next one will be.
//!
//! The inputs are the wall clock and one look; nothing is remembered. Unknown facts (a cost, the time of a
//! session's last activity, whether a hidden session works in the directory) never make a fuse expire.

use crate::fleet;
use crate::host::Host;
use crate::locks;
use crate::model::{Fault, Listing, ReasonKind, Session, Status, Time};
use crate::runs::Runs;

use super::{Bound, Cause, Fuse, FuseState, after};

/// A fuse whose condition is met.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// The fuse as it was read.
    pub fuse: Fuse,
    /// The condition.
    pub cause: Cause,
    /// When the condition was met, as far as known.
    pub at: Time,
}

/// Returns the fuses that are due now.
///
/// The listing holds the live sessions, including idle ones in shared servers. `cost` returns the cost of a
/// session so far; it is called only for fuses with a cost limit.
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

/// Returns when the next fuse expires if no session changes until then.
#[must_use]
pub fn next_due(host: &Host, fuses: &[Fuse], listing: &Listing, now: Time) -> Option<Time> {
    let burning = fuses.iter().filter(|f| f.state == FuseState::Burning);
    let moments = burning.flat_map(|fuse| moments(host, fuse, listing));
    moments.map(|(at, _)| at).filter(|at| *at > now).min()
}

/// Returns the times at which the conditions of a fuse are met, except its cost limit.
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

/// Returns the sessions of a fuse: the one it is bound to, or those at work in its directory.
fn sessions<'a>(host: &Host, fuse: &Fuse, listing: &'a Listing) -> Vec<&'a Session> {
    let live = listing.sessions.iter().filter(|s| s.status.is_live() && s.parent.is_none());
    match fuse.bound() {
        Some(Bound::Directory(directory)) => live
            .filter(|s| !fleet::rests(s) && locks::works_in(host, s, directory.as_ref()))
            .collect(),
        Some(Bound::Session { adapter, root, id }) => live
            .filter(|s| s.adapter == adapter && s.root == root && s.id.as_ref() == Some(&id))
            .filter(|s| fuse.run.as_ref().is_none_or(|id| Runs::of(host).run(id).serves(host, s)))
            .collect(),
        None => Vec::new(),
    }
}

/// Returns since when all sessions have been idle; `None` when one is not, or when it is unknown.
fn idle_since(host: &Host, fuse: &Fuse, sessions: &[&Session], listing: &Listing) -> Option<Time> {
    // A session that a fault hides may be at work in the directory.
    if fuse.directory.is_some() && listing.faults.iter().any(Fault::hides_adapter) {
        return None;
    }
    let mut latest: Option<Time> = None;
    for session in sessions {
        let at_work = session.reason.as_ref().is_some_and(|r| r.kind == ReasonKind::Background);
        if session.status != Status::Idle || at_work {
            return None;
        }
        // A session that was just opened again has been idle since its process started, not since its last
        // entry.
        let opened = if session.hosted { None } else { processes(host, session).max() };
        let since = session.last_activity_at?.max(opened.unwrap_or(session.last_activity_at?));
        latest = latest.max(Some(since));
    }
    latest
}

/// Returns since when a session has been running: the start of its oldest process, or of the session if it
/// has no process of its own.
fn runs_since(host: &Host, session: &Session) -> Option<Time> {
    if session.hosted || session.processes.is_empty() {
        return session.started_at;
    }
    processes(host, session).min()
}

/// Returns the start times of its processes, as the kernel says.
fn processes(host: &Host, session: &Session) -> impl Iterator<Item = Time> {
    session.processes.iter().map(|serving| &serving.id).filter_map(|id| {
        let process = host.kernel.process(id.pid).ok().flatten()?;
        if process.id == *id { process.started_at } else { None }
    })
}

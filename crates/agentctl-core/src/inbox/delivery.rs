//! The behaviour of the agent after an answer.

use std::time::{Duration, Instant};

use super::OpenAsk;
use crate::fleet::{self, Fleet, Query};
use crate::model::{Evidence, Session, Status};
use crate::wakeups::Wakeups;

/// Longest time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Watches the session of an ask until the ask is gone; returns the session and the evidence that the agent
/// moved.
pub(super) fn watch(
    fleet: &Fleet,
    found: &OpenAsk,
    limit: Duration,
) -> (Option<Session>, Option<Evidence>) {
    let until = Instant::now() + limit;
    let target = found.session.target();
    let mut wakeups = Wakeups::new();
    loop {
        let look = fleet::inspect_watched(fleet, std::slice::from_ref(&target), limit);
        let observed = look.seen.into_iter().next().unwrap_or_default();
        let session = observed.session.clone();
        if let Some(session) = &session
            && has_moved(fleet, found, session)
        {
            let evidence = evidence(fleet, session);
            return (Some(session.clone()), Some(evidence));
        }
        if Instant::now() >= until {
            return (session, None);
        }
        let armed = wakeups.arm(&fleet.host, std::iter::once(&observed.watch_targets));
        if armed.news {
            continue;
        }
        let left = until.saturating_duration_since(Instant::now());
        if wakeups.wait(left.min(LOOK_INTERVAL)).is_err() {
            return (session, None);
        }
    }
}

/// Says whether the ask is no longer open, as far as it can be seen. A session that waits has moved only if it waits
/// for another ask: without one, its status is older than the answer, and the next look decides.
fn has_moved(fleet: &Fleet, open: &OpenAsk, session: &Session) -> bool {
    match session.status {
        Status::Waiting => {
            let query = Query { adapter: Some(open.ask.adapter.to_owned()), ..Query::default() };
            let found = fleet::asks(fleet, &query);
            let same = found.rows.iter().filter(|row| row.session.target() == session.target());
            let mut asks = same.flat_map(|row| &row.asks).peekable();
            found.faults.is_empty()
                && asks.peek().is_some()
                && asks.all(|ask| ask.id != open.ask.id)
        }
        Status::Unknown => false,
        _ => true,
    }
}

fn evidence(fleet: &Fleet, session: &Session) -> Evidence {
    let detail = session.reason.as_ref().and_then(|reason| reason.detail.as_deref());
    let says = match (session.status, detail) {
        (Status::Waiting, _) => "it waits for something else now".to_owned(),
        (status, Some(detail)) => format!("it is {}: {detail}", status.word()),
        (status, None) => format!("it is {}", status.word()),
    };
    let id = session.id.as_deref().unwrap_or_default();
    Evidence { source: format!("{}:{id}", session.adapter), says, at: fleet.host.now() }
}

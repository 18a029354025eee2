//! The cause of a session's end: an order of ours in its run, or its exit code or signal.

use crate::host::Host;
use crate::model::{EndedBy, EndedByKind, Evidence, Exit, Session, Status};
use crate::runs::Runs;

/// Adds to an ended session who or what ended it, and the evidence where an order of ours did.
pub(super) fn add_ended_by(host: &Host, session: &mut Session) {
    if session.status.is_live() || session.status == Status::Unknown {
        return;
    }
    let run = session.run.as_deref().map(|run| Runs::of(host).run(run));
    // The session may have been continued after that run, by hand too.
    let run = run.filter(|run| match run.ended() {
        Some(ended) => session.last_activity_at.is_none_or(|last| last <= ended.at),
        None => run.is_attended(host),
    });
    let order = run.and_then(|run| run.end_order());
    session.ended_by = Some(match order {
        Some(order) => {
            let who = order.by.detail.as_deref().unwrap_or("agentctl");
            let says = format!("{who} ordered its end");
            let source = format!("agentctl:{}/ended-by.json", session.run.as_deref().unwrap_or(""));
            session.evidence.push(Evidence { source, says, at: order.at });
            order.by
        }
        None => by_exit(session.exit),
    });
}

fn by_exit(exit: Option<Exit>) -> EndedBy {
    let of = |kind, detail| EndedBy { kind, detail };
    match exit {
        Some(Exit { signal: Some(signal), .. }) => {
            of(EndedByKind::Signal, Some(format!("signal {signal}")))
        }
        // A program that catches a signal often exits with 128 plus its number, and may do so without one.
        Some(Exit { code: Some(code), .. }) if (129..=192).contains(&code) => {
            of(EndedByKind::Unknown, Some(format!("exit code {code}")))
        }
        Some(Exit { code: Some(code), .. }) => {
            of(EndedByKind::Itself, Some(format!("exit code {code}")))
        }
        _ => of(EndedByKind::Unknown, None),
    }
}

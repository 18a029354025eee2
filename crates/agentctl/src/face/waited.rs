//! The result of a wait in words, with its exit code.

use agentctl_core::ask::{Fleet, NotWaited, SessionVerdict, WaitDocument, WaitRequest};
use agentctl_core::model::{Ask, Outcome, Session, Status};
use agentctl_core::wait::{End, Progress, Until, WaitVerdict};

use super::{
    answer_hint, id_or_pid, session_name, session_reason, session_reason_in_brackets, unresolved,
};
use crate::failure::{Failure, Kind};

/// Returns the kind of failure that decides the exit code of a wait; `None` for exit code 0.
#[must_use]
pub fn wait_kind(end: End) -> Option<Kind> {
    match end {
        End::Reached => None,
        End::Missed => Some(Kind::Failed),
        End::Blocked => Some(Kind::Blocked),
        End::TimedOut => Some(Kind::TimedOut),
    }
}

/// Says why a wait ended without its condition: a human is needed, the timeout passed, or the status that was
/// waited for can no longer be reached. The end of a turn needs no sentence: the line of the session says how
/// it ended.
#[must_use]
pub fn wait_failure(document: &WaitDocument, request: &WaitRequest) -> Option<Failure> {
    match document.end {
        End::Reached => None,
        End::Missed => missed(document, request),
        End::Blocked => Some(blocked(document)),
        End::TimedOut => Some(timed_out(document, request)),
    }
}

/// Says why a wait did not take place.
#[must_use]
pub fn not_waited(fleet: &Fleet, why: NotWaited) -> Failure {
    match why {
        NotWaited::NotOne { text, why } => unresolved(fleet, &text, why),
        NotWaited::NoTarget => Failure::new(Kind::Usage, "no session to wait for is named"),
        NotWaited::Io(error) => error.into(),
    }
}

/// Returns a remark about a wait that goes on; `None` where the report is a fault or a verdict.
#[must_use]
pub fn wait_remark(progress: &Progress<'_>) -> Option<String> {
    match progress {
        Progress::Decided(_) | Progress::Fault(_) => None,
        Progress::Unknown(session) => {
            let why = session_reason(session).unwrap_or_else(|| "no source says".to_owned());
            let name = session_name(session);
            Some(format!("the status of {name} is unknown ({why}); still waiting"))
        }
        Progress::NeedsHuman(session) => Some(format!("{}; still waiting", needs_human(session))),
        Progress::Paced(why) => Some(format!("{why}: checking once a second instead")),
    }
}

/// Returns the line of a session whose wait is over: `2a658488  stopped  finished`.
#[must_use]
pub fn wait_line(session: &Session) -> String {
    let ended = session.outcome.map(|outcome| match (outcome, session_reason(session)) {
        (Outcome::Failed, Some(why)) => why,
        (outcome, _) => outcome.word().to_owned(),
    });
    let more =
        ended.or_else(|| session_reason(session)).map(|m| format!("  {m}")).unwrap_or_default();
    format!("{}  {}{more}", session_name(session), session.status.word())
}

fn needs_human(session: &Session) -> String {
    let why = session_reason_in_brackets(session);
    format!("{} waits for a human{why}", session_name(session))
}

fn blocked(document: &WaitDocument) -> Failure {
    let session = first_waiting(document);
    let message = session.map_or_else(|| "a human is needed first".to_owned(), needs_human);
    blocked_hint(document).into_iter().fold(Failure::new(Kind::Blocked, message), Failure::hint)
}

/// Returns the session that blocks a wait: the first of those that wait for a human.
fn first_waiting(document: &WaitDocument) -> Option<&Session> {
    document.sessions.iter().find(|session| session.status == Status::Waiting)
}

/// Returns the hint that names the first ask of the session that blocks a wait, and never that of another session.
#[must_use]
pub fn blocked_hint(document: &WaitDocument) -> Option<String> {
    let session = first_waiting(document)?;
    let is_of = |ask: &&Ask| {
        (ask.adapter, &ask.root, &ask.session_id) == (session.adapter, &session.root, &session.id)
            && (session.id.is_some() || ask.pid == session.pid)
    };
    document.asks.iter().find(is_of).map(answer_hint)
}

fn missed(document: &WaitDocument, request: &WaitRequest) -> Option<Failure> {
    let Until::Status(wanted) = request.until else { return None };
    let row = document.verdicts.iter().find(|row| row.verdict == WaitVerdict::Missed)?;
    let is = row.status.map_or("gone", Status::word);
    let name = id_or_pid(row.id.as_deref(), row.pid);
    let message = format!("{name} is {is} and can no longer become {}", wanted.word());
    Some(Failure::new(Kind::Failed, message))
}

fn timed_out(document: &WaitDocument, request: &WaitRequest) -> Failure {
    let is_open = |row: &&SessionVerdict| row.verdict == WaitVerdict::Pending;
    let open = document.verdicts.iter().filter(is_open).map(|row| match row.status {
        Some(status) => format!("{} is {}", id_or_pid(row.id.as_deref(), row.pid), status.word()),
        None => "a session could not be read".to_owned(),
    });
    let open: Vec<String> = open.collect();
    let after = std::time::Duration::from_millis(request.timeout_ms.unwrap_or_default());
    let message = format!("timed out after {} s: {}", after.as_secs_f64(), open.join(", "));
    blocked_hint(document).into_iter().fold(Failure::new(Kind::TimedOut, message), Failure::hint)
}

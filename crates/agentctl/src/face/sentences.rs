//! Names and short texts about sessions that several interfaces use in their sentences.

use agentctl_core::ask::reason_text;
use agentctl_core::model::{Exit, Session, Target};

/// Returns the short name of a session: `2a658488`, or `pid 6224`.
#[must_use]
pub fn short_session_name(session: &Session) -> String {
    short_name(session.id.as_deref(), session.pid)
}

/// Returns the short name of a session of which only its id or its pid is known.
#[must_use]
pub fn short_name(id: Option<&str>, pid: Option<u32>) -> String {
    const SHORT: usize = 8;
    match (id, pid) {
        (Some(id), _) => id.get(..SHORT).unwrap_or(id).to_owned(),
        (None, Some(pid)) => format!("pid {pid}"),
        (None, None) => "-".to_owned(),
    }
}

/// Returns the full name of a target, with its adapter: `claude-code 2a658488-…`, or `claude-code pid 6224`.
#[must_use]
pub fn target_name(target: &Target) -> String {
    let id = match (&target.session, target.pid) {
        (Some(locator), _) => locator.id.clone(),
        (None, Some(pid)) => format!("pid {pid}"),
        (None, None) => "?".to_owned(),
    };
    format!("{} {id}", target.adapter)
}

/// Returns the detail of a session's status: `tool: npm test`.
#[must_use]
pub fn session_reason(session: &Session) -> Option<String> {
    session.reason.as_ref().map(reason_text)
}

/// Returns the detail of a session's status in brackets, after a blank; empty without a detail.
#[must_use]
pub fn session_reason_in_brackets(session: &Session) -> String {
    session_reason(session).map(|reason| format!(" ({reason})")).unwrap_or_default()
}

/// Describes how a process ended: `exit 0`, `signal 9`; `None` if that is not known.
#[must_use]
pub fn exit_text(exit: Exit) -> Option<String> {
    match (exit.code, exit.signal) {
        (Some(code), _) => Some(format!("exit {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => None,
    }
}

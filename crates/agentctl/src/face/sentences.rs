//! Names and short texts about sessions that several interfaces use in their sentences.

use agentctl_core::ask::reason_text;
use agentctl_core::model::{Exit, Fault, Session};
use agentctl_core::text::shell_word;

/// Returns the text by which every command accepts a session: its whole id, or `pid 6224`. A part of the id may
/// fit other sessions too.
#[must_use]
pub fn session_name(session: &Session) -> String {
    id_or_pid(session.id.as_deref(), session.pid)
}

/// Returns the word of a shell command that names a session: its id, or its pid.
#[must_use]
pub fn session_word(session: &Session) -> String {
    let pid = || session.pid.map(|pid| pid.to_string());
    session.id.as_deref().map(shell_word).or_else(pid).unwrap_or_else(|| "ID".to_owned())
}

/// Returns the same for a session of which only its id or its pid is known.
#[must_use]
pub fn id_or_pid(id: Option<&str>, pid: Option<u32>) -> String {
    match (id, pid) {
        (Some(id), _) => id.to_owned(),
        (None, Some(pid)) => format!("pid {pid}"),
        (None, None) => "-".to_owned(),
    }
}

/// Returns the full name of a session or process, with its adapter: `claude-code 2a658488-…`, or
/// `claude-code pid 6224`.
#[must_use]
pub fn full_name(adapter: &str, id: Option<&str>, pid: Option<u32>) -> String {
    match (id, pid) {
        (Some(id), _) => format!("{adapter} {id}"),
        (None, Some(pid)) => format!("{adapter} pid {pid}"),
        (None, None) => format!("{adapter} ?"),
    }
}

/// Returns a source that failed, with its home and the reason.
#[must_use]
pub fn fault_text(fault: &Fault) -> String {
    let place = fault.root.as_deref().map(|root| format!(" ({root})")).unwrap_or_default();
    format!("{}{place}: {}", fault.adapter, fault.message)
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

/// Returns how a process ended, beside a label that says `exit`: `0`, `signal 9`.
#[must_use]
pub fn exit_value(exit: Exit) -> Option<String> {
    let signal = exit.signal.map(|signal| format!("signal {signal}"));
    exit.code.map(|code| code.to_string()).or(signal)
}

/// Returns how a process ended: `exit 0`, `signal 9`.
#[must_use]
pub fn exit_text(exit: Exit) -> Option<String> {
    let value = exit_value(exit)?;
    Some(if exit.code.is_some() { format!("exit {value}") } else { value })
}

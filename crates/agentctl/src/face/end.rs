//! Sentences about a session that is followed: it waits, or it has ended.

use agentctl_core::model::{Outcome as Ended, Session};

use super::{session_name, session_reason};

/// Returns `session 2a658488 has ended: finished`.
#[must_use]
pub fn session_ended(session: &Session) -> String {
    let how = match (session.outcome, session_reason(session)) {
        (Some(Ended::Failed), Some(why)) => format!(": failed ({why})"),
        (Some(outcome), _) => format!(": {}", outcome.word()),
        (None, _) => String::new(),
    };
    format!("session {} has ended{how}", session_name(session))
}

/// Returns `session 2a658488 waits for a human (question: Which colour?)`.
#[must_use]
pub fn session_waits(session: &Session) -> String {
    let why = session_reason(session).map(|why| format!(" ({why})")).unwrap_or_default();
    format!("session {} waits for a human{why}", session_name(session))
}

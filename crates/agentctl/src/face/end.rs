//! Sentences about a session that is followed: it waits, or it has ended.

use agentctl_core::model::{Outcome as Ended, Session};

use crate::text::one_line;

/// Returns `session 2a658488 has ended: finished`.
#[must_use]
pub fn session_ended(session: &Session) -> String {
    let how = match (session.outcome, reason(session)) {
        (Some(Ended::Failed), Some(why)) => format!(": failed ({why})"),
        (Some(outcome), _) => format!(": {}", outcome.word()),
        (None, _) => String::new(),
    };
    format!("session {} has ended{how}", name(session))
}

/// Returns `session 2a658488 waits for a human (question: Which colour?)`.
#[must_use]
pub fn session_waits(session: &Session) -> String {
    let why = reason(session).map(|why| format!(" ({why})")).unwrap_or_default();
    format!("session {} waits for a human{why}", name(session))
}

fn name(session: &Session) -> String {
    match (&session.id, session.pid) {
        (Some(id), _) => one_line(id).chars().take(8).collect(),
        (None, pid) => format!("of pid {}", pid.unwrap_or_default()),
    }
}

fn reason(session: &Session) -> Option<String> {
    let reason = session.reason.as_ref()?;
    let detail = reason.detail.as_ref().map(|detail| format!(": {}", one_line(detail)));
    Some(format!("{}{}", reason.kind.word(), detail.unwrap_or_default()))
}

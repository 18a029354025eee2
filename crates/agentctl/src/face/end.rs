//! Sentences about a session that is followed: it waits, or it has ended.

use agentctl_core::model::{Outcome as Ended, Session};

use agentctl_core::ask::Fleet;
use agentctl_core::fleet::shortened;
use agentctl_core::names::Names;

use super::{id_or_pid, session_reason};
use crate::text::one_line;

/// Returns `session 2a658488 has ended: finished`.
#[must_use]
pub fn session_ended(fleet: &Fleet, session: &Session) -> String {
    let how = match (session.outcome, session_reason(session)) {
        (Some(Ended::Failed), Some(why)) => format!(": failed ({why})"),
        (Some(outcome), _) => format!(": {}", outcome.word()),
        (None, _) => String::new(),
    };
    format!("session {} has ended{how}", short_name(fleet, session))
}

/// Returns `session 2a658488 waits for a human (question: Which colour?)`.
#[must_use]
pub fn session_waits(fleet: &Fleet, session: &Session) -> String {
    let why = session_reason(session).map(|why| format!(" ({why})")).unwrap_or_default();
    format!("session {} waits for a human{why}", short_name(fleet, session))
}

/// Returns the name of a session, else the part of its id that every command accepts, else its pid.
fn short_name(fleet: &Fleet, session: &Session) -> String {
    // A session whose wait is over comes without the name that a person gave it.
    let mut named = session.clone();
    Names::of(&fleet.host).add(&mut named);
    if let Some(name) = &named.name {
        return one_line(name);
    }
    let id = session.id.as_deref().and_then(|id| shortened(fleet, &[id]).pop());
    id_or_pid(id.as_deref(), session.pid)
}

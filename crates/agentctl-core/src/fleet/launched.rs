//! What only a launch knows, put beside what the agent's own files say: group, run, name, exit code.
//!
//! Nothing here touches a status, an outcome or a process: wipe all runs and only these fields go.

use crate::host::Host;
use crate::model::Session;
use crate::runs::Runs;

/// Adds what the newest run of each session knows.
pub(super) fn add(host: &Host, sessions: &mut [Session]) {
    let runs = Runs::of(host).by_session();
    if runs.is_empty() {
        return;
    }
    for session in sessions {
        let Some(id) = session.id.clone() else { continue };
        let Some((run, spec)) = runs.get(&(session.adapter.to_owned(), id)) else { continue };
        session.run = Some(run.id.clone());
        session.group.clone_from(&spec.group);
        // A name the agent itself keeps is the newer one.
        session.name = session.name.take().or_else(|| spec.name.clone());
        let Some(ended) = run.ended().filter(|_| !session.status.is_live()) else { continue };
        // Somebody else may have continued it since: then how this run ended says nothing.
        if session.last_activity_at.is_none_or(|last| last <= ended.at) {
            session.exit = session.exit.or(Some(ended.exit));
            session.ended_at = session.ended_at.or(Some(ended.at));
        }
    }
}

//! What only a launch knows, put beside what the agent's own files say: group, run, name, exit code.
//!
//! Nothing here touches a status, an outcome or a process: wipe all runs and only these fields go.

use std::collections::HashMap;

use super::Adapters;
use crate::adapters::control::{FirstWords, Handshake, Order};
use crate::host::Host;
use crate::model::{Session, is_session_id};
use crate::runs::{FIRST_BYTES, Run, Runs, Spec, beginning};

/// Adds what the newest run of each session knows.
pub fn add(host: &Host, adapters: Adapters, sessions: &mut [Session]) {
    let mut runs: HashMap<(String, String), (Run, Spec)> = HashMap::new();
    for run in Runs::of(host).all().unwrap_or_default() {
        let Some(spec) = run.spec() else { continue };
        let Some(session) = session_of(host, adapters, &run, &spec) else { continue };
        runs.entry((spec.adapter.clone(), session)).or_insert((run, spec));
    }
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

/// Returns the session of a run: as the launcher wrote it, as it was chosen, or as the agent told it
/// when nobody listened any more.
#[must_use]
pub fn session_of(host: &Host, adapters: Adapters, run: &Run, spec: &Spec) -> Option<String> {
    if let Some(session) = run.session() {
        return Some(session);
    }
    let adapter = adapters.iter().find(|a| a.name() == spec.adapter)?;
    let (stdout, stderr) =
        (beginning(&run.stdout(), FIRST_BYTES), beginning(&run.stderr(), FIRST_BYTES));
    let words = FirstWords { stdout: &stdout, stderr: &stderr };
    let order = Order {
        begin: spec.begin.clone(),
        cwd: spec.cwd.clone(),
        model: spec.model.clone(),
        name: spec.name.clone(),
        permissions: spec.permissions,
        extra: Vec::new(),
        root: None,
    };
    match adapter.control()?.handshake(host, &order, &words) {
        Handshake::Up(id) | Handshake::Nearly(id, _) => Some(id).filter(|id| is_session_id(id)),
        Handshake::Wait | Handshake::Failed(_) => spec.session.clone(),
    }
}

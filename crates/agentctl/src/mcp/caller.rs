//! The session that a request names, and the session that the request comes from.
//!
//! The caller is the agent that started this server: the kernel's line of processes names it. The id `self` means
//! its session. Nothing here is taken from the client's own words.

use agentctl_core::ask::{Fleet, NotOne, RunWithoutSession};
use agentctl_core::inbox::Answerer;
use agentctl_core::model::Target;

use super::Shared;
use crate::face::{exact_argument, refused_below, session_argument, unresolved};
use crate::failure::{Failure, Kind};

/// The id that means the session of the caller.
const SELF: &str = "self";

impl Shared {
    /// Returns the text that names the session of a request: `self` becomes the session of the caller. A session
    /// outside of the scope does not exist.
    pub(super) fn named(&self, fleet: &Fleet, text: &str) -> Result<String, Failure> {
        let text = if text == SELF { own_session(fleet)? } else { text.to_owned() };
        if self.scope.directory().is_none() {
            return Ok(text);
        }
        let nothing = || unresolved(fleet, &text, NotOne::Nothing);
        let targets = match fleet.target(&text) {
            Ok(found) => vec![found.target],
            Err(NotOne::Several { candidates, .. }) => {
                candidates.into_iter().map(|candidate| candidate.target).collect()
            }
            // The sentences of other failures name no session.
            Err(why) => return Err(unresolved(fleet, &text, why)),
        };
        let mut inside = targets.iter().filter(|target| self.admits(fleet, target));
        match (inside.next(), inside.next()) {
            (Some(target), None) => Ok(exact_argument(target)),
            (None, _) => Err(nothing()),
            (Some(_), Some(_)) => {
                let message = format!("`{text}` matches several sessions");
                Err(Failure::new(Kind::Ambiguous, message).hint("give the whole id"))
            }
        }
    }

    fn admits(&self, fleet: &Fleet, target: &Target) -> bool {
        let session = fleet.inspect(target).session;
        session.is_some_and(|session| self.scope.admits(session.cwd.as_deref()))
    }
}

/// Returns the text that names the session of the caller.
fn own_session(fleet: &Fleet) -> Result<String, Failure> {
    let caller = fleet.answerer(std::process::id());
    let mut nearest = caller.nearest_agent().into_iter();
    let missing = |message: &str| {
        Failure::new(Kind::NotFound, message)
            .hint("`list_sessions` shows all sessions; name one by its id")
    };
    let Some(first) = nearest.next() else {
        let message = match &caller.unseen {
            Some(why) => format!("the session of the caller is not known: {why}"),
            None => "`self` names no session: this server was not started by an agent".to_owned(),
        };
        return Err(missing(&message));
    };
    if nearest.next().is_some() {
        let message = format!("`self` is ambiguous: process {} serves several sessions", first.pid);
        return Err(Failure::new(Kind::Ambiguous, message).hint("name the session by its id"));
    }
    let Some(session) = &first.session else {
        return Err(missing(&format!("the session of process {} is not known yet", first.pid)));
    };
    Ok(session_argument(Some(session.adapter), &session.id))
}

/// Fails if a target is the session of the caller, or of an agent above it, or may be.
pub(super) fn check_not_above(
    caller: &Answerer,
    targets: &[Target],
    what: &str,
) -> Result<(), Failure> {
    match targets.iter().find(|target| caller.may_be_below(target)) {
        Some(target) => Err(refused_below(caller, target, what)),
        None => Ok(()),
    }
}

/// Fails if a caller below an agent names a run instead of a session: the run may be its own, or that of an agent
/// above it, whose session is not known yet.
pub(super) fn check_runs_not_above(
    caller: &Answerer,
    runs: &[RunWithoutSession],
) -> Result<(), Failure> {
    let Some(run) = runs.first().filter(|_| caller.unseen.is_some() || !caller.above.is_empty())
    else {
        return Ok(());
    };
    let message = format!(
        "not stopped: run {} (pid {}): it may be the run of the caller or of an agent above it",
        run.run, run.pid
    );
    Err(Failure::new(Kind::Refused, message)
        .hint("name a session by its id as `list_sessions` shows it; a person can stop a run"))
}

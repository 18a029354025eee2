//! The conditions under which a session may be continued: its home is configured, and no process serves it.

use super::LaunchError;
use crate::adapters::control::Begin;
use crate::fleet::{self, Fleet};
use crate::model::{Join, Status, Target};
use crate::orders::{self, Objection};
use crate::runs::{self, Runs};

/// Checks that a session may be opened by another process of its agent: its home is configured, and no process
/// serves the session.
pub fn check_continuable(fleet: &Fleet, from: &Target) -> Result<(), LaunchError> {
    in_known_home(fleet, from)?;
    match &from.session {
        Some(locator) => unserved(fleet, (&locator.id, from), false),
        None => Ok(()),
    }
}

/// Checks that the home of the session is configured. The agent is started with that home as its
/// configuration, hooks included, so a home that only a process named is refused, even with `force`.
pub(super) fn in_known_home(fleet: &Fleet, from: &Target) -> Result<(), LaunchError> {
    let session = from.session.as_ref().map(|locator| locator.id.clone()).unwrap_or_default();
    match orders::known_home(fleet, from) {
        Ok(_) => Ok(()),
        Err(Objection::Refused { why, hint }) => Err(LaunchError::Objected { session, why, hint }),
        Err(Objection::Unknown(why)) => Err(LaunchError::Unclear { session, why }),
    }
}

/// Checks that no process serves the session: two writers would corrupt it. A join by directory and start
/// time only is a doubt, which `force` overrides.
pub(super) fn unserved(
    fleet: &Fleet,
    (id, from): (&str, &Target),
    force: bool,
) -> Result<(), LaunchError> {
    let found = fleet::inspect(fleet, from);
    let unclear = |why: String| LaunchError::Unclear { session: id.to_owned(), why };
    let Some(session) = found.session else {
        let why = found.faults.first().map(|f| f.message.clone());
        return Err(unclear(why.unwrap_or_else(|| "it is not there any more".into())));
    };
    if session.processes.iter().any(|p| p.join == Join::Proved) {
        return Err(LaunchError::Served(Box::new(session)));
    }
    if !session.processes.is_empty() {
        return if force { Ok(()) } else { Err(LaunchError::MayBeServed(Box::new(session))) };
    }
    if session.status == Status::Unknown {
        let why = session.reason.and_then(|r| r.detail);
        return Err(unclear(why.unwrap_or_else(|| "its sources contradict each other".into())));
    }
    // An agent that was just started to continue the session may not have a live record yet.
    let runs = Runs::of(&fleet.host);
    let continues = |run: &str| {
        runs.run(run).spec().is_some_and(|spec| spec.begin == Begin::Resume(id.to_owned()))
    };
    match runs::agents(&fleet.host).find(|(_, marker)| continues(&marker.run)) {
        Some((process, _)) => {
            Err(unclear(format!("pid {} was started to continue it", process.id.pid)))
        }
        None => Ok(()),
    }
}

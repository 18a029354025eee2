//! A session that goes on under its id asks and stays as its last run did: the record of that run says so. Nothing
//! else of a run is taken over, and an option of the request comes first. A session that stays for some time only gets a
//! fuse with each launch.

use std::time::Duration;

use super::{LaunchDefaults, LaunchOptions, LaunchRequest, StartedSession};
use crate::adapters::Adapter;
use crate::adapters::control::Permissions;
use crate::ask::resume::Continuation;
use crate::ask::{Fleet, FuseOrderError, FuseRequest};
use crate::fuses::{Action, Bound, Conditions};
use crate::model::Target;
use crate::runs::{Attendance, Runs};

/// The label of the fuse of a session that stays.
const KEEP_LABEL: &str = "keep";

impl Fleet {
    /// Returns the options of a launch, and the part of them that is as in the last run of the session.
    pub(super) fn options_as_before(
        &self,
        beginning: &Continuation,
        request: &LaunchRequest,
        defaults: &LaunchDefaults,
    ) -> (LaunchOptions, Attendance) {
        let (mut options, mut again) = (request.options.clone(), Attendance::default());
        let last =
            beginning.last_run.as_deref().and_then(|run| Runs::of(&self.host).run(run).spec());
        let last = last.filter(|spec| spec.adapter == beginning.adapter.name());
        let Some(last) = last.map(|spec| spec.attendance) else { return (options, again) };
        if last.keep && !options.keep {
            (again.keep, again.keep_idle_ms) = (true, last.keep_idle_ms);
            (options.keep, options.keep_idle_ms) = (true, last.keep_idle_ms);
        }
        let permissions = options.permissions.unwrap_or(defaults.permissions);
        // With all permissions nothing is asked.
        if options.ask_ms.is_none() && permissions != Permissions::Bypass {
            again.ask_ms = last.ask_ms.map(|ask_ms| limit(beginning.adapter, ask_ms, defaults.ask));
            options.ask_ms = again.ask_ms;
        }
        (options, again)
    }

    /// Sets the fuse that ends a session which stays when it was idle for this long. It goes with the run: the session
    /// may be continued without a limit, or by hand.
    pub(super) fn end_when_idle(
        &self,
        started: &StartedSession,
        target: Option<&Target>,
        idle_ms: u64,
    ) -> Result<(), FuseOrderError> {
        let id = &started.launched.session;
        let target = target.ok_or_else(|| FuseOrderError::NoSession { text: id.clone() })?;
        let request = FuseRequest {
            when: Conditions { idle_ms: Some(idle_ms), ..Conditions::default() },
            on_expire: vec![Action::Stop],
            label: Some(KEEP_LABEL.to_owned()),
            ..FuseRequest::default()
        };
        let (adapter, root) = (target.adapter.to_owned(), target.root.clone());
        let bound = Bound::Session { adapter, root, id: id.clone() };
        let run = started.launched.run.as_ref().map(|run| run.id.clone());
        self.set_fuse_on(&request, bound, run).map(drop)
    }
}

/// Returns the time for each answer. Asks that wait without a limit take only the usual time.
fn limit(adapter: &dyn Adapter, ask_ms: u64, usual: Duration) -> u64 {
    match adapter.answering() {
        Some(answering) if !answering.limits_asks() => {
            u64::try_from(usual.as_millis()).unwrap_or(u64::MAX)
        }
        _ => ask_ms,
    }
}

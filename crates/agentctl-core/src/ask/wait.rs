//! The question `wait`: block until sessions meet a condition, and the document that reports them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use crate::kernel::Held;
use crate::model::{SCHEMA_VERSION, Session, Target};
use crate::runs::Runs;
use crate::wait::{End, Progress, WaitOptions, Waited, wait};

/// The longest time for which the end of a wrapper is awaited.
const WRAPPER_LIMIT: Duration = Duration::from_secs(2);

/// The answer to `wait --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WaitDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The sessions, in the order they were asked for, as they were last seen.
    pub sessions: Vec<Session>,
    /// The timeout passed before all (or, with `--any`, one) of them met the condition.
    pub timed_out: bool,
}

impl Fleet {
    /// Waits for these sessions, and then for the programs that only wrapped a launched agent. `tell` is
    /// called with the progress of the wait.
    pub fn wait(
        &self,
        targets: &[Target],
        options: WaitOptions,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> std::io::Result<Waited> {
        let waited = wait(self, targets, options, tell)?;
        for session in waited.sessions.iter().filter_map(|awaited| awaited.session.as_ref()) {
            self.await_wrapper(session);
        }
        Ok(waited)
    }

    /// Describes the sessions that were waited for. Figures that need the whole record or the run are added,
    /// unless the session has changed since.
    #[must_use]
    pub fn wait_document(&self, waited: &Waited) -> WaitDocument {
        let sessions = waited.sessions.iter().filter_map(|awaited| {
            let session = awaited.session.clone()?;
            let same = |whole: &Session| {
                (whole.status, whole.outcome) == (session.status, session.outcome)
                    && whole.last_activity_at == session.last_activity_at
            };
            let whole = self.inspect(&awaited.target).session;
            Some(whole.filter(same).unwrap_or(session))
        });
        let timed_out = waited.end == End::TimedOut;
        WaitDocument { schema_version: SCHEMA_VERSION, sessions: sessions.collect(), timed_out }
    }

    /// Waits until the program that wrapped an ended agent has ended too. It keeps the directory occupied for
    /// a few moments longer than the agent, so the next launch there would be refused.
    fn await_wrapper(&self, session: &Session) {
        let over = session.run.as_ref().filter(|_| !session.status.is_live());
        let started = over.and_then(|run| Runs::of(&self.host).run(run).started());
        let wrapper = started.and_then(|s| self.host.kernel.hold(&s.process).ok().flatten());
        let _late = wrapper.map(|held| Held::wait_for_all(&[held], WRAPPER_LIMIT));
    }
}

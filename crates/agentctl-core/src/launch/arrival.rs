//! Whether a message arrived: it did when the session's own record holds it, not when a program said so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fleet::Adapters;
use crate::host::Host;
use crate::model::{Message, Role, Target};
use crate::transcript::Transcript;

/// A place in a record from which on a message is looked for.
pub(super) struct Arrival {
    transcript: Option<Transcript>,
}

impl Arrival {
    /// Marks the end of the record as it is now; a session without one begins at its beginning.
    #[must_use]
    pub(super) fn expected(host: &Arc<Host>, adapters: Adapters, target: &Target) -> Self {
        let mut transcript = Transcript::open(host, adapters, target).ok();
        if let Some(open) = &mut transcript {
            // What is there already is not the answer.
            let _seen = open.last_raw(1);
        }
        Self { transcript }
    }

    /// Begins at the beginning of a record that is not there yet.
    #[must_use]
    pub(super) fn unwritten() -> Self {
        Self { transcript: None }
    }

    /// Waits until the record holds this message; says whether it came to that. `over` says that
    /// whoever would write it is gone.
    #[must_use]
    pub(super) fn wait(
        mut self,
        host: &Arc<Host>,
        adapters: Adapters,
        target: &Target,
        message: &str,
        mut over: impl FnMut() -> bool,
    ) -> bool {
        let until = Instant::now() + host.deadlines.launch;
        loop {
            // Looked for before the last read, so that what was written before the end is seen.
            let last = over() || Instant::now() >= until;
            if self.transcript.is_none() {
                self.transcript = Transcript::open(host, adapters, target).ok();
            }
            let more = self.transcript.as_mut().and_then(|t| t.more().ok()).unwrap_or_default();
            if more.iter().any(|m| is_it(m, message)) {
                return true;
            }
            if last {
                return false;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

/// A command of the agent's own (`/compact`) is recorded in the agent's own words.
fn is_it(recorded: &Message, message: &str) -> bool {
    let command = message.starts_with('/');
    let same = |text: &String| text.trim() == message.trim();
    command || (recorded.role == Role::User && recorded.text.as_ref().is_some_and(same))
}

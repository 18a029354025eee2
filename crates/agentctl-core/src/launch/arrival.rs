//! Waits for a message to arrive. It has arrived when the session's record contains it, whatever the
//! agent's output says.

use std::time::{Duration, Instant};

use crate::fleet::Fleet;
use crate::model::{Message, Role, Target};
use crate::transcript::Transcript;

/// The position in a record from which a message is searched.
pub(super) struct Arrival {
    transcript: Option<Transcript>,
}

impl Arrival {
    /// Starts at the current end of the record, or at the beginning if there is none yet.
    #[must_use]
    pub(super) fn expected(fleet: &Fleet, target: &Target) -> Self {
        let mut transcript = Transcript::open(fleet, target).ok();
        if let Some(open) = &mut transcript {
            // Older messages do not count.
            let _seen = open.last_raw(1);
        }
        Self { transcript }
    }

    /// Starts at the beginning of a record that does not exist yet.
    #[must_use]
    pub(super) fn unwritten() -> Self {
        Self { transcript: None }
    }

    /// Waits until the record contains the message; says whether it does. `over` says that the agent has
    /// ended and will write no more.
    #[must_use]
    pub(super) fn wait(
        mut self,
        fleet: &Fleet,
        target: &Target,
        message: &str,
        mut over: impl FnMut() -> bool,
    ) -> bool {
        let until = Instant::now() + fleet.host.deadlines.launch;
        loop {
            // Checked before the read, so that lines written before the end are read.
            let last = over() || Instant::now() >= until;
            if self.transcript.is_none() {
                self.transcript = Transcript::open(fleet, target).ok();
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

/// Says whether a recorded message is the one that was sent. A command of the agent (`/compact`) is
/// recorded in other words, so any message counts for it.
fn is_it(recorded: &Message, message: &str) -> bool {
    let command = message.starts_with('/');
    let same = |text: &String| text.trim() == message.trim();
    command || (recorded.role == Role::User && recorded.text.as_ref().is_some_and(same))
}

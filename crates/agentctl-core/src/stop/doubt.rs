//! The look after a stop, while a process that has just started may serve the session.

use std::time::{Duration, Instant};

use super::Stopping;
use crate::fleet::{self, Inspected};
use crate::model::{Session, Status};

/// Time for a process that may serve a stopped session to say what it serves.
const DOUBT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two looks at a session in doubt.
const DOUBT_INTERVAL: Duration = Duration::from_millis(100);

impl Stopping<'_> {
    /// Looks at the session. A process that starts is a doubt until it says what it serves, so a doubt is looked at again
    /// for a short time.
    pub(super) fn seen_without_doubt(&self) -> Inspected {
        let until = Instant::now() + self.left().min(DOUBT_TIMEOUT);
        loop {
            let seen = fleet::inspect(self.fleet, self.target);
            let is_doubtful = |session: &Session| {
                session.status == Status::Unknown && session.processes.is_empty()
            };
            if !seen.session.as_ref().is_some_and(is_doubtful) || Instant::now() >= until {
                return seen;
            }
            std::thread::park_timeout(DOUBT_INTERVAL);
        }
    }
}

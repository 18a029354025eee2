//! When a hook of a run is run, and how it ended, as kept in the run's folder. `hooks` runs it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Exit, Time};

/// When a hook is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookMoment {
    /// The session has begun.
    Create,
    /// The agent has ended.
    Complete,
}

impl HookMoment {
    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "on-create",
            Self::Complete => "on-complete",
        }
    }
}

/// How a hook ended, as kept in the run's folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HookReport {
    /// Code or signal, when it ended by itself.
    pub exit: Option<Exit>,
    /// What kept it from being run, or from ending in time.
    pub error: Option<String>,
    /// When.
    pub at: Time,
}

impl HookReport {
    /// Makes the report of a program with this time limit that ended, was ended at the limit (`None`), or
    /// could not be run.
    #[must_use]
    pub fn of(outcome: Result<Option<Exit>, String>, limit: Duration, at: Time) -> Self {
        let late = || format!("it was ended after {} s", limit.as_secs());
        match outcome {
            Ok(exit) => Self { exit, error: exit.is_none().then(late), at },
            Err(error) => Self { exit: None, error: Some(error), at },
        }
    }

    /// Returns what went wrong, in one sentence.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        match (&self.error, self.exit) {
            (Some(error), _) => Some(error.clone()),
            (None, Some(Exit { code: Some(0), .. })) => None,
            (None, Some(Exit { code: Some(code), .. })) => Some(format!("it exited with {code}")),
            (None, Some(Exit { signal: Some(signal), .. })) => {
                Some(format!("signal {signal} ended it"))
            }
            (None, _) => Some("how it ended is not known".into()),
        }
    }
}

//! The occasions of a run's hooks, and the report of a hook in the run's folder. `hooks` runs them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Exit, Time};

/// The occasion of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookMoment {
    /// The session has begun.
    Create,
    /// The agent has ended.
    Complete,
}

impl HookMoment {
    /// Returns its name in files and variables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "on-create",
            Self::Complete => "on-complete",
        }
    }
}

/// The report of a hook, stored in the run's folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HookReport {
    /// Code or signal, when it ended by itself.
    pub exit: Option<Exit>,
    /// Why it could not be run, or that the timeout ended it.
    pub error: Option<String>,
    /// The time of its end.
    pub at: Time,
}

impl HookReport {
    /// Builds the report of a program that ended, was ended at its timeout (`None`), or could not be run.
    #[must_use]
    pub fn of(outcome: Result<Option<Exit>, String>, limit: Duration, at: Time) -> Self {
        let late = || format!("it was ended after {} s", limit.as_secs());
        match outcome {
            Ok(exit) => Self { exit, error: exit.is_none().then(late), at },
            Err(error) => Self { exit: None, error: Some(error), at },
        }
    }

    /// Returns the failure in one sentence, if there was one.
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

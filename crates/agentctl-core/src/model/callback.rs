//! The receiver that a launcher names for the end of its session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The receiver of a launch's end, passed on to hooks and webhooks without interpretation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Callback {
    /// The session that asked for the launch (`--callback-session`).
    pub session: Option<String>,
    /// The agent that asked for it (`--callback-agent`).
    pub agent: Option<String>,
}

/// Longest value of a callback.
pub const MAX_CALLBACK_BYTES: usize = 256;

impl Callback {
    /// Returns a callback if any value is given.
    #[must_use]
    pub fn of(session: Option<String>, agent: Option<String>) -> Option<Self> {
        (session.is_some() || agent.is_some()).then_some(Self { session, agent })
    }

    /// Checks a value; the error says what is wrong. Values end up in headers, variables and logs.
    pub fn check(word: &str) -> Result<(), String> {
        if word.is_empty() {
            return Err("it is empty".into());
        }
        if word.len() > MAX_CALLBACK_BYTES {
            return Err(format!("it is longer than {MAX_CALLBACK_BYTES} bytes"));
        }
        match word.chars().find(|c| !c.is_ascii_graphic()) {
            Some(c) => Err(format!("{c:?} cannot be part of it")),
            None => Ok(()),
        }
    }
}

//! The receiver that a launcher names for the end of its session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whom a launcher wants to be told, carried along and never looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Callback {
    /// The session that asked for the launch (`--callback-session`).
    pub session: Option<String>,
    /// The agent that asked for it (`--callback-agent`).
    pub agent: Option<String>,
}

/// The longest word of a callback.
pub const CALLBACK_MOST: usize = 256;

impl Callback {
    /// Makes one of what was given, if anything was.
    #[must_use]
    pub fn of(session: Option<String>, agent: Option<String>) -> Option<Self> {
        (session.is_some() || agent.is_some()).then_some(Self { session, agent })
    }

    /// Says what is wrong with such a word, if anything is: it ends up in headers, variables and logs.
    pub fn check(word: &str) -> Result<(), String> {
        if word.is_empty() {
            return Err("it is empty".into());
        }
        if word.len() > CALLBACK_MOST {
            return Err(format!("it is longer than {CALLBACK_MOST} bytes"));
        }
        match word.chars().find(|c| !c.is_ascii_graphic()) {
            Some(c) => Err(format!("{c:?} cannot be part of it")),
            None => Ok(()),
        }
    }
}

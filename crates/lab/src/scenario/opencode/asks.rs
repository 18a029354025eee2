//! How OpenCode is brought to ask.

use super::{env, settings};
use crate::scenario::server_asks::Asking;
use crate::stage::{Stage, Trouble};

/// OpenCode.
pub(super) struct OpenCode;

impl Asking for OpenCode {
    const NAME: &'static str = "opencode";
    const SERVER: &'static str = "--hostname 127.0.0.1";

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        settings(stage)
    }

    fn env() -> Vec<(String, String)> {
        env()
    }

    /// Attended launches ask for every command.
    fn asking_for(command: &str) -> String {
        format!("[[tool:{command}]]")
    }
}

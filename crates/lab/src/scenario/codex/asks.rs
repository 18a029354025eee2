//! How Codex is brought to ask.

use serde_json::json;

use super::{env, settings};
use crate::scenario::server_asks::Asking;
use crate::stage::{Stage, Trouble};

/// Codex.
pub(super) struct Codex;

impl Asking for Codex {
    const NAME: &'static str = "codex";
    const SERVER: &'static str = "app-server";

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        settings(stage, ".codex", false)
    }

    fn env() -> Vec<(String, String)> {
        env()
    }

    /// It asks for a command that the model wants to run outside of the sandbox.
    fn asking_for(command: &str) -> String {
        let call = json!({
            "cmd": command,
            "sandbox_permissions": "require_escalated",
            "justification": "it is needed",
        });
        format!("[[call:exec_command {call}]]")
    }
}

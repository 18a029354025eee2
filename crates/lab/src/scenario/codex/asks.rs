//! How Codex is brought to ask.

use std::path::Path;

use serde_json::json;

use super::{env, settings};
use crate::scenario::inbox_bars::{Asking, Keeping};
use crate::stage::{Stage, Trouble};

/// Codex.
pub(super) struct Codex;

impl Keeping for Codex {
    const NAME: &'static str = "codex";
    const KEPT: &'static str = "app-server";
    const TYPED: &'static str = "codex";

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        settings(stage, ".codex", false)
    }

    fn env(_stage: &Stage) -> Vec<(String, String)> {
        env()
    }
}

impl Asking for Codex {
    /// It asks for a command that the model wants to run outside of the sandbox.
    fn asking_for(command: &str) -> String {
        let call = json!({
            "cmd": command,
            "sandbox_permissions": "require_escalated",
            "justification": "it is needed",
        });
        format!("[[call:exec_command {call}]]")
    }

    /// Its notification program, which runs after each turn.
    fn hook(stage: &Stage, script: &Path) -> Result<(), Trouble> {
        let path = stage.home.join(".codex/config.toml");
        let settings = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let notify = format!("notify = [\"sh\", \"{}\"]\n{settings}", script.display());
        stage.write(".codex/config.toml", &notify)
    }
}

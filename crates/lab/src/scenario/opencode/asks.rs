//! How OpenCode is brought to ask.

use std::path::Path;

use serde_json::{Value, json};

use super::{env, settings};
use crate::scenario::inbox_bars::{Asking, Keeping};
use crate::stage::{Stage, Trouble};

/// OpenCode.
pub(super) struct OpenCode;

impl Keeping for OpenCode {
    const NAME: &'static str = "opencode";
    const KEPT: &'static str = "--hostname 127.0.0.1";
    const TYPED: &'static str = "opencode";

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        settings(stage)
    }

    fn env(_stage: &Stage) -> Vec<(String, String)> {
        env()
    }
}

impl Asking for OpenCode {
    /// Attended launches ask for every command.
    fn asking_for(command: &str) -> String {
        format!("[[tool:{command}]]")
    }

    /// A plugin would be fetched from a registry first, so the script is a local MCP server of its settings: a
    /// process that OpenCode starts by itself, outside of its tools.
    fn hook(stage: &Stage, script: &Path) -> Result<(), Trouble> {
        let path = stage.home.join(".config/opencode/opencode.json");
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let mut settings: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let command = json!(["sh", script.to_string_lossy()]);
        settings["mcp"] = json!({"hook": {"type": "local", "command": command, "enabled": true}});
        stage.write(".config/opencode/opencode.json", &settings.to_string())
    }
}

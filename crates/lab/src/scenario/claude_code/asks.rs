//! How Claude Code is brought to ask, for the bars of the inbox.

use std::path::Path;

use serde_json::{Value, json};

use super::ways::{env, settle};
use crate::scenario::inbox_bars::{Asking, Keeping};
use crate::stage::{Stage, Trouble};

/// Claude Code.
pub(super) struct Claude;

impl Keeping for Claude {
    const NAME: &'static str = "claude-code";
    const KEPT: &'static str = "--input-format stream-json";
    const TYPED: &'static str = "claude";

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        settle(stage, &[&stage.directory("a")?, &stage.directory("b")?])
    }

    fn env(stage: &Stage) -> Vec<(String, String)> {
        env(stage)
    }
}

impl Asking for Claude {
    fn asking_for(command: &str) -> String {
        format!("[[tool:{command}]]")
    }

    /// A hook that acts before each tool.
    fn hook(stage: &Stage, script: &Path) -> Result<(), Trouble> {
        let path = stage.home.join(".claude/settings.json");
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let mut settings: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let command = format!("sh {}", script.display());
        let hook = json!({"type": "command", "command": command});
        settings["hooks"] = json!({"PreToolUse": [{"matcher": "*", "hooks": [hook]}]});
        stage.write(".claude/settings.json", &settings.to_string())
    }
}

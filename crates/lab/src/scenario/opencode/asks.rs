//! How OpenCode is brought to ask.

use std::path::Path;

use super::{env, settings};
use crate::scenario::inbox_bars::Asking;
use crate::stage::{Stage, Trouble};

/// OpenCode.
pub(super) struct OpenCode;

impl Asking for OpenCode {
    const NAME: &'static str = "opencode";
    const KEPT: &'static str = "--hostname 127.0.0.1";

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        settings(stage)
    }

    fn env(_stage: &Stage) -> Vec<(String, String)> {
        env()
    }

    /// Attended launches ask for every command.
    fn asking_for(command: &str) -> String {
        format!("[[tool:{command}]]")
    }

    /// A plugin that acts before each tool.
    fn hook(stage: &Stage, script: &Path) -> Result<(), Trouble> {
        let plugin = format!(
            "import {{ spawnSync }} from \"node:child_process\"\n\
             export const Hook = async () => ({{\n\
               \"tool.execute.before\": async () => {{ spawnSync(\"sh\", [{:?}]) }},\n\
             }})\n",
            script.display().to_string()
        );
        stage.write(".config/opencode/plugin/hook.js", &plugin)
    }
}

//! Pi ordered about: how it is seen.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{WORK, env, record, recorded, settings, shell, spoken, standing, writes_late};
use crate::process::{Held, Started};
use crate::scenario::control::Kind;
use crate::stage::{Stage, Trouble};

/// Pi.
pub(super) struct Pi;

impl Kind for Pi {
    const NAME: &'static str = "pi";
    const PROGRAM: &'static str = "pi";
    const KEYLESS: &'static str = "No API key";
    // It never asks for permission, whatever the options.
    const PERMITTED: [&'static str; 2] = ["-", "-"];
    const STOPPED: &'static str = "killed";
    const STOP_CODE: i32 = 143;
    const TOKENS: [(&'static str, &'static str); 2] = [("INPUT", "1986"), ("OUTPUT", "100")];

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        if stage.home.join(".pi/agent/models.json").exists() {
            return Ok(());
        }
        settings(stage, ".pi/agent")
    }

    fn env(stage: &Stage, key: bool) -> Vec<(String, String)> {
        let mut env = env();
        if !key {
            // A home without any login.
            let empty = stage.home.join("empty").to_string_lossy().into_owned();
            env.push(("PI_CODING_AGENT_DIR".into(), empty));
        }
        env
    }

    fn by_hand(stage: &Stage, cwd: &Path, prompt: &str) -> Result<Started, Trouble> {
        Self::settle(stage)?;
        shell(stage, cwd, &[], prompt, &env())
    }

    fn serving(_: &Stage, cwd: &Path) -> Vec<(String, u32)> {
        standing(cwd).into_iter().filter_map(|pid| Some((spoken(pid)?, pid))).collect()
    }

    fn until_calling(stage: &Stage, _: u32, id: &str, word: &str) -> Result<(), Trouble> {
        stage.until_asked(word, |r| !r.side && r.prompt.starts_with(word))?;
        if writes_late(stage) && record(stage, id).is_none() {
            return Ok(());
        }
        recorded(stage, id, word)
    }

    fn until_working(stage: &Stage, pid: u32, id: &str) -> Result<Held, Trouble> {
        let tool = stage.until_below(pid, WORK)?;
        recorded(stage, id, "\"toolCall\"")?;
        Ok(tool)
    }

    fn record(stage: &Stage, id: &str) -> Option<PathBuf> {
        record(stage, id)
    }

    fn prompts(record: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(record).unwrap_or_default();
        let lines = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
        let said = lines.map(|mut l| l["message"].take()).filter(|m| m["role"] == "user");
        said.filter_map(|m| m["content"][0]["text"].as_str().map(str::to_owned)).collect()
    }

    fn permissions(stage: &Stage, id: &str) -> Option<String> {
        record(stage, id).map(|_| "-".to_owned())
    }
}

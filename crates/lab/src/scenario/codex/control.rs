//! Control of Codex: its specifics, and scenarios that only it has.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::hosted::{first, is, second};
use super::terminal::threads_of;
use super::{WORK, env, is_native, recorded, rollout, settings, words};
use crate::process::{Held, Started, all, directory};
use crate::scenario::control::mcp::McpClient;
use crate::scenario::control::{Kind, failing};
use crate::stage::{Stage, Trouble};

/// Codex.
pub(super) struct Codex;

impl Kind for Codex {
    const NAME: &'static str = "codex";
    const PROGRAM: &'static str = "codex";
    const KEYLESS: &'static str = "FAKE_OPENAI_KEY";
    const PERMITTED: [&'static str; 2] = ["workspace-write", "danger-full-access"];
    const STOPPED: &'static str = "interrupted";
    const STOP_CODE: i32 = 1;
    const TOKENS: [(&'static str, &'static str); 2] = [("INPUT", "1986"), ("OUTPUT", "100")];

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        let path = stage.home.join(".codex/config.toml");
        if path.exists() {
            return Ok(());
        }
        settings(stage, ".codex", false)?;
        // The requested value must differ from the configured one.
        let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
        stage.write(".codex/config.toml", &text.replace("workspace-write", "read-only"))
    }

    fn env(_: &Stage, key: bool) -> Vec<(String, String)> {
        if key { env() } else { Vec::new() }
    }

    fn by_hand(stage: &Stage, cwd: &Path, prompt: &str) -> Result<Started, Trouble> {
        Self::settle(stage)?;
        stage.start(cwd, &env(), &words(&[], prompt))
    }

    fn serving(_: &Stage, cwd: &Path) -> Vec<(String, u32)> {
        let natives = all().into_iter().filter(|p| is_native(*p));
        let there = natives.filter(|p| directory(*p).as_deref() == Some(cwd));
        there.flat_map(|p| threads_of(p).into_iter().map(move |id| (id, p))).collect()
    }

    fn until_calling(stage: &Stage, _: u32, id: &str, word: &str) -> Result<(), Trouble> {
        stage.until_asked(word, |r| !r.side && r.prompt.starts_with(word))?;
        recorded(stage, &stage.home.join(".codex"), id, word)
    }

    fn until_working(stage: &Stage, pid: u32, id: &str) -> Result<Held, Trouble> {
        let tool = stage.until_below(pid, WORK)?;
        recorded(stage, &stage.home.join(".codex"), id, "\"function_call\"")?;
        Ok(tool)
    }

    fn record(stage: &Stage, id: &str) -> Option<PathBuf> {
        rollout(&stage.home.join(".codex"), id)
    }

    fn prompts(record: &Path) -> Vec<String> {
        let lines = payloads(record);
        let said = lines.iter().filter(|p| p["type"] == "message" && p["role"] == "user");
        let texts = said.filter_map(|p| p["content"][0]["text"].as_str());
        // Its own context message for the model is a message, too.
        texts.filter(|t| !t.starts_with('<')).map(str::to_owned).collect()
    }

    fn permissions(stage: &Stage, id: &str) -> Option<String> {
        let lines = payloads(&Self::record(stage, id)?);
        let policy = lines.iter().rev().map(|p| &p["sandbox_policy"]).find(|p| !p.is_null())?;
        policy["type"].as_str().or(policy.as_str()).map(str::to_owned)
    }
}

impl McpClient for Codex {
    fn server(command: &str, args: &[&str]) -> Vec<String> {
        let args: Vec<String> = args.iter().map(|arg| format!("\"{arg}\"")).collect();
        vec![
            "-c".into(),
            format!("mcp_servers.agentctl.command=\"{command}\""),
            "-c".into(),
            format!("mcp_servers.agentctl.args=[{}]", args.join(", ")),
        ]
    }

    fn tool(name: &str) -> String {
        format!("mcp__agentctl/{name}")
    }
}

/// Returns the payloads of the lines of a rollout.
fn payloads(record: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(record).unwrap_or_default();
    let lines = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    lines.map(|mut l| l["payload"].take()).collect()
}

pub(super) fn not_a_repository(stage: &mut Stage) -> Result<(), Trouble> {
    Codex::settle(stage)?;
    let cwd = stage.directory("c")?;
    let told = stage.order(&cwd, &env(), &["launch", "codex", "-p", "hello [[say:no]]"])?;
    failing::expect(stage, "no repository", &told, "trusted directory")?;
    let told = stage.order(
        &cwd,
        &env(),
        &["launch", "codex", "-p", "hello [[say:yes]]", "--", "--skip-git-repo-check"],
    )?;
    stage.expect_that("with the agent's own flag", told.line().is_ok(), told.all());
    Ok(())
}

pub(super) fn hosted(stage: &mut Stage) -> Result<(), Trouble> {
    let (server, a) = first(stage)?;
    let b = second(stage, &server, &a)?;
    a.enter(&format!("working-a [[tool:{WORK}]] [[say:never]]"))?;
    a.asked(stage, "working-a")?;
    b.enter("thinking-b [[hang]]")?;
    b.asked(stage, "thinking-b")?;
    let tool = stage.until_below(server.held.pid, WORK)?;
    a.recorded(stage, "\"function_call\"")?;
    let told = stage.order(&stage.home, &env(), &["stop", &a.id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    stage.expect_that("the server lives", server.held.lives(), told.all());
    stage.expect_that("the terminals live", a.native.lives() && b.native.lives(), told.all());
    stage.expect_that("the tool is gone", !tool.lives(), told.all());
    a.recorded(stage, "\"turn_aborted\"")?;
    stage.expect("the stopped one", &is(&a, &server, "idle").because(None))?;
    stage.expect("the other", &is(&b, &server, "running").because(None))?;
    let told = stage.order(&stage.home, &env(), &["stop", &a.id])?;
    stage.expect_that("`stop` once more", told.code == Some(0), told.all());
    stage.expect("the other, still", &is(&b, &server, "running").because(None))
}

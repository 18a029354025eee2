//! Control of Claude Code: its specifics, and scenarios that only it has.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::headless::stopped;
use super::ways::{
    Tui, conversation, end, env, id, lines, print_mode, settle, until_called, until_calling,
    until_working,
};
use crate::judge::Claim;
use crate::process::{Held, Started};
use crate::scenario::control::Kind;
use crate::scenario::control::mcp::McpClient;
use crate::stage::{PATIENCE, Stage, Trouble};

/// Claude Code.
pub(super) struct Claude;

impl Kind for Claude {
    const NAME: &'static str = "claude-code";
    const PROGRAM: &'static str = "claude";
    const KEYLESS: &'static str = "Not logged in";
    const PERMITTED: [&'static str; 2] = ["acceptEdits", "bypassPermissions"];
    const STOPPED: &'static str = "killed";
    const STOP_CODE: i32 = 143;
    const TOKENS: [(&'static str, &'static str); 2] = [("INPUT", "2000"), ("OUTPUT", "100")];

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        if stage.home.join(".claude.json").exists() { Ok(()) } else { settle(stage, &[]) }
    }

    fn env(stage: &Stage, key: bool) -> Vec<(String, String)> {
        env(stage).into_iter().filter(|(name, _)| key || name != "ANTHROPIC_API_KEY").collect()
    }

    fn by_hand(stage: &Stage, cwd: &Path, prompt: &str) -> Result<Started, Trouble> {
        print_mode(stage, cwd, &id(), prompt)
    }

    fn serving(stage: &Stage, cwd: &Path) -> Vec<(String, u32)> {
        let records = std::fs::read_dir(stage.home.join(".claude/sessions")).into_iter().flatten();
        let records = records.flatten().flat_map(|f| lines(&f.path()));
        let there = records.filter(|r| r["cwd"] == *cwd.to_string_lossy()).filter_map(|r| {
            let pid = u32::try_from(r["pid"].as_u64()?).ok()?;
            Some((r["sessionId"].as_str()?.to_owned(), pid))
        });
        there.filter(|(_, pid)| Held::of(*pid).is_ok_and(|h| h.lives())).collect()
    }

    fn until_calling(stage: &Stage, pid: u32, id: &str, word: &str) -> Result<(), Trouble> {
        until_calling(stage, pid, id, word)
    }

    fn until_working(stage: &Stage, pid: u32, id: &str) -> Result<Held, Trouble> {
        until_working(stage, pid, id)
    }

    fn record(stage: &Stage, id: &str) -> Option<PathBuf> {
        conversation(&stage.home.join(".claude"), id)
    }

    fn prompts(record: &Path) -> Vec<String> {
        let said = lines(record).into_iter().filter(|l| l["type"] == "user");
        said.filter_map(|l| l["message"]["content"].as_str().map(str::to_owned)).collect()
    }

    fn permissions(stage: &Stage, id: &str) -> Option<String> {
        let lines = lines(&Self::record(stage, id)?);
        lines.iter().rev().find_map(|l| l["permissionMode"].as_str().map(str::to_owned))
    }
}

impl McpClient for Claude {
    fn server(command: &str, args: &[&str]) -> Vec<String> {
        let servers = serde_json::json!({"agentctl": {"command": command, "args": args}});
        let servers = serde_json::json!({"mcpServers": servers});
        vec!["--mcp-config".into(), servers.to_string()]
    }

    fn tool(name: &str) -> String {
        format!("mcp__agentctl__{name}")
    }
}

/// Orders something about a session, with the agent on the PATH.
fn order(stage: &Stage, args: &[&str]) -> Result<crate::order::Told, Trouble> {
    stage.order(&stage.home, &env(stage), args)
}

pub(super) fn background(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settle(stage, &[&cwd])?;
    let mut ids = Vec::new();
    for word in ["first", "second"] {
        let prompt = format!("{word} [[hang]]");
        end(&mut stage.start(&cwd, &env(stage), &["claude", "--bg", &prompt])?)?;
        let (id, pid) = stage.until("a background session is at work", || {
            let known = |(id, _): &(String, u32)| !ids.iter().any(|(k, _)| k == id);
            Claude::serving(stage, &cwd).into_iter().find(known)
        })?;
        until_calling(stage, pid, &id, word)?;
        ids.push((id, Held::of(pid).map_err(|e| e.to_string())?));
    }
    let [(first, one), (second, two)] = ids.as_slice() else { return Err("not two".into()) };
    let told = order(stage, &["stop", first])?;
    stage.expect_that("`stop`", told.code == Some(0) && !one.lives(), told.all());
    let job = stage.home.join(format!(".claude/jobs/{}/state.json", &first[..8]));
    let job = std::fs::read(job).map_err(|e| e.to_string())?;
    let job: Value = serde_json::from_slice(&job).map_err(|e| e.to_string())?;
    let asked = job["state"] == "stopped";
    stage.expect_that("its own service knows that it was stopped", asked, job.to_string());
    stage.expect("after the stop", &Claim::of(first, "stopped").served_by(&[]))?;
    let running = Claim::of(second, "running").because(None).served_by(&[two.pid]);
    stage.expect("the other", &running)?;
    let told = order(stage, &["stop", first])?;
    stage.expect_that("`stop` once more", told.code == Some(0), told.all());
    Ok(())
}

pub(super) fn terminal(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &["--permission-mode", "default"])?;
    tui.prompt("make [[tool:touch made-by-tool]] [[say:made it]]")?;
    tui.until_says(stage, "waiting", Some("permission prompt"))?;
    // Without its call on disk the live record says the same.
    let _written = until_called(stage, &id, "made-by-tool");
    let told = order(stage, &["wait", &id])?;
    stage.expect_that("10 while it asks", told.code == Some(10), told.all());
    let told = order(stage, &["wait", &id, "--for", "waiting"])?;
    stage.expect_that("0 for what it is", told.code == Some(0), told.all());
    let told = order(stage, &["resume", &id, "no"])?;
    stage.expect_that("`resume` is refused", told.fails(10), told.all());
    let wait = stage.begin(&stage.home, &env(stage), &["wait", &id, "--for", "idle"], b"")?;
    tui.accept(stage)?;
    let told = wait.told()?;
    stage.expect_that("0 when its turn is over", told.code == Some(0), told.all());
    let told = order(stage, &["stop", &id])?;
    let gone = tui.process.ended_within(PATIENCE);
    stage.expect_that("`stop`", told.code == Some(0) && gone, told.all());
    stage.expect("after the stop", &stopped(&id, "finished"))
}

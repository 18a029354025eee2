//! Approvals of commands: the daemon makes them wait, agentctl lists and answers them.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Gateway, PORT, TOKEN, ours, over, theirs, up};
use crate::judge::Claim;
use crate::scenario::below::{OpenAsk, WITHOUT_SHIM, directives};
use crate::stage::{Stage, Trouble};

/// Writes the settings of a gateway that runs commands under these rules.
fn executing(stage: &Stage, security: &str, ask: &str) -> Result<(), Trouble> {
    theirs(stage, ".openclaw", &json!({}))?;
    let path = stage.home.join(".openclaw/openclaw.json");
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let mut settings: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let exec = json!({"security": security, "ask": ask, "host": "gateway"});
    settings["tools"] = json!({ "exec": exec });
    stage.write(".openclaw/openclaw.json", &settings.to_string())
}

/// Starts a gateway that asks for every command, and a daemon of ours that listens there as an approver.
fn approving(stage: &mut Stage) -> Result<Gateway, Trouble> {
    executing(stage, "allowlist", "always")?;
    let table = format!(
        "\n[[openclaw.gateways]]\nurl = \"ws://127.0.0.1:{PORT}\"\ntoken = \"{TOKEN}\"\napprovals = true\n"
    );
    ours(stage, &table)?;
    let config = stage.home.join(".config/agentctl/config.toml");
    std::fs::set_permissions(config, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .map_err(|e| e.to_string())?;
    let gateway = up(stage)?;
    let (code, _, stderr) = stage.ask(&["daemon", "start"])?;
    stage.expect_that("the daemon starts", code == Some(0), stderr);
    Ok(gateway)
}

/// Launches a run that asks for a command which makes a file.
fn launch(stage: &mut Stage, name: &str) -> Result<(String, PathBuf), Trouble> {
    let prompt = format!("make it [[delay:3]] [[tool:touch {name}]] [[say:made it]]");
    let (code, stdout, stderr) = stage.ask(&["launch", "openclaw", "-p", &prompt])?;
    stage.expect_that("it is launched", code == Some(0), stderr);
    Ok((stdout.trim().to_owned(), stage.home.join("ws").join(name)))
}

/// Waits for the ask of a session.
fn ask_of(stage: &Stage, id: &str) -> Result<Value, Trouble> {
    let mut last = String::new();
    let found = stage.until("the approval is listed", || {
        let (_, stdout, stderr) = stage.ask(&["asks", "--json"]).ok()?;
        last = format!("{stdout} {stderr}");
        let document: Value = serde_json::from_str(&stdout).ok()?;
        document["asks"].as_array()?.iter().find(|ask| ask["session_id"] == id).cloned()
    });
    found.map_err(|trouble| format!("{trouble}: {last}"))
}

fn answer(stage: &mut Stage, ask: &Value, decision: &str, wanted: i32) -> Result<(), Trouble> {
    let id = ask["id"].as_str().unwrap_or_default();
    let (code, stdout, stderr) = stage.ask(&["answer", id, decision])?;
    let shown = format!("{code:?} {stdout} {stderr}");
    stage.expect_that(&format!("`answer {decision}`"), code == Some(wanted), shown);
    Ok(())
}

pub(super) fn answered(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = approving(stage)?;
    let (id, made) = launch(stage, "allowed")?;
    let ask = ask_of(stage, &id)?;
    let is_whole = ask["parts"][0]["text"] == "touch allowed" && ask["via"] == "gateway";
    stage.expect_that("the whole command is shown", is_whole, ask.to_string());
    let waiting = Claim::of(&id, "waiting").because(Some("permission")).served_by(&[]);
    stage.expect("while it waits", &waiting.about_what("touch allowed").hosted(true))?;
    stage.expect_that("nothing ran yet", !made.exists(), "");
    let (code, _, stderr) = stage.ask(&["send", &id, "words"])?;
    stage.expect_that("a message is no answer", code == Some(10), stderr);
    answer(stage, &ask, "--allow", 0)?;
    stage.until("the command has run", || made.exists().then_some(()))?;
    answer(stage, &ask, "--deny", 4)?;
    over(stage, &mut gateway, &id)?;
    let (id, made) = launch(stage, "denied")?;
    let ask = ask_of(stage, &id)?;
    answer(stage, &ask, "--deny", 0)?;
    over(stage, &mut gateway, &id)?;
    stage.expect_that("the command did not run", !made.exists(), "");
    let (id, made) = launch(stage, "aborted")?;
    let ask = ask_of(stage, &id)?;
    let (code, _, stderr) = stage.ask(&["stop", &id])?;
    stage.expect_that("`stop` while it waits", code == Some(0), stderr);
    answer(stage, &ask, "--allow", 4)?;
    stage.expect_that("that command did not run", !made.exists(), "");
    let (code, _, stderr) = stage.ask(&["daemon", "stop"])?;
    stage.expect_that("the daemon stops", code == Some(0), stderr);
    Ok(())
}

/// The gateway's tools answer an ask of the demo agent.
pub(super) fn from_below(stage: &mut Stage) -> Result<(), Trouble> {
    executing(stage, "full", "off")?;
    ours(stage, "")?;
    let _gateway = up(stage)?;
    let ask = OpenAsk::of_demo(stage, "asks")?;
    ask.write_scripts(stage, &WITHOUT_SHIM)?;
    let prompt = format!("answer it {} [[say:done]]", directives(stage, &WITHOUT_SHIM));
    let (code, _, stderr) = stage.ask(&["launch", "openclaw", "-p", &prompt])?;
    stage.expect_that("it is launched", code == Some(0), stderr);
    ask.expect_refused(stage, &WITHOUT_SHIM)
}

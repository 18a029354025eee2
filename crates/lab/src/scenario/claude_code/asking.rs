//! Claude Code asks for a permission and is answered through agentctl: one-shot sessions through our hook, kept
//! sessions through their standard input, a terminal through the hook in the user's own settings.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::control::Claude;
use super::ways::{Tui, env, id, settle};
use crate::judge::Claim;
use crate::order::Told;
use crate::process::{Held, all, command_line};
use crate::scenario::control::{Kind, served, shims, until_ended};
use crate::scenario::inbox_bars::{answer_at_once, timeless};
use crate::stage::{PATIENCE, Stage, Trouble};

/// A session that was launched and asks.
struct Asking {
    id: String,
    agent: Held,
    cwd: PathBuf,
}

/// Orders something, with the agent on the PATH.
fn order(stage: &Stage, args: &[&str]) -> Result<Told, Trouble> {
    stage.order(&stage.home, &env(stage), args)
}

/// Launches into a directory of this name with these options.
fn launch(stage: &Stage, name: &str, prompt: &str, more: &[&str]) -> Result<Asking, Trouble> {
    let cwd = stage.directory(name)?;
    if !stage.home.join(".claude.json").exists() {
        settle(stage, &[&cwd])?;
    }
    let place = cwd.to_string_lossy().into_owned();
    let mut args = vec!["launch", "claude-code", "--cwd", &place, "-p", prompt];
    args.extend(more);
    let id = order(stage, &args)?.line()?;
    let agent = served::<Claude>(stage, &cwd, &id)?;
    Ok(Asking { id, agent, cwd })
}

/// Launches a session that asks for a command which makes a file.
fn asking(stage: &Stage, name: &str, more: &[&str]) -> Result<Asking, Trouble> {
    let prompt = format!("make {name} [[tool:touch made]] [[say:made it]]");
    launch(stage, name, &prompt, more)
}

/// Returns the rows of `asks --json`.
fn asks(stage: &Stage) -> Result<Vec<Value>, Trouble> {
    let (code, stdout, stderr) = stage.ask(&["asks", "--json"])?;
    let document: Value = serde_json::from_str(&stdout)
        .map_err(|e| format!("asks --json exited {code:?}: {e}: {stderr}"))?;
    Ok(document["asks"].as_array().cloned().unwrap_or_default())
}

/// Waits for the ask of a session that can be answered in this way.
fn until_ask(stage: &Stage, session: &str, via: &str) -> Result<Value, Trouble> {
    stage.until(&format!("{session} asks, answerable by {via}"), || {
        let fits = |ask: &Value| ask["session_id"] == session && ask["via"] == via;
        asks(stage).ok()?.into_iter().find(fits)
    })
}

fn ask_id(ask: &Value) -> Result<&str, Trouble> {
    ask["id"].as_str().ok_or_else(|| format!("an ask without an id: {ask}"))
}

fn waiting(asking: &Asking) -> Claim {
    let claim = Claim::of(&asking.id, "waiting").because(Some("permission"));
    claim.about_what("touch made").served_by(&[asking.agent.pid]).hosted(false)
}

fn made(asking: &Asking) -> bool {
    asking.cwd.join("made").exists()
}

/// Lists the askers that live.
fn askers() -> Vec<Held> {
    let is_asker = |pid: &u32| command_line(*pid).split(' ').nth(1) == Some("asker");
    let pids = all().into_iter().filter(is_asker);
    pids.filter_map(|pid| Held::of(pid).ok()).filter(Held::lives).collect()
}

pub(super) fn allowed(stage: &mut Stage) -> Result<(), Trouble> {
    let asking = asking(stage, "a", &["--ask"])?;
    let ask = until_ask(stage, &asking.id, "asker")?;
    let command = json!([{"kind": "command", "text": "touch made", "cut": false}]);
    stage.expect_that("the whole command is shown", ask["parts"] == command, ask.to_string());
    let pid = ask["pid"] == asking.agent.pid && ask["kind"] == "permission";
    stage.expect_that("it is the permission of that process", pid, ask.to_string());
    stage.expect("while it asks", &waiting(&asking))?;
    stage.expect_that("nothing ran yet", !made(&asking), "");
    let told = order(stage, &["answer", ask_id(&ask)?, "--allow"])?;
    stage.expect_that("`answer --allow`", told.code == Some(0), told.all());
    until_ended(&asking.agent, "the agent")?;
    stage.expect_that("the command ran", made(&asking), "");
    let told = order(stage, &["answer", ask_id(&ask)?, "--deny"])?;
    stage.expect_that("a second answer finds nothing", told.code == Some(4), told.all());
    stage.expect_that("no asker is left", askers().is_empty(), "");
    let claim = Claim::of(&asking.id, "stopped").ended("finished").served_by(&[]);
    stage.expect("after its end", &claim)
}

pub(super) fn denied(stage: &mut Stage) -> Result<(), Trouble> {
    let asking = asking(stage, "a", &["--ask"])?;
    let ask = until_ask(stage, &asking.id, "asker")?;
    let told = order(stage, &["answer", ask_id(&ask)?, "--deny", "--message", "not-today-4711"])?;
    stage.expect_that("`answer --deny --message`", told.code == Some(0), told.all());
    until_ended(&asking.agent, "the agent")?;
    stage.expect_that("the command did not run", !made(&asking), "");
    let record = Claude::record(stage, &asking.id).ok_or("no record")?;
    let text = std::fs::read_to_string(record).map_err(|e| e.to_string())?;
    stage.expect_that("the model was told why", text.contains("not-today-4711"), "");
    Ok(())
}

pub(super) fn answered_at_once(stage: &mut Stage) -> Result<(), Trouble> {
    for round in 0..stage.rounds(3) {
        let asking = asking(stage, &format!("r{round}"), &["--ask"])?;
        let ask = until_ask(stage, &asking.id, "asker")?;
        let env = env(stage);
        let allowed = answer_at_once(stage, &env, ask_id(&ask)?)?;
        until_ended(&asking.agent, "the agent")?;
        let did = made(&asking) == allowed;
        stage.expect_that("the agent did what that answer says", did, format!("round {round}"));
    }
    stage.expect_that("no asker is left", askers().is_empty(), "");
    Ok(())
}

/// Kills the shims and deletes everything that agentctl has written.
fn forget(stage: &Stage) -> Result<(), Trouble> {
    for shim in shims() {
        shim.signal(Signal::KILL).map_err(|e| e.to_string())?;
        until_ended(&shim, "the shim")?;
    }
    std::fs::remove_dir_all(stage.home.join(".local/state/agentctl")).map_err(|e| e.to_string())
}

pub(super) fn forgotten(stage: &mut Stage) -> Result<(), Trouble> {
    let asking = asking(stage, "a", &["--ask"])?;
    let before = until_ask(stage, &asking.id, "asker")?;
    forget(stage)?;
    let after = until_ask(stage, &asking.id, "asker")?;
    let same = timeless(&before) == timeless(&after);
    stage.expect_that("it is the same ask", same, format!("{before} / {after}"));
    stage.expect("while it asks", &waiting(&asking))?;
    let told = order(stage, &["answer", ask_id(&after)?, "--allow"])?;
    stage.expect_that("it can be answered", told.code == Some(0), told.all());
    until_ended(&asking.agent, "the agent")?;
    stage.expect_that("the command ran", made(&asking), "");
    Ok(())
}

pub(super) fn agent_killed(stage: &mut Stage) -> Result<(), Trouble> {
    let asking = asking(stage, "a", &["--ask"])?;
    until_ask(stage, &asking.id, "asker")?;
    let asker = askers().pop().ok_or("no asker lives")?;
    asking.agent.signal(Signal::KILL).map_err(|e| e.to_string())?;
    stage.expect_that("its asker ends", asker.ended_within(PATIENCE), "");
    let rows = asks(stage)?;
    stage.expect_that("nothing waits any more", rows.is_empty(), json!(rows).to_string());
    Ok(())
}

fn until_status(stage: &Stage, id: &str, status: &str) -> Result<(), Trouble> {
    stage.until(&format!("{id} is {status}"), || {
        let rows = stage.rows(&[]).ok()?;
        rows.iter().any(|row| row["id"] == id && row["status"] == status).then_some(())
    })
}

pub(super) fn kept(stage: &mut Stage) -> Result<(), Trouble> {
    let session = launch(stage, "a", "hello [[say:hello back]]", &["--keep"])?;
    until_status(stage, &session.id, "idle")?;
    let idle = Claim::of(&session.id, "idle").served_by(&[session.agent.pid]).hosted(false);
    stage.expect("after its first turn", &idle)?;
    let prompt = "make it [[tool:touch made]] [[say:made it]]";
    let told = order(stage, &["send", &session.id, prompt])?;
    stage.expect_that("`send`", told.code == Some(0), told.all());
    let ask = until_ask(stage, &session.id, "stdin")?;
    let rule = ask["choices"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|choice| choice["rule"].as_str().is_some_and(|rule| rule.starts_with("Bash(")));
    stage.expect_that("the rule of `always` is shown", rule, ask.to_string());
    stage.expect("while it asks", &waiting(&session))?;
    let told = order(stage, &["send", &session.id, "no answer"])?;
    stage.expect_that("a message is no answer", told.code == Some(10), told.all());
    let told = order(stage, &["answer", ask_id(&ask)?, "--allow"])?;
    stage.expect_that("`answer --allow`", told.code == Some(0), told.all());
    until_status(stage, &session.id, "idle")?;
    stage.expect_that("the command ran", made(&session), "");
    let told = order(stage, &["send", &session.id, "think [[hang]]"])?;
    stage.expect_that("`send` again", told.code == Some(0), told.all());
    stage.until_asked("think", |request| request.prompt.contains("think"))?;
    let told = order(stage, &["stop", "--turn", &session.id])?;
    stage.expect_that("`stop --turn`", told.code == Some(0), told.all());
    until_status(stage, &session.id, "idle")?;
    stage.expect_that("its process stays", session.agent.lives(), "");
    let told = order(stage, &["stop", &session.id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    until_ended(&session.agent, "the agent")
}

pub(super) fn kept_question(stage: &mut Stage) -> Result<(), Trouble> {
    let question = r#"[[call:AskUserQuestion {"questions":[{"question":"Which colour?","header":"Colour","multiSelect":false,"options":[{"label":"Red","description":"warm"},{"label":"Blue","description":"cold"}]}]}]]"#;
    let session = launch(stage, "a", "hello [[say:hello back]]", &["--keep"])?;
    until_status(stage, &session.id, "idle")?;
    let told = order(stage, &["stop", &session.id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    until_ended(&session.agent, "the agent")?;
    let prompt = format!("ask {question} [[say:thanks]]");
    let told = order(stage, &["resume", &session.id, &prompt, "--keep"])?;
    stage.expect_that("`resume --keep`", told.code == Some(0), told.all());
    let ask = until_ask(stage, &session.id, "stdin")?;
    let shown = ask["kind"] == "question" && ask["fields"][0]["options"][1]["label"] == "Blue";
    stage.expect_that("the question and its options are shown", shown, ask.to_string());
    let told = order(stage, &["answer", ask_id(&ask)?, "--allow"])?;
    stage.expect_that("a question is not allowed", told.code == Some(2), told.all());
    let told = order(stage, &["answer", ask_id(&ask)?, "--option", "2"])?;
    stage.expect_that("`answer --option 2`", told.code == Some(0), told.all());
    until_status(stage, &session.id, "idle")?;
    let record = Claude::record(stage, &session.id).ok_or("no record")?;
    let text = std::fs::read_to_string(record).map_err(|e| e.to_string())?;
    let told_model = text.contains(r#"\"Which colour?\"=\"Blue\""#);
    stage.expect_that("the model was told the option", told_model, "");
    let told = order(stage, &["stop", &session.id])?;
    stage.expect_that("`stop` again", told.code == Some(0), told.all());
    Ok(())
}

pub(super) fn kept_steered(stage: &mut Stage) -> Result<(), Trouble> {
    let prompt = "work [[tool:sleep 3]] [[say:worked]]";
    let session = launch(stage, "a", prompt, &["--keep", "--permissions", "bypass"])?;
    stage.until_below(session.agent.pid, "sleep 3")?;
    let told = order(stage, &["send", &session.id, "and this too"])?;
    stage.expect_that("`send` in a tool", told.code == Some(0), told.all());
    until_status(stage, &session.id, "idle")?;
    let (_, logs, _) = stage.ask(&["logs", &session.id, "--json"])?;
    stage.expect_that("the message is in the conversation", logs.contains("and this too"), &*logs);
    let told = order(stage, &["stop", &session.id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    until_ended(&session.agent, "the agent")
}

pub(super) fn kept_forgotten(stage: &mut Stage) -> Result<(), Trouble> {
    let session = asking(stage, "a", &["--keep"])?;
    let before = until_ask(stage, &session.id, "stdin")?;
    forget(stage)?;
    let after = until_ask(stage, &session.id, "stdin")?;
    let same = timeless(&before) == timeless(&after);
    stage.expect_that("it is the same ask", same, format!("{before} / {after}"));
    let env = env(stage);
    let allowed = answer_at_once(stage, &env, ask_id(&after)?)?;
    until_status(stage, &session.id, "idle")?;
    let did = made(&session) == allowed;
    stage.expect_that("the agent did what that answer says", did, "");
    let told = order(stage, &["send", &session.id, "go on [[say:gone on]]"])?;
    stage.expect_that("it takes messages", told.code == Some(0), told.all());
    until_status(stage, &session.id, "idle")?;
    let told = order(stage, &["stop", &session.id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    until_ended(&session.agent, "the agent")
}

/// Puts our hook into the user's own settings.
fn hook_own_settings(stage: &Stage) -> Result<(), Trouble> {
    let (_, hook, _) = stage.ask(&["asks", "--hook"])?;
    let path = stage.home.join(".claude/settings.json");
    let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
    let mut settings: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let hook: Value = serde_json::from_str(&hook).map_err(|e| format!("{e}: {hook}"))?;
    settings["hooks"] = hook["hooks"].clone();
    stage.write(".claude/settings.json", &settings.to_string())
}

/// Starts a terminal that asks for a command.
fn terminal(stage: &mut Stage, cwd: &Path, hooked: bool) -> Result<(Tui, String), Trouble> {
    let id = id();
    settle(stage, &[cwd])?;
    if hooked {
        hook_own_settings(stage)?;
    }
    let args = ["--session-id", &id, "--permission-mode", "default"];
    let tui = Tui::start(stage, cwd, &args)?;
    tui.until_shown(stage, "❯")?;
    tui.prompt("make [[tool:touch made]] [[say:made it]]")?;
    tui.until_says(stage, "waiting", Some("permission prompt"))?;
    Ok((tui, id))
}

pub(super) fn own_terminal(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let (tui, id) = terminal(stage, &cwd, false)?;
    let ask = stage.until("the ask shows the command", || {
        let rows = asks(stage).ok()?;
        rows.into_iter().find(|ask| ask["parts"][0]["text"] == "touch made")
    })?;
    stage.expect_that("it cannot be answered from here", ask["via"].is_null(), ask.to_string());
    let why = ask["why_not"].as_str().unwrap_or_default();
    let named = why.contains("/dev/pts/") && why.contains("asks --hook");
    stage.expect_that("it says where, and how it could be", named, why);
    let told = order(stage, &["answer", ask_id(&ask)?, "--allow"])?;
    stage.expect_that("an answer is refused", told.code == Some(5), told.all());
    tui.accept(stage)?;
    until_status(stage, &id, "idle")
}

pub(super) fn hooked_terminal(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let (tui, id) = terminal(stage, &cwd, true)?;
    let ask = until_ask(stage, &id, "asker")?;
    let told = order(stage, &["answer", ask_id(&ask)?, "--allow"])?;
    stage.expect_that("`answer --allow`", told.code == Some(0), told.all());
    until_status(stage, &id, "idle")?;
    stage.expect_that("the command ran", cwd.join("made").exists(), "");
    tui.prompt("more [[tool:touch more]] [[say:made it]]")?;
    tui.until_says(stage, "waiting", Some("permission prompt"))?;
    until_ask(stage, &id, "asker")?;
    let asker = askers().pop().ok_or("no asker lives")?;
    tui.accept(stage)?;
    stage.expect_that("settled in the terminal, the asker ends", asker.ended_within(PATIENCE), "");
    until_status(stage, &id, "idle")?;
    stage.expect_that("that command ran too", cwd.join("more").exists(), "");
    Ok(())
}

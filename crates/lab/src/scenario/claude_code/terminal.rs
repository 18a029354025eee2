//! Claude Code in a terminal, with a person before it.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::headless::{running, stopped};
use super::ways::{
    Tui, answers, id, lines, live_record, settle, told, unsettle, until_called, until_calling,
    until_live, until_subagent_called, until_written,
};
use crate::judge::Claim;
use crate::scenario::alike::WORK;
use crate::stage::{PATIENCE, Stage, Trouble};

/// Claims that it is the user's move.
fn idle_claim(id: &str, pid: u32) -> Claim {
    Claim::of(id, "idle").because(None).served_by(&[pid]).hosted(false)
}

/// Waits until a turn that ends in this answer is over, on screen and on disk.
fn until_over(stage: &Stage, tui: &Tui, id: &str, answer: &str) -> Result<(), Trouble> {
    until_written(stage, id, "the turn's end", |lines| {
        let at = lines.iter().rposition(|l| answers(l, answer));
        at.is_some_and(|at| lines[at..].iter().any(|l| l["subtype"] == "turn_duration"))
    })
    .map_err(|e| tui.with_screen(&e))?;
    tui.until_says(stage, "idle", None).map(drop)
}

pub(super) fn idle(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &[])?;
    stage.expect("before the first prompt", &idle_claim(&id, tui.pid()))?;
    tui.prompt("hello [[say:hello back]]")?;
    until_over(stage, &tui, &id, "hello back")?;
    stage.expect("after a turn", &idle_claim(&id, tui.pid()))?;
    tui.prompt("/exit")?;
    gone(&tui)?;
    stage.expect("after /exit", &stopped(&id, "finished"))
}

fn gone(tui: &Tui) -> Result<(), Trouble> {
    let ended = tui.process.ended_within(PATIENCE);
    if ended { Ok(()) } else { Err(tui.with_screen("it did not end")) }
}

/// Returns the claim while it asks. Its call is nearly always on disk by then, with the reason; once in
/// a dozen loaded runs it was not written before the answer, and then only its live record exists.
fn asking(stage: &Stage, id: &str, what: &str, [written, unwritten]: [&'static str; 2]) -> Claim {
    let claim = Claim::of(id, "waiting");
    match until_called(stage, id, what) {
        Ok(()) => claim.because(Some(written)).about_what(what),
        Err(_) => claim.because(Some(unwritten)),
    }
}

pub(super) fn permission(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &["--permission-mode", "default"])?;
    tui.prompt("make [[tool:touch made-by-tool]] [[say:made it]]")?;
    tui.until_says(stage, "waiting", Some("permission prompt"))?;
    let claim = asking(stage, &id, "made-by-tool", ["permission", "permission"]);
    stage.expect("while it asks", &claim.served_by(&[tui.pid()]))?;
    tui.accept(stage)?;
    until_over(stage, &tui, &id, "made it")?;
    stage.expect("after the answer", &idle_claim(&id, tui.pid()))
}

pub(super) fn question(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &[])?;
    let options = json!([{"label": "A", "description": "a"}, {"label": "B", "description": "b"} ]);
    let questions = json!({"questions": [{
        "question": "Which colour?", "header": "H", "multiSelect": false, "options": options,
    } ]});
    // JSON that ends in two brackets would end the directive.
    let questions = questions.to_string().replace("]}]", "] } ]");
    tui.prompt(&format!("ask [[call:AskUserQuestion {questions}]] [[say:thank you]]"))?;
    tui.until_says(stage, "waiting", Some("input needed"))?;
    let claim = asking(stage, &id, "Which colour?", ["question", "question"]);
    stage.expect("while it asks", &claim.served_by(&[tui.pid()]))?;
    tui.accept(stage)?;
    until_over(stage, &tui, &id, "thank you")?;
    stage.expect("after the answer", &idle_claim(&id, tui.pid()))
}

pub(super) fn plan(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &["--permission-mode", "plan"])?;
    tui.prompt(r#"plan it [[call:ExitPlanMode {"plan":"1. do it"}]] [[say:planned]]"#)?;
    tui.until_says(stage, "waiting", Some("permission prompt"))?;
    let claim = asking(stage, &id, "1. do it", ["plan", "permission"]);
    stage.expect("while it asks", &claim.served_by(&[tui.pid()]))?;
    tui.accept(stage)?;
    until_over(stage, &tui, &id, "planned")?;
    stage.expect("after the answer", &idle_claim(&id, tui.pid()))
}

pub(super) fn trust(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settle(stage, &[])?;
    let tui = Tui::start(stage, &cwd, &[])?;
    tui.until_shown(stage, "Esc to cancel")?;
    let claim = Claim::of_process(tui.pid(), "waiting").because(Some("trust"));
    stage.expect("at the dialog", &claim.served_by(&[tui.pid()]))?;
    tui.press_until(stage, "Escape", "it ends", || !tui.process.lives())?;
    let rows = stage.rows(&["-a"])?;
    stage.expect_that("after it was refused", rows.is_empty(), Value::from(rows).to_string());
    Ok(())
}

pub(super) fn key_dialog(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settle(stage, &[&cwd])?;
    unsettle(stage, ".claude.json", "customApiKeyResponses")?;
    at_dialog(stage, &cwd, &[], "API key")
}

pub(super) fn bypass_dialog(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settle(stage, &[&cwd])?;
    unsettle(stage, ".claude.json", "bypassPermissionsModeAccepted")?;
    unsettle(stage, ".claude/settings.json", "skipDangerousModePermissionPrompt")?;
    at_dialog(stage, &cwd, &["--dangerously-skip-permissions"], "Bypass Permissions")
}

/// Compares at a dialog that comes before there is a session.
fn at_dialog(stage: &mut Stage, cwd: &Path, args: &[&str], text: &str) -> Result<(), Trouble> {
    let tui = Tui::start(stage, cwd, args)?;
    tui.until_shown(stage, text)?;
    tui.until_shown(stage, "Enter to confirm")?;
    let claim = Claim::of_process(tui.pid(), "waiting").because(Some("dialog"));
    stage.expect("at the dialog", &claim.served_by(&[tui.pid()]))
}

pub(super) fn subagent_permission(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &["--permission-mode", "default"])?;
    let task = json!({
        "description": "sub", "subagent_type": "general-purpose", "run_in_background": true,
        "prompt": "subtask [[tool:touch made-by-sub]] [[say:sub done]]",
    });
    tui.prompt(&format!("delegate [[call:Agent {task}]] [[say:delegated]]"))?;
    tui.until_says(stage, "waiting", Some("permission prompt"))?;
    until_written(stage, &id, "the main turn's end", |lines| {
        lines.iter().any(|l| l["subtype"] == "turn_duration")
    })?;
    tui.until_says(stage, "waiting", Some("permission prompt"))?;
    // The live record says so before the subagent's own file holds the call.
    until_subagent_called(stage, &id, "made-by-sub")?;
    let claim = Claim::of(&id, "waiting").because(Some("permission")).served_by(&[tui.pid()]);
    stage.expect("while it asks", &claim.about_what("touch made-by-sub"))
}

pub(super) fn retrying(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &[])?;
    tui.prompt("try [[error:529]]")?;
    // The pause after the fourth try is the first that is longer than all our questions take.
    until_written(stage, &id, "four requests", |lines| {
        lines.iter().filter(|l| l["type"] == "api-request").count() >= 4
    })?;
    let claim = Claim::of(&id, "running").because(Some("retrying")).served_by(&[tui.pid()]);
    stage.expect("between two tries", &claim)
}

pub(super) fn escape(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &[])?;
    tui.prompt("think [[hang]]")?;
    until_calling(stage, tui.pid(), &id, "think")?;
    stage.expect("while the model thinks", &running(&id, &[tui.pid()]))?;
    let record = live_record(stage, tui.pid());
    tui.press_until(stage, "Escape", "the turn is interrupted", || {
        lines(&record).iter().any(|r| r["status"] == "idle")
    })?;
    stage.expect("after Esc", &idle_claim(&id, tui.pid()))?;
    tui.press_until(stage, "C-c", "it ends", || !tui.process.lives())?;
    // Esc before any answer leaves no mark in its files, and SIGTERM would leave the same.
    stage.expect("after it was quit", &stopped(&id, "unknown"))
}

pub(super) fn clear(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &[])?;
    tui.prompt("hello [[say:hello back]]")?;
    until_over(stage, &tui, &id, "hello back")?;
    tui.prompt("/clear")?;
    let record = until_live(stage, tui.pid(), |r| r["sessionId"] != id.as_str())?;
    let new = record["sessionId"].as_str().unwrap_or_default().to_owned();
    tui.until_says(stage, "idle", None)?;
    tui.prompt("again [[say:hello again]]")?;
    until_over(stage, &tui, &new, "hello again")?;
    stage.expect("the old id", &stopped(&id, "finished"))?;
    stage.expect("the new id", &idle_claim(&new, tui.pid()))
}

pub(super) fn background_shell(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = Tui::ready(stage, &cwd, &id, &["--dangerously-skip-permissions"])?;
    let shell = json!({"command": WORK, "run_in_background": true, "description": "d"});
    tui.prompt(&format!("start [[call:Bash {shell}]] [[say:started it]]"))?;
    tui.until_says(stage, "shell", None)?;
    let work = stage.until_below(tui.pid(), WORK)?;
    until_written(stage, &id, "the turn's end", |lines| {
        lines.iter().any(|l| l["subtype"] == "turn_duration")
    })?;
    let claim = Claim::of(&id, "idle").because(Some("background")).served_by(&[tui.pid()]);
    stage.expect("while the shell works", &claim)?;
    work.signal(Signal::KILL).map_err(told)?;
    tui.until_says(stage, "idle", None).map(drop)
}

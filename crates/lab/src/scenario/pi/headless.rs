//! `pi -p` at work.

use rustix::process::Signal;
use serde_json::Value;

use super::{Run, WORK, env, record, recorded, run, run_with, settings, shell, spoken, standing};
use crate::judge::Claim;
use crate::process::{Held, command_line};
use crate::scenario::alike::{self, SPEAKING, calling, finished, spent, working};
use crate::stage::{PATIENCE, Stage, Trouble};

pub(super) fn starting(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, ".pi/agent")?;
    let started = shell(stage, &cwd, &[], "beginning [[hang]]", &env())?;
    let pid = started.pid();
    // Between its title and its first line its state is not known.
    alike::starting(stage, "beginning", || match spoken(pid) {
        None => &[&[], &["running"], &["unknown"]],
        Some(_) => &[&[], &["running"]],
    })?;
    let id = stage.until("pi says which session it has", || spoken(pid))?;
    let agent = Run { started, pid, id };
    agent.asked(stage, "beginning")?;
    stage.expect("when the model is asked", &calling(&agent.id, pid))
}

pub(super) fn model_call(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, "thinking [[delay:4]] [[pace:0.2]] [[say:done thinking]]")?;
    agent.asked(stage, "thinking")?;
    stage.expect("while the model thinks", &calling(&agent.id, agent.pid))?;
    let code = agent.ended()?;
    stage.expect_that("it exits with 0", code == Some(0), format!("{code:?}"));
    stage.expect("after its end", &finished(&agent.id).spent(spent(1)))
}

pub(super) fn killed(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, &format!("work [[tool:true]] [[tool:{WORK}]]"))?;
    agent.in_tool(stage)?;
    stage.until("the second call is written", || {
        let text = std::fs::read_to_string(record(stage, &agent.id)?).ok()?;
        (text.matches("\"toolCall\"").count() == 2).then_some(())
    })?;
    stage.expect("in its tool", &working(&agent.id, agent.pid).spent(spent(2)))?;
    agent.signal(Signal::KILL)?;
    agent.ended()?;
    let claim = Claim::of(&agent.id, "stopped").ended("killed").served_by(&[]);
    stage.expect("after SIGKILL", &claim.spent(spent(2)))
}

pub(super) fn terminated(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, &format!("work [[tool:{WORK}]]"))?;
    let tool = agent.in_tool(stage)?;
    agent.signal(Signal::TERM)?;
    let code = agent.ended()?;
    stage.expect_that("it exits with 143", code == Some(143), format!("{code:?}"));
    stage.expect_that("its tool is gone", tool.ended_within(PATIENCE), command_line(tool.pid));
    let claim = Claim::of(&agent.id, "stopped").ended("killed").served_by(&[]);
    stage.expect("after SIGTERM", &claim)
}

pub(super) fn unwritten(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, "thinking [[hang]]")?;
    agent.asked(stage, "thinking")?;
    stage.expect("while the model thinks", &calling(&agent.id, agent.pid))?;
    stage.expect_that("there is no file", record(stage, &agent.id).is_none(), "there is one");
    agent.signal(Signal::KILL)?;
    agent.ended()?;
    let rows = stage.rows(&["-a", "--since", "all"])?;
    stage.expect_that("nothing is left of it", rows.is_empty(), format!("{rows:?}"));
    let (code, _, said) = stage.ask(&["status", &agent.id])?;
    stage.expect_that("there is no such session", code == Some(4), said);
    Ok(())
}

pub(super) fn failed(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, "refuse [[error:400]]")?;
    let code = agent.ended()?;
    stage.expect_that("it exits with 0 all the same", code == Some(0), format!("{code:?}"));
    let claim = Claim::of(&agent.id, "error").ended("failed").served_by(&[]);
    stage.expect("after its end", &claim.because(Some("failure")))
}

pub(super) fn retrying(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    // The older one's client asks three times before Pi hears of it.
    let old = stage.agent.agent == "pi-old";
    let times = if old { 6 } else { 2 };
    let prompt = format!("again [[error:429*{times}]] [[say:at last]]");
    let mut agent = run(stage, &cwd, &prompt)?;
    stage.until("it waits for its second try", || {
        let text = std::fs::read_to_string(record(stage, &agent.id)?).ok()?;
        let failed = text.matches("\"stopReason\":\"error\"").count();
        let said = text.matches("\"context_edit\"").count();
        (failed == 2 && (said == 2 || old)).then_some(())
    })?;
    let claim = Claim::of(&agent.id, "running").served_by(&[agent.pid]);
    // An older version writes nowhere that it tries again.
    let said = claim.clone().because(Some("retrying")).about_what("429");
    stage.expect("between two tries", if old { &claim } else { &said })?;
    agent.ended()?;
    stage.expect("after its end", &finished(&agent.id))
}

pub(super) fn gave_up(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, "never [[error:429]]")?;
    agent.ended()?;
    let claim = Claim::of(&agent.id, "error").ended("failed").because(Some("failure"));
    stage.expect("after its end", &claim.about_what("429").served_by(&[]))
}

pub(super) fn paused(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let agent = run(stage, &cwd, "pausing [[hang]]")?;
    agent.asked(stage, "pausing")?;
    alike::paused(stage, &agent.id, &agent.started.held)
}

pub(super) fn logs(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, SPEAKING)?;
    agent.ended()?;
    alike::logs(stage, &agent.id, SPEAKING, ("bash", "command"))?;
    stage.expect("after its end", &finished(&agent.id))
}

pub(super) fn moved_home(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, "moved")?;
    let mut env = env();
    let moved = stage.home.join("moved").to_string_lossy().into_owned();
    env.push(("PI_CODING_AGENT_DIR".into(), moved.clone()));
    let agent = run_with(stage, &cwd, &[], "moving [[hang]]", &env)?;
    agent.asked(stage, "moving")?;
    let claim = calling(&agent.id, agent.pid).with("/root", moved);
    stage.expect("nobody told us, the process did", &claim)
}

pub(super) fn moved_sessions(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let place = stage.home.join("kept").to_string_lossy().into_owned();
    let prompt = format!("away [[tool:{WORK}]]");
    let agent = run_with(stage, &cwd, &["--session-dir", &place], &prompt, &env())?;
    agent.in_tool(stage)?;
    stage.expect("in its tool", &working(&agent.id, agent.pid).spent(spent(1)))
}

pub(super) fn two(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let first = run(stage, &cwd, &format!("one [[tool:{WORK}]]"))?;
    first.in_tool(stage)?;
    let mut second = run(stage, &cwd, "two [[delay:3]] [[say:done]]")?;
    second.asked(stage, "two")?;
    stage.expect("the first", &working(&first.id, first.pid))?;
    stage.expect("the second", &calling(&second.id, second.pid))?;
    second.ended()?;
    stage.expect("the second after its end", &finished(&second.id))?;
    stage.expect("the first, still", &working(&first.id, first.pid))
}

/// Starts `pi -p` without JSON, its words in a log that many write into, and waits for its file.
fn unspoken(stage: &Stage, prompt: &str) -> Result<(Held, String), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, ".pi/agent")?;
    let started = stage.start(&cwd, &env(), &["pi", "-p", prompt])?;
    let pid = stage.until("pi has its title", || standing(&cwd).first().copied())?;
    // The one file there is: nothing else has run here.
    let id = stage.until("it has written its session", || {
        let folder = std::fs::read_dir(stage.home.join(".pi/agent/sessions")).ok()?;
        let file = std::fs::read_dir(folder.flatten().next()?.path()).ok()?.flatten().next()?;
        let name = file.file_name().into_string().ok()?;
        Some(name.strip_suffix(".jsonl")?.split_once('_')?.1.to_owned())
    })?;
    drop(started);
    Held::of(pid).map(|held| (held, id)).map_err(|e| e.to_string())
}

pub(super) fn plain(stage: &mut Stage) -> Result<(), Trouble> {
    let (agent, id) = unspoken(stage, "thinking [[hang]]")?;
    recorded(stage, &id, "thinking")?;
    stage.expect("while the model thinks", &calling(&id, agent.pid))?;
    agent.signal(Signal::KILL).map_err(|e| e.to_string())?;
    stage.expect_that("it ends", agent.ended_within(PATIENCE), "it lives");
    let claim = Claim::of(&id, "stopped").ended("killed").served_by(&[]);
    stage.expect("after SIGKILL", &claim)
}

pub(super) fn plain_in_tool(stage: &mut Stage) -> Result<(), Trouble> {
    let (agent, id) = unspoken(stage, &format!("working [[tool:{WORK}]]"))?;
    let tool = stage.until_below(agent.pid, WORK)?;
    recorded(stage, &id, "\"toolCall\"")?;
    let told = crate::process::environment(tool.pid).get("PI_SESSION_ID").cloned();
    stage.expect_that("its tool was told", told.as_ref() == Some(&id), format!("{told:?}"));
    stage.expect("in its tool", &working(&id, agent.pid))
}

/// An older version, whose tools do not get the session.
pub(super) fn plain_late(stage: &mut Stage) -> Result<(), Trouble> {
    let (agent, id) = unspoken(stage, &format!("working [[tool:{WORK}]]"))?;
    drop(stage.until_below(agent.pid, WORK)?);
    stage.expect("in its tool", &working(&id, agent.pid))
}

pub(super) fn appended(stage: &mut Stage) -> Result<(), Trouble> {
    settings(stage, ".pi/agent")?;
    let script = r#"exec pi --mode json -p "$1" >> "$HOME/log" 2>&1"#;
    let mut started = Vec::new();
    for (name, prompt) in [("a", "first [[hang]]"), ("b", "second [[hang]]")] {
        let cwd = stage.directory(name)?;
        started.push(stage.start(&cwd, &env(), &["/bin/bash", "-c", script, "bash", prompt])?);
        stage.until_asked(prompt, |r| r.prompt == prompt)?;
    }
    let text = std::fs::read_to_string(stage.home.join("log")).map_err(|e| e.to_string())?;
    let headers = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    let headers = headers.filter(|l| l["type"] == "session");
    let ids: Vec<String> = headers.filter_map(|l| l["id"].as_str().map(str::to_owned)).collect();
    let [first, second] = &ids[..] else { return Err(format!("{ids:?}")) };
    recorded(stage, first, "first")?;
    recorded(stage, second, "second")?;
    stage.expect("whose words come first", &calling(first, started[0].pid()))?;
    stage.expect("whose come behind", &calling(second, started[1].pid()))
}

pub(super) fn forked(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut first = run(stage, &cwd, "first [[say:one]]")?;
    first.ended()?;
    let file = record(stage, &first.id).ok_or("it has no file")?;
    let file = file.to_string_lossy();
    let how = ["--fork", &*file];
    let mut fork = run_with(stage, &cwd, &how, "second [[say:two]]", &env())?;
    fork.ended()?;
    stage.expect("the fork", &finished(&fork.id).spent(spent(1)).noting("forked from"))?;
    stage.expect("the other", &finished(&first.id).spent(spent(1)))
}

pub(super) fn branches(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut first = run(stage, &cwd, "first [[say:one]]")?;
    first.ended()?;
    let file = record(stage, &first.id).ok_or("it has no file")?;
    let file = file.to_string_lossy();
    let how = ["--session", &*file];
    // Nothing keeps two of them from one session.
    let slow = run_with(stage, &cwd, &how, "slow [[hang]]", &env())?;
    slow.asked(stage, "slow")?;
    let mut quick = run_with(stage, &cwd, &how, "quick [[delay:2]] [[say:two]]", &env())?;
    quick.asked(stage, "quick")?;
    let both = [slow.pid, quick.pid];
    let claim = Claim::of(&first.id, "running").because(None).served_by(&both);
    stage.expect("two serve it", &claim.noting("2 processes"))?;
    quick.ended()?;
    // The newest line ends the quick one's turn, and the slow one works on.
    stage.expect("one works on", &calling(&first.id, slow.pid))?;
    slow.signal(Signal::KILL)?;
    stage.expect_that("it ends", slow.started.held.ended_within(PATIENCE), "it lives");
    stage.expect("after its end", &finished(&first.id).spent(spent(2)))
}

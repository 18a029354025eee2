//! One `claude -p`, from its birth to its end.

use rustix::process::Signal;
use serde_json::Value;

use super::ways::{
    end, env, id, live_record, print_mode, settle, told, until_calling, until_working,
    until_written,
};
use crate::judge::Claim;
use crate::process::{Held, children, comm};
use crate::scenario::alike::{self, until_state, working};
use crate::stage::{Stage, Trouble};

pub(super) fn starting(stage: &mut Stage) -> Result<(), Trouble> {
    settle(stage, &[])?;
    born(stage)
}

/// Looks again and again from its birth on.
pub(super) fn born(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let agent = print_mode(stage, &cwd, &id, "begin [[hang]]")?;
    let mut looks = 0;
    let mut wrong: Vec<String> = Vec::new();
    stage.until("the model is asked", || {
        let asked = stage.model.requests().iter().any(|r| r.prompt == "begin [[hang]]");
        let rows = stage.rows(&["-a", "--since", "all"]);
        looks += 1;
        let own = |r: &&Value| r["id"] == id.as_str() || r["pid"] == agent.pid();
        let fine = rows.as_ref().is_ok_and(|rows| {
            rows.len() == 1 && rows.iter().filter(own).all(|r| r["status"] == "running")
        });
        if !fine {
            wrong.push(format!("look {looks}: {rows:?}"));
        }
        asked.then_some(())
    })?;
    if !agent.held.lives() {
        return Err("it did not live through its start".into());
    }
    let evidence = format!("{} of {looks} looks, the last: {:?}", wrong.len(), wrong.last());
    stage.expect_that("one row, running, in every look from its birth", wrong.is_empty(), evidence);
    until_calling(stage, agent.pid(), &id, "begin")?;
    stage.expect("in its first call", &running(&id, &[agent.pid()]))
}

/// Claims a turn in a model call.
pub(super) fn running(id: &str, pids: &[u32]) -> Claim {
    Claim::of(id, "running").because(None).served_by(pids).hosted(false)
}

/// Claims an end.
pub(super) fn stopped(id: &str, outcome: &'static str) -> Claim {
    Claim::of(id, "stopped").because(None).ended(outcome).served_by(&[])
}

pub(super) fn model_call(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let agent = print_mode(stage, &cwd, &id, "think [[hang]]")?;
    until_calling(stage, agent.pid(), &id, "think")?;
    stage.expect("while the model thinks", &running(&id, &[agent.pid()]))
}

pub(super) fn tool(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "work [[tool:tail -f /dev/null]] [[say:over]]")?;
    let tool = until_working(stage, agent.pid(), &id)?;
    stage.expect("in the tool", &working(&id, agent.pid()))?;
    tool.signal(Signal::TERM).map_err(told)?;
    end(&mut agent)?;
    stage.expect("after the turn", &stopped(&id, "finished"))
}

pub(super) fn finished(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "work [[tool:echo one]] [[say:all done]]")?;
    end(&mut agent)?;
    stage.expect("after its end", &stopped(&id, "finished"))
}

pub(super) fn failed<const CODE: u16>(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut env = env(stage);
    env.push(("CLAUDE_CODE_MAX_RETRIES".into(), "1".into()));
    let prompt = format!("fail [[error:{CODE}]]");
    let argv = ["claude", "-p", &prompt, "--session-id", &id, "--dangerously-skip-permissions"];
    let mut agent = stage.start(&cwd, &env, &argv)?;
    end(&mut agent)?;
    let claim = Claim::of(&id, "error").because(Some("failure")).ended("failed").served_by(&[]);
    stage.expect("after its end", &claim.about_what(&format!("scripted {CODE}")))
}

pub(super) fn retrying(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let agent = print_mode(stage, &cwd, &id, "try [[error:529]]")?;
    // The pause after the fourth try is the first that is longer than all our questions take.
    until_written(stage, &id, "the fourth retry", |lines| {
        lines.iter().any(|l| l["subtype"] == "api_error" && l["retryAttempt"] == 4)
    })?;
    let claim = Claim::of(&id, "running").because(Some("retrying")).about_what("scripted 529");
    stage.expect("between two tries", &claim.served_by(&[agent.pid()]))
}

pub(super) fn interrupted_in_tool(stage: &mut Stage) -> Result<(), Trouble> {
    ended_in_tool(stage, Signal::INT, "interrupted")
}

pub(super) fn terminated(stage: &mut Stage) -> Result<(), Trouble> {
    ended_in_tool(stage, Signal::TERM, "killed")
}

fn ended_in_tool(stage: &mut Stage, signal: Signal, outcome: &'static str) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "work [[tool:tail -f /dev/null]] [[say:never]]")?;
    let _tool = until_working(stage, agent.pid(), &id)?;
    agent.held.signal(signal).map_err(told)?;
    end(&mut agent)?;
    stage.expect("after the signal", &stopped(&id, outcome))
}

pub(super) fn interrupted_in_call(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "think [[hang]]")?;
    until_calling(stage, agent.pid(), &id, "think")?;
    agent.held.signal(Signal::INT).map_err(told)?;
    end(&mut agent)?;
    stage.expect("after SIGINT", &stopped(&id, "interrupted"))
}

pub(super) fn killed_in_call(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "think [[hang]]")?;
    until_calling(stage, agent.pid(), &id, "think")?;
    agent.held.signal(Signal::KILL).map_err(told)?;
    end(&mut agent)?;
    stays_behind(stage, agent.pid());
    stage.expect("after SIGKILL", &stopped(&id, "killed"))
}

pub(super) fn killed_in_tool(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "work [[tool:tail -f /dev/null]] [[say:never]]")?;
    let tool = until_working(stage, agent.pid(), &id)?;
    stage.expect("in the tool", &working(&id, agent.pid()))?;
    agent.held.signal(Signal::KILL).map_err(told)?;
    end(&mut agent)?;
    stays_behind(stage, agent.pid());
    stage.expect_that("the tool lives on", tool.lives(), "it is gone: the scenario shows nothing");
    stage.expect("after SIGKILL", &stopped(&id, "killed"))?;
    tool.signal(Signal::KILL).map_err(told)
}

pub(super) fn not_reaped(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let agent = print_mode(stage, &cwd, &id, "think [[hang]]")?;
    until_calling(stage, agent.pid(), &id, "think")?;
    agent.held.signal(Signal::KILL).map_err(told)?;
    // The first thread may be a zombie while others still end: the process has ended with the last.
    if !agent.held.ended_within(crate::stage::PATIENCE) {
        return Err("it did not end".into());
    }
    until_state(stage, agent.pid(), |s| s == 'Z')?;
    stage.expect("as a zombie", &stopped(&id, "killed"))
}

fn stays_behind(stage: &mut Stage, pid: u32) {
    let left = live_record(stage, pid).exists();
    let lost = "it is gone: the scenario shows nothing";
    stage.expect_that("the live record stays behind", left, lost);
}

pub(super) fn paused(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let agent = print_mode(stage, &cwd, &id, "think [[hang]]")?;
    until_calling(stage, agent.pid(), &id, "think")?;
    alike::paused(stage, &id, &agent.held)
}

pub(super) fn launcher_killed(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let line = r#"claude -p "$1" --session-id "$2" --dangerously-skip-permissions & wait"#;
    let argv = ["/bin/sh", "-c", line, "sh", "think [[hang]]", &id];
    let mut launcher = stage.start(&cwd, &env(stage), &argv)?;
    let agent = stage.until("claude runs below the launcher", || {
        let below = children(launcher.pid()).into_iter();
        Held::of(below.filter(|p| comm(*p) == "claude").min()?).ok()
    })?;
    until_calling(stage, agent.pid, &id, "think")?;
    launcher.held.signal(Signal::KILL).map_err(told)?;
    end(&mut launcher)?;
    if !agent.lives() {
        return Err("it died with its launcher: the scenario shows nothing".into());
    }
    stage.expect("without its launcher", &running(&id, &[agent.pid]))
}

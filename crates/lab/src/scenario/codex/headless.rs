//! `codex exec` at work.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{WORK, adopt, env, exec, launch, said, settings, words};
use crate::judge::Claim;
use crate::process::{Held, command_line};
use crate::scenario::alike::{self, SPEAKING, calling, finished, spent, working};
use crate::stage::{Stage, Trouble};

pub(super) fn starting(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, ".codex", false)?;
    let before = said(stage).len();
    let started = stage.start(&cwd, &env(), &words(&[], "beginning [[hang]]"))?;
    alike::starting(stage, "beginning", || &[&[], &["running"]])?;
    let agent = adopt(stage, started, before, stage.home.join(".codex"))?;
    agent.asked(stage, "beginning")?;
    stage.expect("when the model is asked", &calling(&agent.id, agent.native.pid))
}

pub(super) fn model_call(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "thinking [[delay:4]] [[pace:0.2]] [[say:done thinking]]")?;
    agent.asked(stage, "thinking")?;
    stage.expect("while the model thinks", &calling(&agent.id, agent.native.pid))?;
    agent.ended()?;
    stage.expect("after its end", &finished(&agent.id).spent(spent(1)))
}

pub(super) fn tokens(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let prompt =
        format!("counting [[pace:0.2]] [[tool:true]] [[tool:false]] [[tool:{WORK}]] [[say:never]]");
    let mut agent = exec(stage, &cwd, &prompt)?;
    drop(stage.until_below(agent.native.pid, WORK)?);
    agent.recorded(stage, WORK)?;
    stage.until("the third answer is counted", || {
        let records = std::fs::read_to_string(super::rollout(&agent.home, &agent.id)?).ok()?;
        (records.matches("\"token_usage_record\"").count() == 3).then_some(())
    })?;
    stage.expect("after three answers", &working(&agent.id, agent.native.pid).spent(spent(3)))?;
    agent.signal(Signal::KILL)?;
    agent.ended()?;
    let killed = Claim::of(&agent.id, "stopped").ended("killed").served_by(&[]);
    stage.expect("after SIGKILL", &killed.spent(spent(3)))
}

pub(super) fn logs(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, SPEAKING)?;
    agent.ended()?;
    alike::logs(stage, &agent.id, SPEAKING, ("exec_command", "cmd"))?;
    stage.expect("after its end", &finished(&agent.id))
}

pub(super) fn paused(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let agent = exec(stage, &cwd, "pausing [[hang]]")?;
    agent.asked(stage, "pausing")?;
    alike::paused(stage, &agent.id, &agent.native)
}

pub(super) fn two(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let thinks = exec(stage, &cwd, "thinking [[hang]]")?;
    let mut works = exec(stage, &cwd, &format!("working [[tool:{WORK}]] [[say:never]]"))?;
    thinks.asked(stage, "thinking")?;
    works.in_tool(stage)?;
    let thinking = calling(&thinks.id, thinks.native.pid);
    stage.expect("the one that thinks", &thinking)?;
    stage.expect("the one that works", &working(&works.id, works.native.pid))?;
    works.signal(Signal::KILL)?;
    works.ended()?;
    stage.expect("the other, when one is killed", &thinking)?;
    let killed = Claim::of(&works.id, "stopped").ended("killed").served_by(&[]);
    stage.expect("the one that was killed", &killed)
}

pub(super) fn moved_home(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, "elsewhere", false)?;
    let home = stage.home.join("elsewhere");
    let mut env = env();
    env.push(("CODEX_HOME".into(), home.to_string_lossy().into_owned()));
    let before = said(stage).len();
    let prompt = format!("working [[tool:{WORK}]] [[say:never]]");
    let started = stage.start(&cwd, &env, &words(&[], &prompt))?;
    let agent = adopt(stage, started, before, home)?;
    agent.in_tool(stage)?;
    let here = stage.home.join(".codex").exists();
    stage.expect_that("nothing is in the usual place", !here, "~/.codex exists: nothing is shown");
    stage.expect("in the tool", &working(&agent.id, agent.native.pid))
}

pub(super) fn no_wrapper(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, &format!("working [[tool:{WORK}]] [[say:never]]"))?;
    agent.in_tool(stage)?;
    if agent.native.pid == agent.started.pid() {
        // This Node lets the wrapper become the agent: there is none to kill.
        return stage.expect("without a wrapper", &working(&agent.id, agent.native.pid));
    }
    agent.started.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    agent.started.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    stage.expect_that("the agent lives", agent.native.lives(), "it died with its wrapper");
    stage.expect("after the wrapper's end", &working(&agent.id, agent.native.pid))?;
    agent.signal(Signal::INT)?;
    if !agent.native.ended_within(crate::stage::PATIENCE) {
        return Err("codex did not end".into());
    }
    // It is not reaped here, as in a container without an init: a zombie must count as dead.
    let ended = Claim::of(&agent.id, "stopped").ended("interrupted").served_by(&[]);
    stage.expect("after SIGINT, not reaped", &ended)
}

pub(super) fn no_launcher(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let prompt = format!("working [[tool:{WORK}]] [[say:never]]");
    let mut argv = vec!["/bin/sh", "-c", "\"$@\" & wait", "sh"];
    argv.extend(words(&[], &prompt));
    let mut agent = launch(stage, &cwd, &argv)?;
    agent.in_tool(stage)?;
    // Also the wrapper has lost its parent, and is none of the launcher's any more.
    agent.started.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    agent.started.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    let tool = Held::of(agent.native.pid).is_ok_and(|h| h.lives());
    let line = command_line(agent.native.pid);
    stage.expect_that("the agent lives", tool, format!("it died with its launcher: {line}"));
    stage.expect("after the launcher's end", &working(&agent.id, agent.native.pid))
}

/// Looks until it has ended: first it runs, then its turn is over, then it has finished, and never
/// anything else or anything twice.
pub(super) fn ending(stage: &mut Stage) -> Result<(), Trouble> {
    const ORDER: [(&str, Option<&str>); 3] =
        [("running", None), ("idle", None), ("stopped", Some("finished"))];
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "ending [[tool:true]] [[say:done]]")?;
    let (mut wrong, mut at, mut looks) = (Vec::new(), 0, 0);
    stage.until("it has ended, and one look more", || {
        let over = !agent.native.lives();
        let rows = stage.rows(&["-a"]).unwrap_or_default();
        let mine: Vec<&Value> = rows.iter().filter(|r| r["id"] == agent.id.as_str()).collect();
        let said = |r: &Value| (r["status"].clone(), r["outcome"].clone());
        match mine.as_slice() {
            [row] => match ORDER.iter().position(|(s, o)| (json!(s), json!(o)) == said(row)) {
                Some(now) if now >= at => at = now,
                _ => wrong.push(format!("look {looks}: {:?}: {}", said(row), row["evidence"])),
            },
            more => wrong.push(format!("look {looks}: {} rows", more.len())),
        }
        looks += 1;
        over.then_some(())
    })?;
    stage.expect_that("in every look until its end", wrong.is_empty(), wrong.join("\n"));
    agent.ended()?;
    stage.expect("after its end", &finished(&agent.id).spent(spent(2)))
}

pub(super) fn ephemeral(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut argv = words(&[], "forgetting [[hang]]");
    argv.insert(2, "--ephemeral");
    let mut agent = launch(stage, &cwd, &argv)?;
    stage.until_asked("the prompt", |r| r.prompt.starts_with("forgetting"))?;
    let records = super::rollout(&agent.home, &agent.id);
    stage.expect_that("it keeps no records", records.is_none(), format!("{records:?}"));
    let running = Claim::of_process(agent.native.pid, "running").served_by(&[agent.native.pid]);
    stage.expect("while the model thinks", &running.hosted(false))?;
    agent.signal(Signal::KILL)?;
    agent.ended()?;
    let rows = stage.rows(&["-a", "--since", "all"])?;
    stage.expect_that("after its end there is nothing", rows.is_empty(), format!("{rows:?}"));
    Ok(())
}

/// A directory with the name of the server's subcommand, given as people give it.
pub(super) fn namesake(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let work = stage.directory("a/app-server")?;
    let mut argv = words(&[], "thinking [[hang]]");
    argv.splice(2..2, ["-C", "app-server"]);
    let agent = launch(stage, &cwd, &argv)?;
    agent.asked(stage, "thinking")?;
    stage.expect("while the model thinks", &calling(&agent.id, agent.native.pid))?;
    let rows = stage.rows(&[])?;
    let there = matches!(rows.as_slice(), [row] if row["cwd"] == *work.to_string_lossy());
    stage.expect_that("its directory", there, format!("{rows:?}"));
    Ok(())
}

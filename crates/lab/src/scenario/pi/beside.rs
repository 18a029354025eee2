//! Pi where its files are incomplete: a terminal beside sessions that are not its own, records that are
//! gone, unusual homes, a wrapper; and the events of a home that only the process names.

use rustix::process::Signal;
use serde_json::Value;

use super::terminal::{enter, ids, open};
use super::{Run, WORK, env, record, recorded, run, run_with, settings, shell, spoken};
use crate::judge::Claim;
use crate::process::Held;
use crate::scenario::alike::{finished, working};
use crate::scenario::unusual::{Events, honest_stop, native_wrapper, only};
use crate::stage::{PATIENCE, Stage, Trouble};

fn work() -> String {
    format!("work [[tool:{WORK}]] [[say:never]]")
}

/// Orders a stop of a session that has ended: whatever the answer, the terminal survives.
fn stop_spares(stage: &mut Stage, id: &str, terminal: &Held) -> Result<(), Trouble> {
    let (code, stdout, stderr) = stage.ask(&["stop", id])?;
    let evidence = format!("exit {code:?}: {stdout}{stderr}");
    let spared = !terminal.ended_within(std::time::Duration::from_secs(2));
    stage.expect_that("`stop` of the ended session spares the terminal", spared, evidence);
    Ok(())
}

/// An idle terminal, and a session beside it that began and ended.
pub(super) fn fresh(stage: &mut Stage) -> Result<(), Trouble> {
    let (_terminal, agent) = open(stage, &["pi"])?;
    let cwd = stage.directory("a")?;
    settings(stage, ".pi/agent")?;
    let mut beside = stage.start(&cwd, &env(), &["pi", "-p", "brief [[say:over]]"])?;
    beside.wait(PATIENCE).map_err(|e| e.to_string())?;
    let id = ids(stage).pop().ok_or("no session was written")?;
    stage.expect("the session that has ended", &finished(&id))?;
    stop_spares(stage, &id, &agent)
}

/// The same, with a terminal that was opened on an older session.
pub(super) fn resumed(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut first = run(stage, &cwd, "older [[say:one]]")?;
    first.ended()?;
    let file = record(stage, &first.id).ok_or("no file")?.to_string_lossy().into_owned();
    let (_terminal, agent) = open(stage, &["pi", "--session", &file])?;
    let mut beside = stage.start(&cwd, &env(), &["pi", "-p", "brief [[say:over]]"])?;
    beside.wait(PATIENCE).map_err(|e| e.to_string())?;
    let all = ids(stage);
    let id = all.into_iter().find(|id| *id != first.id).ok_or("no session was written")?;
    stage.expect("the session that has ended", &finished(&id))?;
    let served = Claim::of(&first.id, "idle").because(None).served_by(&[agent.pid]);
    stage.expect("the session that the terminal has open", &served)?;
    stop_spares(stage, &id, &agent)
}

pub(super) fn stop(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, &work())?;
    agent.in_tool(stage)?;
    let (id, held) = (agent.id.clone(), Held::of(agent.pid).map_err(|e| e.to_string())?);
    let waiting = std::thread::spawn(move || agent.ended().map(drop));
    let stopped = honest_stop(stage, &id, &held);
    drop(waiting.join());
    stopped
}

/// Claims that a session is at work, by its id or by its process.
fn at_work(stage: &mut Stage, moment: &str, id: &str, pid: u32) -> Result<(), Trouble> {
    let by_id = Claim::of(id, "running").served_by(&[pid]);
    stage.expect_any(moment, &[by_id, Claim::of_process(pid, "running").served_by(&[pid])])
}

pub(super) fn deleted(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let agent = run(stage, &cwd, &work())?;
    agent.in_tool(stage)?;
    let file = record(stage, &agent.id).ok_or("no file")?;
    std::fs::remove_file(file).map_err(|e| e.to_string())?;
    at_work(stage, "in a tool, its file deleted", &agent.id, agent.pid)
}

pub(super) fn no_session(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, ".pi/agent")?;
    let started = shell(stage, &cwd, &["--no-session"], &work(), &env())?;
    let pid = started.pid();
    drop(stage.until_below(pid, WORK)?);
    let id = stage.until("pi says which session it has", || spoken(pid))?;
    let agent = Run { started, pid, id };
    at_work(stage, "in a tool, without a file", &agent.id, pid)
}

pub(super) fn relative(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, "ws/a/cfg")?;
    let mut env = env();
    env.push(("PI_CODING_AGENT_DIR".into(), "cfg".into()));
    let agent = run_with(stage, &cwd, &[], &work(), &env)?;
    agent.in_tool(stage)?;
    stage.expect("in a tool", &working(&agent.id, agent.pid))
}

pub(super) fn wrapped(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut done = run(stage, &cwd, "first [[say:one]]")?;
    done.ended()?;
    let wrapper = native_wrapper(stage, "pi")?;
    let wrapper = wrapper.to_string_lossy();
    let mut alone = stage.start(&cwd, &env(), &[&wrapper, "-c", "/bin/sleep 60; true"])?;
    drop(stage.until_below(alone.pid(), "/bin/sleep 60")?);
    // A program called `pi` may be the other agent of that name; it is none of this one's sessions.
    let rows = stage.rows(&[])?;
    let is_session = |r: &Value| r["id"] == done.id.as_str();
    let is_apart = |r: &Value| r["adapter"] != "pi" && r["status"] == "unknown";
    let holds = rows.iter().all(|r| is_session(r) || is_apart(r));
    stage.expect_that("a program of that name is no session", holds, format!("{rows:?}"));
    stage.expect("the ended session meanwhile", &finished(&done.id))?;
    alone.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    alone.wait(PATIENCE).map_err(|e| e.to_string())?;
    only(stage, &[&done.id])
}

pub(super) fn moved_events(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, "moved")?;
    // Before the stream begins: a change in the usual home would wake it.
    settings(stage, ".pi/agent")?;
    let events = Events::begin(stage)?;
    let mut env = env();
    let moved = stage.home.join("moved").to_string_lossy().into_owned();
    env.push(("PI_CODING_AGENT_DIR".into(), moved));
    let prompt = "moving [[tool:true]] [[delay:3]] [[say:done]]";
    let mut agent = run_with(stage, &cwd, &[], prompt, &env)?;
    agent.ended()?;
    events.expect(stage, &agent.id, "session.started");
    events.expect(stage, &agent.id, "session.stopped");
    Ok(())
}

/// A terminal in its second turn, and after it.
pub(super) fn in_terminal(stage: &mut Stage) -> Result<(), Trouble> {
    let (terminal, agent) = open(stage, &["pi"])?;
    enter(stage, &terminal, "greet [[say:hello]]")?;
    let id = stage.until("it has a file", || ids(stage).pop())?;
    recorded(stage, &id, "\"hello\"")?;
    let idle = Claim::of(&id, "idle").because(None).served_by(&[agent.pid]);
    stage.expect("after a turn", &idle)?;
    enter(stage, &terminal, &work())?;
    let tool = stage.until_below(agent.pid, WORK)?;
    recorded(stage, &id, "\"toolCall\"")?;
    stage.expect("in a tool", &working(&id, agent.pid))?;
    tool.signal(Signal::TERM).map_err(|e| e.to_string())?;
    recorded(stage, &id, "\"never\"")?;
    stage.expect("after the tool", &idle)
}

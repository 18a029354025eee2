//! More than one process, session or file: resumed, forked, doubled, subagents, background sessions.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::headless::{running, stopped};
use super::ways::{
    answers, end, env, id, lines, print_mode, print_with, resume, settle, told, until_calling,
    until_subagent_called, until_written,
};
use crate::judge::Claim;
use crate::process::{Held, command_line};
use crate::scenario::alike::WORK;
use crate::stage::{Stage, Trouble};

/// Plays a session to its end and returns its id.
fn past(stage: &Stage, cwd: &std::path::Path) -> Result<String, Trouble> {
    let id = id();
    end(&mut print_mode(stage, cwd, &id, "first [[say:first done]]")?)?;
    Ok(id)
}

pub(super) fn resumed(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let id = past(stage, &cwd)?;
    stage.expect("before", &stopped(&id, "finished"))?;
    let mut agent = resume(stage, &cwd, &id, "second [[hang]]")?;
    until_calling(stage, agent.pid(), &id, "second")?;
    stage.expect("resumed", &running(&id, &[agent.pid()]))?;
    agent.held.signal(Signal::TERM).map_err(told)?;
    end(&mut agent)?;
    stage.expect("after SIGTERM", &stopped(&id, "killed"))
}

pub(super) fn forked(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, fork) = (stage.directory("a")?, id());
    let id = past(stage, &cwd)?;
    let args = ["--resume", &id, "--fork-session", "--session-id", &fork];
    let mut agent = print_with(stage, &cwd, "second [[say:second done]]", &args)?;
    end(&mut agent)?;
    let once = json!({"input": 1000, "output": 50, "cache_read": 7, "cache_write": 11});
    stage.expect("the parent", &stopped(&id, "finished").spent(once))?;
    // A fork's own file begins with its parent's messages, and they are part of its conversation.
    let both = json!({"input": 2000, "output": 100, "cache_read": 14, "cache_write": 22});
    stage.expect("the fork", &stopped(&fork, "finished").spent(both))
}

pub(super) fn same_directory(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, one, two) = (stage.directory("a")?, id(), id());
    let first = print_mode(stage, &cwd, &one, "one [[hang]]")?;
    let mut second = print_mode(stage, &cwd, &two, "two [[hang]]")?;
    until_calling(stage, first.pid(), &one, "one")?;
    until_calling(stage, second.pid(), &two, "two")?;
    stage.expect("the first", &running(&one, &[first.pid()]))?;
    stage.expect("the second", &running(&two, &[second.pid()]))?;
    second.held.signal(Signal::KILL).map_err(told)?;
    end(&mut second)?;
    stage.expect("the first, alone", &running(&one, &[first.pid()]))?;
    stage.expect("the second, killed", &stopped(&two, "killed"))
}

pub(super) fn two_processes(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let id = past(stage, &cwd)?;
    let first = resume(stage, &cwd, &id, "one [[hang]]")?;
    until_calling(stage, first.pid(), &id, "one")?;
    let mut second = resume(stage, &cwd, &id, "two [[hang]]")?;
    until_calling(stage, second.pid(), &id, "two")?;
    stage.expect("both", &running(&id, &[first.pid(), second.pid()]))?;
    second.held.signal(Signal::KILL).map_err(told)?;
    end(&mut second)?;
    stage.expect("one of them killed", &running(&id, &[first.pid()]))
}

pub(super) fn subagent(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let task = json!({
        "description": "sub", "subagent_type": "general-purpose",
        "prompt": format!("subtask [[tool:{WORK}]] [[say:sub done]]"),
    });
    let prompt = format!("delegate [[call:Agent {task}]] [[say:delegated]]");
    let mut agent = print_mode(stage, &cwd, &id, &prompt)?;
    let tool = stage.until_below(agent.pid(), WORK)?;
    until_written(stage, &id, "the main turn's end", |lines| {
        lines.iter().any(|l| answers(l, "delegated"))
    })?;
    let child = until_subagent_called(stage, &id, WORK)?;
    let claim = Claim::of(&id, "running").because(Some("subagents")).served_by(&[agent.pid()]);
    stage.expect("the session", &claim)?;
    below(stage, "the subagent", &id, &child, "running")?;
    tool.signal(Signal::TERM).map_err(told)?;
    end(&mut agent)?;
    stage.expect("after its end", &stopped(&id, "finished"))?;
    below(stage, "the subagent, after its end", &id, &child, "stopped")
}

/// Compares a subagent's row in the tree, its absence from the flat list, and its own `status`.
fn below(
    stage: &mut Stage,
    moment: &str,
    parent: &str,
    child: &str,
    status: &str,
) -> Result<(), Trouble> {
    let is = |r: &&Value| r["id"] == child;
    let tree = stage.rows(&["-a", "--since", "all", "--tree"])?;
    let rows: Vec<&Value> = tree.iter().filter(is).collect();
    let right = matches!(rows.as_slice(), [r] if r["parent"] == parent && r["status"] == status);
    stage.expect_that(&format!("{moment}: its row"), right, Value::from(tree).to_string());
    let flat = stage.rows(&["-a", "--since", "all"])?;
    let none = !flat.iter().any(|r| r["id"] == child);
    stage.expect_that(&format!("{moment}: no row of a list"), none, Value::from(flat).to_string());
    let (_, stdout, stderr) = stage.ask(&["status", child, "--json"])?;
    let said: Value = serde_json::from_str(&stdout).unwrap_or_default();
    let right = said["id"] == child && said["status"] == status;
    stage.expect_that(&format!("{moment}: its status"), right, stdout + &stderr);
    Ok(())
}

pub(super) fn background(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settle(stage, &[&cwd])?;
    end(&mut stage.start(&cwd, &env(stage), &["claude", "--bg", "think [[hang]]"])?)?;
    let live = stage.home.join(".claude/sessions");
    let (id, process) = stage.until("a background session is at work", || {
        let files = std::fs::read_dir(&live).ok()?.flatten().map(|f| f.path());
        let records = files.flat_map(|f| lines(&f));
        let record = records.into_iter().find(|r| r["kind"] == "bg" && r["status"] == "busy")?;
        let pid = u32::try_from(record["pid"].as_u64()?).ok()?;
        Some((record["sessionId"].as_str()?.to_owned(), Held::of(pid).ok()?))
    })?;
    until_calling(stage, process.pid, &id, "think")?;
    stage.until("its spare is there", || {
        let all = crate::process::descendants(1).into_iter();
        let is_spare = |p: &u32| command_line(*p).starts_with("claude bg-spare ");
        all.filter(|p| *p != process.pid).find(is_spare)
    })?;
    stage.expect("while the model thinks", &running(&id, &[process.pid]))?;
    alone(stage, "no row of daemon or spare")?;
    let mut stop = stage.start(&cwd, &env(stage), &["claude", "stop", &id[..8]])?;
    end(&mut stop)?;
    if !process.ended_within(crate::stage::PATIENCE) {
        return Err("`claude stop` did not end it".into());
    }
    // No outcome is claimed: the conversation ends in the open prompt, without a word of a stop.
    stage.expect("after `claude stop`", &Claim::of(&id, "stopped").served_by(&[]))?;
    let rows = stage.rows(&[])?;
    stage.expect_that("no row lives", rows.is_empty(), Value::from(rows).to_string());
    Ok(())
}

fn alone(stage: &mut Stage, moment: &str) -> Result<(), Trouble> {
    let rows = stage.rows(&["-a", "--since", "all"])?;
    stage.expect_that(moment, rows.len() == 1, Value::from(rows).to_string());
    Ok(())
}

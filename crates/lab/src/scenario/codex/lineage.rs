//! Sessions that come from others: resumed, forked, subagents.

use rustix::process::Signal;
use serde_json::Value;

use super::{WORK, env, exec, launch, recorded, words};
use crate::judge::Claim;
use crate::scenario::alike::{finished, spent, working};
use crate::stage::{PATIENCE, Stage, Trouble};

pub(super) fn resumed(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, elsewhere) = (stage.directory("a")?, stage.directory("b")?);
    let mut first = exec(stage, &cwd, "first [[say:one]]")?;
    first.ended()?;
    stage.expect("after its first end", &finished(&first.id).spent(spent(1)))?;
    let mut again = launch(stage, &elsewhere, &words(&["resume", &first.id], "second [[hang]]"))?;
    stage.expect_that("it keeps its id", again.id == first.id, &*again.id);
    again.asked(stage, "second")?;
    let running = Claim::of(&first.id, "running").because(None).served_by(&[again.native.pid]);
    stage.expect("when it goes on", &running.hosted(false))?;
    again.signal(Signal::INT)?;
    again.ended()?;
    let ended = Claim::of(&first.id, "stopped").ended("interrupted").served_by(&[]);
    stage.expect("after SIGINT", &ended.spent(spent(1)))?;
    let mut third = launch(stage, &cwd, &words(&["resume", &first.id], "third [[say:three]]"))?;
    third.ended()?;
    stage.expect("after its last end", &finished(&first.id).spent(spent(2)))
}

pub(super) fn forked(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut parent = exec(stage, &cwd, "parent [[tool:true]] [[say:one]]")?;
    parent.ended()?;
    let fork = words(&["fork", &parent.id], "forking [[delay:4]] [[say:two]]");
    let mut child = launch(stage, &cwd, &fork)?;
    stage.expect_that("it has its own id", child.id != parent.id, &*child.id);
    child.asked(stage, "forking")?;
    let running = Claim::of(&child.id, "running").because(None).served_by(&[child.native.pid]);
    stage.expect("while the fork's model thinks", &running.hosted(false))?;
    stage.expect("the parent meanwhile", &finished(&parent.id).spent(spent(2)))?;
    child.ended()?;
    stage.expect("after the fork's end", &finished(&child.id).spent(spent(1)))?;
    stage.expect("the parent then", &finished(&parent.id).spent(spent(2)))
}

pub(super) fn second_writer(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, elsewhere) = (stage.directory("a")?, stage.directory("b")?);
    let agent = exec(stage, &cwd, &format!("working [[tool:{WORK}]] [[say:never]]"))?;
    agent.in_tool(stage)?;
    let second = words(&["resume", &agent.id], "refused [[hang]]");
    let mut second = stage.start(&elsewhere, &env(), &second)?;
    let status = second.wait(PATIENCE).map_err(|e| e.to_string())?;
    let refused = status.code() == Some(1) && super::said(stage).contains("active writer");
    stage.expect_that("the second is refused", refused, format!("{status}"));
    stage.expect("the first meanwhile", &working(&agent.id, agent.native.pid))
}

pub(super) fn subagent(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let prompt = format!(
        "parent [[call:multi_agent_v1/spawn_agent {{\"agent_type\":\"default\",\"message\":\
         \"child [[hang]]\"}}]] [[tool:{WORK}]] [[say:never]]"
    );
    let agent = exec(stage, &cwd, &prompt)?;
    stage.until_asked("by the subagent", |r| r.prompt.starts_with("child"))?;
    agent.in_tool(stage)?;
    agent.recorded(stage, "\"exec_command\"")?;
    let locks = agent.home.join("thread-writer-locks");
    let child = stage.until("the subagent has a lock", || {
        let names = std::fs::read_dir(&locks).ok()?.flatten();
        let names = names.map(|e| e.file_name().to_string_lossy().into_owned());
        let ids = names.filter_map(|n| n.strip_suffix(".lock").map(str::to_owned));
        ids.filter(|id| !id.is_empty() && !id.starts_with('.')).find(|id| *id != agent.id)
    })?;
    recorded(stage, &agent.home, &child, "child [[hang]]")?;
    stage.expect("the parent", &working(&agent.id, agent.native.pid))?;
    for args in [&[][..], &["-a"]] {
        let rows = stage.rows(args)?;
        let alone = rows.iter().all(|r| r["id"] == agent.id.as_str()) && rows.len() == 1;
        stage.expect_that("the subagent is no row of its own", alone, format!("{rows:?}"));
    }
    let tree = stage.rows(&["--tree"])?;
    let found: Vec<&Value> = tree.iter().filter(|r| r["id"] == child.as_str()).collect();
    let below = matches!(found.as_slice(), [row] if row["status"] == "running"
        && row["parent"] == agent.id.as_str());
    stage.expect_that("with --tree it is below its parent", below, format!("{tree:?}"));
    let (code, stdout, stderr) = stage.ask(&["status", &child, "--json"])?;
    let row: Value = serde_json::from_str(&stdout).unwrap_or_default();
    let same = row["status"] == "running" && row["parent"] == agent.id.as_str();
    stage.expect_that("its status", same, format!("exit {code:?}: {stdout}{stderr}"));
    Ok(())
}

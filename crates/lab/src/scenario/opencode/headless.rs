//! `opencode run` at work, and how it ends.

use rustix::process::Signal;

use super::{
    Run, WORK, database, ended, env, native, query, recorded, run, run_in, settings, with,
};
use crate::judge::Claim;
use crate::scenario::alike::{self, SPEAKING, calling, spent};
use crate::stage::{Stage, Trouble};

pub(super) fn starting(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage)?;
    let argv = ["opencode", "run", "--title", "begin", "beginning [[hang]]"];
    let started = stage.start(&cwd, &env(), &argv)?;
    // Until its log names the session, it is not known whether the session in the database belongs to the process, and
    // until the process has written its first line, it is not known whether the process has a session at all.
    alike::starting(stage, "beginning", || {
        &[&[], &["running"], &["unknown"], &["running", "unknown"], &["unknown", "unknown"]]
    })?;
    let id = query(&database(stage), "select id from session where title = ?1", "begin");
    let id = id.ok_or("no session")?;
    recorded(stage, &database(stage), &id, "\"assistant\"")?;
    stage.expect("when the model is asked", &calling(&id, native(stage, started.pid())?.pid))
}

pub(super) fn model_call(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent =
        run(stage, &cwd, "t", "thinking [[delay:12]] [[pace:0.2]] [[say:done thinking]]")?;
    agent.asked(stage, "thinking")?;
    stage.expect("while the model thinks", &agent.running().because(None))?;
    agent.ended()?;
    stage.expect("after its end", &ended(&agent.id, "finished").spent(spent(1)))
}

pub(super) fn killed_in_tool(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, "t", &format!("working [[tool:{WORK}]]"))?;
    let tool = agent.in_tool(stage)?;
    let working = agent.running().because(Some("tool")).about_what(WORK);
    stage.expect("in the tool", &working)?;
    agent.signal(Signal::KILL)?;
    agent.ended()?;
    stage.expect("after SIGKILL", &ended(&agent.id, "killed"))?;
    stage.expect_that("its tool lives on, and counts for nothing", tool.lives(), "it ended");
    Ok(())
}

pub(super) fn failed_401(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, "t", "refused [[error:401]]")?;
    agent.ended()?;
    stage.expect("after its end", &ended(&agent.id, "failed").because(Some("failure")))
}

pub(super) fn three(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agents = Vec::new();
    for name in ["one", "two", "three"] {
        agents.push((name, run(stage, &cwd, name, &format!("{name} [[hang]]"))?));
    }
    for (name, agent) in &agents {
        agent.asked(stage, name)?;
    }
    for (name, agent) in &agents {
        stage.expect(name, &agent.running().because(None))?;
    }
    agents[1].1.signal(Signal::TERM)?;
    agents[1].1.ended()?;
    stage.expect("the second after SIGTERM", &ended(&agents[1].1.id, "killed"))?;
    stage.expect("the first meanwhile", &agents[0].1.running().because(None))
}

pub(super) fn resumed(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, "t", "first [[say:one]]")?;
    agent.ended()?;
    stage.expect("after the first turn", &ended(&agent.id, "finished"))?;
    let argv = ["opencode", "run", "--session", &agent.id, "second [[hang]]"];
    let again = stage.start(&cwd, &env(), &argv)?;
    stage.until_asked("second", |r| !r.side && r.prompt.contains("second"))?;
    let newest =
        "select data from message where session_id = ?1 order by time_created desc, id desc";
    stage.until("its answer has begun", || {
        query(&agent.database, newest, &agent.id)
            .filter(|d| !d.contains("\"completed\"") && d.contains("\"assistant\""))
    })?;
    let pid = native(stage, again.pid())?.pid;
    let running = Claim::of(&agent.id, "running").because(None).served_by(&[pid]);
    stage.expect("in the second turn", &running.hosted(false))
}

pub(super) fn retrying(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let agent = run(stage, &cwd, "t", "limited [[error:429]]")?;
    agent.asked(stage, "limited")?;
    let log = stage.home.join(".local/share/opencode/log/opencode.log");
    stage.until("the log tells of a failed call", || {
        std::fs::read_to_string(&log).ok()?.contains("stream error").then_some(())
    })?;
    stage.until("it is seen as one that is tried again", || {
        let row = stage.rows(&[]).ok()?.into_iter().find(|r| r["id"] == agent.id.as_str())?;
        (row["reason"]["kind"] == "retrying").then_some(())
    })?;
    stage.expect("while it tries again", &agent.running())
}

pub(super) fn refused_tool(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let env = with(&[("OPENCODE_PERMISSION", "{\"bash\":\"ask\"}")]);
    let words = ["--title", "t", "asking [[tool:touch forbidden]] [[say:never]]"];
    let mut agent = run_in(stage, &cwd, &env, &database(stage), &words)?;
    agent.ended()?;
    stage.expect("after its end", &ended(&agent.id, "finished").noting("touch forbidden"))
}

pub(super) fn subagent(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let call =
        r#"{"description": "sub job", "prompt": "sub [[hang]] ", "subagent_type": "general"}"#;
    // From arguments it would take every quote for one to be escaped.
    stage.write("prompt", &format!("above [[call:task {call} ]]"))?;
    settings(stage)?;
    let words = "exec opencode run --title t < $HOME/prompt";
    let started = stage.start(&cwd, &env(), &["/bin/bash", "-c", words])?;
    let database = database(stage);
    let id = stage.until("its session is in the database", || {
        query(&database, "select id from session where title = ?1", "t")
    })?;
    let agent = Run { native: native(stage, started.pid())?, started, id, database };
    let child = stage.until("the subagent has a session", || {
        query(&agent.database, "select id from session where parent_id = ?1", &agent.id)
    })?;
    stage.until_asked("sub", |r| !r.side && r.prompt.starts_with("sub"))?;
    recorded(stage, &agent.database, &child, "\"assistant\"")?;
    recorded(stage, &agent.database, &agent.id, "\"sessionId\"")?;
    stage.expect("the parent", &agent.running().because(Some("tool")))?;
    let rows = stage.rows(&[])?;
    stage.expect_that("it is no row of its own", rows.len() == 1, format!("{rows:?}"));
    let rows = stage.rows(&["--tree"])?;
    let below = rows.iter().find(|r| r["id"] == child.as_str());
    let fits = below.is_some_and(|r| r["parent"] == agent.id.as_str() && r["status"] == "running");
    stage.expect_that("it is below its parent", fits, format!("{rows:?}"));
    Ok(())
}

pub(super) fn paused(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let agent = run(stage, &cwd, "t", "thinking [[hang]]")?;
    agent.asked(stage, "thinking")?;
    alike::paused(stage, &agent.id, &agent.started.held)
}

pub(super) fn forked(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, "t", "first [[say:one]]")?;
    agent.ended()?;
    let argv = ["opencode", "run", "--session", &agent.id, "--fork", "second [[hang]]"];
    let fork = stage.start(&cwd, &env(), &argv)?;
    stage.until_asked("second", |r| !r.side && r.prompt.contains("second"))?;
    let id = stage.until("the fork has a session", || {
        query(&agent.database, "select id from session where id <> ?1", &agent.id)
    })?;
    recorded(stage, &agent.database, &id, "second")?;
    stage.until("its answer has begun", || {
        let newest =
            "select data from message where session_id = ?1 order by time_created desc, id desc";
        query(&agent.database, newest, &id)
            .filter(|d| !d.contains("\"completed\"") && d.contains("\"assistant\""))
    })?;
    let pid = native(stage, fork.pid())?.pid;
    let running = Claim::of(&id, "running").because(None).served_by(&[pid]);
    stage.expect("the fork", &running.hosted(false))?;
    stage.expect("where it came from", &ended(&agent.id, "finished"))
}

pub(super) fn logs(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = run(stage, &cwd, "t", SPEAKING)?;
    agent.ended()?;
    // A prompt of several words in its arguments is taken down with quotes around it.
    alike::logs(stage, &agent.id, &format!("\"{SPEAKING}\""), ("bash", "command"))
}

pub(super) fn moved_data(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let data = stage.home.join("moved");
    let env = with(&[("XDG_DATA_HOME", &data.to_string_lossy())]);
    let database = data.join("opencode/opencode.db");
    let agent = run_in(stage, &cwd, &env, &database, &["--title", "t", "thinking [[hang]]"])?;
    agent.asked(stage, "thinking")?;
    stage.expect("while it works elsewhere", &agent.running().because(None))
}

pub(super) fn moved_db(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let database = stage.home.join("other.sqlite");
    let env = with(&[("OPENCODE_DB", &database.to_string_lossy())]);
    let agent = run_in(stage, &cwd, &env, &database, &["--title", "t", "thinking [[hang]]"])?;
    agent.asked(stage, "thinking")?;
    stage.expect("while it works elsewhere", &agent.running().because(None))
}

//! OpenCode ordered about.

use super::{TOOL_RUNS, WORK, database, ended, env, query, recorded, run, settings, shared};
use crate::judge::Claim;
use crate::process::Held;
use crate::stage::{PATIENCE, Stage, Trouble};

/// Launches one and returns its id and its process.
fn launch(stage: &Stage, prompt: &str) -> Result<(String, Held), Trouble> {
    settings(stage)?;
    let cwd = stage.directory("a")?;
    let told = stage.order(&cwd, &env(), &["launch", "opencode", "-p", prompt])?;
    let id = told.line().map_err(|e| format!("{e}: {}", told.all()))?.clone();
    let pid = stage.until("a process has the id in its arguments", || {
        crate::process::all().into_iter().find(|pid| {
            crate::process::comm(*pid) == "opencode"
                && crate::process::command_line(*pid).contains(&id)
        })
    });
    Ok((id, Held::of(pid?).map_err(|e| e.to_string())?))
}

pub(super) fn launched(stage: &mut Stage) -> Result<(), Trouble> {
    let (id, agent) = launch(stage, "first \"quoted\"\nline [[delay:15]] [[say:one]]")?;
    let in_store = query(&database(stage), "select id from session where id = ?1", &id);
    stage.expect_that("the id is the agent's own", in_store.as_ref() == Some(&id), id.clone());
    let running = Claim::of(&id, "running").served_by(&[agent.pid]).hosted(false);
    stage.expect("right after the launch", &running)?;
    let home = stage.home.clone();
    let told = stage.order(&home, &env(), &["resume", &id, "too early"])?;
    stage.expect_that("a second one is refused", told.code == Some(5), told.all());
    let told = stage.order(&home, &env(), &["wait", &id, "--timeout", "60s"])?;
    stage.expect_that("`wait`", told.code == Some(0), told.all());
    stage.expect("after its end", &ended(&id, "finished"))?;
    let first = "select p.data from part p join message m on m.id = p.message_id where p.session_id = ?1 order by m.time_created, p.id";
    let said = query(&database(stage), first, &id).unwrap_or_default();
    let whole = said.contains(r#"first \"quoted\"\nline"#);
    stage.expect_that("the prompt arrived as it was", whole, said);
    let told = stage.order(&home, &env(), &["resume", &id, "second [[say:two]]"])?;
    stage.expect_that("`resume`", told.code == Some(0), told.all());
    recorded(stage, &database(stage), &id, "second")?;
    let told = stage.order(&home, &env(), &["wait", &id, "--timeout", "60s"])?;
    stage.expect_that("`wait` again", told.code == Some(0), told.all());
    stage.expect("after its second end", &ended(&id, "finished"))
}

pub(super) fn fails(stage: &mut Stage) -> Result<(), Trouble> {
    settings(stage)?;
    let cwd = stage.directory("a")?;
    let words = ["launch", "opencode", "--model", "no/such", "-p", "hello [[hang]]"];
    let told = stage.order(&cwd, &env(), &words)?;
    // Which model it was OpenCode itself does not say.
    shared::failing::expect(stage, "an unknown model", &told, "error: opencode: ")
}

pub(super) fn stopped(stage: &mut Stage) -> Result<(), Trouble> {
    let (id, agent) = launch(stage, &format!("working [[tool:{WORK}]]"))?;
    let tool = stage.until_below(agent.pid, WORK)?;
    recorded(stage, &database(stage), &id, TOOL_RUNS)?;
    let told = stage.order(&stage.home, &env(), &["stop", &id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    let gone = agent.ended_within(PATIENCE) && tool.ended_within(PATIENCE);
    stage.expect_that("agent and tool are gone", gone, told.all());
    stage.expect("after the stop", &ended(&id, "killed"))
}

pub(super) fn by_hand(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let tools = format!("working [[tool:{WORK}]]");
    let mut agent = run(stage, &cwd, "t", &tools)?;
    let tool = agent.in_tool(stage)?;
    let told = stage.order(&stage.home, &env(), &["stop", &agent.id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    agent.ended()?;
    stage.expect_that("its tool is gone too", tool.ended_within(PATIENCE), told.all());
    stage.expect("after the stop", &ended(&agent.id, "killed"))
}

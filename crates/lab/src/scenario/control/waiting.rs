//! Scripts that wait.

use super::{Kind, agents, at_work, finish, order, stopped, until_told};
use crate::judge::Claim;
use crate::stage::{Stage, Trouble};

/// A prompt that fails after a tool.
const FAILING: &str = "fail [[tool:true]] [[error:500]]";

pub(super) fn waited<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let (launched, tool) = at_work::<K>(stage, "a", &[])?;
    let env = K::env(stage, true);
    let late = stage.order(&stage.home, &env, &["wait", &launched.id, "--timeout", "1s"])?;
    stage.expect_that("124 when the time is up", late.code == Some(124), late.all());
    let wait = stage.begin(&stage.home, &env, &["wait", &launched.id], b"")?;
    finish(stage, &launched.agent, &tool)?;
    let told = wait.told()?;
    stage.expect_that("0 at its end", told.code == Some(0), told.all());
    let told = stage.order(&stage.home, &env, &["wait", &launched.id])?;
    stage.expect_that("0 after its end", told.code == Some(0), told.all());
    stage.expect("after its end", &stopped(&launched.id).ended("finished"))?;
    let retries = ["--env", "CLAUDE_CODE_MAX_RETRIES=1"];
    let id = order::<K>(stage, &launched.cwd, FAILING, &retries)?.line()?;
    let told = stage.order(&stage.home, &env, &["wait", &id])?;
    stage.expect_that("1 when it failed", told.code == Some(1), told.all());
    until_told(stage, 2)?;
    stage.expect("after its failure", &Claim::of(&id, "error").ended("failed").served_by(&[]))?;
    let (killed, _tool) = at_work::<K>(stage, "b", &[])?;
    let wait = stage.begin(&stage.home, &env, &["wait", &killed.id], b"")?;
    killed.agent.signal(rustix::process::Signal::KILL).map_err(|e| e.to_string())?;
    let told = wait.told()?;
    stage.expect_that("1 when it was killed", told.code == Some(1), told.all());
    Ok(())
}

pub(super) fn launched<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let cwd = stage.directory("a")?;
    // After the wait the directory is free at once.
    let told = order::<K>(stage, &cwd, "do [[tool:true]] [[say:done]]", &["--wait"])?;
    let id = told.line()?;
    stage.expect_that("0 at its end", told.code == Some(0), told.all());
    let more = ["--wait", "--env", "CLAUDE_CODE_MAX_RETRIES=1"];
    let told = order::<K>(stage, &cwd, FAILING, &more)?;
    stage.expect_that("1 when it failed", told.code == Some(1), told.all());
    let told = order::<K>(stage, &cwd, "think [[hang]]", &["--wait", "--timeout", "2s"])?;
    stage.expect_that("124 when the time is up", told.code == Some(124), told.all());
    let lives = !agents().is_empty();
    stage.expect_that("and it goes on", lives, "there is no agent any more");
    stage.expect("the first", &stopped(&id).ended("finished").with("/exit/code", 0))
}

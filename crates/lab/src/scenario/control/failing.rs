//! Failed launches: one sentence, a hint, and no process left.

use super::{Kind, agents, others};
use crate::order::Told;
use crate::process::command_line;
use crate::stage::{Stage, Trouble};

/// Says that a launch failed as it should, and left nothing.
pub(in crate::scenario) fn expect(
    stage: &mut Stage,
    what: &str,
    told: &Told,
    words: &str,
) -> Result<(), Trouble> {
    let right = told.fails(1) && told.stderr.contains(words);
    stage.expect_that(what, right, told.all());
    let agents = agents().iter().map(|h| command_line(h.pid)).collect::<Vec<_>>();
    stage.expect_that(&format!("{what}: no agent lives"), agents.is_empty(), agents.join("\n"));
    let left = stage.until("nothing lives", || others().is_empty().then_some(()));
    stage.expect_that(&format!("{what}: nothing is left"), left.is_ok(), others().join("\n"));
    let rows = stage.rows(&[])?;
    stage.expect_that(&format!("{what}: no row lives"), rows.is_empty(), format!("{rows:?}"));
    Ok(())
}

pub(super) fn no_key<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let cwd = stage.directory("a")?;
    let args = ["launch", K::NAME, "--permissions", "bypass", "-p", "hello [[say:no]]"];
    let told = stage.order(&cwd, &K::env(stage, false), &args)?;
    expect(stage, "without a key", &told, K::KEYLESS)?;
    let asked = stage.model.requests().iter().any(|r| r.prompt.starts_with("hello"));
    stage.expect_that("the model was not asked", !asked, "it was");
    Ok(())
}

pub(super) fn no_model<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let cwd = stage.directory("a")?;
    let args = ["launch", K::NAME, "--permissions", "bypass", "--model", "nosuchmodel", "-p", "x"];
    let told = stage.order(&cwd, &K::env(stage, true), &args)?;
    expect(stage, "an unknown model", &told, "nosuchmodel")
}

pub(super) fn no_program<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let cwd = stage.directory("a")?;
    let mut env = K::env(stage, true);
    env.push(("PATH".into(), "/usr/bin:/bin".into()));
    let told = stage.order(&cwd, &env, &["launch", K::NAME, "-p", "x"])?;
    expect(stage, "no program", &told, K::PROGRAM)?;
    let missing = cwd.join("missing");
    let missing = missing.to_string_lossy();
    let args = ["launch", K::NAME, "-p", "x", "--cwd", &missing];
    let told = stage.order(&cwd, &K::env(stage, true), &args)?;
    expect(stage, "no directory", &told, "missing")
}

//! Sessions that go on.

use rustix::process::Signal;

use super::{
    Kind, at_work, calling, finish, launch, order, served, stopped, until_ended, until_told,
    working,
};
use crate::process::directory;
use crate::stage::{Stage, Trouble};

/// Plays a session to its end and returns its id.
fn past<K: Kind>(stage: &Stage, name: &str) -> Result<String, Trouble> {
    K::settle(stage)?;
    let id = order::<K>(stage, &stage.directory(name)?, "first [[say:first done]]", &[])?.line()?;
    until_told(stage, 1)?;
    Ok(id)
}

pub(super) fn resumed<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let id = past::<K>(stage, "a")?;
    let (cwd, elsewhere) = (stage.directory("a")?, stage.directory("elsewhere")?);
    let args = ["resume", &id, "second [[hang]]", "--permissions", "bypass"];
    let told = stage.order(&elsewhere, &K::env(stage, true), &args)?;
    let same = told.line().is_ok_and(|line| line == id);
    stage.expect_that("the id stays", same, told.all());
    // The resume returned once the record had the message: no waiting here.
    let said = K::record(stage, &id).map(|r| K::prompts(&r)).unwrap_or_default();
    let kept = said == ["first [[say:first done]]", "second [[hang]]"];
    stage.expect_that("the record holds the message at once", kept, format!("{said:?}"));
    let agent = served::<K>(stage, &cwd, &id)?;
    K::until_calling(stage, agent.pid, &id, "second")?;
    let place = directory(agent.pid);
    let there = place.as_deref() == Some(cwd.as_path());
    stage.expect_that("it works where it did", there, format!("{place:?}"));
    let claim = calling(&id, agent.pid).with("/cwd", cwd.to_string_lossy().into_owned());
    stage.expect("resumed", &claim)?;
    let told = stage.order(&elsewhere, &K::env(stage, true), &["stop", &id])?;
    stage.expect_that("stopped", told.code == Some(0) && !agent.lives(), told.all());
    until_told(stage, 2)?;
    stage.expect("after the stop", &stopped(&id).ended(K::STOPPED))
}

pub(super) fn busy<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let (launched, tool) = at_work::<K>(stage, "a", &[])?;
    let before = K::record(stage, &launched.id).map(|r| K::prompts(&r));
    let args = ["resume", &launched.id, "second [[say:no]]"];
    let told = stage.order(&stage.home, &K::env(stage, true), &args)?;
    let named = told.stderr.contains(&launched.agent.pid.to_string());
    stage.expect_that("refused, naming the process", told.fails(5) && named, told.all());
    let after = K::record(stage, &launched.id).map(|r| K::prompts(&r));
    stage.expect_that("nothing was said to it", before == after, format!("{after:?}"));
    stage.expect("it works on", &working(&launched.id, launched.agent.pid))?;
    finish(stage, &launched.agent, &tool)?;
    stage.expect("after its end", &stopped(&launched.id).ended("finished"))
}

pub(super) fn forked<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let id = past::<K>(stage, "a")?;
    let record = K::record(stage, &id).ok_or("it has no record")?;
    let before = std::fs::read(&record).map_err(|e| e.to_string())?;
    let args = ["resume", &id, "second [[hang]]", "--fork", "--permissions", "bypass"];
    let told = stage.order(&stage.home, &K::env(stage, true), &args)?;
    let fork = told.line()?;
    stage.expect_that("it has an id of its own", fork != id, told.all());
    let agent = served::<K>(stage, &stage.directory("a")?, &fork)?;
    K::until_calling(stage, agent.pid, &fork, "second")?;
    stage.expect("the fork", &calling(&fork, agent.pid))?;
    stage.expect("the one it was forked from", &stopped(&id).ended("finished"))?;
    let after = std::fs::read(&record).map_err(|e| e.to_string())?;
    stage.expect_that("which is untouched", before == after, "its record has changed");
    agent.signal(Signal::KILL).map_err(|e| e.to_string())?;
    until_ended(&agent, "the fork")?;
    // Of a session at work, beside it.
    let first = launch::<K>(stage, "b", "third [[hang]]", &[])?;
    K::until_calling(stage, first.agent.pid, &first.id, "third")?;
    let args = ["resume", &first.id, "fourth [[hang]]", "--fork", "--permissions", "bypass"];
    let fork = stage.order(&stage.home, &K::env(stage, true), &args)?.line()?;
    let agent = served::<K>(stage, &first.cwd, &fork)?;
    K::until_calling(stage, agent.pid, &fork, "fourth")?;
    stage.expect("the fork of a session at work", &calling(&fork, agent.pid))?;
    stage.expect("the session at work", &calling(&first.id, first.agent.pid))
}

pub(super) fn killed<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let (launched, _tool) = at_work::<K>(stage, "a", &[])?;
    launched.agent.signal(Signal::KILL).map_err(|e| e.to_string())?;
    until_ended(&launched.agent, "the agent")?;
    until_told(stage, 1)?;
    stage.expect("after SIGKILL", &stopped(&launched.id).ended("killed"))?;
    let args = ["resume", &launched.id, "again [[say:all well]]", "--permissions", "bypass"];
    let told = stage.order(&stage.home, &K::env(stage, true), &args)?;
    let same = told.line().is_ok_and(|line| line == launched.id);
    stage.expect_that("the id stays", same, told.all());
    until_told(stage, 2)?;
    stage.until_asked("again", |r| r.prompt.starts_with("again"))?;
    stage.expect("resumed, after its end", &stopped(&launched.id).ended("finished"))
}

//! Occupied directories, and agents that launch agents.

use rustix::process::Signal;
use serde_json::Value;

use super::{
    Kind, WORK, agents, at_work, calling, finish, launch, marked, order, served, shims, stopped,
    until_ended, until_told, working,
};
use crate::order::Told;
use crate::process::{Held, environment};
use crate::stage::{Stage, Trouble};

/// Says whether a launch was refused with the name of the occupant.
fn refused(told: &Told, id: &str, pid: u32) -> bool {
    told.fails(5) && told.stderr.contains(id) && told.stderr.contains(&format!("pid {pid}"))
}

pub(super) fn occupied<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let (first, tool) = at_work::<K>(stage, "a", &[])?;
    let told = order::<K>(stage, &first.cwd, "second [[say:no]]", &[])?;
    let right = refused(&told, &first.id, first.agent.pid);
    stage.expect_that("beside a launched one", right, told.all());
    finish(stage, &first.agent, &tool)?;
    let told = order::<K>(stage, &first.cwd, "third [[hang]]", &[])?;
    stage.expect_that("after its end", told.code == Some(0), told.all());
    let third = served::<K>(stage, &first.cwd, &told.line()?)?;
    third.signal(Signal::KILL).map_err(|e| e.to_string())?;
    until_ended(&third, "the third")?;
    // A session started by hand, below a link of another name.
    let cwd = stage.directory("b")?;
    let mut hand = K::by_hand(stage, &cwd, "by hand [[hang]]")?;
    let (id, pid) = stage.until("it is served", || K::serving(stage, &cwd).into_iter().next())?;
    K::until_calling(stage, pid, &id, "by hand")?;
    let link = stage.home.join("link");
    std::os::unix::fs::symlink(&cwd, &link).map_err(|e| e.to_string())?;
    let told = order::<K>(stage, &link, "fourth [[say:no]]", &[])?;
    stage.expect_that("beside one that nobody launched", refused(&told, &id, pid), told.all());
    stage.expect("the one that nobody launched", &calling(&id, pid))?;
    let forced = order::<K>(stage, &cwd, "fifth [[say:beside it]]", &["--force"])?;
    stage.expect_that("--force", forced.code == Some(0), forced.all());
    Held::of(pid).and_then(|h| h.signal(Signal::KILL)).map_err(|e| e.to_string())?;
    hand.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    // The environment of a process that exits cannot be read: only its parent knows that it is gone.
    let gone = || agents().is_empty() && shims().is_empty();
    stage.until("the fifth has ended", || gone().then_some(()))?;
    let told = order::<K>(stage, &cwd, "sixth [[say:now]]", &[])?;
    stage.expect_that("after its death", told.code == Some(0), told.all());
    Ok(())
}

pub(super) fn locked<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let (launched, tool) = at_work::<K>(stage, "a", &[])?;
    let rows = locks(stage)?;
    let row = |kind: &str| rows.iter().find(|r| r["kind"] == kind).cloned().unwrap_or_default();
    let occupied = row("occupied");
    let right = rows.len() == 1
        && occupied["session"] == launched.id.as_str()
        && occupied["pid"] == launched.agent.pid
        && occupied["directory"] == *launched.cwd.to_string_lossy();
    stage.expect_that("`locks` names the session at work", right, format!("{rows:?}"));
    let (home, env) = (stage.home.clone(), K::env(stage, true));
    let path = launched.cwd.to_string_lossy();
    let args = ["lock", &path, "--by", "ada", "--reason", "release day"];
    let told = stage.order(&home, &env, &args)?;
    stage.expect_that("`lock`", told.code == Some(0), told.all());
    finish(stage, &launched.agent, &tool)?;
    let rows = locks(stage)?;
    let right = matches!(rows.as_slice(), [r] if r["kind"] == "manual" && r["by"] == "ada");
    stage.expect_that("the lock stays, the session's hold is over", right, format!("{rows:?}"));
    let told = order::<K>(stage, &launched.cwd, "second [[say:no]]", &[])?;
    let named = told.stderr.contains("ada") && told.stderr.contains("release day");
    stage.expect_that("`launch` is refused", told.fails(5) && named, told.all());
    let args = ["resume", &launched.id, "third [[say:no]]"];
    let told = stage.order(&home, &env, &args)?;
    stage.expect_that("`resume` is refused", told.fails(5), told.all());
    let told = stage.order(&home, &env, &["unlock", &path])?;
    stage.expect_that("`unlock`", told.code == Some(0), told.all());
    let told = order::<K>(stage, &launched.cwd, "fourth [[say:yes]]", &[])?;
    stage.expect_that("`launch` goes in", told.line().is_ok(), told.all());
    Ok(())
}

/// Returns the rows of `locks`.
fn locks(stage: &Stage) -> Result<Vec<Value>, Trouble> {
    let (_, stdout, stderr) = stage.ask(&["locks", "--json"])?;
    let document: Value = serde_json::from_str(&stdout).map_err(|e| format!("{e}: {stderr}"))?;
    Ok(document["locks"].as_array().cloned().unwrap_or_default())
}

pub(super) fn racing<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    for round in 1..=5 {
        let cwd = stage.directory(&format!("race-{round}"))?;
        let args = ["launch", K::NAME, "--permissions", "bypass", "-p", "race [[hang]]"];
        let env = K::env(stage, true);
        let mut orders = Vec::new();
        for _ in 0..3 {
            orders.push(stage.begin(&cwd, &env, &args, b"")?);
        }
        let told = orders.into_iter().map(crate::order::Order::told);
        let told: Vec<Told> = told.collect::<Result<_, _>>()?;
        let mut codes: Vec<Option<i32>> = told.iter().map(|t| t.code).collect();
        codes.sort_unstable();
        let live = K::serving(stage, &cwd);
        let won = codes == [Some(0), Some(5), Some(5)] && live.len() == 1;
        let id = told.iter().find_map(|t| t.line().ok()).unwrap_or_default();
        let same = live.first().is_some_and(|(served, _)| *served == id);
        let all: Vec<String> = told.iter().map(Told::all).collect();
        let evidence = format!("{live:?}\n{}", all.join("\n"));
        stage.expect_that(&format!("round {round}: one wins"), won && same, evidence);
        for agent in agents() {
            agent.signal(Signal::KILL).map_err(|e| e.to_string())?;
            until_ended(&agent, "the agent")?;
        }
        for (_, pid) in live {
            if let Ok(held) = Held::of(pid) {
                // A wrapper's end may have taken it along.
                let _gone = held.signal(Signal::KILL);
                until_ended(&held, "the agent")?;
            }
        }
    }
    Ok(())
}

pub(super) fn nested<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    inside::<K>(stage, "outer", "inner")
}

pub(super) fn nested_here<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    inside::<K>(stage, "shared", "shared")
}

/// An agent launches another by its shell; then the outer one is stopped.
fn inside<K: Kind>(stage: &mut Stage, outer: &str, inner: &str) -> Result<(), Trouble> {
    let there = stage.directory(inner)?;
    let said = stage.home.join("inner.out");
    // Some agents keep keys from their tools, or give them the PATH of a login shell.
    let keys: Vec<String> =
        K::env(stage, true).iter().map(|(k, v)| format!("--env {k}={v}")).collect();
    let line = format!(
        "PATH={}:$PATH {} launch {} {} --permissions bypass --cwd {} -p 'within [[hang]]' >{} 2>&1",
        stage.agent.bin.display(),
        stage.agentctl.display(),
        K::NAME,
        keys.join(" "),
        there.display(),
        said.display()
    );
    let prompt = format!("around [[tool:{line}]] [[tool:{WORK}]] [[say:over]]");
    let around = launch::<K>(stage, outer, &prompt, &[])?;
    let tool = K::until_working(stage, around.agent.pid, &around.id)?;
    let told = std::fs::read_to_string(&said).unwrap_or_default();
    let served = K::serving(stage, &there);
    let Some((id, pid)) = served.into_iter().find(|(id, _)| *id != around.id) else {
        return Err(format!("the inner launch failed: {told}"));
    };
    let within = Held::of(pid).map_err(|e| e.to_string())?;
    K::until_calling(stage, pid, &id, "within")?;
    stage.expect_that("the inner launch prints its id", told.lines().any(|l| l == id), &*told);
    if outer == inner {
        stage.expect_that("and whom it works beside", told.contains(&around.id), told);
    }
    clean(stage, &around.agent, &tool, &within);
    stage.expect("the outer one", &working(&around.id, around.agent.pid))?;
    stage.expect("the inner one", &calling(&id, pid))?;
    let told = stage.order(&stage.home, &K::env(stage, true), &["stop", &around.id])?;
    let gone = !around.agent.lives() && !tool.lives();
    // The inner one survives: that is reported, and is not exit 0.
    let said = told.code == Some(1) && told.all().contains(&id);
    stage.expect_that("the outer one is stopped", said && gone, told.all());
    stage.expect_that("the inner one lives on", within.lives(), told.all());
    until_told(stage, 1)?;
    stage.expect("the outer one, stopped", &stopped(&around.id))?;
    stage.expect("the inner one, after that", &calling(&id, pid))?;
    let told = stage.order(&stage.home, &K::env(stage, true), &["stop", &id])?;
    let gone = !within.lives();
    stage.expect_that("the inner one is stopped too", told.code == Some(0) && gone, told.all());
    until_told(stage, 2)?;
    stage.expect("the inner one, stopped", &stopped(&id))
}

/// Compares environments: variables that the outer agent set for its tool must not be in the inner
/// agent.
fn clean(stage: &mut Stage, outer: &Held, tool: &Held, inner: &Held) {
    let (own, given, got) = (environment(outer.pid), environment(tool.pid), environment(inner.pid));
    let agents =
        |name: &str| ["CLAUDE", "CODEX", "AI_AGENT"].iter().any(|start| name.starts_with(start));
    let marks: Vec<&String> = given.keys().filter(|k| agents(k) && !own.contains_key(*k)).collect();
    let evidence = "it gives its tools nothing: the scenario shows nothing";
    stage.expect_that("the outer agent marks its tools", !marks.is_empty(), evidence);
    let left: Vec<&&String> = marks.iter().filter(|k| got.contains_key(**k)).collect();
    let evidence = format!("{left:?} of {marks:?}");
    stage.expect_that("the inner agent has none of these marks", left.is_empty(), evidence);
    let runs = (marked(outer.pid), marked(tool.pid), marked(inner.pid));
    let own = runs.0.is_some() && runs.0 == runs.1 && runs.2.is_some() && runs.0 != runs.2;
    stage.expect_that("each run has a text of its own", own, format!("{runs:?}"));
}

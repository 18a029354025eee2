//! Sessions that are ended, with all they have started.

use super::{Kind, WORK, calling, launch, others, stopped, until_ended, until_told, working};
use crate::judge::Claim;
use crate::process::{Held, named};
use crate::stage::{Stage, Trouble};

/// A daemon that remembers nothing: no parent, no session, no environment.
const BARE: &str = "sleep 900001";
/// A daemon that keeps its environment.
const DAEMON: &str = "sleep 900002";

/// A prompt whose tool starts daemons and then works.
fn busy() -> String {
    format!("work [[tool:env -i setsid -f {BARE};setsid -f {DAEMON};{WORK}]] [[say:never]]")
}

/// Waits for both daemons.
fn daemons(stage: &Stage) -> Result<[Held; 2], Trouble> {
    let bare = stage.until("the bare daemon runs", || named(BARE))?;
    let daemon = stage.until("the daemon runs", || named(DAEMON))?;
    Ok([bare, daemon])
}

/// Orders a stop, twice, which must end with these codes.
fn stop<K: Kind>(stage: &mut Stage, id: &str, codes: [i32; 2]) -> Result<String, Trouble> {
    let told = stage.order(&stage.home, &K::env(stage, true), &["stop", id])?;
    stage.expect_that("`stop`", told.code == Some(codes[0]), told.all());
    let again = stage.order(&stage.home, &K::env(stage, true), &["stop", id])?;
    stage.expect_that("`stop` once more", again.code == Some(codes[1]), again.all());
    Ok(told.all())
}

/// Says that a process must be gone.
fn gone(stage: &mut Stage, what: &str, process: &Held, told: &str) {
    stage.expect_that(&format!("{what} is gone"), !process.lives(), told);
}

/// Claims an end by our hand, of which its parent knows the code.
fn ended<K: Kind>(id: &str) -> Claim {
    stopped(id).ended(K::STOPPED).with("/exit/code", K::STOP_CODE)
}

pub(super) fn in_tool<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let launched = launch::<K>(stage, "a", &busy(), &[])?;
    let tool = K::until_working(stage, launched.agent.pid, &launched.id)?;
    let [bare, daemon] = daemons(stage)?;
    stage.expect("at work", &working(&launched.id, launched.agent.pid))?;
    let told = stop::<K>(stage, &launched.id, [0, 0])?;
    gone(stage, "the agent", &launched.agent, &told);
    gone(stage, "its tool", &tool, &told);
    gone(stage, "its daemon", &daemon, &told);
    gone(stage, "its bare daemon", &bare, &told);
    until_told(stage, 1)?;
    stage.expect("after the stop", &ended::<K>(&launched.id))?;
    let left = stage.until("nothing lives", || others().is_empty().then_some(()));
    stage.expect_that("nothing is left", left.is_ok(), others().join("\n"));
    Ok(())
}

pub(super) fn in_call<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let launched = launch::<K>(stage, "a", "think [[hang]]", &[])?;
    K::until_calling(stage, launched.agent.pid, &launched.id, "think")?;
    let beside = launch::<K>(stage, "b", "beside [[hang]]", &[])?;
    K::until_calling(stage, beside.agent.pid, &beside.id, "beside")?;
    let told = stop::<K>(stage, &launched.id, [0, 0])?;
    gone(stage, "the agent", &launched.agent, &told);
    until_told(stage, 1)?;
    stage.expect("after the stop", &ended::<K>(&launched.id))?;
    stage.expect("the one beside it", &calling(&beside.id, beside.agent.pid))
}

pub(super) fn adopted<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut hand = K::by_hand(stage, &cwd, &busy())?;
    let (id, pid) = stage.until("it is served", || K::serving(stage, &cwd).into_iter().next())?;
    let agent = Held::of(pid).map_err(|e| e.to_string())?;
    let tool = K::until_working(stage, pid, &id)?;
    let [bare, daemon] = daemons(stage)?;
    // The agents mark their children: the daemon is linked to the session by that mark, and named
    // twice.
    let told = stop::<K>(stage, &id, [1, 1])?;
    hand.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    gone(stage, "the agent", &agent, &told);
    gone(stage, "its tool", &tool, &told);
    // No line of parents leads to the agent any more: they are left alone, and named.
    for (what, orphan) in [("its daemon", &daemon), ("its bare daemon", &bare)] {
        let named = orphan.lives() && told.contains(&format!("pid {}", orphan.pid));
        stage.expect_that(&format!("{what} is named"), named, &*told);
    }
    stage.expect("after the stop", &stopped(&id).ended(K::STOPPED))?;
    for orphan in [daemon, bare] {
        orphan.signal(rustix::process::Signal::KILL).map_err(|e| e.to_string())?;
    }
    Ok(())
}

pub(super) fn adopted_in_call<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut hand = K::by_hand(stage, &cwd, "think [[hang]]")?;
    let (id, pid) = stage.until("it is served", || K::serving(stage, &cwd).into_iter().next())?;
    let agent = Held::of(pid).map_err(|e| e.to_string())?;
    K::until_calling(stage, pid, &id, "think")?;
    let told = stop::<K>(stage, &id, [0, 0])?;
    hand.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    until_ended(&agent, "the agent")?;
    gone(stage, "the agent", &agent, &told);
    stage.expect("after the stop", &stopped(&id).ended(K::STOPPED))
}

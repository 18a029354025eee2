//! Pi that was launched to stay: messages at rest and at work, the end of a turn, and its own end.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::control::Pi;
use super::{env, standing};
use crate::judge::Claim;
use crate::order::Told;
use crate::process::Held;
use crate::scenario::control::{Kind, shims, stopped, until_ended};
use crate::scenario::inbox_bars::Keeping;
use crate::stage::{Stage, Trouble};

/// Most time between the rest of a session that is kept for two seconds and its end.
const IDLE_LIMIT: Duration = Duration::from_secs(12);

/// Pi that is launched to stay.
pub(super) struct KeptPi;

impl Keeping for KeptPi {
    const NAME: &'static str = "pi";
    const KEPT: &'static str = "--mode rpc";
    const TYPED: &'static str = "pi";

    fn settle(stage: &Stage) -> Result<(), Trouble> {
        Pi::settle(stage)
    }

    fn env(_: &Stage) -> Vec<(String, String)> {
        env()
    }
}

/// A session that was launched to stay.
struct Kept {
    id: String,
    agent: Held,
    cwd: PathBuf,
}

fn order(stage: &Stage, args: &[&str]) -> Result<Told, Trouble> {
    stage.order(&stage.home, &env(), args)
}

fn launch(stage: &mut Stage, keep: &str, prompt: &str) -> Result<Kept, Trouble> {
    Pi::settle(stage)?;
    let cwd = stage.directory("a")?;
    let place = cwd.to_string_lossy().into_owned();
    let told = order(stage, &["launch", "pi", keep, "--cwd", &place, "-p", prompt])?;
    stage.expect_that("`launch --keep`", told.code == Some(0), told.all());
    let id = told.stdout.lines().next().unwrap_or_default().to_owned();
    Ok(Kept { id, agent: agent(stage, &cwd)?, cwd })
}

/// Returns the only Pi of a directory.
fn agent(stage: &Stage, cwd: &std::path::Path) -> Result<Held, Trouble> {
    stage.until("its process is there", || Held::of(standing(cwd).pop()?).ok())
}

fn until_status(stage: &Stage, id: &str, status: &str) -> Result<(), Trouble> {
    stage.until(&format!("{id} is {status}"), || {
        let rows = stage.rows(&[]).ok()?;
        rows.iter().any(|row| row["id"] == id && row["status"] == status).then_some(())
    })
}

fn send(stage: &mut Stage, id: &str, text: &str, how: &str) -> Result<(), Trouble> {
    let told = order(stage, &["send", id, text, "--json"])?;
    let is_how = told.stdout.contains(&format!("\"how\":\"{how}\""))
        || told.stdout.contains(&format!("\"how\": \"{how}\""));
    stage.expect_that(&format!("`send` {how}"), told.code == Some(0) && is_how, told.all());
    Ok(())
}

fn stop(stage: &mut Stage, kept: &Kept) -> Result<(), Trouble> {
    let told = order(stage, &["stop", &kept.id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    until_ended(&kept.agent, "the agent")
}

pub(super) fn messages(stage: &mut Stage) -> Result<(), Trouble> {
    let kept = launch(stage, "--keep", "hello [[say:hello back]]")?;
    until_status(stage, &kept.id, "idle")?;
    let idle = Claim::of(&kept.id, "idle").served_by(&[kept.agent.pid]).hosted(false);
    stage.expect("after its first turn", &idle)?;
    send(stage, &kept.id, "make it [[tool:touch made]] [[say:made it]]", "turn_begun")?;
    until_status(stage, &kept.id, "idle")?;
    stage.expect_that("the command ran", kept.cwd.join("made").exists(), "");
    send(stage, &kept.id, "work [[tool:sleep 1]] [[say:worked]]", "turn_begun")?;
    send(stage, &kept.id, "and this too [[say:this too]]", "steered")?;
    until_status(stage, &kept.id, "idle")?;
    send(stage, &kept.id, "think [[hang]]", "turn_begun")?;
    stage.until_asked("think", |request| request.prompt.contains("think"))?;
    let running = Claim::of(&kept.id, "running").served_by(&[kept.agent.pid]);
    stage.expect("while it thinks", &running)?;
    let told = order(stage, &["stop", "--turn", &kept.id])?;
    stage.expect_that("`stop --turn`", told.code == Some(0), told.all());
    until_status(stage, &kept.id, "idle")?;
    stage.expect_that("its process stays", kept.agent.lives(), "");
    stop(stage, &kept)?;
    stage.expect("after its end", &stopped(&kept.id))
}

pub(super) fn forgotten(stage: &mut Stage) -> Result<(), Trouble> {
    let mut kept = launch(stage, "--keep", "hello [[say:hello back]]")?;
    until_status(stage, &kept.id, "idle")?;
    for shim in shims() {
        shim.signal(Signal::KILL).map_err(|e| e.to_string())?;
        until_ended(&shim, "the shim")?;
    }
    std::fs::remove_dir_all(stage.home.join(".local/state/agentctl")).map_err(|e| e.to_string())?;
    let idle = Claim::of(&kept.id, "idle").served_by(&[kept.agent.pid]);
    stage.expect("without shim and files", &idle)?;
    send(stage, &kept.id, "go on [[say:gone on]]", "turn_begun")?;
    until_status(stage, &kept.id, "idle")?;
    stop(stage, &kept)?;
    let told = order(stage, &["resume", &kept.id, "again [[say:again]]", "--keep"])?;
    stage.expect_that("`resume --keep`", told.code == Some(0), told.all());
    kept.agent = agent(stage, &kept.cwd)?;
    until_status(stage, &kept.id, "idle")?;
    send(stage, &kept.id, "once more [[say:once more]]", "turn_begun")?;
    until_status(stage, &kept.id, "idle")?;
    stop(stage, &kept)
}

pub(super) fn first_call(stage: &mut Stage) -> Result<(), Trouble> {
    let kept = launch(stage, "--keep", "ponder [[hang]]")?;
    stage.until_asked("ponder", |request| request.prompt.contains("ponder"))?;
    let running = Claim::of(&kept.id, "running").served_by(&[kept.agent.pid]);
    stage.expect("in its first model call", &running)?;
    let told = order(stage, &["stop", "--turn", &kept.id])?;
    stage.expect_that("`stop --turn`", told.code == Some(0), told.all());
    until_status(stage, &kept.id, "idle")?;
    stop(stage, &kept)
}

pub(super) fn until_idle(stage: &mut Stage) -> Result<(), Trouble> {
    let kept = launch(stage, "--keep=2s", "hello [[say:hello back]]")?;
    stage.until_asked("hello", |request| request.prompt.contains("hello"))?;
    let began = Instant::now();
    until_ended(&kept.agent, "the agent")?;
    let took = began.elapsed();
    stage.expect_that("it ends within 12 s of its rest", took < IDLE_LIMIT, format!("{took:?}"));
    stage.expect("after its end", &stopped(&kept.id).ended("finished"))
}

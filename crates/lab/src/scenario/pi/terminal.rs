//! Pi in a terminal.

use super::{WORK, env, record, recorded, run, settings, standing};
use crate::judge::Claim;
use crate::process::Held;
use crate::stage::{PATIENCE, Stage, Trouble};
use crate::terminal::Terminal;

/// Starts Pi in a terminal and waits until it can be typed into.
pub(super) fn open(stage: &mut Stage, argv: &[&str]) -> Result<(Terminal, Held), Trouble> {
    let cwd = stage.directory("a")?;
    if !stage.home.join(".pi/agent/models.json").exists() {
        settings(stage, ".pi/agent")?;
    }
    let terminal = stage.terminal(&cwd, &env(), argv)?;
    stage.until("pi shows its model", || {
        terminal.screen().ok().filter(|s| s.contains("fake-1")).map(drop)
    })?;
    let pid = stage.until("pi has its title", || standing(&cwd).first().copied())?;
    // At its first start Pi writes files of its own, and an immediate prompt looks like `pi -p`.
    std::thread::park_timeout(std::time::Duration::from_millis(800));
    Ok((terminal, Held::of(pid).map_err(|e| e.to_string())?))
}

/// Returns the sessions there are files of, oldest first.
pub(super) fn ids(stage: &Stage) -> Vec<String> {
    let folders = std::fs::read_dir(stage.home.join(".pi/agent/sessions")).into_iter().flatten();
    let files = folders.flatten().flat_map(|f| std::fs::read_dir(f.path())).flatten().flatten();
    let mut names: Vec<String> = files.filter_map(|f| f.file_name().into_string().ok()).collect();
    names.sort();
    let id = |name: &String| Some(name.strip_suffix(".jsonl")?.split_once('_')?.1.to_owned());
    names.iter().filter_map(id).collect()
}

pub(super) fn enter(stage: &Stage, terminal: &Terminal, text: &str) -> Result<(), Trouble> {
    terminal.paste_line(text).map_err(|e| e.to_string())?;
    let word = text.split(' ').next().unwrap_or_default();
    // A key that comes before it listens is lost.
    stage.until("the prompt is taken", || {
        let asked = |requests: &[crate::model::Request]| {
            requests.iter().any(|r| r.prompt.starts_with(word))
        };
        if stage.model.wait_for(std::time::Duration::from_secs(5), asked) {
            return Some(());
        }
        terminal.press("Enter").ok()?;
        None
    })
}

fn idle(id: &str, pid: u32) -> Claim {
    Claim::of(id, "idle").because(None).served_by(&[pid])
}

pub(super) fn whole(stage: &mut Stage) -> Result<(), Trouble> {
    let (terminal, agent) = open(stage, &["pi"])?;
    stage.expect("before its first prompt", &Claim::of_process(agent.pid, "unknown"))?;
    enter(stage, &terminal, &format!("work [[tool:{WORK}]] [[say:over]]"))?;
    let tool = stage.until_below(agent.pid, WORK)?;
    let id = stage.until("it has a file", || ids(stage).pop())?;
    recorded(stage, &id, "\"toolCall\"")?;
    let claim = Claim::of(&id, "running").because(Some("tool")).about_what(WORK);
    stage.expect("in its tool", &claim.served_by(&[agent.pid]))?;
    tool.signal(rustix::process::Signal::TERM).map_err(|e| e.to_string())?;
    recorded(stage, &id, "\"over\"")?;
    stage.expect("after its turn", &idle(&id, agent.pid))?;
    enter(stage, &terminal, "think [[hang]]")?;
    recorded(stage, &id, "think")?;
    let claim = Claim::of(&id, "running").because(None).served_by(&[agent.pid]);
    stage.expect("while the model thinks", &claim)?;
    agent.signal(rustix::process::Signal::TERM).map_err(|e| e.to_string())?;
    stage.expect_that("SIGTERM ends it", agent.ended_within(PATIENCE), "it lives");
    let claim = Claim::of(&id, "stopped").ended("killed").served_by(&[]);
    stage.expect("after SIGTERM", &claim)
}

pub(super) fn resumed(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut first = run(stage, &cwd, "first [[say:one]]")?;
    first.ended()?;
    let (terminal, agent) = open(stage, &["pi", "-c"])?;
    enter(stage, &terminal, "second [[say:two]]")?;
    recorded(stage, &first.id, "\"two\"")?;
    stage.expect("after its turn", &idle(&first.id, agent.pid))?;
    terminal.type_line("/quit").map_err(|e| e.to_string())?;
    stage.expect_that("/quit ends it", agent.ended_within(PATIENCE), "it lives");
    let claim = Claim::of(&first.id, "stopped").ended("finished").served_by(&[]);
    stage.expect("after its end", &claim)
}

pub(super) fn interrupted(stage: &mut Stage) -> Result<(), Trouble> {
    let (terminal, agent) = open(stage, &["pi"])?;
    enter(stage, &terminal, "think [[hang]]")?;
    let id = stage.until("it has a file", || ids(stage).pop())?;
    terminal.press("Escape").map_err(|e| e.to_string())?;
    stage.until("the turn has an end", || {
        let text = std::fs::read_to_string(record(stage, &id)?).ok()?;
        text.contains("\"stopReason\":\"").then_some(())
    })?;
    stage.expect("after Esc", &idle(&id, agent.pid))?;
    agent.signal(rustix::process::Signal::TERM).map_err(|e| e.to_string())?;
    stage.expect_that("SIGTERM ends it", agent.ended_within(PATIENCE), "it lives");
    let claim = Claim::of(&id, "stopped").ended("interrupted").served_by(&[]);
    stage.expect("after its end", &claim)
}

pub(super) fn new(stage: &mut Stage) -> Result<(), Trouble> {
    let (terminal, agent) = open(stage, &["pi"])?;
    enter(stage, &terminal, "first [[say:one]]")?;
    let first = stage.until("it has a file", || ids(stage).pop())?;
    recorded(stage, &first, "\"one\"")?;
    stage.expect("the first", &idle(&first, agent.pid))?;
    terminal.type_line("/new").map_err(|e| e.to_string())?;
    stage.until("the screen is new", || {
        terminal.screen().ok().filter(|s| !s.contains("[[say:one]]")).map(drop)
    })?;
    enter(stage, &terminal, "second [[hang]]")?;
    let second = stage.until("it has a second file", || ids(stage).get(1).cloned())?;
    recorded(stage, &second, "second")?;
    let claim = Claim::of(&second, "running").because(None).served_by(&[agent.pid]);
    stage.expect("the second", &claim)?;
    agent.signal(rustix::process::Signal::TERM).map_err(|e| e.to_string())?;
    stage.expect_that("SIGTERM ends it", agent.ended_within(PATIENCE), "it lives");
    let claim = Claim::of(&second, "stopped").ended("killed").served_by(&[]);
    stage.expect("after its end", &claim)
}

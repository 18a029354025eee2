//! Control of agents by agentctl, played alike with each of them: launched, resumed, stopped, waited
//! for.
//!
//! The scenarios give orders like a user and check independently: the agent's own record, `/proc`, and
//! the requests to the model. Differences between the agents are in [`Kind`]; scenarios of a single
//! agent are in its own `control.rs`.

pub(super) mod failing;
mod launching;
pub(super) mod mcp;
mod occupying;
mod resuming;
mod stopping;
mod waiting;

use std::path::{Path, PathBuf};

use super::alike::{WORK, calling, working};
use super::{Agent, Scenario};
use crate::judge::Claim;
use crate::order::Told;
use crate::process::{Held, Started};
use crate::stage::{PATIENCE, Stage, Trouble};

/// The facts about an agent that are needed to control it and to see its actions.
pub(super) trait Kind {
    /// Our name for it.
    const NAME: &'static str;
    /// Its program.
    const PROGRAM: &'static str;
    /// Its message without a key.
    const KEYLESS: &'static str;

    /// Presets the answers that a person gives once.
    fn settle(stage: &Stage) -> Result<(), Trouble>;
    /// Returns the variables with which it talks to our model; without a key, none that has one.
    fn env(stage: &Stage, key: bool) -> Vec<(String, String)>;
    /// Starts it without agentctl, and returns the process.
    fn by_hand(stage: &Stage, cwd: &Path, prompt: &str) -> Result<Started, Trouble>;
    /// Returns the sessions that live in a directory, by the agent's own record of them.
    fn serving(stage: &Stage, cwd: &Path) -> Vec<(String, u32)>;
    /// Waits until a session is in a model call that hangs, and its record says so.
    fn until_calling(stage: &Stage, pid: u32, id: &str, word: &str) -> Result<(), Trouble>;
    /// Waits until a session is in [`WORK`], and its record says so.
    fn until_working(stage: &Stage, pid: u32, id: &str) -> Result<Held, Trouble>;
    /// Returns the session's own record.
    fn record(stage: &Stage, id: &str) -> Option<PathBuf>;
    /// Returns the prompts in a record, in order.
    fn prompts(record: &Path) -> Vec<String>;
    /// Returns the permissions that its first line shows.
    fn permissions(stage: &Stage, id: &str) -> Option<String>;
    /// The value of [`Kind::permissions`] for `edits` and for `bypass`.
    const PERMITTED: [&'static str; 2];
    /// The outcome of a stopped turn: interrupted, if the agent writes its end.
    const STOPPED: &'static str;
    /// The exit code of a session that was stopped.
    const STOP_CODE: i32;
    /// The tokens of [`at_work`] to its end.
    const TOKENS: [(&'static str, &'static str); 2];
}

/// Lists the scenarios of an agent.
pub(super) const fn scenarios<K: Kind>(agent: &Agent) -> [Scenario; 24] {
    [
        agent.core(
            "launched",
            "`launch` returns the real id; prompt and end",
            launching::launched::<K>,
        ),
        agent.headless(
            "launched-large",
            "a prompt of 1 MB arrives as it was",
            launching::large::<K>,
        ),
        agent.headless(
            "launched-orphaned",
            "launcher, shim or both are killed: it works on",
            launching::orphaned::<K>,
        ),
        agent.core(
            "launched-forgotten",
            "all of agentctl's own files are wiped while it works",
            launching::forgotten::<K>,
        ),
        agent.headless(
            "launched-permissions",
            "`--permissions` and `--name`",
            launching::permissions::<K>,
        ),
        agent.headless(
            "launched-hooks",
            "hooks at its beginning and its end",
            launching::hooked::<K>,
        ),
        agent.headless(
            "occupied",
            "a directory in use is refused, and free at once",
            occupying::occupied::<K>,
        ),
        agent.headless("locked", "a person's lock keeps launches out", occupying::locked::<K>),
        agent.headless(
            "racing",
            "of two launches into one directory one wins",
            occupying::racing::<K>,
        ),
        agent.headless("nested", "an agent launches another elsewhere", occupying::nested::<K>),
        agent.headless(
            "nested-here",
            "an agent launches another where it works",
            occupying::nested_here::<K>,
        ),
        agent.core(
            "resumed-by-us",
            "`resume` goes on under its id, in its directory",
            resuming::resumed::<K>,
        ),
        agent.headless(
            "resumed-busy",
            "`resume` of a session at work is refused",
            resuming::busy::<K>,
        ),
        agent.headless("resumed-fork", "`resume --fork`: an id of its own", resuming::forked::<K>),
        agent.headless(
            "resumed-killed",
            "`resume` of a session that was killed",
            resuming::killed::<K>,
        ),
        agent.core("stopped-in-tool", "`stop` takes all its tools along", stopping::in_tool::<K>),
        agent.headless("stopped-in-call", "`stop` while the model thinks", stopping::in_call::<K>),
        agent.headless(
            "stopped-adopted",
            "`stop` of what nobody launched: what is left is named",
            stopping::adopted::<K>,
        ),
        agent.headless(
            "stopped-adopted-in-call",
            "the same while the model thinks",
            stopping::adopted_in_call::<K>,
        ),
        agent.headless("waited", "`wait`: the end, a failure, the time", waiting::waited::<K>),
        agent.headless("launched-waiting", "`launch --wait` likewise", waiting::launched::<K>),
        agent.headless("no-key", "`launch` without a login", failing::no_key::<K>),
        agent.headless("no-model", "`launch` with a model that is none", failing::no_model::<K>),
        agent.headless(
            "no-program",
            "`launch` without the agent, and without a directory",
            failing::no_program::<K>,
        ),
    ]
}

/// A session that was launched, with the process that serves it.
pub(super) struct Launched {
    pub(super) id: String,
    pub(super) agent: Held,
    pub(super) cwd: PathBuf,
}

/// Orders a launch in which everything is allowed, from elsewhere.
pub(super) fn order<K: Kind>(
    stage: &Stage,
    cwd: &Path,
    prompt: &str,
    more: &[&str],
) -> Result<Told, Trouble> {
    let cwd = cwd.to_string_lossy();
    let mut args = vec!["launch", K::NAME, "--permissions", "bypass", "--cwd", &cwd, "-p", prompt];
    args.extend(more);
    stage.order(&stage.home, &K::env(stage, true), &args)
}

/// Launches into a directory of this name and finds the process that serves it.
pub(super) fn launch<K: Kind>(
    stage: &Stage,
    directory: &str,
    prompt: &str,
    more: &[&str],
) -> Result<Launched, Trouble> {
    K::settle(stage)?;
    let cwd = stage.directory(directory)?;
    let id = order::<K>(stage, &cwd, prompt, more)?.line()?;
    let agent = served::<K>(stage, &cwd, &id)?;
    Ok(Launched { id, agent, cwd })
}

/// Waits until the agent's own record says that a process serves this session there.
pub(super) fn served<K: Kind>(stage: &Stage, cwd: &Path, id: &str) -> Result<Held, Trouble> {
    stage.until(&format!("{id} is served in {}", cwd.display()), || {
        let found = K::serving(stage, cwd).into_iter().find(|(served, _)| served == id)?;
        Held::of(found.1).ok()
    })
}

/// Runs a launch in [`WORK`].
pub(super) fn at_work<K: Kind>(
    stage: &Stage,
    directory: &str,
    more: &[&str],
) -> Result<(Launched, Held), Trouble> {
    let prompt = format!("work in {directory} [[tool:{WORK}]] [[say:over]]");
    let launched = launch::<K>(stage, directory, &prompt, more)?;
    let tool = K::until_working(stage, launched.agent.pid, &launched.id)?;
    Ok((launched, tool))
}

/// Claims an end.
pub(super) fn stopped(id: &str) -> Claim {
    Claim::of(id, "stopped").because(None).served_by(&[])
}

/// Waits for the end of a process.
pub(super) fn until_ended(process: &Held, what: &str) -> Result<(), Trouble> {
    if process.ended_within(PATIENCE) { Ok(()) } else { Err(format!("{what} did not end")) }
}

/// Ends the tool of a session and waits for the session's own end, and for the word of its parent.
pub(super) fn finish(stage: &Stage, agent: &Held, tool: &Held) -> Result<(), Trouble> {
    tool.signal(rustix::process::Signal::TERM).map_err(|e| e.to_string())?;
    until_ended(agent, "the agent")?;
    until_told(stage, 1)
}

/// Returns agentctl's own folder of runs.
pub(super) fn runs(stage: &Stage) -> PathBuf {
    stage.home.join(".local/state/agentctl/runs")
}

/// Waits until this many runs have recorded the end of their agent.
pub(super) fn until_told(stage: &Stage, ends: usize) -> Result<(), Trouble> {
    stage.until(&format!("{ends} runs have ended"), || {
        let runs = std::fs::read_dir(runs(stage)).ok()?.flatten();
        (runs.filter(|r| r.path().join("exit.json").exists()).count() >= ends).then_some(())
    })
}

/// Returns the process that launched an agent marks: the run it names, and the agent's pid.
pub(super) fn marked(pid: u32) -> Option<(String, u32)> {
    let variables = crate::process::environment(pid);
    let text = variables.get("AGENTCTL_RUN")?.strip_prefix("v1:")?.to_owned();
    let mut parts = text.split(':');
    Some((parts.next()?.to_owned(), parts.next()?.parse().ok()?))
}

/// Finds the agents that were launched from here, by their marker.
pub(super) fn agents() -> Vec<Held> {
    let pids = crate::process::all().into_iter();
    pids.filter(|p| marked(*p).is_some_and(|(_, named)| named == *p))
        .filter_map(|p| Held::of(p).ok())
        .filter(Held::lives)
        .collect()
}

/// Finds the parent of an agent that was launched from here.
pub(super) fn shims() -> Vec<Held> {
    let shim = |p: &u32| {
        let line = crate::process::command_line(*p);
        line.split(' ').nth(1) == Some("shim") && line.contains("/agentctl/runs/")
    };
    let pids = crate::process::all().into_iter().filter(shim);
    pids.filter_map(|p| Held::of(p).ok()).filter(Held::lives).collect()
}

/// Lists the live processes of this namespace except the stage itself, by command line.
pub(super) fn others() -> Vec<String> {
    let me = std::process::id();
    let pids = crate::process::all().into_iter().filter(|p| *p != me && *p != 1);
    let living = pids.filter_map(|p| Held::of(p).ok()).filter(Held::lives);
    living.map(|h| crate::process::command_line(h.pid)).filter(|l| !l.is_empty()).collect()
}

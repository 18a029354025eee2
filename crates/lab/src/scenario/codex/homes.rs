//! Codex in homes that are not the usual ones, behind a wrapper, at its trust question beside an editor's server;
//! subcommands that are no sessions.

use rustix::process::Signal;

use super::any_version::{Editor, work};
use super::terminal::shows;
use super::{adopt, env, native, said, settings, words};
use crate::judge::Claim;
use crate::scenario::alike::{finished, working};
use crate::scenario::unusual::{
    Events, native_wrapper, no_namesake, none_alive, one_alive, only, with_fifo,
};
use crate::stage::{PATIENCE, Stage, Trouble};

pub(super) fn relative(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, "ws/a/cfg", false)?;
    let mut env = env();
    env.push(("CODEX_HOME".into(), "cfg".into()));
    let before = said(stage).len();
    let started = stage.start(&cwd, &env, &words(&[], &work()))?;
    let agent = adopt(stage, started, before, cwd.join("cfg"))?;
    agent.in_tool(stage)?;
    stage.expect("in a tool", &working(&agent.id, agent.native.pid))
}

pub(super) fn wrapped(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, ".codex", false)?;
    let wrapper = native_wrapper(stage, "codex")?;
    let wrapper = wrapper.to_string_lossy();
    let before = said(stage).len();
    let script = "codex exec --json --skip-git-repo-check 'thinking [[delay:3]] [[say:done]]' \
                  </dev/null; true";
    let mut outside = stage.start(&cwd, &env(), &[&wrapper, "-c", script])?;
    stage.until_asked("thinking", |r| !r.side && r.prompt.starts_with("thinking"))?;
    let id = stage.until("codex says which thread it has", || {
        let text = said(stage);
        let line = text.get(before..)?.lines().find(|l| l.contains("thread.started"))?;
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        event["thread_id"].as_str().map(str::to_owned)
    })?;
    stage.until_quiet(&stage.home.join(".codex/sessions"))?;
    one_alive(stage, &id)?;
    outside.wait(PATIENCE).map_err(|e| e.to_string())?;
    stage.expect("after its end", &finished(&id))?;
    let mut alone = stage.start(&cwd, &env(), &[&wrapper, "-c", "/bin/sleep 60; true"])?;
    drop(stage.until_below(alone.pid(), "/bin/sleep 60")?);
    no_namesake(stage, alone.pid())?;
    alone.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    alone.wait(PATIENCE).map_err(|e| e.to_string())?;
    only(stage, &[&id])
}

/// A terminal at its trust question has no session; an editor's server that lives beside it has none of it either.
pub(super) fn trust(stage: &mut Stage) -> Result<(), Trouble> {
    let (editors, cwd) = (stage.directory("a")?, stage.directory("untrusted")?);
    let _editor = Editor::open(stage, &editors)?;
    let terminal = stage.terminal(&cwd, &env(), &["codex"])?;
    let pane = terminal.process().map_err(|e| e.to_string())?;
    let native = native(stage, pane.pid)?;
    shows(stage, &terminal, "trust")?;
    let waiting = Claim::of_process(native.pid, "waiting").because(Some("trust"));
    stage.expect("at the trust question", &waiting.served_by(&[native.pid]))
}

pub(super) fn subcommand(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, ".codex", false)?;
    let argv = ["codex", "exec-server", "--listen", "ws://127.0.0.1:0"];
    let (server, _fifo) = with_fifo(stage, &cwd, &env(), &argv)?;
    let native = native(stage, server.pid())?;
    stage.until_quiet(&stage.home.join(".codex"))?;
    if !native.lives() {
        return Err("the server has ended".into());
    }
    none_alive(stage, "`codex exec-server` is no session")
}

pub(super) fn moved_events(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, "elsewhere", false)?;
    let events = Events::begin(stage)?;
    let home = stage.home.join("elsewhere");
    let mut env = env();
    env.push(("CODEX_HOME".into(), home.to_string_lossy().into_owned()));
    let before = said(stage).len();
    let started = stage.start(&cwd, &env, &words(&[], "thinking [[delay:6]] [[say:done]]"))?;
    let mut agent = adopt(stage, started, before, home)?;
    agent.ended()?;
    events.expect(stage, &agent.id, "session.started");
    events.expect(stage, &agent.id, "session.stopped");
    Ok(())
}

//! Claude Code of any promised version: one session from birth to end, in print mode, in a terminal, kept open by
//! an SDK, and in a container. Nothing here waits for a file that only newer versions write.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;

use super::headless::{running, stopped};
use super::orderly::ended_as;
use super::ways::{Tui, end, env, id, print_mode, resume, settle, told};
use crate::judge::Claim;
use crate::process::{Held, Started, comm, descendants};
use crate::scenario::alike::{WORK, working};
use crate::scenario::unusual::{honest_stop, only, say, with_fifo};
use crate::stage::{PATIENCE, Stage, Trouble};

/// A prompt that has the model ask for [`WORK`].
pub(super) fn work() -> String {
    format!("work [[tool:{WORK}]] [[say:never]]")
}

/// Waits until this version has written all its files.
pub(super) fn quiet(stage: &Stage, claude: &Path) -> Result<(), Trouble> {
    stage.until_quiet(&claude.join("projects"))?;
    stage.until_quiet(&claude.join("sessions"))
}

/// Waits until the model has a prompt that begins with this word, and the files are written.
pub(super) fn asked(stage: &Stage, word: &str) -> Result<(), Trouble> {
    stage.until_asked(word, |r| r.prompt.starts_with(word) && !r.side)?;
    quiet(stage, &stage.home.join(".claude"))
}

/// Waits until [`WORK`] runs below a process, and the files are written.
fn in_tool(stage: &Stage, pid: u32) -> Result<Held, Trouble> {
    let tool = stage.until_below(pid, WORK)?;
    quiet(stage, &stage.home.join(".claude"))?;
    Ok(tool)
}

fn signal(agent: &mut Started, signal: Signal) -> Result<(), Trouble> {
    agent.held.signal(signal).map_err(told)?;
    end(agent)
}

pub(super) fn call(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "think [[hang]]")?;
    asked(stage, "think")?;
    stage.expect("while the model thinks", &running(&id, &[agent.pid()]))?;
    signal(&mut agent, Signal::KILL)?;
    ended_as(stage, "after SIGKILL", &id, stopped(&id, "killed"))?;
    only(stage, &[&id])
}

pub(super) fn tool(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, &work())?;
    let tool = in_tool(stage, agent.pid())?;
    stage.expect("in the tool", &working(&id, agent.pid()))?;
    signal(&mut agent, Signal::KILL)?;
    ended_as(stage, "after SIGKILL", &id, stopped(&id, "killed"))?;
    tool.signal(Signal::KILL).map_err(told)
}

pub(super) fn stop(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, &work())?;
    let _tool = in_tool(stage, agent.pid())?;
    // Waited for on a thread, as a shell does: a zombie would count as a live process.
    let held = Held::of(agent.pid()).map_err(told)?;
    let waiting = std::thread::spawn(move || drop(end(&mut agent)));
    let stopped = honest_stop(stage, &id, &held);
    drop(waiting.join());
    stopped
}

pub(super) fn ends(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let [done, failed, interrupted, terminated] = [id(), id(), id(), id()];
    end(&mut print_mode(stage, &cwd, &done, "work [[tool:true]] [[say:done]]")?)?;
    stage.expect("a turn that was finished", &stopped(&done, "finished"))?;
    end(&mut print_mode(stage, &cwd, &failed, "try [[error:400]]")?)?;
    let claim = Claim::of(&failed, "error").because(Some("failure")).ended("failed");
    stage.expect("a turn that failed", &claim.served_by(&[]))?;
    let mut agent = print_mode(stage, &cwd, &interrupted, &work())?;
    let _tool = in_tool(stage, agent.pid())?;
    signal(&mut agent, Signal::INT)?;
    // 2.1.150 leaves the same files after SIGINT and SIGTERM: then how it ended cannot be known.
    let claims = ["interrupted", "unknown"].map(|outcome| stopped(&interrupted, outcome));
    stage.expect_any("after SIGINT", &claims)?;
    let mut agent = print_mode(stage, &cwd, &terminated, &work())?;
    let _tool = in_tool(stage, agent.pid())?;
    signal(&mut agent, Signal::TERM)?;
    let claims = ["killed", "unknown"].map(|outcome| stopped(&terminated, outcome));
    stage.expect_any("after SIGTERM", &claims)?;
    only(stage, &[&done, &failed, &interrupted, &terminated])
}

pub(super) fn resumed(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    end(&mut print_mode(stage, &cwd, &id, "first [[say:one]]")?)?;
    let mut agent = resume(stage, &cwd, &id, "second [[hang]]")?;
    asked(stage, "second")?;
    stage.expect("in its second turn", &running(&id, &[agent.pid()]))?;
    signal(&mut agent, Signal::KILL)?;
    ended_as(stage, "after SIGKILL", &id, stopped(&id, "killed"))?;
    only(stage, &[&id])
}

/// Starts it in a terminal and waits until its screen shows that it accepts input.
pub(super) fn terminal(
    stage: &mut Stage,
    cwd: &Path,
    id: &str,
    args: &[&str],
) -> Result<Tui, Trouble> {
    settle(stage, &[cwd])?;
    let all: Vec<&str> = ["--session-id", id].into_iter().chain(args.iter().copied()).collect();
    let tui = Tui::start(stage, cwd, &all)?;
    stage
        .until("it shows its prompt", || {
            let screen = tui.terminal.screen().ok()?;
            screen.lines().any(|l| l.starts_with('❯') || l.starts_with("> ")).then_some(())
        })
        .map_err(|e| tui.with_screen(&e))?;
    quiet(stage, &stage.home.join(".claude"))?;
    Ok(tui)
}

pub(super) fn idle(id: &str, pid: u32) -> Claim {
    Claim::of(id, "idle").because(None).served_by(&[pid]).hosted(false)
}

pub(super) fn in_terminal(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = terminal(stage, &cwd, &id, &["--dangerously-skip-permissions"])?;
    tui.prompt("hello [[say:hello back]]")?;
    asked(stage, "hello")?;
    tui.until_shown(stage, "hello back")?;
    quiet(stage, &stage.home.join(".claude"))?;
    stage.expect("after a turn", &idle(&id, tui.pid()))?;
    tui.prompt(&work())?;
    let tool = in_tool(stage, tui.pid())?;
    stage.expect("in a tool", &working(&id, tui.pid()))?;
    tool.signal(Signal::KILL).map_err(told)?;
    tui.until_shown(stage, "never")?;
    quiet(stage, &stage.home.join(".claude"))?;
    stage.expect("after the tool", &idle(&id, tui.pid()))?;
    tui.process.signal(Signal::TERM).map_err(told)?;
    if !tui.process.ended_within(PATIENCE) {
        return Err(tui.with_screen("it did not end"));
    }
    stage.expect("after its end", &stopped(&id, "finished"))?;
    only(stage, &[&id])
}

pub(super) fn permission(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let tui = terminal(stage, &cwd, &id, &["--permission-mode", "default"])?;
    tui.prompt("make [[tool:touch made-by-tool]] [[say:made it]]")?;
    tui.until_shown(stage, "❯ 1. Yes")?;
    quiet(stage, &stage.home.join(".claude"))?;
    let waiting = Claim::of(&id, "waiting").because(Some("permission"));
    stage.expect("while it asks", &waiting.served_by(&[tui.pid()]))?;
    let made = cwd.join("made-by-tool");
    tui.press_until(stage, "Enter", "the tool runs", || made.exists())?;
    tui.until_shown(stage, "made it")?;
    quiet(stage, &stage.home.join(".claude"))?;
    stage.expect("after the answer", &idle(&id, tui.pid()))
}

/// A session that an SDK keeps open: messages are lines on its stdin.
pub(super) struct Stream {
    pub(super) agent: Started,
    fifo: PathBuf,
}

impl Stream {
    pub(super) fn open(stage: &Stage, cwd: &Path, id: &str) -> Result<Self, Trouble> {
        let argv = [
            "claude",
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--session-id",
            id,
            "--dangerously-skip-permissions",
        ];
        let (agent, fifo) = with_fifo(stage, cwd, &env(stage), &argv)?;
        Ok(Self { agent, fifo })
    }

    pub(super) fn say(&self, text: &str) -> Result<(), Trouble> {
        let message = json!({"role": "user", "content": text});
        say(&self.fifo, &json!({"type": "user", "message": message}))
    }
}

pub(super) fn kept_open(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut stream = Stream::open(stage, &cwd, &id)?;
    let pid = stream.agent.pid();
    stream.say("hello [[say:hello back]]")?;
    asked(stage, "hello")?;
    let said = stage.home.join("said.log");
    stage.until("the turn is over", || {
        std::fs::read_to_string(&said).ok()?.contains("\"type\":\"result\"").then_some(())
    })?;
    quiet(stage, &stage.home.join(".claude"))?;
    stage.expect("at rest", &idle(&id, pid))?;
    stream.say(&work())?;
    let tool = in_tool(stage, pid)?;
    stage.expect("in a tool", &working(&id, pid))?;
    tool.signal(Signal::KILL).map_err(told)?;
    stage.until("the second turn is over", || {
        let text = std::fs::read_to_string(&said).ok()?;
        (text.matches("\"type\":\"result\"").count() == 2).then_some(())
    })?;
    quiet(stage, &stage.home.join(".claude"))?;
    stage.expect("at rest again", &idle(&id, pid))?;
    signal(&mut stream.agent, Signal::KILL)?;
    stage.expect("after SIGKILL at rest", &stopped(&id, "finished"))
}

pub(super) fn container(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let script = "exec unshare --pid --fork --kill-child --mount-proc claude -p \"$1\" \
                  --session-id \"$0\" --dangerously-skip-permissions";
    let argv = ["/bin/bash", "-c", script, &id, &work()];
    let mut outside = stage.start(&cwd, &env(stage), &argv)?;
    drop(stage.until_below(outside.pid(), WORK)?);
    quiet(stage, &stage.home.join(".claude"))?;
    let below = descendants(outside.pid());
    let agent = below.into_iter().find(|p| comm(*p).starts_with("claude")).ok_or("no claude")?;
    stage.expect("in a container", &working(&id, agent))?;
    let held = Held::of(agent).map_err(told)?;
    signal(&mut outside, Signal::KILL)?;
    if !held.ended_within(PATIENCE) {
        return Err("it did not end with its container".into());
    }
    ended_as(stage, "after the container's end", &id, stopped(&id, "killed"))
}

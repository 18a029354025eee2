//! Codex of any promised version: `exec`, a terminal, and an editor's server. Nothing here waits for a file that
//! only newer versions write.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::terminal::{open, shows};
use super::{Exec, WORK, env, exec, native, rollout, settings};
use crate::judge::Claim;
use crate::process::{Held, Started};
use crate::scenario::alike::{calling, finished, working};
use crate::scenario::unusual::{Events, honest_stop, only, say, with_fifo};
use crate::stage::{PATIENCE, Stage, Trouble};

/// A prompt that has the model ask for [`WORK`].
pub(super) fn work() -> String {
    format!("working [[tool:{WORK}]] [[say:never]]")
}

fn ended(id: &str, outcome: &'static str) -> Claim {
    Claim::of(id, "stopped").ended(outcome).served_by(&[])
}

fn quiet(stage: &Stage) -> Result<(), Trouble> {
    stage.until_quiet(&stage.home.join(".codex/sessions"))
}

fn signalled(agent: &mut Exec, signal: Signal) -> Result<(), Trouble> {
    agent.signal(signal)?;
    agent.ended()
}

pub(super) fn call(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "thinking [[hang]]")?;
    agent.asked(stage, "thinking")?;
    stage.expect("while the model thinks", &calling(&agent.id, agent.native.pid))?;
    signalled(&mut agent, Signal::KILL)?;
    stage.expect("after SIGKILL", &ended(&agent.id, "killed"))?;
    only(stage, &[&agent.id])
}

pub(super) fn tool(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, &work())?;
    agent.in_tool(stage)?;
    stage.expect("in the tool", &working(&agent.id, agent.native.pid))?;
    signalled(&mut agent, Signal::KILL)?;
    stage.expect("after SIGKILL", &ended(&agent.id, "killed"))
}

pub(super) fn stop(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, &work())?;
    agent.in_tool(stage)?;
    let (id, native) = (agent.id.clone(), Held::of(agent.native.pid).map_err(|e| e.to_string())?);
    // Waited for on a thread, as a shell does: a zombie would count as a live process.
    let waiting = std::thread::spawn(move || agent.started.wait(PATIENCE).map(drop));
    let stopped = honest_stop(stage, &id, &native);
    drop(waiting.join());
    stopped
}

pub(super) fn ends(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut done = exec(stage, &cwd, "doing [[tool:true]] [[say:done]]")?;
    done.ended()?;
    stage.expect("a turn that was finished", &finished(&done.id))?;
    let mut failed = exec(stage, &cwd, "failing [[error:401]]")?;
    failed.ended()?;
    let claim = Claim::of(&failed.id, "error").ended("failed").served_by(&[]);
    // Versions before 0.146 do not write why a turn ended without an answer.
    stage.expect_any("a turn that failed", &[claim, ended(&failed.id, "unknown")])?;
    let mut interrupted = exec(stage, &cwd, &work())?;
    interrupted.in_tool(stage)?;
    signalled(&mut interrupted, Signal::INT)?;
    stage.expect("after SIGINT", &ended(&interrupted.id, "interrupted"))?;
    let mut terminated = exec(stage, &cwd, &work())?;
    terminated.in_tool(stage)?;
    signalled(&mut terminated, Signal::TERM)?;
    stage.expect("after SIGTERM", &ended(&terminated.id, "killed"))?;
    only(stage, &[&done.id, &failed.id, &interrupted.id, &terminated.id])
}

/// Finds the only rollout there is.
fn thread(stage: &Stage) -> Result<String, Trouble> {
    let sessions = stage.home.join(".codex/sessions");
    stage.until("there is a rollout", || {
        let mut folders = vec![sessions.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let stem = path.file_stem()?.to_string_lossy().into_owned();
                return Some(stem[stem.len().checked_sub(36)?..].to_owned());
            }
        }
        None
    })
}

pub(super) fn terminal(stage: &mut Stage) -> Result<(), Trouble> {
    settings(stage, ".codex", false)?;
    let words = ["--dangerously-bypass-approvals-and-sandbox"];
    let (terminal, native) = open(stage, "a", &words)?;
    terminal.paste_line("greeting [[say:hello there]]").map_err(|e| e.to_string())?;
    stage.until_asked("greeting", |r| !r.side && r.prompt.starts_with("greeting"))?;
    shows(stage, &terminal, "hello there")?;
    let id = thread(stage)?;
    settled(stage)?;
    let idle = Claim::of(&id, "idle").because(None).served_by(&[native.pid]).hosted(false);
    stage.expect("after a turn", &idle)?;
    terminal.paste_line(&work()).map_err(|e| e.to_string())?;
    drop(stage.until_below(native.pid, WORK)?);
    settled(stage)?;
    stage.expect("in a tool", &working(&id, native.pid))?;
    native.signal(Signal::KILL).map_err(|e| e.to_string())?;
    if !native.ended_within(PATIENCE) {
        return Err("SIGKILL did not end it".into());
    }
    stage.expect("after SIGKILL", &ended(&id, "killed"))?;
    only(stage, &[&id])
}

/// Waits until the rollout is written, and the title that newer versions ask the model for is in their index.
fn settled(stage: &Stage) -> Result<(), Trouble> {
    quiet(stage)?;
    stage.until_quiet(&stage.home.join(".codex/session_index.jsonl"))?;
    stage.until_quiet(&stage.home.join(".codex/state_5.sqlite-wal"))
}

/// An editor's server: JSON-RPC, a line each, on its stdin and stdout.
pub(super) struct Editor {
    pub(super) started: Started,
    pub(super) native: Held,
    fifo: PathBuf,
    requests: u64,
}

impl Editor {
    pub(super) fn open(stage: &Stage, cwd: &Path) -> Result<Self, Trouble> {
        settings(stage, ".codex", false)?;
        let (started, fifo) = with_fifo(stage, cwd, &env(), &["codex", "app-server"])?;
        let native = native(stage, started.pid())?;
        let mut editor = Self { started, native, fifo, requests: 0 };
        let client = json!({"name": "editor", "title": "Editor", "version": "1"});
        editor.ask(stage, "initialize", &json!({"clientInfo": client}))?;
        say(&editor.fifo, &json!({"method": "initialized"}))?;
        Ok(editor)
    }

    /// Sends a request and returns its result.
    fn ask(&mut self, stage: &Stage, method: &str, params: &Value) -> Result<Value, Trouble> {
        self.requests += 1;
        let id = self.requests;
        say(&self.fifo, &json!({"id": id, "method": method, "params": params}))?;
        let answer = stage.until(&format!("the server answers {method}"), || {
            let said = super::said(stage);
            let mut lines = said.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
            lines.find(|l| l["id"] == id && l.get("method").is_none())
        })?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(answer["result"].clone()),
        }
    }

    /// Starts a thread with a turn, and waits until the model has its prompt.
    pub(super) fn turn(
        &mut self,
        stage: &Stage,
        cwd: &Path,
        prompt: &str,
    ) -> Result<String, Trouble> {
        let params =
            json!({"cwd": cwd, "approvalPolicy": "never", "sandbox": "danger-full-access"});
        let started = self.ask(stage, "thread/start", &params)?;
        let id = started["thread"]["id"].as_str().ok_or("no thread")?.to_owned();
        let input = json!([{"type": "text", "text": prompt, "text_elements": []}]);
        self.ask(stage, "turn/start", &json!({"threadId": id, "input": input}))?;
        let word = prompt.split(' ').next().unwrap_or_default();
        stage.until_asked(word, |r| !r.side && r.prompt.starts_with(word))?;
        Ok(id)
    }
}

pub(super) fn editor(stage: &mut Stage) -> Result<(), Trouble> {
    let (a, b) = (stage.directory("a")?, stage.directory("b")?);
    let mut editor = Editor::open(stage, &a)?;
    let rests = editor.turn(stage, &b, "resting [[say:rested]]")?;
    super::recorded(stage, &stage.home.join(".codex"), &rests, "\"task_complete\"")?;
    let works = editor.turn(stage, &a, &work())?;
    drop(stage.until_below(editor.native.pid, WORK)?);
    quiet(stage)?;
    let pid = editor.native.pid;
    let working = Claim::of(&works, "running").because(Some("tool")).about_what(WORK);
    stage.expect("the thread in a tool", &working.served_by(&[pid]).hosted(true))?;
    let resting = Claim::of(&rests, "idle").because(None).served_by(&[pid]).hosted(true);
    stage.expect("the thread at rest", &resting)?;
    let told = stage.order(&a, &env(), &["launch", "codex", "-p", "second [[say:no]]"])?;
    stage.expect_that("its directory is occupied", told.code == Some(5), told.all());
    editor.native.signal(Signal::KILL).map_err(|e| e.to_string())?;
    editor.started.wait(PATIENCE).map_err(|e| e.to_string())?;
    stage.expect("the one at work, after SIGKILL", &ended(&works, "killed"))?;
    stage.expect("the one at rest, after SIGKILL", &ended(&rests, "finished"))?;
    only(stage, &[&works, &rests])
}

pub(super) fn editor_events(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let events = Events::begin(stage)?;
    let mut editor = Editor::open(stage, &cwd)?;
    let id = editor.turn(stage, &cwd, "resting [[delay:3]] [[say:rested]]")?;
    super::recorded(stage, &stage.home.join(".codex"), &id, "\"task_complete\"")?;
    events.expect(stage, &id, "session.started");
    events.expect(stage, &id, "session.idle");
    editor.native.signal(Signal::KILL).map_err(|e| e.to_string())?;
    editor.started.wait(PATIENCE).map_err(|e| e.to_string())?;
    events.expect(stage, &id, "session.stopped");
    Ok(())
}

/// The record of a session at work is taken away: deleted or truncated, in a tool and in a model call.
pub(super) fn rollout_gone(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    for (prompt, place) in [(work(), "in a tool"), ("thinking [[hang]]".to_owned(), "in a call")] {
        for (deleted, what) in [(true, "the rollout deleted"), (false, "the rollout truncated")] {
            let mut agent = exec(stage, &cwd, &prompt)?;
            if place == "in a tool" {
                agent.in_tool(stage)?;
            } else {
                agent.asked(stage, "thinking")?;
            }
            let file = rollout(&agent.home, &agent.id).ok_or("no rollout")?;
            let done = if deleted { fs::remove_file(&file) } else { fs::write(&file, "") };
            done.map_err(|e| e.to_string())?;
            // Pending writes must not come between two looks.
            quiet(stage)?;
            let pid = agent.native.pid;
            let by_id = Claim::of(&agent.id, "running").served_by(&[pid]);
            let by_process = Claim::of_process(pid, "running").served_by(&[pid]);
            stage.expect_any(&format!("{place}, {what}"), &[by_id, by_process])?;
            signalled(&mut agent, Signal::KILL)?;
        }
    }
    Ok(())
}

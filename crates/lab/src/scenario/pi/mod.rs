//! Pi, as it is started, watched and ended by people and scripts: the newest version, and the last of the
//! package it was published as before.

mod beside;
mod control;
mod headless;
mod kept;
mod terminal;

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use super::alike::WORK;
use super::{Agent, PlayedAgent, Scenario, below, control as shared, inbox_bars};
use crate::install::{Beside, Package};
use crate::process::{Held, Started, all, comm, directory};
use crate::stage::{PATIENCE, Stage, Trouble};

const PI: Agent = Agent("pi");
const PI_OLD: Agent = Agent("pi-old");
/// The version of Node that Pi runs on here.
const NODE: &str = "24.9.0";

/// Pi in the lab.
pub static AGENT: PlayedAgent = PlayedAgent {
    package: Package {
        agent: PI.0,
        name: "@earendil-works/pi-coding-agent",
        beside: Beside::NodeUnpacked { node: NODE, program: "dist/bundle/cli.js", command: "pi" },
    },
    scenarios: &[SCENARIOS, &CONTROL, &BELOW, &KEPT_BARS],
};

/// Pi under the package name that it had before, in the lab: the last version.
pub static OLD_AGENT: PlayedAgent = PlayedAgent {
    package: Package {
        agent: PI_OLD.0,
        name: "@mariozechner/pi-coding-agent",
        beside: Beside::Node(NODE),
    },
    scenarios: &[OLD, &OLD_CONTROL],
};

/// Every scenario of the newest Pi.
pub static SCENARIOS: &[Scenario] = &[
    PI.core("starting", "`pi -p` from its first moment on", headless::starting),
    PI.core("model-call", "`pi -p` while the model thinks, and its end", headless::model_call)
        .every(),
    PI.core("killed-in-tool", "SIGKILL in a tool: the turn stays open", headless::killed).every(),
    PI.core("terminated", "SIGTERM in a tool: exit 143, its tool ends too", headless::terminated)
        .every(),
    PI.core("failed-400", "the model refuses: the turn failed", headless::failed).every(),
    PI.headless("retrying", "the model's limit: it is tried again, and works", headless::retrying),
    PI.headless("gave-up", "the model's limit for ever: the turn failed", headless::gave_up),
    PI.headless("paused", "SIGSTOP while the model thinks, and SIGCONT", headless::paused),
    PI.headless("logs", "the messages of a session, as they were said", headless::logs),
    PI.headless("moved-home", "PI_CODING_AGENT_DIR set for the agent only", headless::moved_home),
    PI.headless(
        "moved-sessions",
        "`--session-dir`: only its tools say where its session is",
        headless::moved_sessions,
    ),
    PI.headless("two-in-one-directory", "two sessions work in one directory", headless::two)
        .every(),
    PI.headless("by-place-and-time", "plain `pi -p`: nothing else joins it", headless::plain),
    PI.headless("by-tool", "plain `pi -p` in a tool: its tool says which", headless::plain_in_tool),
    PI.headless(
        "appended-log",
        "two write into one file: its first line names only one",
        headless::appended,
    ),
    PI.headless("forked", "a fork has its own id, and its own tokens only", headless::forked),
    PI.headless("branches", "two answers at once: the last line decides", headless::branches),
    PI.terminal("terminal", "a terminal from its start to its end", terminal::whole),
    PI.terminal("terminal-resumed", "`pi -c` in a terminal goes on", terminal::resumed),
    PI.terminal("terminal-interrupted", "Esc while the model thinks", terminal::interrupted),
    Scenario {
        unknown_because: Some(
            "nothing tells whether the terminal began the newer session, or another process did",
        ),
        ..PI.terminal("terminal-new", "`/new` in a terminal", terminal::new)
    },
    PI.terminal("version-terminal", "at rest and in a tool", beside::in_terminal).every(),
    PI.headless("version-stop", "`stop` in a tool: its answer is what happened", beside::stop)
        .every(),
    PI.terminal("beside", "a session that ended beside a terminal at rest", beside::fresh).every(),
    PI.terminal("resumed-beside", "the same, the terminal on an older session", beside::resumed)
        .every(),
    PI.headless("record-deleted", "its file is deleted while it works", beside::deleted).every(),
    PI.headless("no-session", "`--no-session`, in a tool", beside::no_session).every(),
    PI.headless("relative-home", "PI_CODING_AGENT_DIR is relative", beside::relative).every(),
    PI.headless("native-wrapper", "a program of its name is none", beside::wrapped).every(),
    PI.headless("moved-home-events", "events from a home only it names", beside::moved_events)
        .every(),
    PI.core("kept", "`launch --keep`: messages, and the end of a turn", kept::messages).every(),
    PI.headless("kept-forgotten", "the same after all own files are gone", kept::forgotten).every(),
    PI.headless("kept-first-call", "`--keep` in its first model call", kept::first_call).every(),
    PI.headless("kept-idle", "`--keep=2s`: it ends when it has rested", kept::until_idle).every(),
];

/// The scenarios of control that all agents share.
pub static CONTROL: [Scenario; 24] = shared::scenarios::<control::Pi>(&PI);

/// Answers from below it and from beside it.
pub static BELOW: [Scenario; 2] = below::silent_scenarios::<kept::KeptPi>(&PI);

/// Messages to sessions that stay.
pub static KEPT_BARS: [Scenario; 2] = inbox_bars::kept_scenarios::<kept::KeptPi>(&PI);

/// Every scenario of the older package that the newer one does not show as well.
pub static OLD: &[Scenario] = &[
    PI_OLD.core("starting", "`pi -p` from its first moment on", headless::starting),
    PI_OLD
        .core("model-call", "`pi -p` while the model thinks: no file yet", headless::model_call)
        .every(),
    PI_OLD.core(
        "unwritten",
        "killed in its first model call: nothing is left",
        headless::unwritten,
    ),
    PI_OLD
        .core("killed-in-tool", "SIGKILL in a tool: the turn stays open", headless::killed)
        .every(),
    PI_OLD.core("terminated", "SIGTERM in a tool: its tool ends too", headless::terminated).every(),
    PI_OLD.core("failed-400", "the model refuses: the turn failed", headless::failed).every(),
    PI_OLD.headless("retrying", "the model's limit: it is tried again", headless::retrying),
    PI_OLD.headless("by-place-and-time", "plain `pi -p` in a tool", headless::plain_late),
    PI_OLD
        .headless("two-in-one-directory", "two sessions work in one directory", headless::two)
        .every(),
    PI_OLD.terminal("terminal", "a terminal from its start to its end", terminal::whole),
    PI_OLD.terminal("version-terminal", "at rest and in a tool", beside::in_terminal).every(),
    PI_OLD
        .headless("version-stop", "`stop` in a tool: its answer is what happened", beside::stop)
        .every(),
    PI_OLD
        .terminal("beside", "a session that ended beside a terminal at rest", beside::fresh)
        .every(),
    PI_OLD
        .terminal("resumed-beside", "the same, the terminal on an older session", beside::resumed)
        .every(),
    PI_OLD
        .headless("record-deleted", "its file is deleted while it works", beside::deleted)
        .every(),
    PI_OLD.headless("no-session", "`--no-session`, in a tool", beside::no_session).every(),
    PI_OLD.headless("relative-home", "PI_CODING_AGENT_DIR is relative", beside::relative).every(),
    PI_OLD.headless("native-wrapper", "a program of its name is none", beside::wrapped).every(),
    PI_OLD
        .headless("moved-home-events", "events from a home only it names", beside::moved_events)
        .every(),
    PI_OLD.core("kept", "`launch --keep`: messages, and the end of a turn", kept::messages).every(),
    PI_OLD
        .headless("kept-forgotten", "the same after all own files are gone", kept::forgotten)
        .every(),
    PI_OLD
        .headless("kept-first-call", "`--keep` in its first model call", kept::first_call)
        .every(),
    PI_OLD
        .headless("kept-idle", "`--keep=2s`: it ends when it has rested", kept::until_idle)
        .every(),
];

const ORDERED: [Scenario; 24] = shared::scenarios::<control::Pi>(&PI_OLD);

/// The scenarios of control of the older package. A session that ends in its first model call leaves no
/// record there, so such scenarios are not played.
pub static OLD_CONTROL: [Scenario; 8] = [
    ORDERED[0],
    ORDERED[1],
    ORDERED[2],
    ORDERED[3],
    ORDERED[11],
    ORDERED[12],
    ORDERED[15],
    ORDERED[21],
];

/// Writes the settings of a Pi that talks to our model.
fn settings(stage: &Stage, folder: &str) -> Result<(), Trouble> {
    let cost = serde_json::json!({"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0});
    let model = serde_json::json!({
        "id": "fake-1", "name": "Fake One", "reasoning": false, "input": ["text"],
        "contextWindow": 10_000_000, "maxTokens": 4096, "cost": cost,
    });
    let provider = serde_json::json!({
        "baseUrl": format!("{}/v1", stage.model.url()), "api": "openai-completions",
        "apiKey": "sk-fake", "models": [model],
    });
    let models = serde_json::json!({ "providers": { "fake": provider } });
    stage.write(&format!("{folder}/models.json"), &models.to_string())?;
    let settings = serde_json::json!({"defaultProvider": "fake", "defaultModel": "fake-1"});
    stage.write(&format!("{folder}/settings.json"), &settings.to_string())
}

fn env() -> Vec<(String, String)> {
    let set = [("PI_OFFLINE", "1"), ("PI_SKIP_VERSION_CHECK", "1"), ("PI_TELEMETRY", "0")];
    set.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec()
}

/// A `pi` that was started here: the process, and the session that it named in its output file.
struct Run {
    started: Started,
    pid: u32,
    id: String,
}

/// Starts `pi --mode json -p` like a shell: it prints into a file of its own.
fn run(stage: &Stage, cwd: &Path, prompt: &str) -> Result<Run, Trouble> {
    run_with(stage, cwd, &[], prompt, &env())
}

fn run_with(
    stage: &Stage,
    cwd: &Path,
    how: &[&str],
    prompt: &str,
    env: &[(String, String)],
) -> Result<Run, Trouble> {
    if !stage.home.join(".pi/agent/models.json").exists() {
        settings(stage, ".pi/agent")?;
    }
    let started = shell(stage, cwd, how, prompt, env)?;
    let pid = started.pid();
    let id = stage.until("pi says which session it has", || spoken(pid))?;
    Ok(Run { started, pid, id })
}

/// Starts a shell that becomes `pi`, its words kept in a file that is made for it.
fn shell(
    stage: &Stage,
    cwd: &Path,
    how: &[&str],
    prompt: &str,
    env: &[(String, String)],
) -> Result<Started, Trouble> {
    let script = r#"out=$(mktemp -u "$HOME/words-XXXXXX"); exec pi --mode json "$@" > "$out" 2>&1"#;
    let mut argv = vec!["/bin/bash", "-c", script, "bash"];
    argv.extend(how);
    argv.extend(["-p", prompt]);
    stage.start(cwd, env, &argv)
}

/// Returns the session that a process named in the first line it wrote.
fn spoken(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fd/1")).ok()?;
    let header: Value = serde_json::from_str(text.lines().next()?).ok()?;
    let id = header["id"].as_str()?;
    (header["type"] == "session").then(|| id.to_owned())
}

/// Returns the live Pi processes with this working directory.
fn standing(cwd: &Path) -> Vec<u32> {
    let named = all().into_iter().filter(|p| comm(*p) == "pi");
    named.filter(|p| directory(*p).as_deref() == Some(cwd)).collect()
}

impl Run {
    /// Waits until the model has the prompt, and the record too where this version writes it then.
    fn asked(&self, stage: &Stage, word: &str) -> Result<(), Trouble> {
        stage.until_asked(word, |r| !r.side && r.prompt.starts_with(word))?;
        if writes_late(stage) { Ok(()) } else { recorded(stage, &self.id, word) }
    }

    /// Waits until the agent is in the tool that never ends, by its processes and its records.
    fn in_tool(&self, stage: &Stage) -> Result<Held, Trouble> {
        let tool = stage.until_below(self.pid, WORK)?;
        recorded(stage, &self.id, "\"toolCall\"")?;
        Ok(tool)
    }

    fn signal(&self, signal: Signal) -> Result<(), Trouble> {
        self.started.held.signal(signal).map_err(|e| e.to_string())
    }

    /// Waits for its end and returns its exit code.
    fn ended(&mut self) -> Result<Option<i32>, Trouble> {
        self.started.wait(PATIENCE).map(|status| status.code()).map_err(|e| e.to_string())
    }
}

/// Before 0.99 a session's file is made with the first answer.
fn writes_late(stage: &Stage) -> bool {
    stage.agent.version.starts_with("0.") && !stage.agent.version.starts_with("0.99")
}

/// Finds the file of a session below a home.
fn record(stage: &Stage, id: &str) -> Option<PathBuf> {
    let ending = format!("_{id}.jsonl");
    let mut folders = vec![stage.home.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(&ending) {
                return Some(path);
            }
        }
    }
    None
}

/// Waits until the file of a session holds this text.
fn recorded(stage: &Stage, id: &str, text: &str) -> Result<(), Trouble> {
    stage.until(&format!("the file of {id} holds `{text}`"), || {
        let records = std::fs::read_to_string(record(stage, id)?).ok()?;
        records.contains(text).then_some(())
    })
}

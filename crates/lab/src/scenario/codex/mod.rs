//! Codex, as it is started, watched and ended by people and scripts.

mod any_version;
mod asks;
mod changes;
mod control;
mod ends;
mod headless;
mod homes;
mod hosted;
mod lineage;
mod terminal;

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use super::alike::WORK;
use super::{Agent, PlayedAgent, Scenario, below, control as shared, inbox_bars, server_asks};
use crate::install::{Beside, Package};
use crate::process::{Held, Started, descendants};
use crate::stage::{PATIENCE, Stage, Trouble};

const CODEX: Agent = Agent("codex");

/// Codex in the lab.
pub static AGENT: PlayedAgent = PlayedAgent {
    package: Package { agent: CODEX.0, name: "@openai/codex", beside: Beside::Nothing },
    scenarios: &[SCENARIOS, &CONTROL, &MCP, &ASKS, &BARS, &BELOW, &KEPT_BARS],
};

/// Every scenario of Codex.
pub static SCENARIOS: &[Scenario] = &[
    CODEX.core("starting", "`codex exec` from its first moment on", headless::starting),
    CODEX.core(
        "model-call",
        "`codex exec` while the model thinks, and its end",
        headless::model_call,
    ),
    CODEX.core(
        "killed-in-tool",
        "SIGKILL in a tool: the lock file stays behind",
        ends::killed_in_tool,
    ),
    CODEX.core("failed-401", "the model refuses the key: the turn failed", ends::failed_401),
    CODEX.core(
        "interrupted-in-tool",
        "SIGINT in a tool: an interrupted turn",
        ends::interrupted_in_tool,
    ),
    CODEX.core("terminated", "SIGTERM in a tool: nothing is written any more", ends::terminated),
    CODEX.core("resumed", "a finished session goes on under its id", lineage::resumed),
    CODEX.core(
        "index-missing",
        "the index is gone: the records alone say the same",
        ends::index_missing,
    ),
    CODEX
        .core(
            "changes",
            "`changes --patch` of patches and shell commands, applied to the start",
            changes::told,
        )
        .since("0.134.0"),
    CODEX.headless("ending", "`codex exec` until after its last moment", headless::ending),
    CODEX.headless(
        "ephemeral",
        "a session without records: a process at work",
        headless::ephemeral,
    ),
    CODEX.headless("namesake", "it works in a directory called `app-server`", headless::namesake),
    CODEX.headless("tokens", "tokens over several answers, as the model counted", headless::tokens),
    CODEX.headless("logs", "the messages of a session, as they were said", headless::logs),
    CODEX.headless("paused", "SIGSTOP while the model thinks, and SIGCONT", headless::paused),
    CODEX.headless("two-in-one-directory", "two sessions work in one directory", headless::two),
    CODEX.headless("moved-home", "CODEX_HOME set for the agent only", headless::moved_home),
    CODEX.headless(
        "wrapper-killed",
        "the Node wrapper dies, the agent works on",
        headless::no_wrapper,
    ),
    CODEX.headless("launcher-killed", "the shell that started it dies", headless::no_launcher),
    CODEX.headless("subagent", "a subagent works below its parent", lineage::subagent),
    CODEX.headless("forked", "a fork has its own id, and its own tokens only", lineage::forked),
    CODEX.headless(
        "second-writer",
        "a resume of a running session is refused",
        lineage::second_writer,
    ),
    CODEX.headless("failed-429", "the model's limit: the turn failed", ends::failed_429),
    CODEX.headless("failed-500", "the model's server fails: the turn failed", ends::failed_500),
    CODEX.headless("interrupted-in-model-call", "SIGINT while the model thinks", ends::interrupted),
    CODEX.headless("killed-in-model-call", "SIGKILL while the model thinks", ends::killed),
    CODEX.headless(
        "stale-lock",
        "a lock file that nobody holds, beside a new session",
        ends::stale_lock,
    ),
    CODEX.headless("recycled-pid", "a stranger has the dead agent's pid", ends::recycled_pid),
    CODEX.headless(
        "older-than-a-month",
        "a session of long ago is found when asked for",
        ends::old,
    ),
    CODEX.terminal(
        "terminal-idle",
        "a terminal before its first prompt, after a turn, after /quit",
        terminal::idle,
    ),
    CODEX.terminal(
        "terminal-unprompted",
        "a terminal killed before its first prompt",
        terminal::unprompted,
    ),
    CODEX.terminal(
        "terminal-interrupted",
        "Esc while the model thinks: it is the user's move",
        terminal::interrupted,
    ),
    CODEX.terminal(
        "terminal-approval",
        "a command waits for approval: no source says so, hence `running` and a note",
        terminal::approval,
    ),
    CODEX.headless(
        "retrying",
        "the server fails, Codex tries again: no source says so, hence `running`",
        ends::retrying,
    ),
    CODEX.terminal(
        "terminal-namesake",
        "it works in a directory called `exec`",
        terminal::namesake,
    ),
    CODEX.terminal("terminal-question", "the model asks its user (plan mode)", terminal::question),
    CODEX.terminal(
        "hosted-approval",
        "a command waits for approval in the shared server",
        hosted::approval,
    ),
    CODEX.terminal("hosted-two", "two terminals, two sessions, one process", hosted::two),
    CODEX.terminal(
        "hosted-terminal-killed",
        "the terminal dies, its turn goes on",
        hosted::terminal_killed,
    ),
    CODEX.headless(
        "no-repository",
        "`launch` where there is no git repository",
        control::not_a_repository,
    ),
    CODEX.terminal(
        "hosted-stopped",
        "`stop` in the shared server: one turn ends, the rest goes on",
        control::hosted,
    ),
    CODEX.core("version-call", "a model call, and SIGKILL in it", any_version::call).every(),
    CODEX.core("version-tool", "a tool, and SIGKILL in it", any_version::tool).every(),
    CODEX.core("version-ends", "finished, failed, SIGINT, SIGTERM", any_version::ends).every(),
    CODEX
        .headless(
            "version-stop",
            "`stop` in a tool: its answer is what happened",
            any_version::stop,
        )
        .every(),
    CODEX.terminal("version-terminal", "at rest, in a tool, killed", any_version::terminal).every(),
    CODEX
        .headless("editor", "an editor's server with two threads, and its end", any_version::editor)
        .every(),
    CODEX
        .headless("editor-events", "the events of a thread in it", any_version::editor_events)
        .every(),
    CODEX
        .headless("rollout-gone", "its record is deleted, truncated", any_version::rollout_gone)
        .every(),
    CODEX.headless("relative-home", "CODEX_HOME is relative", homes::relative).every(),
    CODEX.headless("native-wrapper", "a program of its name waits for it", homes::wrapped).every(),
    CODEX
        .terminal("trust-beside-server", "the trust question beside an editor", homes::trust)
        .every(),
    CODEX
        .headless("subcommand", "`codex exec-server` is no session", homes::subcommand)
        .since("0.160.0"),
    CODEX
        .headless("moved-home-events", "events from a home only it names", homes::moved_events)
        .every(),
];

/// The scenarios of control that all agents share.
pub static CONTROL: [Scenario; 24] = shared::scenarios::<control::Codex>(&CODEX);

/// The scenarios of the MCP server that all its clients share.
pub static MCP: [Scenario; 2] = shared::mcp::scenarios::<control::Codex>(&CODEX);

/// The scenarios of asks that all agents with servers share.
pub static ASKS: [Scenario; 3] = server_asks::scenarios::<asks::Codex>(&CODEX);

/// The bars of the inbox that all agents share.
pub static BARS: [Scenario; 1] = inbox_bars::scenarios::<asks::Codex>(&CODEX);
/// Answers from below it and from beside it.
pub static BELOW: [Scenario; 2] = below::scenarios::<asks::Codex>(&CODEX);
/// Messages to sessions that stay.
pub static KEPT_BARS: [Scenario; 2] = inbox_bars::kept_scenarios::<asks::Codex>(&CODEX);

/// Writes the settings of a Codex that talks to our model, asks nothing at its start, and tries once.
fn settings(stage: &Stage, folder: &str, daemon: bool) -> Result<(), Trouble> {
    let (url, work) = (stage.model.url(), stage.home.join("ws"));
    let trusted = ["a", "b"].map(|name| {
        format!("[projects.\"{}\"]\ntrust_level = \"trusted\"\n", work.join(name).display())
    });
    stage.write(
        &format!("{folder}/config.toml"),
        &format!(
            r#"model = "fake-codex-1"
model_provider = "fake"
check_for_update_on_startup = false
approval_policy = "on-request"
sandbox_mode = "workspace-write"
[analytics]
enabled = false
[features]
plugins = false
apps = false
daemon_auto_start = {daemon}
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_OPENAI_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[tui]
screen_reader_detection_done = true
{}"#,
            trusted.concat()
        ),
    )
}

fn env() -> Vec<(String, String)> {
    vec![("FAKE_OPENAI_KEY".into(), "sk-fake".into())]
}

/// The words of `codex exec`; `how` is nothing, or `resume` or `fork` with an id.
fn words<'a>(how: &[&'a str], prompt: &'a str) -> Vec<&'a str> {
    let mut words = vec!["codex", "exec", "--json", "--skip-git-repo-check"];
    words.push("--dangerously-bypass-approvals-and-sandbox");
    words.extend(how);
    words.push(prompt);
    words
}

/// A `codex exec` that was started here: the started process, the agent itself, and its thread.
struct Exec {
    started: Started,
    native: Held,
    id: String,
    home: PathBuf,
}

fn exec(stage: &Stage, cwd: &Path, prompt: &str) -> Result<Exec, Trouble> {
    launch(stage, cwd, &words(&[], prompt))
}

/// Starts these words, a `codex exec` or something that starts one, and waits for its thread.
fn launch(stage: &Stage, cwd: &Path, argv: &[&str]) -> Result<Exec, Trouble> {
    settings(stage, ".codex", false)?;
    let before = said(stage).len();
    let started = stage.start(cwd, &env(), argv)?;
    adopt(stage, started, before, stage.home.join(".codex"))
}

/// Waits for the thread id of a `codex exec` that was just started and prints to the log from this
/// offset on.
fn adopt(stage: &Stage, started: Started, from: usize, home: PathBuf) -> Result<Exec, Trouble> {
    let id = stage.until("codex says which thread it has", || {
        let text = said(stage);
        let line = text.get(from..)?.lines().find(|l| l.contains("thread.started"))?;
        let event: Value = serde_json::from_str(line).ok()?;
        event["thread_id"].as_str().map(str::to_owned)
    })?;
    let native = native(stage, started.pid())?;
    Ok(Exec { started, native, id, home })
}

/// Returns all output of the programs of this stage so far.
fn said(stage: &Stage) -> String {
    let bytes = std::fs::read(stage.home.join("said.log")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Finds the agent itself: under a Node that can, the wrapper becomes the agent; else it is its child.
fn native(stage: &Stage, pid: u32) -> Result<Held, Trouble> {
    stage.until("the native codex runs", || {
        let mut pids = vec![pid];
        pids.extend(descendants(pid));
        Held::of(pids.into_iter().find(|p| is_native(*p))?).ok()
    })
}

/// The wrapper is a script of the same name, and bears it until its interpreter runs: ask for the file.
fn is_native(pid: u32) -> bool {
    let file = std::fs::read_link(format!("/proc/{pid}/exe"));
    file.is_ok_and(|f| f.file_name().is_some_and(|name| name == "codex"))
}

impl Exec {
    /// Waits until the model has the prompt and the records do.
    fn asked(&self, stage: &Stage, word: &str) -> Result<(), Trouble> {
        stage.until_asked(word, |r| !r.side && r.prompt.starts_with(word))?;
        self.recorded(stage, word)
    }

    /// Waits until the records hold this text.
    fn recorded(&self, stage: &Stage, text: &str) -> Result<(), Trouble> {
        recorded(stage, &self.home, &self.id, text)
    }

    /// Waits until the agent is in the tool that never ends, by its processes and its records.
    fn in_tool(&self, stage: &Stage) -> Result<(), Trouble> {
        drop(stage.until_below(self.native.pid, WORK)?);
        self.recorded(stage, "\"function_call\"")
    }

    fn signal(&self, signal: Signal) -> Result<(), Trouble> {
        self.native.signal(signal).map_err(|e| e.to_string())
    }

    /// Waits for the end of the agent and of the started process.
    fn ended(&mut self) -> Result<(), Trouble> {
        if !self.native.ended_within(PATIENCE) {
            return Err("codex did not end".into());
        }
        self.started.wait(PATIENCE).map(drop).map_err(|e| e.to_string())
    }
}

/// Finds the rollout of a thread below a Codex home.
fn rollout(home: &Path, id: &str) -> Option<PathBuf> {
    let ending = format!("{id}.jsonl");
    let mut folders = vec![home.join("sessions")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(&ending) {
                return Some(path);
            }
        }
    }
    None
}

/// Waits until the rollout of a thread holds this text.
fn recorded(stage: &Stage, home: &Path, id: &str, text: &str) -> Result<(), Trouble> {
    stage.until(&format!("the rollout of {id} holds `{text}`"), || {
        let records = std::fs::read_to_string(rollout(home, id)?).ok()?;
        records.contains(text).then_some(())
    })
}

//! OpenCode, as it is started, watched, asked and ended by people and scripts.

mod asks;
mod control;
mod headless;
mod served;
mod terminal;
mod unusual;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use rustix::process::Signal;
use serde_json::json;

use super::alike::WORK;
use super::{Agent, PlayedAgent, Scenario, below, control as shared, inbox_bars, server_asks};
use crate::install::{Beside, Package};
use crate::judge::Claim;
use crate::process::{Held, Started};
use crate::stage::{PATIENCE, Stage, Trouble};

/// The text in the record of a tool whose command runs. 1.14 writes a description behind the output.
const TOOL_RUNS: &str = "\"metadata\":{\"output\":\"\"";
const OPENCODE: Agent = Agent("opencode");

/// OpenCode in the lab.
pub static AGENT: PlayedAgent = PlayedAgent {
    package: Package { agent: OPENCODE.0, name: "opencode-ai", beside: Beside::Nothing },
    scenarios: &[SCENARIOS, &ASKS, &BARS, &BELOW, &KEPT_BARS],
};

/// Every scenario of OpenCode.
pub static SCENARIOS: &[Scenario] = &[
    OPENCODE.core("starting", "`opencode run` from its first moment on", headless::starting),
    OPENCODE
        .core(
            "model-call",
            "`opencode run` while the model thinks, and its end",
            headless::model_call,
        )
        .every(),
    OPENCODE
        .core(
            "killed-in-tool",
            "SIGKILL in a tool: its record stays open, the tool lives on",
            headless::killed_in_tool,
        )
        .every(),
    OPENCODE
        .core("failed-401", "the model refuses the key: the turn failed", headless::failed_401)
        .every(),
    OPENCODE.core(
        "three-in-one-directory",
        "three sessions work in one directory: the log tells them apart",
        headless::three,
    ),
    OPENCODE.core("resumed", "a finished session goes on under its id", headless::resumed).every(),
    OPENCODE.headless("retrying", "the model's limit: it is tried again", headless::retrying),
    OPENCODE.headless(
        "refused-tool",
        "a tool that needs permission: refused at once, and noted",
        headless::refused_tool,
    ),
    OPENCODE.headless("subagent", "a subagent works below its parent", headless::subagent),
    OPENCODE.headless("paused", "SIGSTOP while the model thinks, and SIGCONT", headless::paused),
    OPENCODE.headless("forked", "a fork has an id of its own", headless::forked),
    OPENCODE.headless("logs", "the messages of a session, as they were said", headless::logs),
    OPENCODE.headless("moved-data", "XDG_DATA_HOME set for the agent only", headless::moved_data),
    OPENCODE.headless("moved-database", "OPENCODE_DB set for the agent only", headless::moved_db),
    OPENCODE.headless(
        "served-two",
        "one server with a password, two sessions in two directories; one is stopped",
        served::two,
    ),
    OPENCODE.headless(
        "served-permission",
        "a session in a server waits for a permission, gets it, is aborted",
        served::permission,
    ),
    OPENCODE.headless(
        "served-retrying",
        "a session in a server tries a failed model call again",
        served::retrying,
    ),
    OPENCODE.headless(
        "attached-client-killed",
        "the client of a server dies, its session works on",
        served::client_killed,
    ),
    OPENCODE.headless("server-killed", "SIGKILL of a server with a busy session", served::killed),
    OPENCODE.headless(
        "served-asks",
        "a permission and two questions of a session in a server are answered from here",
        served::answered,
    ),
    OPENCODE.headless("acp", "a session of an editor", served::acp),
    OPENCODE.headless("launched", "launch, wait, resume, refuse a second one", control::launched),
    OPENCODE.headless("launch-fails", "a model that does not exist", control::fails),
    OPENCODE.headless("stopped", "stop of a launched session in a tool", control::stopped),
    OPENCODE.headless("stopped-by-hand", "stop of one started by hand", control::by_hand).every(),
    OPENCODE.terminal(
        "terminal-idle",
        "a terminal before its first prompt, after a turn, after its end",
        terminal::idle,
    ),
    OPENCODE.terminal(
        "terminal-permission",
        "a command waits for permission, gets it, is interrupted",
        terminal::permission,
    ),
    OPENCODE.terminal(
        "terminal-fetch",
        "an allowed fetch: no source says that it was, hence `running` and a note",
        terminal::fetch,
    ),
    OPENCODE.terminal("terminal-question", "the model asks its user", terminal::question),
    OPENCODE.terminal("terminal-stopped", "stop of a terminal in a tool", terminal::stopped),
    OPENCODE.terminal(
        "terminal-twice",
        "two terminals in one session: one row, both processes",
        terminal::twice,
    ),
    OPENCODE
        .terminal("version-terminal", "at rest, in a tool, killed", unusual::in_terminal)
        .every(),
    OPENCODE.terminal("clock", "the clock is set forward while it works", unusual::clock).every(),
    OPENCODE
        .terminal("picker", "back in an older session, not prompted yet", unusual::picker)
        .every(),
    OPENCODE.terminal("own-mounts", "it has mounted another home", unusual::own_mounts).every(),
    OPENCODE.headless("relative-home", "XDG_DATA_HOME is relative", unusual::relative).every(),
    OPENCODE
        .headless("native-wrapper", "a program of its name waits for it", unusual::wrapped)
        .every(),
    OPENCODE
        .headless("moved-home-events", "events from a home only it names", unusual::moved_events)
        .every(),
];

/// The scenarios of asks that all agents with servers share.
pub static ASKS: [Scenario; 3] = server_asks::scenarios::<asks::OpenCode>(&OPENCODE);

/// The bars of the inbox that all agents share.
pub static BARS: [Scenario; 1] = inbox_bars::scenarios::<asks::OpenCode>(&OPENCODE);
/// Answers from below it and from beside it.
pub static BELOW: [Scenario; 2] = below::scenarios::<asks::OpenCode>(&OPENCODE);
/// Messages to sessions that stay.
pub static KEPT_BARS: [Scenario; 2] = inbox_bars::kept_scenarios::<asks::OpenCode>(&OPENCODE);

/// Writes the settings of an OpenCode that talks to our model and to no other server.
fn settings(stage: &Stage) -> Result<(), Trouble> {
    let model = json!({"tool_call": true, "limit": {"context": 100_000, "output": 4096}});
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": format!("{}/v1", stage.model.url()), "apiKey": "x"},
        "models": {"fake-1": model},
    });
    let settings = json!({
        "autoupdate": false,
        "share": "disabled",
        "model": "fake/fake-1",
        "small_model": "fake/fake-1",
        "enabled_providers": ["fake"],
        "provider": {"fake": provider},
    });
    stage.write(".config/opencode/opencode.json", &settings.to_string())
}

fn env() -> Vec<(String, String)> {
    let names = [
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
    ];
    names.map(|name| (name.to_owned(), "1".to_owned())).to_vec()
}

fn with(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let more = more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    env().into_iter().chain(more).collect()
}

/// The usual database of a stage.
fn database(stage: &Stage) -> PathBuf {
    stage.home.join(".local/share/opencode/opencode.db")
}

/// Reads one text from a database; the oracle's own query, which shares no code with agentctl.
///
/// A reader may block the creator of the database until the first bytes of the write-ahead log exist:
/// OpenCode then fails with `database is locked`. So the query waits for that.
fn query(database: &Path, sql: &str, key: &str) -> Option<String> {
    let log = std::fs::metadata(format!("{}-wal", database.display())).ok()?;
    (log.len() > 0).then_some(())?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).ok()?;
    connection.busy_timeout(std::time::Duration::from_secs(2)).ok()?;
    connection.query_row(sql, [key], |row| row.get(0)).ok()
}

/// Waits until the newest message of a session is by `role` and its text holds this.
fn recorded(stage: &Stage, database: &Path, id: &str, text: &str) -> Result<(), Trouble> {
    let messages =
        "select data from message where session_id = ?1 order by time_created desc, id desc";
    let parts = "select group_concat(data) from part where session_id = ?1";
    stage.until(&format!("the record of {id} holds `{text}`"), || {
        let holds = |sql| query(database, sql, id).is_some_and(|d| d.contains(text));
        (holds(messages) || holds(parts)).then_some(())
    })
}

/// Waits until the record says that the last turn has ended: the reason comes first, the time follows.
fn turn_ended(stage: &Stage, id: &str) -> Result<(), Trouble> {
    recorded(stage, &database(stage), id, "\"finish\":\"stop\"")?;
    recorded(stage, &database(stage), id, "\"completed\":")
}

/// Waits for the agent itself: before 1.17 a Node script starts it and waits for it.
fn native(stage: &Stage, pid: u32) -> Result<Held, Trouble> {
    stage.until("opencode itself runs", || {
        let is_agent = |pid: &u32| {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let name = exe.file_name().unwrap_or_default().to_string_lossy();
            name.trim_start_matches('.').starts_with("opencode")
        };
        let below = crate::process::descendants(pid);
        std::iter::once(pid).chain(below).find(is_agent).and_then(|pid| Held::of(pid).ok())
    })
}

/// An `opencode run` that was started here, and its session.
struct Run {
    started: Started,
    native: Held,
    id: String,
    database: PathBuf,
}

/// Starts `opencode run` with a title of its own, and finds its session by that.
fn run(stage: &Stage, cwd: &Path, title: &str, prompt: &str) -> Result<Run, Trouble> {
    run_in(stage, cwd, &env(), &database(stage), &["--title", title, prompt])
}

fn run_in(
    stage: &Stage,
    cwd: &Path,
    env: &[(String, String)],
    database: &Path,
    words: &[&str],
) -> Result<Run, Trouble> {
    settings(stage)?;
    let argv: Vec<&str> =
        ["opencode", "run", "--format", "json"].iter().chain(words).copied().collect();
    let started = stage.start(cwd, env, &argv)?;
    let native = native(stage, started.pid())?;
    let title = words.get(1).copied().unwrap_or_default();
    let id = stage.until("its session is in the database", || {
        query(database, "select id from session where title = ?1", title)
    })?;
    Ok(Run { started, native, id, database: database.to_owned() })
}

impl Run {
    fn pid(&self) -> u32 {
        self.native.pid
    }

    /// Waits until the model has the prompt and the record has the beginning of an answer.
    fn asked(&self, stage: &Stage, word: &str) -> Result<(), Trouble> {
        stage.until_asked(word, |r| !r.side && r.prompt.contains(word))?;
        recorded(stage, &self.database, &self.id, "\"assistant\"")
    }

    /// Waits until it is in the tool that never ends, by its processes and its record.
    fn in_tool(&self, stage: &Stage) -> Result<Held, Trouble> {
        let tool = stage.until_below(self.pid(), WORK)?;
        recorded(stage, &self.database, &self.id, TOOL_RUNS)?;
        Ok(tool)
    }

    fn signal(&self, signal: Signal) -> Result<(), Trouble> {
        self.native.signal(signal).map_err(|e| e.to_string())
    }

    fn ended(&mut self) -> Result<(), Trouble> {
        self.started.wait(PATIENCE).map(drop).map_err(|e| e.to_string())
    }

    fn running(&self) -> Claim {
        Claim::of(&self.id, "running").served_by(&[self.pid()]).hosted(false)
    }
}

fn ended(id: &str, outcome: &'static str) -> Claim {
    let status = if outcome == "failed" { "error" } else { "stopped" };
    Claim::of(id, status).ended(outcome).served_by(&[])
}

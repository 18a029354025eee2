//! The arguments of the tools. Their schemas are generated from these types.

use std::path::{Path, PathBuf};

use agentctl_core::adapters::control::Permissions;
use agentctl_core::ask::{Fleet, WorktreeRequest};
use agentctl_core::fleet::Query;
use agentctl_core::host::Host;
use agentctl_core::model::{Status, Time};
use agentctl_core::wait::Until;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::face::{NoBeginning, USUAL_HISTORY, beginning};
use crate::failure::{Failure, Kind};

/// The arguments of `list_sessions`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListSessions {
    /// Only sessions with one of these statuses.
    pub(super) status: Vec<Status>,
    /// Only sessions of this agent, for example `claude-code`, `codex` or `opencode`.
    pub(super) adapter: Option<String>,
    /// Only sessions in exactly this directory; `~/` begins with your home.
    pub(super) cwd: Option<String>,
    /// Only sessions of this group.
    pub(super) group: Option<String>,
    /// Add sessions that have ended.
    pub(super) all: bool,
    /// Ended sessions since then: a span such as `7d` or `12h`, a date, or `all`. The default is `7d`. Implies `all`.
    pub(super) since: Option<String>,
    /// Number of sessions at most: 1 to 200, default 50.
    #[schemars(range(min = 1, max = 200))]
    pub(super) limit: Option<usize>,
}

impl ListSessions {
    /// Says whether sessions that have ended are left out, although they may have been meant.
    pub(super) fn leaves_out_ended(&self) -> bool {
        !self.all && self.since.is_none() && self.status.is_empty()
    }

    /// Returns the query of `agentctl list` with the same options.
    pub(super) fn query(&self, fleet: &Fleet) -> Result<Query, Failure> {
        let ended = self.status.iter().any(|status| !status.is_live());
        let all = self.all || self.since.is_some() || ended;
        let since = self.since.as_deref().unwrap_or(USUAL_HISTORY);
        let since_ms = if all { since_time(fleet, since)?.map(Time::millis) } else { None };
        let adapter = self.adapter.as_deref().map(|name| adapter(fleet, name)).transpose()?;
        let cwd = self.cwd.as_deref().map(|cwd| {
            let path = named_directory(&fleet.host, cwd);
            std::fs::canonicalize(&path).unwrap_or(path).to_string_lossy().into_owned()
        });
        Ok(Query {
            all,
            since_ms,
            adapter,
            statuses: self.status.clone(),
            group: self.group.clone(),
            cwd,
            ..Query::default()
        })
    }
}

/// Returns the time since which groups of ended sessions are looked for: the usual one, or an earlier one of the query;
/// `None` for all time.
pub(super) fn groups_since_ms(fleet: &Fleet, query: &Query) -> Result<Option<i64>, Failure> {
    let usual = since_time(fleet, USUAL_HISTORY)?.map(Time::millis);
    Ok(if query.all { usual.min(query.since_ms) } else { usual })
}

/// Returns the directory that a request names: `~` is the home, anything else begins where this server runs.
pub(super) fn named_directory(host: &Host, text: &str) -> PathBuf {
    host.cwd.join(host.expanded(Path::new(text)))
}

fn since_time(fleet: &Fleet, text: &str) -> Result<Option<Time>, Failure> {
    beginning(fleet.host.now(), text).map_err(|NoBeginning| {
        let message = format!("`since`: `{text}` is neither a span nor a date nor a time");
        Failure::new(Kind::Usage, message).hint("write it like 30d, 12h, 2026-11-01, 16:00 or all")
    })
}

/// Returns the name of an adapter that a request names, also by an alias.
fn adapter(fleet: &Fleet, name: &str) -> Result<String, Failure> {
    if let Some(adapter) = fleet.adapter(name) {
        return Ok(adapter.name().to_owned());
    }
    let known: Vec<_> = fleet.adapters.iter().map(|adapter| adapter.name()).collect();
    let message = format!("there is no adapter `{name}`");
    Err(Failure::new(Kind::Usage, message).hint(format!("adapters: {}", known.join(", "))))
}

/// The arguments of `get_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetSession {
    /// The session: its id, at least 4 characters of it, its name, its pid, or `self` for your own session.
    pub(super) id: String,
}

/// The arguments of `read_log`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadLog {
    /// The session: its id, at least 4 characters of it, its name, its pid, or `self` for your own session.
    pub(super) id: String,
    /// Number of messages: 1 to 50, default 10.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    pub(super) last: Option<usize>,
    /// The value of `before` in an earlier result: the messages before that page.
    #[serde(default)]
    pub(super) before: Option<String>,
}

/// The condition of a wait.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WaitCondition {
    /// The turn is over. A session that waits for a human ends the wait without it (`end` = `blocked`).
    #[default]
    TurnOver,
    /// It works on a turn.
    Running,
    /// It waits for a human.
    Waiting,
    /// It is alive and its turn is over.
    Idle,
    /// No process serves it.
    Stopped,
    /// No process serves it and its last turn failed.
    Error,
}

impl From<WaitCondition> for Until {
    fn from(condition: WaitCondition) -> Self {
        match condition {
            WaitCondition::TurnOver => Self::TurnOver,
            WaitCondition::Running => Self::Status(Status::Running),
            WaitCondition::Waiting => Self::Status(Status::Waiting),
            WaitCondition::Idle => Self::Status(Status::Idle),
            WaitCondition::Stopped => Self::Status(Status::Stopped),
            WaitCondition::Error => Self::Status(Status::Error),
        }
    }
}

/// The arguments of `wait_for`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitFor {
    /// The sessions, 1 to 20.
    #[schemars(length(min = 1, max = 20))]
    pub(super) ids: Vec<String>,
    /// The condition; the default is `turn_over`.
    #[serde(default)]
    pub(super) until: WaitCondition,
    /// Wait for one of the sessions instead of all of them.
    #[serde(default)]
    pub(super) any: bool,
    /// How long to wait: 1 to 50 seconds, default 50. Call the tool again after `end` = `timed_out` to wait longer.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    pub(super) seconds: Option<u64>,
}

/// The arguments of `list_asks`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListAsks {
    /// Only the asks of this session.
    pub(super) session: Option<String>,
}

/// The permissions of a launched agent. It can never be allowed everything from here.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum LaunchPermissions {
    /// The agent's own default.
    Default,
    /// Files of its directory may be changed without asking.
    Edits,
}

impl From<LaunchPermissions> for Permissions {
    fn from(permissions: LaunchPermissions) -> Self {
        match permissions {
            LaunchPermissions::Default => Self::Default,
            LaunchPermissions::Edits => Self::Edits,
        }
    }
}

/// The arguments of `launch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LaunchAgent {
    /// The prompt: the task of the agent.
    pub(super) prompt: String,
    /// The agent, for example `claude-code` or `codex`; without it the configured one, else the first installed.
    #[serde(default)]
    pub(super) adapter: Option<String>,
    /// The directory in which it works; `~/` begins with your home. Without it the directory of this server.
    #[serde(default)]
    pub(super) cwd: Option<String>,
    /// A name for the session.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// A group for the session.
    #[serde(default)]
    pub(super) group: Option<String>,
    /// The model, in the agent's own words.
    #[serde(default)]
    pub(super) model: Option<String>,
    /// The permissions of the agent.
    #[serde(default)]
    pub(super) permissions: Option<LaunchPermissions>,
    /// Let it work in a new git worktree of this name. An empty text makes a new name.
    #[serde(default)]
    pub(super) worktree: Option<String>,
    /// Let the agent ask a human, who answers with `agentctl answer`.
    #[serde(default)]
    pub(super) ask: bool,
    /// Let the agent stay when its turn is over, so that it takes messages.
    #[serde(default)]
    pub(super) keep: bool,
}

impl LaunchAgent {
    /// Returns the request for a worktree.
    pub(super) fn worktree(&self) -> Option<WorktreeRequest> {
        let name = self.worktree.clone()?;
        let name = Some(name).filter(|name| !name.is_empty());
        Some(WorktreeRequest { name, ..WorktreeRequest::default() })
    }
}

/// The arguments of `send`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendMessage {
    /// The session. A session that has ended is resumed.
    pub(super) id: String,
    /// The message.
    pub(super) text: String,
}

/// The arguments of `stop`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StopSessions {
    /// The sessions, 1 to 20.
    #[schemars(length(min = 1, max = 20))]
    pub(super) ids: Vec<String>,
}

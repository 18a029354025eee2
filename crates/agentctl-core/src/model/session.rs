//! One session, as every answer shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Exit, InternedName, Locator, Outcome, ProcId, Reason, ServingProcess, Status, Target, Time,
    word,
};

/// Tokens of distinct model messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Tokens {
    /// Fresh input tokens (neither read from nor written to a cache).
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// Adds another count to this one.
    pub fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }

    /// Returns the larger figure of each kind, of two counts of the same message.
    #[must_use]
    pub fn largest(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
        }
    }

    /// Returns by how much each figure is larger than in another count.
    #[must_use]
    pub fn growth_since(self, before: Self) -> Self {
        Self {
            input: self.input.saturating_sub(before.input),
            output: self.output.saturating_sub(before.output),
            cache_read: self.cache_read.saturating_sub(before.cache_read),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
        }
    }
}

/// One observation of a source, and its time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Evidence {
    /// The source: `adapter:file`, `kernel:pidfd`, …
    pub source: String,
    /// The observation.
    pub says: String,
    /// The time of the observation.
    pub at: Time,
}

/// The cause of a session's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndedByKind {
    /// A fuse stopped it.
    Fuse,
    /// `agentctl stop` or another interface stopped it.
    Stop,
    /// A signal of another program ended its process.
    Signal,
    /// Its process exited by itself.
    Itself,
    /// No source says it.
    Unknown,
}

/// The cause of the end of a session: a fuse, a stop, a signal, or the session itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct EndedBy {
    /// The cause.
    pub kind: EndedByKind,
    /// The cause in a few words: the fuse, the signal, the exit code.
    pub detail: Option<String>,
}

/// The agent that launched a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct LaunchedBy {
    /// Its adapter; null if its session was not known.
    pub adapter: Option<String>,
    /// Its session; null if it was not known.
    pub id: Option<String>,
    /// How many agents are above the launched session.
    pub depth: u32,
}

/// One session of one agent, or a live agent process that serves none yet (`id` is null).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Session {
    /// The agent's own session id.
    pub id: Option<String>,
    /// The adapter that found it.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The agent home (or gateway) it was found in.
    pub root: String,
    /// Only a process named this home, no setting of the user: nothing in it is resumed or executed.
    #[serde(default)]
    pub foreign_home: bool,
    /// A second native key, where the agent has one.
    pub native_key: Option<String>,
    /// Its status.
    pub status: Status,
    /// The detail of the status.
    pub reason: Option<Reason>,
    /// How it ended, once no process serves it.
    pub outcome: Option<Outcome>,
    /// The process that serves it.
    pub pid: Option<u32>,
    /// All processes that serve it.
    pub processes: Vec<ServingProcess>,
    /// The serving process is shared with other sessions: never signal it.
    pub hosted: bool,
    /// Its working directory.
    pub cwd: Option<String>,
    /// The model it last used.
    pub model: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// A name given by the user.
    pub name: Option<String>,
    /// The first prompt, shortened.
    pub prompt: Option<String>,
    /// When the session began.
    pub started_at: Option<Time>,
    /// The time of its newest entry.
    pub last_activity_at: Option<Time>,
    /// When it ended, if a source says so.
    pub ended_at: Option<Time>,
    /// How its process ended, if a source says so.
    pub exit: Option<Exit>,
    /// The cause of its end, once it has ended; null in `list`, which does not look for it.
    #[serde(default)]
    pub ended_by: Option<EndedBy>,
    /// Tokens of its distinct messages and its subagents'; null in `list` where that needs a whole-file read.
    pub tokens: Option<Tokens>,
    /// The agent's own cost figure, only when it is complete.
    pub cost_usd: Option<f64>,
    /// The launch group.
    pub group: Option<String>,
    /// The run that launched it.
    pub run: Option<String>,
    /// The agent that launched it; null if a person did, or it was not launched from here.
    #[serde(default)]
    pub launched_by: Option<LaunchedBy>,
    /// The session this one is a subagent of.
    pub parent: Option<String>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// The observations behind the status.
    pub evidence: Vec<Evidence>,
    /// The agent's own id of the open tool call. It tells two prompts with the same text apart. No part of
    /// the JSON.
    #[serde(skip)]
    pub open_call: Option<String>,
}

impl Session {
    /// Returns the time from its start to its end, or to its last activity, in milliseconds; to now if it is live.
    #[must_use]
    pub fn lifetime_ms(&self, now: Time) -> Option<u64> {
        let end =
            if self.status.is_live() { Some(now) } else { self.ended_at.or(self.last_activity_at) };
        u64::try_from(end?.millis() - self.started_at?.millis()).ok()
    }

    /// Says whether this process serves it.
    #[must_use]
    pub fn is_served_by(&self, process: &ProcId) -> bool {
        self.processes.iter().any(|serving| serving.id == *process)
    }

    /// Returns the identities of all processes that serve it.
    #[must_use]
    pub fn process_ids(&self) -> Vec<ProcId> {
        self.processes.iter().map(|serving| serving.id.clone()).collect()
    }

    /// Returns the target that names this session.
    #[must_use]
    pub fn target(&self) -> Target {
        let locator =
            |id: &String| Locator { id: id.clone(), path: None, parent: self.parent.clone() };
        Target {
            adapter: self.adapter,
            root: self.root.clone(),
            session: self.id.as_ref().map(locator),
            pid: self.id.is_none().then_some(self.pid).flatten(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_live_session_lasts_until_now_and_an_ended_one_until_its_end() {
        let time = |seconds: i64| Time::from_millis(seconds * 1000).expect("a time");
        let lifetime = |status: &str, ended: Option<Time>| {
            let session = json!({
                "id": "a", "adapter": "any", "root": "", "status": status, "processes": [],
                "hosted": false, "notes": [], "evidence": [], "started_at": time(10),
                "last_activity_at": time(10), "ended_at": ended,
            });
            let session: Session = serde_json::from_value(session).expect("a session");
            session.lifetime_ms(time(70))
        };
        for live in ["running", "waiting", "idle"] {
            assert_eq!(lifetime(live, None), Some(60_000), "{live}");
        }
        assert_eq!(lifetime("stopped", Some(time(12))), Some(2_000));
        assert_eq!(lifetime("stopped", None), Some(0));
    }
}

//! The types that all rooms share: sessions, statuses, evidence, faults, messages.
//!
//! These types *are* the JSON contract (`docs/schema/` is generated from them), so a field is added with
//! care and never renamed. Nothing here reads or decides anything.

mod callback;
mod fault;
mod message;
mod time;

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::callback::{CALLBACK_BYTES_LIMIT, Callback};
pub use self::fault::{Fault, FaultCode, HomeScope, Reach};
pub use self::message::{Message, Role, ToolCall, ToolResult};
pub use self::time::Time;

/// The version written into every JSON document we emit.
pub const SCHEMA_VERSION: u32 = 1;

/// The `adapter` in faults of this program's own files and of the process table.
pub const OWN_SOURCE: &str = "agentctl";

/// The identity of a process, which a recycled pid cannot match.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub struct ProcId {
    /// Process id in the observer's pid namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot (`/proc/<pid>/stat` field 22).
    pub start_ticks: u64,
    /// The pidfs inode: unique for the life of the system. Null on kernels without pidfs.
    pub inode: Option<u64>,
    /// The boot this process belongs to.
    pub boot_id: String,
}

/// How certain it is that a process serves a session.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// A record, lock, open file, protocol or environment of the agent's own process names the session.
    Proved,
    /// Only directory and start time match. Such a process is shown; no order acts on it.
    Inferred,
}

/// A process that serves a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ServingProcess {
    /// The process.
    #[serde(flatten)]
    pub id: ProcId,
    /// How certain it is that it serves this session.
    pub join: Join,
}

impl ServingProcess {
    /// Returns a process that is proved to serve its session.
    #[must_use]
    pub fn proved(id: ProcId) -> Self {
        Self { id, join: Join::Proved }
    }
}

/// The status of a session, as far as its sources say.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Alive, and blocked on a human.
    Waiting,
    /// A live process is working on a turn.
    Running,
    /// Alive, and the turn is over: the next prompt is the user's.
    Idle,
    /// The sources contradict each other, or the deciding one could not be read.
    Unknown,
    /// No process serves it and the last turn failed.
    Error,
    /// There is evidence that no process serves it.
    Stopped,
}

impl Status {
    /// Every status, in the order of lists.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Running, Self::Idle, Self::Unknown, Self::Error, Self::Stopped];

    /// Returns its name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
            Self::Error => "error",
            Self::Stopped => "stopped",
        }
    }

    /// Says whether a session in this status belongs to a list of live sessions.
    #[must_use]
    pub fn is_live(self) -> bool {
        !matches!(self, Self::Error | Self::Stopped)
    }
}

/// How a session's last turn ended, once no process serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The turn was completed.
    Finished,
    /// The turn ended in an error.
    Failed,
    /// A person interrupted it.
    Interrupted,
    /// Its process died in the middle of a turn.
    Killed,
    /// The record does not say.
    Unknown,
}

impl Outcome {
    /// Returns its name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Killed => "killed",
            Self::Unknown => "unknown",
        }
    }
}

/// The detail of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasonKind {
    /// `running`: not ready for a turn yet.
    Starting,
    /// `running`: a tool is running.
    Tool,
    /// `running`: the model call failed and is retried.
    Retrying,
    /// `running`: stopped by a signal (SIGSTOP).
    Paused,
    /// `running`: waiting for its turn in a queue.
    Queued,
    /// `running`: waiting for its subagents.
    Subagents,
    /// `waiting`: a tool needs permission.
    Permission,
    /// `waiting`: the agent asked a question.
    Question,
    /// `waiting`: a plan needs approval.
    Plan,
    /// `waiting`: the directory must be trusted first.
    Trust,
    /// `waiting`: a login is required.
    Login,
    /// `waiting`: a dialog is open.
    Dialog,
    /// `waiting`: a usage limit; `until` when known.
    Limit,
    /// `idle`: a background shell or subagent is still running.
    Background,
    /// `unknown`: more than one status fits.
    Ambiguous,
    /// `unknown`: the deciding source could not be read.
    Unreadable,
    /// `unknown`: the process is in another pid namespace or on another machine.
    Elsewhere,
    /// `error`: the agent's error message.
    Failure,
}

impl ReasonKind {
    /// Returns its name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Tool => "tool",
            Self::Retrying => "retrying",
            Self::Paused => "paused",
            Self::Queued => "queued",
            Self::Subagents => "subagents",
            Self::Permission => "permission",
            Self::Question => "question",
            Self::Plan => "plan",
            Self::Trust => "trust",
            Self::Login => "login",
            Self::Dialog => "dialog",
            Self::Limit => "limit",
            Self::Background => "background",
            Self::Ambiguous => "ambiguous",
            Self::Unreadable => "unreadable",
            Self::Elsewhere => "elsewhere",
            Self::Failure => "failure",
        }
    }
}

/// Why a session has the status it has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Reason {
    /// The kind of reason.
    pub kind: ReasonKind,
    /// A short detail: the tool and its command, the question, the error.
    pub detail: Option<String>,
    /// When it ends, if the agent says so.
    pub until: Option<Time>,
}

impl Reason {
    /// Returns a reason without detail.
    #[must_use]
    pub fn of(kind: ReasonKind) -> Self {
        Self { kind, detail: None, until: None }
    }

    /// Returns a reason with a detail.
    #[must_use]
    pub fn with(kind: ReasonKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: Some(detail.into()), until: None }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Exit {
    /// The exit code, when it exited.
    pub code: Option<i32>,
    /// The signal, when one killed it.
    pub signal: Option<i32>,
}

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
    /// Tokens of its distinct messages and its subagents'; null in `list` where that needs a whole-file read.
    pub tokens: Option<Tokens>,
    /// The agent's own cost figure, only when it is complete.
    pub cost_usd: Option<f64>,
    /// The launch group.
    pub group: Option<String>,
    /// The run that launched it.
    pub run: Option<String>,
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

/// The answer to `list`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Listing {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The sessions that were found.
    pub sessions: Vec<Session>,
    /// The sources that failed.
    pub faults: Vec<Fault>,
}

/// An adapter name: one of a small fixed set of strings.
pub type InternedName = &'static str;

/// Interns an adapter name as `&'static str`.
pub(crate) fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    interned(text).map_err(serde::de::Error::custom)
}

/// Interns a name as `&'static str`. Leaks each distinct string once; the number of strings is limited.
fn interned(text: Cow<'_, str>) -> Result<InternedName, &'static str> {
    use std::sync::{Mutex, PoisonError};
    static WORDS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    const NAMES_LIMIT: usize = 256;
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.iter().find(|known| **known == text) {
        return Ok(known);
    }
    if words.len() >= NAMES_LIMIT {
        return Err("too many different words");
    }
    let kept: &'static str = Box::leak(text.into_owned().into_boxed_str());
    words.push(kept);
    Ok(kept)
}

/// Interns an optional adapter name.
pub(crate) fn maybe_word<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<InternedName>, D::Error> {
    #[derive(Deserialize)]
    struct Held(#[serde(deserialize_with = "word")] InternedName);
    Ok(Option::<Held>::deserialize(from)?.map(|held| held.0))
}

/// The place of a session's record. Created by listing a store, never from an id that was typed.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub struct Locator {
    /// The session id.
    pub id: String,
    /// The file of the record, if there is one.
    pub path: Option<PathBuf>,
    /// The parent session, for a subagent.
    pub parent: Option<String>,
}

/// One session, or one live process without a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Target {
    /// Its adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// Its home.
    pub root: String,
    /// Its record; `None` for a process without a session.
    pub session: Option<Locator>,
    /// The pid, if the user typed one.
    pub pid: Option<u32>,
}

/// Says whether a text has the form of a session id.
#[must_use]
pub fn is_session_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=128).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Shortens a text to at most `most` characters on one line.
#[must_use]
pub fn shorten(text: &str, most: usize) -> String {
    // Most texts are short and on one line already.
    let plain = |b: &u8| matches!(b, b'!'..=b'~');
    if text.len() <= most
        && text
            .as_bytes()
            .split(|b| *b == b' ')
            .all(|word| !word.is_empty() && word.iter().all(plain))
    {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len().min(most * 4));
    let mut blank = false;
    for (count, c) in text.trim().chars().enumerate() {
        if count >= most {
            out.push('…');
            break;
        }
        if c.is_whitespace() {
            if !blank {
                out.push(' ');
            }
            blank = true;
        } else {
            out.push(c);
            blank = false;
        }
    }
    out
}

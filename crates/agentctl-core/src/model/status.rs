//! The status of a session: its words, their details, and how a turn ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;

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

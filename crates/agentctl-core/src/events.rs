//! Edges: what changed between two looks at ground truth.
//!
//! An event is computed by comparing, never by believing a notification: those only say when to look.

mod arrivals;
mod background;
pub mod edges;
mod left_homes;
mod lock_edges;
pub mod replay;
mod watcher;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::lock_edges::{LocksAndFuses, about_fuse};
pub use self::watcher::{Seen, Watcher};
use crate::fuses::Fuse;
use crate::locks::Lock;
use crate::model::{Ask, Callback, InternedName, SCHEMA_VERSION, Session, Time, maybe_word};
pub use crate::native::notifier::Notifier;

/// The kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum EventKind {
    /// A session is there that was not.
    #[serde(rename = "session.started")]
    Started,
    /// It works.
    #[serde(rename = "session.running")]
    Running,
    /// It needs a human.
    #[serde(rename = "session.waiting")]
    Waiting,
    /// Its turn is over.
    #[serde(rename = "session.idle")]
    Idle,
    /// No process serves it any more.
    #[serde(rename = "session.stopped")]
    Stopped,
    /// No process serves it any more, and its last turn failed.
    #[serde(rename = "session.error")]
    Error,
    /// Its status can no longer be determined.
    #[serde(rename = "session.unknown")]
    Unknown,
    /// A directory became occupied or locked.
    #[serde(rename = "lock.acquired")]
    LockAcquired,
    /// A directory is no longer occupied or locked.
    #[serde(rename = "lock.released")]
    LockReleased,
    /// A fuse was set.
    #[serde(rename = "fuse.set")]
    FuseSet,
    /// A fuse was extended.
    #[serde(rename = "fuse.extended")]
    FuseExtended,
    /// A fuse was cancelled.
    #[serde(rename = "fuse.cancelled")]
    FuseCancelled,
    /// A fuse expired.
    #[serde(rename = "fuse.expired")]
    FuseExpired,
    /// A session asks something that a human must answer.
    #[serde(rename = "ask.opened")]
    AskOpened,
    /// An ask is no longer open: it was answered, or its session went on or ended.
    #[serde(rename = "ask.settled")]
    AskSettled,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Started,
        Self::Running,
        Self::Waiting,
        Self::Idle,
        Self::Stopped,
        Self::Error,
        Self::Unknown,
        Self::LockAcquired,
        Self::LockReleased,
        Self::FuseSet,
        Self::FuseExtended,
        Self::FuseCancelled,
        Self::FuseExpired,
        Self::AskOpened,
        Self::AskSettled,
    ];

    /// Returns its name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "session.started",
            Self::Running => "session.running",
            Self::Waiting => "session.waiting",
            Self::Idle => "session.idle",
            Self::Stopped => "session.stopped",
            Self::Error => "session.error",
            Self::Unknown => "session.unknown",
            Self::LockAcquired => "lock.acquired",
            Self::LockReleased => "lock.released",
            Self::FuseSet => "fuse.set",
            Self::FuseExtended => "fuse.extended",
            Self::FuseCancelled => "fuse.cancelled",
            Self::FuseExpired => "fuse.expired",
            Self::AskOpened => "ask.opened",
            Self::AskSettled => "ask.settled",
        }
    }

    /// Reads such a word; `waiting` is short for `session.waiting`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let fits = |kind: &Self| {
            let whole = kind.word();
            whole == word || whole.strip_prefix("session.") == Some(word)
        };
        Self::ALL.into_iter().find(fits)
    }
}

/// One change of a session, a lock or a fuse.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Event {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Its id. A change that is reported twice has the same id both times.
    pub id: String,
    /// The kind of change.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// The adapter of the session concerned.
    #[serde(deserialize_with = "maybe_word")]
    pub adapter: Option<InternedName>,
    /// The session concerned.
    pub session_id: Option<String>,
    /// The time of the change if a source records it; otherwise the time at which it was noticed.
    pub at: Time,
    /// It happened while no daemon was running, and is reported late.
    pub late: bool,
    /// The launch by `agentctl` whose beginning or end this is; see `agentctl runs`.
    #[serde(default)]
    pub run: Option<String>,
    /// The session as it was at that time.
    pub session: Option<Session>,
    /// The lock and its holder, for `lock.*`.
    pub lock: Option<Lock>,
    /// The fuse, for `fuse.*`.
    pub fuse: Option<Fuse>,
    /// The ask, for `ask.*`; the first ask of the session, for `session.waiting`.
    #[serde(default)]
    pub ask: Option<Ask>,
    /// The session or agent that the launcher asked to notify.
    pub callback: Option<Callback>,
}

impl Event {
    /// Returns an event without a subject.
    #[must_use]
    pub fn new(kind: EventKind, id: String, at: Time) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            id,
            kind,
            adapter: None,
            session_id: None,
            at,
            late: false,
            run: None,
            session: None,
            lock: None,
            fuse: None,
            ask: None,
            callback: None,
        }
    }
}

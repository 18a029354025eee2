//! What is told about a stop: what ended, what lives on, and what became of the session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Inspected;
use crate::model::{Fault, ProcId, Session, Status, Word, word};
use crate::orders::Objection;

/// How a process came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It was asked to.
    Asked,
    /// It was killed.
    Killed,
    /// By itself, or by the agent that had started it.
    Itself,
}

/// A process that has ended.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Ended {
    /// Its pid.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// How it ended.
    pub how: How,
}

/// A process that lives on.
#[derive(Clone, Debug)]
pub struct Survivor {
    /// The process itself.
    pub id: ProcId,
    /// Its pid.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// Why it lives.
    pub why: String,
}

/// A session inside the stopped one that was left alone: it is one of its own.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Left {
    /// The process that serves it.
    pub pid: u32,
    /// Its adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: Word,
    /// Its id.
    pub session: Option<String>,
}

/// What became of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was ended, and the next look at it says so.
    Stopped,
    /// Nothing served it when we came.
    Already,
    /// Its turn is over; it rests in this shared server.
    Rests(u32),
    /// It would be unsafe, or it cannot be done from here; and what to do instead.
    Refused(String, Option<String>),
    /// Whether it lives cannot be told.
    Unknown(String),
    /// It lives on.
    Failed(String),
}

impl From<Objection> for Verdict {
    fn from(objection: Objection) -> Self {
        match objection {
            Objection::Refused { why, hint } => Self::Refused(why, hint),
            Objection::Unknown(why) => Self::Unknown(why),
        }
    }
}

/// What was done about one session.
#[derive(Debug)]
pub struct Report {
    /// What became of it.
    pub verdict: Verdict,
    /// The session as it was before.
    pub before: Option<Session>,
    /// The session as the last look showed it; `None` when nothing knows it any more.
    pub after: Option<Session>,
    /// What has ended: the agent first, then what it had started.
    pub ended: Vec<Ended>,
    /// What has not.
    pub survivors: Vec<Survivor>,
    /// Sessions inside it that were left alone.
    pub left: Vec<Left>,
    /// Why processes that left the agent cannot be seen: the shim of its run has died before the agent.
    pub lost_shim: Option<String>,
    /// What else is worth saying.
    pub notes: Vec<String>,
    /// What could not be asked on the way.
    pub faults: Vec<Fault>,
}

impl Report {
    /// Says whether no turn of the session was running before the stop.
    #[must_use]
    pub fn was_idle(&self) -> bool {
        self.before.as_ref().is_some_and(|session| session.status == Status::Idle)
    }

    pub(super) fn bare(verdict: Verdict, inspected: Inspected) -> Self {
        Self {
            verdict,
            before: inspected.session.clone(),
            after: inspected.session,
            ended: Vec::new(),
            survivors: Vec::new(),
            left: Vec::new(),
            lost_shim: None,
            notes: Vec::new(),
            faults: inspected.faults,
        }
    }
}

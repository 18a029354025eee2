//! The report of a stop: ended processes, surviving processes, and the final state of the session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Inspected;
use crate::model::{Fault, InternedName, ProcId, Session, Status, word};
use crate::orders::Objection;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// By a signal, command or request to end.
    Asked,
    /// By SIGKILL.
    Killed,
    /// Without a signal from here: by itself, or ended by the agent that had started it.
    Itself,
}

/// A process that has ended.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct EndedProcess {
    /// Its pid.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// How it ended.
    pub how: How,
}

/// A process that is still alive.
#[derive(Clone, Debug)]
pub struct Survivor {
    /// The process itself.
    pub id: ProcId,
    /// Its pid.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// Why it was not ended.
    pub why: String,
}

/// Another session inside the stopped one. It was not stopped.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Left {
    /// The process that serves it.
    pub pid: u32,
    /// Its adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// Its id.
    pub session: Option<String>,
}

/// The final state of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopVerdict {
    /// The session was stopped, and a new look confirms it.
    Stopped,
    /// No process served the session before the stop.
    Already,
    /// The turn is over; the session stays idle in this shared server process.
    Rests(u32),
    /// The stop would be unsafe or is not supported: the reason, and what to do instead.
    Refused(String, Option<String>),
    /// Whether the session is still served is unknown, for this reason.
    Unknown(String),
    /// The session is still served.
    Failed(String),
}

/// Why a session could not be stopped, as a stable code for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopFailureCode {
    /// The stop would be unsafe or is not supported.
    Refused,
    /// Whether the session is still served is unknown.
    Unknown,
    /// The session, or a process that it may have started, lives on.
    Failed,
}

impl From<Objection> for StopVerdict {
    fn from(objection: Objection) -> Self {
        match objection {
            Objection::Refused { why, hint } => Self::Refused(why, hint),
            Objection::Unknown(why) => Self::Unknown(why),
        }
    }
}

/// The result of a stop of one session.
#[derive(Debug)]
pub struct Report {
    /// The final state of the session.
    pub verdict: StopVerdict,
    /// The session before the stop.
    pub before: Option<Session>,
    /// The session as the last look showed it; `None` when no source lists it any more.
    pub after: Option<Session>,
    /// The ended processes: the agent first, then the processes it had started.
    pub ended: Vec<EndedProcess>,
    /// The processes that are still alive.
    pub survivors: Vec<Survivor>,
    /// Sessions that run inside this one and were not stopped.
    pub left: Vec<Left>,
    /// Why processes that left the agent cannot be found: the shim of the run died before the agent.
    pub lost_shim: Option<String>,
    /// Further remarks for the user.
    pub notes: Vec<String>,
    /// The sources that failed during the stop.
    pub faults: Vec<Fault>,
}

impl Report {
    /// Says whether no turn of the session was running before the stop.
    #[must_use]
    pub fn was_idle(&self) -> bool {
        self.before.as_ref().is_some_and(|session| session.status == Status::Idle)
    }

    /// Returns the pids of the ended processes that served the session before the stop.
    #[must_use]
    pub fn ended_agents(&self) -> Vec<u32> {
        let agents = self.before.as_ref().map(|session| session.processes.as_slice());
        let agents = agents.unwrap_or_default().iter().map(|process| process.id.pid);
        agents.filter(|pid| self.ended.iter().any(|ended| ended.pid == *pid)).collect()
    }

    pub(super) fn bare(verdict: StopVerdict, inspected: Inspected) -> Self {
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

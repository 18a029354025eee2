//! The process that answers, and whether it runs below an agent.
//!
//! An agent must not approve its own work, so an answer from below an agent is refused. The kernel is asked about
//! the caller: its ancestors, the shim of a run, and the marks that agents leave in the environment of the
//! processes they start. A mark counts only while the agent that it names is alive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::adapters::Look;
use crate::fleet::{self, Fleet, Query};
use crate::kernel::{Liveness, Process};
use crate::marks::{self, MARKER, Marker};
use crate::model::{InternedName, Session, word};

/// An agent above the answering process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct AnswererAbove {
    /// The process of the agent, its shim, or the process that carries its mark.
    pub pid: u32,
    /// The adapter and the session, where they are known.
    pub session: Option<AnswererSession>,
    /// How it is linked to the answering process.
    pub link: AnswererLink,
}

/// The session of an agent above the answering process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct AnswererSession {
    /// Its adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The agent's own session id.
    pub id: String,
}

/// How an agent is linked to the answering process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswererLink {
    /// An ancestor is an agent.
    Agent,
    /// An ancestor is the shim of a run.
    Shim,
    /// It carries the mark of a run whose agent lives.
    RunMark,
    /// It carries the mark that a live agent leaves on its processes.
    AgentMark,
}

impl AnswererLink {
    /// Returns it in a few words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "an agent",
            Self::Shim => "the shim of a run",
            Self::RunMark => "the mark of a run",
            Self::AgentMark => "the mark of an agent",
        }
    }
}

/// The process that answers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Answerer {
    /// Its pid.
    pub pid: u32,
    /// The agents that it runs below, nearest first.
    pub above: Vec<AnswererAbove>,
    /// The kernel did not show its ancestors, for this reason.
    pub unseen: Option<String>,
}

impl Answerer {
    /// Examines this process.
    #[must_use]
    pub fn this_process(fleet: &Fleet) -> Self {
        Self::of(fleet, std::process::id())
    }

    /// Examines a process of this machine.
    #[must_use]
    pub fn of(fleet: &Fleet, pid: u32) -> Self {
        let kernel = &fleet.host.kernel;
        let unseen = |why: String| Self { pid, above: Vec::new(), unseen: Some(why) };
        let process = match kernel.process(pid) {
            Ok(Some(process)) => process,
            Ok(None) => return unseen(format!("process {pid} has ended")),
            Err(error) => return unseen(error.to_string()),
        };
        let mut line = vec![process.clone()];
        line.extend(kernel.ancestors(&process));
        let sessions = live_sessions(fleet);
        let look = fleet::look(fleet, fleet.host.deadlines.live);
        let mut above = Vec::new();
        for (at, process) in line.iter().enumerate() {
            let found = serving(&sessions, process)
                .or_else(|| shim(process))
                .or_else(|| (at > 0).then(|| program(fleet, &look, process)).flatten())
                .or_else(|| marked(fleet, &sessions, process));
            above.extend(found.filter(|found| !above.contains(found)));
        }
        Self { pid, above, unseen: None }
    }

    /// Says whether this process may not answer the asks of a session.
    #[must_use]
    pub fn may_not_answer(&self, fleet: &Fleet, session: &Session) -> bool {
        self.may_not_answer_id(fleet, session.adapter, session.id.as_deref())
    }

    /// Says whether this process may not answer the asks of the session of this id.
    #[must_use]
    pub fn may_not_answer_id(&self, fleet: &Fleet, adapter: &str, id: Option<&str>) -> bool {
        if self.unseen.is_some() {
            return true;
        }
        if self.above.is_empty() {
            return false;
        }
        let Some(id) = id else { return true };
        let is_ours = |above: &AnswererAbove| match &above.session {
            Some(above) => above.adapter == adapter && above.id == id,
            // The session of this agent is not known: it may be the one that asks.
            None => true,
        };
        !fleet.host.agents_may_answer_others || self.above.iter().any(is_ours)
    }
}

/// Returns the live sessions, also those that rest in a server.
fn live_sessions(fleet: &Fleet) -> Vec<Session> {
    let query = Query { resting: true, ..Query::default() };
    fleet::list(fleet, &query).sessions
}

fn serving(sessions: &[Session], process: &Process) -> Option<AnswererAbove> {
    let session = sessions.iter().find(|session| session.is_served_by(&process.id))?;
    Some(AnswererAbove { pid: process.id.pid, session: key(session), link: AnswererLink::Agent })
}

/// The shim adopts every orphan of its agent, so it is above a process that left the agent's tree.
fn shim(process: &Process) -> Option<AnswererAbove> {
    marks::shim_of(process)?;
    Some(AnswererAbove { pid: process.id.pid, session: None, link: AnswererLink::Shim })
}

/// The program of an agent whose session could not be listed.
fn program(fleet: &Fleet, look: &Look, process: &Process) -> Option<AnswererAbove> {
    let adapter = fleet.adapters.iter().find(|adapter| adapter.is_own_program(look, process));
    adapter.map(|_| AnswererAbove { pid: process.id.pid, session: None, link: AnswererLink::Agent })
}

/// The mark of a living agent in the environment of a process.
fn marked(fleet: &Fleet, sessions: &[Session], process: &Process) -> Option<AnswererAbove> {
    let kernel = &fleet.host.kernel;
    let pid = process.id.pid;
    if let Ok(values) = kernel.environ(&process.id, &[MARKER])
        && let Some(marker) = values.first().and_then(|value| Marker::parse(value.as_deref()?))
        && lives(fleet, &marker)
    {
        let session = sessions.iter().find(|session| names(&marker, session));
        let session = session.and_then(key);
        return Some(AnswererAbove { pid, session, link: AnswererLink::RunMark });
    }
    for session in sessions {
        let control = fleet.adapter(session.adapter).and_then(|adapter| adapter.control());
        let marks = control.map(|control| control.marks(session)).unwrap_or_default();
        for mark in marks {
            let values = kernel.environ(&process.id, &[mark.name]).unwrap_or_default();
            if values.first().is_some_and(|value| value.as_ref() == Some(&mark.value)) {
                return Some(AnswererAbove {
                    pid,
                    session: key(session),
                    link: AnswererLink::AgentMark,
                });
            }
        }
    }
    None
}

fn lives(fleet: &Fleet, marker: &Marker) -> bool {
    let process = fleet.host.kernel.process(marker.pid).ok().flatten();
    process.is_some_and(|process| {
        marker.names(&process.id) && fleet.host.kernel.liveness(&process.id) != Liveness::Gone
    })
}

fn names(marker: &Marker, session: &Session) -> bool {
    session.processes.iter().any(|serving| marker.names(&serving.id))
}

fn key(session: &Session) -> Option<AnswererSession> {
    session.id.clone().map(|id| AnswererSession { adapter: session.adapter, id })
}

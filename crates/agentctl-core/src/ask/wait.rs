//! The question `wait`: block until sessions meet a condition, and the document that reports them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, NotOne, ResolvedTarget};
use crate::fleet::{self, Query};
use crate::kernel::Held;
use crate::model::{
    Ask, Fault, InternedName, Locator, SCHEMA_VERSION, Session, Status, Target, word,
};
use crate::runs::Runs;
use crate::wait::{Awaited, End, Progress, Quorum, Until, WaitOptions, WaitVerdict, wait};

/// The longest time for which the end of a wrapper is awaited.
const WRAPPER_TIMEOUT: Duration = Duration::from_secs(2);

/// The sessions to wait for, and the condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitRequest {
    /// The sessions. A session that is named twice is waited for once.
    pub targets: Vec<WaitTarget>,
    /// The condition that ends the wait for one session.
    #[serde(default)]
    pub until: Until,
    /// How many of the sessions must meet it.
    #[serde(default)]
    pub quorum: Quorum,
    /// The timeout of the whole wait in milliseconds; null waits without a limit.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Add the figures that need the whole record of a session, such as its tokens. This reads the records
    /// once more after the wait.
    #[serde(default)]
    pub figures: bool,
}

/// One session to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WaitTarget {
    /// A text that names the session, as a user types it.
    Text(String),
    /// The session with this id.
    Session {
        /// Its adapter.
        adapter: String,
        /// Its home.
        root: String,
        /// The agent's own session id.
        id: String,
    },
}

impl WaitTarget {
    /// Returns the text or id that names a target; `None` if it is neither a session nor a process.
    #[must_use]
    pub fn of(target: &Target) -> Option<Self> {
        match (&target.session, target.pid) {
            (Some(Locator { id, .. }), _) => Some(Self::Session {
                adapter: target.adapter.to_owned(),
                root: target.root.clone(),
                id: id.clone(),
            }),
            (None, pid) => Some(Self::Text(pid?.to_string())),
        }
    }
}

/// The answer to `wait --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WaitDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The sessions, in the order they were asked for, as they were last seen.
    pub sessions: Vec<Session>,
    /// The timeout passed before all (or, with `--any`, one) of them met the condition.
    pub timed_out: bool,
    /// How the wait ended.
    pub end: End,
    /// The verdict on each session, in the order they were asked for. A session that could not be looked at
    /// is here and not in `sessions`.
    pub verdicts: Vec<SessionVerdict>,
    /// The asks of the sessions that wait for a human, also where the wait ended for another reason.
    #[serde(default)]
    pub asks: Vec<Ask>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// How one session compares with the condition of a wait, when it was last seen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct SessionVerdict {
    /// Its adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The agent's own session id; null for a process without a session.
    pub id: Option<String>,
    /// The process that served it.
    pub pid: Option<u32>,
    /// Its status; null if it could not be looked at.
    pub status: Option<Status>,
    /// The verdict.
    pub verdict: WaitVerdict,
}

/// Why a wait did not take place.
#[derive(Debug)]
pub enum NotWaited {
    /// The request names no session.
    NoTarget,
    /// A text names no single session.
    NotOne {
        /// The text.
        text: String,
        /// The reason.
        why: NotOne,
    },
    /// The kernel refused to block until a wake-up.
    Io(std::io::Error),
}

impl Fleet {
    /// Waits for sessions, and then for the programs that only wrapped a launched agent. `tell` is called
    /// with the progress of the wait; sources that fail while the sessions are looked for are part of it.
    pub fn wait(
        &self,
        request: &WaitRequest,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<WaitDocument, NotWaited> {
        if request.targets.is_empty() {
            return Err(NotWaited::NoTarget);
        }
        let mut faults = Vec::new();
        let tell = &mut |progress: Progress<'_>| {
            if let Progress::Fault(fault) = progress {
                faults.push(fault.clone());
            }
            tell(progress);
        };
        let mut targets: Vec<Target> = Vec::new();
        for target in &request.targets {
            let target = self.wait_target(target, tell)?;
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        let timeout = request.timeout_ms.map(Duration::from_millis);
        let options = WaitOptions { until: request.until, quorum: request.quorum, timeout };
        let waited = wait(self, &targets, options, tell).map_err(NotWaited::Io)?;
        for session in waited.sessions.iter().filter_map(|awaited| awaited.session.as_ref()) {
            self.await_wrapper(session);
        }
        let verdicts = waited.sessions.iter().map(SessionVerdict::of).collect();
        let asks = self.asks_of(&waited.sessions);
        let sessions = waited.sessions.into_iter().filter_map(|awaited| {
            if request.figures { self.with_figures(awaited) } else { awaited.session }
        });
        Ok(WaitDocument {
            schema_version: SCHEMA_VERSION,
            sessions: sessions.collect(),
            timed_out: waited.end == End::TimedOut,
            end: waited.end,
            verdicts,
            asks,
            faults,
        })
    }

    /// Returns the asks of the sessions that need a human.
    fn asks_of(&self, sessions: &[Awaited]) -> Vec<Ask> {
        let waiting: Vec<&Session> = sessions
            .iter()
            .filter_map(|awaited| awaited.session.as_ref())
            .filter(|session| session.status == Status::Waiting)
            .collect();
        if waiting.is_empty() {
            return Vec::new();
        }
        let found = fleet::asks(self, &Query::default()).rows;
        let is_meant = |session: &Session| waiting.iter().any(|w| w.target() == session.target());
        found.into_iter().filter(|row| is_meant(&row.session)).flat_map(|row| row.asks).collect()
    }

    /// Finds the session that a request for a wait names.
    pub fn wait_target(
        &self,
        target: &WaitTarget,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Target, NotWaited> {
        match target {
            WaitTarget::Text(text) => {
                let found = self.target(text);
                let ResolvedTarget { target, faults } =
                    found.map_err(|why| NotWaited::NotOne { text: text.clone(), why })?;
                for fault in &faults {
                    tell(Progress::Fault(fault));
                }
                Ok(target)
            }
            WaitTarget::Session { adapter, root, id } => {
                let known = self.adapter(adapter).ok_or_else(|| NotWaited::NotOne {
                    text: format!("{adapter}:{id}"),
                    why: NotOne::Nothing,
                })?;
                // The record is looked for by the id: a path is never taken from a request.
                let locator = Locator { id: id.clone(), path: None, parent: None };
                let (adapter, root) = (known.name(), root.clone());
                Ok(Target { adapter, root, session: Some(locator), pid: None })
            }
        }
    }

    /// Returns a session with the figures that need the whole record or the run, unless the session has
    /// changed since the wait ended.
    fn with_figures(&self, awaited: Awaited) -> Option<Session> {
        let session = awaited.session?;
        let same = |whole: &Session| {
            (whole.status, whole.outcome) == (session.status, session.outcome)
                && whole.last_activity_at == session.last_activity_at
        };
        let whole = self.inspect(&awaited.target).session;
        Some(whole.filter(same).unwrap_or(session))
    }

    /// Waits until the program that wrapped an ended agent has ended too. It keeps the directory occupied for
    /// a few moments longer than the agent, so the next launch there would be refused.
    fn await_wrapper(&self, session: &Session) {
        let over = session.run.as_ref().filter(|_| !session.status.is_live());
        let started = over.and_then(|run| Runs::of(&self.host).run(run).started());
        let wrapper = started.and_then(|s| self.host.kernel.hold(&s.process).ok().flatten());
        let _late = wrapper.map(|held| Held::wait_for_all(&[held], WRAPPER_TIMEOUT));
    }
}

impl SessionVerdict {
    fn of(awaited: &Awaited) -> Self {
        let (target, session) = (&awaited.target, awaited.session.as_ref());
        let id = target.session.as_ref().map(|locator| locator.id.clone());
        Self {
            adapter: target.adapter,
            id: session.and_then(|session| session.id.clone()).or(id),
            pid: session.and_then(|session| session.pid).or(target.pid),
            status: session.map(|session| session.status),
            verdict: awaited.verdict,
        }
    }
}

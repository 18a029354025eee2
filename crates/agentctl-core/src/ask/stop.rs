//! The order `stop`: end sessions and everything they have started, and the document that reports it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, NotOne, ResolvedTarget, UnresolvedText};
use crate::fleet::Query;
use crate::kernel::Liveness;
use crate::model::{
    EndedBy, Fault, InternedName, Outcome, SCHEMA_VERSION, Session, Status, Target, word,
};
use crate::runs;
use crate::stop::{
    self, EndedProcess, Left, Report, StopFailureCode, StopOptions, StopVerdict, Survivor,
};

/// The answer to `stop --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct StopDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The sessions that are stopped now.
    pub stopped: Vec<StoppedRow>,
    /// Processes of theirs that live on.
    pub survivors: Vec<SurvivorRow>,
    /// The sessions that could not be stopped.
    pub failed: Vec<FailedRow>,
    /// The launched agents without a session that were to be ended.
    pub runs: Vec<RunWithoutSessionRow>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// A session that is stopped now.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct StoppedRow {
    /// The agent's own session id; null for a process without a session.
    pub id: Option<String>,
    /// The adapter that found it.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The process that served it.
    pub pid: Option<u32>,
    /// The status after the stop; null when no source knows the session any more.
    pub status: Option<Status>,
    /// How its last turn ended.
    pub outcome: Option<Outcome>,
    /// There was nothing to stop: nothing served it, or no turn of it was running.
    pub already: bool,
    /// Its turn is over and it rests in this shared server, which serves others too.
    pub rests_in: Option<u32>,
    /// Every process that was ended: the agent first, then the processes that it had started.
    pub ended: Vec<EndedProcess>,
    /// The pids in `ended` of processes that served the session; it had started the others.
    pub agent_pids: Vec<u32>,
    /// Sessions inside it that were not stopped.
    pub left: Vec<Left>,
    /// Why processes that left the agent cannot be seen; absent where all can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
    /// Further remarks for the user.
    pub notes: Vec<String>,
}

impl StoppedRow {
    /// Says whether processes that left the agent may live on: they cannot be seen, and the agent ran until
    /// this stop.
    #[must_use]
    pub fn may_leave_processes(&self) -> bool {
        self.unseen.is_some() && !self.already && self.rests_in.is_none()
    }
}

/// A process that lives on after a stop.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SurvivorRow {
    /// Its pid.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// Why it lives.
    pub why: String,
    /// The session it belongs to, or may belong to.
    pub session: Option<String>,
}

/// A session that could not be stopped.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct FailedRow {
    /// The agent's own session id; null for a process without a session.
    pub id: Option<String>,
    /// The adapter that found it.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// A stable code for scripts.
    pub code: StopFailureCode,
    /// One sentence for the user.
    pub message: String,
    /// A hint for the user.
    pub hint: Option<String>,
    /// The process that serves it.
    pub pid: Option<u32>,
    /// Every process that was ended all the same.
    pub ended: Vec<EndedProcess>,
    /// Sessions inside it that were not stopped.
    pub left: Vec<Left>,
    /// Why processes that left the agent cannot be seen; absent where all can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
    /// Further remarks for the user.
    pub notes: Vec<String>,
}

/// A launched agent without a session that was to be ended.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RunWithoutSessionRow {
    /// The id of its run.
    pub run: String,
    /// Its process.
    pub pid: u32,
    /// Its process lives on.
    pub lives_on: bool,
}

/// The order to stop sessions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// The sessions to stop.
    pub select: StopSelection,
    /// How they are stopped.
    #[serde(default)]
    pub options: StopOptions,
}

/// The sessions that an order stops.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopSelection {
    /// The sessions that these texts name, and launched agents without a session by pid or run.
    Named(Vec<String>),
    /// Every live session that this query admits.
    Matching(Query),
}

/// A launched agent that serves no session that an adapter knows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct RunWithoutSession {
    /// The id of its run.
    pub run: String,
    /// Its process.
    pub pid: u32,
}

/// Everything that one order stops. A person may confirm it before it is carried out.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct StopTargets {
    /// The sessions.
    pub targets: Vec<Target>,
    /// The launched agents without a session.
    pub runs: Vec<RunWithoutSession>,
    /// The sessions as a query listed them, for the confirmation; empty where texts name the targets.
    pub sessions: Vec<Session>,
    /// A source that could not be listed may hide further sessions that the query admits.
    pub may_miss_sessions: bool,
    /// How they are stopped.
    pub options: StopOptions,
    /// The origin of the order, which is written into the run of each session; null for `agentctl stop`.
    #[serde(default)]
    pub ordered_by: Option<EndedBy>,
    /// The sources that could not be asked while the targets were looked for.
    pub faults: Vec<Fault>,
}

impl StopTargets {
    /// Says whether nothing is to be stopped, and every source was asked.
    #[must_use]
    pub fn finds_nothing(&self) -> bool {
        self.targets.is_empty() && self.runs.is_empty() && self.faults.is_empty()
    }
}

/// A report to the caller during a stop: a row of the document, as soon as it is known.
#[derive(Clone, Copy, Debug)]
pub enum StopNews<'a> {
    /// A launched agent without a session was ended, or lives on.
    Run(&'a RunWithoutSessionRow),
    /// A session is stopped now.
    Stopped(&'a StoppedRow),
    /// A session could not be stopped.
    Failed(&'a FailedRow),
}

impl Fleet {
    /// Finds everything that an order stops before any of it is touched, so that a typing error stops nothing.
    pub fn stop_targets(&self, request: &StopRequest) -> Result<StopTargets, UnresolvedText> {
        let found = match &request.select {
            StopSelection::Named(texts) => self.named_targets(texts)?,
            StopSelection::Matching(query) => self.matching_targets(query),
        };
        Ok(StopTargets { options: request.options, ..found })
    }

    fn named_targets(&self, texts: &[String]) -> Result<StopTargets, UnresolvedText> {
        let mut found = StopTargets::default();
        for text in texts {
            let unresolved = |why| UnresolvedText { text: text.clone(), why };
            match self.target(text) {
                Ok(ResolvedTarget { target, faults }) => {
                    if !found.targets.contains(&target) {
                        found.targets.push(target);
                    }
                    found.faults.extend(faults);
                }
                Err(NotOne::Nothing) => match self.run_without_session(text) {
                    Some(run) => found.runs.push(run),
                    None => return Err(unresolved(NotOne::Nothing)),
                },
                Err(not_one) => return Err(unresolved(not_one)),
            }
        }
        Ok(found)
    }

    fn matching_targets(&self, query: &Query) -> StopTargets {
        let listing = self.list(query);
        StopTargets {
            targets: listing.sessions.iter().map(Session::target).collect(),
            sessions: listing.sessions,
            may_miss_sessions: !listing.faults.is_empty(),
            faults: listing.faults,
            ..StopTargets::default()
        }
    }

    /// Finds a launched agent by its pid or the id of its run.
    fn run_without_session(&self, text: &str) -> Option<RunWithoutSession> {
        let named = |pid: u32, run: &str| pid.to_string() == text || run == text;
        let mut agents = runs::agents(&self.host);
        let (process, marker) = agents.find(|(p, m)| named(p.id.pid, &m.run))?;
        Some(RunWithoutSession { run: marker.run, pid: process.id.pid })
    }

    /// Stops all targets, one after the other. `tell` is called after each of them; the document holds all
    /// that it was told.
    pub fn stop(&self, targets: &StopTargets, tell: &mut dyn FnMut(StopNews<'_>)) -> StopDocument {
        let (runs, mut survivors) = self.end_runs(&targets.runs);
        for row in &runs {
            tell(StopNews::Run(row));
        }
        let mut document = StopDocument {
            schema_version: SCHEMA_VERSION,
            stopped: Vec::new(),
            survivors: Vec::new(),
            failed: Vec::new(),
            runs,
            faults: targets.faults.clone(),
        };
        for target in &targets.targets {
            let mut report = match &targets.ordered_by {
                Some(ordered_by) => stop::stop_for(self, target, targets.options, ordered_by),
                None => stop::stop(self, target, targets.options),
            };
            document.faults.append(&mut report.faults);
            let id = target.session.as_ref().map(|locator| locator.id.clone());
            survivors.extend(report.survivors.drain(..).map(|survivor| (id.clone(), survivor)));
            document.add(target, report, tell);
        }
        // A later stop may have ended a process that an earlier stop left alive.
        survivors.retain(|(_, s)| self.host.kernel.liveness(&s.id) != Liveness::Gone);
        survivors.sort_by_key(|(_, s)| s.pid);
        survivors.dedup_by_key(|(_, s)| s.pid);
        document.survivors = survivors.into_iter().map(SurvivorRow::of).collect();
        document.faults.sort();
        document.faults.dedup();
        document
    }

    /// Ends launched agents without a session; returns a row for each, and their processes that live on.
    fn end_runs(&self, runs: &[RunWithoutSession]) -> (Vec<RunWithoutSessionRow>, Vec<Surviving>) {
        let end = |run: &RunWithoutSession| stop::end_run(self, &run.run).survivors;
        let survivors = runs.iter().flat_map(end).map(|survivor| (None, survivor)).collect();
        let left: Vec<String> = runs::agents(&self.host).map(|(_, marker)| marker.run).collect();
        let row = |RunWithoutSession { run, pid }: &RunWithoutSession| RunWithoutSessionRow {
            run: run.clone(),
            pid: *pid,
            lives_on: left.contains(run),
        };
        (runs.iter().map(row).collect(), survivors)
    }
}

/// A process that lives on, and the session it may belong to.
type Surviving = (Option<String>, Survivor);

impl SurvivorRow {
    fn of((session, survivor): Surviving) -> Self {
        let Survivor { pid, command, why, .. } = survivor;
        Self { pid, command, why, session }
    }
}

impl StopDocument {
    /// Tells the row of a session, and adds it.
    fn add(&mut self, target: &Target, report: Report, tell: &mut dyn FnMut(StopNews<'_>)) {
        let id = target.session.as_ref().map(|locator| locator.id.clone());
        let served_by = report.before.as_ref().and_then(|session| session.pid);
        let pid = target.pid.filter(|_| id.is_none()).or(served_by);
        let (adapter, agent_pids, was_idle) =
            (target.adapter, report.ended_agents(), report.was_idle());
        let Report { verdict, after, ended, left, lost_shim: unseen, notes, .. } = report;
        let (code, message, hint) = match verdict {
            StopVerdict::Stopped | StopVerdict::Already | StopVerdict::Rests(_) => {
                let (already, rests_in) = match verdict {
                    StopVerdict::Rests(server) => (was_idle, Some(server)),
                    verdict => (verdict == StopVerdict::Already, None),
                };
                let (status, outcome) =
                    (after.as_ref().map(|s| s.status), after.and_then(|s| s.outcome));
                let row = StoppedRow {
                    id,
                    adapter,
                    pid,
                    status,
                    outcome,
                    already,
                    rests_in,
                    ended,
                    agent_pids,
                    left,
                    unseen,
                    notes,
                };
                tell(StopNews::Stopped(&row));
                return self.stopped.push(row);
            }
            StopVerdict::Refused(why, hint) => (StopFailureCode::Refused, why, hint),
            StopVerdict::Unknown(why) => (StopFailureCode::Unknown, why, None),
            StopVerdict::Failed(why) => (StopFailureCode::Failed, why, None),
        };
        let row = FailedRow { id, adapter, code, message, hint, pid, ended, left, unseen, notes };
        tell(StopNews::Failed(&row));
        self.failed.push(row);
    }
}

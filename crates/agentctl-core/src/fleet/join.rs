//! The evidence for a verdict: the processes and live records of one home, joined with the sessions that
//! they name.
//!
//! Absence needs proof: a complete view of this user's processes and of the home's live records, and no
//! unjoined process that could serve the session. Age proves nothing. The status is decided in
//! `verdict.rs`.

use std::collections::HashMap;

use super::verdict;
use crate::adapters::{Found, Look, Record, Root, Served};
use crate::model::{
    Evidence, Join, Locator, ProcId, Reason, ReasonKind, ServingProcess, Session, Time, shorten,
};

/// Tolerance when a process start time is compared with the time of a record: start times have a resolution
/// of 10 ms, and the clocks they are derived from differ slightly.
const START_TOLERANCE_MS: i64 = 20;

/// The live processes and live records of one home, as one look showed them.
#[derive(Debug)]
pub struct View {
    adapter: &'static str,
    root: String,
    /// No setting of the user names the home.
    foreign: bool,
    now: Time,
    served: HashMap<String, Vec<Served>>,
    unjoined: Vec<Served>,
    /// The gaps of this look. With a gap, a missing process proves nothing.
    gaps: Vec<String>,
    /// The process table itself has gaps.
    table_gaps: bool,
}

impl View {
    /// Groups the claims of a look by session.
    #[must_use]
    pub fn new(adapter: &'static str, root: &Root, look: &Look, live: Found<Served>) -> Self {
        let mut gaps = look.table.gaps.clone();
        if !live.whole {
            gaps.extend(live.faults.iter().map(|f| f.message.clone()));
            if gaps.is_empty() {
                gaps.push("not every live record was seen".into());
            }
        }
        let mut served: HashMap<String, Vec<Served>> = HashMap::new();
        let mut unjoined = Vec::new();
        for claim in live.rows {
            match &claim.id {
                Some(id) => served.entry(id.clone()).or_default().push(claim),
                None => unjoined.push(claim),
            }
        }
        Self {
            adapter,
            root: root.label(),
            foreign: !root.is_known(),
            now: look.now,
            served,
            unjoined,
            gaps,
            table_gaps: !look.table.gaps.is_empty(),
        }
    }

    /// Returns the ids of all served sessions, sorted.
    #[must_use]
    pub fn served_ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.served.keys().cloned().collect();
        ids.sort();
        ids
    }

    /// Says whether a live source names this session.
    #[must_use]
    pub fn serves(&self, id: &str) -> bool {
        self.served.contains_key(id)
    }

    /// Returns what is claimed about this session.
    pub(super) fn claims(&self, id: &str) -> &[Served] {
        self.served.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns the session that the process with this pid serves.
    pub(super) fn served_by(&self, pid: u32) -> Option<&str> {
        let mut claims = self.served.values().flatten();
        claims.find(|claim| claim.by.iter().any(|p| p.pid == pid))?.id.as_deref()
    }

    /// Returns the processes that serve no known session.
    pub fn unjoined(&self) -> impl Iterator<Item = &Served> {
        self.unjoined.iter()
    }

    /// Returns the start time of the oldest unjoined process that may serve a session.
    #[must_use]
    pub fn oldest_unjoined_ms(&self) -> Option<i64> {
        let may = self.unjoined.iter().filter(|s| s.may_serve);
        may.map(|s| s.started_at.map_or(0, |t| t.millis() - START_TOLERANCE_MS)).min()
    }

    /// Says whether a process without a record may be the one that serves this unserved session.
    #[must_use]
    pub fn may_serve(&self, process: &Served, session: &Session) -> bool {
        let id = session.id.as_deref().unwrap_or_default();
        !self.served.contains_key(id)
            && could_serve(process, session.cwd.as_deref(), session.last_activity_at)
    }

    /// Returns a session of this home of which only the id is known, or a process without a session.
    pub(super) fn blank(&self, id: Option<&str>) -> Session {
        let mut session = verdict::blank_session(self.adapter, self.root.clone());
        session.id = id.map(str::to_owned);
        session.foreign_home = self.foreign;
        if self.foreign {
            session.notes.push(format!("home {} is named only by its process", self.root));
        }
        session
    }

    /// Adds the processes of these claims, and what else the claims say about the session.
    pub(super) fn apply_processes(&self, session: &mut Session, claims: &[Served]) {
        for claim in claims {
            let serving = |id: &ProcId| ServingProcess { id: id.clone(), join: claim.join };
            session.processes.extend(claim.by.iter().map(serving));
            session.hosted |= claim.hosted;
            // The directory of the agent's live record is newer than that of the session file.
            let said = claim.cwd.clone().or(session.cwd.take());
            session.cwd = said.or_else(|| claim.stands_in.clone());
            session.name = claim.name.clone().or(session.name.take());
            session.started_at = session.started_at.or(claim.started_at);
            session.evidence.extend(claim.evidence.iter().cloned());
        }
        // A proved join sorts before an inferred one of the same process and is the one that is kept.
        session.processes.sort_by_key(|p| (p.id.pid, p.join));
        session.processes.dedup_by(|later, kept| later.id == kept.id);
        for ServingProcess { id: process, join } in &session.processes {
            if *join == Join::Inferred {
                session.notes.push(format!(
                    "pid {} is joined to this session by its directory and start time only",
                    process.pid
                ));
            }
            let source = "kernel:pidfd".to_owned();
            let says = format!(
                "pid {} lives and has not been recycled (it began at tick {})",
                process.pid, process.start_ticks
            );
            session.evidence.push(Evidence { source, says, at: self.now });
        }
        session.pid = session.processes.first().map(|p| p.id.pid);
        if session.processes.len() > 1 {
            let pids: Vec<String> =
                session.processes.iter().map(|p| p.id.pid.to_string()).collect();
            session.notes.push(format!(
                "{} processes run this session: {}",
                pids.len(),
                pids.join(", ")
            ));
        }
    }

    /// Returns the evidence that no process serves this session, and the doubt if absence is not proved.
    pub(super) fn absence(&self, session: &Session) -> (Evidence, Option<Reason>) {
        let doubt = self.doubt(session.cwd.as_deref(), session.last_activity_at);
        let table = "kernel:process table".to_owned();
        let (source, says) = match &doubt {
            // The evidence names the source that failed, not the source that answered.
            Some(_) if !self.table_gaps && !self.gaps.is_empty() => (
                format!("{}:{}", self.adapter, self.root),
                "not every process could be checked".to_owned(),
            ),
            Some(_) => (table, "not every process could be checked".to_owned()),
            None => {
                let unjoined = self.unjoined.len();
                let says = format!(
                    "no live process runs it (every process of this user was looked at; \
                     {unjoined} of its agent without a session)"
                );
                (table, says)
            }
        };
        (Evidence { source, says, at: self.now }, doubt)
    }

    /// Returns why it cannot be said that no process serves this session, if so.
    fn doubt(&self, cwd: Option<&str>, last_activity: Option<Time>) -> Option<Reason> {
        if let Some(gap) = self.gaps.first() {
            return Some(Reason::with(ReasonKind::Unreadable, gap.clone()));
        }
        let suspects: Vec<String> = self
            .unjoined
            .iter()
            .filter(|s| could_serve(s, cwd, last_activity) || may_have_resumed(s, cwd))
            .flat_map(|s| s.by.iter().map(|p| p.pid.to_string()))
            .collect();
        (!suspects.is_empty())
            .then(|| Reason::with(ReasonKind::Ambiguous, format!("pid {}", suspects.join(", "))))
    }
}

fn could_serve(process: &Served, cwd: Option<&str>, last_activity: Option<Time>) -> bool {
    process.may_serve
        && (cwd.is_none() || process.directory().is_none() || process.directory() == cwd)
        && match (process.started_at, last_activity) {
            (Some(start), Some(last)) => last.millis() + START_TOLERANCE_MS >= start.millis(),
            _ => true,
        }
}

/// Says whether a process may have a session of this directory open that it has not written to.
fn may_have_resumed(process: &Served, cwd: Option<&str>) -> bool {
    process.may_have_resumed && process.directory().is_some() && process.directory() == cwd
}

/// Returns what the record says about a session, without a verdict.
pub(super) fn described(view: &View, locator: &Locator, record: Record) -> Session {
    let mut session = view.blank(Some(&locator.id));
    if record.foreign && !session.foreign_home {
        session.notes.push("the folder that it is kept in is named only by its process".into());
    }
    session.native_key = record.native_key;
    session.title = record.title.or_else(|| record.prompt.as_deref().map(|p| shorten(p, 80)));
    session.cwd = record.cwd;
    session.model = record.model;
    session.name = record.name;
    session.prompt = record.prompt;
    session.started_at = record.started_at;
    session.last_activity_at = record.last_activity_at;
    session.ended_at = record.ended_at;
    session.exit = record.exit;
    session.tokens = record.tokens;
    session.cost_usd = record.cost_usd;
    session.parent = record.parent.or_else(|| locator.parent.clone());
    session.notes.extend(record.notes);
    session.evidence = record.evidence;
    session.open_call = record.open_call;
    session
}

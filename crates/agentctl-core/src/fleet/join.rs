//! The verdict: what a session's record says, joined with who serves it.
//!
//! The one place where a status is decided. "Nobody serves it" is a claim that needs proof: a whole
//! view of this user's processes and of the home's live records, and no process left over that could
//! be serving it. Nothing here is inferred from age.

use std::collections::HashMap;

use crate::adapters::{Found, Look, Record, Root, Served, State, Turn};
use crate::model::{
    Evidence, Join, Locator, Outcome, ProcId, Reason, ReasonKind, ServingProcess, Session, Status,
    Time, shorten,
};

/// A process's start time has a grain of 10 ms, and the clocks it is reckoned from differ a little.
const START_GRAIN_MS: i64 = 20;

/// The living of one home, as one look showed them.
#[derive(Debug)]
pub struct View {
    adapter: &'static str,
    root: String,
    /// No setting of the user names the home.
    foreign: bool,
    now: Time,
    served: HashMap<String, Vec<Served>>,
    unjoined: Vec<Served>,
    /// Why absence proves nothing in this look.
    gaps: Vec<String>,
    /// The process table itself has gaps.
    table_gaps: bool,
}

impl View {
    /// Sorts what a look found by the session it concerns.
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

    /// Returns the ids of all sessions somebody serves, sorted.
    #[must_use]
    pub fn served_ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.served.keys().cloned().collect();
        ids.sort();
        ids
    }

    /// Says whether somebody serves this session.
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

    /// Returns when the oldest process began that may serve a session we cannot name.
    #[must_use]
    pub fn oldest_unjoined_ms(&self) -> Option<i64> {
        let may = self.unjoined.iter().filter(|s| s.may_serve);
        may.map(|s| s.started_at.map_or(0, |t| t.millis() - START_GRAIN_MS)).min()
    }

    /// Says whether a process without a record may be the one that serves this unserved session.
    #[must_use]
    pub fn may_serve(&self, process: &Served, session: &Session) -> bool {
        let id = session.id.as_deref().unwrap_or_default();
        !self.served.contains_key(id)
            && could_serve(process, session.cwd.as_deref(), session.last_activity_at)
    }

    /// Returns the row of a live process that serves no session yet, or one of these.
    #[must_use]
    pub fn process_row(&self, served: &Served, may_serve: &[&str]) -> Session {
        let mut session = self.blank(None);
        self.apply_processes(&mut session, std::slice::from_ref(served));
        let state = served.state.clone();
        let State { status, reason } = match may_serve {
            [] => match state {
                Some(State { status, .. }) if !status.is_live() => contradiction(status),
                Some(state) => state,
                None => State { status: Status::Unknown, reason: None },
            },
            ids => {
                let why = format!("it has no record and may be serving {}", ids.join(", "));
                let reason = Some(Reason::with(ReasonKind::Ambiguous, why));
                State { status: Status::Unknown, reason }
            }
        };
        (session.status, session.reason) = (status, reason);
        session.started_at = served.started_at;
        session
    }

    fn blank(&self, id: Option<&str>) -> Session {
        let mut session = Session {
            id: id.map(str::to_owned),
            adapter: self.adapter,
            root: self.root.clone(),
            foreign_home: self.foreign,
            native_key: None,
            status: Status::Unknown,
            reason: None,
            outcome: None,
            pid: None,
            processes: Vec::new(),
            hosted: false,
            cwd: None,
            model: None,
            title: None,
            name: None,
            prompt: None,
            started_at: None,
            last_activity_at: None,
            ended_at: None,
            exit: None,
            tokens: None,
            cost_usd: None,
            group: None,
            run: None,
            parent: None,
            notes: Vec::new(),
            evidence: Vec::new(),
            open_call: None,
        };
        if self.foreign {
            session.notes.push(format!("home {} is named only by its process", self.root));
        }
        session
    }

    fn apply_processes(&self, session: &mut Session, claims: &[Served]) {
        for claim in claims {
            let serving = |id: &ProcId| ServingProcess { id: id.clone(), join: claim.join };
            session.processes.extend(claim.by.iter().map(serving));
            session.hosted |= claim.hosted;
            // Where the vendor's live record says it works now counts before an older line.
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
                "{} processes serve this session: {}",
                pids.len(),
                pids.join(", ")
            ));
        }
    }

    /// Returns what stands in the way of saying that nobody serves this session.
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
            (Some(start), Some(last)) => last.millis() + START_GRAIN_MS >= start.millis(),
            _ => true,
        }
}

/// Says whether a process may have a session of this directory open that it has not written to.
fn may_have_resumed(process: &Served, cwd: Option<&str>) -> bool {
    process.may_have_resumed && process.directory().is_some() && process.directory() == cwd
}

/// Decides about one session: the only function that does.
#[must_use]
pub fn join(view: &View, locator: &Locator, record: Record, open_child: Option<&Turn>) -> Session {
    let turn = record.turn.clone();
    let newest = record.turn_ended_at.or(record.last_activity_at);
    let mut session = described(view, locator, record);
    match view.served.get(&locator.id) {
        Some(claims) => {
            (session.status, session.reason) = served_verdict(claims, &turn, open_child);
            if session.status == Status::Idle
                && claims.iter().any(|c| awaits_prompt(c, &turn, newest))
            {
                session.status = Status::Running;
                session.reason = Some(Reason::of(ReasonKind::Starting));
            }
            if let (Turn::Open { doubt: Some(doubt), .. }, Status::Running) =
                (&turn, session.status)
                && claims.iter().all(|c| c.state.is_none())
            {
                session.notes.push((*doubt).to_owned());
            }
            view.apply_processes(&mut session, claims);
            if session.status.is_live() {
                (session.ended_at, session.exit) = (None, None);
            }
            if session.processes.is_empty() && session.status != Status::Unknown {
                session.outcome = claims.iter().find_map(|c| c.outcome);
            }
        }
        None => unserved_verdict(view, &mut session, &turn),
    }
    session
}

/// Says whether a process that was started for one prompt has not begun its turn: its record has no turn, or
/// its newest turn ended before the process started. Such a process is starting, not idle.
fn awaits_prompt(claim: &Served, turn: &Turn, newest: Option<Time>) -> bool {
    let is_older = || match (newest, claim.started_at) {
        (Some(newest), Some(start)) => newest < start,
        (newest, _) => newest.is_none(),
    };
    claim.single_prompt && (*turn == Turn::None || is_older())
}

/// Decides about a subagent: it lives in its parent's process, and only there.
#[must_use]
pub(super) fn child(view: &View, parent: &Session, locator: &Locator, record: Record) -> Session {
    let turn = record.turn.clone();
    if view.served.contains_key(&locator.id) {
        return join(view, locator, record, None);
    }
    // A subagent ends with the process that it began in.
    let lives = parent.status.is_live() && !record.left_behind;
    let mut session = described(view, locator, record);
    match (&turn, lives) {
        (Turn::Open { tool, .. }, true) if parent.status != Status::Unknown => {
            session.status = Status::Running;
            session.reason = tool.clone().map(|t| Reason::with(ReasonKind::Tool, t));
            session.pid = parent.pid;
            session.processes.clone_from(&parent.processes);
            session.hosted = true;
        }
        // Whether it still works is its parent's to tell, and its own record does not say that it ended.
        (Turn::Open { .. } | Turn::None | Turn::Undecided(_), true) => {
            let why = "its parent lives, and its record does not say that it ended";
            session.status = Status::Unknown;
            session.reason = match parent.status {
                Status::Unknown => parent.reason.clone(),
                _ => Some(Reason::with(ReasonKind::Ambiguous, why)),
            };
        }
        _ => ended_verdict(&mut session, &turn),
    }
    session
}

/// Says that the record moved while we looked and nobody could be seen moving it.
pub(super) fn changed_under_us(session: &mut Session) {
    session.status = Status::Unknown;
    session.outcome = None;
    session.reason =
        Some(Reason::with(ReasonKind::Ambiguous, "its record changed while we looked; ask again"));
}

fn described(view: &View, locator: &Locator, record: Record) -> Session {
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

fn served_verdict(
    claims: &[Served],
    turn: &Turn,
    open_child: Option<&Turn>,
) -> (Status, Option<Reason>) {
    // The most urgent claim speaks for a session that several processes serve.
    let claimed = claims.iter().filter_map(|c| c.state.as_ref()).min_by_key(|s| s.status);
    let lives = claims.iter().any(|c| !c.by.is_empty());
    if let Some(State { status, .. }) = claimed.filter(|s| lives && !s.status.is_live()) {
        let State { status, reason } = contradiction(*status);
        return (status, reason);
    }
    let (status, reason) = match claimed {
        Some(State { status: Status::Running, reason: None }) => {
            let subagents = || open_child.map(|_| Reason::of(ReasonKind::Subagents));
            let waits = !matches!(turn, Turn::Open { .. });
            (Status::Running, working(turn).or_else(|| if waits { subagents() } else { None }))
        }
        Some(State { status: Status::Waiting, reason: Some(reason) })
            if reason.detail.is_none() =>
        {
            let open = if matches!(turn, Turn::Open { .. }) { Some(turn) } else { open_child };
            (Status::Waiting, Some(blocked_on(open.unwrap_or(turn), reason)))
        }
        Some(State { status: Status::Idle, reason: None }) if open_child.is_some() => {
            (Status::Idle, Some(Reason::with(ReasonKind::Background, "a subagent is at work")))
        }
        Some(state) => (state.status, state.reason.clone()),
        None => match turn {
            Turn::Open { asks: Some(reason), .. } => (Status::Waiting, Some(reason.clone())),
            Turn::Open { .. } => (Status::Running, working(turn)),
            Turn::None if !claims.iter().any(|c| c.unprompted) => {
                let why = "its record holds no turn, and nothing else says what its process does";
                (Status::Unknown, Some(Reason::with(ReasonKind::Unreadable, why)))
            }
            Turn::None | Turn::Finished | Turn::Failed(_) | Turn::Interrupted | Turn::Over(_) => {
                (Status::Idle, None)
            }
            Turn::Undecided(why) | Turn::Unreadable(why) => {
                (Status::Unknown, Some(Reason::with(ReasonKind::Unreadable, why.clone())))
            }
        },
    };
    let paused = claims.iter().any(|c| c.paused);
    match status {
        Status::Unknown => (status, reason),
        _ if paused => (
            Status::Running,
            Some(Reason::with(ReasonKind::Paused, "stopped by a signal (SIGSTOP)")),
        ),
        _ => (status, reason),
    }
}

/// The live source says that it is over, and the kernel that its process lives.
fn contradiction(claimed: Status) -> State {
    let why = format!("its live source says {}, yet its process lives", claimed.word());
    State { status: Status::Unknown, reason: Some(Reason::with(ReasonKind::Ambiguous, why)) }
}

/// The live source says that a human is needed; the open call says for what.
fn blocked_on(turn: &Turn, claimed: &Reason) -> Reason {
    match turn {
        Turn::Open { asks: Some(reason), .. } => reason.clone(),
        Turn::Open { tool: Some(tool), .. } => Reason::with(claimed.kind, tool.clone()),
        _ => claimed.clone(),
    }
}

fn working(turn: &Turn) -> Option<Reason> {
    match turn {
        Turn::Open { retrying: Some(why), .. } => {
            Some(Reason::with(ReasonKind::Retrying, why.clone()))
        }
        Turn::Open { tool: Some(tool), .. } => Some(Reason::with(ReasonKind::Tool, tool.clone())),
        _ => None,
    }
}

fn unserved_verdict(view: &View, session: &mut Session, turn: &Turn) {
    if let Some(doubt) = view.doubt(session.cwd.as_deref(), session.last_activity_at) {
        session.status = Status::Unknown;
        // Whoever could not be asked is named, not the one that answered.
        let silent = !view.table_gaps && !view.gaps.is_empty();
        let source = if silent {
            format!("{}:{}", view.adapter, view.root)
        } else {
            "kernel:process table".to_owned()
        };
        session.evidence.push(Evidence {
            source,
            says: "absence could not be proved".into(),
            at: view.now,
        });
        session.reason = Some(doubt);
        return;
    }
    session.evidence.push(Evidence {
        source: "kernel:process table".into(),
        says: format!(
            "no live process serves it (every process of this user was looked at; {} of its agent without a session)",
            view.unjoined.len()
        ),
        at: view.now,
    });
    ended_verdict(session, turn);
}

fn ended_verdict(session: &mut Session, turn: &Turn) {
    let (status, outcome, reason) = match turn {
        Turn::Finished => (Status::Stopped, Some(Outcome::Finished), None),
        Turn::Interrupted => (Status::Stopped, Some(Outcome::Interrupted), None),
        Turn::Open { .. } => (Status::Stopped, Some(Outcome::Killed), None),
        Turn::Failed(why) => {
            let why = Reason::with(ReasonKind::Failure, shorten(why, 300));
            (Status::Error, Some(Outcome::Failed), Some(why))
        }
        Turn::None => (Status::Stopped, Some(Outcome::Unknown), None),
        Turn::Over(why) | Turn::Undecided(why) => {
            session.notes.push(format!("how it ended is not known: {why}"));
            (Status::Stopped, Some(Outcome::Unknown), None)
        }
        Turn::Unreadable(why) => {
            (Status::Unknown, None, Some(Reason::with(ReasonKind::Unreadable, why.clone())))
        }
    };
    (session.status, session.outcome, session.reason) = (status, outcome, reason);
}

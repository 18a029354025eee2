//! The verdict: every function that sets the status of a session.
//!
//! [`join`] decides from the record and the live claims; the others say what follows when a session has
//! disappeared, its process has exited, its launch is over, or no source could be asked. No other file sets
//! a status: a test (`status_writers.rs`) checks it. Nothing here reads a file or asks a process.

use super::join::{View, described};
use crate::adapters::{Record, Served, State, Turn};
use crate::model::{
    Evidence, InternedName, Locator, Outcome, Reason, ReasonKind, Session, Status, Time, shorten,
};
use crate::runs::RunEnd;

/// Returns a session of which only the adapter and the home are known; its status is unknown.
#[must_use]
pub fn blank_session(adapter: InternedName, root: String) -> Session {
    Session {
        id: None,
        adapter,
        root,
        foreign_home: false,
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
        ended_by: None,
        tokens: None,
        cost_usd: None,
        group: None,
        run: None,
        launched_by: None,
        parent: None,
        notes: Vec::new(),
        evidence: Vec::new(),
        open_call: None,
    }
}

/// Decides about one session from its record and the live claims about it. Every command gets its status
/// from here.
#[must_use]
pub fn join(view: &View, locator: &Locator, record: Record, open_child: Option<&Turn>) -> Session {
    let turn = record.turn.clone();
    let newest = record.turn_ended_at.or(record.last_activity_at);
    let mut session = described(view, locator, record);
    match view.claims(&locator.id) {
        [] => unserved_verdict(view, &mut session, &turn),
        claims => {
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
    }
    session
}

/// Says whether a process that was started with a prompt has not begun its turn: its record has no turn, or its
/// newest turn ended before the process started. Such a process is starting, not idle.
fn awaits_prompt(claim: &Served, turn: &Turn, newest: Option<Time>) -> bool {
    let is_older = || match (newest, claim.started_at) {
        (Some(newest), Some(start)) => newest < start,
        (newest, _) => newest.is_none(),
    };
    (claim.single_prompt || claim.first_prompt) && (*turn == Turn::None || is_older())
}

/// Decides about a subagent. Unless a live source names it, it lives in the process of its parent only.
#[must_use]
pub(super) fn child(view: &View, parent: &Session, locator: &Locator, record: Record) -> Session {
    let turn = record.turn.clone();
    if view.serves(&locator.id) {
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

/// Decides about a live process without a session of its own; `may_serve` are the sessions that it may be
/// serving.
#[must_use]
pub(super) fn process_row(view: &View, served: &Served, may_serve: &[&str]) -> Session {
    let mut session = view.blank(None);
    view.apply_processes(&mut session, std::slice::from_ref(served));
    let State { status, reason } = match (may_serve, served.state.clone()) {
        ([], Some(State { status, .. })) if !status.is_live() => contradiction(status),
        ([], Some(state)) => state,
        ([], None) => State { status: Status::Unknown, reason: None },
        (ids, _) => {
            let why = format!("it has no record and may be running {}", ids.join(", "));
            let reason = Some(Reason::with(ReasonKind::Ambiguous, why));
            State { status: Status::Unknown, reason }
        }
    };
    (session.status, session.reason) = (status, reason);
    session.started_at = served.started_at;
    session
}

/// Sets unknown: the record changed during the look, and no process was seen that changed it.
pub(super) fn changed_during_look(session: &mut Session) {
    session.status = Status::Unknown;
    session.outcome = None;
    session.reason =
        Some(Reason::with(ReasonKind::Ambiguous, "its record changed while we looked; ask again"));
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

/// Returns unknown: the live source says that the session is over, and the kernel that its process lives.
fn contradiction(claimed: Status) -> State {
    let why = format!("its live source says {}, yet its process lives", claimed.word());
    State { status: Status::Unknown, reason: Some(Reason::with(ReasonKind::Ambiguous, why)) }
}

/// Returns why a human is needed: the live source says that one is, the open call says for what.
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

/// Decides about a session that no live source names.
fn unserved_verdict(view: &View, session: &mut Session, turn: &Turn) {
    let (evidence, doubt) = view.absence(session);
    session.evidence.push(evidence);
    match doubt {
        Some(doubt) => (session.status, session.reason) = (Status::Unknown, Some(doubt)),
        None => ended_verdict(session, turn),
    }
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

/// Returns the session of a packed row with the status that was packed; the other fields are blank.
pub(super) fn packed_row(adapter: InternedName, status: Status) -> Session {
    Session { status, ..blank_session(adapter, String::new()) }
}

/// Sets unknown: the packed row of the session could not be unpacked.
pub(super) fn unreadable_row(session: &mut Session, why: String) {
    session.status = Status::Unknown;
    session.reason = Some(Reason::with(ReasonKind::Unreadable, why));
}

/// Returns the last known state of a session that its store no longer holds, as ended.
#[must_use]
pub fn forgotten(mut session: Session, at: Time) -> Session {
    let says = "there is no such session any more".to_owned();
    let source = format!("{}:{}", session.adapter, session.root);
    session.evidence = vec![Evidence { source, says, at }];
    over_without_outcome(&mut session);
    session
}

/// Returns the row of a process that exited without a session: the kernel proves its exit, no other source
/// knows it.
#[must_use]
pub fn exited(mut session: Session, at: Time) -> Session {
    let pid = session.pid.map_or_else(String::new, |pid| format!("pid {pid} "));
    let says = format!("{pid}has exited and had no session");
    session.evidence = vec![Evidence { source: "kernel:pidfd".into(), says, at }];
    over_without_outcome(&mut session);
    session
}

fn over_without_outcome(session: &mut Session) {
    (session.status, session.outcome, session.reason) =
        (Status::Stopped, Some(Outcome::Unknown), None);
    (session.pid, session.processes) = (None, Vec::new());
}

/// Returns the last known state of a session whose source could not be asked, as unknown.
#[must_use]
pub fn unasked(mut session: Session, why: &str, at: Time) -> Session {
    let source = format!("{}:{}", session.adapter, session.root);
    session.evidence = vec![Evidence { source, says: why.to_owned(), at }];
    session.status = Status::Unknown;
    session.reason = Some(Reason::with(ReasonKind::Unreadable, why));
    session
}

/// Returns the session of a look that could not decide, with the fields that the look before knew: only the
/// status is in doubt.
#[must_use]
pub fn undecided(before: &Session, now: Session) -> Session {
    let Session { status, reason, evidence, .. } = now;
    Session { status, reason, evidence, ..before.clone() }
}

/// Returns a launched session as it was when its launch began.
#[must_use]
pub fn as_launched(mut session: Session) -> Session {
    (session.status, session.outcome) = (Status::Running, None);
    session.reason = Some(Reason::of(ReasonKind::Starting));
    (session.pid, session.processes) = (None, Vec::new());
    (session.exit, session.ended_at) = (None, None);
    session.evidence = Vec::new();
    session
}

/// Returns a launched session as it was when its launch ended. `launched` is the session with the fields of
/// its run, `seen` the session as a look showed it. If another process continued the session since, only
/// what the run itself says counts.
#[must_use]
pub fn as_run_ended(launched: &Session, seen: Option<Session>, ended: &RunEnd) -> Session {
    let untouched = seen.filter(|session| {
        !session.status.is_live() && session.last_activity_at.is_none_or(|last| last <= ended.at)
    });
    let mut session = match untouched {
        Some(session) => Session { name: launched.name.clone(), ..session },
        None => {
            let mut session = launched.clone();
            over_without_outcome(&mut session);
            session
        }
    };
    (session.run, session.group) = (launched.run.clone(), launched.group.clone());
    (session.exit, session.ended_at) = (Some(ended.exit), Some(ended.at));
    session
}

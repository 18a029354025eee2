//! Waiting for sessions: a loop of look, decide, register wake-ups, block until a wake-up.
//!
//! Exits, file events and messages of servers say when to look again; only a look decides. The set of
//! watched objects depends on the last look, so a look that adds an object to it is followed by another
//! look before the thread blocks. Names no agent.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::{self, Fleet, Observed, inspect_watched};
use crate::host::Host;
use crate::model::{Fault, Outcome, ProcId, Reason, Session, Status, Target};
use crate::wakeups::{LOOKS_BEFORE_A_PAUSE, SAFETY_INTERVAL, UNKNOWN_GRACE, Wakeups};

/// Interval between two looks while wake-ups are unavailable.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The condition that ends the wait for one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// The turn is over, one way or the other, or a human is needed.
    #[default]
    TurnOver,
    /// This status.
    Status(Status),
}

/// How many of the sessions must meet the condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quorum {
    /// Every session, at any moment of the wait.
    #[default]
    All,
    /// One session.
    Any,
}

/// The condition, the number of sessions, and the timeout of a wait.
#[derive(Clone, Copy, Debug)]
pub struct WaitOptions {
    /// The condition that ends the wait for one session.
    pub until: Until,
    /// How many sessions must meet it.
    pub quorum: Quorum,
    /// The timeout of the whole wait; `None` waits without a limit.
    pub timeout: Option<Duration>,
}

/// The state of one session compared with the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitVerdict {
    /// The condition is not met yet.
    Pending,
    /// The condition is met.
    Reached,
    /// The condition can no longer be met, or the turn ended badly.
    Missed,
    /// A human is needed first.
    Blocked,
}

/// How the wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The condition was met.
    Reached,
    /// The condition can no longer be met.
    Missed,
    /// A human is needed first.
    Blocked,
    /// The timeout passed.
    TimedOut,
}

/// One session that was waited for.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// The session or process that was asked for.
    pub target: Target,
    /// The session as the last successful look showed it; `None` when no look succeeded.
    pub session: Option<Session>,
    /// The verdict of that look.
    pub verdict: WaitVerdict,
}

/// The result of a wait.
#[derive(Debug)]
pub struct Waited {
    /// The sessions, in the order they were asked for.
    pub sessions: Vec<Awaited>,
    /// How the wait ended.
    pub end: End,
}

/// A report to the caller during the wait.
#[derive(Debug)]
pub enum Progress<'a> {
    /// This session has its final verdict.
    Decided(&'a Session),
    /// The status of this session is unknown; the wait continues.
    Unknown(&'a Session),
    /// A human is needed, but the condition is another one; the wait continues.
    NeedsHuman(&'a Session),
    /// A source failed; the wait continues.
    Fault(&'a Fault),
    /// Wake-ups are unavailable for this reason; the wait polls instead.
    Paced(&'a str),
}

/// Compares a session with the condition: the table of the contract.
#[must_use]
pub fn decide(until: Until, session: &Session, ends_by_itself: bool) -> WaitVerdict {
    let ended = !session.status.is_live();
    match (until, session.status) {
        (_, Status::Unknown) | (Until::TurnOver, Status::Running) => WaitVerdict::Pending,
        // The process is about to exit; only after its exit the record says how the turn ended.
        (Until::TurnOver, Status::Idle) if ends_by_itself => WaitVerdict::Pending,
        // The session is idle in a server, and the server says that the last turn failed.
        (Until::TurnOver, Status::Idle)
            if session.outcome.is_some_and(|o| o != Outcome::Finished) =>
        {
            WaitVerdict::Missed
        }
        (Until::TurnOver, Status::Idle) => WaitVerdict::Reached,
        (Until::TurnOver, Status::Waiting) => WaitVerdict::Blocked,
        (Until::TurnOver, Status::Stopped | Status::Error) => match session.outcome {
            Some(Outcome::Finished) => WaitVerdict::Reached,
            _ => WaitVerdict::Missed,
        },
        // No process serves the session; the outcome of its last turn does not matter.
        (Until::Status(Status::Stopped), _) if ended => WaitVerdict::Reached,
        (Until::Status(wanted), status) if wanted == status => WaitVerdict::Reached,
        (Until::Status(_), _) if ended => WaitVerdict::Missed,
        (Until::Status(_), _) => WaitVerdict::Pending,
    }
}

/// Waits until the condition is met, cannot be met, or the timeout passes. `report` receives progress
/// reports.
pub fn wait(
    fleet: &Fleet,
    targets: &[Target],
    options: WaitOptions,
    report: &mut dyn FnMut(Progress<'_>),
) -> std::io::Result<Waited> {
    let until = options.timeout.and_then(|t| Instant::now().checked_add(t));
    let left = || until.map(|u| u.saturating_duration_since(Instant::now()));
    let mut watch = Watch {
        options,
        sessions: targets.iter().cloned().map(WaitedSession::new).collect(),
        reported_faults: Vec::new(),
        reported_trouble: None,
    };
    let mut wakeups = Wakeups::new();
    let mut looks_with_news = 0;
    let mut first = true;
    loop {
        let asked: Vec<usize> = watch.pending().collect();
        let wanted: Vec<Target> =
            asked.iter().map(|at| watch.sessions[*at].awaited.target.clone()).collect();
        // The first look gets the full deadline even if the timeout is shorter, so that the caller gets at
        // least one answer.
        let limit =
            left().filter(|_| !first).unwrap_or(fleet.host.deadlines.all).max(UNKNOWN_GRACE);
        let look = inspect_watched(fleet, &wanted, limit.min(fleet.host.deadlines.all));
        first = false;
        watch.report_faults(&look.faults, report);
        for (at, seen) in asked.iter().zip(&look.seen) {
            watch.sessions[*at].update(&fleet.host, options.until, seen, look.faults.is_empty());
        }
        if let Some(end) = watch.end(report) {
            return Ok(finish(fleet, watch, end, wakeups));
        }
        if left().is_some_and(|left| left.is_zero()) {
            return Ok(finish(fleet, watch, End::TimedOut, wakeups));
        }
        let looks = asked.into_iter().zip(look.seen);
        let open: Vec<(usize, Observed)> =
            looks.filter(|(at, _)| !watch.sessions[*at].decided).collect();
        let armed = wakeups.arm(&fleet.host, open.iter().map(|(_, seen)| &seen.watch_targets));
        looks_with_news = if armed.news { looks_with_news + 1 } else { 0 };
        if armed.news && looks_with_news < LOOKS_BEFORE_A_PAUSE {
            continue;
        }
        let paced = armed.trouble.is_some() || armed.news || watch.lacks_wakeups(&open);
        if let Some(trouble) = armed.trouble.filter(|t| watch.reported_trouble.as_ref() != Some(t))
        {
            report(Progress::Paced(&trouble));
            watch.reported_trouble = Some(trouble);
        }
        let mut pause = if paced { POLL_INTERVAL } else { SAFETY_INTERVAL };
        pause = pause.min(watch.report_progress(report).unwrap_or(pause));
        pause = wakeups.journal_delay().map_or(pause, |delay| pause.min(delay));
        wakeups.wait(pause.min(left().unwrap_or(pause)))?;
    }
}

/// One session of the wait, and which reports were made about it.
struct WaitedSession {
    awaited: Awaited,
    decided: bool,
    /// The identity of the process, when the target is a pid. It keeps a recycled pid from being taken for
    /// it.
    process: Option<ProcId>,
    unknown_since: Option<Instant>,
    reported_unknown: bool,
    /// Status and reason of the look before: a need of a human is reported once.
    last_look: Option<(Status, Option<Reason>)>,
}

impl WaitedSession {
    fn new(target: Target) -> Self {
        Self {
            awaited: Awaited { target, session: None, verdict: WaitVerdict::Pending },
            decided: false,
            process: None,
            unknown_since: None,
            reported_unknown: false,
            last_look: None,
        }
    }

    /// Updates the session and its verdict from a look. `whole` says that no source failed, so an absent
    /// session is really gone.
    fn update(&mut self, host: &Host, until: Until, seen: &Observed, whole: bool) {
        let nameless = self.awaited.target.session.is_none();
        let meant =
            |session: &&Session| self.process.as_ref().is_none_or(|was| session.is_served_by(was));
        let session = match seen.session.as_ref().filter(meant) {
            Some(session) => Some(session.clone()),
            None if nameless && whole => {
                // The process has exited. If it did so before the first look, its session is unknown for
                // ever.
                self.awaited.verdict = WaitVerdict::Missed;
                self.awaited.session.take().map(|s| fleet::exited(s, host.now()))
            }
            // Its store was read completely and no longer holds the session.
            None if whole => {
                let gone = self.awaited.session.take().map(|s| fleet::forgotten(s, host.now()));
                self.awaited.verdict = match until {
                    Until::Status(Status::Stopped) => WaitVerdict::Reached,
                    _ => WaitVerdict::Missed,
                };
                self.awaited.session = gone;
                return;
            }
            None => None,
        };
        let Some(session) = session else {
            self.unknown_since.get_or_insert_with(Instant::now);
            return;
        };
        if nameless {
            self.process = self.process.take().or_else(|| session.process_ids().into_iter().next());
        }
        // The process now serves a session: from here on the wait follows the session id, not the pid.
        if let Some(id) = session.id.clone().filter(|_| nameless) {
            let locator = crate::model::Locator { id, path: None, parent: None };
            self.awaited.target.session = Some(locator);
            self.process = None;
        }
        self.unknown_since = match session.status {
            Status::Unknown => self.unknown_since.or_else(|| Some(Instant::now())),
            _ => None,
        };
        self.awaited.verdict = decide(until, &session, seen.ends_by_itself);
        self.awaited.session = Some(session);
    }
}

struct Watch {
    options: WaitOptions,
    sessions: Vec<WaitedSession>,
    reported_faults: Vec<Fault>,
    reported_trouble: Option<String>,
}

impl Watch {
    fn pending(&self) -> impl Iterator<Item = usize> {
        let open = self.sessions.iter().enumerate().filter(|(_, s)| !s.decided);
        open.map(|(at, _)| at)
    }

    fn report_faults(&mut self, faults: &[Fault], report: &mut dyn FnMut(Progress<'_>)) {
        for fault in faults {
            if !self.reported_faults.contains(fault) {
                report(Progress::Fault(fault));
                self.reported_faults.push(fault.clone());
            }
        }
    }

    /// Reports the sessions that now have a final verdict, and returns how the wait ends if it does.
    fn end(&mut self, report: &mut dyn FnMut(Progress<'_>)) -> Option<End> {
        let any = self.options.quorum == Quorum::Any;
        for waited in self.sessions.iter_mut().filter(|s| !s.decided) {
            let end = match waited.awaited.verdict {
                WaitVerdict::Pending => continue,
                WaitVerdict::Reached => any.then_some(End::Reached),
                // With `Any`, the first turn that ends decides, also when it ends badly.
                WaitVerdict::Missed => {
                    (any && self.options.until == Until::TurnOver).then_some(End::Missed)
                }
                // A human may never answer, so the wait ends at once.
                WaitVerdict::Blocked => Some(End::Blocked),
            };
            waited.decided = true;
            if let Some(session) = &waited.awaited.session {
                report(Progress::Decided(session));
            }
            if end.is_some() {
                return end;
            }
        }
        if self.sessions.iter().any(|s| !s.decided) {
            return None;
        }
        let missed = self.sessions.iter().any(|s| s.awaited.verdict == WaitVerdict::Missed);
        Some(if missed { End::Missed } else { End::Reached })
    }

    /// Says whether a session is unknown and no process of it is watched, so that no wake-up would announce
    /// its next change.
    fn lacks_wakeups(&self, open: &[(usize, Observed)]) -> bool {
        open.iter().any(|(at, seen)| {
            self.sessions[*at].unknown_since.is_some() && seen.watch_targets.processes.is_empty()
        })
    }

    /// Reports sessions that begin to need a human, and once those that are unknown for longer than the grace
    /// period.
    /// Returns when the next report is due.
    fn report_progress(&mut self, report: &mut dyn FnMut(Progress<'_>)) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for waited in self.sessions.iter_mut().filter(|s| !s.decided) {
            let Some(session) = &waited.awaited.session else { continue };
            // After an answer the next question is reported again.
            let now = (session.status, session.reason.clone());
            if session.status == Status::Waiting && waited.last_look.as_ref() != Some(&now) {
                report(Progress::NeedsHuman(session));
            }
            waited.last_look = Some(now);
            let Some(since) = waited.unknown_since.filter(|_| !waited.reported_unknown) else {
                continue;
            };
            let left = UNKNOWN_GRACE.saturating_sub(since.elapsed());
            if left.is_zero() {
                waited.reported_unknown = true;
                report(Progress::Unknown(session));
            } else {
                next = Some(next.map_or(left, |n| n.min(left)));
            }
        }
        next
    }
}

/// Builds the result. The fields that only a launch knows are added here; they do not change a verdict.
fn finish(fleet: &Fleet, watch: Watch, end: End, wakeups: Wakeups) -> Waited {
    wakeups.release();
    let mut sessions: Vec<Awaited> = watch.sessions.into_iter().map(|s| s.awaited).collect();
    for awaited in &mut sessions {
        // Names that cannot be read do not change how a session ended.
        let _unread = fleet::add_launches(fleet, awaited.session.as_mut_slice());
    }
    Waited { sessions, end }
}

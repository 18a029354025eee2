//! Waiting for sessions: arm the wake-ups, look at ground truth, decide, block until something happens.
//!
//! Nothing is polled: exits, file events and a server's own word say when to look again, and a look
//! decides. What is watched depends on what was seen, so a look that adds something to watch is
//! followed by another one before anybody blocks. Names no agent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fleet::{self, Adapters, Observed, observe};
use crate::host::Host;
use crate::model::{Evidence, Fault, Outcome, ProcId, Session, Status, Target};
use crate::wakeups::Wakeups;

/// Wake-ups may be lost by what lies between us and the agents; this bounds what that costs.
const SAFETY: Duration = Duration::from_mins(1);
/// The pace where no wake-up can be had.
const PACE: Duration = Duration::from_secs(1);
/// An agent on its way out cannot be told for a moment; only what lasts longer is worth a word.
const WORTH_A_WORD: Duration = Duration::from_millis(250);
/// So many looks in a row may each find something new to watch before we pause.
const RESTLESS: usize = 16;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The turn is over, one way or the other, or a human is needed.
    TurnOver,
    /// This status.
    Status(Status),
}

/// How many of the sessions must get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// Each of them, at some time.
    All,
    /// The first.
    Any,
}

/// What is wished for.
#[derive(Clone, Copy, Debug)]
pub struct WaitOptions {
    /// What is waited for.
    pub until: Until,
    /// How many of them.
    pub quorum: Quorum,
    /// For how long at most.
    pub timeout: Option<Duration>,
}

/// What a look means for what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitVerdict {
    /// Not yet.
    Pending,
    /// It is there.
    Reached,
    /// It cannot get there any more, or its turn ended badly.
    Missed,
    /// A human is needed first.
    Blocked,
}

/// How the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As wished.
    Reached,
    /// Not as wished, and it cannot be any more.
    Missed,
    /// A human is needed first.
    Blocked,
    /// The time was up.
    TimedOut,
}

/// One session that was waited for.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// What was asked for.
    pub target: Target,
    /// As it was last seen; `None` when no look succeeded.
    pub session: Option<Session>,
    /// What that meant.
    pub verdict: WaitVerdict,
}

/// What came of it.
#[derive(Debug)]
pub struct Waited {
    /// The sessions, in the order they were asked for.
    pub sessions: Vec<Awaited>,
    /// How it ended.
    pub end: End,
    /// What was watched. Giving that back takes the kernel a while: whoever ends anyway lets it be.
    pub watched: Watched,
}

/// What was watched while waiting; it is given back with the value.
pub struct Watched(#[allow(dead_code)] Wakeups);

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}

/// What is worth telling while waiting.
#[derive(Debug)]
pub enum Progress<'a> {
    /// This session is decided.
    Decided(&'a Session),
    /// It cannot be told what this session does: waiting goes on.
    Unknown(&'a Session),
    /// A human is needed, but something else is waited for: waiting goes on.
    NeedsHuman(&'a Session),
    /// A source failed: waiting goes on.
    Fault(&'a Fault),
    /// Wake-ups cannot be had: we look at a pace instead.
    Paced(&'a str),
}

/// Decides what a look means: the table of the contract.
#[must_use]
pub fn decide(until: Until, session: &Session, ends_by_itself: bool) -> WaitVerdict {
    let ended = !session.status.is_live();
    match (until, session.status) {
        (_, Status::Unknown) | (Until::TurnOver, Status::Running) => WaitVerdict::Pending,
        // It is leaving; only then its record says how the turn ended.
        (Until::TurnOver, Status::Idle) if ends_by_itself => WaitVerdict::Pending,
        // It rests in a server that says how the last turn ended: not well.
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
        // Nothing serves it any more, however its last turn ended.
        (Until::Status(Status::Stopped), _) if ended => WaitVerdict::Reached,
        (Until::Status(wanted), status) if wanted == status => WaitVerdict::Reached,
        (Until::Status(_), _) if ended => WaitVerdict::Missed,
        (Until::Status(_), _) => WaitVerdict::Pending,
    }
}

/// Waits; `tell` hears what happens meanwhile.
pub fn wait(
    host: &Arc<Host>,
    adapters: Adapters,
    targets: &[Target],
    options: WaitOptions,
    tell: &mut dyn FnMut(Progress<'_>),
) -> std::io::Result<Waited> {
    let until = options.timeout.and_then(|t| Instant::now().checked_add(t));
    let left = || until.map(|u| u.saturating_duration_since(Instant::now()));
    let mut watch = Watch {
        options,
        sessions: targets.iter().cloned().map(Attended::new).collect(),
        told_faults: Vec::new(),
        told_trouble: None,
    };
    let mut wakeups = Wakeups::new();
    let mut restless = 0;
    let mut first = true;
    loop {
        let asked: Vec<usize> = watch.pending().collect();
        let wanted: Vec<Target> =
            asked.iter().map(|at| watch.sessions[*at].awaited.target.clone()).collect();
        // The first look may take its time: an answer late is better than none.
        let limit = left().filter(|_| !first).unwrap_or(host.deadlines.all).max(WORTH_A_WORD);
        let look = observe(host, adapters, &wanted, limit.min(host.deadlines.all));
        first = false;
        watch.hear(&look.faults, tell);
        for (at, seen) in asked.iter().zip(&look.seen) {
            watch.sessions[*at].see(host, options.until, seen, look.faults.is_empty());
        }
        if let Some(end) = watch.end(tell) {
            return Ok(finish(host, adapters, watch, end, wakeups));
        }
        if left().is_some_and(|left| left.is_zero()) {
            return Ok(finish(host, adapters, watch, End::TimedOut, wakeups));
        }
        let looks = asked.into_iter().zip(look.seen);
        let open: Vec<(usize, Observed)> =
            looks.filter(|(at, _)| !watch.sessions[*at].decided).collect();
        let armed = wakeups.arm(host, open.iter().map(|(_, seen)| &seen.signs));
        restless = if armed.news { restless + 1 } else { 0 };
        if armed.news && restless < RESTLESS {
            continue;
        }
        let paced = armed.trouble.is_some() || armed.news || watch.is_blind(&open);
        if let Some(trouble) = armed.trouble.filter(|t| watch.told_trouble.as_ref() != Some(t)) {
            tell(Progress::Paced(&trouble));
            watch.told_trouble = Some(trouble);
        }
        let mut pause = if paced { PACE } else { SAFETY };
        pause = pause.min(watch.say(tell).unwrap_or(pause));
        pause = wakeups.echo().map_or(pause, |echo| pause.min(echo));
        wakeups.wait(pause.min(left().unwrap_or(pause)))?;
    }
}

/// A session that is waited for, and what was told about it.
struct Attended {
    awaited: Awaited,
    decided: bool,
    /// The process that was meant, where it was named by its pid.
    process: Option<ProcId>,
    unknown_since: Option<Instant>,
    told_unknown: bool,
    told_human: bool,
}

impl Attended {
    fn new(target: Target) -> Self {
        Self {
            awaited: Awaited { target, session: None, verdict: WaitVerdict::Pending },
            decided: false,
            process: None,
            unknown_since: None,
            told_unknown: false,
            told_human: false,
        }
    }

    /// Takes in what a look says.
    fn see(&mut self, host: &Host, until: Until, seen: &Observed, whole: bool) {
        let nameless = self.awaited.target.session.is_none();
        let meant =
            |session: &&Session| self.process.as_ref().is_none_or(|was| session.is_served_by(was));
        let session = match seen.session.as_ref().filter(meant) {
            Some(session) => Some(session.clone()),
            None if nameless && whole => {
                // Gone before it was looked at for the first time: nobody will ever know.
                self.awaited.verdict = WaitVerdict::Missed;
                self.awaited.session.take().map(|s| exited(host, s))
            }
            // Whoever kept it says that there is no such session any more.
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
        // A process that has found its session is waited for by that session's name.
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

/// A process without a session that has ended: the kernel says so, and nobody knows more.
fn exited(host: &Host, mut session: Session) -> Session {
    let pid = session.pid.map_or_else(String::new, |pid| format!("pid {pid} "));
    let says = format!("{pid}has exited and served no session");
    session.evidence = vec![Evidence { source: "kernel:pidfd".into(), says, at: host.now() }];
    (session.status, session.outcome, session.reason) =
        (Status::Stopped, Some(Outcome::Unknown), None);
    (session.pid, session.processes) = (None, Vec::new());
    session
}

struct Watch {
    options: WaitOptions,
    sessions: Vec<Attended>,
    told_faults: Vec<Fault>,
    told_trouble: Option<String>,
}

impl Watch {
    fn pending(&self) -> impl Iterator<Item = usize> {
        let open = self.sessions.iter().enumerate().filter(|(_, s)| !s.decided);
        open.map(|(at, _)| at)
    }

    fn hear(&mut self, faults: &[Fault], tell: &mut dyn FnMut(Progress<'_>)) {
        for fault in faults {
            if !self.told_faults.contains(fault) {
                tell(Progress::Fault(fault));
                self.told_faults.push(fault.clone());
            }
        }
    }

    /// Tells what is decided now, and says whether that ends it.
    fn end(&mut self, tell: &mut dyn FnMut(Progress<'_>)) -> Option<End> {
        let any = self.options.quorum == Quorum::Any;
        for attended in self.sessions.iter_mut().filter(|s| !s.decided) {
            let end = match attended.awaited.verdict {
                WaitVerdict::Pending => continue,
                WaitVerdict::Reached => any.then_some(End::Reached),
                // Whichever way the first turn ended, it is the first.
                WaitVerdict::Missed => {
                    (any && self.options.until == Until::TurnOver).then_some(End::Missed)
                }
                // It may take for ever: whoever waits is told at once.
                WaitVerdict::Blocked => Some(End::Blocked),
            };
            attended.decided = true;
            if let Some(session) = &attended.awaited.session {
                tell(Progress::Decided(session));
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

    /// Says whether somebody is waited for whose next change nothing we watch would tell.
    fn is_blind(&self, open: &[(usize, Observed)]) -> bool {
        open.iter().any(|(at, seen)| {
            self.sessions[*at].unknown_since.is_some() && seen.signs.processes.is_empty()
        })
    }

    /// Tells what is worth a word, once each; returns when the next one will be.
    fn say(&mut self, tell: &mut dyn FnMut(Progress<'_>)) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for attended in self.sessions.iter_mut().filter(|s| !s.decided) {
            let Some(session) = &attended.awaited.session else { continue };
            if session.status == Status::Waiting && !attended.told_human {
                attended.told_human = true;
                tell(Progress::NeedsHuman(session));
            }
            let Some(since) = attended.unknown_since.filter(|_| !attended.told_unknown) else {
                continue;
            };
            let left = WORTH_A_WORD.saturating_sub(since.elapsed());
            if left.is_zero() {
                attended.told_unknown = true;
                tell(Progress::Unknown(session));
            } else {
                next = Some(next.map_or(left, |n| n.min(left)));
            }
        }
        next
    }
}

/// What only a launch knows is added once, at the end: it decides nothing.
fn finish(host: &Host, adapters: Adapters, watch: Watch, end: End, wakeups: Wakeups) -> Waited {
    let mut sessions: Vec<Awaited> = watch.sessions.into_iter().map(|s| s.awaited).collect();
    for awaited in &mut sessions {
        fleet::add_launches(host, adapters, awaited.session.as_mut_slice());
    }
    Waited { sessions, end, watched: Watched(wakeups) }
}

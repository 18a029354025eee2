//! The comparison of two looks. It reads no file and asks no process.
//!
//! The first look is only compared with. A session that is missing from a later look is looked at by name
//! first ([`Edges::missing`], [`LookupResult`]), because a missing row proves nothing. An unknown status is
//! reported only when it lasts, and the status after it is reported again.
//!
//! `step` compares one session, `standing` holds the state of one session, `telling` makes events, and
//! `order` keeps the rules of the whole stream.

mod asked;
mod order;
mod step;
mod telling;
mod tracked;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use self::asked::{AskLook, OpenAsks};
use self::order::Order;
use self::step::Step;
pub use self::telling::kind_of;
use self::telling::{about, begun_id, over_id};
use self::tracked::Tracked;
use super::lock_edges;
pub use super::lock_edges::LocksAndFuses;
use super::{Event, EventKind};
use crate::model::{Ask, Callback, Locator, ProcId, Session, Target, Time};

/// Time for which a status must be unknown before that is reported: an agent that exits, or a server that
/// restarts, cannot be read for a moment. A prompt without its detail is held back for the same time.
pub const DOUBT_TIMEOUT: Duration = crate::wakeups::UNKNOWN_GRACE;

/// The identity of a session from look to look.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    adapter: &'static str,
    root: String,
    /// The session, or the process that has none yet.
    who: Result<String, (u32, u64)>,
}

impl Key {
    /// Returns the key of a session; `None` for a row that is neither session nor process.
    #[must_use]
    pub fn of(session: &Session) -> Option<Self> {
        let process = |p: &ProcId| (p.pid, p.start_ticks);
        let who = match &session.id {
            Some(id) => Ok(id.clone()),
            None => Err(session.processes.first().map(|serving| process(&serving.id))?),
        };
        Some(Self { adapter: session.adapter, root: session.root.clone(), who })
    }

    /// Says whether this session has opened an ask.
    #[must_use]
    fn has_ask(&self, ask: &Ask) -> bool {
        let is_asking = match &self.who {
            Ok(id) => ask.session_id.as_ref() == Some(id),
            Err((pid, _)) => ask.session_id.is_none() && ask.pid == Some(*pid),
        };
        is_asking && self.adapter == ask.adapter && self.root == ask.root
    }

    /// Returns the adapter.
    #[must_use]
    pub fn adapter(&self) -> &'static str {
        self.adapter
    }

    /// Returns the home it lies in.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the session's id.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.who.as_deref().ok()
    }

    /// Returns the target of a look by name.
    #[must_use]
    pub fn target(&self) -> Target {
        let locator = |id: &String| Locator { id: id.clone(), path: None, parent: None };
        let session = self.who.as_ref().ok().map(locator);
        Target { adapter: self.adapter, root: self.root.clone(), session, pid: None }
    }
}

/// The result of a look by name at a missing session.
#[derive(Clone, Debug)]
pub enum LookupResult {
    /// It was found.
    Seen(Box<Session>),
    /// Its store no longer holds it.
    Gone,
    /// It could not be looked at, for this reason.
    Failed(String),
    /// It has ended, and its `exit.json` is not written yet.
    Leaving,
}

/// The launch that serves a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchInfo {
    /// Its run.
    pub run: String,
    /// When it was launched.
    pub began: Time,
    /// The receiver of the launch's end.
    pub callback: Option<Callback>,
}

/// A launch that has ended, as its run describes it.
#[derive(Clone, Debug)]
pub struct EndedLaunch {
    /// The launch.
    pub launch: LaunchInfo,
    /// The session as it began.
    pub begun: Session,
    /// The session when the launch ended.
    pub over: Session,
    /// When its agent ended.
    pub ended: Time,
}

impl EndedLaunch {
    /// Returns the event of its start.
    #[must_use]
    pub fn started(&self) -> Event {
        let (id, at) = (begun_id(&self.launch.run), self.launch.began);
        about(EventKind::Started, id, at, &self.begun, Some(&self.launch))
    }

    /// Returns the event of its end.
    #[must_use]
    pub fn stopped(&self) -> Event {
        let kind = kind_of(self.over.status);
        about(kind, over_id(&self.launch), self.ended, &self.over, Some(&self.launch))
    }
}

/// One look at all sessions, with everything that is needed to compare it with the one before.
#[derive(Debug)]
pub struct Snapshot {
    /// When the look began.
    pub at: Time,
    /// When the look ended. An entry that was written during the look keeps its own time, so that another
    /// watcher that looks a moment later dates it the same.
    pub until: Time,
    /// When the look began, on the monotonic clock.
    pub moment: Instant,
    /// The live sessions, and those that rest in a server process of this machine.
    pub sessions: Vec<Session>,
    /// The adapters that were not asked; their sessions stay as they were.
    pub unasked: Vec<&'static str>,
    /// The results of the looks by name at missing sessions.
    pub named: HashMap<Key, LookupResult>,
    /// The launches that serve the sessions.
    pub launches: HashMap<Key, LaunchInfo>,
    /// The launches that have ended and whose end was not reported.
    pub ended_launches: Vec<EndedLaunch>,
    /// The asks of the waiting sessions.
    pub asks: Vec<Ask>,
    /// The locks, fuses and faults.
    pub locks_and_fuses: LocksAndFuses,
}

/// The state after the last look.
#[derive(Debug)]
struct Last {
    at: Time,
    tracked: BTreeMap<Key, Tracked>,
    asks: OpenAsks,
    locks_and_fuses: LocksAndFuses,
}

/// Compares look after look.
#[derive(Debug, Default)]
pub struct Edges {
    last: Option<Last>,
    /// The launches whose start was reported, and those whose end was.
    begun: BTreeSet<String>,
    over: BTreeSet<String>,
    order: Order,
    /// No prompt is held back for its detail, because there may be no further look.
    tells_at_once: bool,
}

impl Edges {
    /// Reports every prompt in the look that shows it, with or without its detail.
    pub fn tell_at_once(&mut self) {
        self.tells_at_once = true;
    }

    /// Returns the sessions of the last look that are missing from this one.
    #[must_use]
    pub fn missing(&self, sessions: &[Session]) -> Vec<Key> {
        let here: BTreeSet<Key> = sessions.iter().filter_map(Key::of).collect();
        self.known().into_iter().filter(|key| !here.contains(key)).collect()
    }

    /// Returns the launch that served a session when it was last seen.
    #[must_use]
    pub fn launch(&self, key: &Key) -> Option<&LaunchInfo> {
        self.last.as_ref()?.tracked.get(key)?.launch.as_ref()
    }

    /// Says whether the end of this launch was reported, or happened before the first look.
    #[must_use]
    pub fn is_over(&self, run: &str) -> bool {
        self.over.contains(run)
    }

    /// Records launches whose end is not reported: they ended before the first look, or never got a
    /// session.
    pub fn pass_over(&mut self, runs: impl Iterator<Item = String>) {
        self.over.extend(runs);
    }

    /// Records an event that another watcher reported: the next look is compared with it.
    pub fn suppose(&mut self, told: &Event) {
        self.order.suppose(told);
        let Some(last) = &mut self.last else { return };
        if let Some((key, session)) = told.session.as_ref().and_then(|s| Some((Key::of(s)?, s))) {
            if session.status.is_live() && session.run.is_none() {
                last.tracked.insert(key, Tracked::new(session.clone(), None));
            } else {
                last.tracked.remove(&key);
            }
        }
        asked::suppose(&mut last.asks, told);
        last.locks_and_fuses.suppose(told);
    }

    /// Returns the sessions that are followed.
    #[must_use]
    pub fn known(&self) -> Vec<Key> {
        let known = self.last.iter().flat_map(|last| last.tracked.keys());
        known.filter(|key| key.who.is_ok()).cloned().collect()
    }

    /// Adds sessions as if the last look had shown them, without events.
    pub fn adopt(&mut self, sessions: Vec<Session>, launches: &HashMap<Key, LaunchInfo>) {
        let Some(last) = &mut self.last else { return };
        for session in sessions {
            let Some(key) = Key::of(&session) else { continue };
            let launch = launches.get(&key).cloned();
            self.begun.extend(launch.as_ref().map(|l| l.run.clone()));
            last.tracked.insert(key, Tracked::new(session, launch));
        }
    }

    /// Forgets the sessions of launches. The events of a launch have the id of its run, so a listener
    /// recognises one that it gets twice.
    pub fn leave_launches(&mut self) {
        let Some(last) = &mut self.last else { return };
        last.tracked.retain(|_, tracked| tracked.session.run.is_none());
    }

    /// Says whether there is a look to compare with.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// Returns when the status of a followed session became unknown: the latest such time.
    #[must_use]
    pub fn doubtful_since(&self) -> Option<Instant> {
        self.last.as_ref()?.tracked.values().filter_map(|s| s.doubt).max()
    }

    /// Returns since when a prompt is held back for its detail: the earliest such time.
    #[must_use]
    pub fn held_since(&self) -> Option<Instant> {
        self.last.as_ref()?.tracked.values().filter_map(|s| s.held.as_ref()).map(|h| h.since).min()
    }

    /// Forgets the launches whose run folder was removed.
    pub fn keep_launches(&mut self, kept: &dyn Fn(&str) -> bool) {
        self.begun.retain(|run| kept(run));
        self.over.retain(|run| kept(run));
    }

    /// Compares a look with the one before and returns the changes, oldest first.
    pub fn step(&mut self, snapshot: Snapshot) -> Vec<Event> {
        let Some(last) = self.last.take() else {
            self.begin(snapshot);
            return Vec::new();
        };
        let (before, blind) = (last.at, &last.locks_and_fuses.faults);
        let mut step = Step {
            snapshot: &snapshot,
            before,
            blind,
            tells_at_once: self.tells_at_once,
            events: Vec::new(),
            over: Vec::new(),
        };
        let mut old = last.tracked;
        let mut tracked = BTreeMap::new();
        for session in &snapshot.sessions {
            let Some(key) = Key::of(session).filter(|key| !tracked.contains_key(key)) else {
                continue;
            };
            let launch = snapshot.launches.get(&key).cloned();
            let next = match old.remove(&key) {
                Some(was) => step.advance(was, session.clone(), launch),
                None => step.appear(&key, session.clone(), launch),
            };
            tracked.insert(key, next);
        }
        for (key, was) in old {
            if let Some(next) = step.settle(&key, was) {
                tracked.insert(key, next);
            }
        }
        step.pass(&tracked, &self.begun, &self.over);
        let launches = tracked.values().filter_map(|s| s.launch.as_ref()).map(|l| l.run.clone());
        self.begun.extend(launches);
        let mut events = step.events;
        self.over.extend(step.over);
        let look = AskLook { asks: &snapshot.asks, sessions: &snapshot.sessions, at: snapshot.at };
        let asks = asked::step(&last.asks, &look, &tracked, &mut events);
        asked::add_to_waiting(&look, &mut events);
        let followed = |adapter, session: &str| {
            tracked.keys().any(|key| key.adapter == adapter && key.id() == Some(session))
        };
        let locks_and_fuses = lock_edges::step(
            &last.locks_and_fuses,
            &snapshot.locks_and_fuses,
            snapshot.at,
            &followed,
            &mut events,
        );
        self.order.arrange(&mut events, snapshot.until);
        self.last = Some(Last { at: snapshot.at, tracked, asks, locks_and_fuses });
        events
    }

    /// Takes the first snapshot, without events.
    fn begin(&mut self, snapshot: Snapshot) {
        let mut tracked = BTreeMap::new();
        for session in snapshot.sessions {
            let Some(key) = Key::of(&session) else { continue };
            let launch = snapshot.launches.get(&key).cloned();
            self.begun.extend(launch.as_ref().map(|l| l.run.clone()));
            tracked.insert(key, Tracked::new(session, launch));
        }
        let asks = snapshot.asks.into_iter().map(|ask| (ask.id.clone(), ask)).collect();
        let locks_and_fuses = snapshot.locks_and_fuses;
        self.last = Some(Last { at: snapshot.at, tracked, asks, locks_and_fuses });
    }
}

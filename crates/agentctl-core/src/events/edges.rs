//! What changed between two looks: a comparison that reads nothing and asks nobody.
//!
//! The first look is the one to compare with. What is missing from a later one is looked at by name
//! first ([`Edges::missing`], [`Named`]): being missing proves nothing. What cannot be told for a moment
//! is not worth a word; what cannot be told for longer is told once, and again when it is known.
//!
//! `step` holds the comparison of one session, `standing` what is known of it, `telling` how an event
//! is made, and `order` the rules that hold for the whole stream.

mod order;
mod standing;
mod step;
mod telling;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use self::order::Order;
use self::standing::Standing;
use self::step::Step;
pub use self::telling::kind_of;
use self::telling::{about, begun_id, over_id};
use super::holders;
pub use super::holders::Holders;
use super::{Event, EventKind};
use crate::model::{Callback, Locator, ProcId, Session, Target, Time};

/// So long a doubt must last before it is told: an agent on its way out, or a server that starts again,
/// cannot be read for a moment. So long, too, a prompt waits for its detail.
pub const WORTH_A_WORD: Duration = crate::wakeups::UNKNOWN_GRACE;

/// What a session is known by from look to look.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    adapter: &'static str,
    root: String,
    /// The session, or the process that has none yet.
    who: Result<String, (u32, u64)>,
}

impl Key {
    /// Returns what a session is known by; `None` for a row that is neither session nor process.
    #[must_use]
    pub fn of(session: &Session) -> Option<Self> {
        let process = |p: &ProcId| (p.pid, p.start_ticks);
        let who = match &session.id {
            Some(id) => Ok(id.clone()),
            None => Err(session.processes.first().map(|serving| process(&serving.id))?),
        };
        Some(Self { adapter: session.adapter, root: session.root.clone(), who })
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

    /// Returns what a look by name asks for.
    #[must_use]
    pub fn target(&self) -> Target {
        let locator = |id: &String| Locator { id: id.clone(), path: None, parent: None };
        let session = self.who.as_ref().ok().map(locator);
        Target { adapter: self.adapter, root: self.root.clone(), session, pid: None }
    }
}

/// What a look by name said about one that is missing.
#[derive(Clone, Debug)]
pub enum Named {
    /// This.
    Seen(Box<Session>),
    /// Whoever kept it has it no more.
    Gone,
    /// Nothing, for this reason.
    Failed(String),
    /// It has ended, and how is being written down in this moment.
    Leaving,
}

/// The launch that a session lives by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its run.
    pub run: String,
    /// When it was launched.
    pub began: Time,
    /// Whom the launcher wants to be told.
    pub callback: Option<Callback>,
}

/// A launch that is over, as its run tells it.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The launch.
    pub life: Life,
    /// The session as it began.
    pub begun: Session,
    /// The session as it was then.
    pub over: Session,
    /// When its agent ended.
    pub ended: Time,
}

impl Passed {
    /// Tells its beginning.
    #[must_use]
    pub fn started(&self) -> Event {
        let (id, at) = (begun_id(&self.life.run), self.life.began);
        about(EventKind::Started, id, at, &self.begun, Some(&self.life))
    }

    /// Tells its end.
    #[must_use]
    pub fn stopped(&self) -> Event {
        let kind = kind_of(self.over.status);
        about(kind, over_id(&self.life), self.ended, &self.over, Some(&self.life))
    }
}

/// One look at all sessions, with everything that is needed to compare it with the one before.
#[derive(Debug)]
pub struct Snapshot {
    /// When it was begun.
    pub at: Time,
    /// When everything was read. An entry may be written, and read, after the look was begun: it is dated by
    /// itself, as another watcher that looks a moment later dates it.
    pub until: Time,
    /// When it was begun, on a clock that nobody sets.
    pub moment: Instant,
    /// What lives, and what rests in a server process of this machine.
    pub sessions: Vec<Session>,
    /// What was not asked this time: nothing is new there.
    pub unasked: Vec<&'static str>,
    /// What looks by name said about those that are missing.
    pub named: HashMap<Key, Named>,
    /// The launches that sessions live by.
    pub lives: HashMap<Key, Life>,
    /// The launches that are over and were not told to be.
    pub passed: Vec<Passed>,
    /// Who keeps a directory, and what could not be asked.
    pub holders: Holders,
}

/// What the last look showed.
#[derive(Debug)]
struct Last {
    at: Time,
    standing: BTreeMap<Key, Standing>,
    holders: Holders,
}

/// Compares look after look.
#[derive(Debug, Default)]
pub struct Edges {
    last: Option<Last>,
    /// The launches whose beginning was told, and those whose end was.
    begun: BTreeSet<String>,
    over: BTreeSet<String>,
    order: Order,
    /// No prompt is held back for its detail: there may be no further look to tell it.
    tells_at_once: bool,
}

impl Edges {
    /// Tells every prompt in the look that shows it, with or without its detail.
    pub fn tell_at_once(&mut self) {
        self.tells_at_once = true;
    }

    /// Returns those of the last look that are missing from this one.
    #[must_use]
    pub fn missing(&self, sessions: &[Session]) -> Vec<Key> {
        let here: BTreeSet<Key> = sessions.iter().filter_map(Key::of).collect();
        self.known().into_iter().filter(|key| !here.contains(key)).collect()
    }

    /// Returns the launch that a session lived by when it was last seen.
    #[must_use]
    pub fn life(&self, key: &Key) -> Option<&Life> {
        self.last.as_ref()?.standing.get(key)?.life.as_ref()
    }

    /// Says whether the end of this launch was told, or happened before the first look.
    #[must_use]
    pub fn is_over(&self, run: &str) -> bool {
        self.over.contains(run)
    }

    /// Notes launches of which there is nothing to tell: they ended before the first look, or never
    /// became a session.
    pub fn pass_over(&mut self, runs: impl Iterator<Item = String>) {
        self.over.extend(runs);
    }

    /// Takes in what somebody else saw and told: the next look is compared with that.
    pub fn suppose(&mut self, told: &Event) {
        self.order.suppose(told);
        let Some(last) = &mut self.last else { return };
        if let Some((key, session)) = told.session.as_ref().and_then(|s| Some((Key::of(s)?, s))) {
            if session.status.is_live() && session.run.is_none() {
                last.standing.insert(key, Standing::new(session.clone(), None));
            } else {
                last.standing.remove(&key);
            }
        }
        last.holders.suppose(told);
    }

    /// Returns who is followed.
    #[must_use]
    pub fn known(&self) -> Vec<Key> {
        let known = self.last.iter().flat_map(|last| last.standing.keys());
        known.filter(|key| key.who.is_ok()).cloned().collect()
    }

    /// Takes these in as if the last look had shown them: there is nothing to tell of them.
    pub fn adopt(&mut self, sessions: Vec<Session>, lives: &HashMap<Key, Life>) {
        let Some(last) = &mut self.last else { return };
        for session in sessions {
            let Some(key) = Key::of(&session) else { continue };
            let life = lives.get(&key).cloned();
            self.begun.extend(life.as_ref().map(|l| l.run.clone()));
            last.standing.insert(key, Standing::new(session, life));
        }
    }

    /// Leaves out the sessions of launches: their beginnings and ends have ids of their own, by which they
    /// are known to whoever was told.
    pub fn leave_launches(&mut self) {
        let Some(last) = &mut self.last else { return };
        last.standing.retain(|_, standing| standing.session.run.is_none());
    }

    /// Says whether there is a look to compare with.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// Since when somebody is followed of whom it cannot be told what it does: the newest such doubt.
    #[must_use]
    pub fn doubtful_since(&self) -> Option<Instant> {
        self.last.as_ref()?.standing.values().filter_map(|s| s.doubt).max()
    }

    /// Since when a prompt is held back because its detail may be on its way: the oldest such prompt.
    #[must_use]
    pub fn held_since(&self) -> Option<Instant> {
        self.last.as_ref()?.standing.values().filter_map(|s| s.held.as_ref()).map(|h| h.since).min()
    }

    /// Forgets what was told of launches that are not kept any more.
    pub fn keep_launches(&mut self, kept: &dyn Fn(&str) -> bool) {
        self.begun.retain(|run| kept(run));
        self.over.retain(|run| kept(run));
    }

    /// Takes in a look and returns what has changed since the one before, oldest first.
    pub fn step(&mut self, snapshot: Snapshot) -> Vec<Event> {
        let Some(last) = self.last.take() else {
            self.begin(snapshot);
            return Vec::new();
        };
        let (before, blind) = (last.at, &last.holders.faults);
        let mut step = Step {
            snapshot: &snapshot,
            before,
            blind,
            tells_at_once: self.tells_at_once,
            events: Vec::new(),
            over: Vec::new(),
        };
        let mut old = last.standing;
        let mut standing = BTreeMap::new();
        for session in &snapshot.sessions {
            let Some(key) = Key::of(session).filter(|key| !standing.contains_key(key)) else {
                continue;
            };
            let life = snapshot.lives.get(&key).cloned();
            let next = match old.remove(&key) {
                Some(was) => step.advance(was, session.clone(), life),
                None => step.appear(&key, session.clone(), life),
            };
            standing.insert(key, next);
        }
        for (key, was) in old {
            if let Some(next) = step.settle(&key, was) {
                standing.insert(key, next);
            }
        }
        step.pass(&standing, &self.begun, &self.over);
        let lives = standing.values().filter_map(|s| s.life.as_ref()).map(|l| l.run.clone());
        self.begun.extend(lives);
        let mut events = step.events;
        self.over.extend(step.over);
        let followed = |adapter, session: &str| {
            standing.keys().any(|key| key.adapter == adapter && key.id() == Some(session))
        };
        let holders =
            holders::step(&last.holders, &snapshot.holders, snapshot.at, &followed, &mut events);
        self.order.arrange(&mut events, snapshot.until);
        self.last = Some(Last { at: snapshot.at, standing, holders });
        events
    }

    /// Takes the first snapshot: what is there needs no telling.
    fn begin(&mut self, snapshot: Snapshot) {
        let mut standing = BTreeMap::new();
        for session in snapshot.sessions {
            let Some(key) = Key::of(&session) else { continue };
            let life = snapshot.lives.get(&key).cloned();
            self.begun.extend(life.as_ref().map(|l| l.run.clone()));
            standing.insert(key, Standing::new(session, life));
        }
        self.last = Some(Last { at: snapshot.at, standing, holders: snapshot.holders });
    }
}

//! What changed between two looks: a comparison that reads nothing and asks nobody.
//!
//! The first look is the one to compare with. What is missing from a later one is looked at by name
//! first ([`Edges::missing`], [`Named`]): being missing proves nothing. What cannot be told for a moment
//! is not worth a word; what cannot be told for longer is told once, and again when it is known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::holders;
pub use super::holders::Holders;
use super::{Callback, Event, EventKind, identity};
use crate::fleet;
use crate::model::{
    Evidence, Fault, Locator, ProcId, Reason, ReasonKind, Session, Status, Target, Time,
};

/// What the id of a run's end ends with.
pub(super) const ENDED: &str = "-stopped";

/// An agent on its way out, or a server that starts anew, cannot be told for a moment.
pub const WORTH_A_WORD: Duration = Duration::from_millis(250);

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
        let (id, at) = (format!("{}-started", self.life.run), self.life.began);
        about(EventKind::Started, id, at, &self.begun, Some(&self.life))
    }

    /// Tells its end.
    #[must_use]
    pub fn stopped(&self) -> Event {
        let kind = kind_of(self.over.status);
        about(kind, over_id(&self.life), self.ended, &self.over, Some(&self.life))
    }
}

/// One look, with everything that is needed to compare it.
#[derive(Debug)]
pub struct Look {
    /// When it was taken.
    pub at: Time,
    /// The same, on a clock that nobody sets.
    pub moment: Instant,
    /// What lives.
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

/// How a session stands, and what was told of it.
#[derive(Clone, Debug)]
struct Standing {
    session: Session,
    /// The status somebody knows who heard everything; `None` while nothing was told of it.
    told: Option<(Status, Option<Reason>)>,
    /// Since when it cannot be told what it does.
    doubt: Option<Instant>,
    life: Option<Life>,
    /// The process that served it when it was last seen to be served.
    process: String,
    /// So many edges since its newest entry: they are told apart by that.
    count: u32,
}

impl Standing {
    fn new(session: Session, life: Option<Life>) -> Self {
        let told = Some((session.status, session.reason.clone()));
        let process = process_text(&session).unwrap_or_default();
        Self { session, told, doubt: None, life, process, count: 0 }
    }
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
}

impl Edges {
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

    /// Forgets what was told of launches that are not kept any more.
    pub fn keep_launches(&mut self, kept: &dyn Fn(&str) -> bool) {
        self.begun.retain(|run| kept(run));
        self.over.retain(|run| kept(run));
    }

    /// Takes in a look and returns what has changed since the one before, oldest first.
    pub fn step(&mut self, look: Look) -> Vec<Event> {
        let Some(last) = self.last.take() else {
            self.begin(look);
            return Vec::new();
        };
        let (before, blind) = (last.at, &last.holders.faults);
        let mut step = Step { look: &look, before, blind, events: Vec::new(), over: Vec::new() };
        let mut old = last.standing;
        let mut standing = BTreeMap::new();
        for session in &look.sessions {
            let Some(key) = Key::of(session).filter(|key| !standing.contains_key(key)) else {
                continue;
            };
            let life = look.lives.get(&key).cloned();
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
        let holders = holders::step(&last.holders, &look.holders, look.at, &followed, &mut events);
        events.sort_by_key(|event| event.at);
        self.last = Some(Last { at: look.at, standing, holders });
        events
    }

    /// Takes the first look: what is there needs no telling.
    fn begin(&mut self, look: Look) {
        let mut standing = BTreeMap::new();
        for session in look.sessions {
            let Some(key) = Key::of(&session) else { continue };
            let life = look.lives.get(&key).cloned();
            self.begun.extend(life.as_ref().map(|l| l.run.clone()));
            standing.insert(key, Standing::new(session, life));
        }
        self.last = Some(Last { at: look.at, standing, holders: look.holders });
    }
}

/// One comparison.
struct Step<'a> {
    look: &'a Look,
    before: Time,
    /// What could not be asked before.
    blind: &'a [Fault],
    events: Vec<Event>,
    over: Vec<String>,
}

impl Step<'_> {
    /// One that was not there before.
    fn appear(&mut self, key: &Key, session: Session, life: Option<Life>) -> Standing {
        if key.who.is_err() {
            // A process is told of only when somebody is needed before it can have a session.
            let mut next = Standing::new(session, life);
            if next.session.status == Status::Waiting {
                self.tell(EventKind::Waiting, &mut next, self.look.at);
            }
            return next;
        }
        let mut next = Standing::new(session, life);
        // What rested in a shared server was there all the time; so was, for all we know, what could
        // not be seen.
        let before = next.session.started_at.is_none_or(|t| t < self.before);
        let rested = next.session.hosted && next.session.started_at.is_some();
        let woke = before && (rested || self.blind.iter().any(|fault| hides(fault, key)));
        let mut at = self.look.at;
        if !woke {
            let began = next.life.as_ref().map(|life| life.began);
            at = began.unwrap_or_else(|| self.when(next.session.started_at));
            let id = match &next.life {
                Some(life) => format!("{}-started", life.run),
                None => started_id(&next.session),
            };
            let event = about(EventKind::Started, id, at, &next.session, next.life.as_ref());
            self.events.push(event);
        }
        match next.session.status {
            Status::Running if !woke => {}
            // It is told when it is worth a word.
            Status::Unknown => {
                next.told = (!woke).then_some((Status::Running, None));
                next.doubt = Some(self.look.moment);
            }
            status => {
                let seen = self.when(next.session.last_activity_at).max(at);
                self.tell(kind_of(status), &mut next, seen);
            }
        }
        next
    }

    /// One that was there before.
    fn advance(&mut self, mut was: Standing, session: Session, life: Option<Life>) -> Standing {
        let written = session.last_activity_at != was.session.last_activity_at;
        if written {
            was.count = 0;
        }
        was.session = session;
        was.process = process_text(&was.session).unwrap_or(was.process);
        if was.session.status.is_live() && was.session.id.is_some() {
            self.change_life(&mut was, life);
        }
        let (status, reason) = (was.session.status, was.session.reason.clone());
        if status == Status::Unknown {
            let since = *was.doubt.get_or_insert(self.look.moment);
            let short = self.look.moment.saturating_duration_since(since) < WORTH_A_WORD;
            let told = was.told.as_ref().is_some_and(|told| told.0 == Status::Unknown);
            if told || short {
                return was;
            }
        } else {
            was.doubt = None;
        }
        let asks = |reason: &Option<Reason>| reason.as_ref().map(|r| (r.kind, r.detail.clone()));
        let changed = was.told.as_ref().is_none_or(|(before, why)| {
            *before != status || (status == Status::Waiting && asks(&reason) != asks(why))
        });
        // Of a process without a session only that somebody is needed is worth a word.
        if changed && (was.session.id.is_some() || status == Status::Waiting) {
            let at = match status {
                Status::Stopped | Status::Error => was.session.ended_at.unwrap_or(self.look.at),
                // What was written since says when, whenever it was seen.
                Status::Waiting | Status::Idle if written => {
                    let at = was.session.last_activity_at.filter(|at| *at <= self.look.at);
                    at.unwrap_or(self.look.at)
                }
                Status::Waiting | Status::Idle => self.when(was.session.last_activity_at),
                Status::Running | Status::Unknown => self.look.at,
            };
            self.tell(kind_of(status), &mut was, at);
        }
        was.told = Some((status, reason));
        was
    }

    /// Another launch serves it now: the one before is over, whoever saw it.
    fn change_life(&mut self, was: &mut Standing, life: Option<Life>) {
        let run = |life: &Option<Life>| life.as_ref().map(|life| life.run.clone());
        // Whoever serves it without a launch may be what the launch before began.
        let Some(life) = life.filter(|life| Some(&life.run) != run(&was.life).as_ref()) else {
            return;
        };
        let ended = |passed: &&Passed| Some(&passed.life.run) == run(&was.life).as_ref();
        if let Some(passed) = self.look.passed.iter().find(ended) {
            self.over.push(passed.life.run.clone());
            self.events.push(passed.stopped());
        }
        let id = format!("{}-started", life.run);
        let session = &was.session;
        self.events.push(about(EventKind::Started, id, life.began, session, Some(&life)));
        was.told = Some((Status::Running, None));
        was.life = Some(life);
    }

    /// One that is missing; returns how it stands if it is followed further.
    fn settle(&mut self, key: &Key, mut was: Standing) -> Option<Standing> {
        let life = was.life.clone();
        if self.look.unasked.contains(&key.adapter) {
            let session = was.session.clone();
            return Some(if was.doubt.is_some() { self.advance(was, session, life) } else { was });
        }
        // A process that has gone, or has a session now.
        key.who.as_ref().ok()?;
        match self.look.named.get(key) {
            None | Some(Named::Leaving) => Some(was),
            Some(Named::Failed(why)) => {
                let session = doubted(was.session.clone(), why, self.look.at);
                Some(self.advance(was, session, life))
            }
            Some(Named::Gone) => {
                was.session = fleet::forgotten(was.session, self.look.at);
                let session = was.session.clone();
                self.end(was, session);
                None
            }
            Some(Named::Seen(session)) => {
                let mut session = Session::clone(session);
                if session.status == Status::Unknown {
                    // What it is about was known, and is not what is in doubt.
                    let (reason, evidence) = (session.reason, session.evidence);
                    session = Session {
                        status: Status::Unknown,
                        reason,
                        evidence,
                        ..was.session.clone()
                    };
                }
                let rests = session.status == Status::Idle && session.hosted;
                match session.status {
                    Status::Stopped | Status::Error => self.end(was, session),
                    _ if rests => drop(self.advance(was, session, life)),
                    _ => return Some(self.advance(was, session, life)),
                }
                None
            }
        }
    }

    fn end(&mut self, was: Standing, session: Session) {
        let life = was.life.clone();
        self.over.extend(life.as_ref().map(|life| life.run.clone()));
        self.advance(was, session, life);
    }

    /// Launches that came and went between two looks.
    fn pass(
        &mut self,
        standing: &BTreeMap<Key, Standing>,
        begun: &BTreeSet<String>,
        over: &BTreeSet<String>,
    ) {
        for passed in &self.look.passed {
            let run = &passed.life.run;
            let lives = |s: &Standing| s.life.as_ref().is_some_and(|life| life.run == *run);
            if over.contains(run) || self.over.contains(run) || standing.values().any(lives) {
                continue;
            }
            if !begun.contains(run) {
                self.events.push(passed.started());
                self.events.push(passed.stopped());
            }
            self.over.push(run.clone());
        }
    }

    /// When it happened: as a source says, if that lies between the two looks.
    fn when(&self, said: Option<Time>) -> Time {
        said.filter(|at| (self.before..=self.look.at).contains(at)).unwrap_or(self.look.at)
    }

    fn tell(&mut self, kind: EventKind, standing: &mut Standing, at: Time) {
        standing.count += 1;
        let session = &standing.session;
        let ended = matches!(kind, EventKind::Stopped | EventKind::Error);
        let id = match &standing.life {
            Some(life) if ended => over_id(life),
            _ => edge_id(kind, standing),
        };
        self.events.push(about(kind, id, at, session, standing.life.as_ref()));
    }
}

/// The event of a status.
#[must_use]
pub fn kind_of(status: Status) -> EventKind {
    match status {
        Status::Running => EventKind::Running,
        Status::Waiting => EventKind::Waiting,
        Status::Idle => EventKind::Idle,
        Status::Stopped => EventKind::Stopped,
        Status::Error => EventKind::Error,
        Status::Unknown => EventKind::Unknown,
    }
}

/// Says whether a fault means that this session may have been there and was not seen.
fn hides(fault: &Fault, key: &Key) -> bool {
    // A file that was passed over hides nobody but itself.
    let whole = !matches!(fault.code, "skipped" | "unreadable");
    let here = fault.root.as_deref().is_none_or(|root| root == key.root);
    whole && here && fault.adapter == key.adapter
}

fn over_id(life: &Life) -> String {
    format!("{}{ENDED}", life.run)
}

fn about(kind: EventKind, id: String, at: Time, session: &Session, life: Option<&Life>) -> Event {
    let mut event = Event::new(kind, id, at);
    event.adapter = Some(session.adapter);
    event.session_id.clone_from(&session.id);
    event.session = Some(session.clone());
    event.callback = life.and_then(|life| life.callback.clone());
    event
}

/// A session of which nobody could say anything.
fn doubted(mut session: Session, why: &str, at: Time) -> Session {
    let source = format!("{}:{}", session.adapter, session.root);
    session.evidence = vec![Evidence { source, says: why.to_owned(), at }];
    session.status = Status::Unknown;
    session.reason = Some(Reason::with(ReasonKind::Unreadable, why));
    session
}

fn process_text(session: &Session) -> Option<String> {
    let text = |p: &ProcId| format!("{}:{}:{:?}:{}", p.pid, p.start_ticks, p.inode, p.boot_id);
    session.processes.first().map(|serving| text(&serving.id))
}

/// Two who watch the same process begin, or the same server's word, give it the same id.
fn started_id(session: &Session) -> String {
    let began = session.started_at.map(|t| t.to_string());
    let sign = process_text(session).or(began).unwrap_or_default();
    let id = session.id.as_deref().unwrap_or_default();
    identity(&[session.adapter, &session.root, id, EventKind::Started.word(), &sign])
}

fn edge_id(kind: EventKind, standing: &Standing) -> String {
    let session = &standing.session;
    let newest = session.ended_at.or(session.last_activity_at).map(|t| t.to_string());
    let reason = session.reason.as_ref();
    let why = reason.map(|r| (r.kind.word(), r.detail.as_deref().unwrap_or_default()));
    let (why, detail) = why.unwrap_or_default();
    identity(&[
        session.adapter,
        &session.root,
        session.id.as_deref().unwrap_or_default(),
        kind.word(),
        &newest.unwrap_or_default(),
        // Two lives may pass without an entry.
        &standing.process,
        why,
        detail,
        standing.told.as_ref().map_or("", |told| told.0.word()),
        &standing.count.to_string(),
    ])
}

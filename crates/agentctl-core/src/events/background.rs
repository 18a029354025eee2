//! Adapters that are asked in the background: servers on a network may be slow, and the events of other
//! adapters must not wait for them.
//!
//! The last answer of such an adapter counts until a newer one has arrived.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::Notifier;
use super::edges::Key;
use crate::fleet::{self, Fleet, Observation, WatchedList};
use crate::model::{Fault, FaultCode, HomeScope, Listing, Session};

/// The answer of some adapters: their live sessions, and the state of missing sessions.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) watched: WatchedList,
    pub(super) by_name: ByName,
}

/// The sessions that were looked at by name, and what was found.
#[derive(Clone, Debug)]
pub(super) struct ByName {
    pub(super) asked: Vec<Key>,
    pub(super) observation: Observation,
}

/// Lists the live sessions, and looks by name at known sessions that are missing.
pub(super) fn ask(fleet: &Fleet, left_out: &[&'static str], known: Vec<Key>) -> Answer {
    let watched = fleet::list_watched(fleet, left_out);
    // A session that now rests in a remote server is looked at by name, to learn how its turn ended.
    let resting = watched.resting.iter().filter(|session| !session.processes.is_empty());
    let here = watched.listing.sessions.iter().chain(resting);
    let here: BTreeSet<Key> = here.filter_map(Key::of).collect();
    let mut asked = known;
    asked.retain(|key| {
        let ours = fleet.adapters.iter().any(|a| a.name() == key.adapter());
        let answered =
            !left_out.contains(&key.adapter()) && silent(&watched.listing, key).is_none();
        ours && answered && !here.contains(key)
    });
    let targets: Vec<_> = asked.iter().map(Key::target).collect();
    let observation = fleet::inspect_watched(fleet, &targets, fleet.host.deadlines.live);
    Answer { watched, by_name: ByName { asked, observation } }
}

/// Returns why the adapter of a session could not be asked at all, if so.
pub(super) fn silent(listing: &Listing, key: &Key) -> Option<String> {
    let blind = |fault: &&Fault| fault.hides(key.adapter(), HomeScope::All);
    listing.faults.iter().find(blind).map(|fault| fault.message.clone())
}

/// One adapter that is asked in the background.
pub(super) struct BackgroundPoll {
    fleet: Fleet,
    job: Option<Receiver<Answer>>,
    answer: Option<Answer>,
    /// The answer arrived during the last look, so that look is no reason to ask again.
    fresh: bool,
    /// A look wanted to ask while a question was pending.
    again: bool,
}

impl BackgroundPoll {
    /// Returns one for each adapter that has servers on a network.
    pub(super) fn all(fleet: &Fleet) -> Vec<Self> {
        let remote = |name: &&str| {
            let gateways = fleet.host.gateways.get(*name);
            gateways.is_some_and(|gateways| !gateways.is_empty())
        };
        let names = fleet.adapters.iter().map(|adapter| adapter.name()).filter(remote);
        let fleets = names.filter_map(|name| fleet.only(name));
        let new = |fleet| Self { fleet, job: None, answer: None, fresh: false, again: false };
        fleets.map(new).collect()
    }

    pub(super) fn name(&self) -> &'static str {
        self.fleet.adapters.first().map_or("", |adapter| adapter.name())
    }

    /// Returns its last answer.
    pub(super) fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// Takes an answer that has arrived, or that arrives before `until`. Returns the live sessions if it is
    /// the first answer.
    pub(super) fn hear(&mut self, until: Option<Instant>) -> Option<&[Session]> {
        self.fresh = false;
        let job = self.job.as_ref()?;
        let heard = match until.map(|until| until.saturating_duration_since(Instant::now())) {
            Some(left) if !left.is_zero() => job.recv_timeout(left),
            _ => job.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
        };
        let answer = match heard {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                self.job = None;
                return None;
            }
        };
        (self.job, self.fresh) = (None, true);
        let first = self.answer.is_none();
        self.answer = Some(answer);
        self.answer.as_ref().filter(|_| first).map(|a| a.watched.listing.sessions.as_slice())
    }

    /// Asks it on a thread of its own, unless it has just answered. The answer notifies the watcher.
    pub(super) fn ask(&mut self, notifier: &Notifier, known: Vec<Key>) {
        if self.job.is_some() {
            self.again = true;
            return;
        }
        if self.fresh && !self.again {
            return;
        }
        self.again = false;
        let (sender, answers) = channel();
        let (fleet, notifier) = (self.fleet.clone(), notifier.clone());
        let thread = std::thread::Builder::new().name(format!("{} background", self.name()));
        let spawned = thread.spawn(move || {
            let answer = ask(&fleet, &[], known);
            // The receiver is gone when the watcher was dropped.
            let _gone = sender.send(answer);
            notifier.notify();
        });
        self.job = spawned.ok().map(|_| answers);
    }

    /// Returns the fault that is reported until the first answer.
    pub(super) fn pending(&self) -> Option<Fault> {
        let message = "it has not answered yet".to_owned();
        let fault = Fault { adapter: self.name(), root: None, code: FaultCode::Pending, message };
        self.answer.is_none().then_some(fault)
    }
}

/// Time that the first look waits for adapters in the background.
pub(super) const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_millis(250);

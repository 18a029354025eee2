//! The comparison of two looks, session by session.

use std::collections::{BTreeMap, BTreeSet};

use super::telling::{about, begun_id, edge_id, kind_of, over_id, process_text, started_id};
use super::tracked::{Held, Told, Tracked};
use super::{DOUBT_TIMEOUT, EndedLaunch, Key, LaunchInfo, LookupResult, Snapshot};
use crate::events::{Event, EventKind};
use crate::fleet;
use crate::model::{Fault, HomeScope, Session, Status, Time};

/// One comparison.
pub(super) struct Step<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) before: Time,
    /// The faults of the look before.
    pub(super) blind: &'a [Fault],
    /// No prompt is held back for its detail.
    pub(super) tells_at_once: bool,
    pub(super) events: Vec<Event>,
    pub(super) over: Vec<String>,
}

impl Step<'_> {
    /// Compares a session that the look before did not show.
    pub(super) fn appear(
        &mut self,
        key: &Key,
        session: Session,
        launch: Option<LaunchInfo>,
    ) -> Tracked {
        let mut next = Tracked::new(session, launch);
        if key.who.is_err() {
            // For a process without a session only `waiting` is reported.
            if next.session.status == Status::Waiting {
                self.tell(EventKind::Waiting, &mut next, self.snapshot.at);
            }
            return next;
        }
        let woke = self.was_there(key, &next.session);
        let mut at = self.snapshot.at;
        if !woke {
            let began = next.launch.as_ref().map(|launch| launch.began);
            at = began.unwrap_or_else(|| self.when(next.session.started_at));
            let id = match &next.launch {
                Some(launch) => begun_id(&launch.run),
                None => started_id(&next.session),
            };
            let event = about(EventKind::Started, id, at, &next.session, next.launch.as_ref());
            self.events.push(event);
            next.told_at = Some(at);
        }
        match next.session.status {
            Status::Running if !woke => {}
            // An unknown status is reported when it has lasted.
            Status::Unknown => {
                next.told = (!woke).then(Told::running);
                next.doubt = Some(self.snapshot.moment);
            }
            status => {
                let seen = self.when(next.session.last_activity_at).max(at);
                next.told = (!woke).then(Told::running);
                if !self.holds(&mut next, seen) {
                    self.tell(kind_of(status), &mut next, seen);
                    next.note_told();
                }
            }
        }
        next
    }

    /// Says whether a session that the look before did not show existed already: at rest in a remote server,
    /// whose resting sessions are not followed, or hidden by a fault.
    fn was_there(&self, key: &Key, session: &Session) -> bool {
        let before = session.started_at.is_none_or(|t| t < self.before);
        let remote = session.hosted && session.processes.is_empty();
        let rested = remote && session.started_at.is_some();
        before
            && (rested
                || self
                    .blind
                    .iter()
                    .any(|fault| fault.hides(key.adapter, HomeScope::One(&key.root))))
    }

    /// Compares a session that the look before showed too.
    pub(super) fn advance(
        &mut self,
        mut was: Tracked,
        session: Session,
        launch: Option<LaunchInfo>,
    ) -> Tracked {
        let written = session.last_activity_at != was.session.last_activity_at;
        if written {
            was.count = 0;
        }
        was.session = session;
        was.process = process_text(&was.session).unwrap_or(was.process);
        if was.session.status.is_live() && was.session.id.is_some() {
            self.change_launch(&mut was, launch);
        }
        let status = was.session.status;
        if status == Status::Unknown {
            let since = *was.doubt.get_or_insert(self.snapshot.moment);
            let short = self.snapshot.moment.saturating_duration_since(since) < DOUBT_TIMEOUT;
            let told = was.told.as_ref().is_some_and(|told| told.status == Status::Unknown);
            if told || short {
                return was;
            }
        } else {
            was.doubt = None;
        }
        let at = self.moment_of(&was, written);
        if status != Status::Waiting {
            self.release(&mut was);
        }
        // For a process without a session only `waiting` is reported.
        let worth_telling = was.session.id.is_some() || status == Status::Waiting;
        if !was.is_told() && worth_telling {
            if self.holds(&mut was, at) {
                return was;
            }
            // The prompt was held back for its detail. The entry with the detail dates it, if one was
            // written since; otherwise the time at which it was first seen.
            let held = was.held.take().filter(|_| !written);
            self.tell(kind_of(status), &mut was, held.map_or(at, |held| held.at));
        }
        was.held = None;
        was.note_told();
        was
    }

    /// Returns when the current status began.
    fn moment_of(&self, was: &Tracked, written: bool) -> Time {
        let session = &was.session;
        match session.status {
            Status::Stopped | Status::Error => session.ended_at.unwrap_or(self.snapshot.at),
            // An entry that is younger than the last event dates this one, also if the live source reports
            // the change a look later. An entry that has dated the last event dates no other one.
            Status::Waiting | Status::Idle => {
                let newest = session.last_activity_at.filter(|at| *at <= self.snapshot.until);
                let since = |at: &Time| written || was.told_at.is_some_and(|told| *at > told);
                newest.filter(since).unwrap_or_else(|| match was.told_at {
                    Some(_) => self.snapshot.at,
                    None => self.when(session.last_activity_at),
                })
            }
            Status::Running | Status::Unknown => self.snapshot.at,
        }
    }

    /// Holds a prompt back whose detail may follow; says whether it is held back.
    fn holds(&self, tracked: &mut Tracked, at: Time) -> bool {
        let session = &tracked.session;
        let bare = session.reason.as_ref().is_some_and(|reason| reason.detail.is_none());
        if session.status != Status::Waiting || session.id.is_none() || !bare || self.tells_at_once
        {
            return false;
        }
        let since = self.snapshot.moment;
        let held = || Held { since, at, session: session.clone() };
        let since = tracked.held.get_or_insert_with(held).since;
        self.snapshot.moment.saturating_duration_since(since) < DOUBT_TIMEOUT
    }

    /// Reports a prompt that was held back and is over without its detail.
    fn release(&mut self, tracked: &mut Tracked) {
        let Some(held) = tracked.held.take() else { return };
        let now = std::mem::replace(&mut tracked.session, held.session);
        self.tell(EventKind::Waiting, tracked, held.at);
        tracked.note_told();
        tracked.session = now;
    }

    /// Changes to another launch. The launch before is over, whether or not its end was seen.
    fn change_launch(&mut self, was: &mut Tracked, launch: Option<LaunchInfo>) {
        let run = |launch: &Option<LaunchInfo>| launch.as_ref().map(|launch| launch.run.clone());
        // A process without a launch may have been started by the launch before.
        let Some(launch) = launch.filter(|launch| Some(&launch.run) != run(&was.launch).as_ref())
        else {
            return;
        };
        let is_before = |ended: &&EndedLaunch| Some(&ended.launch.run) == run(&was.launch).as_ref();
        if let Some(ended) = self.snapshot.ended_launches.iter().find(is_before) {
            self.over.push(ended.launch.run.clone());
            self.events.push(ended.stopped());
        }
        let id = begun_id(&launch.run);
        let session = &was.session;
        self.events.push(about(EventKind::Started, id, launch.began, session, Some(&launch)));
        (was.told, was.held) = (Some(Told::running()), None);
        was.launch = Some(launch);
    }

    /// Decides about a session that is missing; returns its state if it is followed further.
    pub(super) fn settle(&mut self, key: &Key, mut was: Tracked) -> Option<Tracked> {
        let launch = was.launch.clone();
        if self.snapshot.unasked.contains(&key.adapter) {
            let session = was.session.clone();
            let unsettled = was.doubt.is_some() || was.held.is_some();
            return Some(if unsettled { self.advance(was, session, launch) } else { was });
        }
        // A process without a session that is missing has exited, or has a session now.
        key.who.as_ref().ok()?;
        match self.snapshot.named.get(key) {
            None | Some(LookupResult::Leaving) => Some(was),
            Some(LookupResult::Failed(why)) => {
                let session = fleet::unasked(was.session.clone(), why, self.snapshot.at);
                Some(self.advance(was, session, launch))
            }
            Some(LookupResult::Gone) => {
                was.session = fleet::forgotten(was.session, self.snapshot.at);
                let session = was.session.clone();
                self.end(was, session);
                None
            }
            Some(LookupResult::Seen(session)) => {
                let mut session = Session::clone(session);
                if session.status == Status::Unknown {
                    session = fleet::undecided(&was.session, session);
                }
                match session.status {
                    Status::Stopped | Status::Error => self.end(was, session),
                    _ if rests_elsewhere(&session) => drop(self.advance(was, session, launch)),
                    _ => return Some(self.advance(was, session, launch)),
                }
                None
            }
        }
    }

    fn end(&mut self, was: Tracked, session: Session) {
        let launch = was.launch.clone();
        self.over.extend(launch.as_ref().map(|launch| launch.run.clone()));
        self.advance(was, session, launch);
    }

    /// Reports launches that started and ended between two looks.
    pub(super) fn pass(
        &mut self,
        tracked: &BTreeMap<Key, Tracked>,
        begun: &BTreeSet<String>,
        over: &BTreeSet<String>,
    ) {
        for ended in &self.snapshot.ended_launches {
            let run = &ended.launch.run;
            let serves = |s: &Tracked| s.launch.as_ref().is_some_and(|launch| launch.run == *run);
            if over.contains(run) || self.over.contains(run) || tracked.values().any(serves) {
                continue;
            }
            if !begun.contains(run) {
                self.events.push(ended.started());
                self.events.push(ended.stopped());
            }
            self.over.push(run.clone());
        }
    }

    /// Returns the time that a source says, if it lies between the two looks; otherwise that of this look.
    fn when(&self, said: Option<Time>) -> Time {
        said.filter(|at| (self.before..=self.snapshot.until).contains(at))
            .unwrap_or(self.snapshot.at)
    }

    fn tell(&mut self, kind: EventKind, tracked: &mut Tracked, at: Time) {
        tracked.count += 1;
        tracked.told_at = Some(at);
        let session = &tracked.session;
        let ended = matches!(kind, EventKind::Stopped | EventKind::Error);
        let id = match &tracked.launch {
            Some(launch) if ended => over_id(launch),
            _ => edge_id(kind, tracked),
        };
        self.events.push(about(kind, id, at, session, tracked.launch.as_ref()));
    }
}

/// Says whether a session rests in a remote server: it is history there until it is continued, and the end
/// of the server does not end it.
fn rests_elsewhere(session: &Session) -> bool {
    session.status == Status::Idle && session.hosted && session.processes.is_empty()
}

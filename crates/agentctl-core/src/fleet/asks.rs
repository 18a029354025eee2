//! The asks of all live sessions, from the same look that decides their statuses.
//!
//! Every session that a list calls `waiting` has at least one ask, and no other session has one: asks are looked
//! for only after the status is decided, and a status without a readable ask becomes one that cannot be
//! answered from here.

use super::question::{Question, Row};
use super::{Fleet, Query, add_launches, each_adapter, each_root};
use crate::adapters::{Found, Store};
use crate::kernel::Kernel;
use crate::model::{Ask, AskKind, Fault, Session};

/// A waiting session and its asks.
#[derive(Clone, Debug)]
pub struct WaitingSession {
    /// The session.
    pub session: Session,
    /// Its asks: at least one.
    pub asks: Vec<Ask>,
}

/// Returns the waiting sessions that this query admits, with their asks, longest waiting first.
#[must_use]
pub fn asks(fleet: &Fleet, query: &Query) -> Found<WaitingSession> {
    let wanted = query.adapter.clone();
    let mut found = each_adapter(fleet, fleet.host.deadlines.live, move |adapter, look| {
        if wanted.as_deref().is_some_and(|only| only != adapter.name()) {
            return Found::default();
        }
        each_root(adapter, look, move |look, root| {
            let store = adapter.store(look, root);
            let live = store.live();
            let mut question = Question::new(adapter, look, root, store.as_ref(), live);
            question.add_living(None);
            question.add_unjoined(|_| true);
            question.confirm();
            let living = Query::default();
            question.rows.retain(|row| living.admits(&row.session));
            let asks = question.asks();
            let rows = std::mem::take(&mut question.rows).into_iter().zip(asks);
            let rows = rows.filter(|(_, asks)| !asks.is_empty());
            let rows = rows.map(|(row, asks)| WaitingSession { session: row.session, asks });
            Found { rows: rows.collect(), faults: question.faults, whole: true }
        })
    });
    let unread = add_words(fleet, &mut found.rows);
    found.faults.extend(unread);
    found.rows.retain(|row| query.admits(&row.session));
    found.rows.sort_by_key(|row| {
        let first = row.asks.first();
        (first.and_then(|ask| ask.since), first.map(|ask| ask.id.clone()))
    });
    found.faults.sort();
    found.faults.dedup();
    found
}

/// Sorts the asks of several sessions as [`asks`] returns them: the asks of one session stay together, and the session
/// that waits longest comes first.
pub fn sort_asks(asks: &mut [Ask]) {
    let session = |ask: &Ask| (ask.adapter, ask.root.clone(), ask.session_id.clone(), ask.pid);
    let mut firsts = std::collections::HashMap::new();
    for ask in asks.iter() {
        firsts.entry(session(ask)).or_insert_with(|| (ask.since, ask.id.clone()));
    }
    asks.sort_by_cached_key(|ask| firsts.get(&session(ask)).cloned());
}

/// Adds the names and groups, which filters use.
fn add_words(fleet: &Fleet, rows: &mut [WaitingSession]) -> Option<Fault> {
    let mut sessions: Vec<Session> = rows.iter().map(|row| row.session.clone()).collect();
    let unread = add_launches(fleet, &mut sessions);
    for (row, session) in rows.iter_mut().zip(sessions) {
        row.session = session;
    }
    unread
}

impl Question<'_> {
    /// Returns the asks of each row; none of a session that does not wait. A session that waited for nothing that can
    /// be read is looked at again: its ask may have been settled since its status was read.
    pub(super) fn asks(&mut self) -> Vec<Vec<Ask>> {
        let mut asks = self.read_asks(self.store, |_| true);
        let is_in_doubt = |(row, asks): (&Row, &Vec<Ask>)| asks.is_empty() && row.is_waiting();
        let doubts: Vec<bool> = self.rows.iter().zip(&asks).map(is_in_doubt).collect();
        if doubts.contains(&true) {
            self.confirm_these(&doubts);
            let store = self.adapter.store(self.look, self.root);
            let again = self.read_asks(store.as_ref(), |at| doubts[at]);
            for (asks, again) in asks.iter_mut().zip(again).filter(|(asks, _)| asks.is_empty()) {
                *asks = again;
            }
        }
        for (row, asks) in self.rows.iter().zip(&mut asks) {
            if asks.is_empty() && row.is_waiting() {
                asks.push(Ask::of(&row.session));
            }
            for ask in asks.iter_mut().filter(|ask| ask.via.is_none() && ask.why_not.is_none()) {
                ask.why_not = Some(why_not(&self.look.host.kernel, &row.session, ask.kind));
            }
        }
        asks
    }

    /// Reads the asks of the wanted rows that wait.
    fn read_asks(&mut self, store: &dyn Store, is_wanted: impl Fn(usize) -> bool) -> Vec<Vec<Ask>> {
        let mut faults = Vec::new();
        let asks = self.rows.iter().enumerate().map(|(at, row)| {
            if !row.is_waiting() || !is_wanted(at) {
                return Vec::new();
            }
            let found = store.asks(&row.session);
            faults.extend(found.faults);
            found.rows
        });
        let asks = asks.collect();
        self.faults.extend(faults);
        asks
    }
}

/// Says why an ask cannot be answered from here, and where it can be.
fn why_not(kernel: &Kernel, session: &Session, kind: AskKind) -> String {
    if kind == AskKind::Limit {
        return "no answer ends a usage limit: it ends by itself".into();
    }
    let mut serving = session.processes.iter().filter_map(|serving| {
        let process = kernel.process(serving.id.pid).ok().flatten()?;
        (process.id == serving.id && !process.elsewhere).then_some(process)
    });
    let terminal = serving.find_map(|process| kernel.terminal(&process));
    match terminal {
        Some(tty) => format!("it takes answers only in its own terminal ({})", tty.display()),
        None if session.processes.is_empty() => {
            "no process of this machine serves it: answer it where it runs".into()
        }
        None => "it has no terminal and no channel that takes answers".into(),
    }
}

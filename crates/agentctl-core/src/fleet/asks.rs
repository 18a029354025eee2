//! The asks of all live sessions, from the same look that decides their statuses.
//!
//! Every session that a list calls `waiting` has at least one ask, and no other session has one: asks are looked
//! for only after the status is decided, and a status without a readable ask becomes one that cannot be
//! answered from here.

use super::question::Question;
use super::{Fleet, Query, add_launches, each_adapter, each_root};
use crate::adapters::{Found, Look, Store};
use crate::kernel::Kernel;
use crate::model::{Ask, AskKind, Fault, Session, Status};

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
            let sessions: Vec<Session> = std::mem::take(&mut question.rows)
                .into_iter()
                .map(|row| row.session)
                .filter(|session| living.admits(session))
                .collect();
            let mut faults = std::mem::take(&mut question.faults);
            let rows = sessions.into_iter().filter_map(|session| {
                let asks = asks_of(look, store.as_ref(), &session, &mut faults);
                (!asks.is_empty()).then_some(WaitingSession { session, asks })
            });
            Found { rows: rows.collect(), faults, whole: true }
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

/// Returns the asks of one session; none unless it is waiting.
pub(super) fn asks_of(
    look: &Look,
    store: &dyn Store,
    session: &Session,
    faults: &mut Vec<Fault>,
) -> Vec<Ask> {
    if session.status != Status::Waiting {
        return Vec::new();
    }
    let found = store.asks(session);
    faults.extend(found.faults);
    let mut asks = found.rows;
    if asks.is_empty() {
        asks.push(Ask::of(session));
    }
    for ask in &mut asks {
        if ask.via.is_none() && ask.why_not.is_none() {
            ask.why_not = Some(why_not(&look.host.kernel, session, ask.kind));
        }
    }
    asks
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

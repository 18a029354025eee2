//! The sessions that changed between two lists. A changed age is no change.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

use agentctl_core::fleet::Rows;
use agentctl_core::model::{Outcome, Session, Status};

use super::session_reason;

/// The identity of a row over time: its agent, its home, and its id or its process.
type RowKey = (&'static str, String, Result<String, Option<u32>>);

/// Compares each list with the list before it.
#[derive(Default)]
pub struct ListChanges {
    /// The rows of the last list, with a hash of their shown fields; `None` before the first list.
    before: Option<HashMap<RowKey, (Status, u64)>>,
    order: Vec<u64>,
    changed: HashSet<RowKey>,
    /// The sessions of the last comparison that began to wait for a person.
    began_to_wait: Vec<Session>,
}

impl ListChanges {
    /// Compares a list with the list before it; says whether it differs. The changed rows of the last list that
    /// differed are remembered.
    pub fn compare(&mut self, list: &Rows) -> bool {
        let mut now = HashMap::new();
        let (mut order, mut changed, mut waiting) = (Vec::new(), HashSet::new(), Vec::new());
        for session in list.iter() {
            let (key, shown) = (key(&session), shown(&session));
            let last = self.before.as_ref().map(|before| before.get(&key));
            if last.is_some_and(|last| last.is_none_or(|(_, before)| *before != shown)) {
                changed.insert(key.clone());
                let waited = last.flatten().is_some_and(|(status, _)| *status == Status::Waiting);
                if session.status == Status::Waiting && !waited {
                    waiting.push(session.clone());
                }
            }
            order.push(shown);
            now.insert(key, (session.status, shown));
        }
        let is_other = self.before.is_none() || order != self.order;
        if is_other {
            (self.changed, self.order) = (changed, order);
        }
        self.began_to_wait = waiting;
        self.before = Some(now);
        is_other
    }

    /// Says whether a session was one of the last that changed.
    #[must_use]
    pub fn is_changed(&self, session: &Session) -> bool {
        self.changed.contains(&key(session))
    }

    /// Returns the sessions that began to wait for a person between the last two lists. This is the place for
    /// notifications of an interface that holds a terminal. The first list announces nothing.
    #[must_use]
    pub fn began_to_wait(&self) -> &[Session] {
        &self.began_to_wait
    }
}

fn key(session: &Session) -> RowKey {
    let id = session.id.clone().ok_or(session.pid);
    (session.adapter, session.root.clone(), id)
}

/// Returns a hash of the fields that a list shows, without times.
fn shown(session: &Session) -> u64 {
    let mut hasher = DefaultHasher::new();
    key(session).hash(&mut hasher);
    let outcome = session.outcome.map(Outcome::word);
    (session.status, outcome, session_reason(session)).hash(&mut hasher);
    (&session.name, &session.title, &session.cwd, &session.group).hash(&mut hasher);
    (&session.model, session.pid, &session.parent).hash(&mut hasher);
    hasher.finish()
}

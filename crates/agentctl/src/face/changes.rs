//! The sessions that changed between two lists. A changed age is no change.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use agentctl_core::fleet::Rows;
use agentctl_core::model::{Outcome, Session, Status};

use super::{RowChanges, session_reason};

/// The identity of a row over time: its agent, its home, and its id or its process.
type RowKey = (&'static str, String, Result<String, Option<u32>>);

/// Compares each list with the list before it.
#[derive(Default)]
pub struct ListChanges {
    rows: RowChanges<RowKey>,
    /// The statuses of the last list; `None` before the first list.
    statuses: Option<HashMap<RowKey, Status>>,
    /// The sessions of the last comparison that began to wait for a person.
    began_to_wait: Vec<Session>,
}

impl ListChanges {
    /// Compares a list with the list before it; says whether it differs. The changed rows of the last list that
    /// differed are remembered.
    pub fn compare(&mut self, list: &Rows) -> bool {
        let (mut rows, mut statuses) = (Vec::new(), HashMap::new());
        self.began_to_wait.clear();
        for session in list.iter() {
            let key = key(&session);
            let last = self.statuses.as_ref().map(|before| before.get(&key));
            let waited = last.is_none_or(|last| last == Some(&Status::Waiting));
            rows.push((key.clone(), shown(&session)));
            statuses.insert(key, session.status);
            if session.status == Status::Waiting && !waited {
                self.began_to_wait.push(session);
            }
        }
        self.statuses = Some(statuses);
        self.rows.compare(rows.into_iter())
    }

    /// Says whether a session was one of the last that changed.
    #[must_use]
    pub fn is_changed(&self, session: &Session) -> bool {
        self.rows.is_changed(&key(session))
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
    let outcome = session.outcome.map(Outcome::word);
    (session.status, outcome, session_reason(session)).hash(&mut hasher);
    (&session.name, &session.title, &session.cwd, &session.group).hash(&mut hasher);
    (&session.model, session.pid, &session.parent).hash(&mut hasher);
    hasher.finish()
}

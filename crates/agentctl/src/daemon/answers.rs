//! The answers on the socket: the functions that the commands call, on a thread that may block. Equal list
//! requests share one look, if that look begins after they arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_core::ask::{AsksRequest, Fleet};
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::kernel;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;

use crate::protocol::{AskListParams, Refusal};

/// Free memory that exceeds this after a large answer is given back. Less is kept: the next one needs it.
pub(super) const MAX_FREE_MEMORY_BYTES: u64 = 50 << 20;

/// An answer, or why there is none.
pub(super) type Answer = Result<Body, Refusal>;

/// The content of an answer.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// A document.
    Document(Box<RawValue>),
    /// A list, which is encoded when it is sent.
    List(Arc<Rows>),
}

/// The requests that wait for the next look with the same query.
type Waiting = Vec<oneshot::Sender<Arc<Rows>>>;

/// Answers questions.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    fleet: Fleet,
    /// The waiting requests of each list. An entry without requests is a look in progress.
    lists: Arc<Mutex<HashMap<Query, Waiting>>>,
}

impl Answers {
    /// Answers from this fleet.
    #[must_use]
    pub(super) fn new(fleet: Fleet) -> Self {
        Self { fleet, lists: Arc::default() }
    }

    /// Answers `session.list`.
    pub(super) async fn list(&self, query: Query) -> Answer {
        let (sender, answer) = oneshot::channel();
        let first = {
            let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
            match lists.get_mut(&query) {
                Some(waiting) => {
                    waiting.push(sender);
                    false
                }
                None => {
                    lists.insert(query.clone(), vec![sender]);
                    true
                }
            }
        };
        if first {
            let this = self.clone();
            // Not cancelled when this client disconnects: other requests may share the look.
            drop(tokio::task::spawn_blocking(move || this.look(&query)));
        }
        answer.await.map(Body::List).map_err(|_| lost())
    }

    /// Answers all waiting requests with one look, and repeats for requests that arrived during it.
    fn look(&self, query: &Query) {
        loop {
            let waiting = {
                let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
                match lists.get_mut(query) {
                    Some(waiting) if !waiting.is_empty() => std::mem::take(waiting),
                    _ => {
                        lists.remove(query);
                        return;
                    }
                }
            };
            let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let rows = Arc::new(self.fleet.rows(query));
                for asked in waiting {
                    // The client may have disconnected.
                    let _gone = asked.send(Arc::clone(&rows));
                }
            }));
            // After a panic, the dropped senders make the waiting requests fail.
            if looked.is_err() {
                continue;
            }
            if query.all {
                kernel::give_back_memory(MAX_FREE_MEMORY_BYTES);
            }
        }
    }

    /// Runs a question on a thread that may block.
    pub(super) async fn blocking(
        &self,
        question: impl FnOnce(&Fleet) -> Answer + Send + 'static,
    ) -> Answer {
        let fleet = self.fleet.clone();
        let asked = tokio::task::spawn_blocking(move || question(&fleet));
        asked.await.unwrap_or_else(|_| Err(lost()))
    }
}

/// Answers `ask.list`.
pub(super) fn asks(fleet: &Fleet, params: AskListParams) -> Answer {
    let select = params.session.into_iter().collect();
    let request = AsksRequest { select, adapter: params.adapter, ..AsksRequest::default() };
    match fleet.asks(&request) {
        Ok(document) => raw(&document),
        Err(unresolved) => {
            let message = format!("no single ask or session matches `{}`", unresolved.text);
            Err(Refusal::new(Refusal::PARAMS, message))
        }
    }
}

/// Serialises an answer.
pub(super) fn raw(value: &impl serde::Serialize) -> Answer {
    let failed = |error: serde_json::Error| Refusal::new(Refusal::INTERNAL, error.to_string());
    to_raw_value(value).map(Body::Document).map_err(failed)
}

fn lost() -> Refusal {
    Refusal::new(Refusal::INTERNAL, "the request was lost; try again")
}

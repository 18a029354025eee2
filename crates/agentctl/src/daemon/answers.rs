//! The answers on the socket: the functions that the commands call, on a thread that may block. Equal list
//! requests share one look, if that look begins after they arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_core::ask::{DaemonState, DoctorContext, Fleet, NoLogs, NotOne};
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::kernel;
use agentctl_core::transcript::TranscriptError;
use tokio::sync::oneshot;

use crate::config::Loaded;
use crate::protocol::{LogsParams, OneParams, Refusal};

/// Free memory that exceeds this after a large answer is given back. Less is kept: the next one needs it.
pub(super) const MEMORY_ENOUGH: u64 = 50 << 20;

/// An answer, or why there is none.
pub(super) type Answer = Result<Body, Refusal>;

/// The content of an answer.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// A document: JSON of one line.
    Document(Arc<str>),
    /// A list, which is encoded when it is sent.
    List(Arc<Rows>),
}

/// The requests that wait for the next look with the same query.
type Waiting = Vec<oneshot::Sender<Arc<Rows>>>;

/// Answers questions.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    fleet: Fleet,
    /// The settings of this daemon, for `doctor`.
    doctor_context: Arc<DoctorContext>,
    /// The waiting requests of each list. An entry without requests is a look in progress.
    lists: Arc<Mutex<HashMap<Query, Waiting>>>,
}

impl Answers {
    /// Answers with these settings.
    #[must_use]
    pub(super) fn new(loaded: &Loaded) -> Self {
        let doctor_context = Arc::new(loaded.doctor_context(DaemonState::Absent));
        Self { fleet: loaded.fleet(), doctor_context, lists: Arc::default() }
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
                kernel::give_back_memory(MEMORY_ENOUGH);
            }
        }
    }

    /// Answers `session.status`.
    pub(super) async fn status(&self, OneParams { id }: OneParams) -> Answer {
        self.blocking(move |fleet| {
            let found = fleet.session_document(&id).map_err(|not_one| unresolved(&id, &not_one));
            found.and_then(|found| raw(&found))
        })
        .await
    }

    /// Answers `session.why`.
    pub(super) async fn why(&self, OneParams { id }: OneParams) -> Answer {
        self.blocking(move |fleet| {
            let found = fleet.why(&id).map_err(|not_one| unresolved(&id, &not_one));
            found.and_then(|(document, _)| raw(&document))
        })
        .await
    }

    /// Answers `session.logs`.
    pub(super) async fn logs(&self, LogsParams { id, count }: LogsParams) -> Answer {
        self.blocking(move |fleet| match fleet.logs(&id, count) {
            Ok(logs) => raw(&logs),
            Err(NoLogs::NotOne(not_one)) => Err(unresolved(&id, &not_one)),
            Err(NoLogs::Unread(error @ TranscriptError::Hidden(_))) => {
                Err(Refusal::new(Refusal::UNKNOWN, error.to_string()))
            }
            Err(NoLogs::Unread(error)) => Err(Refusal::new(Refusal::INTERNAL, error.to_string())),
        })
        .await
    }

    /// Answers `run.list`.
    pub(super) async fn runs(&self) -> Answer {
        let failed = |error: std::io::Error| Refusal::new(Refusal::INTERNAL, error.to_string());
        self.blocking(move |fleet| fleet.runs().map_err(failed).and_then(|runs| raw(&runs))).await
    }

    /// Answers `machine.doctor`. `trouble` keeps this daemon from noticing changes by itself.
    pub(super) async fn doctor(&self, trouble: Option<String>) -> Answer {
        let mut context = DoctorContext::clone(&self.doctor_context);
        self.blocking(move |fleet| {
            context.daemon = DaemonState::Serves { version: context.version.clone(), trouble };
            raw(&fleet.doctor(&context))
        })
        .await
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

/// Serialises an answer.
pub(super) fn raw(value: &impl serde::Serialize) -> Answer {
    let text = serde_json::to_string(value);
    let failed = |error: serde_json::Error| Refusal::new(Refusal::INTERNAL, error.to_string());
    text.map(|text| Body::Document(text.into())).map_err(failed)
}

/// Says why a text names no single session, with a code for each reason.
fn unresolved(text: &str, not_one: &NotOne) -> Refusal {
    match not_one {
        NotOne::Nothing => Refusal::new(Refusal::NOT_FOUND, format!("no session matches `{text}`")),
        NotOne::Several { candidates, .. } => {
            let message = format!("`{text}` fits {} sessions", candidates.len());
            Refusal::new(Refusal::AMBIGUOUS, message)
        }
        NotOne::Unknown(_) | NotOne::Unreadable(_) => {
            Refusal::new(Refusal::UNKNOWN, format!("the state of `{text}` is unknown"))
        }
    }
}

fn lost() -> Refusal {
    Refusal::new(Refusal::INTERNAL, "the question was lost; ask again")
}

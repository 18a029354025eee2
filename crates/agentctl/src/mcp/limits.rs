//! The limits of the server: sizes of requests and results, and how many questions are answered at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::{Failure, Kind};

/// Longest text of a client that an error repeats.
pub(super) const MAX_ECHO_BYTES: usize = 200;
/// Resident memory above which free memory is given back after a call, and again once the server is at rest.
pub(super) const MAX_FREE_MEMORY_BYTES: u64 = 20 << 20;
/// Longest line of a client.
pub(super) const MAX_LINE_BYTES: usize = 4 << 20;
/// Sessions in one result, and how many there are without a limit in the request.
pub(super) const MAX_SESSIONS: usize = 200;
pub(super) const USUAL_SESSIONS: usize = 50;
/// Messages in one result, and how many there are without a number in the request.
pub(super) const MAX_MESSAGES: usize = 50;
pub(super) const USUAL_MESSAGES: usize = 10;
/// Characters of one text of a message.
pub(super) const MAX_TEXT_CHARS: usize = 2000;
/// Characters of one message with all its texts.
pub(super) const MAX_MESSAGE_CHARS: usize = 20_000;
/// Asks in one result.
pub(super) const MAX_ASKS: usize = 50;
/// Sessions that one call names.
pub(super) const MAX_IDS: usize = 20;
/// Longest wait. Clients give up on a call after about a minute.
pub(super) const MAX_WAIT_SECONDS: u64 = 50;
/// Time until a cancelled wait is noticed.
pub(super) const WAIT_SLICE: Duration = Duration::from_secs(5);

/// Questions that are answered at once. Each look reads on several threads of its own.
const MAX_QUESTIONS: usize = 8;
/// Orders that are carried out at once. They have permits of their own: a launch or a stop takes seconds, and must
/// not delay questions.
const MAX_ORDERS: usize = 8;
/// Waits at once: they sleep.
const MAX_WAITS: usize = 64;
/// How long a thread without work stays: its stack is given back with it.
pub(super) const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(1);
/// How long after the last call the server is at rest: the threads of that call have ended and freed their memory.
pub(super) const REST: Duration = Duration::from_millis(1200);
/// Threads for questions, orders, waits and the two standard streams.
pub(super) const MAX_THREADS: usize = MAX_QUESTIONS + MAX_ORDERS + MAX_WAITS + 8;

/// The permits of questions, orders and waits.
pub(super) struct Permits {
    questions: Arc<Semaphore>,
    orders: Arc<Semaphore>,
    waits: Arc<Semaphore>,
}

impl Permits {
    /// Makes all permits.
    pub(super) fn new() -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            questions: permits(MAX_QUESTIONS),
            orders: permits(MAX_ORDERS),
            waits: permits(MAX_WAITS),
        }
    }

    /// Waits for the permit of a question.
    pub(super) async fn question(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.questions).acquire_owned().await.ok()
    }

    /// Waits for the permit of an order.
    pub(super) async fn order(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.orders).acquire_owned().await.ok()
    }

    /// Returns the permit of a wait; a failure if too many are under way.
    pub(super) fn wait(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.waits).try_acquire_owned().map_err(|_| {
            let message =
                format!("{MAX_WAITS} calls of wait_for are under way, which is the limit");
            Failure::new(Kind::Refused, message).hint("name several sessions in one call")
        })
    }
}

/// Returns a number of a request, or the usual one; a failure if it is zero or above the limit.
pub(super) fn count(
    name: &str,
    given: Option<usize>,
    (usual, most): (usize, usize),
) -> Result<usize, Failure> {
    let count = given.unwrap_or(usual);
    if (1..=most).contains(&count) {
        return Ok(count);
    }
    let message = format!("`{name}` is {count}: it must be between 1 and {most}");
    Err(Failure::new(Kind::Usage, message).hint("call the tool again with a number in that range"))
}

/// Checks how many sessions a request names.
pub(super) fn ids(ids: &[String]) -> Result<(), Failure> {
    if (1..=MAX_IDS).contains(&ids.len()) {
        return Ok(());
    }
    let message = format!("`ids` names {} sessions: it must name 1 to {MAX_IDS}", ids.len());
    Err(Failure::new(Kind::Usage, message).hint("`list_sessions` shows the ids"))
}

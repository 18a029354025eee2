//! The homes of one adapter are asked at once, each on a thread of its own. A home that is late or panics
//! costs its own rows; the rows of the other homes are kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::abandoned_threads::{self, Ticket};
use super::{append, panic_text};
use crate::adapters::{Adapter, Found, Look, Root, fault};
use crate::kernel::deadline;
use crate::kernel::home_limit::{self, HomeLimit};
use crate::model::{Fault, FaultCode};

/// More homes that only processes name are not looked at: each costs a look at every process.
const MAX_NAMED_HOMES: usize = 64;
/// The most names and rows that are read of one home that only processes name, and of all such homes of an
/// adapter together. Each name costs memory, and a process can name any number of homes.
const NAMED_HOME_NAMES: usize = 10_000;
const NAMED_HOMES_NAMES: usize = 20_000;
/// A late home is given up before the deadline of the look, so that the rows of the other homes reach the
/// caller in time. The margin is this part of the time that is left, up to the limit below.
const RESERVE_SHARE: u32 = 8;
const MAX_RESERVE: Duration = Duration::from_millis(250);

type Answer<T> = (usize, std::thread::Result<Found<T>>);

/// Puts a question to every home of an adapter at once.
pub(crate) fn each_root<T: Send + 'static>(
    adapter: &'static dyn Adapter,
    look: &Look,
    question: impl Fn(&Look, &Root) -> Found<T> + Send + Sync + 'static,
) -> Found<T> {
    let (roots, left_out) = bounded_roots(adapter, look);
    let named = roots.iter().filter(|root| !root.is_known()).count();
    let share = NAMED_HOME_NAMES.min(NAMED_HOMES_NAMES / named.max(1));
    let question = move |look: &Look, root: &Root| {
        let _limit = home_limit::set((!root.is_known()).then_some(share));
        question(look, root)
    };
    let answers = match roots.as_slice() {
        [] => Vec::new(),
        [only] => vec![question(look, only)],
        several => ask(adapter, look, several, &Arc::new(question)),
    };
    let mut all = Found::default();
    if let Some(fault) = left_out {
        all.faults.push(fault);
        all.whole = false;
    }
    for found in answers {
        append(&mut all.rows, found.rows);
        all.faults.extend(found.faults);
        all.whole &= found.whole;
    }
    all
}

/// Limits what this thread reads of a home, until the value is dropped.
pub(crate) fn limited(root: &Root) -> HomeLimit {
    home_limit::set((!root.is_known()).then_some(NAMED_HOME_NAMES))
}

/// Returns the answer of every home, in the order of the homes.
fn ask<T: Send + 'static, Q>(
    adapter: &'static dyn Adapter,
    look: &Look,
    roots: &[Root],
    question: &Arc<Q>,
) -> Vec<Found<T>>
where
    Q: Fn(&Look, &Root) -> Found<T> + Send + Sync + 'static,
{
    let left = look.deadline.saturating_duration_since(Instant::now());
    let until = look.deadline.checked_sub((left / RESERVE_SHARE).min(MAX_RESERVE));
    let until = until.unwrap_or(look.deadline);
    let failed = |at: usize, code, why: String| {
        let message = format!("{why}; its sessions are missing");
        Found::fault(fault(adapter.name(), &roots[at], code, message))
    };
    let mut answers: Vec<Option<Found<T>>> = roots.iter().map(|_| None).collect();
    let mut pending: Vec<(usize, Ticket)> = Vec::new();
    let (sender, heard) = channel();
    for (at, root) in roots.iter().enumerate() {
        let count = abandoned_threads::count_of(adapter.name(), Some(&root.label()));
        if count.load(Ordering::SeqCst) > 0 {
            answers[at] =
                Some(failed(at, FaultCode::Timeout, "an earlier request still hangs".into()));
            continue;
        }
        let ticket = Ticket::new(count);
        let asked = Asked { look: look.clone(), root: root.clone(), at, ticket: ticket.clone() };
        match asked.spawn(adapter, Arc::clone(question), sender.clone()) {
            Ok(()) => pending.push((at, ticket)),
            Err(error) => answers[at] = Some(failed(at, FaultCode::Failed, error.to_string())),
        }
    }
    drop(sender);
    while !pending.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        let Ok((at, answer)) = heard.recv_timeout(left) else { break };
        pending.retain(|(asked, _)| *asked != at);
        let panicked = |panic: Box<dyn std::any::Any + Send>| {
            failed(at, FaultCode::Panicked, format!("it panicked: {}", panic_text(panic.as_ref())))
        };
        answers[at] = Some(answer.unwrap_or_else(panicked));
    }
    for (at, ticket) in pending {
        ticket.give_up();
        answers[at] = Some(failed(at, FaultCode::Timeout, "it did not answer in time".into()));
    }
    answers.into_iter().flatten().collect()
}

/// One home that is asked.
struct Asked {
    look: Look,
    root: Root,
    at: usize,
    ticket: Ticket,
}

impl Asked {
    fn spawn<T: Send + 'static, Q>(
        self,
        adapter: &'static dyn Adapter,
        question: Arc<Q>,
        sender: Sender<Answer<T>>,
    ) -> std::io::Result<()>
    where
        Q: Fn(&Look, &Root) -> Found<T> + Send + Sync + 'static,
    {
        let thread = std::thread::Builder::new().name(adapter.name().to_owned());
        let spawned = thread.spawn(move || {
            deadline::set(self.look.deadline);
            let answer = catch_unwind(AssertUnwindSafe(|| question(&self.look, &self.root)));
            // An answer that comes too late has no receiver any more.
            let _too_late = sender.send((self.at, answer));
            self.ticket.end();
        });
        spawned.map(drop)
    }
}

/// Returns the homes of an adapter. Of those that only processes name, the ones with the oldest processes
/// are kept, so that a crowd of new processes hides none that was there before.
fn bounded_roots(adapter: &'static dyn Adapter, look: &Look) -> (Vec<Root>, Option<Fault>) {
    let (mut roots, mut named): (Vec<Root>, Vec<Root>) =
        adapter.roots(look).into_iter().partition(Root::is_known);
    if named.len() <= MAX_NAMED_HOMES {
        roots.append(&mut named);
        return (roots, None);
    }
    named.sort_by_key(|root| root.named_by.iter().map(|id| (id.start_ticks, id.pid)).min());
    let many = named.len();
    named.truncate(MAX_NAMED_HOMES);
    roots.append(&mut named);
    let message = format!(
        "its processes name {many} homes that are not configured; only {MAX_NAMED_HOMES} of them were \
         looked at (add the others to [roots])"
    );
    (roots, Some(Fault { adapter: adapter.name(), root: None, code: FaultCode::Skipped, message }))
}

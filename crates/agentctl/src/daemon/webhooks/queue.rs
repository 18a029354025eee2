//! The queue of one endpoint: ordered, bounded, each entry with the time of its next try.
//!
//! Unreachable endpoint: backoff for the whole queue. Endpoint that answers and refuses one event: backoff for
//! that event only, the others are sent meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};

use super::Ticket;

/// Intervals and limits of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Interval between the first try and the second; doubles with each try.
    pub first_interval: Duration,
    /// Maximum interval between two tries.
    pub max_interval: Duration,
    /// Time from the offer to the last try. Time during which the machine is suspended does not count.
    pub span: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_interval: Duration::from_secs(1),
            max_interval: Duration::from_mins(10),
            span: Duration::from_hours(24),
        }
    }
}

impl RetryPolicy {
    /// Returns the interval after the given number of tries, with random jitter.
    #[must_use]
    pub fn wait(self, tries: u32) -> Duration {
        let mut random = [0];
        // Without random bytes there is no jitter.
        let _no_jitter = SystemRandom::new().fill(&mut random);
        self.with_jitter(tries, random[0])
    }

    /// Returns between half of the interval and all of it, so that endpoints that failed together are not
    /// retried together.
    fn with_jitter(self, tries: u32, random: u8) -> Duration {
        let doublings = tries.saturating_sub(1).min(20);
        let whole = self.first_interval.saturating_mul(1 << doublings).min(self.max_interval);
        whole / 2 + (whole / 2).saturating_mul(u32::from(random)) / 255
    }
}

/// One event in the queue of one endpoint.
pub(super) struct Entry {
    pub(super) ticket: Arc<Ticket>,
    pub(super) attempts: u32,
    offered: Instant,
    number: u64,
    due: Option<Instant>,
}

impl Entry {
    pub(super) fn new(ticket: Arc<Ticket>) -> Self {
        Self { ticket, attempts: 0, offered: Instant::now(), number: 0, due: None }
    }

    pub(super) fn age(&self) -> Duration {
        self.offered.elapsed()
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Entry>,
    sending: usize,
    next_number: u64,
    /// How often in a row the endpoint was unreachable.
    unreachable: u32,
    /// No event is tried before this time.
    backoff_until: Option<Instant>,
    /// The deadline after a close. Until then only events that were never tried are tried.
    closed: Option<Instant>,
    ended: bool,
}

pub(super) struct Queue {
    max_entries: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// Marks the queue as ended when the thread returns or panics.
pub(super) struct EndGuard<'a>(&'a Queue);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.state().ended = true;
        self.0.changed.notify_all();
    }
}

impl Queue {
    pub(super) fn new(max_entries: usize) -> Self {
        Self { max_entries, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry; returns the oldest entry if the queue is full.
    pub(super) fn offer(&self, mut entry: Entry) -> Option<Entry> {
        let mut state = self.state();
        entry.number = state.next_number;
        state.next_number += 1;
        state.waiting.push_back(entry);
        self.changed.notify_all();
        self.overflow(&mut state)
    }

    fn overflow(&self, state: &mut State) -> Option<Entry> {
        if state.waiting.len() > self.max_entries { state.waiting.pop_front() } else { None }
    }

    /// Returns the number of entries, including the one being sent.
    pub(super) fn len(&self) -> usize {
        let state = self.state();
        state.waiting.len() + state.sending
    }

    /// Waits until an entry is due and takes it out; `None` after the queue was closed.
    pub(super) fn next(&self) -> Option<Entry> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let over = state.closed.is_some();
            if state.closed.is_some_and(|until| until <= now || state.backoff_until.is_some()) {
                return None;
            }
            let backoff = state.backoff_until.filter(|until| *until > now);
            let due = |entry: &Entry| entry.due.is_none_or(|due| !over && due <= now);
            let ready = if backoff.is_none() { state.waiting.iter().position(due) } else { None };
            if let Some(at) = ready {
                state.sending += 1;
                return state.waiting.remove(at);
            }
            if over {
                return None;
            }
            let soonest = state.waiting.iter().filter_map(|e| e.due.or(Some(now))).min();
            let wake = soonest.map(|soonest| backoff.map_or(soonest, |until| until.max(soonest)));
            state = match wake {
                Some(wake) => {
                    let left = wake.saturating_duration_since(now);
                    let woken = self.changed.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Forgets the entry being sent: it was delivered or given up.
    pub(super) fn done(&self) {
        self.state().sending = 0;
    }

    /// Puts the entry being sent back to its old place, due after `wait`. Returns the oldest entry if the
    /// queue is full.
    pub(super) fn retry(&self, mut entry: Entry, wait: Duration) -> Option<Entry> {
        let mut state = self.state();
        state.sending = 0;
        entry.attempts += 1;
        entry.due = Some(Instant::now() + wait);
        let place = state.waiting.partition_point(|e| e.number < entry.number);
        state.waiting.insert(place, entry);
        self.overflow(&mut state)
    }

    /// Ends the backoff of the endpoint: it has answered.
    pub(super) fn answered(&self) {
        let mut state = self.state();
        (state.unreachable, state.backoff_until) = (0, None);
    }

    /// Starts a backoff of the whole endpoint, for `least` at least.
    pub(super) fn back_off(&self, retry: RetryPolicy, least: Duration) {
        let mut state = self.state();
        state.unreachable = state.unreachable.saturating_add(1);
        state.backoff_until = Some(Instant::now() + retry.wait(state.unreachable).max(least));
    }

    pub(super) fn close(&self, until: Instant) {
        let mut state = self.state();
        state.closed = Some(state.closed.map_or(until, |earlier| earlier.min(until)));
        self.changed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed.is_some()
    }

    pub(super) fn end_guard(&self) -> EndGuard<'_> {
        EndGuard(self)
    }

    /// Waits until the thread has ended, or until the deadline; says whether it has ended.
    pub(super) fn has_ended(&self, until: Instant) -> bool {
        let mut state = self.state();
        while !state.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_from_a_second_to_ten_minutes_with_jitter_of_at_most_half() {
        let retry = RetryPolicy::default();
        let longest: Vec<u64> = (1..=13).map(|n| retry.with_jitter(n, 255).as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]);
        for tries in [1, 2, 10, 40, u32::MAX] {
            let (least, most) = (retry.with_jitter(tries, 0), retry.with_jitter(tries, 255));
            assert_eq!(least, most / 2);
            let interval = retry.wait(tries);
            assert!(least <= interval && interval <= most, "{interval:?}");
        }
    }
}

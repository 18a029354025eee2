//! What waits for one endpoint: in order, bounded, each with its next time to be tried.
//!
//! An endpoint that cannot be reached is left alone as a whole; one that answers and refuses an event
//! is given the others meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};

use super::Ticket;

/// How often and how long it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Between the first try and the second; doubled each time.
    pub first: Duration,
    /// Between two tries at most.
    pub most: Duration,
    /// From the offer to the last try, of the time this machine is awake.
    pub span: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            most: Duration::from_mins(10),
            span: Duration::from_hours(24),
        }
    }
}

impl Pace {
    /// Returns how long to wait after so many tries.
    #[must_use]
    pub fn wait(self, tries: u32) -> Duration {
        let mut dice = [0];
        // Without luck all wait equally long.
        let _unlucky = SystemRandom::new().fill(&mut dice);
        self.by_luck(tries, dice[0])
    }

    /// Somewhere between the half and the whole of what is due, by luck: endpoints that fell together
    /// are not asked together.
    fn by_luck(self, tries: u32, dice: u8) -> Duration {
        let doublings = tries.saturating_sub(1).min(20);
        let whole = self.first.saturating_mul(1 << doublings).min(self.most);
        whole / 2 + (whole / 2).saturating_mul(u32::from(dice)) / 255
    }
}

/// One event on its way to one endpoint.
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
    on_its_way: usize,
    next_number: u64,
    /// How often in a row it could not be reached, and until when it is left alone.
    silent: u32,
    rest: Option<Instant>,
    /// It is over then: until then only what was never tried is tried.
    closed: Option<Instant>,
    ended: bool,
}

pub(super) struct Queue {
    most: usize,
    state: Mutex<State>,
    bell: Condvar,
}

/// Says on its way out that the thread is gone, however it went.
pub(super) struct Leaving<'a>(&'a Queue);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.state().ended = true;
        self.0.bell.notify_all();
    }
}

impl Queue {
    pub(super) fn new(most: usize) -> Self {
        Self { most, state: Mutex::default(), bell: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one more; returns the oldest when there is no room.
    pub(super) fn offer(&self, mut entry: Entry) -> Option<Entry> {
        let mut state = self.state();
        entry.number = state.next_number;
        state.next_number += 1;
        state.waiting.push_back(entry);
        self.bell.notify_all();
        self.overflow(&mut state)
    }

    fn overflow(&self, state: &mut State) -> Option<Entry> {
        if state.waiting.len() > self.most { state.waiting.pop_front() } else { None }
    }

    /// How many wait or are on their way.
    pub(super) fn len(&self) -> usize {
        let state = self.state();
        state.waiting.len() + state.on_its_way
    }

    /// Waits until one is due and takes it out; `None` when it is over.
    pub(super) fn next(&self) -> Option<Entry> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let over = state.closed.is_some();
            if state.closed.is_some_and(|until| until <= now || state.rest.is_some()) {
                return None;
            }
            let resting = state.rest.filter(|rest| *rest > now);
            let due = |entry: &Entry| entry.due.is_none_or(|due| !over && due <= now);
            let ready = if resting.is_none() { state.waiting.iter().position(due) } else { None };
            if let Some(at) = ready {
                state.on_its_way += 1;
                return state.waiting.remove(at);
            }
            if over {
                return None;
            }
            let soonest = state.waiting.iter().filter_map(|e| e.due.or(Some(now))).min();
            let wake = soonest.map(|soonest| resting.map_or(soonest, |rest| rest.max(soonest)));
            state = match wake {
                Some(wake) => {
                    let left = wake.saturating_duration_since(now);
                    let woken = self.bell.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.bell.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// What was on its way is done with.
    pub(super) fn done(&self) {
        self.state().on_its_way = 0;
    }

    /// What was on its way is tried again after this long, in its old place. Returns the oldest when
    /// there is no room.
    pub(super) fn again(&self, mut entry: Entry, wait: Duration) -> Option<Entry> {
        let mut state = self.state();
        state.on_its_way = 0;
        entry.attempts += 1;
        entry.due = Some(Instant::now() + wait);
        let place = state.waiting.partition_point(|e| e.number < entry.number);
        state.waiting.insert(place, entry);
        self.overflow(&mut state)
    }

    /// The endpoint is there, whatever it said.
    pub(super) fn answered(&self) {
        let mut state = self.state();
        (state.silent, state.rest) = (0, None);
    }

    /// The endpoint takes nothing: nothing is tried for a while, and for this long at least.
    pub(super) fn rest(&self, pace: Pace, least: Duration) {
        let mut state = self.state();
        state.silent = state.silent.saturating_add(1);
        state.rest = Some(Instant::now() + pace.wait(state.silent).max(least));
    }

    pub(super) fn close(&self, until: Instant) {
        let mut state = self.state();
        state.closed = Some(state.closed.map_or(until, |earlier| earlier.min(until)));
        self.bell.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed.is_some()
    }

    pub(super) fn leaving(&self) -> Leaving<'_> {
        Leaving(self)
    }

    /// Waits until the thread has left; says whether it has by then.
    pub(super) fn has_ended(&self, until: Instant) -> bool {
        let mut state = self.state();
        while !state.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let woken = self.bell.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_a_second_to_ten_minutes_and_luck_takes_half_at_most() {
        let pace = Pace::default();
        let longest: Vec<u64> = (1..=13).map(|n| pace.by_luck(n, 255).as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]);
        for tries in [1, 2, 10, 40, u32::MAX] {
            let (least, most) = (pace.by_luck(tries, 0), pace.by_luck(tries, 255));
            assert_eq!(least, most / 2);
            let thrown = pace.wait(tries);
            assert!(least <= thrown && thrown <= most, "{thrown:?}");
        }
    }
}

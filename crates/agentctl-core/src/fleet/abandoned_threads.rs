//! The number of threads that were given up and still hang in a read which cannot be cancelled.
//!
//! The caller gives a thread up at the deadline, and the thread may end at the same moment. The count is
//! correct in either order: a thread counts while it is given up and has not ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the count of one adapter, or of one of its homes: a source that hangs for good costs only itself.
pub(super) fn count_of(adapter: &'static str, home: Option<&str>) -> Arc<AtomicUsize> {
    type Counts = BTreeMap<(&'static str, Option<String>), Arc<AtomicUsize>>;
    static COUNTS: Mutex<Counts> = Mutex::new(BTreeMap::new());
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    // A thread that has not ended holds its count; every other count is zero.
    counts.retain(|_, count| Arc::strong_count(count) > 1);
    Arc::clone(counts.entry((adapter, home.map(str::to_owned))).or_default())
}

/// The state that the caller and the thread of one question share.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    settled: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
}

impl Ticket {
    /// Makes the ticket of a question that is about to be asked.
    pub(super) fn new(count: Arc<AtomicUsize>) -> Self {
        Self { settled: Arc::default(), count }
    }

    /// Records that the caller waits no longer.
    pub(super) fn give_up(&self) {
        // The count is raised first, so that the thread cannot lower it before.
        self.count.fetch_add(1, Ordering::SeqCst);
        self.settle();
    }

    /// Records that the thread has ended.
    pub(super) fn end(&self) {
        self.settle();
    }

    /// The second of the two calls lowers the count.
    fn settle(&self) {
        if self.settled.swap(true, Ordering::SeqCst) {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_thread_counts_while_it_is_given_up_and_has_not_ended() {
        let shared: Arc<AtomicUsize> = Arc::default();
        let count = || shared.load(Ordering::SeqCst);
        let in_time = Ticket::new(Arc::clone(&shared));
        in_time.end();
        assert_eq!(count(), 0);

        let late = Ticket::new(Arc::clone(&shared));
        late.give_up();
        assert_eq!(count(), 1);
        late.end();
        assert_eq!(count(), 0);

        let just_ended = Ticket::new(Arc::clone(&shared));
        just_ended.end();
        just_ended.give_up();
        assert_eq!(count(), 0, "it ended before it was given up");
    }

    #[test]
    fn in_the_very_moment_too() {
        let shared: Arc<AtomicUsize> = Arc::default();
        for _ in 0..500 {
            let (ticket, start) = (Ticket::new(Arc::clone(&shared)), Barrier::new(2));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    ticket.end();
                });
                start.wait();
                ticket.give_up();
            });
            assert_eq!(shared.load(Ordering::SeqCst), 0);
        }
    }
}

//! Ctrl-C while orders are under way: the first one waits for them, the second one leaves at once.
//!
//! The thread of the signals asks, so that a second Ctrl-C also leaves while the thread that draws is stuck.

use std::sync::atomic::{AtomicBool, Ordering};

/// The state of the orders, as the thread of the signals sees it.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    /// An order is under way.
    is_delivering: AtomicBool,
    /// A Ctrl-C waits for the orders.
    has_stayed: AtomicBool,
}

impl Interrupts {
    /// Takes note of the orders after a message. A failed order keeps `top`, so the next Ctrl-C is a first one again.
    pub(crate) fn note(&self, is_delivering: bool, is_leaving: bool) {
        self.is_delivering.store(is_delivering, Ordering::SeqCst);
        if !is_leaving {
            self.has_stayed.store(false, Ordering::SeqCst);
        }
    }

    /// Takes note of a Ctrl-C, and says whether `top` stays until the orders are done.
    pub(crate) fn stays(&self) -> bool {
        self.is_delivering.load(Ordering::SeqCst) && !self.has_stayed.swap(true, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_is_waited_for_once() {
        let interrupts = Interrupts::default();
        assert!(!interrupts.stays(), "nothing is under way");
        interrupts.note(true, false);
        assert!(interrupts.stays() && !interrupts.stays(), "the second Ctrl-C leaves");
        interrupts.note(true, true);
        assert!(!interrupts.stays(), "a message in between changes nothing");
        // The order has failed, and another one is given.
        interrupts.note(false, false);
        assert!(!interrupts.stays());
        interrupts.note(true, false);
        assert!(interrupts.stays() && !interrupts.stays());
    }
}

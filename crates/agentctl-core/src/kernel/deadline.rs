//! The deadline of the question that a thread answers.
//!
//! A thread that nobody waits for any more cannot be ended from outside. So whatever may read for long asks
//! here whether anybody still waits, and ends by itself when nobody does.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Sets the deadline of everything that this thread does from now on.
pub fn set(until: Instant) {
    UNTIL.set(Some(until));
}

/// Says whether the deadline has passed; a thread without one may take its time.
#[must_use]
pub fn has_passed() -> bool {
    UNTIL.get().is_some_and(|until| Instant::now() >= until)
}

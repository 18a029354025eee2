//! The deadline of the question that a thread answers.
//!
//! A thread cannot be ended from outside. So every function that may read for long checks the deadline
//! here, and ends by itself when it has passed.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

thread_local! {
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Sets the deadline of everything that this thread does from now on.
pub fn set(until: Instant) {
    UNTIL.set(Some(until));
}

/// Returns the time that is left; `None` for a thread without a deadline.
#[must_use]
pub fn left() -> Option<Duration> {
    UNTIL.get().map(|until| until.saturating_duration_since(Instant::now()))
}

/// Returns an error if the deadline has passed.
pub fn check() -> io::Result<()> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "there was no time left to read it");
    if has_passed() { Err(late()) } else { Ok(()) }
}

/// Says whether the deadline has passed; never for a thread without one.
#[must_use]
pub fn has_passed() -> bool {
    UNTIL.get().is_some_and(|until| Instant::now() >= until)
}

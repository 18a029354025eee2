//! The number of names and rows that a thread may still read of the home that it is asked about.
//!
//! Any process can name a home and fill it. A home that only a process names is read up to a limit, so
//! that such homes together cost little memory, and hide no session of the homes that the user's
//! settings name.

use std::cell::Cell;

thread_local! {
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The fault's text when the limit is reached.
pub const TOO_MANY: &str = "it holds more than is read of a home that only a process names; add the home \
                            to [roots] to read it whole";

/// The limit of this thread, until it is dropped.
#[derive(Debug)]
pub struct HomeLimit {
    before: Option<usize>,
}

/// Limits the names and rows that this thread reads; `None` is no limit.
#[must_use]
pub fn set(most: Option<usize>) -> HomeLimit {
    HomeLimit { before: LEFT.replace(most) }
}

impl Drop for HomeLimit {
    fn drop(&mut self) {
        LEFT.set(self.before);
    }
}

/// Returns how many names and rows may still be read; `None` is no limit.
#[must_use]
pub fn left() -> Option<usize> {
    LEFT.get()
}

/// Counts one name or row; says whether it may be read.
#[must_use]
pub fn take() -> bool {
    let left = LEFT.get();
    LEFT.set(left.map(|left| left.saturating_sub(1)));
    left != Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_and_ends_with_its_value() {
        assert!(take(), "without a limit");
        let limit = set(Some(2));
        assert_eq!([take(), take(), take(), take()], [true, true, false, false]);
        drop(limit);
        assert!(take());
    }
}

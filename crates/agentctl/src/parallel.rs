//! Splits work on thousands of items over all cores.

use std::ops::Range;
use std::thread::{ScopedJoinHandle, available_parallelism, scope};

/// Minimum number of items per thread; for fewer, starting a thread costs more than it saves.
const MIN_ITEMS_PER_THREAD: usize = 512;
const MAX_THREADS: usize = 8;

/// Splits `0..count` into ranges, calls `part` for each on its own thread, and returns the results in the
/// order of the ranges.
pub fn in_parts<T: Send>(count: usize, part: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    if count <= MIN_ITEMS_PER_THREAD {
        return vec![part(0..count)];
    }
    let cores = available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let share = count.div_ceil(cores).max(MIN_ITEMS_PER_THREAD);
    let range = |from: usize| from..count.min(from + share);
    let part = &part;
    scope(|scope| {
        let others: Vec<_> = (share..count)
            .step_by(share)
            .map(|from| scope.spawn(move || part(range(from))))
            .collect();
        let first = part(range(0));
        let others = others.into_iter().map(ScopedJoinHandle::join);
        let others = others.map(|done| done.unwrap_or_else(|p| std::panic::resume_unwind(p)));
        std::iter::once(first).chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_out_and_the_order_is_kept() {
        for count in [0, 1, 511, 512, 513, 1024, 5000, 100_001] {
            let all: Vec<usize> = in_parts(count, Iterator::collect::<Vec<_>>).concat();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }
}

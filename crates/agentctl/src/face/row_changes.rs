//! The rows that changed between two lists of any kind.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Compares each list with the list before it. A row has a key, which stays the same over time, and a hash of its
/// shown values.
pub struct RowChanges<K> {
    /// The rows of the last list, in order; `None` before the first list.
    before: Option<Vec<(K, u64)>>,
    changed: HashSet<K>,
}

impl<K> Default for RowChanges<K> {
    fn default() -> Self {
        Self { before: None, changed: HashSet::new() }
    }
}

impl<K: Eq + Hash + Clone> RowChanges<K> {
    /// Compares a list with the list before it; says whether it differs. The changed rows of the last list that
    /// differed are remembered. The first list differs, and none of its rows is changed.
    pub fn compare(&mut self, rows: impl Iterator<Item = (K, u64)>) -> bool {
        let now: Vec<(K, u64)> = rows.collect();
        if self.before.as_ref() == Some(&now) {
            return false;
        }
        self.changed.clear();
        if let Some(before) = &self.before {
            let before: HashMap<&K, u64> =
                before.iter().map(|(key, shown)| (key, *shown)).collect();
            let changed = now.iter().filter(|(key, shown)| before.get(key) != Some(shown));
            self.changed.extend(changed.map(|(key, _)| key.clone()));
        }
        self.before = Some(now);
        true
    }

    /// Says whether a row was one of the last that changed.
    #[must_use]
    pub fn is_changed(&self, key: &K) -> bool {
        self.changed.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_changed_rows_stay_marked_until_the_list_differs_again() {
        let mut changes = RowChanges::default();
        assert!(changes.compare([("a", 1), ("b", 1)].into_iter()));
        assert!(!changes.is_changed(&"a"), "the first list announces nothing");
        assert!(changes.compare([("b", 2), ("a", 1), ("c", 1)].into_iter()));
        assert!(!changes.compare([("b", 2), ("a", 1), ("c", 1)].into_iter()));
        let changed = ["a", "b", "c"].map(|key| changes.is_changed(&key));
        assert_eq!(changed, [false, true, true]);
        assert!(changes.compare([("a", 1), ("b", 2), ("c", 1)].into_iter()), "another order");
        assert!(!changes.is_changed(&"b"));
    }
}

//! How much of each id a table shows: as much as the resolver needs to find the session again.

use std::collections::HashSet;

/// Fewest characters of an id that are shown.
const FEWEST: usize = 8;

/// The texts that may be typed for a session.
pub(super) struct Typed<'a> {
    /// The ids that a prefix is compared with, sorted, each once and behind its [`sort_key`].
    ids: Vec<(u128, &'a str)>,
    /// The names that win over a prefix.
    names: HashSet<&'a str>,
}

impl<'a> Typed<'a> {
    pub(super) fn new(ids: impl Iterator<Item = &'a str>, names: HashSet<&'a str>) -> Self {
        let mut ids: Vec<(u128, &str)> = ids.map(|id| (sort_key(id), id)).collect();
        ids.sort_unstable();
        ids.dedup();
        Self { ids, names }
    }

    /// Returns how many bytes of an id fit no other id and are no name.
    pub(super) fn length(&self, id: &str) -> usize {
        let common = |other: Option<&(u128, &str)>| {
            other.map_or(0, |(_, other)| {
                id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
            })
        };
        let keyed = (sort_key(id), id);
        let at = self.ids.partition_point(|other| *other < keyed);
        let next = if self.ids.get(at) == Some(&keyed) { at + 1 } else { at };
        let before = at.checked_sub(1).and_then(|before| self.ids.get(before));
        let mut length = (common(before).max(common(self.ids.get(next))) + 1).max(FEWEST);
        while id.get(..length).is_some_and(|text| self.names.contains(text)) {
            length += 1;
        }
        length.min(id.len())
    }
}

/// Returns the first bytes of an id as a number that sorts like the id: most ids differ there, and numbers are
/// compared without reading the texts.
fn sort_key(id: &str) -> u128 {
    let mut first = [0; 16];
    let length = id.len().min(first.len());
    first[..length].copy_from_slice(&id.as_bytes()[..length]);
    u128::from_be_bytes(first)
}

/// Shortens ids that are compared only with each other.
#[must_use]
pub fn unique_prefixes<'a>(ids: &[&'a str]) -> Vec<&'a str> {
    let typed = Typed::new(ids.iter().copied(), HashSet::new());
    ids.iter().map(|id| id.get(..typed.length(id)).unwrap_or(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_up_to_its_first_difference() {
        let ids = ["01a1de42-aa", "01a1de42-ab", "01a1de42", "ffffffff-1", "dead-beef-1"];
        let typed = Typed::new(ids.iter().copied(), HashSet::from(["ffffffff"]));
        let shown: Vec<&str> = ids.iter().map(|id| &id[..typed.length(id)]).collect();
        assert_eq!(shown, ["01a1de42-aa", "01a1de42-ab", "01a1de42", "ffffffff-", "dead-bee"]);
        assert_eq!(typed.length("01a1de43-1"), 8, "an id that is not in the list");
        assert_eq!(typed.length("short"), 5);
    }

    #[test]
    fn ids_sort_by_their_key_as_by_their_text() {
        let long = "01a1de42-1cbc-7bc0";
        let mut ids = vec!["", "\0", "a", "a\0", "a\0b", "ab", "ö", "01a1de42-1cbc-7b", long];
        ids.extend(["01a1de42-1cbc-7bc0-8847", "01a1de42-1cbc-7bc1"]);
        let mut by_key = ids.clone();
        by_key.sort_unstable_by_key(|id| (sort_key(id), *id));
        ids.sort_unstable();
        assert_eq!(by_key, ids);
        let typed = Typed::new([long, "01a1de42-1cbc-7bc0-8847", long].into_iter(), HashSet::new());
        assert_eq!(typed.length("01a1de42-1cbc-7bc0-8847"), long.len() + 1);
        assert_eq!(typed.length("01a1de42-1cbc-7bc1"), long.len(), "it differs in the last byte");
    }
}

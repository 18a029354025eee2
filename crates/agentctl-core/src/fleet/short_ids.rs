//! How much of each id a table shows: as much as the resolver needs to find the session again.

use std::collections::HashSet;

/// Fewest characters of an id that are shown.
const FEWEST: usize = 8;

/// The texts that may be typed for a session.
pub(super) struct Typed<'a> {
    /// The ids that a prefix is compared with, sorted, each once.
    ids: Vec<&'a str>,
    /// The names that win over a prefix.
    names: HashSet<&'a str>,
}

impl<'a> Typed<'a> {
    pub(super) fn new(mut ids: Vec<&'a str>, names: HashSet<&'a str>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        Self { ids, names }
    }

    /// Returns how many bytes of an id fit no other id and are no name.
    pub(super) fn length(&self, id: &str) -> usize {
        let common = |other: Option<&&str>| {
            other.map_or(0, |other| {
                id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
            })
        };
        let at = self.ids.partition_point(|other| *other < id);
        let next = if self.ids.get(at) == Some(&id) { at + 1 } else { at };
        let before = at.checked_sub(1).and_then(|before| self.ids.get(before));
        let mut length = (common(before).max(common(self.ids.get(next))) + 1).max(FEWEST);
        while id.get(..length).is_some_and(|text| self.names.contains(text)) {
            length += 1;
        }
        length.min(id.len())
    }
}

/// Shortens ids that are compared only with each other.
#[must_use]
pub fn unique_prefixes<'a>(ids: &[&'a str]) -> Vec<&'a str> {
    let typed = Typed::new(ids.to_vec(), HashSet::new());
    ids.iter().map(|id| id.get(..typed.length(id)).unwrap_or(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_up_to_its_first_difference() {
        let ids = vec!["01a1de42-aa", "01a1de42-ab", "01a1de42", "ffffffff-1", "dead-beef-1"];
        let typed = Typed::new(ids.clone(), HashSet::from(["ffffffff"]));
        let shown: Vec<&str> = ids.iter().map(|id| &id[..typed.length(id)]).collect();
        assert_eq!(shown, ["01a1de42-aa", "01a1de42-ab", "01a1de42", "ffffffff-", "dead-bee"]);
        assert_eq!(typed.length("01a1de43-1"), 8, "an id that is not in the list");
        assert_eq!(typed.length("short"), 5);
    }
}

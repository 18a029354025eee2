//! The tree of rows: launched sessions stand below the session that launched them, like subagents below their
//! parent.

use std::collections::HashMap;

use super::order::{Placed, sort};
use super::packed::{Packed, Rows};

impl Rows {
    /// Puts subagents and launched sessions below the sessions that they come from. A launched session whose
    /// launcher is not listed stays among the roots.
    #[must_use]
    pub fn in_tree(mut self) -> Self {
        for row in &mut self.packed {
            let launched_by = row.unpack().launched_by;
            row.launcher = launched_by.and_then(|by| by.id).map(String::into_boxed_str);
        }
        for at in unplaceable(&self.packed) {
            self.packed[at].launcher = None;
        }
        sort(&mut self.packed);
        self
    }
}

/// Returns the rows whose launcher is not listed, and one launched row of each cycle: A may launch B, which resumes
/// A.
fn unplaceable(rows: &[Packed]) -> Vec<usize> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some(id) = row.id() {
            places.entry(id).or_insert(at);
        }
    }
    let above = |at: usize| rows[at].parent().and_then(|id| places.get(id).copied());
    let is_launched = |at: &usize| !rows[*at].is_child && rows[*at].launcher.is_some();
    let is_orphan = |at: &usize| is_launched(at) && above(*at).is_none();
    let mut found: Vec<usize> = (0..rows.len()).filter(is_orphan).collect();
    // The walk that first came to each row: a walk that meets itself has found a cycle.
    let mut walks: Vec<Option<usize>> = vec![None; rows.len()];
    for walk in 0..rows.len() {
        let mut next = Some(walk);
        while let Some(at) = next.filter(|at| walks[*at].is_none()) {
            walks[at] = Some(walk);
            next = above(at);
        }
        if let Some(first) = next.filter(|at| walks[*at] == Some(walk)) {
            let cycle =
                std::iter::successors(Some(first), |at| above(*at).filter(|at| *at != first));
            // The rows are in order, so the first of the cycle is the one that is listed first.
            found.extend(cycle.filter(is_launched).min());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Session;

    fn session(id: &str, status: &str, from: (Option<&str>, Option<&str>)) -> Session {
        let (launcher, parent) = from;
        let launched_by = launcher.map(|id| json!({"adapter": "any", "id": id, "depth": 1}));
        let session = json!({
            "id": id, "adapter": "any", "root": "", "status": status, "processes": [],
            "hosted": false, "launched_by": launched_by, "parent": parent, "notes": [],
            "evidence": [],
        });
        serde_json::from_value(session).expect("a session")
    }

    fn tree(sessions: &[Session]) -> Vec<String> {
        let rows = Rows::of(sessions).in_tree();
        let text = |at| match rows.parent(at) {
            Some(parent) => format!("{parent}/{}", rows.id(at).unwrap_or_default()),
            None => rows.id(at).unwrap_or_default().to_owned(),
        };
        (0..rows.len()).map(text).collect()
    }

    #[test]
    fn a_launched_session_stands_below_its_launcher_if_that_is_listed() {
        let sessions = [
            session("a", "running", (None, None)),
            session("b", "idle", (None, None)),
            session("launched", "waiting", (Some("b"), None)),
            session("outlived", "waiting", (Some("gone"), None)),
        ];
        assert_eq!(tree(&sessions), ["b", "b/launched", "outlived", "a"]);
    }

    #[test]
    fn a_cycle_of_launches_stands_among_the_roots_in_the_usual_order() {
        let sessions = [
            session("a", "waiting", (Some("b"), None)),
            session("b", "running", (Some("a"), None)),
            session("c", "idle", (None, None)),
            session("alone", "idle", (Some("alone"), None)),
        ];
        assert_eq!(tree(&sessions), ["a", "a/b", "alone", "c"]);
    }

    #[test]
    fn a_subagent_that_resumes_its_parent_stays_below_it() {
        let sessions = [
            session("a", "waiting", (Some("child"), None)),
            session("child", "running", (None, Some("a"))),
            session("b", "idle", (None, None)),
        ];
        assert_eq!(tree(&sessions), ["a", "a/child", "b"]);
    }
}

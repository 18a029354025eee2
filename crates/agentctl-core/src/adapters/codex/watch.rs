//! Where a change of a thread shows: the locks, and its rollout.

use std::path::{Path, PathBuf};

use super::birth_days;
use crate::model::Locator;

/// Returns where a thread shows that begins, or goes on: its lock is made, or one that was left lying
/// is taken, which no file event tells; but the index is written then.
pub(super) fn beginnings(root: &Path) -> Vec<PathBuf> {
    vec![root.join("thread-writer-locks"), root.join("state_5.sqlite-wal")]
}

/// Returns the places of a thread. Before its first prompt it has no rollout: the days it may get one
/// in are watched instead.
pub(super) fn places(root: &Path, locator: &Locator) -> Vec<PathBuf> {
    let mut places = vec![root.join("thread-writer-locks")];
    match &locator.path {
        Some(rollout) => places.push(rollout.clone()),
        None => {
            let days = birth_days(&locator.id).into_iter();
            places.extend(days.map(|day| root.join("sessions").join(day)));
        }
    }
    places
}

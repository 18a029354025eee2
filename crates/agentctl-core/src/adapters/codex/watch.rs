//! The files that change with a thread: the locks, and its rollout.

use std::path::{Path, PathBuf};

use super::{birth_days, days_around};
use crate::model::{Locator, Time};

/// Returns the files that change when a thread begins or continues: its lock file is created. Taking a
/// lock file that already exists causes no file event, but the index is written then. A home without
/// locks has only been used by versions up to 0.146, the oldest of which write rollouts only: the days
/// around now are watched.
pub(super) fn beginnings(root: &Path, now: Time) -> Vec<PathBuf> {
    let locks = root.join("thread-writer-locks");
    let mut places = vec![root.join("state_5.sqlite-wal")];
    if !locks.is_dir() {
        let days = days_around(now.millis()).into_iter();
        places.extend(days.map(|day| root.join("sessions").join(day)));
    }
    places.push(locks);
    places
}

/// Returns the places of a thread. Before its first prompt it has no rollout: the folders of the days
/// in which it may get one are watched instead.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_days_around_now_are_watched_only_where_there_are_no_locks() {
        let root = tempfile::tempdir().expect("dir");
        let now = Time::parse("2026-11-16T02:00:00Z").expect("a time");
        let day = root.path().join("sessions/2026/11/15");
        assert!(beginnings(root.path(), now).contains(&day));
        std::fs::create_dir(root.path().join("thread-writer-locks")).expect("made");
        assert!(!beginnings(root.path(), now).contains(&day));
    }
}

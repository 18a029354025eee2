//! Homes that only a process named, after the end of that process.
//!
//! The next agent in such a home is noticed by its files while it lives. Without them only the count of
//! processes once a second would notice it, which misses a session that is shorter.

use std::time::{Duration, Instant};

use crate::fleet::NamedHome;

/// The most homes that are watched after their processes ended; the ones used last stay.
const MAX_WATCHED_HOMES: usize = 64;
/// The time for which a home is watched after its last process ended.
const WATCHED_FOR: Duration = Duration::from_hours(24);

/// The homes that were named in the looks before.
#[derive(Default)]
pub(super) struct LeftHomes {
    /// Ordered by last use, newest last.
    homes: Vec<(Instant, NamedHome)>,
}

impl LeftHomes {
    /// Takes in the homes that one look found named, and forgets those that are gone, or unused for long.
    pub(super) fn take(&mut self, named: &[NamedHome], now: Instant) {
        let is_named = |home: &NamedHome| named.iter().any(|other| other.path == home.path);
        self.homes.retain(|(used, home)| {
            now.saturating_duration_since(*used) < WATCHED_FOR
                && !is_named(home)
                && home.path.is_dir()
        });
        self.homes.extend(named.iter().map(|home| (now, home.clone())));
        let surplus = self.homes.len().saturating_sub(MAX_WATCHED_HOMES);
        self.homes.drain(..surplus);
    }

    /// Returns the homes, each with the places where the beginning of a session shows.
    pub(super) fn iter(&self) -> impl Iterator<Item = &NamedHome> {
        self.homes.iter().map(|(_, home)| home)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn home(path: &Path) -> NamedHome {
        NamedHome { path: path.to_owned(), places: vec![path.join("sessions")] }
    }

    fn paths(left: &LeftHomes) -> Vec<PathBuf> {
        left.iter().map(|home| home.path.clone()).collect()
    }

    #[test]
    fn a_home_is_kept_for_a_day_after_its_last_use_and_while_it_exists() {
        let (one, other) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
        let (mut left, now) = (LeftHomes::default(), Instant::now());
        left.take(&[home(one.path()), home(other.path())], now);
        left.take(&[home(one.path())], now + WATCHED_FOR / 2);
        assert_eq!(paths(&left), [other.path(), one.path()]);
        left.take(&[], now + WATCHED_FOR);
        assert_eq!(paths(&left), [one.path()]);
        drop(one);
        left.take(&[], now + WATCHED_FOR);
        assert!(paths(&left).is_empty());
    }

    #[test]
    fn the_homes_that_were_used_last_are_kept() {
        let root = tempfile::tempdir().expect("made");
        let (mut left, now) = (LeftHomes::default(), Instant::now());
        for index in 0..MAX_WATCHED_HOMES + 3 {
            let path = root.path().join(index.to_string());
            std::fs::create_dir(&path).expect("made");
            left.take(&[home(&path)], now);
        }
        let kept = paths(&left);
        assert_eq!((kept.len(), &kept[0]), (MAX_WATCHED_HOMES, &root.path().join("3")));
    }
}

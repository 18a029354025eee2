//! What was read of a file, remembered while the file is the same. Only for somebody who stays awake: it
//! changes how fast an answer comes, never what it says, and may be dropped at any moment.
//!
//! Live records are never remembered: some are rewritten in place, with equal length.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::file::Stamp;

/// So many shelves, so that several threads seldom want the same one.
const SHELVES: usize = 32;
/// A shelf that holds more bytes is cleared.
const SHELF_MOST: usize = 1 << 20;
/// A file that was written so shortly ago may be written again without its time telling.
const SETTLED: Duration = Duration::from_millis(100);

/// What a recollection stands on: a file and, of a database, the log beside it. The same basis, the same
/// content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basis {
    file: Stamp,
    log: Option<Stamp>,
}

impl From<Stamp> for Basis {
    fn from(file: Stamp) -> Self {
        Self { file, log: None }
    }
}

impl Basis {
    /// Looks at a file; `None` when it has gone.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        Stamp::now(path).map(Self::from)
    }

    /// Looks at a database and its write-ahead log; `None` when it has gone.
    #[must_use]
    pub fn of_database(path: &Path) -> Option<Self> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        // The log first: what moves from it into the database is seen in one of them.
        let log = Stamp::now(Path::new(&log));
        Some(Self { file: Stamp::now(path)?, log })
    }

    /// Returns the stamp of the file itself.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.file
    }

    fn is_settled(&self) -> bool {
        let now = SystemTime::now();
        let settled = |stamp: &Stamp| stamp.is_older_than(now, SETTLED);
        settled(&self.file) && self.log.as_ref().is_none_or(settled)
    }
}

/// What was read of files. It is written down in few large pieces of memory: thousands of small ones that
/// stay, scattered among those that a look needs only for itself, would keep all of that memory in use.
pub struct Memo {
    shelves: Vec<Mutex<Shelf>>,
    hasher: RandomState,
}

#[derive(Default)]
struct Shelf {
    kept: HashMap<u64, Kept, BuildHasherDefault<Ready>>,
    /// Each piece is a path and then what was read.
    text: Vec<u8>,
    /// So much of it nobody refers to any more.
    stale: usize,
}

/// Where on the shelf it stands.
struct Kept {
    /// The hash of what it stands on.
    basis: u64,
    from: usize,
    path: usize,
    what: usize,
}

impl Kept {
    fn len(&self) -> usize {
        self.path + self.what
    }
}

/// A key that is a hash already.
#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Default for Memo {
    fn default() -> Self {
        let shelves = (0..SHELVES).map(|_| Mutex::default()).collect();
        Self { shelves, hasher: RandomState::new() }
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memo").finish_non_exhaustive()
    }
}

impl Memo {
    fn shelf(&self, path: &[u8], variant: u8) -> (u64, MutexGuard<'_, Shelf>) {
        let key = self.hasher.hash_one((path, variant));
        let place = usize::try_from(key >> 32).unwrap_or(0) % SHELVES;
        (key, self.shelves[place].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns what was read under this name, in this way, if what it stands on is still the same.
    #[must_use]
    pub fn recall<T: DeserializeOwned>(
        &self,
        name: &Path,
        variant: u8,
        basis: &Basis,
    ) -> Option<T> {
        let name = name.as_os_str().as_bytes();
        let (key, mut shelf) = self.shelf(name, variant);
        let (kept, what) = shelf.get(key, name)?;
        if kept == self.hasher.hash_one(basis) {
            return postcard::from_bytes(what).ok();
        }
        shelf.forget(key);
        None
    }

    /// Remembers what was read. What it stands on must have been looked at before it was read, and again
    /// afterwards.
    pub fn keep(&self, name: &Path, variant: u8, basis: &Basis, what: &impl Serialize) {
        if !basis.is_settled() {
            return;
        }
        let Ok(what) = postcard::to_stdvec(what) else { return };
        let name = name.as_os_str().as_bytes();
        let (key, mut shelf) = self.shelf(name, variant);
        shelf.put(key, self.hasher.hash_one(basis), name, &what);
    }
}

impl Shelf {
    /// Two paths may have one key: only the right one gets an answer.
    fn get(&self, key: u64, path: &[u8]) -> Option<(u64, &[u8])> {
        let kept = self.kept.get(&key)?;
        let (name, what) = self.text.get(kept.from..kept.from + kept.len())?.split_at(kept.path);
        (name == path).then_some((kept.basis, what))
    }

    fn forget(&mut self, key: u64) {
        self.stale += self.kept.remove(&key).map_or(0, |kept| kept.len());
    }

    fn put(&mut self, key: u64, basis: u64, path: &[u8], what: &[u8]) {
        self.forget(key);
        if self.stale > self.text.len() / 2 {
            self.tidy();
        }
        if self.text.len() + path.len() + what.len() > SHELF_MOST {
            *self = Self::default();
        }
        let from = self.text.len();
        self.text.extend_from_slice(path);
        self.text.extend_from_slice(what);
        self.kept.insert(key, Kept { basis, from, path: path.len(), what: what.len() });
    }

    /// Closes the gaps.
    fn tidy(&mut self) {
        let mut text = Vec::with_capacity(self.text.len() - self.stale);
        for kept in self.kept.values_mut() {
            let from = text.len();
            text.extend_from_slice(&self.text[kept.from..kept.from + kept.len()]);
            kept.from = from;
        }
        (self.text, self.stale) = (text, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(path: &Path, text: &str, seconds: u64) -> Basis {
        std::fs::write(path, text).unwrap();
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        Basis::of_file(path).unwrap()
    }

    #[test]
    fn what_has_changed_in_any_way_is_not_recalled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let memo = Memo::default();
        let basis = settled(&path, "one", 1000);
        memo.keep(&path, 0, &basis, &1_u32);
        assert_eq!(memo.recall::<u32>(&path, 0, &basis), Some(1));
        assert_eq!(memo.recall::<u32>(&path, 1, &basis), None, "read in another way");
        // The same length and, by force, the same time: the change of the inode tells.
        let other = settled(&path, "two", 1000);
        assert_eq!(memo.recall::<u32>(&path, 0, &other), None);
        assert_eq!(memo.recall::<u32>(&path, 0, &basis), None, "it was forgotten");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Basis::of_file(&path), None);
    }

    #[test]
    fn what_was_written_a_moment_ago_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let memo = Memo::default();
        std::fs::write(&path, "one").unwrap();
        let fresh = Basis::of_file(&path).unwrap();
        memo.keep(&path, 0, &fresh, &1_u32);
        assert_eq!(memo.recall::<u32>(&path, 0, &fresh), None);
        settled(&path, "one", 1000);
        std::fs::write(folder.path().join("a.db-wal"), "a page").unwrap();
        let fresh = Basis::of_database(&path).unwrap();
        memo.keep(&path, 0, &fresh, &1_u32);
        assert_eq!(memo.recall::<u32>(&path, 0, &fresh), None, "nor what its log says");
    }

    #[test]
    fn a_database_is_another_when_its_log_is() {
        let folder = tempfile::tempdir().unwrap();
        let (path, log) = (folder.path().join("a.db"), folder.path().join("a.db-wal"));
        let memo = Memo::default();
        settled(&path, "one", 1000);
        let mut before = Vec::new();
        for round in 0..4 {
            let basis = Basis::of_database(&path).unwrap();
            memo.keep(&path, 0, &basis, &round);
            assert_eq!(memo.recall::<u32>(&path, 0, &basis), Some(round));
            assert!(!before.contains(&basis));
            before.push(basis);
            match round {
                2 => std::fs::remove_file(&log).unwrap(),
                _ => drop(settled(&log, "page", 1000 + u64::from(round))),
            }
            if round == 2 {
                // Gone with its log's content, as after a checkpoint.
                settled(&path, "two", 1000);
            }
        }
    }

    #[test]
    fn what_is_read_again_and_again_does_not_pile_up() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
        let memo = Memo::default();
        let lasting = settled(&other, "other", 1000);
        memo.keep(&other, 0, &lasting, &"other");
        let mut last = lasting;
        for round in 0..2000 {
            last = settled(&path, "one", 1000 + round);
            memo.keep(&path, 0, &last, &"x".repeat(4096));
        }
        let held: usize = memo.shelves.iter().map(|s| s.lock().unwrap().text.len()).sum();
        assert!(held < 64 << 10, "{held} bytes are held for two files");
        assert_eq!(memo.recall::<String>(&other, 0, &lasting).as_deref(), Some("other"));
        assert_eq!(memo.recall::<String>(&path, 0, &last).map(|what| what.len()), Some(4096));
    }

    #[test]
    fn a_shelf_that_is_full_is_cleared() {
        let mut shelf = Shelf::default();
        for key in 0..600 {
            shelf.put(key, 1, b"path", &vec![0; 8192]);
            assert!(shelf.text.len() <= SHELF_MOST);
        }
        assert!(shelf.get(0, b"path").is_none());
        assert!(shelf.get(599, b"path").is_some());
        assert!(shelf.get(599, b"another").is_none(), "two paths with one key");
    }
}

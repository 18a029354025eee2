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
const SHELF_MOST: usize = 2 << 20;
/// A file that was written so shortly ago may be written again without its time telling.
const SETTLED: Duration = Duration::from_millis(100);

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
    stamp: Stamp,
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

    /// Returns what was read of a file in this way and the stamp it had, if it still has that.
    #[must_use]
    pub fn recall<T: DeserializeOwned>(&self, path: &Path, variant: u8) -> Option<(T, Stamp)> {
        let now = Stamp::now(path);
        let path = path.as_os_str().as_bytes();
        let (key, mut shelf) = self.shelf(path, variant);
        let (stamp, what) = shelf.get(key, path)?;
        if Some(stamp) == now {
            return postcard::from_bytes(what).ok().map(|what| (what, stamp));
        }
        shelf.forget(key);
        None
    }

    /// Remembers what was read of a file that had this stamp when it was opened.
    pub fn keep(&self, path: &Path, variant: u8, stamp: Stamp, what: &impl Serialize) {
        if !stamp.is_older_than(SystemTime::now(), SETTLED) || Stamp::now(path) != Some(stamp) {
            return;
        }
        let Ok(what) = postcard::to_stdvec(what) else { return };
        let path = path.as_os_str().as_bytes();
        let (key, mut shelf) = self.shelf(path, variant);
        shelf.put(key, stamp, path, &what);
    }
}

impl Shelf {
    /// Two paths may have one key: only the right one gets an answer.
    fn get(&self, key: u64, path: &[u8]) -> Option<(Stamp, &[u8])> {
        let kept = self.kept.get(&key)?;
        let (name, what) = self.text.get(kept.from..kept.from + kept.len())?.split_at(kept.path);
        (name == path).then_some((kept.stamp, what))
    }

    fn forget(&mut self, key: u64) {
        self.stale += self.kept.remove(&key).map_or(0, |kept| kept.len());
    }

    fn put(&mut self, key: u64, stamp: Stamp, path: &[u8], what: &[u8]) {
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
        self.kept.insert(key, Kept { stamp, from, path: path.len(), what: what.len() });
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

    fn settled(path: &Path, text: &str, seconds: u64) -> Stamp {
        std::fs::write(path, text).unwrap();
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        Stamp::now(path).unwrap()
    }

    #[test]
    fn what_has_changed_in_any_way_is_not_recalled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let memo = Memo::default();
        let stamp = settled(&path, "one", 1000);
        memo.keep(&path, 0, stamp, &1_u32);
        assert_eq!(memo.recall::<u32>(&path, 0), Some((1, stamp)));
        assert_eq!(memo.recall::<u32>(&path, 1), None, "read in another way");
        // The same length and, by force, the same time: the change of the inode tells.
        settled(&path, "two", 1000);
        assert_eq!(memo.recall::<u32>(&path, 0), None);
        std::fs::remove_file(&path).unwrap();
        memo.keep(&path, 0, stamp, &1_u32);
        assert_eq!(memo.recall::<u32>(&path, 0), None, "it has gone");
    }

    #[test]
    fn what_was_written_a_moment_ago_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, "one").unwrap();
        let memo = Memo::default();
        memo.keep(&path, 0, Stamp::now(&path).unwrap(), &1_u32);
        assert_eq!(memo.recall::<u32>(&path, 0), None);
    }

    #[test]
    fn what_is_read_again_and_again_does_not_pile_up() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
        let memo = Memo::default();
        let lasting = settled(&other, "other", 1000);
        memo.keep(&other, 0, lasting, &"other");
        for round in 0..2000 {
            let stamp = settled(&path, "one", 1000 + round);
            memo.keep(&path, 0, stamp, &"x".repeat(4096));
        }
        let held: usize = memo.shelves.iter().map(|s| s.lock().unwrap().text.len()).sum();
        assert!(held < 64 << 10, "{held} bytes are held for two files");
        assert_eq!(memo.recall::<String>(&other, 0), Some(("other".to_owned(), lasting)));
        assert_eq!(memo.recall::<String>(&path, 0).map(|(what, _)| what.len()), Some(4096));
    }

    #[test]
    fn a_shelf_that_is_full_is_cleared() {
        let mut shelf = Shelf::default();
        let stamp = Stamp::now(Path::new("/")).unwrap();
        for key in 0..600 {
            shelf.put(key, stamp, b"path", &vec![0; 8192]);
            assert!(shelf.text.len() <= SHELF_MOST);
        }
        assert!(shelf.get(0, b"path").is_none());
        assert!(shelf.get(599, b"path").is_some());
        assert!(shelf.get(599, b"another").is_none(), "two paths with one key");
    }
}

//! What was read of a file, remembered while the file is the same. Only for somebody who stays awake: it
//! changes how fast an answer comes, never what it says, and may be dropped at any moment.
//!
//! Live records are never remembered: some are rewritten in place, with equal length.

use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::file::Stamp;

/// So many shelves, so that several threads seldom want the same one.
const SHELVES: usize = 32;
/// A shelf that holds more is cleared.
const SHELF_MOST: usize = 8192;
/// A file that was written so shortly ago may be written again without its time telling.
const SETTLED: Duration = Duration::from_millis(100);

type Shelf = HashMap<PathBuf, Kept>;

struct Kept {
    stamp: Stamp,
    variant: u8,
    what: Arc<dyn Any + Send + Sync>,
}

/// What was read of files.
pub struct Memo {
    shelves: Vec<Mutex<Shelf>>,
    hasher: RandomState,
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
    fn shelf(&self, path: &Path) -> MutexGuard<'_, Shelf> {
        let place = usize::try_from(self.hasher.hash_one(path) % SHELVES as u64).unwrap_or(0);
        self.shelves[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was read of a file in this way, if the file is what it was then.
    #[must_use]
    pub fn recall<T: Send + Sync + 'static>(&self, path: &Path, variant: u8) -> Option<Arc<T>> {
        let now = Stamp::now(path);
        let mut shelf = self.shelf(path);
        let kept = shelf.get(path)?;
        if Some(kept.stamp) != now {
            shelf.remove(path);
            return None;
        }
        (kept.variant == variant).then(|| Arc::clone(&kept.what))?.downcast().ok()
    }

    /// Remembers what was read of a file that had this stamp when it was opened.
    pub fn keep<T: Send + Sync + 'static>(&self, path: &Path, variant: u8, stamp: Stamp, what: T) {
        if !stamp.is_older_than(SystemTime::now(), SETTLED) || Stamp::now(path) != Some(stamp) {
            return;
        }
        let mut shelf = self.shelf(path);
        if shelf.len() >= SHELF_MOST {
            shelf.clear();
        }
        shelf.insert(path.to_owned(), Kept { stamp, variant, what: Arc::new(what) });
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
        memo.keep(&path, 0, stamp, 1_u32);
        assert_eq!(memo.recall::<u32>(&path, 0).as_deref(), Some(&1));
        assert_eq!(memo.recall::<u32>(&path, 1), None, "read in another way");
        assert_eq!(memo.recall::<String>(&path, 0), None, "another thing");
        // The same length and, by force, the same time: the change of the inode tells.
        settled(&path, "two", 1000);
        assert_eq!(memo.recall::<u32>(&path, 0), None);
        std::fs::remove_file(&path).unwrap();
        memo.keep(&path, 0, stamp, 1_u32);
        assert_eq!(memo.recall::<u32>(&path, 0), None, "it has gone");
    }

    #[test]
    fn what_was_written_a_moment_ago_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, "one").unwrap();
        let memo = Memo::default();
        memo.keep(&path, 0, Stamp::now(&path).unwrap(), 1_u32);
        assert_eq!(memo.recall::<u32>(&path, 0), None);
    }
}

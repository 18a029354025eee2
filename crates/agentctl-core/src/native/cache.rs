//! Cache of values that were read from files, valid while the file is unchanged. Used by long-running
//! processes only (the daemon): it makes answers faster and never changes them, and may be dropped at any
//! moment.
//!
//! Live records are not cached: some are rewritten in place with equal length.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::file::Stamp;

/// Number of shards, each with a lock of its own, to keep threads from contending.
const SHARDS: usize = 32;
/// Size limit of a shard; a shard that would exceed it is cleared.
const MAX_SHARD_BYTES: usize = 1 << 20;
/// Minimum age of a file's last change before its content is cached. A younger file may change again within
/// the resolution of its timestamps, and the change would go unnoticed.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// The version of a file, and for a database also of the write-ahead log beside it. Equal versions mean
/// equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileVersion {
    file: Stamp,
    log: Option<Stamp>,
}

impl From<Stamp> for FileVersion {
    fn from(file: Stamp) -> Self {
        Self { file, log: None }
    }
}

impl FileVersion {
    /// Returns the version of a file; `None` when it does not exist.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        Stamp::now(path).map(Self::from)
    }

    /// Returns the version of a database and its write-ahead log; `None` when it does not exist.
    #[must_use]
    pub fn of_database(path: &Path) -> Option<Self> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        // The log is read first: data that a checkpoint moves from it into the database changes at least
        // one of the two stamps.
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
        let settled = |stamp: &Stamp| stamp.is_older_than(now, SETTLE_TIME);
        settled(&self.file) && self.log.as_ref().is_none_or(settled)
    }
}

/// The cache. Values are serialized into one large buffer per shard: thousands of small allocations that
/// stay, scattered among the short-lived ones of each look, would keep the whole heap from being returned
/// to the system.
pub struct FileCache {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<u64, Entry, BuildHasherDefault<IdentityHasher>>,
    /// Each entry is its path, then its value.
    text: Vec<u8>,
    /// Number of bytes in `text` that belong to no entry.
    stale: usize,
}

/// The position of an entry in the buffer of its shard.
struct Entry {
    /// The hash of the file's version.
    version: u64,
    from: usize,
    path: usize,
    what: usize,
}

impl Entry {
    fn len(&self) -> usize {
        self.path + self.what
    }
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Default for FileCache {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }
}

impl std::fmt::Debug for FileCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileCache").finish_non_exhaustive()
    }
}

impl FileCache {
    fn shard(&self, path: &[u8], variant: u8) -> (u64, MutexGuard<'_, Shard>) {
        let key = self.hasher.hash_one((path, variant));
        let place = usize::try_from(key >> 32).unwrap_or(0) % SHARDS;
        (key, self.shards[place].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the value of a name and variant (the way it was read), if the file's version is still the
    /// same.
    #[must_use]
    pub fn get<T: DeserializeOwned>(
        &self,
        name: &Path,
        variant: u8,
        version: &FileVersion,
    ) -> Option<T> {
        let name = name.as_os_str().as_bytes();
        let (key, mut shard) = self.shard(name, variant);
        let (entry, what) = shard.get(key, name)?;
        if entry == self.hasher.hash_one(version) {
            return postcard::from_bytes(what).ok();
        }
        shard.remove(key);
        None
    }

    /// Stores a value. The caller must have taken the version before reading the file and found it
    /// unchanged afterwards.
    pub fn insert(&self, name: &Path, variant: u8, version: &FileVersion, what: &impl Serialize) {
        if !version.is_settled() {
            return;
        }
        let Ok(what) = postcard::to_stdvec(what) else { return };
        let name = name.as_os_str().as_bytes();
        let (key, mut shard) = self.shard(name, variant);
        shard.put(key, self.hasher.hash_one(version), name, &what);
    }
}

impl Shard {
    /// Looks up an entry. Two paths may have the same hash, so the stored path is compared.
    fn get(&self, key: u64, path: &[u8]) -> Option<(u64, &[u8])> {
        let entry = self.entries.get(&key)?;
        let (name, what) =
            self.text.get(entry.from..entry.from + entry.len())?.split_at(entry.path);
        (name == path).then_some((entry.version, what))
    }

    fn remove(&mut self, key: u64) {
        self.stale += self.entries.remove(&key).map_or(0, |entry| entry.len());
    }

    fn put(&mut self, key: u64, version: u64, path: &[u8], what: &[u8]) {
        self.remove(key);
        if self.stale > self.text.len() / 2 {
            self.compact();
        }
        if self.text.len() + path.len() + what.len() > MAX_SHARD_BYTES {
            *self = Self::default();
        }
        let from = self.text.len();
        self.text.extend_from_slice(path);
        self.text.extend_from_slice(what);
        self.entries.insert(key, Entry { version, from, path: path.len(), what: what.len() });
    }

    /// Removes the unused bytes from the buffer.
    fn compact(&mut self) {
        let mut text = Vec::with_capacity(self.text.len() - self.stale);
        for entry in self.entries.values_mut() {
            let from = text.len();
            text.extend_from_slice(&self.text[entry.from..entry.from + entry.len()]);
            entry.from = from;
        }
        (self.text, self.stale) = (text, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(path: &Path, text: &str, seconds: u64) -> FileVersion {
        std::fs::write(path, text).unwrap();
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        FileVersion::of_file(path).unwrap()
    }

    #[test]
    fn a_changed_file_is_not_served_from_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let cache = FileCache::default();
        let version = settled(&path, "one", 1000);
        cache.insert(&path, 0, &version, &1_u32);
        assert_eq!(cache.get::<u32>(&path, 0, &version), Some(1));
        assert_eq!(cache.get::<u32>(&path, 1, &version), None, "read in another way");
        // Same length and, set explicitly, same modification time: the inode's change time differs.
        let other = settled(&path, "two", 1000);
        assert_eq!(cache.get::<u32>(&path, 0, &other), None);
        assert_eq!(cache.get::<u32>(&path, 0, &version), None, "it was forgotten");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(FileVersion::of_file(&path), None);
    }

    #[test]
    fn a_file_written_a_moment_ago_is_not_cached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let cache = FileCache::default();
        std::fs::write(&path, "one").unwrap();
        let fresh = FileVersion::of_file(&path).unwrap();
        cache.insert(&path, 0, &fresh, &1_u32);
        assert_eq!(cache.get::<u32>(&path, 0, &fresh), None);
        settled(&path, "one", 1000);
        std::fs::write(folder.path().join("a.db-wal"), "a page").unwrap();
        let fresh = FileVersion::of_database(&path).unwrap();
        cache.insert(&path, 0, &fresh, &1_u32);
        assert_eq!(cache.get::<u32>(&path, 0, &fresh), None, "nor what its log says");
    }

    #[test]
    fn a_changed_log_is_a_new_version_of_its_database() {
        let folder = tempfile::tempdir().unwrap();
        let (path, log) = (folder.path().join("a.db"), folder.path().join("a.db-wal"));
        let cache = FileCache::default();
        settled(&path, "one", 1000);
        let mut before = Vec::new();
        for round in 0..4 {
            let version = FileVersion::of_database(&path).unwrap();
            cache.insert(&path, 0, &version, &round);
            assert_eq!(cache.get::<u32>(&path, 0, &version), Some(round));
            assert!(!before.contains(&version));
            before.push(version);
            match round {
                2 => std::fs::remove_file(&log).unwrap(),
                _ => drop(settled(&log, "page", 1000 + u64::from(round))),
            }
            if round == 2 {
                // The log was removed and its content moved to the database, as after a checkpoint.
                settled(&path, "two", 1000);
            }
        }
    }

    #[test]
    fn repeated_inserts_do_not_pile_up() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
        let cache = FileCache::default();
        let lasting = settled(&other, "other", 1000);
        cache.insert(&other, 0, &lasting, &"other");
        let mut last = lasting;
        for round in 0..2000 {
            last = settled(&path, "one", 1000 + round);
            cache.insert(&path, 0, &last, &"x".repeat(4096));
        }
        let held: usize = cache.shards.iter().map(|s| s.lock().unwrap().text.len()).sum();
        assert!(held < 64 << 10, "{held} bytes are held for two files");
        assert_eq!(cache.get::<String>(&other, 0, &lasting).as_deref(), Some("other"));
        assert_eq!(cache.get::<String>(&path, 0, &last).map(|what| what.len()), Some(4096));
    }

    #[test]
    fn a_full_shard_is_cleared() {
        let mut shard = Shard::default();
        for key in 0..600 {
            shard.put(key, 1, b"path", &vec![0; 8192]);
            assert!(shard.text.len() <= MAX_SHARD_BYTES);
        }
        assert!(shard.get(0, b"path").is_none());
        assert!(shard.get(599, b"path").is_some());
        assert!(shard.get(599, b"another").is_none(), "two paths with one key");
    }
}

//! Locks with names, each a file that is removed with the lock. A process that is killed leaves its file behind, which the
//! next process with that name takes.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{EnterError, open_mutex, take};
use crate::native::private;

/// A lock that is held.
pub(crate) struct NamedLock {
    path: PathBuf,
    _held: File,
}

impl Drop for NamedLock {
    fn drop(&mut self) {
        // Removed while it is held: a process that waits for it takes the lock of a new file.
        let _left = std::fs::remove_file(&self.path);
    }
}

impl NamedLock {
    /// Takes the lock of this name in a folder until a deadline.
    pub(crate) fn take(folder: &Path, name: &str, until: Instant) -> Result<Self, EnterError> {
        let path = folder.join(format!("{name}.lock"));
        loop {
            private::directory(folder)?;
            let held = take(open_mutex(&path)?, until)?;
            let ours = held.metadata()?;
            let is_named = std::fs::symlink_metadata(&path)
                .is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino()));
            if is_named {
                return Ok(Self { path, _held: held });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_waits_and_another_name_is_another_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = |name: &str| NamedLock::take(folder.path(), name, Instant::now());
        let first = lock("a").expect("free");
        assert!(matches!(lock("a"), Err(EnterError::Busy)), "it is held");
        assert!(lock("b").is_ok(), "another name has another lock");
        drop(first);
        assert!(lock("a").is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "no file stays");
    }
}

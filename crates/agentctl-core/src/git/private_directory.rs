//! Private temporary directories: for the copy of an index, and for objects that a question writes.
//!
//! Each is locked while its process lives. A process that was killed leaves its directory behind, and the next one
//! removes it.

use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::io;
use super::{Git, GitError};

/// The beginning of the name of each.
const NAME: &str = "agentctl-git.";
/// How many names are tried: a directory that is not locked yet may be taken for one that was left behind.
const MAX_TRIES: usize = 16;

/// An empty directory that only this user can access. It is removed with this value.
#[derive(Debug)]
pub(super) struct PrivateDirectory {
    pub path: PathBuf,
    /// Locked.
    _lock: File,
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.path);
    }
}

impl Git {
    /// Makes a private directory.
    pub(super) fn private_directory(&self) -> Result<PrivateDirectory, GitError> {
        self.swept.call_once(|| sweep(&self.temporary));
        let failed = || io("the temporary directory of a snapshot cannot be made");
        for _ in 0..MAX_TRIES {
            let random = RandomState::new().hash_one(std::process::id());
            let path = self.temporary.join(format!("{NAME}{random:016x}"));
            DirBuilder::new().mode(0o700).create(&path).map_err(failed())?;
            let Ok(lock) = File::open(&path) else { continue };
            if lock.try_lock().is_ok() && path.symlink_metadata().is_ok() {
                return Ok(PrivateDirectory { path, _lock: lock });
            }
        }
        Err(failed()(std::io::ErrorKind::ResourceBusy.into()))
    }
}

/// Removes the directories of processes that were killed: nobody holds their locks.
fn sweep(temporary: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(temporary).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(NAME) {
            continue;
        }
        let path = entry.path();
        let is_ours = path.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == own);
        if is_ours && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _left = std::fs::remove_dir_all(&path);
        }
    }
}

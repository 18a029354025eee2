//! Manual locks: one small file each in `<state>/locks/`.
//!
//! A file is named after its directory, so a file that cannot be read still locks that directory.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::model::{Fault, Time};
use crate::native::file;
use crate::state_files::{self, EnterError};

/// The manual lock of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manual {
    /// The directory, links resolved.
    pub directory: String,
    /// The user or program that locked it.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Since when.
    pub since: Time,
    /// Until when; for ever when not given.
    pub until: Option<Time>,
}

impl Manual {
    fn is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The content of a lock file.
pub(super) enum Kept {
    /// A lock in force.
    Lock(Manual),
    /// A file that cannot be read as a lock.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// The folder of manual locks.
pub(super) struct Folder<'a> {
    host: &'a Host,
    kept: state_files::Folder,
}

impl<'a> Folder<'a> {
    pub(super) fn of(host: &'a Host) -> Self {
        Self { host, kept: state_files::Folder::of(host, "locks", "lock") }
    }

    /// Returns the path of the lock file of a directory.
    pub(super) fn place(&self, directory: &Path) -> PathBuf {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        self.kept.place(&name, directory.as_os_str().as_bytes())
    }

    /// Reads every lock in force and removes expired ones.
    pub(super) fn all(&self) -> Result<Vec<Kept>, file::Skip> {
        let mut kept = Vec::new();
        for entry in self.kept.entries()? {
            match self.read(&entry.path) {
                Ok(manual) if manual.is_over(self.host.now()) => self.sweep(&entry.path),
                Ok(manual) => kept.push(Kept::Lock(manual)),
                // It was removed after the folder was listed.
                Err(file::Skip::Missing) => {}
                Err(why) => {
                    kept.push(Kept::Unreadable { path: entry.path, why: why.to_string() });
                }
            }
        }
        Ok(kept)
    }

    /// Writes a lock. The caller holds the mutex of the directory and has found it unlocked.
    pub(super) fn put(&self, directory: &Path, manual: &Manual) -> Result<(), EnterError> {
        self.kept.put(&self.kept.enter()?, &self.place(directory), manual)
    }

    /// Removes the lock of a directory and returns it; `None` if none was in force.
    pub(super) fn take(&self, directory: &Path) -> Result<Option<Kept>, EnterError> {
        if !self.kept.path().exists() {
            return Ok(None);
        }
        let entered = self.kept.enter()?;
        let name = directory.to_string_lossy();
        let listed = self.all().map_err(|skip| io::Error::other(skip.to_string()))?;
        let ours = listed.into_iter().find(|kept| match kept {
            Kept::Lock(manual) => manual.directory == name,
            Kept::Unreadable { path, .. } => *path == self.place(directory),
        });
        let Some(kept) = ours else { return Ok(None) };
        self.kept.remove(&entered, &self.places_of(directory))?;
        Ok(Some(kept))
    }

    /// Returns the fault of a file that cannot be read.
    pub(super) fn fault(&self, path: &Path, why: &str) -> Fault {
        self.kept.fault(path, why)
    }

    /// Returns the fault of a folder that cannot be read.
    pub(super) fn blind(&self, skip: &file::Skip) -> Fault {
        self.kept.blind(skip)
    }

    /// Returns every file that locks this directory: the usual one, and others that name the directory.
    fn places_of(&self, directory: &Path) -> Vec<PathBuf> {
        let name = directory.to_string_lossy();
        let mut places = vec![self.place(directory)];
        for entry in self.kept.entries().unwrap_or_default() {
            let ours = self.read(&entry.path).is_ok_and(|manual| manual.directory == name);
            if ours && !places.contains(&entry.path) {
                places.push(entry.path);
            }
        }
        places
    }

    fn read(&self, path: &Path) -> Result<Manual, file::Skip> {
        let manual: Manual = self.kept.read(path)?;
        if Path::new(&manual.directory).is_absolute() {
            return Ok(manual);
        }
        Err(file::Skip::Other(format!("`{}` is not an absolute path", manual.directory)))
    }

    /// Removes an expired lock, unless another process is changing the folder: it is not in force either way.
    fn sweep(&self, path: &Path) {
        // With the lock of the folder, no process can write a new lock to the same file meanwhile.
        let Some(_entered) = self.kept.try_enter() else { return };
        if self.read(path).is_ok_and(|manual| manual.is_over(self.host.now())) {
            let _left = fs::remove_file(path);
        }
    }
}

//! Manual locks: what a person said, one small file each in `<state>/locks/`.
//!
//! A file is named after its directory, so one that cannot be read still keeps that directory locked.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::model::{Fault, Time};
use crate::native::file;
use crate::state_files::{self, EnterError};

/// A lock that a person put on a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manual {
    /// The directory, links resolved.
    pub directory: String,
    /// The person or program that locked it.
    pub by: Option<String>,
    /// The reason that was given.
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

/// The content of a file in the folder of locks.
pub(super) enum Kept {
    /// A lock in force.
    Lock(Manual),
    /// Something that is no lock we can read.
    Unreadable {
        /// Where it lies.
        path: PathBuf,
        /// The reason that was given.
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

    /// Returns where the lock of this directory lies.
    pub(super) fn place(&self, directory: &Path) -> PathBuf {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        self.kept.place(&name, directory.as_os_str().as_bytes())
    }

    /// Reads every lock in force; expired ones are taken away.
    pub(super) fn all(&self) -> Result<Vec<Kept>, file::Skip> {
        let mut kept = Vec::new();
        for entry in self.kept.entries()? {
            match self.read(&entry.path) {
                Ok(manual) if manual.is_over(self.host.now()) => self.sweep(&entry.path),
                Ok(manual) => kept.push(Kept::Lock(manual)),
                // It was taken away in this moment.
                Err(file::Skip::Missing) => {}
                Err(why) => {
                    kept.push(Kept::Unreadable { path: entry.path, why: why.to_string() });
                }
            }
        }
        Ok(kept)
    }

    /// Puts a lock in its place. The caller holds the mutex of the directory and has seen it free.
    pub(super) fn put(&self, directory: &Path, manual: &Manual) -> Result<(), EnterError> {
        self.kept.put(&self.kept.enter()?, &self.place(directory), manual)
    }

    /// Takes away the lock of a directory; says what it was, or `None` when there was none in force.
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

    /// Makes the fault that stands for a file we cannot read.
    pub(super) fn fault(&self, path: &Path, why: &str) -> Fault {
        self.kept.fault(path, why)
    }

    /// Makes the fault that stands for a folder we cannot read.
    pub(super) fn blind(&self, skip: &file::Skip) -> Fault {
        self.kept.blind(skip)
    }

    /// Every file that locks this directory: its own place, and where a person may have put it.
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

    /// Takes away a lock that has expired, unless somebody is changing the folder: it is none either way.
    fn sweep(&self, path: &Path) {
        // Only now nobody can put a new one in its place while we look.
        let Some(_entered) = self.kept.try_enter() else { return };
        if self.read(path).is_ok_and(|manual| manual.is_over(self.host.now())) {
            let _left = fs::remove_file(path);
        }
    }
}

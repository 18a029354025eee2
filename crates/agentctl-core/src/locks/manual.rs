//! Manual locks: what a person said, one small file each in `<state>/locks/`.
//!
//! A file is written beside its place, flushed, moved there, and the folder flushed: after a power cut
//! or on a full disk there is the old one or the new one. It is named after its directory, so one that
//! cannot be read still keeps that directory locked. Whoever changes the folder holds its mutex.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::mutex::{EnterError, open_mutex, take};
use crate::host::Host;
use crate::model::{Fault, Time};
use crate::native::file;
use crate::runs::{private_directory, private_file};

/// How long a change of the folder may wait for another one.
const FOLDER_LIMIT: Duration = Duration::from_secs(5);
const MUTEX: &str = ".mutex";

/// What a person said about a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manual {
    /// The directory, links resolved.
    pub directory: String,
    /// Who locked it.
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

/// What lies in a file of the folder.
pub(super) enum Kept {
    /// A lock in force.
    Lock(Manual),
    /// Something that is no lock we can read.
    Unreadable {
        /// Where it lies.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// The folder of manual locks.
pub(super) struct Folder<'a> {
    host: &'a Host,
    path: PathBuf,
}

impl<'a> Folder<'a> {
    pub(super) fn of(host: &'a Host) -> Self {
        Self { host, path: host.state().join("locks") }
    }

    /// Returns where the lock of this directory lies.
    pub(super) fn place(&self, directory: &Path) -> PathBuf {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a: the same for ever
        for byte in directory.as_os_str().as_bytes() {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let tame = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.chars().take(40).map(tame).collect();
        self.path.join(format!("{name}-{hash:016x}.json"))
    }

    /// Reads every lock in force; expired ones are taken away.
    pub(super) fn all(&self) -> Result<Vec<Kept>, file::Skip> {
        let mut kept = Vec::new();
        for entry in file::list(&self.path, self.host.kernel.uid())? {
            // Ours while they are written.
            if entry.name.starts_with('.') {
                continue;
            }
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
        let _mutex = self.enter()?;
        self.remove_leftovers();
        let place = self.place(directory);
        let beside = self.path.join(format!(".new.{}", std::process::id()));
        let mut text = serde_json::to_vec_pretty(manual).map_err(io::Error::from)?;
        text.push(b'\n');
        let written = write_whole(&beside, &text).and_then(|()| fs::rename(&beside, &place));
        if let Err(error) = written {
            // It never was a lock; what is left of it goes with the next change at the latest.
            let _left = fs::remove_file(&beside);
            return Err(error.into());
        }
        self.flush().map_err(EnterError::Io)
    }

    /// Takes away the lock of a directory; says what it was, or `None` when there was none in force.
    pub(super) fn take(&self, directory: &Path) -> Result<Option<Kept>, EnterError> {
        if !self.path.exists() {
            return Ok(None);
        }
        let _mutex = self.enter()?;
        let name = directory.to_string_lossy();
        let listed = self.all().map_err(|skip| io::Error::other(skip.to_string()))?;
        let ours = listed.into_iter().find(|kept| match kept {
            Kept::Lock(manual) => manual.directory == name,
            Kept::Unreadable { path, .. } => *path == self.place(directory),
        });
        let Some(kept) = ours else { return Ok(None) };
        for path in self.places_of(directory) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        self.flush()?;
        Ok(Some(kept))
    }

    /// Makes the fault that stands for a file we cannot read.
    pub(super) fn fault(&self, path: &Path, why: &str) -> Fault {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Fault {
            adapter: super::SOURCE,
            root: Some(self.path.to_string_lossy().into_owned()),
            code: "unreadable",
            message: format!("{name} is no lock we can read: {why}"),
        }
    }

    /// Makes the fault that stands for a folder we cannot read.
    pub(super) fn blind(&self, skip: &file::Skip) -> Fault {
        Fault {
            adapter: super::SOURCE,
            root: None,
            code: "failed",
            message: format!("{} could not be read: {skip}", self.path.display()),
        }
    }

    /// Every file that locks this directory: its own place, and where a person may have put it.
    fn places_of(&self, directory: &Path) -> Vec<PathBuf> {
        let name = directory.to_string_lossy();
        let mut places = vec![self.place(directory)];
        for entry in file::list(&self.path, self.host.kernel.uid()).unwrap_or_default() {
            let ours = self.read(&entry.path).is_ok_and(|manual| manual.directory == name);
            if ours && !places.contains(&entry.path) {
                places.push(entry.path);
            }
        }
        places
    }

    fn read(&self, path: &Path) -> Result<Manual, file::Skip> {
        let bytes = file::read_small(path, self.host.kernel.uid(), 1 << 16)?;
        let manual: Manual =
            serde_json::from_slice(&bytes).map_err(|e| file::Skip::Other(e.to_string()))?;
        if Path::new(&manual.directory).is_absolute() {
            return Ok(manual);
        }
        Err(file::Skip::Other(format!("`{}` is not an absolute path", manual.directory)))
    }

    /// Takes away a lock that has expired, unless somebody is changing the folder: it is none either way.
    fn sweep(&self, path: &Path) {
        let Ok(mutex) = open_mutex(&self.path.join(MUTEX)) else { return };
        if mutex.try_lock().is_err() {
            return;
        }
        // Only now nobody can put a new one in its place while we look.
        if self.read(path).is_ok_and(|manual| manual.is_over(self.host.now())) {
            let _left = fs::remove_file(path);
        }
    }

    fn enter(&self) -> Result<File, EnterError> {
        private_directory(&self.path)?;
        take(open_mutex(&self.path.join(MUTEX))?, Instant::now() + FOLDER_LIMIT)
    }

    /// Removes what writers left that were killed: nobody writes while we hold the mutex.
    fn remove_leftovers(&self) {
        for entry in file::list(&self.path, self.host.kernel.uid()).unwrap_or_default() {
            if entry.name.starts_with(".new.") {
                let _left = fs::remove_file(&entry.path);
            }
        }
    }

    fn flush(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = private_file(path)?;
    file.write_all(text)?;
    file.sync_all()
}

//! Small JSON files below the state folder (manual locks, fuses), and the lock of their folder.
//!
//! A file is written to a temporary name, flushed and renamed, and then the folder is flushed: after a
//! power cut or on a full disk there is the old content or the new one. A file is named after its subject,
//! so that an unreadable one can still be reported by name. Changes of a folder are made under its lock.

mod named_lock;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::host::Host;
use crate::model::{Fault, FaultCode, OWN_SOURCE};
use crate::native::file;
use crate::native::private;
pub(crate) use named_lock::NamedLock;

/// Timeout for taking the lock of a folder.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 16;
const LOCK_FILE: &str = ".mutex";

/// Why a lock could not be taken, or the state below it could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// Another process held the lock until the timeout.
    #[error("another process holds the lock")]
    Busy,
    /// The directory does not exist, or the lock file cannot be opened.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The lock of a folder, released when the value is dropped.
pub(crate) struct Entered(#[expect(dead_code, reason = "held for its lock")] File);

/// One folder below the state folder.
pub(crate) struct Folder {
    path: PathBuf,
    uid: u32,
    /// The name of one file in messages: `lock`, `fuse`.
    what: &'static str,
}

impl Folder {
    pub(crate) fn of(host: &Host, name: &str, what: &'static str) -> Self {
        Self { path: host.state().join(name), uid: host.kernel.uid(), what }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file about a subject. The name is for people; the hash of the key makes it
    /// unique.
    pub(crate) fn place(&self, name: &str, key: &[u8]) -> PathBuf {
        let hash = fnv(key);
        let tame = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.chars().take(40).map(tame).collect();
        self.path.join(format!("{name}-{hash:016x}.json"))
    }

    /// Lists the files of the folder. Names that begin with a dot are temporary files and the lock.
    pub(crate) fn entries(&self) -> Result<Vec<file::DirectoryEntry>, file::Skip> {
        file::list_wanted(&self.path, self.uid, &|name| !name.starts_with('.'))
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, path: &Path) -> Result<T, file::Skip> {
        let bytes = file::read_small(path, self.uid, MAX_FILE_BYTES)?;
        serde_json::from_slice(&bytes).map_err(|e| file::Skip::Other(e.to_string()))
    }

    /// Opens a file of the folder, to take its lock.
    pub(crate) fn open(&self, path: &Path) -> Result<File, file::Skip> {
        Ok(file::open(path, self.uid)?.file)
    }

    /// Takes the folder's lock; creates a missing folder.
    pub(crate) fn enter(&self) -> Result<Entered, EnterError> {
        private::directory(&self.path)?;
        let mutex = open_mutex(&self.path.join(LOCK_FILE))?;
        take(mutex, Instant::now() + LOCK_TIMEOUT).map(Entered)
    }

    /// Takes the folder's lock if it is free.
    pub(crate) fn try_enter(&self) -> Option<Entered> {
        let mutex = open_mutex(&self.path.join(LOCK_FILE)).ok()?;
        mutex.try_lock().is_ok().then_some(Entered(mutex))
    }

    /// Writes a file atomically.
    pub(crate) fn put(
        &self,
        _entered: &Entered,
        place: &Path,
        value: &impl Serialize,
    ) -> Result<(), EnterError> {
        self.remove_leftovers();
        let beside = self.path.join(format!(".new.{}", std::process::id()));
        let mut text = serde_json::to_vec_pretty(value).map_err(io::Error::from)?;
        text.push(b'\n');
        let written = write_whole(&beside, &text).and_then(|()| fs::rename(&beside, place));
        if let Err(error) = written {
            // A leftover is removed by the next change at the latest.
            let _left = fs::remove_file(&beside);
            return Err(error.into());
        }
        self.flush().map_err(EnterError::Io)
    }

    /// Removes files; a missing file is no error.
    pub(crate) fn remove(&self, _entered: &Entered, places: &[PathBuf]) -> io::Result<()> {
        for place in places {
            match fs::remove_file(place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.flush()
    }

    /// Flushes renames and removals to the disk.
    pub(crate) fn flush(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Returns the fault for an unreadable file.
    pub(crate) fn fault(&self, path: &Path, why: &str) -> Fault {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Fault {
            adapter: OWN_SOURCE,
            root: Some(self.path.to_string_lossy().into_owned()),
            code: FaultCode::Unreadable,
            message: format!("{name} is not a readable {}: {why}", self.what),
        }
    }

    /// Returns the fault for an unreadable folder.
    pub(crate) fn blind(&self, skip: &file::Skip) -> Fault {
        Fault {
            adapter: OWN_SOURCE,
            root: None,
            code: FaultCode::Failed,
            message: format!("{} could not be read: {skip}", self.path.display()),
        }
    }

    /// Removes temporary files of writers that were killed. The folder's lock is held, so no writer is
    /// active.
    fn remove_leftovers(&self) {
        for entry in file::list(&self.path, self.uid).unwrap_or_default() {
            if entry.name.starts_with(".new.") {
                let _left = fs::remove_file(&entry.path);
            }
        }
    }
}

fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = private::file(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Opens a lock file, readable and writable by this user only.
pub(crate) fn open_mutex(path: &PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    // `NONBLOCK`: a FIFO in its place must not block the open.
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options.open(path)
}

/// Takes an exclusive lock, until a deadline. If the lock is contended, a thread of its own blocks on it,
/// because the system call has no timeout.
pub(crate) fn take(file: File, until: Instant) -> Result<File, EnterError> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) if Instant::now() >= until => return Err(EnterError::Busy),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let (sender, locked) = channel();
    let waiter = std::thread::Builder::new().name("mutex".into());
    waiter.spawn(move || {
        let answer = loop {
            match file.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
                Ok(()) => break Ok(file),
            }
        };
        // If the deadline has passed, the receiver is gone; dropping the message closes the file and
        // releases the lock.
        let _too_late = sender.send(answer);
    })?;
    match locked.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(answer) => Ok(answer?),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(EnterError::Busy),
    }
}

/// Returns the FNV-1a hash of some bytes: the same in every version of this program.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

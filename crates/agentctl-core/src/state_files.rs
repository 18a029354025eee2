//! Small files that hold a person's word (manual locks, fuses), and the mutex to change them.
//!
//! A file is written beside its place, flushed, moved there, and the folder flushed: after a power cut
//! or on a full disk there is the old one or the new one. It is named after what it is about, so one
//! that cannot be read still says that much. Whoever changes a folder holds its mutex.

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
use crate::model::{Fault, OWN_SOURCE};
use crate::native::file;
use crate::native::private;

/// How long a change of the folder may wait for another one.
const FOLDER_LIMIT: Duration = Duration::from_secs(5);
/// So much of a file is read.
const MOST_BYTES: u64 = 1 << 16;
const MUTEX: &str = ".mutex";

/// Why a mutex was not had, or what is under it could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// Somebody else held it all the time.
    #[error("another process holds the lock")]
    Busy,
    /// There is no such directory, or it cannot be opened.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The mutex of a folder, held until it is dropped.
pub(crate) struct Entered(#[expect(dead_code, reason = "held for its lock")] File);

/// One folder below the state folder.
pub(crate) struct Folder {
    path: PathBuf,
    uid: u32,
    /// What its files are, in a word.
    what: &'static str,
}

impl Folder {
    pub(crate) fn of(host: &Host, name: &str, what: &'static str) -> Self {
        Self { path: host.state().join(name), uid: host.kernel.uid(), what }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns where the file about this lies; the name is for people, the key decides.
    pub(crate) fn place(&self, name: &str, key: &[u8]) -> PathBuf {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a: the same for ever
        for byte in key {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let tame = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.chars().take(40).map(tame).collect();
        self.path.join(format!("{name}-{hash:016x}.json"))
    }

    /// Lists the files; those that begin with a dot are ours while they are written.
    pub(crate) fn entries(&self) -> Result<Vec<file::Entry>, file::Skip> {
        file::list_wanted(&self.path, self.uid, &|name| !name.starts_with('.'))
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, path: &Path) -> Result<T, file::Skip> {
        let bytes = file::read_small(path, self.uid, MOST_BYTES)?;
        serde_json::from_slice(&bytes).map_err(|e| file::Skip::Other(e.to_string()))
    }

    /// Opens a file of the folder, to hold its lock.
    pub(crate) fn open(&self, path: &Path) -> Result<File, file::Skip> {
        Ok(file::open(path, self.uid)?.file)
    }

    /// Takes the folder's mutex; makes the folder where there is none.
    pub(crate) fn enter(&self) -> Result<Entered, EnterError> {
        private::directory(&self.path)?;
        let mutex = open_mutex(&self.path.join(MUTEX))?;
        take(mutex, Instant::now() + FOLDER_LIMIT).map(Entered)
    }

    /// Takes the folder's mutex if nobody has it.
    pub(crate) fn try_enter(&self) -> Option<Entered> {
        let mutex = open_mutex(&self.path.join(MUTEX)).ok()?;
        mutex.try_lock().is_ok().then_some(Entered(mutex))
    }

    /// Puts a file in its place.
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
            // It never was one; what is left of it goes with the next change at the latest.
            let _left = fs::remove_file(&beside);
            return Err(error.into());
        }
        self.flush().map_err(EnterError::Io)
    }

    /// Takes files away; one that is gone already is no matter.
    pub(crate) fn remove(&self, _entered: &Entered, places: &[PathBuf]) -> io::Result<()> {
        for place in places {
            match fs::remove_file(place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.flush()
    }

    /// Forces what was renamed or removed here to the disk.
    pub(crate) fn flush(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Makes the fault that stands for a file we cannot read.
    pub(crate) fn fault(&self, path: &Path, why: &str) -> Fault {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Fault {
            adapter: OWN_SOURCE,
            root: Some(self.path.to_string_lossy().into_owned()),
            code: "unreadable",
            message: format!("{name} is no {} we can read: {why}", self.what),
        }
    }

    /// Makes the fault that stands for a folder we cannot read.
    pub(crate) fn blind(&self, skip: &file::Skip) -> Fault {
        Fault {
            adapter: OWN_SOURCE,
            root: None,
            code: "failed",
            message: format!("{} could not be read: {skip}", self.path.display()),
        }
    }

    /// Removes what writers left that were killed: nobody writes while we hold the mutex.
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

/// Opens a file that is nothing but a mutex, for this user only.
pub(crate) fn open_mutex(path: &PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    // A FIFO in its place is not waited for.
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options.open(path)
}

/// Takes an exclusive lock. Only who is contended waits, on a thread of its own: the wait has a limit,
/// the system call has none.
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
        // Nobody waits any more: the file is closed with the message, and the lock goes with it.
        let _too_late = sender.send(answer);
    })?;
    match locked.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(answer) => Ok(answer?),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(EnterError::Busy),
    }
}

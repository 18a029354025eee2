//! The mutex of one directory: an exclusive `flock` on the directory itself.
//!
//! No file of ours: it survives a wipe, cannot be split by a link, and the kernel drops it with the last
//! descriptor. Whoever holds the [`Entry`] hands its descriptor down from launcher to shim to starter;
//! the agent's `exec` closes the last one. Nobody may ever unlock it by hand: that would open it for all
//! who hold the same description.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::host::Host;
use crate::runs::private_directory;

/// The mutex of a directory, held until the last copy of this descriptor is closed.
#[derive(Debug)]
pub struct Entry {
    file: File,
}

/// Why a directory was not entered.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// Somebody else held it all the time.
    #[error("another launch is at work in this directory")]
    Busy,
    /// There is no such directory, or it cannot be opened.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Entry {
    /// Gives the descriptor away; whoever has it holds the mutex.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.file.into()
    }

    /// Returns a second descriptor of the same mutex: it is free when both are closed.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()? })
    }
}

impl AsFd for Entry {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Takes the mutex of a directory (its real path), waiting at most this long.
pub fn enter(host: &Host, directory: &Path, limit: Duration) -> Result<Entry, EnterError> {
    let until = Instant::now() + limit;
    loop {
        let opened = open_directory(directory)?;
        let identity = identity(&opened)?;
        let file = take_or_stand_in(host, opened, identity, until)?;
        // While we waited the directory may have been replaced: what we hold would then keep nobody out.
        match std::fs::metadata(directory) {
            Ok(now) if (now.dev(), now.ino()) == identity => return Ok(Entry { file }),
            Ok(_) if Instant::now() < until => {}
            Ok(_) => return Err(EnterError::Busy),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Locks the directory, or where its file system refuses that a file that stands for it.
fn take_or_stand_in(
    host: &Host,
    opened: Opened,
    identity: (u64, u64),
    until: Instant,
) -> Result<File, EnterError> {
    if let Opened::Readable(file) = opened {
        match take(file, until) {
            Err(EnterError::Io(_)) => {}
            answer => return answer,
        }
    }
    take(stand_in(host, identity)?, until)
}

/// A directory, opened as far as we may.
enum Opened {
    Readable(File),
    /// Entered but not listed: it can be named, not locked.
    Unreadable(File),
}

fn open_directory(path: &Path) -> io::Result<Opened> {
    let open = |flags: OFlags| {
        let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
    };
    match open(OFlags::empty()) {
        Ok(file) => Ok(Opened::Readable(file)),
        #[cfg(target_os = "linux")]
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open(OFlags::PATH).map(Opened::Unreadable)
        }
        Err(error) => Err(error),
    }
}

fn identity(opened: &Opened) -> io::Result<(u64, u64)> {
    let (Opened::Readable(file) | Opened::Unreadable(file)) = opened;
    let meta = file.metadata()?;
    Ok((meta.dev(), meta.ino()))
}

/// Opens the file that stands for a directory. It lies below the state folder, whatever the environment
/// says about a runtime folder: two launchers must agree on it. It is never removed: a lock on a removed
/// file keeps nobody out.
fn stand_in(host: &Host, (device, inode): (u64, u64)) -> io::Result<File> {
    let folder = host.state().join("run");
    private_directory(&folder)?;
    open_mutex(&folder.join(format!("directory-{device:x}-{inode:x}.mutex")))
}

/// Opens a file that is nothing but a mutex, for this user only.
pub(super) fn open_mutex(path: &PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

/// Takes an exclusive lock. Only who is contended waits, on a thread of its own: the wait has a limit,
/// the system call has none.
pub(super) fn take(file: File, until: Instant) -> Result<File, EnterError> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
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

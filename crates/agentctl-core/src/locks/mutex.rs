//! The mutex of one directory: an exclusive `flock` on the directory itself.
//!
//! No file of ours: it survives a wipe, cannot be split by a link, and the kernel drops it with the last
//! descriptor. Whoever holds the [`Entry`] hands its descriptor down from launcher to shim to starter;
//! the agent's `exec` closes the last one. Nobody may ever unlock it by hand: that would open it for all
//! who hold the same description.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::host::Host;
pub use crate::kept::EnterError;
use crate::kept::{open_mutex, take};
use crate::runs::private_directory;

/// The mutex of a directory, held until the last copy of this descriptor is closed.
#[derive(Debug)]
pub struct Entry {
    file: File,
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
        let identity = identity(directory)?;
        let file = take_directory(host, directory, identity, until)?;
        // While we waited the directory may have been replaced: what we hold would then keep nobody out.
        if self::identity(directory)? == identity {
            return Ok(Entry { file });
        }
        if Instant::now() >= until {
            return Err(EnterError::Busy);
        }
    }
}

/// Locks the directory, or where that cannot be done at all a file that stands for it.
fn take_directory(
    host: &Host,
    directory: &Path,
    identity: (u64, u64),
    until: Instant,
) -> Result<File, EnterError> {
    let flags = OFlags::DIRECTORY | OFlags::NONBLOCK;
    let opened =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(directory);
    match opened.map_err(EnterError::Io).and_then(|file| take(file, until)) {
        Err(EnterError::Io(error)) if has_no_lock(&error) => take(stand_in(host, identity)?, until),
        answer => answer,
    }
}

/// Says whether every process of this user would get this answer: only then all agree on the other file.
fn has_no_lock(error: &io::Error) -> bool {
    let refused = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::BADF, Errno::NOLCK]
        .map(Errno::raw_os_error);
    // It may be entered but not listed, and what cannot be opened cannot be locked.
    error.kind() == io::ErrorKind::PermissionDenied
        || error.raw_os_error().is_some_and(|code| refused.contains(&code))
}

fn identity(directory: &Path) -> io::Result<(u64, u64)> {
    let meta = std::fs::metadata(directory)?;
    if !meta.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
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

/// Takes the one mutex under which sessions are continued: two who name the same session, each with a
/// directory of its own, must not both find it unserved.
pub fn enter_resuming(host: &Host, limit: Duration) -> Result<Entry, EnterError> {
    let folder = host.state().join("run");
    private_directory(&folder)?;
    let file = take(open_mutex(&folder.join("resume.mutex"))?, Instant::now() + limit)?;
    Ok(Entry { file })
}

//! The mutex of one directory: an exclusive `flock` on the directory itself.
//!
//! There is no lock file that could be deleted, two paths to one directory share the lock, and the kernel
//! releases it with the last descriptor. The owner of the [`HeldMutex`] passes its descriptor from launcher
//! to shim to starter; the agent's `exec` closes the last one. It must never be unlocked explicitly: that
//! would release it for all processes that share the file description.
//!
//! Any user who can read a directory can lock it. A lock that only other users hold must not refuse a launch,
//! so a file in the state folder is locked instead. If such a file exists, it is locked as well as the
//! directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::host::Host;
use crate::native::private;
pub use crate::state_files::EnterError;
use crate::state_files::{open_mutex, take};

/// The mutex of a directory, held until the last copy of these descriptors is closed.
#[derive(Debug)]
pub struct HeldMutex {
    /// The directory, the file that is locked instead, or both.
    files: Vec<File>,
}

impl HeldMutex {
    /// Returns the descriptors. Their owner holds the mutex.
    pub fn into_fds(self) -> impl Iterator<Item = OwnedFd> {
        self.files.into_iter().map(OwnedFd::from)
    }

    /// Returns further descriptors of the same mutex: it is free when all are closed.
    pub fn try_clone(&self) -> io::Result<Self> {
        let files = self.files.iter().map(File::try_clone).collect::<io::Result<_>>()?;
        Ok(Self { files })
    }
}

/// Takes the mutex of a directory (its real path), waiting at most this long.
pub fn enter(host: &Host, directory: &Path, limit: Duration) -> Result<HeldMutex, EnterError> {
    let until = Instant::now() + limit;
    loop {
        let identity = identity(directory)?;
        let files = take_directory(host, directory, identity, until)?;
        // The directory may have been replaced during the wait. A lock on the old one excludes no launch.
        if self::identity(directory)? == identity {
            return Ok(HeldMutex { files });
        }
        if Instant::now() >= until {
            return Err(EnterError::Busy);
        }
    }
}

/// Locks the directory or, if a directory cannot be locked there, the file that is locked instead.
fn take_directory(
    host: &Host,
    directory: &Path,
    identity: (u64, u64),
    until: Instant,
) -> Result<Vec<File>, EnterError> {
    let flags = OFlags::DIRECTORY | OFlags::NONBLOCK;
    let opened =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(directory);
    let taken = opened.map_err(EnterError::Io).and_then(|file| match file.try_lock() {
        Err(TryLockError::WouldBlock) if is_held_by_others(host, identity) => {
            take_beside(host, file, identity, until)
        }
        _ => Ok(vec![take(file, until)?]),
    });
    match taken {
        Err(EnterError::Io(error)) if has_no_lock(&error) => {
            Ok(vec![take(stand_in(host, identity)?, until)?])
        }
        Ok(mut files) if files.len() == 1 && stand_in_path(host, identity).exists() => {
            // A launch that met a lock of other users holds that file and not the directory.
            files.push(take(stand_in(host, identity)?, until)?);
            Ok(files)
        }
        taken => taken,
    }
}

/// Locks the file that is used instead of a directory which other users have locked.
fn take_beside(
    host: &Host,
    directory: File,
    identity: (u64, u64),
    until: Instant,
) -> Result<Vec<File>, EnterError> {
    let file = take(stand_in(host, identity)?, until)?;
    // Another launch of this user may have locked the directory before, without the file.
    match directory.try_lock() {
        Ok(()) => Ok(vec![directory, file]),
        // Two descriptors, so that the file is not locked once more; the directory is not locked by us.
        Err(TryLockError::WouldBlock) if is_held_by_others(host, identity) => {
            Ok(vec![directory, file])
        }
        Err(TryLockError::WouldBlock) => {
            drop(file);
            let directory = take(directory, until)?;
            Ok(vec![directory, take(stand_in(host, identity)?, until)?])
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Says whether only other users hold a lock on a directory. An unknown holder counts as this user.
fn is_held_by_others(host: &Host, (device, inode): (u64, u64)) -> bool {
    let Ok(locks) = host.kernel.file_locks(&|locked| locked == inode) else { return false };
    let mut holders = locks.iter().filter(|l| l.kind == "FLOCK" && l.inode == inode).peekable();
    let is_other = |pid: u32| match host.kernel.owner(pid) {
        Ok(Some(uid)) => uid != host.kernel.uid(),
        // The process has exited and another one inherited the lock. This user has it only if a process of
        // this user has the directory open.
        Ok(None) => host.kernel.sees_whole_machine() && !is_open_here(host, device, inode),
        Err(_) => false,
    };
    holders.peek().is_some() && holders.all(|lock| lock.pid.is_some_and(is_other))
}

/// Says whether a process of this user, other than this one, has a directory open. Unknown counts as open.
fn is_open_here(host: &Host, device: u64, inode: u64) -> bool {
    let table = host.kernel.table(Instant::now() + host.deadlines.live, |_| true);
    let own = std::process::id();
    let mut others = table.processes.iter().map(|p| p.id.pid).filter(|pid| *pid != own);
    !table.gaps.is_empty()
        || others.any(|pid| host.kernel.has_open(pid, device, inode).unwrap_or(true))
}

/// Says whether every process of this user gets the same error: only then all of them use the file.
fn has_no_lock(error: &io::Error) -> bool {
    let refused = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::BADF, Errno::NOLCK]
        .map(Errno::raw_os_error);
    // The directory may be entered but not opened, so it cannot be locked.
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

/// Opens the file that is locked instead of a directory. It lies in the state folder, not in a runtime
/// folder that the environment names, because two launchers must use the same file. It is never removed: a
/// lock on a removed file excludes no launch.
fn stand_in(host: &Host, identity: (u64, u64)) -> io::Result<File> {
    private::directory(&host.state().join("run"))?;
    open_mutex(&stand_in_path(host, identity))
}

fn stand_in_path(host: &Host, (device, inode): (u64, u64)) -> PathBuf {
    host.state().join("run").join(format!("directory-{device:x}-{inode:x}.mutex"))
}

/// Takes the mutex under which sessions are continued: two launchers that continue one session in different
/// directories must not both find it unserved.
pub fn enter_resuming(host: &Host, limit: Duration) -> Result<HeldMutex, EnterError> {
    let folder = host.state().join("run");
    private::directory(&folder)?;
    let file = take(open_mutex(&folder.join("resume.mutex"))?, Instant::now() + limit)?;
    Ok(HeldMutex { files: vec![file] })
}

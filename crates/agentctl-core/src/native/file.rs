//! Opens and lists files that any program may have written: no links, no devices, no files of other
//! users, no blocking.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::real_path::real_path;
use crate::kernel::{deadline, home_limit};

/// Why a file was skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skip {
    /// It does not exist (any more).
    #[error("it does not exist")]
    Missing,
    /// A link, a FIFO, a socket, a device, a directory.
    #[error("it is a {0}, not a regular file")]
    NotRegular(&'static str),
    /// It is in the place of a directory and is none.
    #[error("it is a {0}, not a directory")]
    NotDirectory(&'static str),
    /// Another user owns it.
    #[error("it belongs to uid {0}")]
    Foreign(u32),
    /// We may not read it.
    #[error("permission denied")]
    Denied,
    /// It is larger than the limit.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// Any other error of the system.
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for Skip {
    fn from(error: io::Error) -> Self {
        const LINK: i32 = rustix::io::Errno::LOOP.raw_os_error();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ if error.raw_os_error() == Some(LINK) => Self::NotRegular("symbolic link"),
            // A socket cannot be opened at all.
            _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                Self::NotRegular("socket")
            }
            _ => Self::Other(error.to_string()),
        }
    }
}

/// The version of a file: equal stamps mean equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    identity: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            identity: (meta.dev(), meta.ino()),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Returns the stamp of a file; `None` if it does not exist.
    #[must_use]
    pub fn now(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|meta| Self::of(&meta))
    }

    /// Says whether the file has no content.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Says whether the file was last written at least `age` before `then`.
    #[must_use]
    pub fn is_older_than(&self, then: std::time::SystemTime, age: std::time::Duration) -> bool {
        let then = then.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let limit = then.saturating_sub(age);
        let limit =
            (i64::try_from(limit.as_secs()).unwrap_or(i64::MAX), limit.subsec_nanos().into());
        self.modified < limit
    }
}

/// An open regular file of this user.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Its size at the moment of opening.
    pub size: u64,
    /// Its device and inode.
    pub identity: (u64, u64),
    /// Its stamp at the moment of opening.
    pub stamp: Stamp,
}

impl Opened {
    /// Returns when its content was last written, in milliseconds.
    #[must_use]
    pub fn written_ms(&self) -> Option<i64> {
        let (seconds, nanoseconds) = self.stamp.modified;
        seconds.checked_mul(1000)?.checked_add(nanoseconds / 1_000_000)
    }
}

/// Opens a regular file owned by `uid`, never following a link and never blocking.
pub fn open(path: &Path, uid: u32) -> Result<Opened, Skip> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(Skip::NotRegular(kind_of(meta.file_type())));
    }
    if meta.uid() != uid {
        return Err(Skip::Foreign(meta.uid()));
    }
    let stamp = Stamp::of(&meta);
    Ok(Opened { file, size: stamp.size, identity: stamp.identity, stamp })
}

/// Opens a regular file of any owner, links followed, and returns its size. It never blocks on a FIFO,
/// a device or a terminal. For content that is only shown or compared, never acted on.
pub fn open_of_anybody(path: &Path) -> Result<(File, u64), Skip> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(Skip::NotRegular(kind_of(meta.file_type())));
    }
    Ok((file, meta.len()))
}

/// Reads a small regular file of any owner, like [`open_of_anybody`].
pub fn read_small_of_anybody(path: &Path, most: u64) -> Result<Vec<u8>, Skip> {
    let (file, _) = open_of_anybody(path)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(Skip::TooLarge(most)) } else { Ok(bytes) }
}

/// Reads a small file of this user.
pub fn read_small(path: &Path, uid: u32, most: u64) -> Result<Vec<u8>, Skip> {
    let opened = open(path, uid)?;
    // One byte more than the size: the read that finds the end needs room too.
    let expected = usize::try_from(opened.size.min(most) + 1).unwrap_or(0);
    let mut bytes = Vec::with_capacity(expected);
    opened.file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(Skip::TooLarge(most)) } else { Ok(bytes) }
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    /// Its name. Entries whose name is not UTF-8 are left out, since no agent creates them.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Its type, without following a link.
    pub kind: fs::FileType,
}

impl DirectoryEntry {
    /// Says whether it was written since that time; reads the metadata only if there is a limit.
    #[must_use]
    pub fn is_since(&self, since_ms: Option<i64>) -> bool {
        since_ms.is_none_or(|since| self.modified_ms().is_some_and(|at| at >= since))
    }

    /// Returns when it was last written, in milliseconds; `None` if it does not exist any more.
    #[must_use]
    pub fn modified_ms(&self) -> Option<i64> {
        let meta = fs::symlink_metadata(&self.path).ok()?;
        // The time may be any number, so the arithmetic must not overflow.
        Some(meta.mtime().saturating_mul(1000).saturating_add(meta.mtime_nsec() / 1_000_000))
    }
}

/// Most names of a directory that are listed; a larger directory is an error.
const MAX_NAMES: usize = 2_000_000;

/// Lists a directory that is a real directory of this user; a missing one is empty.
pub fn list(directory: &Path, uid: u32) -> Result<Vec<DirectoryEntry>, Skip> {
    list_wanted(directory, uid, &|_| true)
}

/// Like [`list`], but only of wanted names: the others cost next to nothing.
pub fn list_wanted(
    directory: &Path,
    uid: u32,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<DirectoryEntry>, Skip> {
    let meta = match fs::symlink_metadata(directory) {
        Ok(meta) => meta,
        Err(error) => match Skip::from(error) {
            Skip::Missing => return Ok(Vec::new()),
            skip => return Err(skip),
        },
    };
    if !meta.is_dir() {
        return Err(Skip::NotDirectory(kind_of(meta.file_type())));
    }
    if meta.uid() != uid {
        return Err(Skip::Foreign(meta.uid()));
    }
    let mut entries = Vec::new();
    for (count, entry) in fs::read_dir(directory)?.enumerate() {
        if entries.len() >= MAX_NAMES {
            return Err(Skip::Other(format!("it holds more than {MAX_NAMES} names")));
        }
        if count % 4096 == 4095 && deadline::has_passed() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        let entry = entry?;
        if let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type())
            && wanted(&name)
        {
            if !home_limit::take() {
                return Err(Skip::Other(home_limit::TOO_MANY.into()));
            }
            entries.push(DirectoryEntry { name, path: entry.path(), kind });
        }
    }
    Ok(entries)
}

/// Resolves a configured root once, links included; below it no link is followed. A root that does not
/// exist, or that needs too many steps, is returned unchanged.
#[must_use]
pub fn resolve_root(path: &Path) -> PathBuf {
    real_path(path).unwrap_or_else(|_| path.to_owned())
}

/// The reason why nothing can be written in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteRefusal {
    /// The file system is mounted read-only.
    #[error("its file system is read-only")]
    ReadOnly,
    /// No block or no inode is left.
    #[error("its file system is full")]
    Full,
    /// This user may not write there.
    #[error("permission denied")]
    Denied,
}

/// Returns why this user cannot write in a folder, or in the nearest folder above it that exists.
#[must_use]
pub fn refuses_writing(folder: &Path) -> Option<WriteRefusal> {
    let folder = folder.ancestors().find(|path| path.is_dir())?;
    let system = rustix::fs::statvfs(folder).ok()?;
    if system.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Some(WriteRefusal::ReadOnly);
    }
    let free = if rustix::process::geteuid().is_root() { system.f_bfree } else { system.f_bavail };
    // Some file systems do not count inodes and report none at all.
    if (system.f_blocks > 0 && free == 0) || (system.f_files > 0 && system.f_ffree == 0) {
        return Some(WriteRefusal::Full);
    }
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(folder, access).is_err().then_some(WriteRefusal::Denied)
}

/// Returns the word for the type of a directory entry.
#[must_use]
pub fn kind_of(kind: fs::FileType) -> &'static str {
    if kind.is_symlink() {
        "symbolic link"
    } else if kind.is_dir() {
        "directory"
    } else if kind.is_fifo() {
        "FIFO"
    } else if kind.is_socket() {
        "socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "device"
    } else {
        "file"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S11: opening a FIFO without a writer blocks, unless it is opened with `NONBLOCK`.
    #[test]
    fn opening_a_fifo_of_any_owner_does_not_block() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("package.json");
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("made");
        let fifo = Err(Skip::NotRegular("FIFO"));
        assert_eq!(read_small_of_anybody(&path, 10), fifo);
        assert_eq!(read_small(&path, rustix::process::geteuid().as_raw(), 10), fifo);
    }

    #[test]
    fn a_file_of_any_owner_is_read_up_to_a_limit() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("package.json");
        fs::write(&path, "0123456789").expect("written");
        assert_eq!(read_small_of_anybody(&path, 10).expect("read"), b"0123456789");
        assert_eq!(read_small_of_anybody(&path, 9), Err(Skip::TooLarge(9)));
        assert_eq!(read_small_of_anybody(dir.path(), 9), Err(Skip::NotRegular("directory")));
    }

    /// The modification time of a file may be any number.
    #[test]
    fn a_time_of_any_size_is_no_overflow() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("late");
        fs::write(&path, "").expect("written");
        let late = rustix::fs::Timespec { tv_sec: i64::MAX / 900, tv_nsec: 0 };
        let times = rustix::fs::Timestamps { last_access: late, last_modification: late };
        let file = File::open(&path).expect("opened");
        // Many file systems cannot store this time; then there is nothing to overflow.
        let _kept = rustix::fs::futimens(&file, &times);
        let entries = list(dir.path(), rustix::process::geteuid().as_raw()).expect("listed");
        assert!(entries[0].modified_ms().is_some_and(|ms| ms > 0));
    }
}

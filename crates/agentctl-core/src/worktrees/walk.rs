//! Walks and removes a directory by descriptors: no link is followed and no mount is entered.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dev, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, openat, statat, unlinkat,
};
use rustix::io::Errno;

/// How deep directories may be nested.
const MAX_DEPTH: usize = 512;
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// An entry of a directory that is walked.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its path below the directory that is walked.
    pub path: PathBuf,
    /// Its kind.
    pub kind: FileType,
    /// Its size; 0 for a directory.
    pub size: u64,
    /// Its inode, mode and times.
    pub stat: Stat,
}

/// The action of a walk for a directory.
pub(super) enum Enter {
    /// Its entries are visited.
    Yes,
    /// It is passed over.
    No,
}

/// Visits everything below a directory. Fails at a directory that cannot be read, at a mount and where
/// directories are nested too deeply.
pub(super) fn walk(top: &Path, visit: &mut dyn FnMut(&Entry) -> Enter) -> io::Result<()> {
    let fd = openat(rustix::fs::CWD, top, DIRECTORY, Mode::empty())?;
    let device = fstat(&fd)?.st_dev;
    let mut walk = Walk { device, visit };
    walk.directory(fd, Path::new(""), 0)
}

struct Walk<'a> {
    device: Dev,
    visit: &'a mut dyn FnMut(&Entry) -> Enter,
}

impl Walk<'_> {
    fn directory(&mut self, fd: OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        let told = |error: io::Error| about(path, &error);
        if depth > MAX_DEPTH {
            return Err(told(io::Error::other("directories are nested too deeply")));
        }
        for name in names(fd.as_fd()).map_err(told)? {
            let stat = match statat(&fd, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                other => other.map_err(|error| about(&path.join(&name), &error.into()))?,
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let is_directory = kind == FileType::Directory;
            let size = if is_directory { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) };
            let entry = Entry { path: path.join(&name), kind, size, stat };
            if matches!((self.visit)(&entry), Enter::No) || !is_directory {
                continue;
            }
            let below = enter(fd.as_fd(), &name, self.device)
                .map_err(|error| about(&entry.path, &error))?;
            self.directory(below, &entry.path, depth + 1)?;
        }
        Ok(())
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Returns the names in a directory, without `.` and `..`.
fn names(fd: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Opens a directory below another one: never through a link, never across a mount.
fn enter(fd: BorrowedFd<'_>, name: &OsStr, device: Dev) -> io::Result<OwnedFd> {
    let opened = open_on_same_mount(fd, name)?;
    if fstat(&opened)?.st_dev != device {
        return Err(mounted());
    }
    Ok(opened)
}

fn mounted() -> io::Error {
    io::Error::new(io::ErrorKind::CrossesDevices, "another file system is mounted there")
}

#[cfg(target_os = "linux")]
fn open_on_same_mount(fd: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    loop {
        match openat2(fd, name, DIRECTORY, Mode::empty(), resolve) {
            Err(Errno::XDEV) => return Err(mounted()),
            // The kernel asks to try again when a rename elsewhere made it lose its place.
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Older kernels, and sandboxes that forbid the call.
            Err(Errno::NOSYS | Errno::PERM) => {
                return Ok(openat(fd, name, DIRECTORY, Mode::empty())?);
            }
            opened => return Ok(opened?),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn open_on_same_mount(fd: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(openat(fd, name, DIRECTORY, Mode::empty())?)
}

/// Removes a directory with everything in it. A link is removed, not what it leads to. Fails at a mount.
pub(super) fn remove(top: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (top.parent(), top.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let parent = openat(rustix::fs::CWD, parent, DIRECTORY, Mode::empty())?;
    let fd = openat(&parent, name, DIRECTORY, Mode::empty())?;
    let device = fstat(&fd)?.st_dev;
    remove_below(&fd, Path::new(""), device, 0)?;
    drop(fd);
    Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}

fn remove_below(fd: &OwnedFd, path: &Path, device: Dev, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(about(path, &io::Error::other("directories are nested too deeply")));
    }
    let told = |error: Errno, name: &OsStr| about(&path.join(name), &error.into());
    for name in names(fd.as_fd()).map_err(|error| about(path, &error))? {
        match unlink(fd, &name) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(told(error, &name)),
        }
        let below = match enter(fd.as_fd(), &name, device) {
            // A file that must not be unlinked.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(told(Errno::PERM, &name));
            }
            other => other.map_err(|error| about(&path.join(&name), &error))?,
        };
        remove_below(&below, &path.join(&name), device, depth + 1)?;
        unlinkat(fd, name.as_os_str(), AtFlags::REMOVEDIR).map_err(|error| told(error, &name))?;
    }
    Ok(())
}

/// Removes a file. Build tools make directories read-only; such a directory is made writable first.
fn unlink(fd: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match unlinkat(fd, name, AtFlags::empty()) {
        Err(Errno::ACCESS) => {
            fchmod(fd, Mode::RWXU)?;
            unlinkat(fd, name, AtFlags::empty())
        }
        other => other,
    }
}

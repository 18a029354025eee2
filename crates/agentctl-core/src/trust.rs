//! Checks whether another user could have chosen the file that a path leads to.
//!
//! A path is as safe as every directory and link on the way: the owner of one of them, and every user with
//! write access to one of the directories, can replace what it leads to. This user, root and the owner of
//! `/` are trusted; in a user namespace without root the owner of `/` stands for root. In a directory with
//! the sticky bit, like `/tmp`, other users cannot replace files that they do not own.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Limit of links on one path; more are a loop.
const MAX_LINKS: usize = 40;
const STICKY: u32 = 0o1000;

/// Why a path is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// A file, a directory or a link on the way belongs to another user.
    #[error("{} belongs to another user (uid {uid})", .path.display())]
    Foreign {
        /// The path that belongs to the other user.
        path: PathBuf,
        /// The owner.
        uid: u32,
    },
    /// Others may write to the file.
    #[error("{} can be written by others (mode {mode:04o})", .0.display(), mode = .1)]
    Writable(PathBuf, u32),
    /// Others may write to a directory on the way.
    #[error("{} can be replaced by others: {} has mode {mode:04o}", .path.display(), .directory.display())]
    Replaceable {
        /// The file that the path leads to.
        path: PathBuf,
        /// The directory that others may write to.
        directory: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Its metadata cannot be read.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The condition for the directories on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    /// No directory belongs to another user.
    Owned,
    /// In addition, no other user can write to one of them.
    Closed,
}

/// Follows the path to a file that only this user and root could have chosen, and returns its canonical
/// path.
///
/// With [`Strict::Yes`] no group may write to the file or its directory.
pub fn file(path: &Path, uid: u32, strict: Strict) -> Result<PathBuf, Distrust> {
    let (real, meta) = follow(path, uid, Above::Closed)?;
    let mode = meta.mode() & 0o7777;
    let open = if strict == Strict::Yes { mode & 0o022 != 0 } else { is_open(&meta) };
    if open {
        return Err(Distrust::Writable(real, mode));
    }
    let directory = real.parent().unwrap_or(Path::new("/"));
    let above = stat(directory)?;
    if strict == Strict::Yes && above.mode() & 0o022 != 0 && above.mode() & STICKY == 0 {
        let mode = above.mode() & 0o7777;
        return Err(Distrust::Replaceable { directory: directory.to_owned(), path: real, mode });
    }
    Ok(real)
}

/// Whether the owner's private group may write to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// No group may write.
    Yes,
    /// A group with the same number as the owner may write: many systems give each user one.
    No,
}

/// Checks that neither the path nor a directory on the way belongs to another user. Missing parts are
/// allowed.
pub fn owned(path: &Path, uid: u32) -> io::Result<()> {
    match follow(path, uid, Above::Owned) {
        Ok(_) => Ok(()),
        Err(Distrust::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(Distrust::Io { source, .. }) => Err(source),
        Err(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why.to_string())),
    }
}

/// Says whether users other than the owner may read a file and enter every directory above it.
#[must_use]
pub fn is_readable_by_others(path: &Path) -> bool {
    let Ok(real) = fs::canonicalize(path) else { return false };
    let reachable = |directory: &Path| stat(directory).is_ok_and(|meta| meta.mode() & 0o011 != 0);
    stat(&real).is_ok_and(|meta| meta.mode() & 0o044 != 0)
        && real.ancestors().skip(1).all(reachable)
}

/// Walks a path as the kernel does, link by link, and checks each step.
fn follow(path: &Path, uid: u32, above: Above) -> Result<(PathBuf, Metadata), Distrust> {
    let trusted = [uid, 0, fs::metadata("/").map_or(0, |root| root.uid())];
    let mut real = PathBuf::from("/");
    let mut meta = stat(&real)?;
    let mut left: Vec<OsString> = steps(path);
    let mut links = 0;
    while let Some(step) = left.pop() {
        if step == ".." {
            real.pop();
            meta = stat(&real)?;
            continue;
        }
        if above == Above::Closed && is_open(&meta) && meta.mode() & STICKY == 0 {
            let (directory, mode) = (real, meta.mode() & 0o7777);
            return Err(Distrust::Replaceable { path: path.to_owned(), directory, mode });
        }
        let next = real.join(&step);
        meta = stat(&next)?;
        if !trusted.contains(&meta.uid()) {
            return Err(Distrust::Foreign { path: next, uid: meta.uid() });
        }
        if !meta.is_symlink() {
            real = next;
            continue;
        }
        links += 1;
        let target = fs::read_link(&next).map_err(|source| failed(&next, source))?;
        if links > MAX_LINKS {
            return Err(failed(&next, io::Error::other("too many links")));
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        meta = stat(&real)?;
        left.extend(steps(&target));
    }
    Ok((real, meta))
}

/// Returns the steps of a path in reverse order.
fn steps(path: &Path) -> Vec<OsString> {
    let steps = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    });
    let mut steps: Vec<OsString> = steps.collect();
    steps.reverse();
    steps
}

/// Says whether users other than the owner may write.
fn is_open(meta: &Metadata) -> bool {
    let own_group = meta.gid() == meta.uid();
    meta.mode() & 0o002 != 0 || (meta.mode() & 0o020 != 0 && !own_group)
}

fn stat(path: &Path) -> Result<Metadata, Distrust> {
    fs::symlink_metadata(path).map_err(|source| failed(path, source))
}

fn failed(path: &Path, source: io::Error) -> Distrust {
    Distrust::Io { path: path.to_owned(), source }
}

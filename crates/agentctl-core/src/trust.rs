//! Whether another user could have chosen what a path leads to.
//!
//! A path is as safe as every directory and every link on the way. Whoever owns one of them, or may write to one of
//! the directories, can put something else in its place. Ours, root's and those of the owner of `/` are
//! trusted: in a user namespace without root, the owner of `/` stands for root. In a directory with the
//! sticky bit, like `/tmp`, others cannot replace what is not theirs.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// More links on one path than this are a loop.
const LINKS_MOST: usize = 40;
const STICKY: u32 = 0o1000;

/// Why a path is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// A file, a directory or a link on the way belongs to another user.
    #[error("{} belongs to another user (uid {uid})", .path.display())]
    Foreign {
        /// What belongs to the other user.
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
        /// What the path leads to.
        path: PathBuf,
        /// The directory that others may write to.
        directory: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It cannot be looked at.
    #[error("{}: {source}", .path.display())]
    Io {
        /// What cannot be looked at.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What is asked of the directories on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    /// None belongs to another user.
    Owned,
    /// Nor may others write to any of them.
    Closed,
}

/// Follows the path to a file that only this user and root could have chosen, and returns its real path.
///
/// With [`Strict::Yes`] neither the file nor its own directory may be written by any group.
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

/// Whether a group of the owner's own may write to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// No group may.
    Yes,
    /// A group with the owner's own number may: many systems give each user one.
    No,
}

/// Makes sure that no directory on the way to a path, and not the path itself, belongs to another user. What
/// does not exist yet is no matter.
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

/// Walks a path as the kernel does, link by link, and looks at each step.
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
        if links > LINKS_MOST {
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

/// The steps of a path, the first one last.
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

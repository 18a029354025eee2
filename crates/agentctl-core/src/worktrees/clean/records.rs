//! Records of directories that passed all checks and are being deleted, in the git directory of the repository. A record
//! names the directory by its device and inode, so a directory of the same name that a person made is never taken for it.
//!
//! Every process that may commit can write there. So records are reached by descriptors, through no link, and only a
//! file that is named and filled like a record is one.
//!
//! A record is the path of the directory. Behind it, after a byte 0, stand the files in it that have several hard links:
//! when one of the links is removed, the time of the last change (ctime) of the others is new, and nobody wrote them.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::interrupted::is_named_removed;
use crate::git::path_of;
use crate::worktrees::walk::{self, Enter};

/// The folders that lead to the records, below the git directory.
const FOLDERS: [&str; 2] = ["agentctl", "removed"];
/// Limit of a record: about 100,000 files with several links. Without their list such a rest stays.
const MAX_RECORD_BYTES: u64 = 8 << 20;
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// A moment in seconds and nanoseconds, as the file system has it.
type Moment = (i64, i64);

/// Records that a directory, which will have this name, passed all checks.
pub(super) fn write(common: &Path, directory: &Path, name: &Path) -> io::Result<()> {
    let record = record_of(directory)?;
    for at in 0..FOLDERS.len() {
        let parent = open_folder(common, &FOLDERS[..at])?;
        match mkdirat(&parent, FOLDERS[at], Mode::RWXU | Mode::RWXG | Mode::RWXO) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let folder = open_folder(common, &FOLDERS)?;
    // A directory that was deleted may have had the same inode.
    let _old = unlinkat(&folder, &record, AtFlags::empty());
    let flags = FILE | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = openat(&folder, &record, flags, Mode::RUSR | Mode::WUSR)?;
    let mut text = name.as_os_str().as_bytes().to_vec();
    let links = linked_files(directory).unwrap_or_default();
    if !links.is_empty() && ((text.len() + links.len()) as u64) < MAX_RECORD_BYTES {
        text.push(0);
        text.extend(links.bytes());
    }
    File::from(file).write_all(&text)
}

/// Lists the files below a directory that have several hard links, a line each.
fn linked_files(directory: &Path) -> io::Result<String> {
    let mut lines = String::new();
    walk::walk(directory, &mut |entry| {
        if entry.kind == FileType::RegularFile && entry.stat.st_nlink > 1 {
            lines += &line_of(&entry.stat);
            lines.push('\n');
        }
        Enter::Yes
    })?;
    Ok(lines)
}

/// Returns the line about a file with several hard links: its inode, size and the time of its content.
fn line_of(stat: &Stat) -> String {
    format!("{:x} {:x} {:x}.{:x}", stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
}

/// The record of a directory that passed all checks.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The path that it has since.
    directory: PathBuf,
    at: Moment,
    /// The lines about the files in it that had several hard links.
    linked_files: HashSet<String>,
}

impl Recorded {
    /// Says whether an entry was made, written or moved to its place since. A link of a file that was removed elsewhere
    /// is none of this.
    pub(super) fn is_before(&self, stat: &Stat) -> bool {
        let was_written = moment(stat.st_mtime, stat.st_mtime_nsec) >= self.at;
        let was_changed = moment(stat.st_ctime, stat.st_ctime_nsec) >= self.at;
        was_changed && (was_written || !self.linked_files.contains(&line_of(stat)))
    }
}

/// Returns the record that a directory, which has this name, passed all checks; `None` if there is none.
pub(super) fn recorded(common: &Path, directory: &Path) -> Option<Recorded> {
    let folder = open_folder(common, &FOLDERS).ok()?;
    let recorded = read(&folder, &record_of(directory).ok()?)?;
    (recorded.directory == directory).then_some(recorded)
}

/// Returns the directories that the records name.
pub(super) fn directories(common: &Path) -> Vec<PathBuf> {
    let Ok(folder) = open_folder(common, &FOLDERS) else { return Vec::new() };
    all(&folder).into_iter().map(|(_, directory)| directory).collect()
}

/// Removes the records of directories that are gone.
pub(super) fn remove_stale(common: &Path) {
    let Ok(folder) = open_folder(common, &FOLDERS) else { return };
    for (name, directory) in all(&folder) {
        if directory.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            let _stays = unlinkat(&folder, name, AtFlags::empty());
        }
    }
}

/// Returns all records, each with the directory that it names.
fn all(folder: &OwnedFd) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder).into_iter().flatten().flatten() {
        let Some(name) = entry.file_name().to_str().ok().filter(|name| is_record(name)) else {
            continue;
        };
        found.extend(read(folder, name).map(|read| (name.to_owned(), read.directory)));
    }
    found
}

/// A record that is removed when its directory is deleted.
#[derive(Debug)]
pub(super) struct Record {
    common: PathBuf,
    name: Option<String>,
}

impl Record {
    pub(super) fn of(common: &Path, directory: &Path) -> Self {
        Self { common: common.to_owned(), name: record_of(directory).ok() }
    }

    /// Removes the record, and the folders that are empty then.
    pub(super) fn remove(self) {
        let (Some(name), Ok(folder)) = (self.name, open_folder(&self.common, &FOLDERS)) else {
            return;
        };
        let _gone = unlinkat(&folder, name, AtFlags::empty());
        for at in (0..FOLDERS.len()).rev() {
            if let Ok(parent) = open_folder(&self.common, &FOLDERS[..at]) {
                let _not_empty = unlinkat(&parent, FOLDERS[at], AtFlags::REMOVEDIR);
            }
        }
    }
}

/// Opens a folder below the git directory. None of the folders may be a link.
fn open_folder(common: &Path, folders: &[&str]) -> io::Result<OwnedFd> {
    let mut folder = openat(rustix::fs::CWD, common, DIRECTORY, Mode::empty())?;
    for name in folders {
        folder = openat(&folder, *name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(folder)
}

/// Reads a record.
fn read(folder: &OwnedFd, name: &str) -> Option<Recorded> {
    let file = File::from(openat(folder, name, FILE | OFlags::RDONLY, Mode::empty()).ok()?);
    let meta =
        file.metadata().ok().filter(|meta| meta.is_file() && meta.len() <= MAX_RECORD_BYTES)?;
    let mut text = Vec::new();
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    let mut parts = text.splitn(2, |byte| *byte == 0);
    let directory = path_of(parts.next()?);
    let is_one = directory.is_absolute() && is_named_removed(&directory);
    let links = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let linked_files = links.lines().map(str::to_owned).collect();
    let at = (meta.ctime(), meta.ctime_nsec());
    is_one.then_some(Recorded { directory, at, linked_files })
}

fn moment<T>(seconds: i64, nanoseconds: T) -> Moment
where
    i64: TryFrom<T>,
{
    (seconds, i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// Returns the name of the record of a directory: its device and inode.
fn record_of(directory: &Path) -> io::Result<String> {
    let meta = directory.symlink_metadata()?;
    Ok(format!("{:x}-{:x}", meta.dev(), meta.ino()))
}

fn is_record(name: &str) -> bool {
    let is_number = |part: &str| u64::from_str_radix(part, 16).is_ok();
    name.split_once('-').is_some_and(|(device, inode)| is_number(device) && is_number(inode))
}

//! The names that a worktree has while it is removed, and what a killed clean left under them.
//!
//! `.NAME.agentctl-removing` is a worktree that is being checked: the next clean renames it back.
//! `.NAME.agentctl-removed` passed all checks. It is renamed back while git still knows it, and deleted afterwards, if
//! a record proves that it is the directory that was checked, and nobody has used it since.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::occupants::Occupants;
use super::records::{self, Record, Recorded};
use super::select::worktree_of;
use super::{Site, Target};
use crate::git::{GitError, git_dir_of};
use crate::kernel::Cancellation;
use crate::locks::enter;
use crate::worktrees::walk::{self, Enter};
use crate::worktrees::{MakeOrder, WorktreeOptions, called, make};

const REMOVING: &str = ".agentctl-removing";
const REMOVED: &str = ".agentctl-removed";
/// Longest name of a folder on common file systems.
const MAX_FOLDER_BYTES: usize = 255;
/// Longest name of a worktree's folder with which its names during a removal are short enough.
pub const MAX_WORKTREE_FOLDER_BYTES: usize = MAX_FOLDER_BYTES - 1 - REMOVING.len();

/// Returns the name of a worktree that is being checked: beside it, so that relative links to its submodules'
/// repositories stay right.
pub(super) fn removing(path: &Path) -> Option<PathBuf> {
    beside(path, REMOVING)
}

/// Returns the name of a worktree that passed all checks.
pub(super) fn removed(path: &Path) -> Option<PathBuf> {
    beside(path, REMOVED)
}

fn beside(path: &Path, suffix: &str) -> Option<PathBuf> {
    let mut name = OsString::from(".");
    name.push(path.file_name()?);
    name.push(suffix);
    Some(path.with_file_name(name))
}

/// Says why a worktree cannot get the names that it has while it is removed: another directory has one of them, or they
/// are too long.
pub(super) fn obstacle(common: &Path, target: &Target) -> Option<String> {
    let path = target.directory()?;
    // Looks again: another clean that has just renamed the worktree back is no obstacle.
    let are_both_there =
        |aside: &Path| target.directory().is_some() && aside.symlink_metadata().is_ok();
    let is_rest = |aside: &Path| is_finished(aside) && why_kept(common, aside).is_none();
    for aside in [removing(path), removed(path)].into_iter().flatten() {
        match aside.symlink_metadata() {
            Ok(_) if are_both_there(&aside) && !is_rest(&aside) => {
                let aside = aside.display();
                return Some(format!(
                    "{aside} is in the way: the worktree has this name while it is removed; move it elsewhere"
                ));
            }
            Err(error) if error.raw_os_error() == Some(Errno::NAMETOOLONG.raw_os_error()) => {
                return Some(format!(
                    "the name of its directory is longer than {MAX_WORKTREE_FOLDER_BYTES} bytes; \
                     `git worktree move` gives it a shorter one"
                ));
            }
            _ => {}
        }
    }
    None
}

/// Renames a directory to a name that must not exist.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => {
            std::fs::rename(from, to)
        }
        other => Ok(other?),
    }
}

/// Returns the other name of a worktree that another clean removes, or did not finish to remove. git still knows it.
pub(super) fn aside(target: &Target) -> Option<PathBuf> {
    let (path, admin) = (target.facts.path.as_ref()?, target.admin.as_ref()?);
    let admin = std::fs::canonicalize(admin).ok()?;
    other_name(path, |git_dir| *git_dir == admin)
}

/// Returns where a clean that removes a worktree, or that was killed, has put it. `None` if its directory is there.
#[must_use]
pub fn left_aside(path: &Path) -> Option<PathBuf> {
    other_name(path, |git_dir| worktree_of(git_dir).as_deref() == Some(path))
}

/// Finds a worktree under one of its other names, by the git directory that it names.
fn other_name(path: &Path, is_it: impl Fn(&PathBuf) -> bool) -> Option<PathBuf> {
    let mut names = [removing(path), removed(path)].into_iter().flatten();
    let is_it = |aside: &PathBuf| aside.is_dir() && git_dir_of(aside).as_ref().is_some_and(&is_it);
    names.find(|aside| path.symlink_metadata().is_err() && is_it(aside))
}

/// Renames a worktree back that an interrupted clean left under another name. The mutex of the repository is held:
/// no other clean is removing it.
pub(super) fn restore(common: &Path, target: &Target) {
    if let (Some(aside), Some(path)) = (aside(target), &target.facts.path) {
        Record::of(common, &aside).remove();
        let _stays = rename(&aside, path);
    }
}

/// Directories that passed all checks of interrupted cleans, that git does not know any more, and that are still there.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Those that are deleted now; in a dry run, those that would be.
    pub deleted: Vec<PathBuf>,
    /// Those that stay, a sentence each.
    pub warnings: Vec<String>,
}

/// Deletes what interrupted cleans did not delete completely. Does nothing while another clean removes something.
pub(super) fn finish(site: &Site<'_>, occupants: &Occupants) -> Result<Rest, GitError> {
    let (common, mut rest) = (&site.repository.common, Rest::default());
    let Ok(_mutex) = enter(&site.fleet.host, common, Duration::ZERO) else { return Ok(rest) };
    let folders = worktree_folders(site)?;
    let mut left: BTreeSet<PathBuf> = records::directories(common).into_iter().collect();
    for folder in &folders {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        left.extend(entries.map(|entry| entry.path()));
    }
    for path in left.into_iter().filter(|path| is_finished(path)) {
        let is_beside = path.parent().is_some_and(|parent| folders.contains(parent));
        rest.finish_one(site, occupants, (path, is_beside));
    }
    if !site.order.dry_run {
        records::remove_stale(common);
    }
    for folder in folders {
        if folder.as_os_str().as_bytes().ends_with(b".worktrees") && !site.order.dry_run {
            let _not_empty = std::fs::remove_dir(&folder);
        }
    }
    Ok(rest)
}

/// Returns the folders that hold worktrees of the repository, by git and by the user's settings.
fn worktree_folders(site: &Site<'_>) -> Result<BTreeSet<PathBuf>, GitError> {
    let (git, repository) = (site.git, site.repository);
    let mut folders = called::worktree_folders(git, repository)?;
    let order = MakeOrder {
        from: repository.main.clone(),
        options: WorktreeOptions::default(),
        settings: site.order.settings.clone(),
        group: None,
        cancellation: Cancellation::default(),
    };
    folders.extend(make::worktrees_directory(git, repository, &order));
    Ok(folders)
}

impl Rest {
    fn finish_one(
        &mut self,
        site: &Site<'_>,
        occupants: &Occupants,
        (path, is_beside): (PathBuf, bool),
    ) {
        let common = &site.repository.common;
        // Every process that may commit can write a record.
        let elsewhere = (!is_beside).then(|| {
            "is recorded as the rest of an interrupted clean, but is beside no worktree of this repository".to_owned()
        });
        let used = || occupants.below(&[&path]).into_iter().next().map(|why| still_used(&why));
        if let Some(why) = elsewhere.or_else(|| why_kept(common, &path)).or_else(used) {
            return self.warnings.push(format!("{} {why}: it stays", path.display()));
        }
        if !site.order.dry_run {
            let record = Record::of(common, &path);
            if let Err(error) = walk::remove(&path) {
                let text = format!("{} is not removed completely: {error}", path.display());
                return self.warnings.push(text);
            }
            record.remove();
        }
        self.deleted.push(path);
    }
}

/// Says why the rest of an interrupted clean is not deleted: no record proves that it is one, or a file in it is younger
/// than the record. Directories are not compared: deleting the files in them changes their times.
fn why_kept(common: &Path, path: &Path) -> Option<String> {
    let Some(recorded) = records::recorded(common, path) else {
        let text =
            "is named like the rest of an interrupted clean, but no record says that it is one";
        return Some(text.to_owned());
    };
    match younger_file(path, &recorded) {
        Ok(None) => None,
        Ok(Some(file)) => Some(still_used(&format!("{} was written since", file.display()))),
        Err(error) => Some(still_used(&format!("not everything in it can be looked at: {error}"))),
    }
}

fn still_used(why: &str) -> String {
    format!("is the rest of an interrupted clean, but {why}")
}

/// Finds a file below a directory that was made, written or moved when the record was written, or later.
fn younger_file(top: &Path, recorded: &Recorded) -> io::Result<Option<PathBuf>> {
    let mut found = None;
    walk::walk(top, &mut |entry| {
        if entry.kind != FileType::Directory && recorded.is_before(&entry.stat) {
            found.get_or_insert_with(|| entry.path.clone());
        }
        Enter::Yes
    })?;
    Ok(found)
}

/// Says whether a path has the name of a worktree that passed all checks.
pub(super) fn is_named_removed(path: &Path) -> bool {
    original(path).is_some()
}

/// Returns the path that a worktree had before it passed all checks.
fn original(path: &Path) -> Option<PathBuf> {
    let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let name = name.strip_prefix(b".")?.strip_suffix(REMOVED.as_bytes())?;
    let name = <std::ffi::OsStr as OsStrExt>::from_bytes(name);
    (!name.is_empty()).then(|| path.with_file_name(name))
}

/// Says whether git has forgotten the worktree that this directory was.
fn is_finished(path: &Path) -> bool {
    let Some(original) = original(path) else { return false };
    let is_directory = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    // A new worktree at the same place may have the data directory that this one had.
    let admin = git_dir_of(path);
    is_directory && (admin.is_none() || git_dir_of(&original) == admin)
}

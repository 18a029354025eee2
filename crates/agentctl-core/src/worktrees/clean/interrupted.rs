//! The names that a worktree has while it is removed, and what a killed clean left under them.
//!
//! `.NAME.agentctl-removing` is a worktree that is being checked: the next clean renames it back.
//! `.NAME.agentctl-removed` passed all checks. It is renamed back while git still knows it, and deleted afterwards.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{Site, Target};
use crate::git::{GitError, git_dir_of};
use crate::locks::enter;
use crate::worktrees::walk;

const REMOVING: &str = ".agentctl-removing";
const REMOVED: &str = ".agentctl-removed";

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
    let is_it = |aside: &PathBuf| aside.is_dir() && git_dir_of(aside).as_ref() == Some(&admin);
    let mut names = [removing(path), removed(path)].into_iter().flatten();
    names.find(|aside| path.symlink_metadata().is_err() && is_it(aside))
}

/// Renames a worktree back that an interrupted clean left under another name. The mutex of the repository is held:
/// no other clean is removing it.
pub(super) fn restore(target: &Target) {
    if let (Some(aside), Some(path)) = (aside(target), &target.facts.path) {
        let _stays = rename(&aside, path);
    }
}

/// Deletes what interrupted cleans did not delete completely: directories that passed all checks and that git does
/// not know any more. Returns what cannot be deleted. Does nothing while another clean removes something.
pub(super) fn finish(site: &Site<'_>) -> Result<Vec<String>, GitError> {
    let common = &site.repository.common;
    let Ok(_mutex) = enter(&site.fleet.host, common, Duration::ZERO) else { return Ok(Vec::new()) };
    let entries = site.git.worktrees(common)?;
    let mut folders: BTreeSet<PathBuf> = entries
        .iter()
        .skip(1)
        .filter_map(|entry| entry.path.parent())
        .map(Path::to_owned)
        .collect();
    let mut own = site.repository.main.clone().into_os_string();
    own.push(".worktrees");
    folders.insert(own.into());
    let mut warnings = Vec::new();
    for folder in folders {
        for left in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = left.path();
            if !is_finished(&path) {
                continue;
            }
            if let Err(error) = walk::remove(&path) {
                warnings.push(format!("{} is not removed completely: {error}", path.display()));
            }
        }
        if folder.as_os_str().as_bytes().ends_with(b".worktrees") {
            let _not_empty = std::fs::remove_dir(&folder);
        }
    }
    Ok(warnings)
}

/// Says whether git has forgotten the worktree that this directory was.
fn is_finished(path: &Path) -> bool {
    let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let original = name.strip_prefix(b".").and_then(|name| name.strip_suffix(REMOVED.as_bytes()));
    let Some(original) = original.filter(|original| !original.is_empty()) else { return false };
    let original = path.with_file_name(<std::ffi::OsStr as OsStrExt>::from_bytes(original));
    let is_directory = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    // A new worktree at the same place may have the data directory that this one had.
    let admin = git_dir_of(path);
    is_directory && (admin.is_none() || git_dir_of(&original) == admin)
}

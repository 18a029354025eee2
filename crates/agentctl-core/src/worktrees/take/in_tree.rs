//! The merge in the working tree that has the branch checked out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::obstacles::obstacles;
use super::{Preview, TakeError, TakeWay, Taking, occupant, short};
use crate::git::{Git, GitError, git_dir_of};
use crate::locks::{EnterError, HeldMutex, enter};
use crate::worktrees::branch_operations::unfinished_operation;

/// Timeout for a launch in the working tree.
const MUTEX_TIMEOUT: Duration = Duration::from_secs(10);

impl Taking<'_> {
    /// Merges in the working tree that has the branch checked out.
    pub(super) fn merge_in(&self, path: &Path, preview: &Preview) -> Result<String, TakeError> {
        let git = self.git;
        let _mutex = self.enter(path)?;
        self.check_target(path, preview)?;
        let message = self.message()?;
        self.check_order()?;
        let merge = |args: &[&str]| {
            // Options in the configuration of the branch, such as another strategy, would make another merge. Not by
            // `-c`, where the name of a branch must not contain `=`.
            let options = format!("branch.{}.mergeOptions", short(&self.into));
            let call = git.change_by_user(path)?.env("GIT_CONFIG_COUNT", "1");
            let call = call.env("GIT_CONFIG_KEY_0", options).env("GIT_CONFIG_VALUE_0", "");
            // git heeds `--no-overwrite-ignore` only where it moves a branch forward.
            let call = call.args(["merge", "--quiet", "--strategy=ort", "--no-overwrite-ignore"]);
            call.args(args.iter().copied()).arg(&self.source).ok()
        };
        let merged = match self.order.way {
            TakeWay::Merge => merge(&["--no-ff", "--no-squash", "--commit", "-m", &message]),
            TakeWay::FastForward => merge(&["--ff-only", "--no-squash"]),
            TakeWay::Squash => merge(&["--ff", "--squash"]).and_then(|_| {
                git.change_by_user(path)?.args(["commit", "--quiet", "-m", &message]).ok()
            }),
        };
        // git can end without an error and have done something else, if settings tell it so.
        let not_made = || GitError::Io {
            what: "git made another merge than it was told to",
            source: std::io::Error::other("see `git config --get-regexp 'merge|pull|branch'`"),
        };
        self.finish_or_undo(path, preview, merged.err().unwrap_or_else(not_made))
    }

    /// Keeps launches out of the working tree.
    fn enter(&self, path: &Path) -> Result<HeldMutex, TakeError> {
        let (into, path) = (short(&self.into), path.to_owned());
        if !path.is_dir() {
            return Err(TakeError::NoDirectory { into, path });
        }
        let occupied = |holder: String| TakeError::Occupied { into, path: path.clone(), holder };
        let mutex = match enter(&self.fleet.host, &path, MUTEX_TIMEOUT) {
            Ok(mutex) => mutex,
            Err(EnterError::Busy) => return Err(occupied("another launch".to_owned())),
            Err(EnterError::Io(source)) => {
                return Err(
                    GitError::Io { what: "the working tree cannot be locked", source }.into()
                );
            }
        };
        match occupant(self.fleet, &path) {
            Some(holder) => Err(occupied(holder.description())),
            None => Ok(mutex),
        }
    }

    /// Checks that a merge in the working tree would lose nothing there.
    fn check_target(&self, path: &Path, preview: &Preview) -> Result<(), TakeError> {
        let into = short(&self.into);
        let git_dir = git_dir_of(path);
        if let Some(operation) = git_dir.as_deref().and_then(unfinished_operation) {
            return Err(TakeError::UnfinishedInTree { operation, path: path.to_owned() });
        }
        if let Some(lock) = index_lock(path) {
            return Err(TakeError::IndexLocked { path: path.to_owned(), lock });
        }
        self.git.check_rule_files(path)?;
        let plain = |path: &PathBuf| path.to_string_lossy().into_owned();
        let check_changed = || {
            let files = self.git.changed_tracked_files(path)?;
            let files: Vec<String> = files.iter().map(plain).collect();
            if files.is_empty() {
                return Ok(());
            }
            Err(TakeError::Dirty { into: into.clone(), path: path.to_owned(), files })
        };
        check_changed()?;
        let hidden = self.git.changed_or_hidden_files(path)?;
        // A file that is changed at this moment is not hidden.
        if !hidden.is_empty() {
            check_changed()?;
        }
        if !hidden.is_empty() {
            let files = hidden.iter().map(plain).collect();
            return Err(TakeError::Hidden { into, path: path.to_owned(), files });
        }
        if self.git.commit(path, "HEAD")?.as_ref() != Some(&self.tip) {
            return Err(TakeError::Moved { into });
        }
        let in_the_way = obstacles(self.git, path, &preview.changes)?;
        if !in_the_way.is_empty() {
            let files = in_the_way.iter().map(plain).collect();
            return Err(TakeError::InTheWay { into, path: path.to_owned(), files });
        }
        Ok(())
    }
}

/// Returns the lock of the index of a working tree, if there is one.
pub(super) fn index_lock(path: &Path) -> Option<PathBuf> {
    let lock = git_dir_of(path)?.join("index.lock");
    lock.symlink_metadata().is_ok().then_some(lock)
}

/// Counts the tracked files of a working tree that are changed.
pub(super) fn changed_in(git: &Git, path: &Path) -> Result<usize, GitError> {
    Ok(git.changed_tracked_files(path)?.len())
}

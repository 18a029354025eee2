//! Removes worktrees that a call of ours made and that hold nothing yet.

use std::path::Path;

use super::super::{BASE_REFS, BRANCH_REFS, Made};
use super::MakeError;
use crate::git::{Git, GitError, RefEdit, RefTransactionError};
use crate::host::Host;

/// The refs of one worktree with their first values.
pub(super) struct Refs<'a> {
    pub branch: &'a str,
    pub name: &'a str,
    pub base: &'a str,
    pub start: &'a str,
}

/// The end of a worktree whose launch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is removed with its branch and base ref.
    Removed,
    /// It is kept, for this reason.
    Kept(String),
}

/// Removes a worktree whose launch failed, unless something is in it: a commit, or a changed, untracked or
/// ignored file that was not there when it was made.
pub fn undo(host: &Host, made: &Made) -> Result<Undone, MakeError> {
    let git = Git::find(host)?;
    let kept = |why: &str| Ok(Undone::Kept(why.to_owned()));
    let head = git.head(&made.path)?;
    if head.commit.as_ref() != Some(&made.start) {
        return kept("it has a commit of its own");
    }
    if status(&git, &made.path)? != made.prepared {
        return kept("files in it were changed or added");
    }
    let common = git.repository(&made.path)?.common;
    let refs =
        Refs { branch: &made.branch, name: &made.name, base: &made.base, start: &made.start };
    let left = remove(&git, &common, &made.path, &refs);
    if let Some(parent) = made.path.parent() {
        let _not_empty = std::fs::remove_dir(parent);
    }
    Ok(if left.is_empty() { Undone::Removed } else { Undone::Kept(left.join(", ")) })
}

/// Lists the changed, untracked and ignored files of a worktree.
pub(super) fn status(git: &Git, path: &Path) -> Result<Vec<u8>, GitError> {
    let args = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching"];
    Ok(git.read(path).args(args).ok()?.stdout)
}

/// Removes a worktree, its branch and its base ref. A ref that has moved stays. Returns what is left.
pub(super) fn remove(git: &Git, common: &Path, path: &Path, refs: &Refs<'_>) -> Vec<String> {
    let mut left = Vec::new();
    let branch = format!("{BRANCH_REFS}{}", refs.branch);
    let listed = git.worktrees(common).unwrap_or_default();
    let ours = listed.iter().any(|entry| entry.path == path && entry.branch() == Some(&branch));
    // Twice: the first permits unsaved files, the second the lock.
    let remove = || {
        git.change(common).args(["worktree", "remove", "--force", "--force", "--"]).arg(path).ok()
    };
    if ours && remove().is_err() {
        // A checkout that was killed has no `.git` file yet, and git refuses to remove it. The entry is ours, and
        // a missing directory can be removed from the list.
        let _removed = std::fs::remove_dir_all(path);
        if let Err(error) = remove() {
            left.push(format!("{} ({error})", path.display()));
        }
    }
    if path.symlink_metadata().is_ok() && ours {
        let _removed = std::fs::remove_dir_all(path);
        if path.symlink_metadata().is_ok() {
            left.push(path.display().to_string());
        }
    }
    let delete = |name: &str, old: &str| {
        let edit = RefEdit::Delete { name: name.to_owned(), old: old.to_owned() };
        git.change_refs(common, "agentctl: undo", &[edit])
    };
    for (name, old) in
        [(branch.clone(), refs.start), (format!("{BASE_REFS}{}", refs.name), refs.base)]
    {
        match delete(&name, old) {
            Ok(()) => {}
            Err(RefTransactionError::Conflict { .. })
                if matches!(git.ref_value(common, &name), Ok(None)) => {}
            Err(error) => left.push(format!("{name} ({error})")),
        }
    }
    left
}

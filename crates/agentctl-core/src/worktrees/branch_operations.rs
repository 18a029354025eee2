//! The branches that git will move when an unfinished operation ends: those that are rebased or bisected in some
//! working tree. HEAD is detached there, so `git worktree list` does not name them. A file that cannot be read is an
//! error: the branch that it names is not known.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::clean::{OPERATIONS, worktree_of};
use super::{BRANCH_REFS, regular_file, short_branch};
use crate::git::{GitError, Repository};

/// Limit of a file in which git keeps the state of an operation.
const MAX_STATE_BYTES: u64 = 1 << 20;
/// The files that name branches which are rebased. The last one has those of `git rebase --update-refs`.
const REBASED: [&str; 3] =
    ["rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"];
/// The file that names the branch from which a bisection began.
const BISECTED: &str = "BISECT_START";

/// A kind of operation that is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// At its end, or if it is aborted, the branch is set to another commit.
    Rebase,
    /// At its end the branch is checked out again.
    Bisection,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rebase => "a rebase",
            Self::Bisection => "a bisection",
        }
    }
}

/// A branch with an operation that is not finished.
#[derive(Clone, Debug)]
pub(super) struct BranchOperation {
    /// The full name of the branch.
    pub branch: String,
    pub operation: Operation,
    /// The working tree of the operation.
    pub path: PathBuf,
}

/// Finds the unfinished operations in all working trees of a repository, the main one included.
pub(super) fn branch_operations(repository: &Repository) -> Result<Vec<BranchOperation>, GitError> {
    let mut found = Vec::new();
    read(&repository.common, &repository.main, &mut found)?;
    let folder = repository.common.join("worktrees");
    let linked = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
        other => other.map_err(|source| unread(&folder, source))?,
    };
    for entry in linked {
        let git_dir = entry.map_err(|source| unread(&folder, source))?.path();
        let path = worktree_of(&git_dir).unwrap_or_else(|| git_dir.clone());
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        read(&git_dir, &path, &mut found)?;
    }
    Ok(found)
}

/// Returns the name of an operation that is not finished in the working tree of a git directory.
pub(super) fn unfinished_operation(git_dir: &Path) -> Option<&'static str> {
    let is_there = |file: &str| git_dir.join(file).symlink_metadata().is_ok();
    OPERATIONS.iter().find(|(file, _)| is_there(file)).map(|(_, name)| *name)
}

fn read(git_dir: &Path, path: &Path, found: &mut Vec<BranchOperation>) -> Result<(), GitError> {
    let mut add = |branch: String, operation| {
        found.push(BranchOperation { branch, operation, path: path.to_owned() });
    };
    for file in REBASED {
        let text = state(&git_dir.join(file))?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        // Other lines have commits, or say that HEAD was detached.
        for branch in text.lines().filter(|line| line.starts_with(BRANCH_REFS)) {
            add(branch.to_owned(), Operation::Rebase);
        }
    }
    if let Some(text) = state(&git_dir.join(BISECTED))? {
        let text = String::from_utf8_lossy(&text);
        add(format!("{BRANCH_REFS}{}", short_branch(text.trim_end())), Operation::Bisection);
    }
    Ok(())
}

/// Reads a file of a git directory; `None` if it does not exist.
fn state(path: &Path) -> Result<Option<Vec<u8>>, GitError> {
    match regular_file::read(path, MAX_STATE_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(unread(path, error)),
    }
}

fn unread(path: &Path, source: std::io::Error) -> GitError {
    GitError::UnreadState { path: path.to_owned(), source }
}

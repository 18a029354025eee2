//! Why work was not taken: each error is one line that names the branch and the cause.

use std::path::PathBuf;

use crate::git::GitError;
use crate::worktrees::clean::files;

/// How many files a message names.
const NAMED_FILES: usize = 3;

/// Why work was not taken. Nothing changed, unless the error says so.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// git gave no answer.
    #[error(transparent)]
    Git(#[from] GitError),
    /// There is no branch of this name.
    #[error("there is no branch `{0}`")]
    NoBranch(String),
    /// The branch that the worktree began from is not known.
    #[error("the branch that {branch} began from is not known")]
    NoBaseBranch {
        /// The branch of the worktree.
        branch: String,
    },
    /// The branch of the worktree has no commit yet (`git switch --orphan`).
    #[error("{branch} has no commit yet")]
    NoCommit {
        /// The branch of the worktree.
        branch: String,
    },
    /// The worktree's own branch, or its main working tree, was meant.
    #[error("{0} cannot be taken into itself")]
    Itself(String),
    /// The branch has everything that is committed in the worktree.
    #[error("nothing that is committed on {branch} is left to take; {} not committed", files(*uncommitted))]
    OnlyUncommitted {
        /// The branch of the worktree.
        branch: String,
        /// How many files are not committed.
        uncommitted: usize,
    },
    /// Files that are not committed could not be read or stored.
    #[error("not all files of {branch} can be read or stored: {why}")]
    Unread {
        /// The branch of the worktree.
        branch: String,
        /// git's own words.
        why: String,
    },
    /// The worktree has repositories inside that are not its submodules. git would take the names of their commits only.
    #[error("{}, so the files in it cannot be taken with {branch}", embedded(.paths))]
    RepositoriesInside {
        /// The branch of the worktree.
        branch: String,
        /// The repositories, below the worktree.
        paths: Vec<PathBuf>,
    },
    /// The branch has everything that can be taken, and submodules of the worktree have changes of their own.
    #[error("{} of {branch} has changes that are not committed in it, and nothing else is left to take", first_of(.submodules))]
    DirtySubmodules {
        /// The branch of the worktree.
        branch: String,
        /// The submodules, below the worktree.
        submodules: Vec<String>,
    },
    /// The merge would record a commit of a submodule that nobody but the worktree has.
    #[error("{} of {branch} is at {commit}, a commit that no other repository is known to have", first_of(std::slice::from_ref(.submodule)))]
    SubmoduleCommit {
        /// The branch of the worktree.
        branch: String,
        /// The submodule, below the worktree.
        submodule: String,
        /// The commit, shortened.
        commit: String,
        /// The command that makes it known elsewhere.
        command: String,
    },
    /// The merge has conflicts.
    #[error("{branch} conflicts with {into} in {}", .files.join(", "))]
    Conflicts {
        /// The branch of the worktree.
        branch: String,
        /// The branch that should get the work.
        into: String,
        /// The files.
        files: Vec<String>,
        /// The commands that do it by hand.
        commands: Vec<String>,
    },
    /// The branch has commits that the worktree does not have.
    #[error("{into} has commits that {branch} does not have, so it cannot be moved forward")]
    NotForward {
        /// The branch of the worktree.
        branch: String,
        /// The branch that should get the work.
        into: String,
    },
    /// The working tree of the branch has changes.
    #[error("{into} is checked out in {}, where {} not committed", .path.display(), named(.files))]
    Dirty {
        /// The branch.
        into: String,
        /// Its working tree.
        path: PathBuf,
        /// The files that are changed.
        files: Vec<String>,
    },
    /// The working tree of the branch has changes that `assume-unchanged` or `skip-worktree` hide. A merge that fails
    /// would throw them away.
    #[error("{into} is checked out in {}, where git is told not to see changes of {}", .path.display(), listed(.files))]
    Hidden {
        /// The branch.
        into: String,
        /// Its working tree.
        path: PathBuf,
        /// The files.
        files: Vec<String>,
    },
    /// The directory of the worktree is gone.
    #[error("{} does not exist any more", .path.display())]
    WorktreeGone {
        /// The directory.
        path: PathBuf,
        /// The branch of the worktree, without `refs/heads/`.
        branch: Option<String>,
    },
    /// The branch is checked out in a working tree that git cannot name: its git directory lies elsewhere.
    #[error("the working tree that has {into} checked out is not known")]
    UnknownTree {
        /// The branch.
        into: String,
    },
    /// The working tree of the branch is gone.
    #[error("{into} is checked out in {}, which does not exist", .path.display())]
    NoDirectory {
        /// The branch.
        into: String,
        /// The directory.
        path: PathBuf,
    },
    /// Untracked or ignored files of the working tree would be overwritten.
    #[error("{into} is checked out in {}, where {} not tracked and in the way of the merge", .path.display(), named(.files))]
    InTheWay {
        /// The branch.
        into: String,
        /// Its working tree.
        path: PathBuf,
        /// The files.
        files: Vec<String>,
    },
    /// A hook of the repository refused the merge.
    #[error("a hook refused the merge{words}; nothing was changed")]
    Hook {
        /// A colon and the words of the hook; empty if it said nothing.
        words: String,
    },
    /// Another git works in the working tree of the branch, or left its lock there.
    #[error("another git works in {}: {} exists; nothing was changed", .path.display(), .lock.display())]
    IndexLocked {
        /// The working tree.
        path: PathBuf,
        /// The lock.
        lock: PathBuf,
    },
    /// git failed to merge, and the merge was undone.
    #[error("{0}; nothing was changed")]
    Undone(GitError),
    /// The merge has another content than its trial, and no hook explains it. It was undone.
    #[error(
        "git merged {branch} into {into} with another content than its trial had, and no hook ran; the merge was undone"
    )]
    OtherResult {
        /// The branch of the worktree.
        branch: String,
        /// The branch that should get the work.
        into: String,
    },
    /// A session works in the working tree of the branch.
    #[error("{into} is checked out in {}, where {holder} works", .path.display())]
    Occupied {
        /// The branch.
        into: String,
        /// Its working tree.
        path: PathBuf,
        /// The session.
        holder: String,
    },
    /// The branch is rebased or bisected in some working tree.
    #[error("{operation} of {into} is in progress in {}", .path.display())]
    Unfinished {
        /// The operation: `a rebase` or `a bisection`.
        operation: &'static str,
        /// The branch.
        into: String,
        /// The working tree.
        path: PathBuf,
    },
    /// An operation is not finished in the working tree of the branch.
    #[error("{operation} is in progress in {}", .path.display())]
    UnfinishedInTree {
        /// The operation: `a merge`, `a cherry-pick`.
        operation: &'static str,
        /// The working tree.
        path: PathBuf,
    },
    /// An operation is not finished in the worktree itself: neither its commits nor its files are complete.
    #[error("{operation} is in progress in {}", .path.display())]
    UnfinishedWork {
        /// The operation: `a rebase`, `a merge`.
        operation: &'static str,
        /// The worktree.
        path: PathBuf,
    },
    /// Files of the worktree have conflicts that are not resolved.
    #[error("the files of {branch} have unresolved conflicts")]
    Unresolved {
        /// The branch of the worktree.
        branch: String,
    },
    /// The order was called off.
    #[error("interrupted: nothing was taken, and nothing was changed")]
    Cancelled,
    /// The branch moved in the meantime.
    #[error("{into} was changed by another program at the same moment")]
    Moved {
        /// The branch.
        into: String,
    },
    /// The merge failed and could not be undone, or the branch moved meanwhile and the merge was left as it is.
    #[error("the merge into {into} failed and is not undone in {}, where {}: {why}", .path.display(), at_commit(into, commit.as_deref(), .left))]
    NotUndone {
        /// The branch.
        into: String,
        /// Its working tree.
        path: PathBuf,
        /// The commit of the branch now, shortened; `None` if it could not be read.
        commit: Option<String>,
        /// The files of the merge that are neither as before it nor staged.
        left: Box<[String]>,
        /// Something of the merge is staged, or git has it in progress.
        is_staged: bool,
        /// Why the merge failed.
        why: Box<str>,
    },
}

impl TakeError {
    /// Names the cause of a failure after the order was called off: a step failed because its program was ended. A
    /// branch that has moved, and a merge that is not undone, are told as they are.
    pub(super) fn of_cancelled(self) -> Self {
        match self {
            Self::NotUndone { .. } | Self::Moved { .. } => self,
            _ => Self::Cancelled,
        }
    }
}

/// Returns `main is at 1234567 now and a.txt is of the merge`.
fn at_commit(into: &str, commit: Option<&str>, left: &[String]) -> String {
    let at = match commit {
        Some(commit) => format!("{into} is at {commit} now"),
        None => format!("the commit of {into} cannot be read"),
    };
    if left.is_empty() { at } else { format!("{at} and {} left of the merge", named(left)) }
}

/// Returns `a is a repository of its own`; of several ones the first.
fn embedded(paths: &[PathBuf]) -> String {
    let first = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
    format!("{first} is a repository of its own")
}

/// Returns `the submodule a`; of several ones the first.
fn first_of(paths: &[String]) -> String {
    format!("the submodule {}", paths.first().map(String::as_str).unwrap_or_default())
}

/// Returns `a is`, `a, b are` or `a, b, c and 4 more are`.
fn named(names: &[String]) -> String {
    format!("{} {}", listed(names), if names.len() == 1 { "is" } else { "are" })
}

/// Returns `a`, `a, b` or `a, b, c and 4 more`.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMED_FILES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() {
        ..=NAMED_FILES => shown,
        count => format!("{shown} and {} more", count - NAMED_FILES),
    }
}

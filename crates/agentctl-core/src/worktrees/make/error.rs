//! Why worktrees were not made. Nothing is left of the call, except where [`MakeError::Left`] says so.

use std::path::PathBuf;

use crate::git::GitError;
use crate::worktrees::Rescue;

/// Why worktrees were not made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// git gave no answer.
    #[error(transparent)]
    Git(#[from] GitError),
    /// There is no commit to begin at.
    #[error("the repository {} has no commit yet, so a worktree has nothing to begin at", .repository.display())]
    Unborn {
        /// The main working tree.
        repository: PathBuf,
    },
    /// The base names no commit.
    #[error("`{revision}` names no commit of {}", .repository.display())]
    NoSuchBase {
        /// The revision.
        revision: String,
        /// The main working tree.
        repository: PathBuf,
    },
    /// Uncommitted changes belong to HEAD, and the base is another commit.
    #[error("the uncommitted changes belong to HEAD and cannot be put on `{revision}`")]
    ChangesOfOtherBase {
        /// The revision.
        revision: String,
    },
    /// There is no working tree whose changes could be taken along.
    #[error("{} has no working tree whose changes could be taken along", .repository.display())]
    NoChanges {
        /// The repository.
        repository: PathBuf,
    },
    /// Some changed files could not be read.
    #[error("the uncommitted changes cannot be taken along: {why}")]
    UnreadableChanges {
        /// git's own words.
        why: String,
    },
    /// A name cannot be the name of a branch or of a folder.
    #[error("`{name}` cannot be the name of a worktree: {why}")]
    BadName {
        /// The name.
        name: String,
        /// The reason.
        why: String,
    },
    /// The name is in use.
    #[error("the worktree name `{name}` is taken: {holder}")]
    Taken {
        /// The name.
        name: String,
        /// The holder of the name.
        holder: NameHolder,
    },
    /// The directory of a worktree exists already.
    #[error("{} exists already", .path.display())]
    DirectoryExists {
        /// The directory.
        path: PathBuf,
    },
    /// Worktrees must not be there.
    #[error("worktrees cannot be made in {}: it is {why}", .path.display())]
    BadDirectory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A sparse checkout would change the configuration that all worktrees share.
    #[error("a sparse checkout turns on extensions.worktreeConfig in the configuration that all worktrees of {} share", .repository.display())]
    SparseConsent {
        /// The main working tree.
        repository: PathBuf,
    },
    /// A directory that should be checked out is not in the base.
    #[error("--sparse: the base has no directory `{directory}`")]
    NoSuchDirectory {
        /// The directory.
        directory: String,
    },
    /// The repository cannot be written.
    #[error("the repository {} cannot be written: {words}", .repository.display())]
    ReadOnly {
        /// The main working tree.
        repository: PathBuf,
        /// git's own words.
        words: String,
    },
    /// A hook of the repository failed or refused.
    #[error("the hook `{hook}` of the repository failed: {words}")]
    Hook {
        /// The hook.
        hook: &'static str,
        /// The words of the hook or of git.
        words: String,
    },
    /// There is not enough space.
    #[error("{} has {} free, and {} {}", .path.display(), size_down(*.free_bytes), need(*.count), size_up(*.needed_bytes))]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// The free space.
        free_bytes: u64,
        /// The space that is needed, with a tenth to spare.
        needed_bytes: u64,
        /// The number of worktrees.
        count: usize,
    },
    /// The disk became full.
    #[error("the disk is full or cannot be written: no worktree was made")]
    DiskFull,
    /// A submodule could not be checked out.
    #[error("{what}")]
    Submodule {
        /// The submodule and the cause.
        what: String,
    },
    /// The setup program failed.
    #[error("the setup program `{program}` failed: {why}")]
    SetUp {
        /// The program with its arguments.
        program: String,
        /// The cause.
        why: String,
    },
    /// A file or directory could not be written or read.
    #[error("{what}")]
    Io {
        /// The path and the cause.
        what: String,
    },
    /// The order was called off.
    #[error("interrupted")]
    Cancelled,
    /// The call failed, and not everything that it made could be removed.
    #[error("{cause}; {remains}")]
    Left {
        /// Why it failed.
        cause: Box<MakeError>,
        /// The parts that are left.
        remains: Box<Remains>,
    },
}

impl MakeError {
    /// A name that git does not accept for a branch.
    pub(super) fn bad_branch(name: &str) -> Self {
        let why = "git does not accept it as the name of a branch".to_owned();
        Self::BadName { name: name.to_owned(), why }
    }

    /// Names the cause of a failure after the order was called off: a step failed because its program was ended.
    pub(super) fn of_cancelled(self) -> Self {
        match self {
            Self::Left { remains, .. } => Self::Left { cause: Box::new(Self::Cancelled), remains },
            _ => Self::Cancelled,
        }
    }
}

/// A worktree of a failed call that is kept, with its branch and base ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWorktree {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Why it is kept.
    pub why: String,
}

/// The parts of a failed call that are left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// The parts that could not be removed, each with the cause.
    pub left: Vec<String>,
    /// The worktrees that are kept.
    pub kept: Vec<KeptWorktree>,
    /// The rescue refs with the files of worktrees that were removed.
    pub saved: Vec<Rescue>,
}

impl Remains {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for Remains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kept = |kept: &KeptWorktree| format!("{} is kept: {}", kept.path.display(), kept.why);
        let saved = |saved: &Rescue| {
            format!("the contents of the worktree are saved as {}", saved.reference)
        };
        let mut parts: Vec<String> = self.kept.iter().map(kept).collect();
        parts.extend(self.saved.iter().map(saved));
        if !self.left.is_empty() {
            parts.push(format!("this is left: {}", self.left.join(", ")));
        }
        f.write_str(&parts.join("; "))
    }
}

/// The holder of the name of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameHolder {
    /// A worktree.
    Worktree(PathBuf),
    /// A branch of the same name without a worktree.
    Branch(String),
    /// A branch whose name is the beginning of the wanted one, or the other way round: git cannot have both.
    Collision(String),
    /// Another launch, at this moment.
    Other(String),
}

impl std::fmt::Display for NameHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Worktree(path) => write!(f, "the worktree {} has it", path.display()),
            Self::Branch(branch) => write!(f, "the branch `{branch}` exists"),
            Self::Collision(branch) => {
                write!(f, "the branch `{branch}` exists, and git cannot keep both names")
            }
            Self::Other(words) => f.write_str(words),
        }
    }
}

/// Returns `the worktree needs` or `the 3 worktrees need`.
fn need(count: usize) -> String {
    if count == 1 { "the worktree needs".to_owned() } else { format!("the {count} worktrees need") }
}

/// Writes the size of what is needed, rounded up.
fn size_up(bytes: u64) -> String {
    let (unit, word) = unit(bytes);
    format!("{} {word}", bytes.div_ceil(unit))
}

/// Writes the size of what is free, rounded down: it never looks like enough.
fn size_down(bytes: u64) -> String {
    let (unit, word) = unit(bytes);
    format!("{} {word}", bytes / unit)
}

/// Returns the unit in which a size is written: whole kilobytes up to ten megabytes.
fn unit(bytes: u64) -> (u64, &'static str) {
    if bytes < 10 << 20 { (1 << 10, "kB") } else { (1 << 20, "MB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_never_looks_like_enough() {
        let said = |free_bytes, needed_bytes, count| {
            let path = PathBuf::from("/d");
            MakeError::NoSpace { path, free_bytes, needed_bytes, count }.to_string()
        };
        assert_eq!(
            said((512 << 10) + 1, (512 << 10) + 2, 2),
            "/d has 512 kB free, and the 2 worktrees need 513 kB"
        );
        assert_eq!(said(0, 1, 1), "/d has 0 kB free, and the worktree needs 1 kB");
        let ten = 10 << 20;
        assert_eq!(said(ten - 1, ten, 1), "/d has 10239 kB free, and the worktree needs 10 MB");
        assert_eq!(said(ten + 1, ten + 2, 1), "/d has 10 MB free, and the worktree needs 11 MB");
    }
}

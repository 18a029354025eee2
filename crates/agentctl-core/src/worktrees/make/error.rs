//! Why worktrees were not made. Nothing is left of the call, except where [`MakeError::Left`] says so.

use std::path::PathBuf;

use crate::git::GitError;

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
    /// There is not enough space.
    #[error("{} has {} free, and {count} of these worktrees need {}", .path.display(), megabytes(*.free_bytes), megabytes(*.needed_bytes))]
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
    #[error("{cause}; this is left: {}", .left.join(", "))]
    Left {
        /// Why it failed.
        cause: Box<MakeError>,
        /// The parts that are left, each with the cause.
        left: Vec<String>,
    },
}

impl MakeError {
    /// Names the cause of a failure after the order was called off: a step failed because its program was ended.
    pub(super) fn of_cancelled(self) -> Self {
        match self {
            Self::Left { left, .. } => Self::Left { cause: Box::new(Self::Cancelled), left },
            _ => Self::Cancelled,
        }
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

/// Writes a size in whole megabytes, rounded up.
fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1 << 20))
}

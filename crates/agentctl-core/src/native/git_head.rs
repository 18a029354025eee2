//! The git branch of a directory, read from its `HEAD` file. No git is run.

use std::path::{Path, PathBuf};

use super::file;

/// Limit of the files that name a git branch.
const MAX_BRANCH_FILE_BYTES: u64 = 4 << 10;

/// Returns the git branch of a directory, by reading its `HEAD` file. The agent controls the directory, so the
/// file may be a FIFO, a device or endless.
#[must_use]
pub fn branch(directory: &Path, uid: u32) -> Option<String> {
    let read = |path: &Path| {
        let bytes = file::read_small(path, uid, MAX_BRANCH_FILE_BYTES).ok()?;
        String::from_utf8(bytes).ok()
    };
    let there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let git = directory.ancestors().map(|d| d.join(".git")).find(there)?;
    let folder = if git.is_dir() {
        git
    } else {
        // In a worktree `.git` is a file that names the folder.
        git.parent()?.join(read(&git)?.trim().strip_prefix("gitdir: ")?)
    };
    let head = read(&folder.join("HEAD"))?;
    head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
}

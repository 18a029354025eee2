//! The repository and the working tree that a directory belongs to.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{Git, GitCall, GitError, WorktreeEntry, worktree_entries};

/// The repository of a directory.
#[derive(Clone, Debug)]
pub struct Repository {
    /// The git directory that all worktrees of the repository share.
    pub common: PathBuf,
    /// The git directory of this working tree; the same as `common` in the main one.
    pub git_dir: PathBuf,
    /// The top of the working tree; `None` in a bare repository or inside a git directory.
    pub top: Option<PathBuf>,
    /// The directory below the top; empty at the top.
    pub prefix: PathBuf,
    /// The top of the main working tree, or the bare repository itself.
    pub main: PathBuf,
    /// The repository has no main working tree.
    pub bare: bool,
    /// Its working trees at the time of the question, the main one first.
    pub trees: Vec<WorktreeEntry>,
}

/// The commit and branch of a working tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The commit; `None` before the first commit.
    pub commit: Option<String>,
    /// The full name of the branch; `None` for a detached HEAD.
    pub branch: Option<String>,
}

/// The answers of `git rev-parse` about a directory.
struct Places {
    common: PathBuf,
    git_dir: PathBuf,
    top: Option<PathBuf>,
    prefix: PathBuf,
}

impl Git {
    /// Finds the repository of a directory: the submodule in a submodule.
    pub fn repository(&self, directory: &Path) -> Result<Repository, GitError> {
        let Places { common, git_dir, top, prefix } = self.places(directory)?;
        let trees = self.worktrees(&common)?;
        let first = trees.first();
        let main = first.map_or_else(|| common.clone(), |entry| entry.path.clone());
        let bare = first.is_some_and(|entry| entry.bare);
        // A submodule and a repository with `core.worktree` have their main tree elsewhere than beside the
        // git directory, and `git worktree list` names the git directory there.
        let in_main_tree = git_dir == common;
        let main = match &top {
            Some(top) if in_main_tree => top.clone(),
            _ => self.main_tree(&common, main),
        };
        Ok(Repository { common, git_dir, top, prefix, main, bare, trees })
    }

    /// Asks where the repository of a directory is: in one call, unless the directory is in no working tree or a path
    /// contains a line end.
    fn places(&self, directory: &Path) -> Result<Places, GitError> {
        let ask = |args: &[&str]| {
            let call = self.read(directory).args(["rev-parse", "--path-format=absolute"]);
            call.args(args.iter().copied()).ok().map(|output| output.stdout)
        };
        let everything = [
            "--is-inside-work-tree",
            "--git-common-dir",
            "--git-dir",
            "--show-toplevel",
            "--show-prefix",
        ];
        let all = match ask(&everything) {
            Ok(all) => all,
            // A bare repository has no top.
            Err(GitError::Failed { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let lines: Vec<&[u8]> = all.split(|byte| *byte == b'\n').collect();
        if let [b"true", common, git_dir, top, prefix, b""] = lines[..] {
            let [common, git_dir, top, prefix] = [common, git_dir, top, prefix].map(path_of);
            return Ok(Places { common, git_dir, top: Some(top), prefix });
        }
        let git_dirs = ask(&["--is-inside-work-tree", "--git-common-dir", "--git-dir"])?;
        let lines: Vec<&[u8]> = git_dirs.split(|byte| *byte == b'\n').collect();
        let inside = lines.first() == Some(&&b"true"[..]);
        let (common, git_dir) = match lines[..] {
            [_, common, git_dir, b""] => (path_of(common), path_of(git_dir)),
            _ => (as_path(ask(&["--git-common-dir"])?), as_path(ask(&["--git-dir"])?)),
        };
        if !inside {
            return Ok(Places { common, git_dir, top: None, prefix: PathBuf::new() });
        }
        let in_tree = ask(&["--show-toplevel", "--show-prefix"])?;
        let lines: Vec<&[u8]> = in_tree.split(|byte| *byte == b'\n').collect();
        let (top, prefix) = match lines[..] {
            [top, prefix, b""] => (path_of(top), path_of(prefix)),
            _ => (as_path(ask(&["--show-toplevel"])?), as_path(ask(&["--show-prefix"])?)),
        };
        Ok(Places { common, git_dir, top: Some(top), prefix })
    }

    /// Returns the main working tree as its git directory names it, else the given one.
    fn main_tree(&self, common: &Path, listed: PathBuf) -> PathBuf {
        let setting = self.read(common).args(["config", "--get", "core.worktree"]).ok();
        let named = setting.ok().map(|output| as_path(output.stdout));
        named.and_then(|path| std::fs::canonicalize(common.join(path)).ok()).unwrap_or(listed)
    }

    /// Lists all working trees of a repository, the main one first.
    pub fn worktrees(&self, directory: &Path) -> Result<Vec<WorktreeEntry>, GitError> {
        let output = self.read(directory).args(["worktree", "list", "--porcelain", "-z"]).ok()?;
        Ok(worktree_entries(&output.stdout))
    }

    /// Returns the paths at which the index of a working tree has submodules.
    pub fn gitlinks(&self, top: &Path) -> Result<Vec<PathBuf>, GitError> {
        if top.join(".gitmodules").symlink_metadata().is_err() {
            return Ok(Vec::new());
        }
        self.gitlinks_without_settings(top)
    }

    /// Returns the same, also where the working tree has no `.gitmodules` any more.
    pub fn gitlinks_without_settings(&self, top: &Path) -> Result<Vec<PathBuf>, GitError> {
        listed_gitlinks(self.read(top))
    }

    /// Returns the commit and branch of a working tree.
    pub fn head(&self, directory: &Path) -> Result<Head, GitError> {
        let (commit, branch) = (self.commit(directory, "HEAD")?, self.head_branch(directory)?);
        Ok(Head { commit, branch })
    }

    /// Returns the full name of the branch of a working tree; `None` for a detached HEAD.
    pub fn head_branch(&self, directory: &Path) -> Result<Option<String>, GitError> {
        let output = self.read(directory).args(["symbolic-ref", "--quiet", "HEAD"]).run()?;
        Ok((output.code == 0).then(|| output.text()))
    }
}

/// Returns the paths at which the index of a call has submodules.
pub(super) fn listed_gitlinks(call: GitCall<'_>) -> Result<Vec<PathBuf>, GitError> {
    let staged = call.args(["ls-files", "--stage", "-z"]).ok()?.stdout;
    let entries = staged.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
    let path = |entry: &[u8]| {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        Some(path_of(&entry[tab + 1..]))
    };
    Ok(entries.filter_map(path).collect())
}

/// Returns a path that git printed with `-z`.
#[must_use]
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Returns a path that git printed, without the line end. A name may itself end in a line end, so one is
/// removed only.
pub(super) fn as_path(mut bytes: Vec<u8>) -> PathBuf {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    PathBuf::from(OsString::from_vec(bytes))
}

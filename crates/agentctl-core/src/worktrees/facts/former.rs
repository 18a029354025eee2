//! The branches that a worktree had before, and the names that a branch had, by their reflogs.

use std::path::Path;

use super::Reader;
use crate::git::{WorktreeEntry, git_dir_of};
use crate::worktrees::{BRANCH_REFS, DEFAULT_PREFIX, name_of, regular_file};

/// The beginning of a line in the reflog of HEAD.
const MOVING_FROM: &str = "checkout: moving from ";
/// The beginning of a line in the reflog of a branch that was renamed.
const RENAMED: &str = "Branch: renamed ";
/// Limit of the reflog of HEAD.
const MAX_LOG_BYTES: u64 = 64 << 20;

impl Reader<'_> {
    /// Returns the branch of ours that a worktree had checked out last, by the reflog of its HEAD. git reads none while
    /// HEAD is unborn, so the file is read.
    pub(super) fn last_branch(&self, path: &Path) -> Option<String> {
        let from =
            |line: &str| Some(line.strip_prefix(MOVING_FROM)?.split_once(" to ")?.0.to_owned());
        let is_ours = |branch: &String| name_of(branch, self.prefix).is_some();
        let branch = |line: &str| Some(format!("{BRANCH_REFS}{}", from(line)?)).filter(is_ours);
        if let Some(log) = head_log(path) {
            let text = String::from_utf8_lossy(&log);
            let mut messages = text.lines().rev().filter_map(|line| Some(line.split_once('\t')?.1));
            return messages.find_map(branch);
        }
        let args = ["reflog", "show", "--format=%gs", "HEAD", "--"];
        let said = self.git.read(path).args(args).ok().ok()?.text();
        said.lines().find_map(branch)
    }

    /// Says whether a worktree on an unborn branch was last where a branch of ours is: `git switch --orphan` writes no
    /// line into a reflog.
    pub(super) fn was_last_at(&self, entry: &WorktreeEntry, name: &str) -> bool {
        let made =
            [self.prefix, DEFAULT_PREFIX].map(|prefix| format!("{BRANCH_REFS}{prefix}{name}"));
        let tip = made.iter().find_map(|branch| self.plain(branch));
        let log = head_log(&entry.path).unwrap_or_default();
        let last = String::from_utf8_lossy(&log).lines().last().map(str::to_owned);
        let last = last.as_deref().and_then(|line| line.split(' ').nth(1));
        entry.commit.is_none() && tip.is_some_and(|tip| last == Some(tip.as_str()))
    }

    /// Returns the names that a branch of ours had before it was renamed, by its reflog. A name that another branch has
    /// now is not among them.
    pub(in crate::worktrees) fn former_names(&self, branch: &str) -> Vec<String> {
        let args = ["reflog", "show", "--format=%gs", branch, "--"];
        let said = self.git.read(&self.repository.common).args(args).ok();
        let said = said.map(|output| output.text()).unwrap_or_default();
        let from = |line: &str| Some(line.strip_prefix(RENAMED)?.split_once(" to ")?.0.to_owned());
        let former = said.lines().filter_map(from).filter(|former| !self.refs.contains_key(former));
        former.filter_map(|former| name_of(&former, self.prefix).map(str::to_owned)).collect()
    }
}

/// Returns the reflog of HEAD of a working tree; `None` if it has no file.
fn head_log(path: &Path) -> Option<Vec<u8>> {
    regular_file::read(&git_dir_of(path)?.join("logs/HEAD"), MAX_LOG_BYTES).ok()
}

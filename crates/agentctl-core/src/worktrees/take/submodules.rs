//! Submodules whose commit a merge would change: git takes the name of the commit and none of its files, so somebody
//! else must have that commit.

use std::path::Path;

use super::{Preview, TakeError, Taking};
use crate::git::{GitError, TreeChange};
use crate::text::shell_word;

impl Taking<'_> {
    /// Returns the submodules whose commit the merge changes. Refuses a commit that only the worktree has: neither the
    /// same submodule of the branch's working tree or of the main one, nor its remote as far as was fetched.
    pub(super) fn check_submodules(&self, preview: &Preview) -> Result<Vec<String>, TakeError> {
        let mut moved = Vec::new();
        for change in preview.changes.iter().filter(|change| change.is_repository()) {
            if !self.is_known_elsewhere(change)? {
                return Err(self.unknown_commit(change));
            }
            moved.push(change.path.to_string_lossy().into_owned());
        }
        Ok(moved)
    }

    /// Returns the working trees that have the submodule checked out, other than the worktree itself.
    fn others<'b>(
        &'b self,
        change: &'b TreeChange,
    ) -> impl Iterator<Item = std::path::PathBuf> + 'b {
        let target = self.entry.as_ref().map(|entry| entry.path.as_path());
        let tops = target.into_iter().chain([self.main]);
        tops.map(|top| top.join(&change.path)).filter(|path| is_repository(path))
    }

    fn is_known_elsewhere(&self, change: &TreeChange) -> Result<bool, GitError> {
        let commit = format!("{}^{{commit}}", change.object_after);
        for other in self.others(change) {
            if self.git.read(&other).args(["cat-file", "-e", &commit]).run()?.code == 0 {
                return Ok(true);
            }
        }
        let own = self.top.join(&change.path);
        if !is_repository(&own) {
            // The worktree does not have it either: its commit came from elsewhere.
            return Ok(true);
        }
        let contains = ["for-each-ref", "--count=1", "--format=x", "--contains"];
        let call = self.git.read(&own).args(contains).args([&change.object_after, "refs/remotes"]);
        let output = call.run()?;
        Ok(output.code == 0 && !output.text().is_empty())
    }

    fn unknown_commit(&self, change: &TreeChange) -> TakeError {
        let word = |path: &Path| shell_word(&path.to_string_lossy());
        let own = word(&self.top.join(&change.path));
        let command = match self.others(change).next() {
            Some(other) => format!("git -C {} fetch {own} {}", word(&other), change.object_after),
            None => format!("git -C {own} push"),
        };
        TakeError::SubmoduleCommit {
            branch: self.branch.clone(),
            submodule: change.path.to_string_lossy().into_owned(),
            commit: change.object_after.chars().take(7).collect(),
            command,
        }
    }
}

/// Says whether a directory is a repository of its own. Otherwise git would answer for the one around it.
fn is_repository(path: &Path) -> bool {
    path.join(".git").symlink_metadata().is_ok()
}

//! The files of a worktree whose setup did not finish: which of them are work.
//!
//! Every file that is neither of the base nor a copy, nor empty, and that git does not ignore, may be of somebody else
//! than the setup program.

use std::path::PathBuf;

use crate::git::{Contents, Git, GitError, Repository, TreeChange, WorkTree, is_cut_off};

/// The files of a worktree whose setup did not finish.
pub(in crate::worktrees) struct SetUpFiles<'a> {
    pub git: &'a Git,
    pub repository: &'a Repository,
    pub tree: WorkTree,
    /// Its files and submodules were checked out.
    pub is_checked_out: bool,
}

impl SetUpFiles<'_> {
    /// Returns a repository in it that is no submodule: a rescue ref would hold the name of its commit and no file of it.
    pub(in crate::worktrees) fn repository_inside(
        &self,
        contents: &Contents,
    ) -> Result<Option<PathBuf>, GitError> {
        let (committed, top) = (self.committed(contents)?, &self.tree.top);
        let call = contents.store.see(self.tree.read(self.git));
        let trees = (committed.as_str(), contents.on_disk.as_str());
        Ok(self.git.embedded_repositories(call, top, trees)?.into_iter().next())
    }

    /// Says whether files or staged contents in it may be work.
    pub(in crate::worktrees) fn are_work(&self, contents: &Contents) -> Result<bool, GitError> {
        let (git, top) = (self.git, &self.tree.top);
        let committed = self.committed(contents)?;
        let call = || contents.store.see(self.tree.read(git));
        for change in git.tree_changes(call(), &committed, &contents.on_disk)? {
            let is_known = change.is_deleted()
                || self.is_empty_or_copy(&change)
                || (!self.is_checked_out
                    && !change.is_added()
                    && is_cut_off(call(), (top, &change.path), &change.object_before)?);
            if !is_known {
                return Ok(true);
            }
        }
        let Some(staged) = &contents.staged else { return Ok(true) };
        // A checkout that was ended has not written its index.
        Ok(self.is_checked_out && *staged != contents.on_disk && *staged != committed)
    }

    /// Returns the tree of HEAD. A setup program may have left HEAD without a commit.
    fn committed(&self, contents: &Contents) -> Result<String, GitError> {
        match &contents.committed {
            Some(committed) => Ok(committed.clone()),
            None => self.git.empty_tree(&self.repository.common),
        }
    }

    /// Says whether a new file has no content, or that of the same file in the main working tree: `copy` makes those.
    fn is_empty_or_copy(&self, change: &TreeChange) -> bool {
        let file = self.tree.top.join(&change.path);
        let Ok(meta) = file.symlink_metadata() else { return false };
        if !change.is_added() || !meta.is_file() {
            return false;
        }
        let main = self.repository.main.join(&change.path);
        let is_alike = |main: std::fs::Metadata| main.is_file() && main.len() == meta.len();
        meta.len() == 0
            || (!self.repository.bare
                && main.symlink_metadata().is_ok_and(is_alike)
                && std::fs::read(&file)
                    .is_ok_and(|ours| std::fs::read(&main).is_ok_and(|theirs| ours == theirs)))
    }
}

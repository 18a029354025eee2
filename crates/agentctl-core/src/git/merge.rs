//! Merges that need no working tree.

use std::path::{Path, PathBuf};

use super::{Git, GitCall, GitError, path_of};

/// The result of a merge that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    /// The tree of the merge.
    Clean(String),
    /// The files with conflicts.
    Conflicts(Vec<String>),
}

impl Git {
    /// Merges a commit into another one, in a call that says where its objects go. No ref and no file changes.
    pub fn merge_trees(
        &self,
        call: GitCall<'_>,
        into: &str,
        commit: &str,
    ) -> Result<MergeResult, GitError> {
        let args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
        let output = call.args(args).args([into, commit]).run()?;
        let mut fields = output.stdout.split(|byte| *byte == 0);
        let tree = String::from_utf8_lossy(fields.next().unwrap_or_default()).trim().to_owned();
        let names = fields.filter(|name| !name.is_empty());
        match output.code {
            0 => Ok(MergeResult::Clean(tree)),
            1 => {
                let name = |name: &[u8]| path_of(name).to_string_lossy().into_owned();
                let mut names: Vec<String> = names.map(name).collect();
                names.dedup();
                Ok(MergeResult::Conflicts(names))
            }
            _ => Err(GitError::of("merge-tree".to_owned(), Path::new("").to_owned(), &output)),
        }
    }

    /// Prepares a change that makes a commit by this user; by `agentctl` where git knows no user.
    pub fn change_by_user(&self, directory: &Path) -> Result<GitCall<'_>, GitError> {
        let known = self.read(directory).setting("user.useConfigOnly=true");
        let known = known.args(["var", "GIT_COMMITTER_IDENT"]).run()?.code == 0;
        let call = self.change(directory);
        Ok(if known {
            call
        } else {
            call.setting("user.name=agentctl").setting("user.email=agentctl@localhost")
        })
    }

    /// Makes a commit by this user; by `agentctl` where git knows no user.
    pub fn commit_with_parents(
        &self,
        directory: &Path,
        tree: &str,
        parents: &[&str],
        message: &str,
    ) -> Result<String, GitError> {
        let call = self.change_by_user(directory)?;
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        call.args(["commit-tree", tree, "-m", message]).args(parents).text()
    }

    /// Counts the files that differ between two commits or trees.
    pub fn count_changed(
        &self,
        call: GitCall<'_>,
        one: &str,
        other: &str,
    ) -> Result<usize, GitError> {
        self.differing_files(call, one, other).map(|files| files.len())
    }

    /// Returns the files that differ between two commits or trees.
    pub fn differing_files(
        &self,
        call: GitCall<'_>,
        one: &str,
        other: &str,
    ) -> Result<Vec<PathBuf>, GitError> {
        let args = ["diff-tree", "-r", "-z", "--no-renames", "--name-only", "--no-ext-diff"];
        let call = call.args(args).arg("--ignore-submodules=none");
        let listed = call.args([one, other, "--"]).ok()?.stdout;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(path_of).collect())
    }
}

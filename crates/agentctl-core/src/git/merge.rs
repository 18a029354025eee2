//! Merges that need no working tree.

use std::fs::File;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use super::error::io;
use super::private_directory::PrivateDirectory;
use super::{Git, GitCall, GitError, path_of};

/// The result of a merge that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    /// The tree of the merge.
    Clean(String),
    /// The files with conflicts.
    Conflicts(Vec<String>),
}

/// A place to try merges into a commit: a private directory that stands for a working tree of the commit, and has
/// its attributes only. git takes the rules of a merge from there.
#[derive(Debug)]
pub struct MergePlace {
    /// The git directory of the repository.
    git_dir: PathBuf,
    directory: PrivateDirectory,
}

impl MergePlace {
    /// Lets a call run here. No merge driver runs.
    pub fn enter<'a>(&self, call: GitCall<'a>) -> Result<GitCall<'a>, GitError> {
        let call = call.in_directory(&self.directory.path).env("GIT_DIR", &self.git_dir);
        call.env("GIT_WORK_TREE", &self.directory.path).without_merge_drivers()
    }
}

/// The file with the attributes of the files in its directory.
const ATTRIBUTES_FILE: &[u8] = b".gitattributes";
/// The beginning of the modes of regular files in a tree.
const REGULAR: &[u8] = b"100";
/// The mode of a repository in a tree.
const GITLINK: &str = "160000";
/// The mode of a path that a tree does not have.
const ABSENT: &str = "000000";

/// A path that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeChange {
    /// The path below the top.
    pub path: PathBuf,
    /// Its mode in the first tree.
    pub(super) mode_before: String,
    /// Its mode in the second tree.
    pub(super) mode_after: String,
    /// Its object in the first tree.
    pub object_before: String,
    /// Its object in the second tree.
    pub object_after: String,
}

impl TreeChange {
    /// Only the second tree has it.
    #[must_use]
    pub fn is_added(&self) -> bool {
        self.mode_before == ABSENT
    }

    /// The second tree does not have it.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.mode_after == ABSENT
    }

    /// It is a repository in the first tree.
    #[must_use]
    pub fn was_repository(&self) -> bool {
        self.mode_before == GITLINK
    }

    /// It is a repository in the second tree.
    #[must_use]
    pub fn is_repository(&self) -> bool {
        self.mode_after == GITLINK
    }
}

/// Says whether a path of a tree leads below the top. git lets a tree object have an entry `..` and never checks such a
/// tree out.
pub(super) fn is_below(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Refuses a path of a tree that leads out of the tree.
fn check_below(path: &Path) -> Result<(), GitError> {
    if is_below(path) {
        return Ok(());
    }
    let source = std::io::Error::other(path.display().to_string());
    Err(GitError::Io { what: "the tree has a path outside of itself", source })
}

/// Refuses changes of a path that leads out of the tree.
pub fn check_all_below(changes: &[TreeChange]) -> Result<(), GitError> {
    changes.iter().try_for_each(|change| check_below(&change.path))
}

impl Git {
    /// Makes a place to try merges into a commit of the repository with this git directory.
    pub fn merge_place(&self, git_dir: &Path, into: &str) -> Result<MergePlace, GitError> {
        let directory = self.private_directory()?;
        let listed = self.read(git_dir).args(["ls-tree", "-r", "-z", "--full-tree", into]).ok()?;
        // `MODE blob OBJECT`, a tab, the path.
        let entries = listed.stdout.split(|byte| *byte == 0).filter_map(|entry| {
            let tab = memchr::memchr(b'\t', entry)?;
            Some((&entry[..tab], &entry[tab + 1..]))
        });
        // git follows no link to attributes.
        let is_rule_file = |(facts, path): &(&[u8], &[u8])| {
            let name = path.rsplit(|byte| *byte == b'/').next();
            facts.starts_with(REGULAR) && name == Some(ATTRIBUTES_FILE)
        };
        for (facts, path) in entries.filter(is_rule_file) {
            let object = facts.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            let object = String::from_utf8_lossy(object).into_owned();
            let rules = self.read(git_dir).args(["cat-file", "blob", &object]).ok()?.stdout;
            let below = path_of(path);
            check_below(&below)?;
            let path = directory.path.join(below);
            let folder = path.parent().unwrap_or(&directory.path);
            std::fs::create_dir_all(folder)
                .and_then(|()| File::create_new(&path)?.write_all(&rules))
                .map_err(io("the attributes of a merge cannot be written"))?;
        }
        Ok(MergePlace { git_dir: git_dir.to_owned(), directory })
    }

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
        let changes = self.tree_changes(call, one, other)?;
        Ok(changes.into_iter().map(|change| change.path).collect())
    }

    /// Returns the differences between two commits or trees, which the call must see.
    pub fn tree_changes(
        &self,
        call: GitCall<'_>,
        one: &str,
        other: &str,
    ) -> Result<Vec<TreeChange>, GitError> {
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff"];
        let call = call.args(args).arg("--ignore-submodules=none");
        let listed = call.args([one, other, "--"]).ok()?.stdout;
        let mut fields = listed.split(|byte| *byte == 0);
        let mut changes = Vec::new();
        // `:OLDMODE NEWMODE OLD NEW KIND`, then the path.
        while let (Some(change), Some(path)) = (fields.next(), fields.next()) {
            let change = String::from_utf8_lossy(change.strip_prefix(b":").unwrap_or(change));
            let mut words = change.split(' ').map(str::to_owned);
            let mut word = || words.next().unwrap_or_default();
            let (mode_before, mode_after) = (word(), word());
            let (object_before, object_after) = (word(), word());
            changes.push(TreeChange {
                path: path_of(path),
                mode_before,
                mode_after,
                object_before,
                object_after,
            });
        }
        Ok(changes)
    }
}

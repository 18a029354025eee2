//! Finds the refs that hold the commits of a worktree, and the commits that only a reflog names.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::Target;
use super::check::Checker;
use crate::git::{ChangedFile, Contents, Git, GitError, WorkTree};
use crate::worktrees::{BASE_REFS, DEFAULT_PREFIX, Merged, short_branch};

/// The refs that hold the commits of a branch.
pub(super) struct Whereabouts {
    /// How many are nowhere else.
    pub lost: usize,
    /// The branch that it began from has all of them, or their content.
    pub in_base_branch: bool,
    pub text: String,
}

impl Checker<'_> {
    /// Says where the commits of a branch are, apart from the branch itself and other branches of ours.
    pub(super) fn whereabouts(
        &self,
        branch: Option<&str>,
        commit: &str,
    ) -> Result<Whereabouts, GitError> {
        let git = self.site.git;
        let common = &self.site.repository.common;
        let base_branch = self.reader.base_branch(branch)?.filter(|base| Some(&**base) != branch);
        let call = git.read(common).args(["rev-list", commit, "--not"]);
        let own = call.args(self.other_refs(base_branch.as_deref())).arg("--").text()?;
        let count = own.lines().count();
        let tip = base_branch.as_ref().and_then(|name| self.reader.refs.get(name));
        let merged = match tip {
            Some(tip) => Some(git.merged(common, commit, tip)?),
            None => None,
        };
        let base = base_branch.as_deref().map(short_branch).unwrap_or_default();
        let in_base_branch = matches!(merged, Some(Merged::Yes | Merged::ByContent));
        let (lost, text) = match (merged, count) {
            (Some(Merged::Yes), _) => (0, format!("{base} has its commits")),
            (_, 0) => (0, "its commits are on another branch, a remote or a tag".to_owned()),
            (Some(Merged::ByContent), _) => (0, format!("merged into {base} by content")),
            _ => {
                let first: String = own.chars().take(7).collect();
                let commits =
                    if count == 1 { "1 commit is".into() } else { format!("{count} commits are") };
                (count, format!("{commits} nowhere else ({first})"))
            }
        };
        Ok(Whereabouts { lost, in_base_branch, text })
    }

    /// Names the refs that hold work apart from our own branches, as arguments of `git rev-list`.
    fn other_refs(&self, base_branch: Option<&str>) -> Vec<String> {
        let ours = [&self.site.order.settings.prefix, DEFAULT_PREFIX];
        let mut args: Vec<String> = ours.map(|prefix| format!("--exclude={prefix}*")).to_vec();
        args.extend(["--branches", "--remotes", "--tags"].map(str::to_owned));
        args.extend(base_branch.map(str::to_owned));
        args
    }

    /// Says whether the changed files of a working tree are committed elsewhere, as after `worktree take
    /// --with-uncommitted`: a commit on another branch, a remote or a tag has exactly this tree, or the branch that the
    /// worktree began from has each of the changed files as it is here.
    pub(super) fn has_files(
        &self,
        branch: Option<&str>,
        tree: &WorkTree,
        contents: &Contents,
        changed: &[ChangedFile],
    ) -> Result<bool, GitError> {
        let git = self.site.git;
        let base_branch = self.reader.base_branch(branch)?.filter(|base| Some(&**base) != branch);
        let call = git.read(&self.site.repository.common);
        let call = call.args(["rev-list", "--no-commit-header", "--format=%T"]);
        let call = call.args(self.other_refs(base_branch.as_deref()));
        let call = call.args(contents.commit.iter().map(|commit| format!("^{commit}")));
        if call.arg("--").text()?.lines().any(|tree| tree == contents.on_disk) {
            return Ok(true);
        }
        let Some(tip) = base_branch.and_then(|name| self.reader.refs.get(&name)) else {
            return Ok(false);
        };
        let call = contents.store.see(tree.read(git));
        let other: HashSet<PathBuf> =
            git.differing_files(call, &contents.on_disk, tip)?.into_iter().collect();
        Ok(!changed.iter().any(|file| other.contains(&file.path)))
    }

    /// Returns commits that would have no name after the removal: each is either no ancestor of another of them,
    /// or returned too. Those of the branch, of its reflog, of the worktree's own reflog and of its private refs count.
    pub(super) fn nameless_commits(
        &self,
        target: &Target,
        commit: Option<&str>,
    ) -> Result<Vec<String>, GitError> {
        let git = self.site.git;
        let common = &self.site.repository.common;
        let branch = target.own_branch(self.site.order);
        let mut tips: Vec<String> = commit.map(str::to_owned).into_iter().collect();
        if let Some(branch) = branch {
            tips.extend(git.reflog(common, branch)?);
            tips.extend(target.facts.base.clone());
        }
        if let Some(admin) = target.admin.as_deref().filter(|admin| admin.join("HEAD").exists()) {
            tips.extend(git.reflog(admin, "HEAD")?);
            let private = ["refs/worktree", "refs/bisect", "refs/rewritten"];
            let named = git.read(admin).args(["for-each-ref", "--format=%(objectname)"]);
            tips.extend(named.args(private).text()?.lines().map(str::to_owned));
        }
        let mut args = vec!["rev-list", "--parents", "--ignore-missing", "--single-worktree"];
        args.extend(["--stdin", "--not"]);
        let mut args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        if let Some(branch) = branch {
            let name = target.facts.name.as_deref().unwrap_or_default();
            args.push(format!("--exclude={branch}"));
            args.push(format!("--exclude={BASE_REFS}{name}"));
        }
        args.push("--all".to_owned());
        let unique: HashSet<String> = tips.into_iter().filter(|tip| !tip.is_empty()).collect();
        if unique.is_empty() {
            return Ok(Vec::new());
        }
        let input = unique.into_iter().collect::<Vec<_>>().join("\n") + "\n";
        let listed = git.read(common).args(args).stdin(input).text()?;
        let lines = || listed.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let parents: HashSet<&str> = lines().flat_map(|ids| ids[1..].to_vec()).collect();
        let tips =
            lines().filter_map(|ids| ids.first().copied()).filter(|id| !parents.contains(id));
        Ok(tips.map(str::to_owned).collect())
    }
}

impl Git {
    /// Returns the commits that a reflog names, without duplicates in a row.
    pub(super) fn reflog(&self, directory: &Path, name: &str) -> Result<Vec<String>, GitError> {
        let call = self.read(directory).args(["log", "--walk-reflogs", "--format=%H", name, "--"]);
        let output = call.run()?;
        let mut ids: Vec<String> = output.text().lines().map(str::to_owned).collect();
        ids.dedup();
        Ok(ids)
    }

    /// Returns the descriptions of all stashes.
    pub(super) fn stashes(&self, directory: &Path) -> Result<Vec<String>, GitError> {
        let call = self.read(directory).args(["log", "--walk-reflogs", "--format=%gs"]);
        let output = call.args(["refs/stash", "--"]).run()?;
        Ok(output.text().lines().map(str::to_owned).collect())
    }
}

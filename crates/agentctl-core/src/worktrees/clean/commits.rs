//! Finds the refs that hold the commits of a worktree, and the commits that only a reflog or a file of git names.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Target;
use super::check::Checker;
use crate::git::{ChangedFile, Contents, Git, GitError, WorkTree};
use crate::worktrees::facts::REMOTE_REFS;
use crate::worktrees::{
    BASE_REFS, BRANCH_REFS, DEFAULT_PREFIX, Merged, regular_file, short_branch,
};

/// The refs of tags.
const TAG_REFS: &str = "refs/tags/";
/// The refs that each worktree has for itself.
const PRIVATE_REFS: [&str; 3] = ["refs/worktree", "refs/bisect", "refs/rewritten"];
/// Names of commits that each worktree has for itself, beside HEAD.
const PRIVATE_NAMES: [&str; 2] = ["ORIG_HEAD", "REBASE_HEAD"];
/// The file with the commits that the last `git fetch` in a worktree brought, one in each line.
const FETCHED: &str = "FETCH_HEAD";
/// Limit of this file.
const MAX_FETCHED_BYTES: u64 = 64 << 20;

/// The refs that hold the commits of a branch.
pub(super) struct Whereabouts {
    /// How many are nowhere else.
    pub lost: usize,
    /// The branch that it began from has all of them, or their content.
    pub in_base_branch: bool,
    pub text: String,
}

impl Checker<'_> {
    /// Says where the commits of a worktree are, apart from its branch, if that is deleted, and other branches of ours.
    pub(super) fn whereabouts(
        &self,
        target: &Target,
        commit: &str,
    ) -> Result<Whereabouts, GitError> {
        let git = self.site.git;
        let branch = target.facts.branch.as_deref();
        let common = &self.site.repository.common;
        let base_branch = self.proving_base(branch)?;
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
        let own_branch = match (branch, count) {
            (None, 1..) => self.branch_of_same_name(target, commit)?,
            _ => None,
        };
        let (lost, text) = match (merged, count) {
            (Some(Merged::Yes), _) => (0, format!("{base} has its commits")),
            (Some(Merged::No) | None, _) if own_branch.is_some() => {
                (0, format!("its branch {} has its commits", own_branch.unwrap_or_default()))
            }
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

    /// Returns the branch that a worktree on a detached HEAD was made with, if it has this commit. It stays: only a
    /// worktree that has it checked out takes it along, and it is judged by itself afterwards.
    fn branch_of_same_name(
        &self,
        target: &Target,
        commit: &str,
    ) -> Result<Option<String>, GitError> {
        let Some(name) = &target.facts.name else { return Ok(None) };
        let Some(branch) = self.reader.made_branch(name) else { return Ok(None) };
        let short = short_branch(&branch).to_owned();
        let tip = self.reader.plain(&branch).filter(|_| !self.rebased.contains(&branch));
        let Some(tip) = tip else { return Ok(None) };
        let call = self.site.git.read(&self.site.repository.common);
        let has_it = call.args(["merge-base", "--is-ancestor", commit, tip]).says_yes()?;
        Ok(has_it.then_some(short))
    }

    /// Returns the branch that a branch began from, if what it has stays there.
    fn proving_base(&self, branch: Option<&str>) -> Result<Option<String>, GitError> {
        let proves = |base: &String| Some(&**base) != branch && !self.rebased.contains(base);
        Ok(self.reader.base_branch(branch)?.filter(proves))
    }

    /// Names the refs that hold work apart from our own branches, as arguments of `git rev-list`.
    fn other_refs(&self, base_branch: Option<&str>) -> Vec<String> {
        let ours = [&self.site.order.settings.prefix, DEFAULT_PREFIX];
        let mut args: Vec<String> = ours.map(|prefix| format!("--exclude={prefix}*")).to_vec();
        let rebased = self.rebased.iter().map(String::as_str);
        let rebased = rebased.chain(self.reader.of_other_prefixes()).map(short_branch);
        args.extend(rebased.map(|branch| format!("--exclude={branch}")));
        for (option, below) in
            [("--branches", BRANCH_REFS), ("--remotes", REMOTE_REFS), ("--tags", TAG_REFS)]
        {
            args.extend(excluded(&self.symbolic, below));
            args.push(option.to_owned());
        }
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
        let base_branch = self.proving_base(branch)?;
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

    /// Returns the refs of a worktree alone that name something else than a commit.
    pub(super) fn private_refs_without_commit(
        &self,
        admin: &Path,
    ) -> Result<Vec<String>, GitError> {
        if !admin.join("HEAD").exists() {
            return Ok(Vec::new());
        }
        let call = self.site.git.read(admin);
        let call = call.args(["for-each-ref", "--format=%(objecttype) %(refname)"]);
        let listed = call.args(PRIVATE_REFS).text()?;
        let pairs = listed.lines().filter_map(|line| line.split_once(' '));
        let others = pairs.filter(|(kind, _)| *kind != "commit");
        Ok(others.map(|(_, name)| name.to_owned()).collect())
    }

    /// Returns commits that would have no name after the removal: each is either no ancestor of another of them,
    /// or returned too. Those of the branch, of its reflog, of the worktree's own reflog, of its private refs and of
    /// `ORIG_HEAD`, `REBASE_HEAD` and `FETCH_HEAD` count.
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
            let named = git.read(admin).args(["for-each-ref", "--format=%(objectname)"]);
            tips.extend(named.args(PRIVATE_REFS).text()?.lines().map(str::to_owned));
            for name in PRIVATE_NAMES {
                tips.extend(git.commit(admin, name)?);
            }
            tips.extend(fetched(admin)?);
        }
        let mut args = vec!["rev-list", "--parents", "--ignore-missing", "--single-worktree"];
        args.extend(["--stdin", "--not"]);
        let mut args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        if let Some(branch) = branch {
            let name = target.facts.name.as_deref().unwrap_or_default();
            args.push(format!("--exclude={branch}"));
            args.push(format!("--exclude={BASE_REFS}{name}"));
        }
        args.extend(self.rebased.iter().map(|branch| format!("--exclude={branch}")));
        args.extend(excluded(&self.symbolic, ""));
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

/// Returns the objects that the last `git fetch` in a worktree brought.
fn fetched(admin: &Path) -> Result<Vec<String>, GitError> {
    let path = admin.join(FETCHED);
    let text = match regular_file::read(&path, MAX_FETCHED_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|source| GitError::UnreadState { path, source })?,
    };
    let text = String::from_utf8_lossy(&text);
    let is_id = |word: &&str| {
        matches!(word.len(), 40 | 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let ids = text.lines().filter_map(|line| line.split('\t').next());
    Ok(ids.filter(is_id).map(str::to_owned).collect())
}

/// Names refs that the next option of `git rev-list` does not count. It stands for all refs with this beginning, and git
/// compares the rest of their names.
pub(super) fn excluded<'a>(
    refs: &'a [String],
    below: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let names = refs.iter().filter_map(move |name| name.strip_prefix(below));
    names.map(|name| format!("--exclude={name}"))
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

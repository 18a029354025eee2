//! Finds the refs that hold the commits of a worktree, and the commits that only a reflog or a file of git names.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::check::Checker;
use super::{Target, named};
use crate::git::{ChangedFile, Contents, Git, GitError, WorkTree};
use crate::worktrees::facts::REMOTE_REFS;
use crate::worktrees::{BASE_REFS, BRANCH_REFS, DEFAULT_PREFIX, Merged, name_of, short_branch};

/// The refs of tags.
const TAG_REFS: &str = "refs/tags/";

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

    /// Returns the refs and files of a worktree alone that name something else than a commit, unless a ref that stays
    /// names it too.
    pub(super) fn names_without_commit(&self, admin: &Path) -> Result<Vec<String>, GitError> {
        let common = &self.site.repository.common;
        let mut others = named::by_files(self.site.git, common, admin)?;
        others.retain(|object| object.kind != "commit");
        if !others.is_empty() {
            let shared =
                self.site.git.read(common).args(["for-each-ref", "--format=%(objectname)"]);
            let shared = shared.text()?;
            let shared: HashSet<&str> = shared.lines().collect();
            others.retain(|object| !shared.contains(object.id.as_str()));
        }
        Ok(others.into_iter().map(|object| object.place).collect())
    }

    /// Returns the refs that a launch which fails may delete: all base refs, and branches of ours with one that are
    /// still where they began. They keep no commit.
    fn refs_of_launches(&self) -> Result<Vec<String>, GitError> {
        let common = &self.site.repository.common;
        let mut found = vec![format!("{BASE_REFS}*")];
        for (branch, tip) in &self.reader.refs {
            let name = name_of(branch, &self.site.order.settings.prefix);
            let base = name.and_then(|name| self.reader.refs.get(&format!("{BASE_REFS}{name}")));
            let Some(base) = base else { continue };
            if base == tip
                || named::by_reflog(self.site.git, common, branch)?
                    .first()
                    .is_none_or(|id| id == tip)
            {
                found.push(branch.clone());
            }
        }
        Ok(found)
    }

    /// Returns the base refs of a worktree with their values: that of its name, and those of the names that its branch
    /// had before it was renamed, unless another branch has such a name now.
    pub(super) fn bases(&self, target: &Target) -> Vec<(String, String)> {
        let Some(name) = &target.facts.name else { return Vec::new() };
        let branch = target.facts.branch.as_deref();
        let mut names = vec![name.clone()];
        names.extend(branch.into_iter().flat_map(|branch| self.reader.former_names(branch)));
        let base = |name: String| {
            let reference = format!("{BASE_REFS}{name}");
            let value = self.reader.plain(&reference).cloned();
            value.map(|value| (reference, value))
        };
        let mut bases: Vec<_> = names.into_iter().filter_map(base).collect();
        bases.dedup();
        bases
    }

    /// Returns commits that would have no name after the removal: each is either no ancestor of another of them,
    /// or returned too. Those of the branch and of its reflog count, and all that a file of the worktree's git directory
    /// names: its own reflogs, its private refs and root refs, `FETCH_HEAD`.
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
            tips.extend(named::by_reflog(git, common, branch)?);
            tips.extend(self.bases(target).into_iter().map(|(_, base)| base));
        }
        if let Some(admin) = &target.admin {
            let named = named::by_files(git, common, admin)?.into_iter();
            tips.extend(named.filter(named::NamedObject::leads_to_commit).map(|object| object.id));
        }
        let mut args = vec!["rev-list", "--parents", "--ignore-missing", "--single-worktree"];
        args.extend(["--stdin", "--not"]);
        let mut args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        args.extend(branch.map(|branch| format!("--exclude={branch}")));
        args.extend(self.refs_of_launches()?.iter().map(|name| format!("--exclude={name}")));
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
    /// Returns the descriptions of all stashes.
    pub(super) fn stashes(&self, directory: &Path) -> Result<Vec<String>, GitError> {
        let call = self.read(directory).args(["log", "--walk-reflogs", "--format=%gs"]);
        let output = call.args(["refs/stash", "--"]).run()?;
        Ok(output.text().lines().map(str::to_owned).collect())
    }
}

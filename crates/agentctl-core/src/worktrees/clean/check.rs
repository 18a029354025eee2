//! Whether everything in a worktree is elsewhere.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::occupants::Occupants;
use super::{CleanOrder, CleanSelection, Site, Target, leftovers, repositories};
use crate::git::{Contents, Git, GitError, WorkTree, git_dir_of};
use crate::text::{counted, shell_word};
use crate::worktrees::branch_operations::{Operation, branch_operations};
use crate::worktrees::facts::{INITIALIZING, Reader};
use crate::worktrees::{LockReason, WorktreeState, short_branch};

/// Files of a git directory that exist while an operation is not finished, with its name.
pub(in crate::worktrees) const OPERATIONS: [(&str, &str); 8] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a cherry-pick or revert"),
    ("BISECT_LOG", "a bisection"),
    ("MERGE_AUTOSTASH", "a merge"),
];

/// Files of a git directory that exist while a merge of notes is not finished. git leaves the directory behind, empty.
const NOTES_MERGE: [&str; 2] = ["NOTES_MERGE_PARTIAL", "NOTES_MERGE_WORKTREE"];

/// Returns the names of the operations that are not finished in a git directory.
pub(super) fn operations_in(git_dir: &Path) -> Vec<&'static str> {
    let meta = |file: &str| git_dir.join(file).symlink_metadata().ok();
    let found = OPERATIONS.iter().filter(|(file, _)| meta(file).is_some());
    let mut names: Vec<&str> = found.map(|(_, name)| *name).collect();
    let is_empty_folder = |file: &str| {
        let entries = std::fs::read_dir(git_dir.join(file));
        entries.is_ok_and(|mut entries| entries.next().is_none())
    };
    if NOTES_MERGE.iter().any(|file| meta(file).is_some() && !is_empty_folder(file)) {
        names.push("a merge of notes");
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// The options that override a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Override {
    /// Nothing.
    Never,
    /// `--force`, which keeps the content by a rescue ref.
    Force,
    /// `--ignored`.
    Ignored,
}

/// A reason to keep a worktree.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    pub text: String,
    pub by: Override,
}

/// The result of the check of a worktree.
#[derive(Debug, Default)]
pub(super) struct Finding {
    /// The reasons to keep it.
    pub doubts: Vec<Doubt>,
    /// Why its commits may go.
    pub proofs: Vec<String>,
    /// Ignored files and build folders that would be removed with it.
    pub ignored: Vec<PathBuf>,
    /// The contents of its working tree; `None` without a directory.
    pub contents: Option<Contents>,
    /// The commit that its branch or HEAD names now.
    pub commit: Option<String>,
    /// The git directories of repositories in it whose commits were looked at.
    pub repositories: HashSet<PathBuf>,
}

impl Finding {
    pub(super) fn keep(&mut self, text: impl Into<String>) {
        self.doubts.push(Doubt { text: text.into(), by: Override::Never });
    }

    pub(super) fn unless(&mut self, by: Override, text: impl Into<String>) {
        self.doubts.push(Doubt { text: text.into(), by });
    }

    /// Says whether a reason to keep it stays with `--force`.
    pub(super) fn is_blocked_with_force(&self) -> bool {
        self.doubts.iter().any(|doubt| doubt.by != Override::Force)
    }

    /// Returns the reasons that this order does not override.
    pub(super) fn blocked(&self, order: &CleanOrder) -> Vec<String> {
        let stands = |doubt: &&Doubt| match doubt.by {
            Override::Never => true,
            Override::Force => !order.force,
            Override::Ignored => !order.ignored,
        };
        self.doubts.iter().filter(stands).map(|doubt| doubt.text.clone()).collect()
    }
}

/// The refs, worktrees and stashes of a repository at one moment.
pub(super) struct Checker<'a> {
    pub site: &'a Site<'a>,
    pub reader: Reader<'a>,
    /// The descriptions of the stashes: `WIP on BRANCH: …`.
    pub stashes: Vec<String>,
    /// The branches that are rebased. After `git rebase --abort` they are as before the rebase, so they prove nothing.
    pub rebased: Vec<String>,
    /// All symbolic refs. They prove nothing: what they name is named by the refs that they lead to.
    pub symbolic: Vec<String>,
}

impl<'a> Checker<'a> {
    pub(super) fn read(site: &'a Site<'a>) -> Result<Self, GitError> {
        let common = &site.repository.common;
        let host = &site.fleet.host;
        let prefix = &site.order.settings.prefix;
        let reader = Reader::new(host, site.git, site.repository, prefix)?;
        let stashes = site.git.stashes(common)?;
        let operations = branch_operations(site.repository)?.into_iter();
        let rebased = operations.filter(|one| one.operation == Operation::Rebase);
        let rebased = rebased.map(|one| one.branch).collect();
        let mut symbolic = Git::symbolic_refs(site.git.read(common))?;
        symbolic.extend(reader.is_on_branch().then(|| "HEAD".to_owned()));
        Ok(Self { site, reader, stashes, rebased, symbolic })
    }

    /// Checks a worktree whose files are at `at`; `None` if it has no directory.
    pub(super) fn check(
        &self,
        target: &Target,
        at: Option<&Path>,
        occupants: &Occupants,
    ) -> Result<Finding, GitError> {
        let mut finding = Finding::default();
        if target.is_main {
            finding.keep("it is the main working tree");
            return Ok(finding);
        }
        let half_made = self.check_lock(target, &mut finding);
        let places = [at, target.facts.path.as_deref(), target.admin.as_deref()];
        for occupant in occupants.below(&places.into_iter().flatten().collect::<Vec<_>>()) {
            finding.keep(occupant);
        }
        if let Some(admin) = &target.admin {
            for operation in operations_in(admin) {
                finding.keep(format!("{operation} is in progress in it"));
            }
            for name in self.names_without_commit(admin)? {
                finding
                    .keep(format!("its ref {name} names no commit, so no rescue ref can hold it"));
            }
        }
        match (at, &target.admin) {
            (Some(at), _) => self.check_tree(target, at, half_made, &mut finding)?,
            (None, Some(admin)) => self.check_without_files(admin, "missing", &mut finding)?,
            (None, None) => {}
        }
        if let Some(contents) = &finding.contents {
            finding.commit.clone_from(&contents.commit);
        } else {
            finding.commit.clone_from(&target.facts.commit);
        }
        self.check_commits(target, &mut finding)?;
        Ok(finding)
    }

    /// Checks the lock. Returns whether the worktree was left half-made.
    fn check_lock(&self, target: &Target, finding: &mut Finding) -> bool {
        let path = target.facts.path.as_deref();
        let entry = path.and_then(|path| super::entry_of(&self.reader.entries, path));
        let Some(reason) = entry.and_then(|entry| entry.locked.as_deref()) else { return false };
        let host = &self.site.fleet.host;
        if let Some(launcher) = LockReason::parse(reason) {
            if self.site.own_lock != Some(reason) && !launcher.is_gone(host) {
                finding.keep(format!("a launch makes it (pid {})", launcher.pid));
            }
            return true;
        }
        if reason == INITIALIZING && target.facts.name.is_some() {
            return true;
        }
        let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        finding.keep(format!("it is locked{why}; `git worktree unlock` unlocks it"));
        false
    }

    /// Checks a worktree that has a directory.
    fn check_tree(
        &self,
        target: &Target,
        at: &Path,
        half_made: bool,
        finding: &mut Finding,
    ) -> Result<(), GitError> {
        let Some(admin) = &target.admin else {
            finding.keep("git does not say where its data is");
            return Ok(());
        };
        if at.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            finding.keep("its directory is a link");
            return Ok(());
        }
        if git_dir_of(at).as_deref() != std::fs::canonicalize(admin).ok().as_deref() {
            let empty = std::fs::read_dir(at).is_ok_and(|mut entries| entries.next().is_none());
            if half_made && empty {
                return self.check_without_files(admin, "empty", finding);
            }
            finding.keep("its .git file does not lead to this repository");
            return Ok(());
        }
        let common = &self.site.repository.common;
        let tree = WorkTree { git_dir: admin.to_owned(), top: at.to_owned() };
        let keep_objects = self.site.order.force && !self.site.order.dry_run;
        let contents = self.site.git.contents(&tree, &common.join("objects"), keep_objects)?;
        self.compare(&tree, &contents, (target, half_made), finding)?;
        let mut removed = vec![at.to_owned(), admin.to_owned()];
        removed.extend(target.facts.path.clone());
        let place =
            leftovers::Place { tree: &tree, label: String::new(), depth: 0, removed: &removed };
        leftovers::check(self, &place, &contents, finding)?;
        repositories::check_unused_modules(self, admin, &removed, finding)?;
        finding.contents = Some(contents);
        Ok(())
    }

    /// Compares the files and the index of the worktree with its commit.
    fn compare(
        &self,
        tree: &WorkTree,
        contents: &Contents,
        (target, half_made): (&Target, bool),
        finding: &mut Finding,
    ) -> Result<(), GitError> {
        let git = self.site.git;
        if let Some(gap) = contents.gaps.first() {
            finding.keep(format!("not all of its files can be read or stored: {gap}"));
        }
        let changed = git.changed_files(tree, contents)?;
        let lost = changed.iter().filter(|change| !(half_made && change.is_deletion)).count();
        let branch = target.facts.branch.as_deref();
        if lost > 0 && self.has_files(branch, tree, contents, &changed)? {
            finding.proofs.push("its uncommitted files are committed elsewhere".to_owned());
        } else if lost > 0 {
            finding.unless(Override::Force, format!("{} not committed", files(lost)));
        } else if half_made {
            finding.proofs.push("its launch did not finish".to_owned());
        } else if let count @ 1.. = git.modified_files(tree)? {
            // Line ends and keywords that git converts: the same content for git, other bytes on the disk.
            let files = counted(count, "file");
            let text = format!("`git status` shows {files} as modified");
            finding.unless(Override::Force, text);
        }
        match &contents.staged {
            // A rescue ref holds one content of each file.
            None => {
                let top = shell_word(&tree.top.to_string_lossy());
                finding.keep(format!(
                    "it has unresolved conflicts; `git -C {top} reset` drops the other sides and keeps its files"
                ));
            }
            Some(staged) => {
                let known = contents.committed.as_ref() == Some(staged);
                let unborn_and_empty = contents.commit.is_none() && changed.is_empty();
                if !known && *staged != contents.on_disk && !unborn_and_empty {
                    let text = "its index has content that is neither committed nor in its files";
                    finding.unless(Override::Force, text);
                }
            }
        }
        Ok(())
    }

    /// Checks a worktree whose directory is missing or empty: git still has its index and its submodules.
    fn check_without_files(
        &self,
        admin: &Path,
        is: &str,
        finding: &mut Finding,
    ) -> Result<(), GitError> {
        if self.site.git.has_conflicts(admin)? {
            let git_dir = shell_word(&admin.to_string_lossy());
            finding.keep(format!(
                "its directory is {is}, and its index has unresolved conflicts; \
                 `git --git-dir={git_dir} --work-tree=. reset` drops them and keeps its commits"
            ));
            return Ok(());
        }
        let common = &self.site.repository.common;
        let staged = self.site.git.staged_tree(admin, &common.join("objects"))?;
        let head = self.site.git.tree(admin, "HEAD")?;
        if staged.is_some() && staged != head {
            let git_dir = shell_word(&admin.to_string_lossy());
            finding.keep(format!(
                "its directory is {is}, and its index has content that is not committed; \
                 `git --git-dir={git_dir} --work-tree=. commit -m 'staged work'` commits it"
            ));
        }
        repositories::check_unused_modules(self, admin, &[admin.to_owned()], finding)?;
        finding.proofs.push(format!("its directory is {is}"));
        Ok(())
    }

    /// Checks its commits and the stashes made on its branch.
    fn check_commits(&self, target: &Target, finding: &mut Finding) -> Result<(), GitError> {
        let order = self.site.order;
        let stashed = |branch: &str, text: &str| {
            let named = text.strip_prefix("WIP on ").or_else(|| text.strip_prefix("On "));
            named.and_then(|rest| rest.split_once(':')).is_some_and(|(name, _)| name == branch)
        };
        let branch = target.facts.branch.as_deref();
        let short = branch.map_or("(no branch)", short_branch);
        let count = self.stashes.iter().filter(|text| stashed(short, text)).count();
        if count > 0 && (branch.is_none() || target.own_branch(order).is_some()) {
            let stashes = if count == 1 { "1 stash was" } else { &format!("{count} stashes were") };
            finding.unless(Override::Force, format!("{stashes} made on {short}"));
        }
        let is_on_another = branch.is_some() && target.made_branch().is_none();
        if !target.named && target.facts.name.is_none() {
            finding.keep("agentctl did not make it");
        } else if !target.named && is_on_another {
            finding.keep(format!("it is on the branch {short}, which agentctl did not make"));
        }
        // The commits of a branch that stays are still named by it.
        if branch.is_some() && target.own_branch(order).is_none() {
            finding.proofs.push("its branch stays".to_owned());
            if order.which == CleanSelection::Merged {
                finding.keep("it is not merged");
            }
            return Ok(());
        }
        let Some(commit) = finding.commit.clone() else { return Ok(()) };
        let whereabouts = self.whereabouts(target, &commit)?;
        match whereabouts.lost {
            0 => finding.proofs.push(whereabouts.text),
            _ => finding.unless(Override::Force, whereabouts.text),
        }
        if order.which == CleanSelection::Merged && !whereabouts.in_base_branch {
            finding.keep("it is not merged");
        }
        if target.facts.state == WorktreeState::Missing && target.facts.path.is_none() {
            finding.proofs.push("it has no worktree".to_owned());
        }
        Ok(())
    }
}

/// Returns `1 file is` or `2 files are`.
pub(in crate::worktrees) fn files(count: usize) -> String {
    if count == 1 { "1 file is".to_owned() } else { format!("{count} files are") }
}

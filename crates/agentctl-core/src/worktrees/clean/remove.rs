//! The removal itself: under the mutexes, after a rename, with a second check.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check::{Checker, Finding};
use super::interrupted::{self, rename};
use super::occupants::Occupants;
use super::records::{self, Record};
use super::{CALLED_OFF, CleanAction, CleanNews, CleanedWorktree, Site, Target};
use crate::git::{Contents, Git, GitError, WorktreeEntry};
use crate::locks::{HeldMutex, enter};
use crate::worktrees::rescue::{self, Kept, Rescue, bookkeeping};
use crate::worktrees::{WorktreeState, walk};

/// Timeout for another clean or launch in the same place.
const MUTEX_TIMEOUT: Duration = Duration::from_secs(10);

/// Removes a worktree that passed the first check. Writes the result into its row.
pub(super) fn remove(
    site: &Site<'_>,
    target: &Target,
    row: &mut CleanedWorktree,
    tell: &mut dyn FnMut(CleanNews),
) {
    let mut removal = Removal { site, target, aside: None };
    // Held until it is removed or renamed back.
    let _mutexes = match removal.enter() {
        Ok(held) => held,
        Err(reasons) => return row.reasons = reasons,
    };
    match removal.run(row, tell) {
        Ok(()) => row.action = CleanAction::Removed,
        Err(reasons) => {
            row.reasons = reasons;
            if let Err(left) = removal.put_back() {
                row.reasons.push(left);
            }
        }
    }
}

pub(super) struct Removal<'a> {
    pub site: &'a Site<'a>,
    pub target: &'a Target,
    /// The directory of its files while it is removed.
    pub aside: Option<PathBuf>,
}

/// The reasons why a worktree is kept.
pub(super) type Reasons = Vec<String>;

pub(super) fn one(error: impl std::fmt::Display) -> Reasons {
    vec![error.to_string()]
}

impl Removal<'_> {
    fn run(
        &mut self,
        row: &mut CleanedWorktree,
        tell: &mut dyn FnMut(CleanNews),
    ) -> Result<(), Reasons> {
        let (site, target) = (self.site, self.target);
        self.set_aside(tell)?;
        let git = site.git.cancelled_by(&site.fleet.cancellation);
        let asking = Site { git: &git, ..*site };
        let judged = self.judge(&asking);
        if site.is_called_off() {
            return Err(one(CALLED_OFF));
        }
        let (checker, finding) = judged?;
        row.commit.clone_from(&finding.commit);
        row.rescue = self.rescue(&checker, &finding).map_err(one)?;
        if let Some(path) = &target.facts.path {
            tell(CleanNews::Removing(path.clone()));
            row.warnings.extend(self.finish(path, &checker.reader.entries)?);
        }
        let commit = finding.commit.clone();
        site.describe(row, target, finding);
        row.branch_deleted = false;
        let bases = checker.bases(target);
        if let (Some(branch), Some(commit)) = (target.own_branch(site.order), commit) {
            tell(CleanNews::DeletingBranch(branch.to_owned()));
            match self.delete_branch(branch, &commit, &bases) {
                Ok(()) => row.branch_deleted = true,
                // Nothing else was there to remove.
                Err(error) if target.facts.path.is_none() => {
                    return Err(one(format!("its branch cannot be deleted: {error}")));
                }
                Err(error) => row.warnings.push(format!("its branch is kept: {error}")),
            }
        } else if target.own_branch(site.order).is_some() {
            // Its branch is deleted already, or has no commit yet.
            if let Err(error) = self.delete_bases(&bases) {
                row.warnings.push(format!("its base ref is kept: {error}"));
            }
        }
        Ok(())
    }

    /// Renames the directory of the worktree, if it has one: a program that writes by its path cannot change it any more.
    pub(super) fn set_aside(&mut self, tell: &mut dyn FnMut(CleanNews)) -> Result<(), Reasons> {
        let Some(path) = self.target.directory() else { return Ok(()) };
        let aside = interrupted::removing(path).ok_or_else(|| one("its directory has no name"))?;
        tell(CleanNews::Renaming(path.to_owned()));
        rename_aside(path, &aside)?;
        self.aside = Some(aside.clone());
        tell(CleanNews::Renamed(aside));
        Ok(())
    }

    /// Lets git forget the worktree of this path, and removes its files. Returns a sentence about files that stay.
    pub(super) fn finish(
        &mut self,
        path: &Path,
        entries: &[WorktreeEntry],
    ) -> Result<Option<String>, Reasons> {
        self.mark_removed(path)?;
        // git would remove it.
        if path.symlink_metadata().is_ok() {
            return Err(one("another directory was put in its place while it was removed"));
        }
        self.forget(entries, path).map_err(one)?;
        let Some(aside) = self.aside.take() else { return Ok(None) };
        let record = Record::of(&self.site.repository.common, &aside);
        let left = match walk::remove(&aside) {
            Ok(()) => {
                record.remove();
                None
            }
            Err(error) => Some(format!("{} is not removed completely: {error}", aside.display())),
        };
        remove_empty_parent(&aside);
        Ok(left)
    }

    /// Checks the renamed worktree, with questions that end if the order is called off.
    pub(super) fn judge<'s>(
        &self,
        asking: &'s Site<'s>,
    ) -> Result<(Checker<'s>, Finding), Reasons> {
        let checker = Checker::read(asking).map_err(one)?;
        let occupants = Occupants::look(asking);
        let aside = self.aside.as_deref();
        let finding = checker.check(self.target, aside, &occupants).map_err(one)?;
        self.check_unchanged(&checker, &finding)?;
        let blocked = finding.blocked(asking.order);
        if blocked.is_empty() { Ok((checker, finding)) } else { Err(blocked) }
    }

    /// Takes the mutex of the repository, under which it is cleaned, and that of the directory, under which
    /// agents are launched in it.
    pub(super) fn enter(&self) -> Result<Vec<HeldMutex>, Reasons> {
        let mut held = vec![enter_repository(self.site)?];
        // The clean that held the mutex before may have been killed.
        interrupted::restore(&self.site.repository.common, self.target);
        if let Some(path) = self.target.directory() {
            held.push(enter_directory(self.site, path)?);
        }
        Ok(held)
    }

    /// Checks that the worktree still has the branch with which it was chosen, and that the branch is where HEAD is.
    fn check_unchanged(&self, checker: &Checker<'_>, finding: &Finding) -> Result<(), Reasons> {
        let facts = &self.target.facts;
        let changed = || Err(one("its branch changed while it was checked"));
        if let Some(path) = &facts.path {
            let Some(entry) = super::entry_of(&checker.reader.entries, path) else {
                return Err(one("git does not list it any more"));
            };
            if entry.branch() != facts.branch.as_deref() {
                return changed();
            }
        }
        let Some(branch) = self.target.own_branch(self.site.order) else { return Ok(()) };
        let elsewhere = |entry: &&crate::git::WorktreeEntry| {
            entry.branch() == Some(branch) && Some(&entry.path) != facts.path.as_ref()
        };
        if checker.reader.entries.iter().any(|entry| elsewhere(&entry)) {
            return Err(one("another worktree has its branch"));
        }
        if checker.reader.plain(branch) == finding.commit.as_ref() { Ok(()) } else { changed() }
    }

    /// Makes a rescue ref for what no ref would name after the removal.
    fn rescue(&self, checker: &Checker<'_>, finding: &Finding) -> Result<Option<Rescue>, GitError> {
        let (site, facts) = (self.site, &self.target.facts);
        let nameless = checker.nameless_commits(self.target, finding.commit.as_deref())?;
        let contents = finding.contents.as_ref();
        let changed = contents.filter(|contents| {
            let committed = contents.committed.as_ref();
            // Files that a killed launch did not check out are no work.
            let half_made = facts.state == WorktreeState::HalfMade && !site.order.force;
            !half_made
                && (committed != Some(&contents.on_disk) || committed != contents.staged.as_ref())
                && site.order.force
        });
        self.save(finding.commit.as_deref(), nameless, changed)
    }

    /// Makes a rescue ref for these commits, beside that of the worktree, and for its contents, if there are any.
    pub(super) fn save(
        &self,
        commit: Option<&str>,
        nameless: Vec<String>,
        changed: Option<&Contents>,
    ) -> Result<Option<Rescue>, GitError> {
        let (site, facts) = (self.site, &self.target.facts);
        let common = &site.repository.common;
        if nameless.is_empty() && changed.is_none() {
            return Ok(None);
        }
        let tree = match (changed, commit) {
            (Some(contents), _) => contents.on_disk.clone(),
            (None, Some(commit)) => site.git.tree(common, commit)?.unwrap_or_default(),
            (None, None) => site.git.empty_tree(common)?,
        };
        let staged = changed.and_then(|contents| contents.staged.as_deref());
        let folder =
            facts.path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let name = match (&facts.name, folder) {
            (Some(name), _) => name.clone(),
            (None, Some(folder)) => folder.into_owned(),
            (None, None) => String::new(),
        };
        let kept = Kept {
            name: &name,
            tree: &tree,
            staged: staged.filter(|staged| *staged != tree),
            commit,
            others: nameless.into_iter().filter(|id| Some(id.as_str()) != commit).collect(),
        };
        let (reference, commit) = rescue::make(site.git, common, site.fleet.host.now(), &kept)?;
        let command = self.command(&reference);
        Ok(Some(Rescue { reference, commit, command }))
    }

    /// Returns the command that brings a worktree or branch back.
    fn command(&self, reference: &str) -> String {
        let facts = &self.target.facts;
        let branch = facts.branch.as_deref().unwrap_or_default();
        let branch = super::short_branch(branch);
        let own = self.target.own_branch(self.site.order).is_some();
        let quoted = |text: &str| crate::text::shell_word(text);
        let start = format!("git -C {}", quoted(&self.site.repository.main.to_string_lossy()));
        match (&facts.path, own) {
            (Some(path), true) => format!(
                "{start} worktree add -b {} {} {reference}",
                quoted(branch),
                quoted(&path.to_string_lossy())
            ),
            (Some(path), false) => format!(
                "{start} worktree add --detach {} {reference}",
                quoted(&path.to_string_lossy())
            ),
            (None, _) => format!("{start} branch {} {reference}", quoted(branch)),
        }
    }

    /// Renames a worktree that passed all checks, so that the next clean deletes it if this one is killed after git
    /// has forgotten it.
    fn mark_removed(&mut self, path: &Path) -> Result<(), Reasons> {
        if let (Some(aside), Some(removed)) = (&self.aside, interrupted::removed(path)) {
            // On a full disk there is no record: if this clean is killed, the next one leaves the rest and names it.
            let _unrecorded = records::write(&self.site.repository.common, aside, &removed);
            rename_aside(aside, &removed)?;
            self.aside = Some(removed);
        }
        Ok(())
    }

    /// Lets git forget the worktree. Its directory is renamed, so git finds none; if another one was made in its
    /// place, git refuses. A git that was killed may have finished: the list of worktrees decides.
    fn forget(&self, entries: &[WorktreeEntry], path: &Path) -> Result<(), GitError> {
        let (git, common) = (self.site.git, &self.site.repository.common);
        let entry = super::entry_of(entries, path);
        if entry.is_some_and(|entry| entry.locked.is_some()) {
            bookkeeping(git, common).args(["worktree", "unlock", "--"]).arg(path).ok()?;
        }
        let removed = bookkeeping(git, common).args(["worktree", "remove", "--"]).arg(path).ok();
        let Err(error) = removed else { return Ok(()) };
        let is_forgotten =
            git.worktrees(common).is_ok_and(|entries| super::entry_of(&entries, path).is_none());
        if is_forgotten { Ok(()) } else { Err(error) }
    }

    /// Deletes the branch if it still has the commit that was checked, then its base refs.
    fn delete_branch(
        &self,
        branch: &str,
        commit: &str,
        bases: &[(String, String)],
    ) -> Result<(), GitError> {
        let (git, common) = (self.site.git, &self.site.repository.common);
        Git::delete_ref(bookkeeping(git, common), branch, commit)?;
        self.delete_bases(bases)
    }

    /// Deletes base refs that still have these values.
    fn delete_bases(&self, bases: &[(String, String)]) -> Result<(), GitError> {
        let (git, common) = (self.site.git, &self.site.repository.common);
        for (name, value) in bases {
            Git::delete_ref(bookkeeping(git, common), name, value)?;
        }
        Ok(())
    }

    /// Renames the worktree back.
    pub(super) fn put_back(&mut self) -> Result<(), String> {
        let (Some(aside), Some(path)) = (self.aside.take(), &self.target.facts.path) else {
            return Ok(());
        };
        // Its checks do not count any more.
        Record::of(&self.site.repository.common, &aside).remove();
        rename(&aside, path).map_err(|error| {
            format!("its files are in {}: it cannot be renamed back: {error}", aside.display())
        })
    }
}

fn rename_aside(from: &Path, to: &Path) -> Result<(), Reasons> {
    let failed = |error| one(format!("it cannot be renamed to {}: {error}", to.display()));
    rename(from, to).map_err(failed)
}

/// Takes the mutex of the repository, under which its worktrees are renamed and removed.
pub(super) fn enter_repository(site: &Site<'_>) -> Result<HeldMutex, Reasons> {
    enter_directory(site, &site.repository.common)
}

fn enter_directory(site: &Site<'_>, directory: &Path) -> Result<HeldMutex, Reasons> {
    let busy = || one(format!("{} is in use by another launch or clean", directory.display()));
    enter(&site.fleet.host, directory, MUTEX_TIMEOUT).map_err(|_| busy())
}

/// Removes the directory `<repository>.worktrees` if it is empty.
fn remove_empty_parent(path: &Path) {
    if let Some(parent) = path.parent()
        && parent.to_string_lossy().ends_with(".worktrees")
    {
        let _not_empty = std::fs::remove_dir(parent);
    }
}

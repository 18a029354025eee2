//! Removes worktrees of which everything is provably elsewhere.
//!
//! Each worktree is checked, then, under the mutex of the repository and of its directory, renamed aside and
//! checked again: a program that writes by its path cannot change it any more, and a program that works in it
//! is found by its directory and open files. Only then it is removed. Commits that no ref would name afterwards
//! are named by a rescue ref first.

mod check;
mod commits;
mod failed_launch;
mod interrupted;
mod leftovers;
mod named;
mod occupants;
mod records;
mod remotes;
mod remove;
mod repositories;
mod rescued;
mod select;
mod stores;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::check::{Finding, Override};
pub(super) use self::check::{OPERATIONS, files};
pub(super) use self::failed_launch::{FailedWorktree, Stage, remove_failed};
pub use self::interrupted::{MAX_WORKTREE_FOLDER_BYTES, left_aside};
use self::occupants::Occupants;
pub use self::rescued::RescuedRef;
pub(super) use self::select::worktree_of;
use super::rescue::Rescue;
use super::{WorktreeFacts, WorktreeSettings, short_branch};
use crate::fleet::Fleet;
use crate::git::{Git, GitError, Repository, WorktreeEntry};
use crate::locks::announce;
use crate::model::Fault;
use crate::names::split_group;

/// The name of this order for other processes.
const CLEAN: &str = "clean";
/// Why a worktree is kept if the order is called off while it is checked.
const CALLED_OFF: &str = "the clean was interrupted";

/// The worktrees that are meant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanSelection {
    /// These directories, names or branches.
    Named(Vec<String>),
    /// All of ours.
    All,
    /// Those of ours whose commits are in the branch that they began from.
    Merged,
    /// Those of ours in which a session worked and none is live.
    Ended,
    /// Those of a group: by their names, and by the sessions in them.
    Group(String),
    /// None: only rescue refs that are older than 90 days.
    Rescued,
}

/// An order to remove worktrees.
#[derive(Clone, Debug)]
pub struct CleanOrder {
    /// The directory whose repository is meant.
    pub from: PathBuf,
    /// The worktrees that are meant.
    pub which: CleanSelection,
    /// Remove nothing.
    pub dry_run: bool,
    /// Remove the worktree and leave its branch.
    pub keep_branch: bool,
    /// Remove a named worktree with work in it, after a rescue ref was made.
    pub force: bool,
    /// Remove ignored files that are nowhere else.
    pub ignored: bool,
    /// The user's settings.
    pub settings: WorktreeSettings,
}

/// The result for a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CleanAction {
    /// It is removed; with `dry_run` it would be.
    Removed,
    /// It is as it was.
    Kept,
}

/// One worktree of an order to clean.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct CleanedWorktree {
    /// Its directory; null for a branch without a worktree.
    pub path: Option<PathBuf>,
    /// Its branch; null for a detached HEAD.
    pub branch: Option<String>,
    /// The branch without the prefix; null if it is not ours.
    pub name: Option<String>,
    /// The commit that it has, or had.
    pub commit: Option<String>,
    /// The result.
    pub action: CleanAction,
    /// Why it is kept, or why it may be removed, a sentence each.
    pub reasons: Vec<String>,
    /// Its branch is deleted; with `dry_run` it would be.
    pub branch_deleted: bool,
    /// Ignored files and build folders in it that are removed, below its directory.
    pub ignored: Vec<PathBuf>,
    /// The ref that keeps what no other ref names.
    pub rescue: Option<Rescue>,
    /// It is kept, and `--force` with its name would remove it after saving its work.
    pub forcible: bool,
    /// It was named, not found by a search.
    pub named: bool,
    /// Failures after it was removed.
    pub warnings: Vec<String>,
}

/// A step of an order to clean worktrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CleanNews {
    /// A worktree is checked.
    Checking(PathBuf),
    /// It passed the first check, and will be renamed.
    Renaming(PathBuf),
    /// It is renamed, and will be checked again.
    Renamed(PathBuf),
    /// It passed the second check, and will be removed.
    Removing(PathBuf),
    /// A branch will be deleted.
    DeletingBranch(String),
}

/// Why nothing was cleaned.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// git gave no answer.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Nothing has this name.
    #[error("no worktree or branch of agentctl is called `{text}`")]
    NoSuch {
        /// The text.
        text: String,
        /// The names that there are.
        names: Vec<String>,
    },
    /// No session and no worktree is in this group.
    #[error("no session and no worktree is in the group `{group}`")]
    NoSuchGroup {
        /// The group.
        group: String,
        /// The groups that there are.
        groups: Vec<String>,
    },
    /// `--force` without a name.
    #[error("--force needs the name or directory of a worktree")]
    ForceWithoutName,
}

/// The answer to an order to clean.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The worktrees, in the order of git.
    pub worktrees: Vec<CleanedWorktree>,
    /// The old rescue refs, the oldest first; only for [`CleanSelection::Rescued`].
    pub rescued: Vec<RescuedRef>,
    /// Directories that earlier, interrupted cleans did not delete completely, and that are deleted now; with `dry_run`
    /// they would be.
    pub finished: Vec<PathBuf>,
    /// Remains of earlier cleans that are not deleted.
    pub warnings: Vec<String>,
    /// The sources that could not be asked for sessions.
    pub faults: Vec<Fault>,
}

/// Cleans worktrees.
pub fn clean(
    fleet: &Fleet,
    order: &CleanOrder,
    tell: &mut dyn FnMut(CleanNews),
) -> Result<Cleaned, CleanError> {
    if order.force && !matches!(order.which, CleanSelection::Named(_)) {
        return Err(CleanError::ForceWithoutName);
    }
    let git = Git::find(&fleet.host)?;
    let mut cleaned = Cleaned::default();
    if order.which == CleanSelection::Rescued {
        cleaned.rescued = rescued::delete_old(fleet, &git, order)?;
        return Ok(cleaned);
    }
    let selected = select::select(fleet, &git, order)?;
    cleaned.faults.extend(selected.faults);
    // If it is called off, the worktree that is checked is renamed back, and one that is removed is removed completely.
    let _order = (!order.dry_run).then(|| fleet.cancellation.open());
    let is_called_off = || !order.dry_run && fleet.cancellation.is_cancelled();
    for (repository, targets) in selected.targets {
        if is_called_off() {
            break;
        }
        let site = Site { fleet, git: &git, repository: &repository, order, own_lock: None };
        let _announced = announce(&fleet.host, CLEAN, &repository.common);
        let occupants = Occupants::look(&site);
        cleaned.faults.extend(occupants.faults.iter().cloned());
        let rest = interrupted::finish(&site, &occupants)?;
        cleaned.warnings.extend(rest.warnings);
        cleaned.finished.extend(rest.deleted);
        for target in targets {
            if is_called_off() {
                break;
            }
            if let Some(path) = &target.facts.path {
                tell(CleanNews::Checking(path.clone()));
            }
            let row = site.one(&target, &occupants, tell);
            if order.which != CleanSelection::Merged || row.action == CleanAction::Removed {
                cleaned.worktrees.push(row);
            }
        }
    }
    cleaned.faults.sort();
    cleaned.faults.dedup();
    Ok(cleaned)
}

/// The repository that is cleaned.
#[derive(Clone, Copy)]
struct Site<'a> {
    fleet: &'a Fleet,
    git: &'a Git,
    repository: &'a Repository,
    order: &'a CleanOrder,
    /// The reason of the lock of a failed launch that removes its own worktrees.
    own_lock: Option<&'a str>,
}

/// A worktree, or a branch without one, that may be removed.
struct Target {
    facts: WorktreeFacts,
    /// Its directory in the repository: `worktrees/<id>`.
    admin: Option<PathBuf>,
    is_main: bool,
    named: bool,
}

impl Target {
    /// Returns the group in its name.
    fn group(&self) -> Option<String> {
        let (group, _) = split_group(self.facts.name.as_deref()?)?;
        Some(group.to_owned())
    }

    /// Returns its directory, if it exists.
    fn directory(&self) -> Option<&Path> {
        self.facts.path.as_deref().filter(|path| path.symlink_metadata().is_ok())
    }

    /// Returns the ref of its branch, if agentctl made that branch for it.
    fn made_branch(&self) -> Option<&str> {
        self.facts.branch.as_deref().filter(|_| self.facts.is_on_own_branch)
    }

    /// Returns the ref of its branch, if removing the worktree deletes it.
    fn own_branch(&self, order: &CleanOrder) -> Option<&str> {
        self.made_branch().filter(|_| !order.keep_branch)
    }
}

/// The reasons to keep a worktree.
struct KeptFor {
    reasons: Vec<String>,
    /// `--force` would override all of them.
    forcible: bool,
}

impl From<Vec<String>> for KeptFor {
    fn from(reasons: Vec<String>) -> Self {
        Self { reasons, forcible: false }
    }
}

impl Site<'_> {
    fn one(
        &self,
        target: &Target,
        occupants: &Occupants,
        tell: &mut dyn FnMut(CleanNews),
    ) -> CleanedWorktree {
        let mut row = Self::row(target);
        let was_there = target.directory().is_some();
        let mut checked = self.check(target, occupants);
        let is_renamed = || was_there && target.directory().is_none();
        if checked.is_err() && !self.order.dry_run && is_renamed() {
            // Another clean removes it, or has looked at it and put it back.
            checked = self.check_alone(target, occupants);
        }
        match checked {
            Err(_) if self.is_called_off() => row.reasons = vec![CALLED_OFF.to_owned()],
            Err(kept) => (row.reasons, row.forcible) = (kept.reasons, kept.forcible),
            Ok(finding) if self.order.dry_run => {
                self.describe(&mut row, target, finding);
                row.action = CleanAction::Removed;
            }
            Ok(_) => remove::remove(self, target, &mut row, tell),
        }
        if row.action == CleanAction::Kept && self.is_gone(target) {
            row.action = CleanAction::Removed;
            row.reasons = vec!["it is gone already".to_owned()];
        }
        row
    }

    /// Checks a worktree before anything is done. Returns the reasons to keep it otherwise.
    fn check(&self, target: &Target, occupants: &Occupants) -> Result<Finding, KeptFor> {
        match interrupted::aside(target) {
            Some(aside) if self.order.dry_run => {
                let aside = aside.display();
                let text =
                    format!("another clean removes it, or was interrupted: it is in {aside}");
                Err(vec![text].into())
            }
            Some(_) => self.check_alone(target, occupants),
            None => self.check_now(target, occupants),
        }
    }

    /// Checks a worktree while no other clean renames it, and renames it back if an interrupted clean left it aside.
    fn check_alone(&self, target: &Target, occupants: &Occupants) -> Result<Finding, KeptFor> {
        let _mutex = remove::enter_repository(self)?;
        interrupted::restore(&self.repository.common, target);
        self.check_now(target, occupants)
    }

    fn check_now(&self, target: &Target, occupants: &Occupants) -> Result<Finding, KeptFor> {
        let one = |error: GitError| KeptFor::from(vec![error.to_string()]);
        let git = self.git.cancelled_by(&self.fleet.cancellation);
        let asking = Site { git: &git, ..*self };
        let checker = check::Checker::read(&asking).map_err(one)?;
        let mut finding = checker.check(target, target.directory(), occupants).map_err(one)?;
        if let Some(obstacle) = interrupted::obstacle(&self.repository.common, target)
            && !target.is_main
        {
            finding.keep(obstacle);
        }
        let reasons = finding.blocked(self.order);
        let forcible = !finding.is_blocked_with_force();
        if reasons.is_empty() { Ok(finding) } else { Err(KeptFor { reasons, forcible }) }
    }

    /// Says whether the order was called off. A question has no order that can be.
    fn is_called_off(&self) -> bool {
        !self.order.dry_run && self.fleet.cancellation.is_cancelled()
    }

    /// Says whether another clean removed a worktree, or a branch without one.
    fn is_gone(&self, target: &Target) -> bool {
        let common = &self.repository.common;
        let facts = &target.facts;
        let has_branch = |name: &str| !matches!(self.git.ref_value(common, name), Ok(None));
        match &facts.path {
            Some(path) => {
                let is_there = target.directory().is_some() || interrupted::aside(target).is_some();
                let entries = self.git.worktrees(common);
                !is_there && entries.is_ok_and(|entries| entry_of(&entries, path).is_none())
            }
            None => facts.branch.as_deref().is_some_and(|branch| !has_branch(branch)),
        }
    }

    fn row(target: &Target) -> CleanedWorktree {
        let branch = target.facts.branch.as_deref();
        CleanedWorktree {
            path: target.facts.path.clone(),
            branch: branch.map(|name| short_branch(name).to_owned()),
            name: target.facts.name.clone(),
            commit: target.facts.commit.clone(),
            action: CleanAction::Kept,
            reasons: Vec::new(),
            branch_deleted: false,
            ignored: Vec::new(),
            rescue: None,
            forcible: false,
            named: target.named,
            warnings: Vec::new(),
        }
    }

    /// Writes into a row why its worktree may go.
    fn describe(&self, row: &mut CleanedWorktree, target: &Target, finding: Finding) {
        row.branch_deleted = target.own_branch(self.order).is_some();
        row.ignored = finding.ignored;
        row.reasons = finding.proofs;
        let doubts = finding.doubts.into_iter().filter(|doubt| doubt.by != Override::Ignored);
        row.reasons.extend(doubts.map(|doubt| doubt.text));
    }
}

/// Returns the entry of git for a directory.
fn entry_of<'a>(entries: &'a [WorktreeEntry], path: &Path) -> Option<&'a WorktreeEntry> {
    entries.iter().find(|entry| entry.path == path)
}

//! Removes the worktrees of a launch that failed.
//!
//! A worktree whose setup had finished goes if it is exactly as it was then. In one whose setup did not finish, nothing
//! tells the files of the setup program from files that others put there. So it is checked as `clean --force` checks it:
//! files and commits that are nowhere else are saved in a rescue ref, and contents that a rescue ref cannot hold keep it.
//! Either is renamed aside first, under the mutex of the repository, and looked at again. No mount in it is entered.

use std::path::Path;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use super::check::Finding;
use super::occupants::Occupants;
use super::remove::{Reasons, Removal, enter_repository, one};
use super::{CleanOrder, CleanSelection, Site, Target, select};
use crate::fleet::Fleet;
use crate::git::{Git, GitError, Repository, WorkTree, git_dir_of};
use crate::host::Host;
use crate::locks::HeldMutex;
use crate::worktrees::make::{Prepared, SetUpFiles};
use crate::worktrees::rescue::Rescue;
use crate::worktrees::walk::{self, Enter};
use crate::worktrees::{BRANCH_REFS, WorktreeSettings};

/// How often the mutexes of a removal are tried. Each try waits for other launches and cleans in the same repository.
const MAX_TRIES: usize = 6;
/// How long processes may take to leave a worktree after its setup program was ended.
const LEAVING_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two looks at the processes.
const LEAVING_PAUSE: Duration = Duration::from_millis(50);

/// How far the making of a worktree came.
#[derive(Clone, Copy, Debug)]
pub(in crate::worktrees) enum Stage<'a> {
    /// Its files or its submodules were checked out.
    CheckOut,
    /// They were there, and its setup had not finished.
    SetUp,
    /// It was complete, in this state.
    Complete(&'a Prepared),
}

/// A worktree of a launch that failed.
#[derive(Clone, Copy, Debug)]
pub(in crate::worktrees) struct FailedWorktree<'a> {
    /// Its directory.
    pub path: &'a Path,
    /// Its branch, without `refs/heads/`.
    pub branch: &'a str,
    /// The commits that it began with: the base, and the one with the changes that were taken along. They are no work of
    /// anybody in it.
    pub beginnings: [&'a str; 2],
    /// The reason of the launcher's lock.
    pub lock: Option<&'a str>,
    /// How far its making came.
    pub stage: Stage<'a>,
}

/// A worktree that was removed. Its refs are left to the caller.
#[derive(Debug, Default)]
pub(in crate::worktrees) struct RemovedWorktree {
    /// The commit of its branch that was checked; `None` if only its beginning may be deleted.
    pub commit: Option<String>,
    /// The ref that keeps its contents.
    pub rescue: Option<Rescue>,
    /// A sentence about files that could not be removed.
    pub left: Option<String>,
}

/// Removes the worktree of a launch that failed, if git lists it. Returns why it is kept otherwise.
pub(in crate::worktrees) fn remove_failed(
    host: &Host,
    (git, repository): (&Git, &Repository),
    settings: &WorktreeSettings,
    failed: &FailedWorktree<'_>,
) -> Result<RemovedWorktree, String> {
    // No agent was started yet, or it has ended: an adapter has nothing to say, and nothing calls the removal off.
    let fleet = Fleet::new(Arc::new(host.clone()), &[]);
    let order = CleanOrder {
        from: repository.main.clone(),
        which: CleanSelection::Named(Vec::new()),
        dry_run: false,
        keep_branch: false,
        force: true,
        ignored: true,
        settings: settings.clone(),
    };
    let site = Site { fleet: &fleet, git, repository, order: &order, own_lock: failed.lock };
    let target = select::at(&site, failed.path).map_err(|error| not_known(&error))?;
    // A directory that git does not list belongs to somebody else.
    let Some(target) = target else { return Ok(RemovedWorktree::default()) };
    if target.facts.branch != Some(format!("{BRANCH_REFS}{}", failed.branch)) {
        return Err("it is on another branch or commit".to_owned());
    }
    remove(&site, &target, failed).map_err(|reasons| reasons.join("; "))
}

fn not_known(error: &GitError) -> String {
    format!("what is in it is not known: {error}")
}

fn remove(
    site: &Site<'_>,
    target: &Target,
    failed: &FailedWorktree<'_>,
) -> Result<RemovedWorktree, Reasons> {
    let removal = Removal { site, target, aside: None };
    let mut attempt = Attempt { removal, failed };
    // Held until it is removed or renamed back.
    let _mutexes = attempt.enter()?;
    attempt.run().map_err(|mut reasons| {
        reasons.extend(attempt.removal.put_back().err());
        reasons
    })
}

struct Attempt<'a> {
    removal: Removal<'a>,
    failed: &'a FailedWorktree<'a>,
}

impl<'a> Attempt<'a> {
    /// Takes the mutexes of a removal. Another launch may be removing many worktrees.
    fn enter(&self) -> Result<Vec<HeldMutex>, Reasons> {
        let enter = || match self.failed.stage {
            // An agent that has just ended may still hold the mutex of its directory.
            Stage::Complete(_) => enter_repository(self.removal.site).map(|held| vec![held]),
            Stage::CheckOut | Stage::SetUp => self.removal.enter(),
        };
        (1..MAX_TRIES).find_map(|_| enter().ok()).map_or_else(enter, Ok)
    }

    fn run(&mut self) -> Result<RemovedWorktree, Reasons> {
        let removed = match self.failed.stage {
            Stage::Complete(prepared) => self.run_complete(prepared)?,
            Stage::CheckOut | Stage::SetUp => self.run_unfinished()?,
        };
        let entries = self.git().worktrees(self.common()).map_err(one)?;
        match self.removal.finish(self.failed.path, &entries) {
            Ok(left) => Ok(RemovedWorktree { left, ..removed }),
            Err(mut reasons) => {
                let saved = removed.rescue.map(|Rescue { reference, .. }| reference);
                reasons.extend(saved.map(|saved| format!("its contents are saved as {saved}")));
                Err(reasons)
            }
        }
    }

    /// Compares a worktree that was complete with its state at that moment, before and after it is renamed.
    fn run_complete(&mut self, prepared: &Prepared) -> Result<RemovedWorktree, Reasons> {
        let git = self.git();
        let compare = |path: &Path| {
            let now = Prepared::of(git, path).map_err(|error| one(not_known(&error)))?;
            prepared.difference(&now).map_or(Ok(()), |why| Err(vec![why]))
        };
        compare(self.failed.path)?;
        self.removal.set_aside(&mut |_| {})?;
        self.removal.aside.as_deref().map_or(Ok(()), compare)?;
        Ok(RemovedWorktree::default())
    }

    /// Checks a worktree whose setup did not finish, and saves its contents.
    fn run_unfinished(&mut self) -> Result<RemovedWorktree, Reasons> {
        let (site, git) = (self.removal.site, self.git());
        if let Some(path) = self.removal.target.directory() {
            let walked = walk::walk(path, &mut |_| Enter::Yes);
            walked
                .map_err(|error| one(format!("not everything in it can be looked at: {error}")))?;
            wait_until_left(site, path)?;
        }
        self.removal.set_aside(&mut |_| {})?;
        let aside = self.removal.aside.clone().filter(|aside| git_dir_of(aside).is_some());
        let state = || aside.as_deref().map(|aside| Prepared::of(git, aside)).transpose();
        let before = state().map_err(one)?;
        let (checker, finding) = self.removal.judge(site)?;
        let nameless = checker.nameless_commits(self.removal.target, finding.commit.as_deref());
        let mut nameless = nameless.map_err(one)?;
        nameless.retain(|id| !self.failed.beginnings.contains(&id.as_str()));
        let changed = if self.has_work(&finding)? { finding.contents.as_ref() } else { None };
        let commit = finding.commit.clone();
        let rescue = self.removal.save(commit.as_deref(), nameless, changed).map_err(one)?;
        let after = state().map_err(one)?;
        let difference = before.zip(after).and_then(|(before, after)| before.difference(&after));
        match (difference, rescue) {
            (None, rescue) => Ok(RemovedWorktree { commit, rescue, left: None }),
            (Some(why), None) => Err(vec![why]),
            (Some(why), Some(Rescue { reference, .. })) => {
                Err(vec![format!("{why} while it was saved as {reference}")])
            }
        }
    }

    /// Says whether there are files in it that a rescue ref has to hold.
    fn has_work(&self, finding: &Finding) -> Result<bool, Reasons> {
        let (Some(contents), Some(aside)) = (&finding.contents, &self.removal.aside) else {
            return Ok(false);
        };
        let git_dir = self.removal.target.admin.clone().unwrap_or_default();
        let files = SetUpFiles {
            git: self.git(),
            repository: self.removal.site.repository,
            tree: WorkTree { git_dir, top: aside.clone() },
            is_checked_out: !matches!(self.failed.stage, Stage::CheckOut),
        };
        if let Some(inside) = files.repository_inside(contents).map_err(one)? {
            return Err(one(format!("{} is a repository of its own", inside.display())));
        }
        files.are_work(contents).map_err(one)
    }

    fn git(&self) -> &'a Git {
        self.removal.site.git
    }

    fn common(&self) -> &'a Path {
        &self.removal.site.repository.common
    }
}

/// Waits until no process is in a worktree. The processes of a setup program that was ended need a moment for it.
fn wait_until_left(site: &Site<'_>, path: &Path) -> Result<(), Reasons> {
    let until = Instant::now() + LEAVING_TIMEOUT;
    loop {
        let occupants = Occupants::look(site).below(&[path]);
        if occupants.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(occupants);
        }
        park_timeout(LEAVING_PAUSE);
    }
}

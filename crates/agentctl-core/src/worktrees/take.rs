//! Takes the work of a worktree into a branch. Nothing is removed.
//!
//! The merge is tried without a working tree first, so a conflict touches nothing. A branch that no working tree has
//! checked out is moved by compare-and-swap; in a clean working tree that no session occupies `git merge` runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::Reader;
use super::{BRANCH_REFS, WorktreeSettings, short_branch};
use crate::fleet::Fleet;
use crate::git::{Git, GitError, MergeResult, Repository, WorkTree, WorktreeEntry, git_dir_of};
use crate::locks::{Holder, enter, sessions_and_locks};
use crate::text::shell_word;

/// Timeout for a launch in the working tree.
const MUTEX_TIMEOUT: Duration = Duration::from_secs(10);
/// How many subjects of commits the message of a squash lists.
const MAX_SUBJECTS: usize = 100;

/// How work is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TakeWay {
    /// A merge commit.
    #[default]
    Merge,
    /// One commit with all changes.
    Squash,
    /// The branch moves to the commit of the worktree.
    FastForward,
}

/// An order to take the work of a worktree.
#[derive(Clone, Debug)]
pub struct TakeOrder {
    /// The worktree.
    pub path: PathBuf,
    /// The branch that gets the work, without `refs/heads/`; the branch that the worktree began from if `None`.
    pub into: Option<String>,
    /// How it is taken.
    pub way: TakeWay,
    /// Take files that are not committed as well.
    pub with_uncommitted: bool,
    /// The user's settings.
    pub settings: WorktreeSettings,
}

/// Work that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Taken {
    /// The branch of the worktree; its commit if it is on no branch.
    pub branch: String,
    /// The directory of the worktree.
    pub path: PathBuf,
    /// The branch that has the work now.
    pub into: String,
    /// The commit of that branch now.
    pub commit: String,
    /// How it was taken.
    pub way: TakeWay,
    /// How many commits were taken; 0 if the branch had everything already.
    pub commits: usize,
    /// How many files changed in the branch.
    pub files: usize,
    /// How many files of the worktree are not committed and were not taken.
    pub left_behind: usize,
    /// The working tree in which the branch is checked out; null if it is in none.
    pub checked_out: Option<PathBuf>,
}

/// Why work was not taken. Nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// git gave no answer.
    #[error(transparent)]
    Git(#[from] GitError),
    /// There is no branch of this name.
    #[error("there is no branch `{0}`")]
    NoBranch(String),
    /// The branch that the worktree began from is not known.
    #[error("the branch that {branch} began from is not known")]
    NoBaseBranch {
        /// The branch of the worktree.
        branch: String,
    },
    /// The worktree's own branch, or its main working tree, was meant.
    #[error("{0} cannot be taken into itself")]
    Itself(String),
    /// The branch has everything that is committed in the worktree.
    #[error("nothing that is committed on {branch} is left to take; {} not committed", super::clean::files(*uncommitted))]
    OnlyUncommitted {
        /// The branch of the worktree.
        branch: String,
        /// How many files are not committed.
        uncommitted: usize,
    },
    /// The merge has conflicts.
    #[error("{branch} conflicts with {into} in {}", .files.join(", "))]
    Conflicts {
        /// The branch of the worktree.
        branch: String,
        /// The branch that should get the work.
        into: String,
        /// The files.
        files: Vec<String>,
        /// The commands that do it by hand.
        commands: Vec<String>,
    },
    /// The branch has commits that the worktree does not have.
    #[error("{into} has commits that {branch} does not have, so it cannot be moved forward")]
    NotForward {
        /// The branch of the worktree.
        branch: String,
        /// The branch that should get the work.
        into: String,
    },
    /// The working tree of the branch has changes.
    #[error("{into} is checked out in {}, where {} not committed", .path.display(), super::clean::files(*.count))]
    Dirty {
        /// The branch.
        into: String,
        /// Its working tree.
        path: PathBuf,
        /// How many files are changed.
        count: usize,
    },
    /// A session works in the working tree of the branch.
    #[error("{into} is checked out in {}, where {holder} works", .path.display())]
    Occupied {
        /// The branch.
        into: String,
        /// Its working tree.
        path: PathBuf,
        /// The session.
        holder: String,
    },
    /// The branch moved in the meantime.
    #[error("{into} was changed by another program at the same moment")]
    Moved {
        /// The branch.
        into: String,
    },
}

/// Takes the work of a worktree into a branch.
pub fn take(fleet: &Fleet, order: &TakeOrder) -> Result<Taken, TakeError> {
    let git = Git::find(&fleet.host)?;
    let repository = git.repository(&order.path)?;
    let taking = Taking::prepare(fleet, &git, &repository, order)?;
    taking.run()
}

struct Taking<'a> {
    fleet: &'a Fleet,
    git: &'a Git,
    order: &'a TakeOrder,
    common: &'a Path,
    /// The name of the worktree's branch in messages.
    branch: String,
    /// The full name of the branch that gets the work.
    into: String,
    /// Its commit.
    tip: String,
    /// The commit that is taken.
    source: String,
    /// That commit was made now, for the files that are not committed.
    adds_commit: bool,
    left_behind: usize,
    entry: Option<WorktreeEntry>,
}

fn short(name: &str) -> String {
    short_branch(name).to_owned()
}

impl<'a> Taking<'a> {
    fn prepare(
        fleet: &'a Fleet,
        git: &'a Git,
        repository: &'a Repository,
        order: &'a TakeOrder,
    ) -> Result<Self, TakeError> {
        let common = &repository.common;
        let no_tree = || GitError::NotARepository { path: order.path.clone() };
        let top = repository.top.clone().ok_or_else(no_tree)?;
        let head = git.head(&top)?;
        let reader = Reader::new(&fleet.host, git, repository, &order.settings.prefix)?;
        let own = head.branch.as_deref();
        let commit = head.commit.clone().ok_or_else(no_tree)?;
        let branch = own.map_or_else(|| commit.chars().take(8).collect(), short);
        let into = match &order.into {
            Some(name) => format!("{BRANCH_REFS}{}", short(name)),
            None => reader
                .base_branch(own)?
                .ok_or_else(|| TakeError::NoBaseBranch { branch: branch.clone() })?,
        };
        if Some(into.as_str()) == own {
            return Err(TakeError::Itself(branch));
        }
        let tip = reader.refs.get(&into).cloned();
        let tip = tip.ok_or_else(|| TakeError::NoBranch(short(&into)))?;
        let tree = WorkTree { git_dir: git_dir_of(&top).ok_or_else(no_tree)?, top };
        let objects = common.join("objects");
        let contents = git.contents(&tree, &objects, order.with_uncommitted)?;
        let changed = git.changed_files(&tree, &contents)?.len();
        let mut source = commit.clone();
        let adds_commit = changed > 0 && order.with_uncommitted;
        if adds_commit {
            let message = format!("Uncommitted changes of {branch}");
            source = git.commit_with_parents(common, &contents.on_disk, &[&commit], &message)?;
        }
        let left_behind = if order.with_uncommitted { 0 } else { changed };
        let entries = git.worktrees(common)?;
        let entry = entries.into_iter().find(|entry| entry.branch() == Some(&into));
        Ok(Self {
            fleet,
            git,
            order,
            common,
            branch,
            into,
            tip,
            source,
            adds_commit,
            left_behind,
            entry,
        })
    }

    fn run(&self) -> Result<Taken, TakeError> {
        let (git, common) = (self.git, self.common);
        let commits = git.count_commits(common, &self.tip, &self.source)?.unwrap_or_default();
        if commits == 0 {
            return self.nothing_to_do();
        }
        let scratch = git.scratch_objects(common)?;
        let preview = scratch.see(git.read(common));
        let tree = match git.merge_trees(preview, &self.tip, &self.source)? {
            MergeResult::Clean(tree) => tree,
            MergeResult::Conflicts(files) => return Err(self.conflicts(files)),
        };
        let files = git.count_changed(scratch.see(git.read(common)), &self.tip, &tree)?;
        // A merge of the worktree's own commits records them, also if their content is there already.
        let is_one_new_commit =
            self.order.way == TakeWay::Squash || (self.adds_commit && commits == 1);
        if files == 0 && is_one_new_commit {
            return self.nothing_to_do();
        }
        if self.order.way == TakeWay::FastForward {
            let args = ["merge-base", "--is-ancestor", &self.tip, &self.source];
            if !git.read(common).args(args).says_yes()? {
                let (branch, into) = (self.branch.clone(), short(&self.into));
                return Err(TakeError::NotForward { branch, into });
            }
        }
        let commit = match &self.entry {
            Some(entry) if !entry.bare => self.merge_in(&entry.path)?,
            _ => self.merge_without_tree()?,
        };
        Ok(self.taken(commit, commits, files))
    }

    fn taken(&self, commit: String, commits: usize, files: usize) -> Taken {
        Taken {
            branch: self.branch.clone(),
            path: self.order.path.clone(),
            into: short(&self.into),
            commit,
            way: self.order.way,
            commits,
            files,
            left_behind: self.left_behind,
            checked_out: self.entry.as_ref().map(|entry| entry.path.clone()),
        }
    }

    /// Answers if the branch has everything that would be taken.
    fn nothing_to_do(&self) -> Result<Taken, TakeError> {
        if self.left_behind > 0 {
            let (branch, uncommitted) = (self.branch.clone(), self.left_behind);
            return Err(TakeError::OnlyUncommitted { branch, uncommitted });
        }
        Ok(self.taken(self.tip.clone(), 0, 0))
    }

    fn conflicts(&self, files: Vec<String>) -> TakeError {
        let (branch, into) = (self.branch.clone(), short(&self.into));
        let source = if self.order.with_uncommitted { &self.source } else { &self.branch };
        let merge = |path: &Path| {
            format!("git -C {} merge {}", shell_word(&path.to_string_lossy()), shell_word(source))
        };
        let commands = match &self.entry {
            Some(entry) if !entry.bare => vec![merge(&entry.path)],
            _ => vec![
                format!("git switch {}", shell_word(&into)),
                format!("git merge {}", shell_word(source)),
            ],
        };
        TakeError::Conflicts { branch, into, files, commands }
    }

    fn message(&self) -> Result<String, GitError> {
        if self.order.way != TakeWay::Squash {
            return Ok(format!("Merge branch '{}'", self.branch));
        }
        let count = format!("--max-count={MAX_SUBJECTS}");
        let args = ["log", "--reverse", "--format=* %s", &count, &self.source];
        let subjects = self.git.read(self.common).args(args).arg(format!("^{}", self.tip));
        Ok(format!("Squashed changes of {}\n\n{}", self.branch, subjects.text()?))
    }

    /// Makes the commit without a working tree, and moves the branch if it is still where it was.
    fn merge_without_tree(&self) -> Result<String, TakeError> {
        let (git, common) = (self.git, self.common);
        let tree = match git.merge_trees(git.change(common), &self.tip, &self.source)? {
            MergeResult::Clean(tree) => tree,
            MergeResult::Conflicts(files) => return Err(self.conflicts(files)),
        };
        let message = self.message()?;
        let new = match self.order.way {
            TakeWay::FastForward => self.source.clone(),
            TakeWay::Squash => git.commit_with_parents(common, &tree, &[&self.tip], &message)?,
            TakeWay::Merge => {
                git.commit_with_parents(common, &tree, &[&self.tip, &self.source], &message)?
            }
        };
        let reason = format!("agentctl: take {}", self.branch);
        let args = ["update-ref", "-m", &reason, &self.into, &new, &self.tip];
        match git.change(common).args(args).ok() {
            Ok(_) => Ok(new),
            Err(_) if git.ref_value(common, &self.into)?.as_ref() != Some(&self.tip) => {
                Err(TakeError::Moved { into: short(&self.into) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Merges in the working tree that has the branch checked out.
    fn merge_in(&self, path: &Path) -> Result<String, TakeError> {
        let git = self.git;
        let into = || short(&self.into);
        let occupied =
            |holder: String| TakeError::Occupied { into: into(), path: path.to_owned(), holder };
        let _mutex = enter(&self.fleet.host, path, MUTEX_TIMEOUT)
            .map_err(|_| occupied("another launch".to_owned()))?;
        if let Some(holder) = occupant(self.fleet, path) {
            return Err(occupied(holder.description()));
        }
        let args = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no"];
        let status = git.read(path).args(args).ok()?.stdout;
        let count = status.split(|byte| *byte == 0).filter(|line| !line.is_empty()).count();
        if count > 0 {
            return Err(TakeError::Dirty { into: into(), path: path.to_owned(), count });
        }
        if git.commit(path, "HEAD")?.as_ref() != Some(&self.tip) {
            return Err(TakeError::Moved { into: into() });
        }
        let message = self.message()?;
        let merge = |args: &[&str]| {
            let call = git.change_by_user(path)?.args(["merge", "--quiet"]);
            call.args(args.iter().copied()).arg(&self.source).ok()
        };
        let merged = match self.order.way {
            TakeWay::Merge => merge(&["--no-ff", "-m", &message]),
            TakeWay::FastForward => merge(&["--ff-only"]),
            TakeWay::Squash => merge(&["--squash"]).and_then(|_| {
                git.change_by_user(path)?.args(["commit", "--quiet", "-m", &message]).ok()
            }),
        };
        if let Err(error) = merged {
            // The working tree was clean: this brings it back to its commit.
            let _left = git.change(path).args(["reset", "--quiet", "--merge", &self.tip]).ok();
            return Err(error.into());
        }
        let commit = git.commit(path, "HEAD")?;
        commit.ok_or_else(|| TakeError::Moved { into: into() })
    }
}

/// Returns a session that works in a directory or below it, or the lock of a person. Sessions that called this
/// command themselves do not count.
fn occupant(fleet: &Fleet, path: &Path) -> Option<Holder> {
    let occupancy = crate::locks::occupancy(fleet, path);
    if let Some(holder) = occupancy.holders.into_iter().next() {
        return Some(holder);
    }
    let (_, locks, _) = sessions_and_locks(fleet);
    let below = |directory: &Path| directory.starts_with(path) && directory != path;
    locks.into_iter().find(|lock| below(Path::new(&lock.directory))).map(|lock| lock.holder)
}

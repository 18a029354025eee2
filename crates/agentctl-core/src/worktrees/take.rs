//! Takes the work of a worktree into a branch. Nothing is removed.
//!
//! The merge is tried without a working tree first, so a conflict touches nothing. A branch that no working tree has
//! checked out is moved by compare-and-swap; in a clean working tree that no session occupies `git merge` runs.

mod error;
mod failed_merge;
mod in_tree;
mod obstacles;
mod submodules;
mod undo;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::error::TakeError;
use super::branch_operations::{branch_operations, unfinished_operation};
use super::facts::Reader;
use super::{BRANCH_REFS, WorktreeSettings, short_branch};
use crate::fleet::Fleet;
use crate::git::{
    Git, GitError, MergeResult, PrivateStore, Repository, TreeChange, WorkTree, WorktreeEntry,
    check_all_below, git_dir_of,
};
use crate::locks::{Holder, sessions_and_locks};
use crate::text::{bounded, shell_word};

/// How many subjects of commits the message of a squash lists.
const MAX_SUBJECTS: usize = 100;
/// Longest text about files that could not be read.
const MAX_GAPS_BYTES: usize = 400;

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
    /// Submodules of the worktree with changed or untracked files in them, which were not taken.
    #[serde(default)]
    pub dirty_submodules: Vec<String>,
    /// Submodules whose commit changed in the branch. `git submodule update` checks them out.
    #[serde(default)]
    pub moved_submodules: Vec<String>,
    /// The working tree in which the branch is checked out; null if it is in none.
    pub checked_out: Option<PathBuf>,
}

/// Takes the work of a worktree into a branch. Called off, it is undone; once the branch has moved it is finished.
pub fn take(fleet: &Fleet, order: &TakeOrder) -> Result<Taken, TakeError> {
    let mut open = fleet.cancellation.open();
    let taken = take_in_order(fleet, order);
    if open.close() { taken } else { taken.map_err(TakeError::of_cancelled) }
}

fn take_in_order(fleet: &Fleet, order: &TakeOrder) -> Result<Taken, TakeError> {
    let lasting_git = Git::find(&fleet.host)?;
    let git = lasting_git.cancelled_by(&fleet.cancellation);
    let repository = git.repository(&order.path)?;
    let taking = Taking::prepare(fleet, (&git, &lasting_git), &repository, order)?;
    taking.run()
}

/// The result of a merge that was tried without a working tree.
struct Preview {
    tree: String,
    /// The differences between the branch and that tree.
    changes: Vec<TreeChange>,
    /// The store of the tree.
    store: PrivateStore,
}

struct Taking<'a> {
    fleet: &'a Fleet,
    /// Ended if the order is called off.
    git: &'a Git,
    /// For steps that must not be cut off.
    lasting_git: &'a Git,
    order: &'a TakeOrder,
    common: &'a Path,
    /// The top of the main working tree, or the bare repository.
    main: &'a Path,
    /// The top of the worktree.
    top: PathBuf,
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
    dirty_submodules: Vec<String>,
    /// Why not all files that are not committed are known.
    unread: Option<String>,
    entry: Option<WorktreeEntry>,
}

fn short(name: &str) -> String {
    short_branch(name).to_owned()
}

impl<'a> Taking<'a> {
    fn prepare(
        fleet: &'a Fleet,
        (git, lasting_git): (&'a Git, &'a Git),
        repository: &'a Repository,
        order: &'a TakeOrder,
    ) -> Result<Self, TakeError> {
        let common = &repository.common;
        let no_tree = || GitError::NotARepository { path: order.path.clone() };
        let top = repository.top.clone().ok_or_else(no_tree)?;
        let head = git.head(&top)?;
        let reader = Reader::new(&fleet.host, git, repository, &order.settings.prefix)?;
        let own = head.branch.as_deref();
        let Some(commit) = head.commit.clone() else {
            return Err(TakeError::NoCommit { branch: own.map(short).unwrap_or_default() });
        };
        let branch = own.map_or_else(|| commit.chars().take(8).collect(), short);
        let into = match &order.into {
            Some(name) => format!("{BRANCH_REFS}{}", short(name)),
            None => reader
                .base_branch(origin(&reader, &top, own).as_deref())?
                .ok_or_else(|| TakeError::NoBaseBranch { branch: branch.clone() })?,
        };
        let into = branch_behind(git, common, into)?;
        if Some(into.as_str()) == own {
            return Err(TakeError::Itself(branch));
        }
        let tip = reader.refs.get(&into).cloned();
        let tip = tip.ok_or_else(|| TakeError::NoBranch(short(&into)))?;
        let unfinished = branch_operations(repository)?.into_iter().find(|one| one.branch == into);
        if let Some(unfinished) = unfinished {
            let (operation, path) = (unfinished.operation.name(), unfinished.path);
            return Err(TakeError::Unfinished { operation, into: short(&into), path });
        }
        let tree = WorkTree { git_dir: git_dir_of(&top).ok_or_else(no_tree)?, top };
        if let Some(operation) = unfinished_operation(&tree.git_dir) {
            return Err(TakeError::UnfinishedWork { operation, path: tree.top });
        }
        let objects = common.join("objects");
        let contents = git.contents(&tree, &objects, order.with_uncommitted)?;
        let unread = (!contents.gaps.is_empty()).then(|| all_gaps(&contents.gaps));
        if let Some(why) = unread.clone().filter(|_| order.with_uncommitted) {
            return Err(TakeError::Unread { branch, why });
        }
        if order.with_uncommitted && contents.staged.is_none() {
            return Err(TakeError::Unresolved { branch });
        }
        let changed = git.changed_files(&tree, &contents)?.len();
        let mut source = commit.clone();
        let adds_commit = changed > 0 && order.with_uncommitted;
        if adds_commit {
            let trees = (commit.as_str(), contents.on_disk.as_str());
            let inside = git.embedded_repositories(tree.read(git), &tree.top, trees)?;
            if !inside.is_empty() {
                return Err(TakeError::RepositoriesInside { branch, paths: inside });
            }
            let message = format!("Uncommitted changes of {branch}");
            source = git.commit_with_parents(common, &contents.on_disk, &[&commit], &message)?;
        }
        let left_behind = if order.with_uncommitted { 0 } else { changed };
        let dirty_submodules = git.dirty_submodules(&tree.top)?;
        let entries = git.worktrees(common)?;
        let mut entry = entries.into_iter().find(|entry| entry.branch() == Some(&into));
        // git lists the git directory in place of a main working tree that it does not know.
        if let Some(entry) = entry.as_mut().filter(|entry| !entry.bare && entry.path == *common) {
            let known = (repository.main != *common).then(|| repository.main.clone());
            let known = known.or_else(|| main_tree_at(git, &fleet.host.cwd, common));
            entry.path = known.ok_or_else(|| TakeError::UnknownTree { into: short(&into) })?;
        }
        Ok(Self {
            fleet,
            git,
            lasting_git,
            order,
            common,
            main: &repository.main,
            top: tree.top,
            branch,
            into,
            tip,
            source,
            adds_commit,
            left_behind,
            dirty_submodules,
            unread,
            entry,
        })
    }

    fn run(&self) -> Result<Taken, TakeError> {
        let (git, common) = (self.git, self.common);
        let commits = git.count_commits(common, &self.tip, &self.source)?.unwrap_or_default();
        if commits == 0 {
            return self.nothing_to_do();
        }
        let preview = match self.preview() {
            // Only a merge has conflicts, and none is wanted.
            Err(TakeError::Conflicts { .. }) if self.order.way == TakeWay::FastForward => {
                return Err(self.not_forward());
            }
            preview => preview?,
        };
        let files = preview.changes.len();
        // A merge of the worktree's own commits records them, also if their content is there already.
        let is_one_new_commit =
            self.order.way == TakeWay::Squash || (self.adds_commit && commits == 1);
        if files == 0 && is_one_new_commit {
            return self.nothing_to_do();
        }
        let inside = git.committed_repositories(
            &|| preview.store.see(git.read(common)),
            &preview.tree,
            &preview.changes,
        )?;
        if !inside.is_empty() {
            return Err(TakeError::RepositoriesInside {
                branch: self.branch.clone(),
                paths: inside,
            });
        }
        let moved_submodules = self.check_submodules(&preview)?;
        if self.order.way == TakeWay::FastForward {
            let args = ["merge-base", "--is-ancestor", &self.tip, &self.source];
            if !git.read(common).args(args).says_yes()? {
                return Err(self.not_forward());
            }
        }
        let commit = match &self.entry {
            Some(entry) if !entry.bare => self.merge_in(&entry.path, &preview)?,
            _ => self.merge_without_tree()?,
        };
        // A hook may have changed the content. The branch has moved, so this is not called off any more.
        let git = self.lasting_git;
        let files = match git.tree(common, &commit) {
            Ok(Some(tree)) if tree != preview.tree => {
                git.count_changed(git.read(common), &self.tip, &commit).unwrap_or(files)
            }
            _ => files,
        };
        Ok(Taken { moved_submodules, ..self.taken(commit, commits, files) })
    }

    /// Tries the merge without a working tree.
    fn preview(&self) -> Result<Preview, TakeError> {
        let (git, common) = (self.git, self.common);
        let store = git.scratch_objects(common)?;
        let place = git.merge_place(common, &self.tip)?;
        let call = place.enter(store.see(git.read(common)))?;
        let tree = match git.merge_trees(call, &self.tip, &self.source)? {
            MergeResult::Clean(tree) => tree,
            MergeResult::Conflicts(files) => return Err(self.conflicts(files)),
        };
        let changes = git.tree_changes(store.see(git.read(common)), &self.tip, &tree)?;
        check_all_below(&changes)?;
        Ok(Preview { tree, changes, store })
    }

    /// Fails if the order was called off.
    fn check_order(&self) -> Result<(), TakeError> {
        if self.fleet.cancellation.is_cancelled() { Err(TakeError::Cancelled) } else { Ok(()) }
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
            dirty_submodules: self.dirty_submodules.clone(),
            moved_submodules: Vec::new(),
            checked_out: self.entry.as_ref().map(|entry| entry.path.clone()),
        }
    }

    /// Answers if the branch has everything that would be taken.
    fn nothing_to_do(&self) -> Result<Taken, TakeError> {
        if self.left_behind > 0 {
            let (branch, uncommitted) = (self.branch.clone(), self.left_behind);
            return Err(TakeError::OnlyUncommitted { branch, uncommitted });
        }
        if let Some(why) = self.unread.clone() {
            return Err(TakeError::Unread { branch: self.branch.clone(), why });
        }
        if !self.dirty_submodules.is_empty() {
            let (branch, submodules) = (self.branch.clone(), self.dirty_submodules.clone());
            return Err(TakeError::DirtySubmodules { branch, submodules });
        }
        Ok(self.taken(self.tip.clone(), 0, 0))
    }

    fn conflicts(&self, files: Vec<String>) -> TakeError {
        let (branch, into) = (self.branch.clone(), short(&self.into));
        let source = if self.order.with_uncommitted { &self.source } else { &self.branch };
        let git = |path: &Path| format!("git -C {}", shell_word(&path.to_string_lossy()));
        let way = if self.order.way == TakeWay::Squash { "merge --squash" } else { "merge" };
        let merge = |path: &Path| format!("{} {way} {}", git(path), shell_word(source));
        let commands = match &self.entry {
            Some(entry) if !entry.bare => vec![merge(&entry.path)],
            _ => {
                vec![format!("{} switch {}", git(self.main), shell_word(&into)), merge(self.main)]
            }
        };
        TakeError::Conflicts { branch, into, files, commands }
    }

    fn not_forward(&self) -> TakeError {
        TakeError::NotForward { branch: self.branch.clone(), into: short(&self.into) }
    }

    fn message(&self) -> Result<String, GitError> {
        if self.order.way != TakeWay::Squash {
            return Ok(format!("Merge branch '{}'", self.branch));
        }
        let count = format!("--max-count={MAX_SUBJECTS}");
        let args = ["log", "--reverse", "--format=* %s", &count, &self.source];
        let subjects = self.git.read(self.common).args(args).arg(format!("^{}", self.tip));
        Ok(format!("{}\n\n{}", self.squash_subject(), subjects.text()?))
    }

    fn squash_subject(&self) -> String {
        format!("Squashed changes of {}", self.branch)
    }

    /// Makes the commit without a working tree, and moves the branch if it is still where it was.
    fn merge_without_tree(&self) -> Result<String, TakeError> {
        let (git, common) = (self.git, self.common);
        let place = git.merge_place(common, &self.tip)?;
        let call = place.enter(git.change(common))?;
        let tree = match git.merge_trees(call, &self.tip, &self.source)? {
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
        self.check_order()?;
        let args = ["update-ref", "--no-deref", "-m", &reason, &self.into, &new, &self.tip];
        match self.lasting_git.change(common).args(args).ok() {
            Ok(_) => Ok(new),
            Err(_)
                if self.lasting_git.ref_value(common, &self.into)?.as_ref() != Some(&self.tip) =>
            {
                Err(TakeError::Moved { into: short(&self.into) })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the main working tree of a repository, if a directory is in it.
fn main_tree_at(git: &Git, directory: &Path, common: &Path) -> Option<PathBuf> {
    let here = git.repository(directory).ok()?;
    here.top.filter(|_| here.common == common && here.git_dir == common)
}

/// Returns the branch whose beginning is that of the worktree.
fn origin(reader: &Reader<'_>, top: &Path, branch: Option<&str>) -> Option<String> {
    let entry = reader.entries.iter().find(|entry| entry.path == top);
    reader.origin(entry.and_then(|entry| reader.name(entry)), branch)
}

/// Returns the branch that a branch stands for, if it is only another name of that one.
fn branch_behind(git: &Git, common: &Path, name: String) -> Result<String, TakeError> {
    let output = git.read(common).args(["symbolic-ref", "--quiet", &name]).run()?;
    match output.code {
        0 if output.text().starts_with(BRANCH_REFS) => Ok(output.text()),
        0 => Err(TakeError::NoBranch(short(&name))),
        _ => Ok(name),
    }
}

/// Returns the words of git about files that it could not read or store, as one line.
fn all_gaps(gaps: &[String]) -> String {
    let plain = |line: &String| {
        let marks = ["error: ", "fatal: "].into_iter();
        let mut rest = marks.filter_map(|mark| line.strip_prefix(mark));
        rest.next().unwrap_or(line).to_owned()
    };
    let mut lines: Vec<String> = gaps.iter().map(plain).collect();
    lines.dedup();
    bounded(&lines.join("; "), MAX_GAPS_BYTES).into_owned()
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

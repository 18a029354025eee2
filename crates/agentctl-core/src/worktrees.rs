//! Worktrees of agents: how they are made, and what git says about them.
//!
//! git is the registry. A worktree of ours is one whose branch is below the prefix (`agentctl/NAME`); its
//! base commit is `refs/agentctl/base/NAME`, and the branch that it began from is in the first line of the
//! branch's reflog. Nothing is read from our own directories.

mod branch_operations;
pub mod called;
pub mod clean;
pub mod facts;
pub mod lock_reason;
pub mod make;
mod regular_file;
mod rescue;
pub mod take;
mod walk;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::called::{CalledWorktree, name_at, slot_in, worktrees_here};
pub use self::clean::{
    CleanAction, CleanError, CleanNews, CleanOrder, CleanSelection, Cleaned, CleanedWorktree,
    RescuedRef, clean, left_aside,
};
pub use self::facts::{Merged, Sizes, WorktreeFacts, WorktreeState};
pub use self::lock_reason::LockReason;
pub use self::make::{MakeError, MakeNews, MakeStep, Prepared};
pub use self::rescue::Rescue;
use crate::git::{Git, GitError};
use crate::host::Host;
use crate::kernel::Cancellation;

/// The prefix of our branches, unless the configuration has another.
pub const DEFAULT_PREFIX: &str = crate::names::DEFAULT_BRANCH_PREFIX;
/// The refs that hold the base commit of each worktree, by its name.
pub const BASE_REFS: &str = "refs/agentctl/base/";
/// The refs that hold what was in a worktree that was removed by force.
pub const RESCUE_REFS: &str = "refs/agentctl/rescued/";
/// The refs of branches.
pub const BRANCH_REFS: &str = "refs/heads/";

/// How the worktrees of a launch are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorktreeOptions {
    /// The revision that the branch begins at; HEAD if null.
    pub base: Option<String>,
    /// Begin with the uncommitted changes of the present working tree, as the first commit of the branch.
    pub with_changes: bool,
    /// The directory that holds the worktrees.
    pub directory: Option<PathBuf>,
    /// Check out these directories only.
    pub sparse: Vec<String>,
    /// Fetch from the remotes before the base is resolved.
    pub fetch: bool,
    /// Leave the files of Git LFS as pointers.
    pub no_lfs: bool,
    /// A submodule that cannot be checked out is a failure, not a warning.
    pub strict: bool,
    /// Allow `sparse` to change the configuration that all worktrees share.
    pub force: bool,
}

/// The settings of worktrees from the user's configuration, never from the repository.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorktreeSettings {
    /// The prefix of the branches, with its `/`.
    pub prefix: String,
    /// The directory that holds the worktrees; beside the repository if null.
    pub directory: Option<PathBuf>,
    /// Untracked files of the main working tree that are copied into each new worktree.
    pub copy: Vec<PathBuf>,
    /// The program that prepares each new worktree, with its arguments.
    pub setup: Vec<String>,
}

impl Default for WorktreeSettings {
    fn default() -> Self {
        Self {
            prefix: DEFAULT_PREFIX.to_owned(),
            directory: None,
            copy: Vec::new(),
            setup: Vec::new(),
        }
    }
}

/// An order to make worktrees of the repository of one directory.
#[derive(Clone, Debug)]
pub struct MakeOrder {
    /// The directory that the launch was given: it names the repository, and the agents start in the same
    /// directory of their worktrees.
    pub from: PathBuf,
    /// The options of the launch.
    pub options: WorktreeOptions,
    /// The user's settings.
    pub settings: WorktreeSettings,
    /// The group of the launch, for the setup program.
    pub group: Option<String>,
    /// Calls the order off: everything that it made is removed.
    pub cancellation: Cancellation,
}

/// One worktree that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name: the branch without the prefix, for example `g-4f1a2c/codex`.
    pub name: String,
    /// The number of its slot, from 0, for the setup program.
    pub slot: usize,
    /// The revision that it begins at; `None` for that of the order.
    pub base: Option<String>,
}

/// A worktree that was made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Made {
    /// Its name: the branch without the prefix.
    pub name: String,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// Its directory.
    pub path: PathBuf,
    /// The directory in it that the agent starts in.
    pub cwd: PathBuf,
    /// The commit that it is based on: `refs/agentctl/base/NAME`.
    pub base: String,
    /// The commit that its branch begins at: the base, or the commit with the uncommitted changes.
    pub start: String,
    /// How many changed or untracked files of the present working tree stay behind.
    pub left_behind: usize,
    /// The parts that did not work, without preventing the worktree: one sentence each.
    pub warnings: Vec<String>,
    /// The state of its files and of its git directory before the agent starts.
    #[serde(skip)]
    pub prepared: Prepared,
    /// The output of the setup program. It is written into the folder of the run.
    #[serde(skip)]
    pub setup_output: Vec<u8>,
}

/// Returns the name of a branch without `refs/heads/`.
#[must_use]
pub fn short_branch(name: &str) -> &str {
    name.strip_prefix(BRANCH_REFS).unwrap_or(name)
}

/// Returns the name of a worktree: its branch (a full ref) without the prefix. `None` for a branch that is
/// not ours.
#[must_use]
pub fn name_of<'a>(branch: &'a str, prefix: &str) -> Option<&'a str> {
    let branch = branch.strip_prefix(BRANCH_REFS)?;
    let name = branch.strip_prefix(prefix).or_else(|| branch.strip_prefix(DEFAULT_PREFIX))?;
    Some(name).filter(|name| !name.is_empty())
}

/// Lists the names of our branches in the repository of a directory, each with the subject of its last commit.
pub fn names(
    host: &Host,
    directory: &Path,
    prefix: &str,
) -> Result<Vec<(String, String)>, GitError> {
    let git = Git::find(host)?;
    let format = "--format=%(refname) %(contents:subject)";
    let listed = git.read(directory).args(["for-each-ref", format, BRANCH_REFS]).text()?;
    let named = listed.lines().filter_map(|line| {
        let (branch, subject) = line.split_once(' ').unwrap_or((line, ""));
        Some((name_of(branch, prefix)?.to_owned(), subject.to_owned()))
    });
    Ok(named.collect())
}

/// Returns the name of a worktree for which none was given: `<group or g-6hex>/<adapter>[-model]`.
#[must_use]
pub fn default_name(group: Option<&str>, adapter: &str, model: Option<&str>) -> String {
    let group = group.map(ref_part).filter(|part| !part.is_empty());
    format!("{}/{}", group.unwrap_or_else(new_group), slot_name(adapter, model))
}

/// Returns a new group: `g-` and 6 hexadecimal digits.
#[must_use]
pub fn new_group() -> String {
    let random = uuid::Uuid::now_v7().simple().to_string();
    format!("g-{}", &random[random.len() - 6..])
}

/// Returns the part of a worktree's name that says which agent works in it: `<adapter>[-model]`.
#[must_use]
pub fn slot_name(adapter: &str, model: Option<&str>) -> String {
    let last = model.map(|model| ref_part(model.rsplit('/').next().unwrap_or(model)));
    match last.filter(|model| !model.is_empty()) {
        Some(model) => format!("{adapter}-{model}"),
        None => adapter.to_owned(),
    }
}

/// Makes a text one part of the name of a branch: other characters than letters, digits, `.`, `_` and `-` become
/// `-`.
#[must_use]
pub fn ref_part(text: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let mut part: String = text.chars().map(plain).take(60).collect();
    while part.contains("..") {
        part = part.replace("..", ".");
    }
    let part = part.trim_matches(['.', '-']);
    part.strip_suffix(".lock").unwrap_or(part).to_owned()
}

//! The name of a worktree of ours: its branch without the prefix, also if the settings have another prefix now, or if it
//! is on another branch than the one that it was made with.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::former::RENAMED;
use super::{CREATED_FROM, Reader};
use crate::git::{Git, WorktreeEntry, git_dir_of};
use crate::worktrees::{BASE_REFS, BRANCH_REFS, DEFAULT_PREFIX, name_of, regular_file};

/// The beginning of a line in the reflog of HEAD.
const MOVING_FROM: &str = "checkout: moving from ";
/// The beginning of the line in the reflog of HEAD about the first commit of a branch.
const FIRST_COMMIT: &str = "commit (initial)";
/// Limit of the reflog of HEAD.
const MAX_REFLOG_BYTES: u64 = 16 << 20;

/// A line of a reflog.
struct Move {
    /// The commit after it.
    commit: String,
    words: String,
}

impl Reader<'_> {
    /// Returns the name of a branch (a full ref) of ours: the part after the prefix.
    pub(in crate::worktrees) fn name_of<'b>(&'b self, branch: &'b str) -> Option<&'b str> {
        let other = || self.other_prefixes.get(branch).map(String::as_str);
        name_of(branch, self.prefix).or_else(other)
    }

    /// Returns the branches of ours whose prefix the settings do not name, as full refs.
    pub(in crate::worktrees) fn of_other_prefixes(&self) -> impl Iterator<Item = &str> {
        self.other_prefixes.keys().map(String::as_str)
    }

    /// Returns the branch of ours with this name, as a full ref.
    pub(in crate::worktrees) fn made_branch(&self, name: &str) -> Option<String> {
        let made =
            [self.prefix, DEFAULT_PREFIX].map(|prefix| format!("{BRANCH_REFS}{prefix}{name}"));
        let other = || {
            let mut other = self.other_prefixes.iter();
            other.find(|(_, own)| *own == name).map(|(branch, _)| branch.clone())
        };
        made.into_iter().find(|made| self.plain(made).is_some()).or_else(other)
    }

    /// Returns the name of a worktree: its branch without the prefix. On a detached HEAD, and on a branch that was made
    /// in it, it keeps the name that it was made with, unless another worktree has that branch checked out.
    #[must_use]
    pub fn name<'b>(&'b self, entry: &'b WorktreeEntry) -> Option<&'b str> {
        let own = entry.branch().and_then(|branch| self.name_of(branch));
        if own.is_some_and(|name| self.base(name).is_some()) {
            return own;
        }
        self.first_name(entry).or(own)
    }

    /// Returns the name that a worktree was made with, if it is on another branch than that of its name.
    fn first_name<'b>(&'b self, entry: &'b WorktreeEntry) -> Option<&'b str> {
        let is_main = self.entries.first().is_some_and(|main| main.path == entry.path);
        if is_main || entry.bare {
            return None;
        }
        let used = |name: &&str| {
            let mut branches = self.entries.iter().filter_map(WorktreeEntry::branch);
            branches.any(|branch| self.name_of(branch) == Some(name))
        };
        let bases = self.refs.keys().filter_map(|name| name.strip_prefix(BASE_REFS));
        let is_free = |name: &&str| self.base(name).is_some() && !used(name);
        let free: Vec<&str> = bases.filter(is_free).collect();
        let folder = entry.path.file_name()?.to_string_lossy();
        let by_folder = free.iter().find(|name| name.replace('/', "-") == folder).copied();
        if entry.branch().is_some() {
            // A person may put a worktree of another branch into a folder of this name.
            let name = by_folder?;
            let moves = self.moves_of_head(&entry.path);
            let was_there = self.last_name(&moves).as_deref() == Some(name)
                || self.was_left_for_a_new_root(name, entry, &moves);
            return was_there.then_some(name);
        }
        by_folder.or_else(|| {
            let last = self.last_name(&self.moves_of_head(&entry.path))?;
            free.into_iter().find(|name| **name == last)
        })
    }

    /// Returns the name of the branch of ours that a worktree had checked out last.
    fn last_name(&self, moves: &[Move]) -> Option<String> {
        let from = |one: &Move| {
            let (left, _) = one.words.strip_prefix(MOVING_FROM)?.split_once(" to ")?;
            self.name_of(&format!("{BRANCH_REFS}{left}")).map(str::to_owned)
        };
        moves.iter().find_map(from)
    }

    /// Says whether a worktree left the branch of this name for a branch without a commit (`git switch --orphan`). git
    /// writes no line about that: HEAD was at the commit that the branch has, and what follows begins anew.
    fn was_left_for_a_new_root(&self, name: &str, entry: &WorktreeEntry, moves: &[Move]) -> bool {
        let is_first = |one: &Move| one.words.starts_with(FIRST_COMMIT);
        let before = match entry.commit {
            None => moves.first(),
            Some(_) => moves.iter().skip_while(|one| !is_first(one)).nth(1),
        };
        let tip = self.made_branch(name);
        let tip = tip.as_ref().and_then(|branch| self.plain(branch));
        before.zip(tip).is_some_and(|(before, tip)| before.commit == *tip)
    }

    /// Returns the moves of the HEAD of a worktree, the newest one first.
    fn moves_of_head(&self, path: &Path) -> Vec<Move> {
        let logged = moves(self.git, path, "HEAD");
        // git refuses to show them while the branch of HEAD has no commit.
        logged.or_else(|| moves_in_file(path)).unwrap_or_default()
    }
}

/// Returns the lines in the reflog of a ref, the newest one first.
fn moves(git: &Git, directory: &Path, name: &str) -> Option<Vec<Move>> {
    let args = ["reflog", "show", "--format=%H %gs", name, "--"];
    let said = git.read(directory).args(args).ok().ok()?.text();
    let one = |line: &str| {
        let (commit, words) = line.split_once(' ')?;
        Some(Move { commit: commit.to_owned(), words: words.to_owned() })
    };
    Some(said.lines().filter_map(one).collect())
}

/// Reads the reflog of HEAD in the git directory of a worktree.
fn moves_in_file(path: &Path) -> Option<Vec<Move>> {
    let bytes = regular_file::read(&git_dir_of(path)?.join("logs/HEAD"), MAX_REFLOG_BYTES).ok()?;
    // `OLD NEW PERSON TIME`, a tab, the words.
    let one = |line: &str| {
        let (facts, words) = line.split_once('\t')?;
        let commit = facts.split(' ').nth(1)?.to_owned();
        Some(Move { commit, words: words.to_owned() })
    };
    Some(String::from_utf8_lossy(&bytes).lines().rev().filter_map(one).collect())
}

/// Finds the branches of ours whose prefix the settings do not name, with their names: the settings that named it are
/// gone. A base ref without a branch names such a branch, if its reflog begins as a launch writes it.
pub(super) fn with_other_prefixes(reader: &Reader<'_>) -> HashMap<String, String> {
    let mut found: HashMap<String, String> = HashMap::new();
    let is_without_branch = |name: &&str| reader.made_branch(name).is_none();
    let bases = reader.refs.keys().filter_map(|name| name.strip_prefix(BASE_REFS));
    let mut names: Vec<&str> = bases.filter(is_without_branch).collect();
    // `g/codex` before `codex`.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        let end = format!("/{name}");
        let mut branches = reader.refs.keys().filter(|branch| {
            branch.starts_with(BRANCH_REFS)
                && branch.len() > BRANCH_REFS.len() + end.len()
                && branch.ends_with(&end)
                && reader.plain(branch).is_some()
                && name_of(branch, reader.prefix).is_none()
                && !found.contains_key(*branch)
                && is_of_launch(reader, branch, name)
        });
        if let (Some(branch), None) = (branches.next(), branches.next()) {
            found.insert(branch.clone(), name.to_owned());
        }
    }
    found
}

/// Says whether a launch made a branch: it begins at the base of this name, or one commit later with the changes that
/// were taken along, and the line about that has a full name or a commit, where git itself writes the word that a person
/// typed. A branch that a person renamed is theirs.
fn is_of_launch(reader: &Reader<'_>, branch: &str, name: &str) -> bool {
    let common: &PathBuf = &reader.repository.common;
    let moves = moves(reader.git, common, branch).unwrap_or_default();
    if moves.iter().any(|one| one.words.starts_with(RENAMED)) {
        return false;
    }
    let (Some(first), Some(base)) = (moves.last(), reader.base(name)) else { return false };
    let Some(from) = first.words.strip_prefix(CREATED_FROM) else { return false };
    let is_commit = from.len() == base.len() && from.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_commit && !from.starts_with("refs/") {
        return false;
    }
    let parent = || reader.git.commit(common, &format!("{}^", first.commit)).ok().flatten();
    first.commit == *base || parent().as_ref() == Some(base)
}

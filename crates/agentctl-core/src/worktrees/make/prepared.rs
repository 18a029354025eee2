//! The state of a new worktree before its agent starts, to tell whether a failed launch left something in it.
//!
//! The names and statuses of `git status` are not enough: they do not change when a file that was untracked or ignored
//! before gets other contents, nor when a commit is made and taken back. So every file counts with its inode, size and
//! times, and the worktree's git directory with its reflog counts too. The time of the last change (ctime) of a file with
//! a hard link outside the worktree does not count: every link that is made to it or removed elsewhere changes that time,
//! as in a store that several worktrees share.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ring::digest::{SHA256, digest};
use rustix::fs::Stat;

use super::super::walk::{Enter, Entry, walk};
use crate::git::{Git, GitError, git_dir_of};

/// Files of a worktree's git directory that change although nothing was done: git refreshes the index, whose entries
/// are compared instead, and the lock is ours.
const CHANGING: [&str; 2] = ["index", "locked"];
/// The files of git's own watcher, which any `git status` starts.
const WATCHER: &[u8] = b"fsmonitor--daemon";

/// The state of a worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// The files; the cause if they cannot be listed.
    files: Option<Result<Listed, String>>,
    /// The git directory, with the entries of the index.
    records: Option<Result<Listed, String>>,
}

/// Everything below a directory, in an order that does not depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    entries: Vec<ListedEntry>,
    /// The digest of the entries of the index; empty for the files.
    index: Digest,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListedEntry {
    /// The digest of its path, mode, inode, size and time of its content.
    facts: Digest,
    /// When it was last changed in any way; `None` for a directory, and for a file that has a link elsewhere.
    changed: Option<(i64, i64)>,
}

type Digest = Vec<u8>;

impl Listed {
    /// Says whether this is the same as it was earlier.
    fn is_same(&self, earlier: &Self) -> bool {
        let is_same = |(now, before): (&ListedEntry, &ListedEntry)| {
            let is_shared = now.changed.is_none() || before.changed.is_none();
            now.facts == before.facts && (is_shared || now.changed == before.changed)
        };
        self.index == earlier.index
            && self.entries.len() == earlier.entries.len()
            && self.entries.iter().zip(&earlier.entries).all(is_same)
    }
}

impl Prepared {
    /// Reads the state of a worktree. A list that cannot be read is part of the result.
    pub(in crate::worktrees) fn of(git: &Git, path: &Path) -> Result<Self, GitError> {
        let git_dir = match git_dir_of(path) {
            Some(git_dir) => git_dir,
            None => git.repository(path)?.git_dir,
        };
        let index = git.read(path).args(["ls-files", "--stage", "-z"]).ok()?.stdout;
        let text = |error: io::Error| error.to_string();
        let files = listed(path, &|_| true).map_err(text);
        let index = digest(&SHA256, &index).as_ref().to_vec();
        let records = listed(&git_dir, &is_record).map_err(text);
        let records = records.map(|records| Listed { index, ..records });
        Ok(Self { files: Some(files), records: Some(records) })
    }

    /// Says how a later state differs from this one. A state that could not be read differs from every other.
    pub(in crate::worktrees) fn difference(&self, later: &Self) -> Option<String> {
        let same = |before, after, words: &str| match (known(before), known(after)) {
            (Ok(before), Ok(after)) if after.is_same(before) => None,
            (Ok(_), Ok(_)) => Some(words.to_owned()),
            (Err(why), _) | (_, Err(why)) => Some(why),
        };
        let words = "files in it were changed or added";
        let files = same(self.files.as_ref(), later.files.as_ref(), words);
        let words = "a commit, a branch or staged files were made in it with git";
        files.or_else(|| same(self.records.as_ref(), later.records.as_ref(), words))
    }
}

/// Returns a list, or why it is not known.
fn known(list: Option<&Result<Listed, String>>) -> Result<&Listed, String> {
    match list {
        Some(Ok(listed)) => Ok(listed),
        Some(Err(why)) => Err(format!("not everything in it can be looked at: {why}")),
        None => Err("its files before the start of the agent are not known".to_owned()),
    }
}

fn is_record(entry: &Entry) -> bool {
    let name = entry.path.as_os_str().as_bytes();
    !CHANGING.iter().any(|changing| name == changing.as_bytes()) && !name.starts_with(WATCHER)
}

/// Lists everything below a directory.
fn listed(top: &Path, counts: &dyn Fn(&Entry) -> bool) -> io::Result<Listed> {
    let (mut found, mut links) = (Vec::new(), HashMap::new());
    walk(top, &mut |entry| {
        if !counts(entry) {
            return Enter::No;
        }
        let stat = &entry.stat;
        let (facts, changed) = if entry.kind.is_dir() {
            (format!("{:o}", stat.st_mode), None)
        } else {
            let modified = (stat.st_mtime, stat.st_mtime_nsec);
            let (mode, inode, size) = (stat.st_mode, stat.st_ino, stat.st_size);
            let nanoseconds = i64::try_from(stat.st_ctime_nsec).unwrap_or(i64::MAX);
            let changed = (stat.st_ctime, nanoseconds);
            (format!("{mode:o} {inode} {size} {modified:?}"), Some(changed))
        };
        if has_links(stat) && changed.is_some() {
            *links.entry(stat.st_ino).or_insert(0_usize) += 1;
        }
        let line = [facts.as_bytes(), b" ", entry.path.as_os_str().as_bytes()].concat();
        let facts = digest(&SHA256, &line).as_ref().to_vec();
        found.push((*stat, ListedEntry { facts, changed }));
        Enter::Yes
    })?;
    let is_shared = |stat: &Stat| {
        let count = usize::try_from(stat.st_nlink).unwrap_or(usize::MAX);
        has_links(stat) && links.get(&stat.st_ino).is_some_and(|inside| *inside < count)
    };
    let entry = |(stat, entry): (Stat, ListedEntry)| {
        let changed = entry.changed.filter(|_| !is_shared(&stat));
        ListedEntry { changed, ..entry }
    };
    let mut entries: Vec<ListedEntry> = found.into_iter().map(entry).collect();
    entries.sort_unstable();
    Ok(Listed { entries, index: Digest::new() })
}

/// Says whether a file has several hard links.
fn has_links(stat: &Stat) -> bool {
    stat.st_nlink > 1
}

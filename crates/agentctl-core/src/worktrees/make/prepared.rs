//! The state of a new worktree before its agent starts, to tell whether a failed launch left something in it.
//!
//! The names and statuses of `git status` are not enough: they do not change when a file that was untracked or ignored
//! before gets other contents, nor when a commit is made and taken back. So every file counts with its inode, size and
//! times, and the worktree's git directory with its reflog counts too.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ring::digest::{Context, SHA256, digest};

use super::super::walk::{Enter, Entry, walk};
use crate::git::{Git, GitError, git_dir_of};

/// Files of a worktree's git directory that change although nothing was done: git refreshes the index, whose entries
/// are compared instead, and the lock is ours.
const CHANGING: [&str; 2] = ["index", "locked"];
/// The files of git's own watcher, which any `git status` starts.
const WATCHER: &[u8] = b"fsmonitor--daemon";

/// The state of a worktree, as digests of its lists of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// The files; the cause if they cannot be listed.
    files: Option<Result<Digest, String>>,
    /// The git directory and the entries of the index.
    records: Option<Result<Digest, String>>,
}

type Digest = Vec<u8>;

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
        let records = listed(&git_dir, &is_record).map_err(text).map(|records| {
            let mut both = Context::new(&SHA256);
            both.update(&records);
            both.update(&index);
            both.finish().as_ref().to_vec()
        });
        Ok(Self { files: Some(files), records: Some(records) })
    }

    /// Says how a later state differs from this one. A state that could not be read differs from every other.
    pub(in crate::worktrees) fn difference(&self, later: &Self) -> Option<String> {
        let read = |list: &Option<Result<Digest, String>>| match list {
            Some(Ok(digest)) => Ok(digest.clone()),
            Some(Err(why)) => Err(format!("not everything in it can be looked at: {why}")),
            None => Err("its files before the start of the agent are not known".to_owned()),
        };
        let same = |(before, after), words: &str| match (read(before), read(after)) {
            (Ok(before), Ok(after)) if before == after => None,
            (Ok(_), Ok(_)) => Some(words.to_owned()),
            (Err(why), _) | (_, Err(why)) => Some(why),
        };
        let files = same((&self.files, &later.files), "files in it were changed or added");
        let words = "a commit, a branch or staged files were made in it with git";
        files.or_else(|| same((&self.records, &later.records), words))
    }
}

fn is_record(entry: &Entry) -> bool {
    let name = entry.path.as_os_str().as_bytes();
    !CHANGING.iter().any(|changing| name == changing.as_bytes()) && !name.starts_with(WATCHER)
}

/// Returns the digest of everything below a directory: each file with its inode, mode, size and times.
fn listed(top: &Path, counts: &dyn Fn(&Entry) -> bool) -> io::Result<Digest> {
    let mut entries: Vec<[u8; 32]> = Vec::new();
    walk(top, &mut |entry| {
        if !counts(entry) {
            return Enter::No;
        }
        let stat = &entry.stat;
        let facts = if entry.kind.is_dir() {
            format!("{:o}", stat.st_mode)
        } else {
            let modified = (stat.st_mtime, stat.st_mtime_nsec);
            let changed = (stat.st_ctime, stat.st_ctime_nsec);
            let (mode, inode, size) = (stat.st_mode, stat.st_ino, stat.st_size);
            format!("{mode:o} {inode} {size} {modified:?} {changed:?}")
        };
        let line = [facts.as_bytes(), b" ", entry.path.as_os_str().as_bytes()].concat();
        if let Ok(line) = digest(&SHA256, &line).as_ref().try_into() {
            entries.push(line);
        }
        Enter::Yes
    })?;
    // A directory lists its entries in any order.
    entries.sort_unstable();
    Ok(digest(&SHA256, &entries.concat()).as_ref().to_vec())
}

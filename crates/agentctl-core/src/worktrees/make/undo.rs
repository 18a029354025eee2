//! Removes worktrees that a call of ours made and that hold nothing yet.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::clean::{FailedWorktree, Stage, remove_failed};
use super::super::{BASE_REFS, BRANCH_REFS, Made, WorktreeSettings};
use super::MakeError;
use crate::git::{Git, RefEdit, RefTransactionError};
use crate::host::Host;
use crate::kernel::Process;

/// A lock of a ref that stays unchanged for so long is left over if no git runs in the repository.
const STALE_LOCK_AGE: Duration = Duration::from_secs(1);

/// The refs of one worktree with their first values.
pub(super) struct Refs<'a> {
    pub branch: &'a str,
    pub name: &'a str,
    pub base: &'a str,
    /// The commit at which the branch is deleted.
    pub start: &'a str,
}

/// The end of a worktree whose launch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is removed with its branch and base ref.
    Removed,
    /// It is kept, for this reason.
    Kept(String),
}

/// Removes a worktree whose launch failed, unless something is in it: a commit, a file that is not exactly as it was
/// when the worktree was complete, or a change in its git directory.
pub fn undo(host: &Host, made: &Made) -> Result<Undone, MakeError> {
    let git = Git::find(host)?;
    let kept = |why: &str| Ok(Undone::Kept(why.to_owned()));
    let head = git.head(&made.path)?;
    if head.commit.as_ref() != Some(&made.start) {
        return kept("it has a commit of its own");
    }
    let repository = git.repository(&made.path)?;
    let failed = FailedWorktree {
        path: &made.path,
        branch: &made.branch,
        beginnings: [&made.base, &made.start],
        lock: None,
        stage: Stage::Complete(&made.prepared),
    };
    let settings = WorktreeSettings::default();
    let removed = match remove_failed(host, (&git, &repository), &settings, &failed) {
        Ok(removed) => removed,
        Err(why) => return kept(&why),
    };
    let refs =
        Refs { branch: &made.branch, name: &made.name, base: &made.base, start: &made.start };
    let mut left: Vec<String> = removed.left.into_iter().collect();
    left.extend(delete_refs(host, &git, &repository.common, &refs));
    if let Some(parent) = made.path.parent() {
        let _not_empty = std::fs::remove_dir(parent);
    }
    Ok(if left.is_empty() { Undone::Removed } else { Undone::Kept(left.join(", ")) })
}

/// Deletes the branch and the base ref of a worktree. A ref that has moved stays. Returns the refs that are left, each with
/// the cause.
pub(super) fn delete_refs(host: &Host, git: &Git, common: &Path, refs: &Refs<'_>) -> Vec<String> {
    let mut left = Vec::new();
    let branch = format!("{BRANCH_REFS}{}", refs.branch);
    let delete = |name: &str, old: &str| {
        let edit = RefEdit::Delete { name: name.to_owned(), old: old.to_owned() };
        git.change_refs(common, "agentctl: undo", &[edit])
    };
    for (name, old) in [(branch, refs.start), (format!("{BASE_REFS}{}", refs.name), refs.base)] {
        let mut deleted = delete(&name, old);
        if deleted.is_err() && remove_stale_lock(host, git, (common, &name)) {
            deleted = delete(&name, old);
        }
        match deleted {
            Ok(()) => {}
            Err(RefTransactionError::Conflict { .. })
                if matches!(git.ref_value(common, &name), Ok(None)) => {}
            Err(error) => left.push(format!("{name} ({error})")),
        }
    }
    left
}

/// Removes the lock of a ref of this call that a git has left behind, and says whether the ref can be tried again. A git
/// that is killed right after it has created the lock file does not remove it. A lock that changes or goes within
/// [`STALE_LOCK_AGE`] belongs to a git that runs, and so does one while a git runs in the repository: it keeps a lock as
/// long as a hook takes.
fn remove_stale_lock(host: &Host, git: &Git, (common, name): (&Path, &str)) -> bool {
    let lock = common.join(format!("{name}.lock"));
    let seen = || {
        let meta = lock.symlink_metadata().ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec()))
    };
    let Some(first) = seen() else { return true };
    let until = Instant::now() + STALE_LOCK_AGE;
    while let Some(rest) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(rest);
    }
    match seen() {
        Some(now) if now == first && !git_runs_in(host, git, common) => {
            std::fs::remove_file(&lock).is_ok()
        }
        Some(_) => false,
        None => true,
    }
}

/// Says whether a git may run in a repository or in one of its worktrees: a process whose directory is not known counts.
fn git_runs_in(host: &Host, git: &Git, common: &Path) -> bool {
    let Ok(listed) = git.worktrees(common) else { return true };
    let until = Instant::now() + host.deadlines.live;
    let table = host.kernel.table(until, |_| true);
    let is_inside = |cwd: &Path| {
        cwd.starts_with(common) || listed.iter().any(|entry| cwd.starts_with(&entry.path))
    };
    let mut gits = table.processes.iter().filter(|process| may_be_git(process));
    !table.gaps.is_empty() || gits.any(|git| git.cwd.as_deref().is_none_or(is_inside))
}

/// Says whether a process may run git: by the name of its program file, of which a machine may have several, or by its
/// own name.
fn may_be_git(process: &Process) -> bool {
    let program = process.exe.as_deref().and_then(Path::file_name);
    let program = program.map(OsStr::to_string_lossy).unwrap_or_default();
    program.starts_with("git") || process.comm.starts_with("git")
}

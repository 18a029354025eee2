//! Worktrees that were cleaned or taken, in words, with hints and exit codes.

use std::path::Path;

use agentctl_core::ask::{Fleet, NotOne, NotTaken};
use agentctl_core::host::Host;
use agentctl_core::resolve::HERE;
use agentctl_core::text::shell_word;
use agentctl_core::worktrees::take::{TakeError, TakeWay, Taken};
use agentctl_core::worktrees::{CleanAction, CleanError, CleanedWorktree, RescuedRef};

use super::diff::directory_gone;
use super::failed_worktree::{git_failure, no_git_work, worktrees_hint};
use super::unresolved::{groups_hint, unresolved};
use crate::failure::{Failure, Kind};
use crate::text::{counted, with_tilde};

/// How many ignored paths a line names.
const NAMED_PATHS: usize = 3;
/// How many names a hint lists.
const NAMED_WORKTREES: usize = 8;

/// Returns the line about a worktree: `removed  ~/shop.worktrees/x   main has its commits; branch was 91be2d0`. Its
/// first word is apart, so that a terminal can break the rest below itself.
#[must_use]
pub fn clean_line(host: &Host, row: &CleanedWorktree, dry_run: bool) -> (String, String) {
    let place = match (&row.path, &row.branch) {
        (Some(path), _) => with_tilde(&host.home, &path.to_string_lossy()),
        (None, Some(branch)) => format!("branch {branch}"),
        (None, None) => "-".to_owned(),
    };
    let mut parts = row.reasons.clone();
    if row.action == CleanAction::Removed {
        if !row.ignored.is_empty() {
            let shown = row.ignored.iter().take(NAMED_PATHS).map(|path| path.display().to_string());
            let mut shown: Vec<String> = shown.collect();
            if row.ignored.len() > NAMED_PATHS {
                shown.push(format!("{} more", row.ignored.len() - NAMED_PATHS));
            }
            parts.push(format!("ignored: {}", shown.join(", ")));
        }
        if let Some(commit) = row.commit.as_ref().filter(|_| row.branch_deleted) {
            let short: String = commit.chars().take(7).collect();
            let word = if dry_run { "is" } else { "was" };
            parts.push(format!("branch {word} {short}"));
        }
    }
    let word = match (row.action, dry_run) {
        (CleanAction::Kept, _) => "kept",
        (CleanAction::Removed, false) => "removed",
        (CleanAction::Removed, true) => "would remove",
    };
    let width = if dry_run { "would remove".len() } else { 8 };
    (format!("{word:<width$} "), format!("{place}   {}", parts.join("; ")))
}

/// Returns the lines below that about a removed worktree: where its work is saved, and the command that brings it back.
#[must_use]
pub fn rescue_lines(row: &CleanedWorktree) -> Vec<String> {
    let Some(rescue) = &row.rescue else { return Vec::new() };
    vec![
        format!("  saved as {}; to bring it back:", rescue.reference),
        format!("  {}", rescue.command),
    ]
}

/// Returns the line about a rescue ref: `deleted  refs/agentctl/rescued/20260101T000000Z-x   was 91be2d0…`.
#[must_use]
pub fn rescued_line(rescued: &RescuedRef, dry_run: bool) -> String {
    let RescuedRef { reference, commit, .. } = rescued;
    let (word, what) = match (&rescued.error, dry_run) {
        (Some(error), _) => ("kept", error.clone()),
        (None, true) => ("would delete", format!("is {commit}")),
        (None, false) => ("deleted", format!("was {commit}")),
    };
    let width = if dry_run { "would delete".len() } else { 8 };
    format!("{word:<width$} {reference}   {what}")
}

/// Returns the line about a directory that an interrupted clean did not delete completely.
#[must_use]
pub fn finished_line(host: &Host, path: &Path, dry_run: bool) -> String {
    let place = with_tilde(&host.home, &path.to_string_lossy());
    let word = if dry_run { "would delete" } else { "deleted " };
    format!("{word} {place}   the rest of an interrupted clean")
}

/// Says why nothing was cleaned.
#[must_use]
pub fn not_cleaned(host: &Host, error: &CleanError) -> Failure {
    match error {
        CleanError::Git(error) => git_failure(host, error),
        CleanError::NoSuchGroup { groups, .. } => {
            Failure::new(Kind::NotFound, error.to_string()).hint(groups_hint(groups.clone()))
        }
        CleanError::NoSuch { names, .. } => {
            let failure = Failure::new(Kind::NotFound, error.to_string());
            if names.is_empty() {
                return failure.hint("`agentctl worktree list` lists the worktrees");
            }
            let names: Vec<&str> = names.iter().take(NAMED_WORKTREES).map(String::as_str).collect();
            failure.hint(format!("worktrees: {}", names.join(", ")))
        }
        CleanError::ForceWithoutName => Failure::new(Kind::Usage, error.to_string())
            .hint("`agentctl worktree clean NAME --force`"),
    }
}

/// Returns the line about work that was taken, and remarks.
#[must_use]
pub fn take_lines(taken: &Taken) -> (String, Vec<String>) {
    let Taken { branch, into, .. } = taken;
    let short: String = taken.commit.chars().take(7).collect();
    let mut remarks = Vec::new();
    if taken.left_behind > 0 {
        let files = counted(taken.left_behind, "file");
        let them = them(taken.left_behind);
        remarks.push(format!(
            "{files} not committed in {branch}: not taken; --with-uncommitted takes {them}"
        ));
    }
    for submodule in &taken.dirty_submodules {
        remarks.push(format!(
            "the submodule {submodule} has changes that are not committed in it: not taken"
        ));
    }
    if let (Some(path), false) = (&taken.checked_out, taken.moved_submodules.is_empty()) {
        let (path, moved) = (path.to_string_lossy(), taken.moved_submodules.join(", "));
        let path = shell_word(&path);
        remarks.push(format!("`git -C {path} submodule update` checks out {moved}"));
    }
    if taken.commits == 0 {
        return (format!("{into} has everything of {branch} already"), remarks);
    }
    let word = match taken.way {
        TakeWay::Merge => "merged",
        TakeWay::Squash => "squashed",
        TakeWay::FastForward => "moved",
    };
    let what = format!("{}, {}", counted(taken.commits, "commit"), counted(taken.files, "file"));
    let line = match taken.way {
        TakeWay::FastForward => format!("moved {into} forward to {short} of {branch} ({what})"),
        _ => format!("{word} {branch} into {into} as {short} ({what})"),
    };
    (format!("{line}; the worktree is still there"), remarks)
}

fn them(count: usize) -> &'static str {
    if count == 1 { "it" } else { "them" }
}

/// Says why work was not taken.
#[must_use]
pub fn not_taken(fleet: &Fleet, text: &str, why: NotTaken) -> Failure {
    match why {
        NotTaken::DirectoryGone(gone) => directory_gone(fleet, text, &gone),
        NotTaken::NotOne(NotOne::Nothing) if text != HERE && !text.trim().is_empty() => {
            let message = format!("no worktree and no session matches `{text}`");
            Failure::new(Kind::NotFound, message).hint(worktrees_hint(&fleet.host))
        }
        NotTaken::NotOne(not_one) => {
            unresolved(fleet, text, not_one).hint(worktrees_hint(&fleet.host))
        }
        NotTaken::Group { worktrees } => {
            let message = format!("`{text}` is a group: {}", worktrees.join(", "));
            Failure::new(Kind::NotFound, message).hint("name one of its worktrees")
        }
        NotTaken::NoWorktree { directory } => {
            let directory = with_tilde(&fleet.host.home, &directory.to_string_lossy());
            Failure::new(
                Kind::Refused,
                format!("`{text}` works in {directory}, which is no worktree"),
            )
            .hint("its commits are in that repository already")
        }
        NotTaken::UnknownDirectory => {
            Failure::new(Kind::Failed, format!("the directory of `{text}` is unknown"))
        }
        NotTaken::Refused(error) => refused(fleet, text, &error),
    }
}

fn refused(fleet: &Fleet, text: &str, error: &TakeError) -> Failure {
    let failure = |kind| Failure::new(kind, error.to_string());
    match error {
        TakeError::Git(error) => no_git_work(fleet, text, error),
        TakeError::NoBranch(_) => failure(Kind::NotFound).hint(
            "`git branch` lists the branches; a remote one must be fetched and named locally",
        ),
        TakeError::NoBaseBranch { .. } => failure(Kind::Refused).hint("name a branch with --into"),
        TakeError::NoCommit { .. } => failure(Kind::Refused)
            .hint("commit in the worktree, or switch to the branch that has its commits"),
        TakeError::Itself(_) => failure(Kind::Refused).hint("name another branch with --into"),
        TakeError::OnlyUncommitted { uncommitted, .. } => failure(Kind::Refused).hint(format!(
            "add --with-uncommitted: `agentctl worktree take {} --with-uncommitted` takes {}",
            shell_word(text),
            them(*uncommitted)
        )),
        TakeError::Unread { .. } => failure(Kind::Failed).hint("nothing was taken"),
        TakeError::RepositoriesInside { .. } => failure(Kind::Refused).hint(
            "move it out of the worktree, make it a submodule, or remove its .git to take its files",
        ),
        TakeError::DirtySubmodules { .. } => failure(Kind::Refused).hint(
            "commit in the submodule first, then the submodule's new commit in the worktree; files in the folder of one that is not checked out are moved out of it",
        ),
        TakeError::SubmoduleCommit { command, .. } => failure(Kind::Refused)
            .hint(format!("nothing was changed; `{command}` makes it known, then take again")),
        TakeError::Conflicts { commands, .. } => failure(Kind::Refused)
            .hint(format!("nothing was changed; by hand: {}", commands.join(" && "))),
        TakeError::NotForward { .. } => {
            failure(Kind::Refused).hint("without --ff a merge commit is made")
        }
        TakeError::Dirty { files, .. } => failure(Kind::Refused).hint(format!(
            "commit or stash {}, or name another branch with --into",
            them(files.len())
        )),
        TakeError::Hidden { path, .. } => {
            let git = format!("git -C {}", shell_word(&path.to_string_lossy()));
            failure(Kind::Refused).hint(format!(
                "`{git} update-index --no-assume-unchanged --no-skip-worktree FILE` shows them to git; or name another branch with --into"
            ))
        }
        TakeError::NoDirectory { .. } => failure(Kind::Refused).hint(
            "`git worktree prune` forgets worktrees whose directory is gone; or name another branch with --into",
        ),
        TakeError::InTheWay { files, .. } => failure(Kind::Refused).hint(format!(
            "nothing was changed; move or remove {}, or name another branch with --into",
            them(files.len())
        )),
        TakeError::Hook { .. } => failure(Kind::Refused)
            .hint("the hooks are in the directory that `git rev-parse --git-path hooks` names"),
        TakeError::IndexLocked { .. } => failure(Kind::Refused)
            .hint("wait until it has ended; if no git runs there, remove that file"),
        TakeError::OtherResult { .. } => failure(Kind::Failed).hint(
            "nothing was taken; a merge driver that a `.gitattributes` which is not tracked names can be the cause",
        ),
        TakeError::Occupied { .. } => failure(Kind::Refused)
            .hint("wait until it has ended, or name another branch with --into"),
        TakeError::UnfinishedWork { .. } => {
            failure(Kind::Refused).hint("nothing was taken; finish or abort it first")
        }
        TakeError::Unresolved { .. } => failure(Kind::Refused)
            .hint("nothing was taken; resolve them, or leave --with-uncommitted out"),
        TakeError::WorktreeGone { branch: Some(branch), .. } => {
            let branch = shell_word(branch);
            failure(Kind::Refused)
                .hint(format!("`git merge {branch}` takes what is committed on the branch"))
        }
        TakeError::WorktreeGone { branch: None, .. } => failure(Kind::Refused)
            .hint("`agentctl worktree clean NAME` shows which commits only the worktree had"),
        TakeError::UnknownTree { .. } => {
            failure(Kind::Refused).hint("run the command in that working tree")
        }
        TakeError::Cancelled | TakeError::Undone(_) => failure(Kind::Failed),
        TakeError::Unfinished { .. } | TakeError::UnfinishedInTree { .. } => {
            failure(Kind::Refused).hint("finish or abort it, or name another branch with --into")
        }
        TakeError::Moved { .. } => failure(Kind::Refused).hint("try again"),
        TakeError::NotUndone { path, is_staged, .. } => {
            let git = format!("git -C {}", shell_word(&path.to_string_lossy()));
            if !is_staged {
                return failure(Kind::Failed).hint(format!("`{git} status` shows what is there"));
            }
            failure(Kind::Failed).hint(format!(
                "`{git} status` shows what is there; `{git} reset --merge` undoes the merge, drops everything that is staged, and moves no branch"
            ))
        }
    }
}

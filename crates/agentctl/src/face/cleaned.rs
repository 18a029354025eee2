//! Worktrees that were cleaned or taken, in words, with hints and exit codes.

use agentctl_core::ask::{Fleet, NotTaken};
use agentctl_core::host::Host;
use agentctl_core::worktrees::take::{TakeError, TakeWay, Taken};
use agentctl_core::worktrees::{CleanAction, CleanError, CleanedWorktree, RescuedRef};

use super::failed_worktree::git_failure;
use super::unresolved::unresolved;
use crate::failure::{Failure, Kind};
use crate::text::{counted, with_tilde};

/// How many ignored paths a line names.
const NAMED_PATHS: usize = 3;
/// How many names a hint lists.
const NAMED_WORKTREES: usize = 8;

/// Returns the line about a worktree: `removed  ~/shop.worktrees/x   main has its commits; branch was 91be2d0`.
#[must_use]
pub fn clean_line(host: &Host, row: &CleanedWorktree, dry_run: bool) -> String {
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
    format!("{word:<width$} {place}   {}", parts.join("; "))
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

/// Says why nothing was cleaned.
#[must_use]
pub fn not_cleaned(host: &Host, error: &CleanError) -> Failure {
    match error {
        CleanError::Git(error) => git_failure(host, error),
        CleanError::NoSuchGroup { groups, .. } => {
            let failure = Failure::new(Kind::NotFound, error.to_string());
            if groups.is_empty() {
                return failure.hint("there is no group; `agentctl group ID GROUP` makes one");
            }
            failure.hint(format!("groups: {}", groups.join(", ")))
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
        NotTaken::NotOne(not_one) => unresolved(fleet, text, not_one)
            .hint("`agentctl worktree list` lists the worktrees of this repository"),
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
        TakeError::Git(error) => git_failure(&fleet.host, error),
        TakeError::NoBranch(_) => failure(Kind::NotFound).hint(
            "`git branch` lists the branches; a remote one must be fetched and named locally",
        ),
        TakeError::NoBaseBranch { .. } => failure(Kind::Refused).hint("name a branch with --into"),
        TakeError::Itself(_) => failure(Kind::Refused).hint("name another branch with --into"),
        TakeError::OnlyUncommitted { uncommitted, .. } => failure(Kind::Refused).hint(format!(
            "add --with-uncommitted: `agentctl worktree take {text} --with-uncommitted` takes {}",
            them(*uncommitted)
        )),
        TakeError::Conflicts { commands, .. } => failure(Kind::Refused)
            .hint(format!("nothing was changed; by hand: {}", commands.join(" && "))),
        TakeError::NotForward { .. } => {
            failure(Kind::Refused).hint("without --ff a merge commit is made")
        }
        TakeError::Dirty { .. } => {
            failure(Kind::Refused).hint("commit or stash them, or name another branch with --into")
        }
        TakeError::Occupied { .. } => failure(Kind::Refused)
            .hint("wait until it has ended, or name another branch with --into"),
        TakeError::Moved { .. } => failure(Kind::Refused).hint("try again"),
    }
}

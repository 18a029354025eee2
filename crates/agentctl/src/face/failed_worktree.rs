//! Worktrees in words: the steps of making them, and why they were not made, with hints and exit codes.

use agentctl_core::git::GitError;
use agentctl_core::host::Host;
use agentctl_core::worktrees::make::NameHolder;
use agentctl_core::worktrees::{Made, MakeError, MakeNews, MakeStep};

use crate::failure::{Failure, Kind};
use crate::text::with_tilde;

/// Returns the line about a step of making a worktree, for a display of progress; `None` for the last step.
#[must_use]
pub fn making_line(news: &MakeNews) -> Option<String> {
    let (name, step) = match news {
        MakeNews::Fetching => return Some("fetching from the remotes".to_owned()),
        MakeNews::Step { name, step } => (name, step),
    };
    let what = match step {
        MakeStep::CheckOut => "checking out files",
        MakeStep::Submodules => "checking out submodules",
        MakeStep::Copy => "copying files",
        MakeStep::SetUp => "running the setup program",
        MakeStep::Done => return None,
    };
    Some(format!("{name}: {what}"))
}

/// Returns the remarks about a worktree that was made: what stays behind.
#[must_use]
pub fn made_remarks(host: &Host, made: &Made) -> Vec<String> {
    let path = with_tilde(&host.home, &made.path.to_string_lossy());
    let mut remarks = vec![format!("worktree {path} on branch {}", made.branch)];
    remarks.extend(left_behind(made));
    remarks
}

/// Says that uncommitted changes of the present working tree are not in a worktree that was made.
#[must_use]
pub fn left_behind(made: &Made) -> Option<String> {
    Some(match made.left_behind {
        0 => return None,
        1 => "1 changed file stays behind; --with-changes takes it along".to_owned(),
        count => format!("{count} changed files stay behind; --with-changes takes them along"),
    })
}

/// Says why git gave no answer.
#[must_use]
pub fn git_failure(host: &Host, error: &GitError) -> Failure {
    let failure = |kind| Failure::new(kind, error.to_string());
    match error {
        GitError::NotInstalled | GitError::TooOld { .. } | GitError::NoVersion { .. } => {
            failure(Kind::Failed).hint("`agentctl doctor` shows which git is used")
        }
        GitError::NotARepository { path } => {
            let path = with_tilde(&host.home, &path.to_string_lossy());
            Failure::new(Kind::Refused, format!("{path} is not in a git repository"))
                .hint("go to a git repository, or name one with --cwd")
        }
        GitError::OtherOwner { path } => failure(Kind::Refused).hint(format!(
            "if you trust it: `git config --global --add safe.directory {}`",
            path.display()
        )),
        _ => failure(Kind::Failed),
    }
}

/// Says why worktrees were not made.
#[must_use]
pub fn not_made(host: &Host, error: &MakeError) -> Failure {
    let failure = |kind| Failure::new(kind, error.to_string());
    match error {
        MakeError::Git(error) => git_failure(host, error),
        MakeError::Left { cause, left } => {
            let cause = match **cause {
                MakeError::Cancelled => cause.to_string(),
                _ => not_made(host, cause).message().to_owned(),
            };
            let message = format!("{cause}; this is left: {}", left.join(", "));
            Failure::new(Kind::Failed, message).hint("`agentctl worktree list` shows it")
        }
        MakeError::Cancelled => {
            let message = format!("{error}: no agent was started, and nothing was left behind");
            Failure::new(Kind::Failed, message)
        }
        MakeError::Unborn { .. } => failure(Kind::Refused).hint("make a first commit"),
        MakeError::NoSuchBase { .. } => failure(Kind::Usage)
            .hint("name a branch, a tag or a commit; --fetch asks the remotes first"),
        MakeError::ChangesOfOtherBase { .. } | MakeError::NoChanges { .. } => {
            failure(Kind::Refused).hint("leave --with-changes out")
        }
        MakeError::BadName { .. } => failure(Kind::Usage)
            .hint("letters, digits, `-`, `_` and `/` are always accepted, as in `fix-login`"),
        MakeError::Taken { holder, .. } => failure(Kind::Refused).hint(match holder {
            NameHolder::Worktree(path) => {
                let path = with_tilde(&host.home, &path.to_string_lossy());
                format!("choose another name, or remove it: `agentctl worktree clean {path}`")
            }
            NameHolder::Branch(branch) => {
                format!("choose another name, or delete it: `git branch -d {branch}`")
            }
            NameHolder::Collision(branch) => {
                format!(
                    "rename it (`git branch -m {branch} NEW`), or set `prefix` below [worktree]"
                )
            }
            NameHolder::Other(_) => "choose another name with --worktree=NAME".to_owned(),
        }),
        MakeError::DirectoryExists { .. } => {
            failure(Kind::Refused).hint("choose another name, or another --worktree-dir")
        }
        MakeError::BadDirectory { .. } => {
            failure(Kind::Refused).hint("name another directory with --worktree-dir")
        }
        MakeError::SparseConsent { .. } => {
            failure(Kind::Refused).hint("--force allows that; without --sparse it is not needed")
        }
        MakeError::NoSuchDirectory { .. } => failure(Kind::Usage)
            .hint("name directories below the top of the repository, as in `--sparse src,docs`"),
        MakeError::ReadOnly { .. } => failure(Kind::Failed)
            .hint("a launch without --worktree needs no right to write into it"),
        MakeError::NoSpace { .. } => failure(Kind::Refused)
            .hint("--worktree-dir can name another disk; --sparse checks out less"),
        MakeError::DiskFull => failure(Kind::Failed).hint("--worktree-dir can name another disk"),
        MakeError::Submodule { .. } => {
            failure(Kind::Failed).hint("without --strict it is a warning")
        }
        MakeError::SetUp { .. } => failure(Kind::Failed)
            .hint("the program is `setup` below [worktree] in the configuration"),
        MakeError::UnreadableChanges { .. } | MakeError::Io { .. } => failure(Kind::Failed),
    }
}

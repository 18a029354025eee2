//! Worktrees in words: the steps of making them, and why they were not made, with hints and exit codes.

use std::path::Path;

use agentctl_core::ask::Fleet;
use agentctl_core::git::GitError;
use agentctl_core::host::Host;
use agentctl_core::text::shell_word;
use agentctl_core::worktrees::make::NameHolder;
use agentctl_core::worktrees::{Made, MakeError, MakeNews, MakeStep, left_aside};

use super::file_changes::is_group;
use crate::failure::{Failure, Kind};
use crate::text::{path_word, with_tilde};

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
    std::iter::once(worktree_line(host, made)).chain(left_behind(made)).collect()
}

/// Names the directory and the branch of a worktree that was made.
#[must_use]
pub fn worktree_line(host: &Host, made: &Made) -> String {
    let path = with_tilde(&host.home, &made.path.to_string_lossy());
    format!("worktree {path} on branch {}", made.branch)
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

/// Returns the hint about the worktrees that there are. Outside a repository only those of sessions can be listed.
#[must_use]
pub fn worktrees_hint(host: &Host) -> &'static str {
    // A worktree has a file of this name. An empty directory of this name is no repository: sandboxes leave such ones.
    let is_repository = |directory: &Path| {
        let git = directory.join(".git");
        git.is_file() || git.join("HEAD").symlink_metadata().is_ok()
    };
    if host.cwd.ancestors().any(is_repository) {
        return "`agentctl worktree list` lists the worktrees of this repository";
    }
    "`agentctl worktree list --all-repos-of-sessions` lists the worktrees of sessions"
}

/// Says why git gave no answer to a command that takes --cwd.
#[must_use]
pub fn git_failure(host: &Host, error: &GitError) -> Failure {
    git_failure_about(host, error, "go to a git repository, or name one with --cwd")
}

/// Says why git gave no answer about the work of the session or group that a text names.
pub(super) fn no_git_work(fleet: &Fleet, text: &str, error: &GitError) -> Failure {
    let id = if is_group(fleet, text) { "ID".to_owned() } else { shell_word(text) };
    let hint = format!("`agentctl changes {id}` shows what the agent itself recorded");
    git_failure_about(&fleet.host, error, &hint)
}

fn git_failure_about(host: &Host, error: &GitError, outside: &str) -> Failure {
    let failure = |kind| Failure::new(kind, error.to_string());
    match error {
        GitError::NotInstalled | GitError::TooOld { .. } | GitError::NoVersion { .. } => {
            failure(Kind::Failed).hint("`agentctl doctor` shows which git is used")
        }
        GitError::NotARepository { path } => {
            let path = with_tilde(&host.home, &path.to_string_lossy());
            Failure::new(Kind::Refused, format!("{path} is not in a git repository")).hint(outside)
        }
        GitError::OtherOwner { path } => failure(Kind::Refused).hint(format!(
            "if you trust it: `git config --global --add safe.directory {}`",
            shell_word(&path.to_string_lossy())
        )),
        GitError::NoDirectory { path } => {
            let failure = failure(Kind::Failed);
            match put_back(path) {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        _ => failure(Kind::Failed),
    }
}

/// Returns the hint for a worktree that a clean has put aside: how it is brought back.
#[must_use]
pub fn put_back(path: &Path) -> Option<String> {
    let aside = left_aside(path)?;
    let (aside, path) = (aside.to_string_lossy(), path.to_string_lossy());
    let command = format!("mv {} {}", shell_word(&aside), shell_word(&path));
    Some(format!(
        "a clean removes it now, or was killed: in the second case `{command}` brings it back"
    ))
}

/// Returns the hint about a worktree that a failed launch left: the command that removes it.
#[must_use]
pub fn kept_worktree_hint(name: &str) -> String {
    let name = shell_word(name);
    format!("`agentctl worktree clean {name} --force` saves and removes it")
}

/// Says why worktrees were not made.
#[must_use]
pub fn not_made(host: &Host, error: &MakeError) -> Failure {
    let failure = |kind| Failure::new(kind, error.to_string());
    match error {
        MakeError::Git(error) => git_failure(host, error),
        MakeError::Left { cause, remains } => {
            let cause = match **cause {
                MakeError::Cancelled => cause.to_string(),
                _ => not_made(host, cause).message().to_owned(),
            };
            let mut failure = Failure::new(Kind::Failed, format!("{cause}; {remains}"));
            for saved in &remains.saved {
                failure = failure.hint(format!("`{}` brings the files back", saved.command));
            }
            for kept in &remains.kept {
                failure = failure.hint(kept_worktree_hint(&kept.name));
            }
            if remains.left.is_empty() {
                return failure;
            }
            failure.hint("`agentctl worktree list` shows it")
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
                let path = path_word(&host.home, &path.to_string_lossy());
                format!("choose another name, or remove it: `agentctl worktree clean {path}`")
            }
            NameHolder::Branch(branch) => {
                let branch = shell_word(branch);
                format!("choose another name, or delete it: `git branch -d {branch}`")
            }
            NameHolder::Collision(branch) => {
                let branch = shell_word(branch);
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
        MakeError::Hook { .. } => failure(Kind::Failed)
            .hint("the hooks are in the directory that `git rev-parse --git-path hooks` names"),
        MakeError::UnreadableChanges { .. } | MakeError::Io { .. } => failure(Kind::Failed),
    }
}

//! Why git gave no answer: each error is one line that names the object and the cause.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{GitOutput, OLDEST_VERSION};

/// Longest excerpt of git's own message.
const MAX_WORDS_CHARS: usize = 300;

/// Why a call of git gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no `git` on the PATH.
    #[error("`git` is not on the PATH")]
    NotInstalled,
    /// The installed version lacks commands that are needed.
    #[error("git {found} is too old: {OLDEST_VERSION} or later is needed")]
    TooOld {
        /// The installed version.
        found: String,
    },
    /// The program called `git` does not print a version of git.
    #[error("`git --version` printed `{said}`, which is not a version of git")]
    NoVersion {
        /// Its output.
        said: String,
    },
    /// The program could not be started.
    #[error("git could not be started: {source}")]
    NotStarted {
        /// The error of the system.
        source: io::Error,
    },
    /// The directory does not exist.
    #[error("{} is not a directory", .path.display())]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The directory belongs to no repository.
    #[error("{} is not in a git repository", .path.display())]
    NotARepository {
        /// The directory.
        path: PathBuf,
    },
    /// The repository belongs to another user, and git refuses to use it.
    #[error(
        "the repository {} belongs to another user, so git refuses to use it until its directory is in safe.directory",
        .path.display()
    )]
    OtherOwner {
        /// The directory.
        path: PathBuf,
    },
    /// A FIFO, socket or device is in place of a file that git would read, and for which it would wait.
    #[error("{} is not a regular file, so git cannot read it", .file.display())]
    NotRegular {
        /// The file, below the top of the working tree or the git directory.
        file: PathBuf,
    },
    /// A call was killed at its deadline.
    #[error("`git {command}` was killed after {} s", .limit.as_secs())]
    TimedOut {
        /// The command.
        command: String,
        /// The timeout.
        limit: Duration,
    },
    /// The output of a call is over the limit.
    #[error("`git {command}` printed more than 256 MB")]
    TooMuchOutput {
        /// The command.
        command: String,
    },
    /// A process that a call left behind holds its output open.
    #[error("the output of `git {command}` did not end: a process that it started holds it open")]
    Unread {
        /// The command.
        command: String,
    },
    /// A file in which git keeps its state could not be read.
    #[error("{} cannot be read: {source}", .path.display())]
    UnreadState {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file of ours could not be written or read.
    #[error("{what}: {source}")]
    Io {
        /// The step.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The command failed.
    #[error("`git {command}` failed: {words}")]
    Failed {
        /// The command.
        command: String,
        /// The exit code.
        code: i32,
        /// The line of its standard error that names the cause.
        words: String,
        /// The beginning and the end of its standard error.
        stderr: String,
    },
}

impl GitError {
    /// Describes a call that ended with another exit code than 0.
    pub(super) fn of(command: String, path: PathBuf, output: &GitOutput) -> Self {
        let said = &output.stderr;
        if said.contains("dubious ownership") {
            return Self::OtherOwner { path: refused_repository(said).unwrap_or(path) };
        }
        // Other sentences of git end with the same words, for example about a submodule.
        if said.lines().any(|line| line.starts_with("fatal: not a git repository (or any")) {
            return Self::NotARepository { path };
        }
        let words = cause(said).unwrap_or_else(|| format!("exit code {}", output.code));
        Self::Failed { command, code: output.code, words, stderr: said.clone() }
    }

    /// Returns git's own words, where it said any.
    #[must_use]
    pub fn stderr(&self) -> &str {
        match self {
            Self::Failed { stderr, .. } => stderr,
            _ => "",
        }
    }
}

/// Returns the repository that git refuses because of its owner: the path that `safe.directory` has to name, which
/// can be above the directory of the call.
fn refused_repository(said: &str) -> Option<PathBuf> {
    let (_, rest) = said.split_once("dubious ownership in repository at '")?;
    let (path, _) = rest.split_once("'\n")?;
    Some(PathBuf::from(path))
}

/// Returns the line of a message that names the cause: the first `fatal:` or `error:` line, else the last line.
fn cause(said: &str) -> Option<String> {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let marked = ["fatal: ", "error: "]
        .iter()
        .find_map(|mark| lines().find_map(|line| line.strip_prefix(mark)));
    let line = marked.or_else(|| lines().next_back())?;
    let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_WORDS_CHARS).collect();
    Some(line)
}

/// Makes an error of the system one of a step.
pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> GitError {
    move |source| GitError::Io { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_of_another_user_is_the_one_that_git_names() {
        let said = "fatal: detected dubious ownership in repository at '/srv/it's'\nTo add an exception \
                    for this directory, call:\n\n\tgit config --global --add safe.directory '/srv/it's'\n";
        assert_eq!(refused_repository(said), Some(PathBuf::from("/srv/it's")));
        assert_eq!(refused_repository("fatal: something else"), None);
    }
}

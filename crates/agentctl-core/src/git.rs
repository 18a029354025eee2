//! Runs `git`: arguments only, no shell, a cleaned environment, no terminal, no pager, a deadline for each call.
//!
//! A question ([`Git::read`]) runs no program that the repository's own configuration names for display, speed or
//! merges (hooks, fsmonitor, external diff, textconv, pager, merge drivers), takes no optional lock, writes nothing
//! into the repository and ends with this process. Filters run as in `git status`. Replaced and grafted commits are
//! read as they were made. A change ([`Git::change`]) runs as the user's own `git` does,
//! hooks included.

mod compare;
mod distrust;
mod embedded;
mod error;
mod exact;
mod merge;
mod private_directory;
mod refs;
mod repository;
mod restore;
mod snapshot;
mod worktree_entries;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

pub use self::compare::{Comparison, DiffFile, DiffKind, has_files_in_place};
pub use self::distrust::check_git_dir;
pub use self::embedded::NamedSubmodule;
pub use self::error::GitError;
pub use self::exact::{ChangedFile, Contents, WorkTree, git_dir_of};
pub use self::merge::{MergePlace, MergeResult, TreeChange, check_all_below};
pub use self::refs::{RefEdit, RefTransactionError};
pub use self::repository::{Head, Repository, path_of};
pub use self::restore::{TreeStep, is_cut_off};
pub use self::snapshot::{PrivateStore, SnapshotStore, TreeSnapshot};
pub use self::worktree_entries::{WorktreeEntry, WorktreeHead, worktree_entries};
use crate::host::Host;
use crate::kernel::{Cancellation, Captured, ParentDeath, REPOSITORY_VARIABLES};

/// The oldest version with `git merge-tree --write-tree`.
pub const OLDEST_VERSION: GitVersion = GitVersion { major: 2, minor: 38 };
/// Timeout of a question.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout of a change: a checkout of a large tree takes minutes.
const CHANGE_TIMEOUT: Duration = Duration::from_mins(10);
/// How long a call is repeated that met the incomplete entry of a worktree. A git that was killed may have left one.
const INCOMPLETE_ENTRY_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause before such a call is repeated.
const INCOMPLETE_ENTRY_PAUSE: Duration = Duration::from_millis(10);
/// Limit of the output of one call.
const MAX_OUTPUT_BYTES: usize = 256 << 20;
/// Variables of git that say where the user's own configuration and programs are. All other `GIT_*` variables are
/// removed: beside [`REPOSITORY_VARIABLES`] also those that change what git prints or does.
const KEPT_VARIABLES: [&str; 6] = [
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
];
/// Settings of every question. They keep programs of the repository's own configuration from being run, and
/// files that git does not check from being believed.
const READ_SETTINGS: [&str; 8] = [
    // Git believes the parents that this file states, and a file of the repository can state any.
    "core.commitGraph=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.pager=cat",
    "log.showSignature=false",
    "gc.auto=0",
];

/// A version of git.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl std::fmt::Display for GitVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The `git` program of this user, with its version.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    env: BTreeMap<OsString, OsString>,
    /// The directory for private temporary files.
    temporary: PathBuf,
    /// Removes the private temporary files of processes that were killed.
    swept: Arc<Once>,
    version: GitVersion,
    version_text: String,
    /// Ends its calls if their order is called off.
    cancellation: Cancellation,
}

impl Git {
    /// Finds git on the PATH and asks its version. Fails if it is missing or too old.
    pub fn find(host: &Host) -> Result<Self, GitError> {
        let git = Self::find_any(host)?;
        if git.version < OLDEST_VERSION {
            return Err(GitError::TooOld { found: git.version_text });
        }
        Ok(git)
    }

    /// Finds git on the PATH and asks its version, also of one that is too old to be used.
    pub fn find_any(host: &Host) -> Result<Self, GitError> {
        let program = host.which("git").ok_or(GitError::NotInstalled)?;
        let mut git = Self {
            program,
            env: environment(host),
            temporary: temporary(host),
            swept: Arc::new(Once::new()),
            version: OLDEST_VERSION,
            version_text: String::new(),
            cancellation: Cancellation::default(),
        };
        let said = git.read(Path::new("/")).args(["--version"]).text()?;
        let text = said.strip_prefix("git version ").unwrap_or(&said);
        let text = text.split_whitespace().next().unwrap_or_default();
        let mut numbers = text.split('.').map(str::parse);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Err(GitError::NoVersion { said });
        };
        git.version = GitVersion { major, minor };
        text.clone_into(&mut git.version_text);
        Ok(git)
    }

    /// Returns a git whose calls end if an order is called off.
    #[must_use]
    pub fn cancelled_by(&self, cancellation: &Cancellation) -> Self {
        Self { cancellation: cancellation.clone(), ..self.clone() }
    }

    /// Returns the version.
    #[must_use]
    pub fn version(&self) -> GitVersion {
        self.version
    }

    /// Returns the version as git writes it, for example `2.47.3`.
    #[must_use]
    pub fn version_text(&self) -> &str {
        &self.version_text
    }

    /// Returns the program file.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Prepares a question in this directory.
    #[must_use]
    pub fn read(&self, directory: &Path) -> GitCall<'_> {
        let mut call = self.call(directory, READ_TIMEOUT);
        call.args = vec!["--no-pager".into(), "--no-optional-locks".into()];
        for setting in READ_SETTINGS {
            call.args.extend(["-c".into(), setting.into()]);
        }
        // A partial clone must not ask its server for missing objects.
        call.env("GIT_NO_LAZY_FETCH", "1")
    }

    /// Prepares a change in this directory.
    #[must_use]
    pub fn change(&self, directory: &Path) -> GitCall<'_> {
        let mut call = self.call(directory, CHANGE_TIMEOUT);
        call.args = vec!["--no-pager".into()];
        call.is_change = true;
        call
    }

    fn call(&self, directory: &Path, limit: Duration) -> GitCall<'_> {
        GitCall {
            git: self,
            directory: directory.to_owned(),
            args: Vec::new(),
            named: 0,
            env: self.env.clone(),
            stdin: Vec::new(),
            limit,
            is_change: false,
        }
    }
}

/// Returns the environment of every call.
fn environment(host: &Host) -> BTreeMap<OsString, OsString> {
    let kept = |name: &str| {
        let is_of_git = name.starts_with("GIT_") || REPOSITORY_VARIABLES.contains(&name);
        !is_of_git || KEPT_VARIABLES.contains(&name)
    };
    let given = host.env.iter().filter(|(name, _)| kept(name));
    let mut env: BTreeMap<OsString, OsString> =
        given.map(|(name, value)| (name.into(), value.into())).collect();
    env.insert("HOME".into(), host.home.clone().into());
    for (name, value) in [
        ("LC_ALL", "C"),
        ("LANGUAGE", ""),
        ("GIT_TERMINAL_PROMPT", "0"),
        // Set and empty: git asks neither its configuration nor `SSH_ASKPASS` for a program that prompts.
        ("GIT_ASKPASS", ""),
        ("SSH_ASKPASS_REQUIRE", "never"),
        ("GIT_PAGER", "cat"),
        ("GIT_EDITOR", "false"),
        ("GIT_MERGE_AUTOEDIT", "no"),
        // Both can make any commit the parent of another one, and so a proof that it is merged.
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_GRAFT_FILE", "/dev/null/none"),
    ] {
        env.insert(name.into(), value.into());
    }
    env
}

fn temporary(host: &Host) -> PathBuf {
    let given = host.var("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
    given.unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// One call of git.
#[derive(Debug)]
pub struct GitCall<'a> {
    git: &'a Git,
    directory: PathBuf,
    args: Vec<OsString>,
    /// How many of the arguments stand before those of the caller.
    named: usize,
    env: BTreeMap<OsString, OsString>,
    stdin: Vec<u8>,
    limit: Duration,
    is_change: bool,
}

/// The output of a call that ended by itself.
#[derive(Debug)]
pub struct GitOutput {
    /// The exit code; 128 and the signal if a signal ended it.
    pub code: i32,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The beginning and the end of the standard error.
    pub stderr: String,
}

impl GitOutput {
    /// Says whether git failed because another git is adding a worktree.
    fn met_incomplete_entry(&self) -> bool {
        let told = |line: &str| line.contains("failed to read") && line.contains("/commondir");
        self.code != 0 && self.stderr.lines().any(told)
    }

    /// Returns the standard output as text, without the line end.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches('\n').to_owned()
    }
}

impl GitCall<'_> {
    /// Sets a setting for this call. It must stand before [`GitCall::args`].
    #[must_use]
    pub fn setting(mut self, setting: impl Into<OsString>) -> Self {
        debug_assert!(self.named == 0, "settings stand before the command");
        self.args.extend(["-c".into(), setting.into()]);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        if self.named == 0 {
            self.named = self.args.len();
        }
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(self, arg: impl Into<OsString>) -> Self {
        self.args([arg.into()])
    }

    /// Sets the directory in which it runs.
    #[must_use]
    fn in_directory(mut self, directory: &Path) -> Self {
        directory.clone_into(&mut self.directory);
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets the timeout.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it to its end, whatever its exit code is.
    ///
    /// While another git adds a worktree, the entry of that worktree is incomplete for a moment, and every git that
    /// reads the list of worktrees fails. Such a call has changed nothing and is run again.
    pub fn run(self) -> Result<GitOutput, GitError> {
        let until = Instant::now() + INCOMPLETE_ENTRY_TIMEOUT;
        loop {
            let output = self.once()?;
            if !output.met_incomplete_entry() || Instant::now() >= until {
                return Ok(output);
            }
            std::thread::park_timeout(INCOMPLETE_ENTRY_PAUSE);
        }
    }

    fn once(&self) -> Result<GitOutput, GitError> {
        let (command, limit) = (self.command_name(), self.limit);
        let captured = Captured {
            program: self.git.program.clone(),
            args: self.args.clone(),
            env: self.env.clone(),
            cwd: self.directory.clone(),
            stdin: self.stdin.clone(),
            limit,
            cancellation: self.git.cancellation.clone(),
            most_bytes: MAX_OUTPUT_BYTES,
            // A change that is cut off leaves its locks in the repository.
            parent_death: if self.is_change { ParentDeath::Outlive } else { ParentDeath::Kill },
        };
        let end = captured.run().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound if !self.directory.is_dir() => {
                GitError::NoDirectory { path: self.directory.clone() }
            }
            _ => GitError::NotStarted { source },
        })?;
        let exit =
            end.exit.ok_or_else(|| GitError::TimedOut { command: command.clone(), limit })?;
        if end.cut {
            return Err(GitError::TooMuchOutput { command });
        }
        // A hook of a change may leave a process that holds the output open; a question must not be answered by half.
        let stdout = match end.stdout {
            Some(stdout) => stdout,
            None if self.is_change => Vec::new(),
            None => return Err(GitError::Unread { command }),
        };
        let code = exit.code.unwrap_or_else(|| 128 + exit.signal.unwrap_or_default());
        let stderr = String::from_utf8_lossy(&end.stderr).into_owned();
        Ok(GitOutput { code, stdout, stderr })
    }

    /// Runs it; any exit code but 0 is an error.
    pub fn ok(self) -> Result<GitOutput, GitError> {
        let (command, directory) = (self.command_name(), self.directory.clone());
        let output = self.run()?;
        if output.code == 0 { Ok(output) } else { Err(GitError::of(command, directory, &output)) }
    }

    /// Runs it and returns its standard output as text; any exit code but 0 is an error.
    pub fn text(self) -> Result<String, GitError> {
        self.ok().map(|output| output.text())
    }

    /// Runs it and says whether its exit code was 0; 1 means no, and any other code is an error.
    pub fn says_yes(self) -> Result<bool, GitError> {
        let (command, directory) = (self.command_name(), self.directory.clone());
        let output = self.run()?;
        match output.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(GitError::of(command, directory, &output)),
        }
    }

    /// Returns the command for messages: its first two words, without settings.
    fn command_name(&self) -> String {
        let words = self.args[self.named.min(self.args.len())..].iter();
        let plain = words.map(|word| word.to_string_lossy().into_owned());
        let named: Vec<String> = plain.take_while(|word| !word.starts_with('-')).take(2).collect();
        match named.first().map(String::as_str) {
            Some("worktree" | "submodule" | "stash") => named.join(" "),
            Some(first) => first.to_owned(),
            None => "--version".to_owned(),
        }
    }
}

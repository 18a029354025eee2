//! The only room that talks to the kernel, and the only one that may contain `unsafe`.
//!
//! It identifies processes (never by a bare pid: see [`ProcId`]), reports whether they live, when they
//! exit and which file locks they hold, and it spawns and signals. It does not know that agents exist.
//! Each platform file offers the same functions; `Kernel` is the only entry.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as platform;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("agentctl runs on Linux and macOS for now");

mod cancellation;
mod captured;
pub mod deadline;
pub mod home_limit;
mod limits;
mod line;
mod own_stdin;
mod parent_death;
mod spawn;
mod terminal;
mod user;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use self::cancellation::{Cancellation, OpenOrder};
pub use self::captured::{Captured, CapturedEnd};
pub use self::limits::{Limits, limits};
pub use self::own_stdin::{OwnStdin, own_stdin, stdin_is_ready};
pub use self::parent_death::ParentDeath;
pub use self::user::{user_exists, user_name};
pub use platform::{
    ClientEnd, ExitWatch, Held, Kernel, MountViews, NewestPid, endless_pipe, give_back_memory,
    hold_text, keep_memory_together, release_later, return_free_ends,
};
pub use spawn::{
    Attended, EnvChanges, REPOSITORY_VARIABLES, Spawn, Stdio, adopt_orphans, become_command,
    become_program, inherited, is_ignored, reap, start_reader,
};

use crate::model::{ProcId, Time};

/// How this machine tells a process from a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The pidfs inode: unique for the life of the system (Linux 6.9 and later).
    Pidfs,
    /// Pid and start time; ambiguous only if a pid is reused within one clock tick.
    StartTime,
}

impl Mechanism {
    /// Returns the word that `doctor` shows.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pidfs => "pidfs inode",
            Self::StartTime => "start time",
        }
    }
}

/// Whether an identified process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It lives; `paused` when a signal stopped it.
    Alive {
        /// SIGSTOP or a debugger has stopped it.
        paused: bool,
    },
    /// It has exited, reaped or not, or another process has its pid now.
    Gone,
    /// The kernel refused the answer.
    Unknown(String),
}

/// A live process, as far as its owner may see it.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its identity, which is never reused.
    pub id: ProcId,
    /// Its parent's pid at the moment of the look.
    pub parent_pid: u32,
    /// The pid of its session's leader.
    pub session: u32,
    /// The kernel's short name for it.
    pub comm: String,
    /// A signal has stopped it.
    pub paused: bool,
    /// Its arguments.
    pub argv: Vec<String>,
    /// The program file, where readable.
    pub exe: Option<PathBuf>,
    /// Its working directory, where readable.
    pub cwd: Option<PathBuf>,
    /// When it started.
    pub started_at: Option<Time>,
    /// It lives in another pid namespace than the observer.
    pub elsewhere: bool,
    /// The user it acts as; `None` where the kernel does not say.
    pub uid: Option<u32>,
}

/// The cheap facts about a process that decide whether its details are read.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    /// The kernel's short name for it.
    pub comm: &'a str,
    /// The program file's base name, where readable.
    pub exe_name: &'a str,
}

/// The processes of this user that were asked for.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Candidates, in pid order.
    pub processes: Vec<Process>,
    /// The number of processes of this user.
    pub seen: usize,
    /// The reasons why the table is incomplete, if it is. Only a complete table proves absence.
    pub gaps: Vec<String>,
    /// Some of the gaps are processes that could not be read in time: they may be candidates.
    pub late: bool,
    /// The environment variables that were read of them since.
    pub environs: Environs,
    /// The homes that they name, links resolved.
    pub homes: Homes,
    /// All processes of this user, if they have been read.
    pub everyone: OnceLock<Arc<Table>>,
}

/// Environment variables of processes, each read once.
#[derive(Debug, Default)]
pub struct Environs(Mutex<HashMap<(ProcId, String), Values>>);

type Values = Vec<Option<String>>;

/// A copy of a table starts without cached values.
impl Clone for Environs {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Longest value that is cached: no path is longer.
const VALUE_BYTES: usize = 16 << 10;

impl Environs {
    /// Returns these variables of a process, as they were first read in this table.
    pub fn get(
        &self,
        id: &ProcId,
        names: &[&str],
        read: impl FnOnce() -> io::Result<Vec<Option<String>>>,
    ) -> io::Result<Vec<Option<String>>> {
        let key = (id.clone(), names.join("\0"));
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(values) = kept().get(&key) {
            return Ok(values.clone());
        }
        let mut values = read()?;
        for value in values.iter_mut().flatten() {
            value.truncate(value.floor_char_boundary(VALUE_BYTES));
        }
        kept().insert(key, values.clone());
        Ok(values)
    }
}

/// The real paths of homes that processes name; `None` for a path that cannot be resolved.
#[derive(Debug, Default)]
pub struct Homes(Mutex<HashMap<PathBuf, Option<PathBuf>>>);

/// A copy of a table starts without cached paths.
impl Clone for Homes {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Homes {
    /// Returns the cached result for a path.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    /// Caches the real path of a path.
    pub fn keep(&self, path: &Path, real: Option<PathBuf>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), real);
    }
}

impl Table {
    /// Says whether a process is a forked child that has not called `exec` yet: until then it looks
    /// exactly like its parent.
    #[must_use]
    pub fn is_mere_fork(&self, process: &Process) -> bool {
        let parent = self.process(process.parent_pid);
        parent.is_some_and(|parent| parent.argv == process.argv && parent.exe == process.exe)
    }

    /// Returns the candidate of this pid.
    #[must_use]
    pub fn process(&self, pid: u32) -> Option<&Process> {
        let at = self.processes.binary_search_by_key(&pid, |process| process.id.pid);
        at.ok().map(|at| &self.processes[at])
    }
}

/// The environment of a process, read at a moment when it may not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environ {
    /// The process is in `execve`: its environment cannot be read yet.
    Forming,
    /// It has none.
    Empty,
    /// The values asked for.
    Values(Vec<Option<String>>),
}

/// A file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Its current path, as the kernel names it; its last path if it was deleted.
    pub path: PathBuf,
    /// The number of its file system.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// It has no name any more.
    pub deleted: bool,
    /// Its size.
    pub size: u64,
    /// It is open for writing.
    pub writable: bool,
    /// The file position of the process; `None` where the kernel does not show it.
    pub position: Option<u64>,
}

impl OpenFile {
    /// Says why the file at this path is not, or not completely, the file that the process has written.
    #[must_use]
    pub fn damage(&self) -> Option<&'static str> {
        if self.deleted {
            Some("was deleted")
        } else if self.position.is_some_and(|position| position > self.size) {
            Some("was cut")
        } else {
            None
        }
    }
}

/// A file lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileLock {
    /// The holder's pid, where the kernel names one.
    pub pid: Option<u32>,
    /// The locked file's inode number.
    pub inode: u64,
    /// `FLOCK`, `POSIX` or `OFDLCK`.
    pub kind: String,
    /// No other process may hold it at the same time.
    pub exclusive: bool,
}

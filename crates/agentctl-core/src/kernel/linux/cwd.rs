//! Processes with a given working directory, and the environment and files that a process was started
//! with.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::table::unlisted;
use super::{
    Address, Kernel, Table, address, is_stat_of_execve, open_process_directory, read_at,
    read_link_at, same_process,
};
use crate::kernel::Environ;
use crate::model::ProcId;

impl Kernel {
    /// Returns the details of this user's processes with this working directory, links resolved. It
    /// returns by the deadline; processes that could not be read by then are gaps.
    #[must_use]
    pub fn standing_in(&self, directory: &Path, until: Instant) -> Table {
        match self.own_pids() {
            Ok(mut pids) => {
                let seen = pids.len();
                pids.retain(|pid| stands_in(*pid, directory));
                Table { seen, ..self.read_within(until, pids, Self::process) }
            }
            Err(error) => unlisted(&error),
        }
    }

    /// Returns the values of these variables in the environment a process was started with.
    pub fn environ(&self, id: &ProcId, names: &[&str]) -> io::Result<Vec<Option<String>>> {
        let directory = open_process_directory(id.pid)?;
        let mut bytes = read_at(directory.as_fd(), "environ")?;
        // `execve` fills the environment in right after the arguments. A process that has its arguments
        // and no environment yet has it in a moment, and cannot delay that.
        for _ in 0..5 {
            if !bytes.is_empty() {
                break;
            }
            // Asked before the environment is read again: `execve` may end in between.
            let is_filling_in = is_filling_in(&read_at(directory.as_fd(), "stat")?);
            bytes = read_at(directory.as_fd(), "environ")?;
            if !is_filling_in {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        // The process still exists after the read, so it existed when the directory was opened.
        if !self.process(id.pid)?.is_some_and(|now| same_process(&now.id, id)) {
            return Err(io::Error::other("the process has gone"));
        }
        Ok(names.iter().map(|name| environ_value(&bytes, name)).collect())
    }

    /// Opens the program file of a process, also if the file was deleted.
    pub fn program_file(&self, id: &ProcId) -> io::Result<std::fs::File> {
        let directory = open_process_directory(id.pid)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&directory, "exe", flags, Mode::empty())?;
        if !self.process(id.pid)?.is_some_and(|now| same_process(&now.id, id)) {
            return Err(io::Error::other("the process has gone"));
        }
        Ok(opened.into())
    }

    /// Opens the regular file of this user that is the standard output of a process, also if the file
    /// was deleted; `None` if the output is a terminal, a pipe or anything else.
    pub fn stdout_file(&self, id: &ProcId) -> io::Result<Option<std::fs::File>> {
        let directory = open_process_directory(id.pid)?;
        let is_own = |stat: &rustix::fs::Stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_uid == self.uid()
        };
        // Opening a pipe would make us its reader, so its type is checked first.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = match statat(&directory, "fd/1", AtFlags::empty()) {
            Ok(stat) if is_own(&stat) => openat(&directory, "fd/1", flags, Mode::empty())?,
            Ok(_) | Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !self.process(id.pid)?.is_some_and(|now| same_process(&now.id, id)) {
            return Err(io::Error::other("the process has gone"));
        }
        Ok(is_own(&fstat(&opened)?).then(|| opened.into()))
    }

    /// Returns the path of [`Kernel::stdout_file`]; `None` also if the file was deleted or is elsewhere by that name.
    pub fn stdout_path(&self, id: &ProcId) -> io::Result<Option<PathBuf>> {
        let Some(file) = self.stdout_file(id)? else { return Ok(None) };
        let path = read_link_at(&open_process_directory(id.pid)?, "fd/1")?;
        let ours = file.metadata()?;
        let is_named = std::fs::symlink_metadata(&path)
            .is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino()));
        Ok(is_named.then_some(path))
    }

    /// Reads these variables like [`Kernel::environ`], and tells an empty environment from one that
    /// does not exist yet.
    ///
    /// `execve` fills in the arguments and the environment last: for a moment, which on a busy machine may be
    /// long, they read as empty.
    pub fn environ_now(&self, id: &ProcId, names: &[&str]) -> io::Result<Environ> {
        let directory = open_process_directory(id.pid)?;
        let mut bytes = read_at(directory.as_fd(), "environ")?;
        let mut state = EnvironState::Filled;
        if bytes.is_empty() {
            state = environ_state(&read_at(directory.as_fd(), "stat")?);
        }
        // `execve` may have filled the environment in between the two reads. A text that is still empty was
        // unmapped by the process itself: its values can never be read.
        if bytes.is_empty() && state == EnvironState::Filled {
            bytes = read_at(directory.as_fd(), "environ")?;
        }
        if !self.process(id.pid)?.is_some_and(|now| same_process(&now.id, id)) {
            return Err(io::Error::other("the process has gone"));
        }
        Ok(match state {
            EnvironState::Forming => Environ::Forming,
            EnvironState::Empty => Environ::Empty,
            EnvironState::Filled => {
                Environ::Values(names.iter().map(|n| environ_value(&bytes, n)).collect())
            }
        })
    }
}

/// Says whether a process has this working directory. The kernel marks a removed directory with a
/// suffix, which may also be part of a real name.
fn stands_in(pid: u32, directory: &Path) -> bool {
    let Ok(link) = rustix::fs::readlink(format!("/proc/{pid}/cwd"), Vec::new()) else {
        return false;
    };
    let (wanted, link) = (directory.as_os_str().as_bytes(), link.as_bytes());
    link == wanted || link.strip_suffix(b" (deleted)") == Some(wanted)
}

/// Says whether `execve` has reached the arguments and the environment: nothing is left to load.
fn is_filling_in(stat: &[u8]) -> bool {
    is_stat_of_execve(stat) && address(stat, Address::ArgumentsEnd) != Some(0)
}

/// The state of an environment that reads as empty, by its stat line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EnvironState {
    Forming,
    Empty,
    Filled,
}

fn environ_state(stat: &[u8]) -> EnvironState {
    match (address(stat, Address::Environment), address(stat, Address::EnvironmentEnd)) {
        (_, Some(0)) => EnvironState::Forming,
        _ if is_stat_of_execve(stat) => EnvironState::Forming,
        (from, to) if from == to => EnvironState::Empty,
        _ => EnvironState::Filled,
    }
}

fn environ_value(environ: &[u8], name: &str) -> Option<String> {
    environ.split(|b| *b == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

//! Processes with a given working directory, and the environment and files that a process was started
//! with.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::table::unlisted;
use super::{Kernel, Place, Table, open_process_directory, place_of, read_at, same_process};
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
            if !bytes.is_empty() || !is_between(&read_at(directory.as_fd(), "stat")?) {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
            bytes = read_at(directory.as_fd(), "environ")?;
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

    /// Reads these variables like [`Kernel::environ`], and tells an empty environment from one that
    /// does not exist yet.
    ///
    /// `execve` fills in the arguments and then the environment last: for a moment, which on a busy
    /// machine may be long, they read as empty. The end address of the environment is set when it is
    /// complete.
    pub fn environ_now(&self, id: &ProcId, names: &[&str]) -> io::Result<Environ> {
        let directory = open_process_directory(id.pid)?;
        let mut bytes = read_at(directory.as_fd(), "environ")?;
        // An empty text although the kernel knows the address was unmapped by the process itself: its
        // values can never be read.
        let place = if bytes.is_empty() {
            place_of(&read_at(directory.as_fd(), "stat")?, Place::Environment)
        } else {
            None
        };
        // `execve` may have filled the environment in between the two reads.
        if place.is_some_and(|(from, to)| to > from) {
            bytes = read_at(directory.as_fd(), "environ")?;
        }
        if !self.process(id.pid)?.is_some_and(|now| same_process(&now.id, id)) {
            return Err(io::Error::other("the process has gone"));
        }
        Ok(match place {
            Some((_, 0)) => Environ::Forming,
            Some((from, to)) if from == to => Environ::Empty,
            _ => Environ::Values(names.iter().map(|n| environ_value(&bytes, n)).collect()),
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

/// Says whether the arguments are filled in and the environment is not.
fn is_between(stat: &[u8]) -> bool {
    let end = |place| place_of(stat, place).map(|(_, to)| to);
    end(Place::Arguments) != Some(0) && end(Place::Environment) == Some(0)
}

fn environ_value(environ: &[u8], name: &str) -> Option<String> {
    environ.split(|b| *b == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

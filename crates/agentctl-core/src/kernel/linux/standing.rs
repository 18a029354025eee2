//! Who stands in a directory, and what such a process was told when it began.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::{Kernel, Table, open_process_directory, read_at, same_process};
use crate::kernel::Environ;
use crate::model::ProcId;

impl Kernel {
    /// Looks closely at the processes of this user whose working directory this is, links resolved.
    #[must_use]
    pub fn standing_in(&self, directory: &Path) -> Table {
        let mut table = Table::default();
        let pids = match self.own_pids() {
            Ok(pids) => pids,
            Err(error) => {
                table.gaps.push(format!("/proc could not be listed: {error}"));
                return table;
            }
        };
        table.seen = pids.len();
        for pid in pids.into_iter().filter(|pid| stands_in(*pid, directory)) {
            match self.process(pid) {
                Ok(Some(process)) => table.processes.push(process),
                Ok(None) => {}
                Err(error) => table.gaps.push(format!("process {pid} could not be read: {error}")),
            }
        }
        table
    }

    /// Returns the values of these variables in the environment a process was started with.
    pub fn environ(&self, id: &ProcId, names: &[&str]) -> io::Result<Vec<Option<String>>> {
        let directory = open_process_directory(id.pid)?;
        let mut bytes = read_at(directory.as_fd(), "environ")?;
        // Filled in right after the arguments: one look more, a moment later, tells an empty one.
        for _ in 0..5 {
            if !bytes.is_empty() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
            bytes = read_at(directory.as_fd(), "environ")?;
        }
        // Still there after the read, so it was there when the directory was opened.
        if !self.process(id.pid)?.is_some_and(|now| same_process(&now.id, id)) {
            return Err(io::Error::other("the process has gone"));
        }
        Ok(names.iter().map(|name| environ_value(&bytes, name)).collect())
    }

    /// Opens the regular file of this user that a process writes its output to; `None` when that is a
    /// terminal, a pipe or anything else. It works for a file that has lost its name, too.
    pub fn stdout_file(&self, id: &ProcId) -> io::Result<Option<std::fs::File>> {
        let directory = open_process_directory(id.pid)?;
        let is_own = |stat: &rustix::fs::Stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_uid == self.uid()
        };
        // Opening a pipe would make us its reader, so it is looked at first.
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

    /// Reads these variables as [`Kernel::environ`] does, and tells an empty environment from one that
    /// is not there yet.
    ///
    /// `execve` fills in the arguments and then the environment last: for a moment, which on a busy machine
    /// may be long, they read as nothing. Where the environment ends is written when it is there.
    pub fn environ_now(&self, id: &ProcId, names: &[&str]) -> io::Result<Environ> {
        let directory = open_process_directory(id.pid)?;
        let bytes = read_at(directory.as_fd(), "environ")?;
        let forming = bytes.is_empty() && !has_no_environ(&read_at(directory.as_fd(), "stat")?);
        if !self.process(id.pid)?.is_some_and(|now| same_process(&now.id, id)) {
            return Err(io::Error::other("the process has gone"));
        }
        Ok(match (bytes.is_empty(), forming) {
            (_, true) => Environ::Forming,
            (true, false) => Environ::Empty,
            _ => Environ::Values(names.iter().map(|n| environ_value(&bytes, n)).collect()),
        })
    }
}

/// The kernel marks the name of a directory that was removed; one may also be called like that.
fn stands_in(pid: u32, directory: &Path) -> bool {
    let Ok(link) = rustix::fs::readlink(format!("/proc/{pid}/cwd"), Vec::new()) else {
        return false;
    };
    let (wanted, link) = (directory.as_os_str().as_bytes(), link.as_bytes());
    link == wanted || link.strip_suffix(b" (deleted)") == Some(wanted)
}

/// Says whether a process was given an environment, and an empty one. A place of nought is not filled in.
fn has_no_environ(stat: &[u8]) -> bool {
    let name = memchr::memrchr(b')', stat).unwrap_or_default();
    let rest = String::from_utf8_lossy(&stat[name..]);
    // `env_start` and `env_end`, the 50th and 51st; the name is the second.
    let mut places = rest.split_ascii_whitespace().skip(48);
    matches!((places.next(), places.next()), (Some(from), Some(to)) if from == to && to != "0")
}

fn environ_value(environ: &[u8], name: &str) -> Option<String> {
    environ.split(|b| *b == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

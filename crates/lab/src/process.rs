//! The oracle's own view of a process: a pidfd opened at birth, and `/proc` read by hand.
//!
//! Nothing here comes from the code that is judged.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process we hold by its pidfd: it cannot be mistaken for another.
#[derive(Debug)]
pub struct Held {
    /// Its pid while it lives.
    pub pid: u32,
    handle: OwnedFd,
}

impl Held {
    /// Takes hold of a live process.
    pub fn of(pid: u32) -> io::Result<Self> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let raw = raw.ok_or_else(|| io::Error::other("no such pid"))?;
        Ok(Self { pid, handle: pidfd_open(raw, PidfdFlags::empty())? })
    }

    /// Says whether it lives.
    #[must_use]
    pub fn lives(&self) -> bool {
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.handle, signal)?)
    }

    /// Waits for its end; says whether it came in time.
    #[must_use]
    pub fn ended_within(&self, limit: Duration) -> bool {
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        let limit = Timespec::try_from(limit).unwrap_or_default();
        poll(&mut fds, Some(&limit)).is_ok_and(|ready| ready > 0)
    }
}

/// A process the stage started itself.
#[derive(Debug)]
pub struct Started {
    /// Its pidfd.
    pub held: Held,
    child: Child,
}

impl Started {
    /// Takes a child that has just been started.
    pub fn new(child: Child) -> io::Result<Self> {
        Ok(Self { held: Held::of(child.id())?, child })
    }

    /// Returns its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.held.pid
    }

    /// Waits for its end and reaps it.
    pub fn wait(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        if !self.held.ended_within(limit) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not end"));
        }
        self.child.wait()
    }
}

/// Returns the children of a process, by pid.
#[must_use]
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    lists
        .flat_map(|l| l.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns everything below a process, nearest first.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut all = children(pid);
    let mut next = 0;
    while next < all.len() {
        let below = children(all[next]);
        all.extend(below.into_iter().filter(|p| *p != pid));
        next += 1;
    }
    all
}

/// Returns a process's command line, words separated by blanks.
#[must_use]
pub fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

/// Returns a process's short name.
#[must_use]
pub fn comm(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// Returns every process there is, by pid.
#[must_use]
pub fn all() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the environment a process was started with.
#[must_use]
pub fn environment(pid: u32) -> std::collections::BTreeMap<String, String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns where a process works.
#[must_use]
pub fn directory(pid: u32) -> Option<std::path::PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// Takes hold of a live process that has exactly this command line.
#[must_use]
pub fn named(line: &str) -> Option<Held> {
    let held =
        all().into_iter().filter(|p| command_line(*p) == line).find_map(|p| Held::of(p).ok());
    held.filter(Held::lives)
}

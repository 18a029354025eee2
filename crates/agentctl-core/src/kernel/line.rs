//! The ancestors of a process: its parent, the parent of that, and so on to the first process.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::{Kernel, Process};

/// Most processes of a line.
const MAX_LINE: usize = 512;
/// How often a line is read whose processes end meanwhile.
const MAX_READINGS: u32 = 32;

/// The result of one reading of the parent of a process.
enum Above {
    Parent(Box<Process>),
    /// It is the first process, or its parent belongs to another pid namespace, or to a user whose processes are hidden.
    Nothing,
    /// The parent has ended: the process has another one now.
    Ended,
}

impl Kernel {
    /// Returns the ancestors of a process, nearest first, as far as they can be read: the parent of a process that ends
    /// meanwhile is missing. For a decision that must know all of them see [`Kernel::line`].
    pub fn ancestors(&self, process: &Process) -> impl Iterator<Item = Process> + '_ {
        let above = |child: &Process| match self.above(child) {
            Ok(Above::Parent(parent)) => Some(*parent),
            Ok(Above::Nothing | Above::Ended) | Err(_) => None,
        };
        std::iter::successors(above(process), move |child| above(child)).take(MAX_LINE)
    }

    /// Returns a process and all its ancestors, nearest first. When one of them ends while the line is read, its
    /// children have another parent, and the line is read again. It is an error if the line is not complete: an ancestor
    /// could hide behind many short-lived processes, or behind a very long line.
    pub fn line(&self, process: &Process) -> io::Result<Vec<Process>> {
        for _ in 0..MAX_READINGS {
            if let Some(line) = self.complete_line(process)? {
                return Ok(line);
            }
        }
        Err(io::Error::other("the processes above it end while they are read"))
    }

    /// Reads the line once; `None` if a process of it has ended meanwhile.
    fn complete_line(&self, process: &Process) -> io::Result<Option<Vec<Process>>> {
        let ended = || io::Error::other(format!("process {} has ended", process.id.pid));
        let now = self.process(process.id.pid)?.filter(|now| now.id == process.id);
        let mut child = now.ok_or_else(ended)?;
        let mut line = Vec::new();
        loop {
            let above = self.above(&child)?;
            line.push(child);
            child = match above {
                Above::Parent(parent) => *parent,
                Above::Nothing => return Ok(Some(line)),
                Above::Ended => return Ok(None),
            };
            if line.len() == MAX_LINE {
                return Err(io::Error::other(format!(
                    "more than {MAX_LINE} processes are above it"
                )));
            }
        }
    }

    fn above(&self, child: &Process) -> io::Result<Above> {
        let pid = child.parent_pid;
        if pid == 0 || pid == child.id.pid {
            return Ok(Above::Nothing);
        }
        match self.process(pid) {
            Ok(Some(parent)) if parent.id.start_ticks <= child.id.start_ticks => {
                Ok(Above::Parent(Box::new(parent)))
            }
            Ok(None) | Err(_) if self.hides_parent(child)? => Ok(Above::Nothing),
            // A process that is younger than its child has the reused pid of the real parent.
            Ok(_) => Ok(Above::Ended),
            Err(error) => Err(error),
        }
    }

    /// Says whether the parent of a process lives and belongs to another user, and `/proc` does not show it (`hidepid`).
    fn hides_parent(&self, child: &Process) -> io::Result<bool> {
        let Some(pid) = i32::try_from(child.parent_pid).ok().and_then(Pid::from_raw) else {
            return Ok(false);
        };
        let is_hidden = test_kill_process(pid) == Err(Errno::PERM);
        let now = self.process(child.id.pid)?;
        Ok(is_hidden
            && now.is_some_and(|now| now.id == child.id && now.parent_pid == child.parent_pid))
    }
}

//! Exits as events: one `poll` over the pidfds of processes that need not be ours.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Held, Kernel};
use crate::model::ProcId;

/// Waits for the exit of processes that need not be our children. A wake-up is a hint to look again.
#[derive(Debug, Default)]
pub struct ExitWatch {
    held: Vec<Held>,
}

impl ExitWatch {
    /// Begins to watch a process; returns `false` if it is gone already.
    pub fn add(&mut self, kernel: &Kernel, id: &ProcId) -> io::Result<bool> {
        let held = kernel.hold(id)?;
        let lives = held.is_some();
        self.held.extend(held);
        Ok(lives)
    }

    /// Stops watching all other processes.
    pub fn keep(&mut self, wanted: &dyn Fn(&ProcId) -> bool) {
        self.held.retain(|held| wanted(&held.id));
    }

    /// Blocks until at least one watched process has exited or the timeout has passed; stops watching
    /// the returned ones.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<ProcId>> {
        self.wait_beside(&[], timeout)
    }

    /// Does the same, and also returns when one of these descriptors is readable.
    pub fn wait_beside(
        &mut self,
        others: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> io::Result<Vec<ProcId>> {
        let limit = timeout.and_then(|t| Timespec::try_from(t).ok());
        let handles = self.held.iter().map(|h| PollFd::new(&h.handle, PollFlags::IN));
        let others = others.iter().map(|fd| PollFd::new(fd, PollFlags::IN));
        let mut fds: Vec<_> = handles.chain(others).collect();
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let exited: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut flags = exited.into_iter();
        let (gone, held) =
            std::mem::take(&mut self.held).into_iter().partition(|_| flags.next().unwrap_or(false));
        self.held = held;
        let gone: Vec<Held> = gone;
        Ok(gone.into_iter().map(|h| h.id).collect())
    }
}

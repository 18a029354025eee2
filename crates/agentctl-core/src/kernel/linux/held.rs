//! A handle of one process, for signals and waits that can never reach another process.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, pidfd_send_signal};

use super::{Kernel, has_exited, open_handle, same_process};
use crate::model::ProcId;

impl Kernel {
    /// Opens a handle of exactly this process; `None` if it is gone. Signals and waits through the
    /// handle can never reach another process.
    pub fn hold(&self, id: &ProcId) -> io::Result<Option<Held>> {
        let Some(raw) = i32::try_from(id.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let Some(handle) = open_handle(raw)? else { return Ok(None) };
        // The identity is read while the pidfd is open, so the pid cannot change its owner any more.
        match self.process(id.pid)? {
            Some(now) if same_process(&now.id, id) && !has_exited(&handle)? => {
                Ok(Some(Held { id: id.clone(), handle }))
            }
            _ => Ok(None),
        }
    }

    /// Sends a signal to exactly this process, through a pidfd that was verified to be its own.
    ///
    /// Returns `false` if it is gone; a process that got its pid later is never signalled.
    pub fn signal(&self, id: &ProcId, signal: Signal) -> io::Result<bool> {
        match self.hold(id)? {
            Some(held) => held.signal(signal),
            None => Ok(false),
        }
    }
}

/// A handle of a process: its pidfd was verified to name this process.
#[derive(Debug)]
pub struct Held {
    pub(super) id: ProcId,
    pub(super) handle: OwnedFd,
}

impl Held {
    /// Returns its name.
    #[must_use]
    pub fn id(&self) -> &ProcId {
        &self.id
    }

    /// Sends it a signal; `false` when it is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Says whether it has exited, reaped or not.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        has_exited(&self.handle).unwrap_or(false)
    }

    /// Blocks until all of these processes have exited or the timeout has passed; says whether they
    /// have exited.
    pub fn wait_for_all(
        held: &[impl std::borrow::Borrow<Self>],
        timeout: Duration,
    ) -> io::Result<bool> {
        let until = std::time::Instant::now() + timeout;
        loop {
            let living: Vec<&Self> =
                held.iter().map(std::borrow::Borrow::borrow).filter(|h| !h.has_exited()).collect();
            let left = until.saturating_duration_since(std::time::Instant::now());
            if living.is_empty() || left.is_zero() {
                return Ok(living.is_empty());
            }
            let mut fds: Vec<_> =
                living.iter().map(|h| PollFd::new(&h.handle, PollFlags::IN)).collect();
            let limit = Timespec::try_from(left).ok();
            match poll(&mut fds, limit.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

//! The fate of a started program if this process is killed.

use std::io;

use rustix::process::Pid;
#[cfg(target_os = "linux")]
use rustix::process::Signal;

/// The fate of a program if this process is killed before the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentDeath {
    /// It is killed too. (Linux; elsewhere it goes on.)
    Kill,
    /// It goes on.
    Outlive,
}

impl ParentDeath {
    /// Returns this process, if the program dies with it.
    pub(super) fn parent(self) -> Option<Pid> {
        match self {
            Self::Kill => Some(rustix::process::getpid()),
            Self::Outlive => None,
        }
    }
}

/// Has the kernel kill this process when the thread that started it ends. That thread must wait for it. To be called
/// between fork and exec.
#[cfg(target_os = "linux")]
pub(super) fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before the call.
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::ErrorKind::Other.into())
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn die_with(_parent: Pid) -> io::Result<()> {
    Ok(())
}

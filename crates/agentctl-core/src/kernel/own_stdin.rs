//! The standard input of this process: whether it holds text that was meant for this process.
//!
//! A pipe or a file is meant for this process unless the shell that started it reads from the same one: inside a loop
//! (`… | while read line; do …; done`) or a script from a pipe (`… | sh`), reading it would take the shell's own input.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, SeekFrom, Stat};

/// Names of shells, as the kernel shows them.
const SHELLS: [&str; 13] = [
    "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "ksh93", "mksh", "nu", "sh", "tcsh",
    "zsh",
];

/// The kind of the standard input of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnStdin {
    /// A terminal, a device, a socket, a directory, or closed: never read.
    Nothing,
    /// A regular file, at its start.
    File,
    /// A pipe.
    Pipe,
    /// A pipe or a file that another program reads as well.
    Shared {
        /// The name of that program, if it is known.
        by: Option<String>,
        /// Whether bytes can be read from it now.
        has_bytes: bool,
    },
}

/// Returns the kind of the standard input of this process. Reads nothing from it.
#[must_use]
pub fn own_stdin() -> OwnStdin {
    let stdin = io::stdin();
    let Ok(stat) = rustix::fs::fstat(&stdin) else { return OwnStdin::Nothing };
    let shared = |has_bytes| OwnStdin::Shared { by: parent_name(), has_bytes };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => match rustix::fs::seek(&stdin, SeekFrom::Current(0)) {
            Ok(0) => OwnStdin::File,
            at => shared(at.is_ok_and(|at| i64::try_from(at).is_ok_and(|at| at < stat.st_size))),
        },
        FileType::Fifo if is_read_by_parent_shell(&stat) => {
            shared(rustix::io::ioctl_fionread(&stdin).is_ok_and(|bytes| bytes > 0))
        }
        FileType::Fifo => OwnStdin::Pipe,
        _ => OwnStdin::Nothing,
    }
}

/// Waits until the standard input can be read or has ended, at most this long.
#[must_use]
pub fn stdin_is_ready(limit: Duration) -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
    let timeout = Timespec::try_from(limit).ok();
    poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Returns the folder of the parent process below `/proc`. Systems without one cannot tell.
fn parent() -> Option<String> {
    let parent = rustix::process::getppid()?;
    Some(format!("/proc/{}", parent.as_raw_nonzero()))
}

fn parent_name() -> Option<String> {
    let name = std::fs::read_to_string(Path::new(&parent()?).join("comm")).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Says whether the parent is a shell with this pipe as its own standard input.
fn is_read_by_parent_shell(pipe: &Stat) -> bool {
    let is_shell = parent_name().is_some_and(|name| SHELLS.contains(&name.as_str()));
    let stdin = parent().and_then(|folder| rustix::fs::stat(format!("{folder}/fd/0")).ok());
    is_shell
        && stdin.is_some_and(|stdin| (stdin.st_dev, stdin.st_ino) == (pipe.st_dev, pipe.st_ino))
}

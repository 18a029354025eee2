//! The standard input of another process of this user, where that is a pipe: one line is written whole or not
//! at all.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::{Kernel, open_process_directory};
use crate::model::ProcId;

/// Bytes that the kernel writes into a pipe in one piece (`PIPE_BUF`).
const PIPE_BUF: usize = 4096;
/// Pause between two attempts to take the lock of the pipe.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Size of the pipe that is the standard input of an agent: the most that an unprivileged process may ask for.
const PIPE_BYTES: usize = 1 << 20;

/// Makes a pipe that never ends, with these bytes in it. It is open for reading and writing, so the process that
/// has it as standard input is its own writer: it never sees an end of file, whoever else exits.
pub fn endless_pipe(first: &[u8]) -> io::Result<File> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let both = openat(rustix::fs::CWD, path, flags, Mode::empty())?;
    // A smaller pipe is no error while the bytes fit.
    let _smaller = rustix::pipe::fcntl_setpipe_size(&both, PIPE_BYTES);
    if rustix::pipe::fcntl_getpipe_size(&both)? < first.len() {
        let why = "the prompt is longer than the input of an agent that stays can hold at once";
        return Err(io::Error::other(why));
    }
    File::from(writer).write_all(first)?;
    Ok(both.into())
}

impl Kernel {
    /// Writes one line into the pipe that is the standard input of a process. Other writers of this program are
    /// kept out by a lock on the pipe, which the kernel keeps also after the pipe has lost its name. A line that
    /// is longer than `PIPE_BUF` is written only into an empty pipe, so that no other line can be inside of it.
    pub fn write_to_stdin(&self, id: &ProcId, line: &[u8], timeout: Duration) -> io::Result<()> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "its process has ended");
        let held = self.hold(id)?.ok_or_else(gone)?;
        let directory = open_process_directory(id.pid)?;
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let pipe: OwnedFd = openat(&directory, "fd/0", flags, Mode::empty())?;
        // The process lives after the descriptor was opened, so the descriptor is its own.
        if held.has_exited() {
            return Err(gone());
        }
        let pipe = File::from(pipe);
        if !pipe.metadata()?.file_type().is_fifo() {
            return Err(io::Error::other("its standard input is not a pipe"));
        }
        lock(&pipe, Instant::now() + timeout)?;
        write_whole(&pipe, line)
    }
}

fn lock(pipe: &File, until: Instant) -> io::Result<()> {
    loop {
        match pipe.try_lock() {
            Ok(()) => return Ok(()),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(io::Error::other("another process writes to it"));
            }
            Err(std::fs::TryLockError::WouldBlock) => std::thread::park_timeout(LOCK_PAUSE),
        }
    }
}

/// Writes a line in one piece.
fn write_whole(pipe: &File, line: &[u8]) -> io::Result<()> {
    let does_not_read = || io::Error::other("it does not read its input now");
    if line.len() > PIPE_BUF {
        if rustix::io::ioctl_fionread(pipe)? > 0 {
            return Err(does_not_read());
        }
        make_room(pipe.as_fd(), line.len())?;
    }
    match rustix::io::retry_on_intr(|| rustix::io::write(pipe, line)) {
        Ok(written) if written == line.len() => Ok(()),
        Ok(_) => Err(io::Error::other("only a part of the message fitted into its input")),
        Err(Errno::AGAIN) => Err(does_not_read()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the pipe large enough for a line.
fn make_room(pipe: std::os::fd::BorrowedFd<'_>, length: usize) -> io::Result<()> {
    if rustix::pipe::fcntl_getpipe_size(pipe)? >= length {
        return Ok(());
    }
    let too_long = |_| io::Error::other("the message is longer than its input can hold at once");
    rustix::pipe::fcntl_setpipe_size(pipe, length).map(|_| ()).map_err(too_long)
}

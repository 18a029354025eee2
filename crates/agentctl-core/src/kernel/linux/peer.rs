//! The process on the other end of a Unix socket, as the kernel knows it.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;

use super::{Kernel, Process, has_exited};

const SOL_SOCKET: c_int = 1;
/// Since Linux 6.5.
const SO_PEERPIDFD: c_int = 77;

unsafe extern "C" {
    fn getsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: *mut u32,
    ) -> c_int;
}

impl Kernel {
    /// Returns the user whose process called `listen`, or `connect`, on the other end.
    pub fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
        Ok(socket_peercred(socket)?.uid.as_raw())
    }

    /// Returns the owner of a process; `None` if it is gone.
    pub fn owner(&self, pid: u32) -> io::Result<Option<u32>> {
        match std::fs::metadata(format!("/proc/{pid}")) {
            Ok(meta) => Ok(Some(meta.uid())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the process that called `listen`, or `connect`, on the other end; `None` if it is gone.
    ///
    /// Its pid may belong to another process by now. The kernel's pidfd of the peer tells them apart;
    /// before Linux 6.5 there is none, and the caller must check that the process is the expected one.
    pub fn peer(&self, socket: impl AsFd) -> io::Result<Option<Process>> {
        match peer_handle(&socket) {
            Ok(handle) => {
                let Some(pid) = pid_of(&handle)? else { return Ok(None) };
                let process = self.process(pid)?;
                // The process still lives after the read, so the data is its own.
                Ok(if has_exited(&handle)? { None } else { process })
            }
            Err(error) if error.raw_os_error() == Some(Errno::NOPROTOOPT.raw_os_error()) => {
                let pid = socket_peercred(&socket)?.pid.as_raw_nonzero().get();
                u32::try_from(pid).map_or(Ok(None), |pid| self.process(pid))
            }
            // It is gone, or not visible from here.
            Err(_) => Ok(None),
        }
    }
}

fn peer_handle(socket: &impl AsFd) -> io::Result<OwnedFd> {
    let mut handle: c_int = -1;
    let mut length = u32::try_from(size_of::<c_int>()).unwrap_or(4);
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: value and length are valid for the call, and the option writes one descriptor number.
    let done = unsafe {
        getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, (&raw mut handle).cast(), &raw mut length)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

/// Returns the pid of the process of a handle, while it has one.
fn pid_of(handle: &OwnedFd) -> io::Result<Option<u32>> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"));
    // -1 for a process that is gone, 0 for a process in a namespace that we do not see.
    Ok(pid.and_then(|pid| pid.trim().parse().ok()).filter(|pid| *pid > 0))
}

//! The process on the other end of a Unix socket, as the kernel knows it.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::{Kernel, Process};

const SOL_LOCAL: c_int = 0;
const LOCAL_PEERPID: c_int = 2;

unsafe extern "C" {
    fn getpeereid(socket: c_int, uid: *mut u32, gid: *mut u32) -> c_int;
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
        let (mut uid, mut gid) = (0, 0);
        // SAFETY: both numbers are valid for the call.
        let done = unsafe { getpeereid(socket.as_fd().as_raw_fd(), &raw mut uid, &raw mut gid) };
        if done == 0 { Ok(uid) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the owner of a process; fails on macOS.
    pub fn owner(&self, _pid: u32) -> io::Result<Option<u32>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the owners of other processes are not read on macOS",
        ))
    }

    /// Returns the process on the other end; `None` if it is gone. Its pid may belong to another
    /// process by now: the caller must check that the process is the expected one.
    pub fn peer(&self, socket: impl AsFd) -> io::Result<Option<Process>> {
        let mut pid: c_int = 0;
        let mut length = u32::try_from(size_of::<c_int>()).unwrap_or(4);
        let socket = socket.as_fd().as_raw_fd();
        // SAFETY: value and length are valid for the call, and the option writes one number.
        let done = unsafe {
            getsockopt(socket, SOL_LOCAL, LOCAL_PEERPID, (&raw mut pid).cast(), &raw mut length)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        u32::try_from(pid).map_or(Ok(None), |pid| self.process(pid))
    }
}

//! The questions that macOS does not answer. Each fails; none returns an empty answer.

use std::io;
use std::path::Path;

use super::{FileLock, Kernel};
use crate::kernel::OpenFile;
use crate::model::ProcId;

fn unsupported(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Fails: macOS has no sealed memory files.
pub fn hold_text(_name: &str, _text: &[u8]) -> io::Result<std::os::fd::OwnedFd> {
    Err(unsupported("macOS has no sealed memory files"))
}

/// Fails: a pipe cannot be written to through another process on macOS.
pub fn endless_pipe(_first: &[u8]) -> io::Result<std::fs::File> {
    Err(unsupported("sessions that stay are not supported on macOS"))
}

/// The mounts that show some directories to processes: none on macOS, which has no bind mounts.
#[derive(Debug)]
pub struct MountViews;

impl MountViews {
    /// Returns the view of a process.
    #[must_use]
    pub fn of(&self, _pid: u32) -> &Self {
        self
    }

    /// Says whether a path of the process leads below one of the directories by another mount.
    #[must_use]
    pub fn is_inside(&self, _path: &Path) -> bool {
        false
    }
}

impl Kernel {
    /// Prepares the question whether paths of processes lead below directories by other mounts.
    #[must_use]
    pub fn mount_views(&self, _directories: &[&Path]) -> MountViews {
        MountViews
    }

    /// Fails: macOS does not give access to the standard input of another process.
    pub fn write_to_stdin(
        &self,
        _id: &ProcId,
        _line: &[u8],
        _timeout: std::time::Duration,
    ) -> io::Result<()> {
        Err(unsupported("macOS does not open the standard input of another process"))
    }

    /// Fails: macOS has no memory files that other processes can open.
    pub fn held_text(&self, _id: &ProcId, _name: &str, _most: u64) -> io::Result<Option<Vec<u8>>> {
        Err(unsupported("the memory files of other processes are not read on macOS"))
    }

    /// Fails: macOS does not show the standard output of a process.
    pub fn stdout_file(&self, _id: &ProcId) -> io::Result<Option<std::fs::File>> {
        Err(unsupported("macOS does not show what a process writes its output to"))
    }

    /// Fails: macOS does not show what a process writes its output to.
    pub fn stdout_path(&self, _id: &ProcId) -> io::Result<Option<std::path::PathBuf>> {
        Err(unsupported("macOS does not show what a process writes its output to"))
    }

    /// Fails: macOS does not show the holder of a file lock.
    pub fn file_locks(&self, _wanted: &dyn Fn(u64) -> bool) -> io::Result<Vec<FileLock>> {
        Err(unsupported("macOS does not tell which process holds a file lock"))
    }

    /// Fails: the open files of other processes are not read on macOS.
    pub fn has_open(&self, _pid: u32, _device: u64, _inode: u64) -> io::Result<bool> {
        Err(unsupported("the open files of other processes are not read on macOS"))
    }

    /// Fails: the open files of other processes are not read on macOS.
    pub fn open_inodes(&self, _pid: u32) -> io::Result<std::collections::HashSet<(u64, u64)>> {
        Err(unsupported("the open files of other processes are not read on macOS"))
    }

    /// Fails: the file positions of other processes are not read on macOS.
    pub fn positions(&self, _id: &ProcId, _device: u64, _inode: u64) -> io::Result<Vec<u64>> {
        Err(unsupported("the open files of other processes are not read on macOS"))
    }

    /// Fails: the bytes written by other processes are not counted on macOS.
    pub fn written_bytes(&self, _id: &ProcId) -> io::Result<u64> {
        Err(unsupported("what other processes have written is not counted on macOS"))
    }

    /// Fails: the terminals of other processes are not read on macOS.
    pub fn terminal_output_at(&self, _id: &ProcId) -> io::Result<Option<i64>> {
        Err(unsupported("the terminals of other processes are not looked at on macOS"))
    }

    /// Fails: the open files of other processes are not read on macOS.
    pub fn open_files(
        &self,
        _id: &ProcId,
        _wanted: &dyn Fn(&Path) -> bool,
    ) -> io::Result<Vec<OpenFile>> {
        Err(unsupported("the open files of other processes are not read on macOS"))
    }

    /// Fails: the open files of other processes are not read on macOS.
    pub fn uses_file(&self, _id: &ProcId, _wanted: &dyn Fn(&Path) -> bool) -> io::Result<bool> {
        Err(unsupported("the open files of other processes are not read on macOS"))
    }

    /// Fails: the listening sockets of other processes are not read on macOS.
    pub fn listening_unix(&self, _id: &ProcId) -> io::Result<Vec<std::path::PathBuf>> {
        Err(unsupported("the listening sockets of other processes are not read on macOS"))
    }

    /// Fails: the connections of other processes are not read on macOS.
    pub fn is_connected(&self, _client: &ProcId, _server: &ProcId) -> io::Result<bool> {
        Err(unsupported("the sockets of other processes are not read on macOS"))
    }

    /// Fails: the listening sockets of other processes are not read on macOS.
    pub fn listening(&self, _id: &ProcId) -> io::Result<Vec<std::net::SocketAddr>> {
        Err(unsupported("the sockets of other processes are not read on macOS"))
    }

    /// Fails: macOS does not show which user serves a connection. Then no secret is sent to a loopback
    /// address in plain text.
    pub fn serving_uid(
        &self,
        _ours: std::net::SocketAddr,
        _theirs: std::net::SocketAddr,
    ) -> io::Result<Option<u32>> {
        Err(unsupported("macOS does not tell which user serves a connection"))
    }

    /// Fails: macOS does not show the other end of a connection. Then the process that connects is not known.
    pub fn client_end(
        &self,
        _server: std::net::SocketAddr,
        _client: std::net::SocketAddr,
    ) -> io::Result<Option<ClientEnd>> {
        Err(unsupported("macOS does not tell which process connects"))
    }

    /// Fails: the sockets of other processes are not read on macOS.
    pub fn holders_of(&self, _end: ClientEnd) -> io::Result<Vec<u32>> {
        Err(unsupported("the sockets of other processes are not read on macOS"))
    }

    /// Returns none: the sockets of other processes are not read on macOS.
    pub fn holders_of_peer(&self, _socket: impl std::os::fd::AsFd) -> io::Result<Vec<u32>> {
        Ok(Vec::new())
    }
}

/// The client end of a connection on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientEnd {
    /// The owner of its socket.
    pub uid: u32,
}

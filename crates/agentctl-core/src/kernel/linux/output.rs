//! The output of a process so far: the number of bytes, and the time of the last output on its
//! terminal.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;

use super::{Kernel, open_process_directory, read_at};
use crate::model::ProcId;

impl Kernel {
    /// Returns the bytes that a process has passed to `write` calls since it began, to files, pipes,
    /// sockets and terminals alike. Children that it has waited for are included.
    pub fn written_bytes(&self, id: &ProcId) -> io::Result<u64> {
        let directory = open_process_directory(id.pid)?;
        let text = read_at(directory.as_fd(), "io")?;
        self.still(id)?;
        let text = String::from_utf8_lossy(&text);
        let count = text.lines().find_map(|line| line.strip_prefix("wchar: ")?.trim().parse().ok());
        count.ok_or_else(|| io::Error::other("the kernel does not count what a process writes"))
    }

    /// Returns the second of the wall clock of the last output on the terminal that is a process's
    /// standard output. The kernel updates this time every eight seconds. `None` if its output is no
    /// terminal.
    pub fn terminal_output_at(&self, id: &ProcId) -> io::Result<Option<i64>> {
        let directory = open_process_directory(id.pid)?;
        let stat = match statat(&directory, "fd/1", AtFlags::empty()) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        self.still(id)?;
        let major = rustix::fs::major(stat.st_rdev);
        // Pseudo terminals (136 to 143), consoles and serial lines (4).
        let is_terminal = FileType::from_raw_mode(stat.st_mode).is_char_device()
            && (major == 4 || (136..=143).contains(&major));
        Ok(is_terminal.then_some(stat.st_mtime))
    }
}

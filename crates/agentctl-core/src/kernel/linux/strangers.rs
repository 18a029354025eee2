//! Processes of other users: for who started whom, and nothing else.

use std::io;

use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::{Kernel, Table};

impl Kernel {
    /// Looks at every process that `/proc` shows as another user's: what runs under another name, and
    /// what does not let itself be looked at. Of most of them only the parent and the name can be read.
    #[must_use]
    pub fn strangers(&self) -> Table {
        let mut table = Table::default();
        let pids = match self.foreign_pids() {
            Ok(pids) => pids,
            Err(error) => {
                table.gaps.push(format!("/proc could not be listed: {error}"));
                return table;
            }
        };
        table.seen = pids.len();
        for pid in pids {
            match self.process(pid) {
                Ok(Some(process)) => table.processes.push(process),
                Ok(None) => {}
                // Where others are hidden from us nothing can be told about any of them.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => table.gaps.push(format!("process {pid} could not be read: {error}")),
            }
        }
        table
    }

    fn foreign_pids(&self) -> io::Result<Vec<u32>> {
        let proc =
            openat(rustix::fs::CWD, "/proc", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut pids = Vec::new();
        for entry in rustix::fs::Dir::read_from(&proc)? {
            let entry = entry?;
            let Some(pid) = entry.file_name().to_str().ok().and_then(|n| n.parse().ok()) else {
                continue;
            };
            match statat(&proc, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if stat.st_uid != self.uid => pids.push(pid),
                Ok(_) | Err(Errno::NOENT | Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pids)
    }
}

//! Processes of other users: for who started whom, and nothing else.

use std::io;

use super::{Kernel, Table, pids_of};

impl Kernel {
    /// Looks at every process that `/proc` shows as another user's: what runs under another name, and
    /// what does not let itself be looked at. Of most of them only the parent and the name can be read.
    #[must_use]
    pub fn strangers(&self) -> Table {
        let mut table = Table::default();
        let pids = match pids_of(&|owner| owner != self.uid) {
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
}

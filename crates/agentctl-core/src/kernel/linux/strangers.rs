//! Processes of other users: for who started whom, and nothing else.

use std::io;
use std::time::Instant;

use super::table::unlisted;
use super::{Kernel, Table, pids_of};

impl Kernel {
    /// Looks at every process that `/proc` shows as another user's: what runs under another name, and
    /// what does not let itself be looked at. Of most of them only the parent and the name can be read.
    #[must_use]
    pub fn strangers(&self, until: Instant) -> Table {
        let pids = match pids_of(&|owner| owner != self.uid) {
            Ok(pids) => pids,
            Err(error) => return unlisted(&error),
        };
        self.read_within(until, pids, |kernel, pid| match kernel.process(pid) {
            // Where others are hidden from us nothing can be told about any of them.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            read => read,
        })
    }
}

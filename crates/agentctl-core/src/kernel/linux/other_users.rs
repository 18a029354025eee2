//! Processes of other users, only to find out which process started which.

use std::io;
use std::time::Instant;

use super::table::unlisted;
use super::{Kernel, Table, pids_of};

impl Kernel {
    /// Reads every process that `/proc` shows as another user's: processes under another user id, and
    /// processes that may not be inspected. For most of them only the parent and the name are readable.
    #[must_use]
    pub fn strangers(&self, until: Instant) -> Table {
        let pids = match pids_of(&|owner| owner != self.uid) {
            Ok(pids) => pids,
            Err(error) => return unlisted(&error),
        };
        self.read_within(until, pids, |kernel, pid| match kernel.process(pid) {
            // If `/proc` hides the processes of other users, nothing is known about any of them.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            read => read,
        })
    }
}

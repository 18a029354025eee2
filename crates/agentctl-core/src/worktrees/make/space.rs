//! The space that new worktrees need, compared with the free space.

use std::collections::HashMap;
use std::path::Path;

use rustix::fs::statvfs;

use super::super::MakeOrder;
use super::MakeError;
use super::plan::Plan;
use crate::git::{GitError, path_of};

impl Plan<'_> {
    /// Returns the size of all files of a commit that are checked out.
    fn size_of(&self, base: &str, order: &MakeOrder) -> Result<u64, MakeError> {
        let is_like_present = order.options.sparse.is_empty() && !order.options.no_lfs;
        if is_like_present
            && self.unchanged_head.as_deref() == Some(base)
            && let Some(size) = self.size_on_disk()?
        {
            return Ok(size);
        }
        let call = self.git.read(&self.repository.common).args(["ls-tree", "-r", "-l", "-z", base]);
        let listed = if order.options.sparse.is_empty() {
            call.ok()?
        } else {
            call.arg("--").args(&order.options.sparse).ok()?
        };
        let size = |entry: &[u8]| -> Option<u64> {
            let facts = entry.split(|byte| *byte == b'\t').next()?;
            std::str::from_utf8(facts).ok()?.split_whitespace().nth(3)?.parse().ok()
        };
        Ok(listed.stdout.split(|byte| *byte == 0).filter_map(size).sum())
    }

    /// Returns the size of all tracked files of the present working tree; `None` if one of them is not there, or if
    /// `git status` does not look at it. It is the size after filters, and git need not open every object for it.
    fn size_on_disk(&self) -> Result<Option<u64>, GitError> {
        let Some(top) = &self.repository.top else { return Ok(None) };
        let listed = self.git.read(top).args(["ls-files", "-v", "-z"]).ok()?.stdout;
        let entries = listed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        let size = |entry: &[u8]| {
            let meta = top.join(path_of(entry.strip_prefix(b"H ")?)).symlink_metadata().ok()?;
            Some(if meta.is_dir() { 0 } else { meta.len() })
        };
        Ok(entries.map(size).sum())
    }

    /// Refuses if the files of the bases, with a tenth to spare, need more space than is free.
    pub(super) fn check_space(&self, order: &MakeOrder) -> Result<(), MakeError> {
        let mut sizes: HashMap<&str, u64> = HashMap::new();
        let mut needed = 0_u64;
        for place in &self.places {
            let size = match sizes.get(place.base.as_str()) {
                Some(size) => *size,
                None => self.size_of(&place.base, order)?,
            };
            sizes.insert(&place.base, size);
            needed = needed.saturating_add(size);
        }
        let count = self.places.len();
        let needed_bytes = needed.saturating_add(needed / 10);
        let there = self.parent.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        let Ok(space) = statvfs(there) else { return Ok(()) };
        // A file system that counts no blocks does not say how much is free.
        if space.f_blocks == 0 {
            return Ok(());
        }
        let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        if needed_bytes <= free_bytes {
            return Ok(());
        }
        Err(MakeError::NoSpace { path: there.to_owned(), free_bytes, needed_bytes, count })
    }
}

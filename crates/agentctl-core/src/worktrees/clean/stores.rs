//! Contents that other tools keep in a git directory, beside the objects of git: those of Git LFS and git-annex. No
//! `git fetch` copies them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::worktrees::walk::{self, Enter};

/// The folders below a git directory. The name of each file is made from its content.
const STORES: [&str; 2] = ["lfs/objects", "annex/objects"];

/// Contents of a store that no other store has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OnlyHere {
    pub store: &'static str,
    /// One of them, below the store.
    pub first: PathBuf,
    pub count: usize,
}

/// Finds the contents in the stores of a git directory that none of the other git directories has.
pub(super) fn only_here(git_dir: &Path, others: &[&Path]) -> io::Result<Vec<OnlyHere>> {
    let mut found = Vec::new();
    for store in STORES {
        let mut left = contents(&git_dir.join(store))?;
        for other in others {
            left.retain(|path, size| {
                let there = other.join(store).join(path).symlink_metadata();
                !there.is_ok_and(|meta| meta.is_file() && meta.len() == *size)
            });
        }
        let count = left.len();
        found.extend(left.into_keys().next().map(|first| OnlyHere { store, first, count }));
    }
    Ok(found)
}

/// Returns the files of a store with their sizes.
fn contents(store: &Path) -> io::Result<BTreeMap<PathBuf, u64>> {
    let mut found = BTreeMap::new();
    if store.symlink_metadata().is_err() {
        return Ok(found);
    }
    walk::walk(store, &mut |entry| {
        if entry.kind != FileType::Directory {
            found.insert(entry.path.clone(), entry.size);
        }
        Enter::Yes
    })?;
    Ok(found)
}

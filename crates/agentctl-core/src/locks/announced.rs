//! Orders of one kind that are carried out on a directory at the same time. Each of their processes holds a shared lock on
//! a file of the state folder, so the kernel tells which processes they are.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::native::private;
use crate::state_files::open_mutex;

/// The lock by which other processes know this one, until it is dropped.
#[derive(Debug)]
pub struct Announced {
    _lock: Option<File>,
}

/// Lets other processes know that this one carries out an order on a directory. If the lock cannot be taken, the others
/// count this process as work there.
#[must_use]
pub fn announce(host: &Host, order: &str, directory: &Path) -> Announced {
    let file = path(host, order, directory).and_then(|path| {
        host.check_home().ok()?;
        private::directory(path.parent()?).ok()?;
        open_mutex(&path).ok()
    });
    Announced { _lock: file.filter(|file| file.try_lock_shared().is_ok()) }
}

/// Returns the processes that carry out an order on a directory now, this one included.
#[must_use]
pub fn announced(host: &Host, order: &str, directory: &Path) -> HashSet<u32> {
    let meta = path(host, order, directory).and_then(|path| path.symlink_metadata().ok());
    let Some((device, inode)) = meta.map(|meta| (meta.dev(), meta.ino())) else {
        return HashSet::new();
    };
    let locks = host.kernel.file_locks(&|locked| locked == inode).unwrap_or_default();
    let shared = locks.into_iter().filter(|lock| lock.inode == inode && !lock.exclusive);
    // The kernel names the inode without its device.
    let has_it = |pid: &u32| host.kernel.has_open(*pid, device, inode).unwrap_or(false);
    shared.filter_map(|lock| lock.pid).filter(has_it).collect()
}

fn path(host: &Host, order: &str, directory: &Path) -> Option<PathBuf> {
    let meta = directory.metadata().ok()?;
    let name = format!("{order}-{:x}-{:x}.lock", meta.dev(), meta.ino());
    Some(host.state().join("run").join(name))
}

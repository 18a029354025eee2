//! When the configuration file was last changed, by any way in which it can be replaced.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentctl_core::model::Time;

/// Most names and links on the way to the configuration file.
const MAX_PATH_STEPS: usize = 4096;

/// Returns when a file was last written, renamed, given other rights or replaced: the latest change of the file, of the
/// links that lead to it, of the folder that holds it, and of every folder on the way that this user could have
/// replaced. The home directory and the folders above it do not count. `None` if that cannot be told.
pub(super) fn changed_at(path: &Path, home: &Path) -> Option<Time> {
    let path = std::path::absolute(path).ok()?;
    let home = std::fs::canonicalize(home).ok()?;
    let mut latest = change_time(&std::fs::metadata(&path).ok()?)?;
    let real = std::fs::canonicalize(&path).ok()?;
    latest = latest.max(change_time(&std::fs::metadata(real.parent()?).ok()?)?);
    let mut names: Vec<OsString> = path.iter().rev().map(OsString::from).collect();
    let mut reached = PathBuf::new();
    // The kernel has followed these links just now, so they have an end; it follows 40 at most.
    for _ in 0..MAX_PATH_STEPS {
        let Some(name) = names.pop() else { return Some(latest) };
        let is_replaceable = rustix::fs::access(&reached, rustix::fs::Access::WRITE_OK).is_ok();
        reached.push(&name);
        let meta = std::fs::symlink_metadata(&reached).ok()?;
        if meta.is_symlink() {
            latest = latest.max(change_time(&meta)?);
            let target = std::fs::read_link(&reached).ok()?;
            names.extend(target.iter().rev().map(OsString::from));
            reached.pop();
        } else if is_replaceable && !home.starts_with(std::fs::canonicalize(&reached).ok()?) {
            latest = latest.max(change_time(&meta)?);
        }
    }
    None
}

fn change_time(meta: &std::fs::Metadata) -> Option<Time> {
    Time::from_millis(meta.ctime() * 1000 + meta.ctime_nsec() / 1_000_000)
}

//! The limits of the kernel that decide whether changes of files are noticed at once.

/// Limits of this process and this user; `None` where the system has no such limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of files and directories that this user may watch.
    pub file_watches: Option<u64>,
    /// The number of processes of this user that may watch files.
    pub file_watchers: Option<u64>,
    /// The number of files that this process may have open.
    pub open_files: Option<u64>,
}

/// Reads the limits.
#[must_use]
pub fn limits() -> Limits {
    let number = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?;
        text.trim().parse().ok()
    };
    Limits {
        file_watches: number("max_user_watches"),
        file_watchers: number("max_user_instances"),
        open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
    }
}

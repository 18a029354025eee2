//! Releasing file watches without waiting. Closing an inotify descriptor waits for a grace period of the
//! kernel, 16 ms at the median on the machine this was measured on, and an exit closes every descriptor.
//! Descriptors that are registered with an `io_uring` are closed later by a kernel worker instead.

use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use rustix::io_uring::{IoringRegisterOp, io_uring_params, io_uring_register, io_uring_setup};

/// How long the `io_uring` is kept after the watches are dropped. Their descriptors may be closed by
/// threads of their own, and must be closed before it.
const RELEASE_TIME: Duration = Duration::from_secs(1);

/// Drops a value that owns file watches on a thread of its own, so that neither the caller nor an exit of
/// this process waits for the kernel. Without `io_uring` an exit that follows at once takes longer.
pub fn release_later<T: Send + 'static>(value: T) {
    let ring = register_file_events();
    // If no thread can be started, the closure and with it the value is dropped here.
    let _thread = std::thread::Builder::new().spawn(move || {
        drop(value);
        if ring.is_some() {
            std::thread::park_timeout(RELEASE_TIME);
        }
        drop(ring);
    });
}

/// Registers the inotify descriptors of this process with a new `io_uring`.
fn register_file_events() -> Option<OwnedFd> {
    let own: Vec<RawFd> = file_events();
    let count = u32::try_from(own.len()).ok().filter(|count| *count > 0)?;
    // SAFETY: the parameters are zero, which asks for nothing special, and no memory is mapped.
    let ring = unsafe { io_uring_setup(1, &mut io_uring_params::default()) }.ok()?;
    // SAFETY: `own` holds `count` descriptors for the length of the call; the kernel keeps none of it.
    let taken = unsafe {
        io_uring_register(&ring, IoringRegisterOp::RegisterFiles, own.as_ptr().cast(), count)
    };
    taken.ok().map(|_| ring)
}

fn file_events() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let watches = entries.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == "anon_inode:inotify")
    });
    watches.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

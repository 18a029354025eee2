//! A fast exit. Closing an inotify descriptor waits for a grace period of the kernel, 16 ms at the
//! median on the machine this was measured on, and an exit closes every descriptor. Descriptors that
//! are registered with an `io_uring` are closed later by a kernel worker instead.

use std::os::fd::{IntoRawFd, RawFd};

use rustix::io_uring::{IoringRegisterOp, io_uring_params, io_uring_register, io_uring_setup};

/// Hands this process's inotify descriptors over to the kernel; call it right before the exit. If
/// that fails, the exit takes longer.
pub fn leave_quickly() {
    let own: Vec<RawFd> = file_events();
    let Ok(count) = u32::try_from(own.len()) else { return };
    if own.is_empty() {
        return;
    }
    // SAFETY: the parameters are zero, which asks for nothing special, and no memory is mapped.
    let Ok(ring) = (unsafe { io_uring_setup(1, &mut io_uring_params::default()) }) else { return };
    // SAFETY: `own` holds `count` descriptors for the length of the call; the kernel keeps none of it.
    let _taken = unsafe {
        io_uring_register(&ring, IoringRegisterOp::RegisterFiles, own.as_ptr().cast(), count)
    };
    // The ring must stay open until the exit closes it.
    let _until_the_end = ring.into_raw_fd();
}

fn file_events() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let watches = entries.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == "anon_inode:inotify")
    });
    watches.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

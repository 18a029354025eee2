//! Heap tuning for the daemon and the faces: few malloc arenas, and `malloc_trim` after a large answer.

/// Free memory at the end of a heap that stays there.
#[cfg(target_env = "gnu")]
const TRIM_THRESHOLD_BYTES: i32 = 1 << 20;

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn mallopt(parameter: i32, value: i32) -> i32;
}

/// Returns the free end of every heap to the system as soon as it is large. [`give_back_memory`] cannot do that for the
/// heaps of threads, and without this call the size that stays grows with the largest block that was ever freed.
pub fn return_free_ends() {
    #[cfg(target_env = "gnu")]
    {
        const M_TRIM_THRESHOLD: i32 = -1;
        // SAFETY: it takes no pointer.
        let _set = unsafe { mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES) };
    }
}

/// Limits the number of malloc arenas, so that memory freed by one thread can be used by another. Must
/// be called before there are threads.
pub fn keep_memory_together() {
    #[cfg(target_env = "gnu")]
    {
        const M_ARENA_MAX: i32 = -8;
        // SAFETY: it takes no pointer.
        let _set = unsafe { mallopt(M_ARENA_MAX, 2) };
    }
}

/// Returns free heap memory to the system if this process uses more than `above` bytes.
pub fn give_back_memory(above: u64) {
    // Another C library has no call for it.
    #[cfg(not(target_env = "gnu"))]
    let _ = above;
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> i32;
        }
        if resident().is_some_and(|bytes| bytes > above) {
            // SAFETY: it takes no pointer and touches only free memory.
            let _given = unsafe { malloc_trim(0) };
        }
    }
}

#[cfg(target_env = "gnu")]
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

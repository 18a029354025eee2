//! Heap tuning for the daemon: few malloc arenas, and `malloc_trim` after a large answer.

/// Limits the number of malloc arenas, so that memory freed by one thread can be used by another. Must
/// be called before there are threads.
pub fn keep_memory_together() {
    #[cfg(target_env = "gnu")]
    {
        const M_ARENA_MAX: i32 = -8;
        unsafe extern "C" {
            fn mallopt(parameter: i32, value: i32) -> i32;
        }
        // SAFETY: it takes no pointer.
        let _set = unsafe { mallopt(M_ARENA_MAX, 2) };
    }
}

/// Returns free heap memory to the system if this process uses more than `above` bytes.
pub fn give_back_memory(above: u64) {
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

//! Memory of somebody who lives long: what a large answer needed is not what the next one will.

/// Makes all threads take their memory from few places, so that what one has freed serves the next. To be
/// called before there are threads.
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

/// Returns to the system what is free in the heap, if this process holds more than so many bytes.
pub fn give_back_memory(above: u64) {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> i32;
        }
        if resident().is_some_and(|bytes| bytes > above) {
            // SAFETY: it takes no pointer and touches only what is free.
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

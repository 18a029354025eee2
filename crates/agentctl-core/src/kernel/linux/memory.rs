//! Giving memory back: what a large answer needed is not what the next one will.

/// Returns to the system what is free in the heap. Only for who goes on living.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> i32;
        }
        // SAFETY: it takes no pointer and touches only what is free.
        let _given = unsafe { malloc_trim(0) };
    }
}

//! The CPU time of another process, to the nanosecond.
#![allow(unsafe_code)] // the C library's `clock_gettime` takes the clock of a process, which no crate here offers

use std::time::Duration;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// Returns the CPU time of a process with all its threads, ended ones included. `/proc/<pid>/stat` counts in ticks of
/// 10 ms, and the files of single threads lose the time of threads that have ended.
#[must_use]
pub fn cpu_time(pid: u32) -> Duration {
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }
    let pid = i32::try_from(pid).expect("a pid");
    // The number of a process's CPU clock, as `clock_getcpuclockid` computes it.
    let clock = (!pid << 3) | 2;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the kernel writes one `timespec`, which is two 64-bit numbers on every 64-bit Linux.
    let read = unsafe { clock_gettime(clock, &raw mut time) };
    assert_eq!(read, 0, "process {pid} has no clock");
    let count = |number: i64| u64::try_from(number).expect("not negative");
    Duration::from_secs(count(time.seconds)) + Duration::from_nanos(count(time.nanoseconds))
}

//! The newest pid: a counter that moves with every process and every thread, and costs one read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The newest pid that was given out in the observer's pid namespace, from `/proc/loadavg`.
///
/// It changes when a process or a thread begins there or in a namespace below. It does not change on
/// `exec`, nor for a process whose pid was chosen (`clone3` with `set_tid`, as for a restored
/// checkpoint).
#[derive(Debug)]
pub struct NewestPid(File);

impl NewestPid {
    /// Opens the counter. A `/proc` that shows processes only (`subset=pid`) has none.
    pub fn open() -> io::Result<Self> {
        File::open("/proc/loadavg").map(Self)
    }

    /// Reads the counter.
    pub fn read(&self) -> io::Result<u32> {
        let mut text = [0; 128];
        let length = self.0.read_at(&mut text, 0)?;
        let text = text.get(..length).unwrap_or_default().trim_ascii_end();
        let last = text.rsplit(u8::is_ascii_whitespace).next();
        let last = last.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        last.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/loadavg"))
    }
}

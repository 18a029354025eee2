//! The controlling terminal of a process.

use std::path::PathBuf;

use super::{Kernel, Process};

impl Kernel {
    /// Returns the device file of the terminal that controls a process; `None` where it has none, or where the
    /// kernel does not show it.
    #[must_use]
    pub fn terminal(&self, process: &Process) -> Option<PathBuf> {
        let device = terminal_device(process.id.pid)?;
        // The pid may have been reused since.
        let now = self.process(process.id.pid).ok().flatten()?;
        (now.id == process.id).then(|| device_file(device)).flatten()
    }
}

#[cfg(target_os = "linux")]
fn terminal_device(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    device_in_stat(&stat)
}

#[cfg(not(target_os = "linux"))]
fn terminal_device(_pid: u32) -> Option<u32> {
    None
}

/// Returns `tty_nr`, the seventh field; the second one may contain spaces and brackets.
#[cfg(any(target_os = "linux", test))]
fn device_in_stat(stat: &str) -> Option<u32> {
    let behind_name = &stat[stat.rfind(')')? + 1..];
    let device: i32 = behind_name.split_ascii_whitespace().nth(4)?.parse().ok()?;
    Some(device.cast_unsigned()).filter(|device| *device != 0)
}

/// Returns the file of a terminal device, as Linux numbers them: pseudo-terminals, consoles, serial lines.
fn device_file(device: u32) -> Option<PathBuf> {
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    let name = match (major, minor) {
        (136..=143, minor) => format!("/dev/pts/{}", (major - 136) * 256 + minor),
        (4, 0..=63) => format!("/dev/tty{minor}"),
        (4, _) => format!("/dev/ttyS{}", minor - 64),
        _ => return None,
    };
    Some(PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_is_read_behind_a_name_with_brackets_and_spaces() {
        let stat = "42 (a) b (c) S 1 42 42 34819 42 4194304 1 2";
        assert_eq!(device_in_stat(stat).and_then(device_file), Some(PathBuf::from("/dev/pts/3")));
        assert_eq!(device_in_stat("42 (a) S 1 42 42 0 -1 4194304"), None);
    }

    #[test]
    fn devices_have_their_usual_names() {
        let named = |major: u32, minor: u32| {
            let device = (major << 8) | (minor & 0xff) | ((minor & 0xf_ff00) << 12);
            device_file(device).map(|path| path.display().to_string())
        };
        assert_eq!(named(136, 0).as_deref(), Some("/dev/pts/0"));
        assert_eq!(named(136, 300).as_deref(), Some("/dev/pts/300"));
        assert_eq!(named(4, 2).as_deref(), Some("/dev/tty2"));
        assert_eq!(named(4, 64).as_deref(), Some("/dev/ttyS0"));
        assert_eq!(named(9, 0), None);
    }
}

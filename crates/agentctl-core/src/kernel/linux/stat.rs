//! Parsers for the kernel's descriptions of a process: `/proc/<pid>/stat` and `/proc/<pid>/status`.

/// The fields of a `/proc/<pid>/stat` line that are used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) comm: String,
    pub(super) state: u8,
    pub(super) parent_pid: u32,
    pub(super) session: u32,
    pub(super) start_ticks: u64,
}

impl Stat {
    /// Parses a line. The name may contain any byte, `)` included, so the last `)` ends it.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let open = memchr::memchr(b'(', line)?;
        let close = memchr::memrchr(b')', line)?;
        let comm = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent_pid = fields.next()?.parse().ok()?;
        // A process that was reaped while its line was read has the session -1.
        let session = fields.nth(1)?.parse::<i64>().ok()?;
        let session = session.try_into().unwrap_or(0);
        let start_ticks = fields.nth(15)?.parse().ok()?;
        Some(Self { comm, state, parent_pid, session, start_ticks })
    }

    pub(super) fn has_exited(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    pub(super) fn is_paused(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// Reads the second number of the line `Uid:` in `/proc/<pid>/status`. The owner of the directory
/// `/proc/<pid>` is not used: it is root for every process that may not be dumped.
pub(super) fn effective_uid(status: &[u8]) -> Option<u32> {
    let line = status.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_process_that_is_being_reaped_is_read() {
        let line = b"26 (sh) X 0 -1 -1 0 -1 4228364 0 0 0 0 0 0 0 0 20 0 0 0 7200056 0 0 \n";
        let stat = Stat::parse(line).expect("a line of the kernel");
        assert!(stat.has_exited());
        assert_eq!((stat.session, stat.start_ticks), (0, 7_200_056));
    }
}

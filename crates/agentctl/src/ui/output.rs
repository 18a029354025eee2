//! The buffer in front of stdout. The report of an order is not lost if stdout cannot be written: it goes to stderr.

use std::io::{self, ErrorKind, Write};

/// Size of the buffer; more than that is written at once.
const CAPACITY: usize = 1 << 16;

/// stdout, with a buffer.
#[derive(Default)]
pub(super) struct Output {
    buffer: Vec<u8>,
    /// The data reports an order that is carried out. Without it the user would give the order again.
    is_report: bool,
    /// The reason why stdout could not be written; it is not written again.
    failed: Option<(ErrorKind, String)>,
}

impl Output {
    /// Says that the data reports an order: from here on, data that stdout does not take goes to stderr.
    pub(super) fn report_order(&mut self) {
        self.is_report = true;
    }

    /// Says whether the data reports an order.
    pub(super) fn is_report(&self) -> bool {
        self.is_report
    }

    /// Returns the reason why stdout could not be written; `None` too if its reader closed it, which is success.
    pub(super) fn failure(&self) -> Option<&str> {
        let (kind, why) = self.failed.as_ref()?;
        (*kind != ErrorKind::BrokenPipe).then_some(why)
    }

    /// Passes data on to stderr if it reports an order; the closed pipe of a reader is an error as before.
    fn divert(&mut self, data: &[u8]) -> io::Result<()> {
        let Some((kind, why)) = &self.failed else { return Ok(()) };
        if self.is_report && *kind != ErrorKind::BrokenPipe {
            // A failure to print it could not be reported.
            let _unread = io::stderr().write_all(data);
            return Ok(());
        }
        Err(io::Error::new(*kind, why.clone()))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CAPACITY {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let data = std::mem::take(&mut self.buffer);
        let mut rest = data.as_slice();
        while !rest.is_empty() && self.failed.is_none() {
            match rustix::io::retry_on_intr(|| rustix::io::write(io::stdout(), rest)) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) => {
                    let error = io::Error::from(error);
                    let why = format!("stdout cannot be written: {error}");
                    self.failed = Some((error.kind(), why));
                }
            }
        }
        self.divert(rest)
    }
}

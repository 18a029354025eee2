//! Calls, lines and frames on a connection to the daemon, each with a timeout and a maximum length.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::{ClientError, MAX_ANSWER_BYTES, invalid, too_long};
use crate::protocol::{OutgoingCall, Reply, Request};

/// A connection to the daemon.
#[derive(Debug)]
pub(super) struct Wire {
    stream: BufReader<UnixStream>,
    next: u64,
}

impl Wire {
    /// Reads and writes on this connection.
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream: BufReader::with_capacity(1 << 16, stream), next: 0 }
    }

    /// Returns a handle with which the connection can be ended from another thread.
    pub(super) fn handle(&self) -> io::Result<UnixStream> {
        self.stream.get_ref().try_clone()
    }

    /// Sends a request and parses the answer.
    pub(super) fn call<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        limit: Duration,
    ) -> Result<T, ClientError> {
        let line = self.ask(request, limit)?;
        let reply: Reply<T> = serde_json::from_slice(&line).map_err(invalid)?;
        match reply.outcome() {
            Some(outcome) => outcome.map_err(ClientError::Refused),
            None => Err(invalid("it sent an invalid answer")),
        }
    }

    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Vec<u8>, ClientError> {
        let until = Instant::now() + limit;
        self.next += 1;
        let call = OutgoingCall::new(self.next, request);
        let call = serde_json::to_string(&call).map_err(invalid)?;
        let stream = self.stream.get_mut();
        // A timeout of zero is an error.
        let limit = limit.max(Duration::from_millis(1));
        stream.set_write_timeout(Some(limit)).map_err(ClientError::Connection)?;
        let sent = stream.write_all(format!("{call}\n").as_bytes());
        // Also read after a failed write: the daemon may have sent a reason before it closed.
        match (self.line(Some(until)), sent) {
            (Ok(line), _) => Ok(line),
            (Err(_), Err(error)) => Err(timeout_or_error(error)),
            (Err(error), Ok(())) => Err(error),
        }
    }

    /// Reads one frame: its length in four bytes, the lowest first, and that many bytes.
    pub(super) fn frame(&mut self, until: Instant, allowed: usize) -> Result<Vec<u8>, ClientError> {
        let length = self.exactly(4, until)?;
        let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
        match usize::try_from(length) {
            Ok(length) if length <= allowed => self.exactly(length, until),
            _ => Err(too_long()),
        }
    }

    /// Reads this many bytes. Memory is taken as they arrive.
    fn exactly(&mut self, length: usize, until: Instant) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let buffer = self.fill(Some(until))?;
            let used = buffer.len().min(length - bytes.len());
            bytes.extend_from_slice(&buffer[..used]);
            self.stream.consume(used);
        }
        Ok(bytes)
    }

    /// Returns bytes that have arrived, at least one; waits for it until this moment, or for ever.
    fn fill(&mut self, until: Option<Instant>) -> Result<&[u8], ClientError> {
        while self.stream.buffer().is_empty() {
            let left = until.map(|u| u.saturating_duration_since(Instant::now()));
            if left.is_some_and(|l| l.is_zero()) {
                return Err(ClientError::TimedOut);
            }
            self.stream.get_mut().set_read_timeout(left).map_err(ClientError::Connection)?;
            match self.stream.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(timeout_or_error(error)),
                Ok([]) => return Err(ClientError::Connection(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
            }
        }
        Ok(self.stream.buffer())
    }

    /// Reads one line; without a moment it waits for ever.
    pub(super) fn line(&mut self, until: Option<Instant>) -> Result<Vec<u8>, ClientError> {
        let mut line = Vec::new();
        loop {
            let buffer = self.fill(until)?;
            let end = memchr::memchr(b'\n', buffer);
            let used = end.map_or(buffer.len(), |at| at + 1);
            line.extend_from_slice(&buffer[..end.unwrap_or(used)]);
            self.stream.consume(used);
            if line.len() > MAX_ANSWER_BYTES {
                return Err(too_long());
            }
            if end.is_some() {
                return Ok(line);
            }
        }
    }
}

/// Maps a timeout to `TimedOut`, any other error to `Connection`.
fn timeout_or_error(error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::TimedOut,
        _ => ClientError::Connection(error),
    }
}

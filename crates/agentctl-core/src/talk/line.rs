//! One line to a Unix socket of a process, and one line in reply.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{TalkError, connect_to};
use crate::kernel::Kernel;
use crate::model::ProcId;

/// Longest reply.
const MAX_REPLY_BYTES: u64 = 64 << 10;

/// Sends a value as one line to the socket that this process serves, and reads its reply.
pub fn exchange<T: DeserializeOwned>(
    path: &Path,
    kernel: &Kernel,
    server: &ProcId,
    value: &impl Serialize,
    limit: Duration,
) -> Result<T, TalkError> {
    let stream = connect_to(path, kernel, server, limit)?;
    let exchange = || -> io::Result<Vec<u8>> {
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        (&stream).write_all(&line)?;
        let mut reply = Vec::new();
        BufReader::new((&stream).take(MAX_REPLY_BYTES)).read_until(b'\n', &mut reply)?;
        Ok(reply)
    };
    let reply = exchange().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => TalkError::Late,
        _ => TalkError::HungUp(format!(": {error}")),
    })?;
    if reply.is_empty() {
        return Err(TalkError::HungUp(String::new()));
    }
    serde_json::from_slice(&reply).map_err(|error| TalkError::Protocol(error.to_string()))
}

//! Asking an agent's own server, briefly and politely.
//!
//! The core performs, bounds and closes these conversations; an adapter only says what to ask. A
//! socket is spoken to only if it belongs to this user.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// Largest frame we accept.
const FRAME_BYTES: usize = 8 << 20;

/// Why a server did not answer.
#[derive(Debug, thiserror::Error)]
pub enum TalkError {
    /// The socket is not there or nobody listens.
    #[error("the server cannot be reached: {0}")]
    Unreachable(std::io::Error),
    /// Somebody else owns the socket.
    #[error("the socket belongs to uid {0}")]
    Foreign(u32),
    /// The time was up.
    #[error("the server did not answer in time")]
    Late,
    /// The server broke the protocol.
    #[error("the server spoke nonsense: {0}")]
    Protocol(String),
    /// The server refused the request.
    #[error("the server refused: {0}")]
    Refused(String),
}

/// A stream whose every read and write ends in time, however slowly the other side drips.
struct Bounded {
    stream: UnixStream,
    /// `None` once it only listens, and never blocks.
    until: Option<Instant>,
}

impl Bounded {
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(until) = self.until else { return Ok(None) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Bounded {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A JSON-RPC conversation over a WebSocket on a Unix socket.
pub struct RpcSocket {
    socket: WebSocket<Bounded>,
    next_id: u64,
}

impl RpcSocket {
    /// Connects to a socket of this user; the whole conversation must fit into `limit`.
    pub fn connect(path: &Path, uid: u32, limit: Duration) -> Result<Self, TalkError> {
        let until = Instant::now() + limit;
        let owner = std::fs::metadata(path).map_err(TalkError::Unreachable)?.uid();
        if owner != uid {
            return Err(TalkError::Foreign(owner));
        }
        let stream = UnixStream::connect(path).map_err(TalkError::Unreachable)?;
        if let Some(peer) = peer_uid(&stream).filter(|peer| *peer != uid) {
            return Err(TalkError::Foreign(peer));
        }
        let stream = Bounded { stream, until: Some(until) };
        let config = tungstenite::protocol::WebSocketConfig::default()
            .max_message_size(Some(FRAME_BYTES))
            .max_frame_size(Some(FRAME_BYTES));
        let (socket, _) =
            tungstenite::client::client_with_config("ws://localhost/", stream, Some(config))
                .map_err(handshake_error)?;
        Ok(Self { socket, next_id: 1 })
    }

    /// Sends a notification: nothing comes back.
    pub fn notify(&mut self, method: &str) -> Result<(), TalkError> {
        self.send(&json!({ "method": method }))
    }

    /// Asks one question and waits for its answer, passing over everything else that arrives.
    pub fn ask(&mut self, method: &str, params: &Value) -> Result<Value, TalkError> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "id": id, "method": method, "params": params }))?;
        loop {
            let text = match self.receive()? {
                Message::Text(text) => text,
                Message::Close(_) => return Err(TalkError::Protocol("it hung up".into())),
                _ => continue,
            };
            let mut reply: Value =
                serde_json::from_str(&text).map_err(|e| TalkError::Protocol(e.to_string()))?;
            if reply.get("id").and_then(Value::as_u64) != Some(id) {
                continue;
            }
            if let Some(error) = reply.get("error") {
                let message =
                    error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
                return Err(TalkError::Refused(message.to_owned()));
            }
            return Ok(reply.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }

    /// Goes on listening only, for as long as it is kept.
    pub fn listen(mut self) -> io::Result<Pushes> {
        let bounded = self.socket.get_mut();
        bounded.until = None;
        bounded.stream.set_nonblocking(true)?;
        Ok(Pushes { socket: self.socket })
    }

    fn send(&mut self, value: &Value) -> Result<(), TalkError> {
        self.socket.send(Message::text(value.to_string())).map_err(|e| late_or(&e))
    }

    fn receive(&mut self) -> Result<Message, TalkError> {
        self.socket.read().map_err(|e| late_or(&e))
    }
}

/// A server that says by itself when something changes: a hint to look again.
pub struct Pushes {
    socket: WebSocket<Bounded>,
}

impl Pushes {
    /// Passes over what was said so far; says whether the server is still there.
    pub fn skip(&mut self) -> bool {
        loop {
            match self.socket.read() {
                Ok(Message::Close(_)) => return false,
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) => {
                    return error.kind() == io::ErrorKind::WouldBlock;
                }
                Err(_) => return false,
            }
        }
    }
}

impl AsFd for Pushes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().stream.as_fd()
    }
}

/// Where a server says by itself when something changes, and how it is greeted so that it does.
#[derive(Clone, Debug)]
pub struct Pushing {
    /// Its socket.
    pub socket: PathBuf,
    /// Says what it wants to hear first.
    pub greet: fn(&mut RpcSocket) -> Result<(), TalkError>,
}

impl Pushing {
    /// Connects, greets and listens.
    pub fn follow(&self, uid: u32, limit: Duration) -> Result<Pushes, TalkError> {
        let mut socket = RpcSocket::connect(&self.socket, uid, limit)?;
        (self.greet)(&mut socket)?;
        socket.listen().map_err(TalkError::Unreachable)
    }
}

fn late_or(error: &tungstenite::Error) -> TalkError {
    match error {
        tungstenite::Error::Io(io)
            if matches!(
                io.kind(),
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            ) =>
        {
            TalkError::Late
        }
        other => TalkError::Protocol(other.to_string()),
    }
}

fn handshake_error<R: tungstenite::handshake::HandshakeRole>(
    error: tungstenite::HandshakeError<R>,
) -> TalkError {
    match error {
        tungstenite::HandshakeError::Failure(error) => late_or(&error),
        // A blocking stream is interrupted only by its time-out.
        tungstenite::HandshakeError::Interrupted(_) => TalkError::Late,
    }
}

#[cfg(target_os = "linux")]
fn peer_uid(stream: &UnixStream) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|cred| cred.uid.as_raw())
}

/// Elsewhere the socket's owner has to do.
#[cfg(not(target_os = "linux"))]
fn peer_uid(_stream: &UnixStream) -> Option<u32> {
    None
}

//! Short conversations with an agent's own server.
//!
//! The core connects, limits and closes these conversations; an adapter only says what to ask. A Unix
//! socket is used only if it belongs to this user, a remote server only if the configuration names it.

pub mod base64;
mod endpoint;
pub mod http;
pub mod line;
mod socket_path;
mod wire;

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

pub use self::endpoint::{Endpoint, TlsOptions, Trust};
pub use self::socket_path::SocketPath;
use self::wire::{Bounded, Socket, Wire};
use crate::kernel::Kernel;
use crate::model::ProcId;

/// Largest frame that is accepted.
const MAX_FRAME_BYTES: usize = 16 << 20;

/// Why a conversation failed.
#[derive(Debug, thiserror::Error)]
pub enum TalkError {
    /// The socket does not exist or has no listener.
    #[error("the server cannot be reached: {0}")]
    Unreachable(std::io::Error),
    /// Another user owns the socket.
    #[error("the socket belongs to uid {0}")]
    Foreign(u32),
    /// The socket is served by another process than expected.
    #[error("its socket is served by another process{}", .0.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    OtherProcess(Option<u32>),
    /// Another user serves the connection, or the user cannot be determined.
    #[error("{}", stranger(*.0))]
    Stranger(Option<u32>),
    /// The server is on another machine and the address is not `wss://`.
    #[error("it is not on this machine and its address is not wss://")]
    Insecure,
    /// The server's certificate is not accepted.
    #[error("its certificate is not accepted: {0}")]
    Certificate(String),
    /// The deadline passed.
    #[error("the server did not answer in time")]
    Late,
    /// The server closed the connection during the conversation.
    #[error("the server closed the connection{0}")]
    HungUp(String),
    /// The server broke the protocol.
    #[error("the server sent an invalid answer: {0}")]
    Protocol(String),
    /// The server does not know the resource that the request names.
    #[error("the server has nothing of this name")]
    NotFound,
    /// The server refused the request.
    #[error("the server refused: {0}")]
    Refused(String),
}

impl TalkError {
    /// Says whether nothing was sent: the server could not be reached, or is not the one that was expected.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::Foreign(_) | Self::OtherProcess(_) | Self::Stranger(_)
        )
    }
}

fn stranger(uid: Option<u32>) -> String {
    match uid {
        Some(uid) => format!("its port on this machine belongs to uid {uid}; no secret was sent"),
        None => "the user of its port on this machine is unknown; no secret was sent".into(),
    }
}

/// Checks, before a secret is sent over a loopback connection, that this user or root serves it: every user
/// of the machine can listen there.
pub(crate) fn check_listener(kernel: &Kernel, stream: &TcpStream) -> Result<(), TalkError> {
    let theirs = stream.peer_addr().map_err(TalkError::Unreachable)?;
    if !theirs.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let ours = stream.local_addr().map_err(TalkError::Unreachable)?;
    match kernel.serving_uid(ours, theirs).map_err(TalkError::Unreachable)? {
        Some(uid) if uid == kernel.uid() || uid == 0 => Ok(()),
        other => Err(TalkError::Stranger(other)),
    }
}

/// Connects to a Unix socket with a timeout. A plain `connect` blocks for ever on a listener that never
/// accepts and whose queue is full.
pub fn connect_unix(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    if limit.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let short = SocketPath::new(path)?;
    let address = SocketAddrUnix::new(short.path())?;
    #[cfg(target_os = "linux")]
    let flags = SocketFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = SocketFlags::empty();
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The send timeout also limits the connect.
    set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    rustix::net::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

/// Connects to a Unix socket that this process of this user serves: a path alone proves nothing.
pub fn connect_to(
    path: &Path,
    kernel: &Kernel,
    server: &ProcId,
    limit: Duration,
) -> Result<UnixStream, TalkError> {
    let uid = kernel.uid();
    let owner = std::fs::metadata(path).map_err(TalkError::Unreachable)?.uid();
    if owner != uid {
        return Err(TalkError::Foreign(owner));
    }
    let stream = connect_unix(path, limit).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => TalkError::Late,
        _ => TalkError::Unreachable(error),
    })?;
    if let Some(peer) = peer_uid(&stream).filter(|peer| *peer != uid) {
        return Err(TalkError::Foreign(peer));
    }
    let peer = kernel.peer(&stream).map_err(TalkError::Unreachable)?;
    if peer.as_ref().map(|peer| &peer.id) != Some(server) {
        return Err(TalkError::OtherProcess(peer.map(|peer| peer.id.pid)));
    }
    Ok(stream)
}

/// A conversation in JSON over a WebSocket, with one deadline for all of it.
pub struct JsonSocket {
    socket: WebSocket<Wire>,
}

impl JsonSocket {
    /// Connects to a Unix socket of this user.
    ///
    /// Nothing is sent unless `server` is the process that listens there: a path alone proves nothing.
    pub fn unix(
        path: &Path,
        kernel: &Kernel,
        server: &ProcId,
        limit: Duration,
    ) -> Result<Self, TalkError> {
        let until = Instant::now() + limit;
        let stream = connect_to(path, kernel, server, limit)?;
        Self::over(Wire::Plain(Bounded::new(Socket::Unix(stream), until)), "ws://localhost/")
    }

    /// Connects to a remote server. A redirect is an error.
    pub fn endpoint(
        endpoint: &Endpoint,
        tls: &TlsOptions,
        limit: Duration,
    ) -> Result<Self, TalkError> {
        let wire = endpoint.connect(tls, limit)?;
        Self::over(wire, &endpoint.to_string())
    }

    fn over(wire: Wire, url: &str) -> Result<Self, TalkError> {
        let config = tungstenite::protocol::WebSocketConfig::default()
            .max_message_size(Some(MAX_FRAME_BYTES))
            .max_frame_size(Some(MAX_FRAME_BYTES));
        let (socket, _) = tungstenite::client::client_with_config(url, wire, Some(config))
            .map_err(handshake_error)?;
        Ok(Self { socket })
    }

    /// Checks that a secret may be sent: over TLS the certificate has proved the server, on the loopback
    /// the kernel names the user that serves.
    pub fn check_listener(&self, kernel: &Kernel) -> Result<(), TalkError> {
        match self.socket.get_ref() {
            Wire::Plain(bounded) => match bounded.tcp() {
                Some(stream) => check_listener(kernel, stream),
                None => Ok(()),
            },
            Wire::Tls(_) => Ok(()),
        }
    }

    /// Sends one value.
    pub fn send(&mut self, value: &Value) -> Result<(), TalkError> {
        self.socket.send(Message::text(value.to_string())).map_err(|e| late_or(&e))
    }

    /// Waits for the next value.
    pub fn receive(&mut self) -> Result<Value, TalkError> {
        loop {
            return match self.socket.read().map_err(|e| late_or(&e))? {
                Message::Text(text) => {
                    serde_json::from_str(&text).map_err(|e| TalkError::Protocol(e.to_string()))
                }
                Message::Close(frame) => {
                    let why = frame.map(|f| format!(" ({}, {})", u16::from(f.code), f.reason));
                    Err(TalkError::HungUp(why.unwrap_or_default()))
                }
                _ => continue,
            };
        }
    }

    /// Turns the conversation into a non-blocking subscription to the messages that `matters` accepts. A
    /// server that sends nothing for longer than `silence` counts as gone.
    pub fn listen(
        mut self,
        matters: impl FnMut(&str) -> bool + Send + 'static,
        silence: Option<Duration>,
    ) -> Result<Pushes, TalkError> {
        self.socket.get_mut().never_block().map_err(TalkError::Unreachable)?;
        let matters = Box::new(matters);
        Ok(Pushes { socket: self.socket, matters, silence, heard_at: Instant::now() })
    }
}

/// Most messages that are kept while an answer is awaited; older ones are dropped.
const MAX_UNREAD: usize = 1024;

/// A JSON-RPC conversation over a WebSocket on a Unix socket.
pub struct RpcSocket {
    socket: JsonSocket,
    next_id: u64,
    /// Requests and notifications of the server that arrived while an answer was awaited.
    unread: VecDeque<Value>,
}

impl RpcSocket {
    /// Connects to the socket of this server; `limit` is the timeout of the whole conversation.
    pub fn connect(
        path: &Path,
        kernel: &Kernel,
        server: &ProcId,
        limit: Duration,
    ) -> Result<Self, TalkError> {
        let socket = JsonSocket::unix(path, kernel, server, limit)?;
        Ok(Self { socket, next_id: 1, unread: VecDeque::new() })
    }

    /// Sends a notification, which has no answer.
    pub fn notify(&mut self, method: &str) -> Result<(), TalkError> {
        self.socket.send(&json!({ "method": method }))
    }

    /// Answers a request of the server.
    pub fn respond(&mut self, id: &Value, result: &Value) -> Result<(), TalkError> {
        self.socket.send(&json!({ "id": id, "result": result }))
    }

    /// Returns the next request or notification of the server; `None` if there is none within this time.
    pub fn next_message(&mut self, limit: Duration) -> Result<Option<Value>, TalkError> {
        if let Some(message) = self.unread.pop_front() {
            return Ok(Some(message));
        }
        let wire = self.socket.socket.get_mut();
        let until = Instant::now() + limit;
        let whole = wire.set_deadline(until).unwrap_or(until);
        wire.set_deadline(until.min(whole));
        let received = self.socket.receive();
        self.socket.socket.get_mut().set_deadline(whole);
        match received {
            Ok(message) => Ok(Some(message)),
            Err(TalkError::Late) if Instant::now() < whole => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends one request and waits for its answer. Messages of the server that arrive before the answer are
    /// kept for [`RpcSocket::next_message`].
    pub fn ask(&mut self, method: &str, params: &Value) -> Result<Value, TalkError> {
        let id = self.next_id;
        self.next_id += 1;
        self.socket.send(&json!({ "id": id, "method": method, "params": params }))?;
        loop {
            let mut reply = self.socket.receive()?;
            if reply.get("method").is_some() {
                if self.unread.len() >= MAX_UNREAD {
                    self.unread.pop_front();
                }
                self.unread.push_back(reply);
                continue;
            }
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

    /// Turns the conversation into a non-blocking subscription.
    pub fn listen(self) -> Result<Pushes, TalkError> {
        self.socket.listen(|_| true, None)
    }
}

/// A subscription to a server that announces changes. A message is a hint to look again.
pub struct Pushes {
    socket: WebSocket<Wire>,
    matters: Box<dyn FnMut(&str) -> bool + Send>,
    silence: Option<Duration>,
    heard_at: Instant,
}

/// The messages since the last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// At least one that may matter.
    News,
    /// None that matters.
    Nothing,
    /// The server is gone.
    Gone,
}

impl Pushes {
    /// Reads and discards all pending messages.
    pub fn skip(&mut self) -> Heard {
        let mut heard = Heard::Nothing;
        loop {
            let read = self.socket.read();
            if read.is_ok() {
                self.heard_at = Instant::now();
            }
            match read {
                Ok(Message::Close(_)) => return Heard::Gone,
                Ok(Message::Text(text)) if (self.matters)(&text) => heard = Heard::News,
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    let silent = self.patience().is_some_and(|left| left.is_zero());
                    return if silent { Heard::Gone } else { heard };
                }
                Err(_) => return Heard::Gone,
            }
        }
    }

    /// Returns the time until a silent server counts as gone; `None` if there is no limit.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        self.silence.map(|silence| silence.saturating_sub(self.heard_at.elapsed()))
    }
}

impl AsFd for Pushes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}

type Opens = dyn Fn(Duration) -> Result<Pushes, TalkError> + Send + Sync;

/// How to subscribe to a server that announces changes.
#[derive(Clone)]
pub struct Pushing {
    /// Its name: there is one subscription per server.
    pub name: String,
    open: Arc<Opens>,
}

impl Pushing {
    /// Creates it from the server's name and the function that connects and subscribes.
    pub fn new(
        name: impl Into<String>,
        open: impl Fn(Duration) -> Result<Pushes, TalkError> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), open: Arc::new(open) }
    }

    /// Connects and subscribes.
    pub fn follow(&self, limit: Duration) -> Result<Pushes, TalkError> {
        (self.open)(limit)
    }
}

impl std::fmt::Debug for Pushing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pushing").field(&self.name).finish()
    }
}

fn late_or(error: &tungstenite::Error) -> TalkError {
    use tungstenite::error::ProtocolError;
    match error {
        tungstenite::Error::Io(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => TalkError::Late,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => TalkError::HungUp(String::new()),
            _ => uncertified(error).unwrap_or_else(|| TalkError::Protocol(error.to_string())),
        },
        tungstenite::Error::ConnectionClosed
        | tungstenite::Error::AlreadyClosed
        | tungstenite::Error::Protocol(
            ProtocolError::ResetWithoutClosingHandshake | ProtocolError::HandshakeIncomplete,
        ) => TalkError::HungUp(String::new()),
        tungstenite::Error::Http(answer) => {
            TalkError::Protocol(format!("it answered {} instead of a WebSocket", answer.status()))
        }
        other => TalkError::Protocol(other.to_string()),
    }
}

/// TLS errors arrive inside of an I/O error.
fn uncertified(error: &io::Error) -> Option<TalkError> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let why = match inner {
        rustls::Error::InvalidCertificate(error) => match error {
            rustls::CertificateError::UnknownIssuer => "no trusted authority has signed it".into(),
            rustls::CertificateError::ApplicationVerificationFailure => {
                "its fingerprint is not the one that was named".into()
            }
            rustls::CertificateError::Other(_) => "it is self-signed".into(),
            other => other.to_string(),
        },
        rustls::Error::NoCertificatesPresented => "it has none".into(),
        _ => return None,
    };
    Some(TalkError::Certificate(why))
}

fn handshake_error<R: tungstenite::handshake::HandshakeRole>(
    error: tungstenite::HandshakeError<R>,
) -> TalkError {
    match error {
        tungstenite::HandshakeError::Failure(error) => late_or(&error),
        // A blocking stream is interrupted only by its timeout.
        tungstenite::HandshakeError::Interrupted(_) => TalkError::Late,
    }
}

#[cfg(target_os = "linux")]
fn peer_uid(stream: &UnixStream) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|cred| cred.uid.as_raw())
}

/// Other systems: the owner of the socket file is checked only.
#[cfg(not(target_os = "linux"))]
fn peer_uid(_stream: &UnixStream) -> Option<u32> {
    None
}

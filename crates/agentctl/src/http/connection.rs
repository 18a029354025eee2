//! Connections with limits: their number, the bytes of a request, and time. axum has no such limits.
//! When all connections are in use, a new connection evicts the oldest one that has sent no request yet.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep};

use super::Peer;

/// Timeout for the head of the request, from the accept on.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Lifetime of a connection after the head of its request, unless its route sets another.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(10);
/// Maximum size of the head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Bytes that a body may have above its limit, for the framing of its chunks. The body itself is limited by its reader,
/// which answers; this limit closes the connection.
const FRAMING_BYTES: usize = 64 << 10;
/// Pause before `accept` is retried after it failed, mostly for lack of file descriptors.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The bytes that end the head of a request.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// How much a server takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of open connections.
    pub(crate) connections: usize,
    /// Maximum size of the body of a request.
    pub(crate) body_bytes: usize,
}

impl Limits {
    /// Few connections, and no bodies.
    pub(crate) fn small() -> Self {
        Self { connections: 32, body_bytes: 0 }
    }
}

/// Accepts connections of any kind.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                let server = stream.local_addr();
                let peer = server.map_or(Peer::Unknown, |server| Peer::Tcp { server, client });
                Ok((Stream::Tcp(stream), peer))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let held = stream.as_fd().try_clone_to_owned();
                let peer = held.map_or(Peer::Unknown, |held| Peer::Unix(Arc::new(held)));
                Ok((Stream::Unix(stream), peer))
            }
        }
    }
}

/// The bytes of a connection of any kind.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A listener that accepts a limited number of connections at once.
pub(super) struct BoundedListener {
    listener: Listener,
    limits: Limits,
    slots: Arc<Semaphore>,
    /// Connections that have sent no whole request head yet, the oldest first.
    idle: VecDeque<Arc<Eviction>>,
}

/// Closes an idle connection. Empty once the connection has sent its request head.
struct Eviction(Mutex<Option<oneshot::Sender<()>>>);

impl Eviction {
    /// Takes the sender that closes the connection; `None` if it is no longer idle.
    fn take(&self) -> Option<oneshot::Sender<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_idle(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_some_and(|s| !s.is_closed())
    }
}

impl BoundedListener {
    pub(super) fn new(listener: Listener, limits: Limits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.connections));
        Self { listener, limits, slots, idle: VecDeque::new() }
    }

    /// Waits for a slot. If all are in use, evicts the oldest idle connection; if none is idle, waits for
    /// a connection to end, which takes at most its lifetime.
    async fn slot(&mut self) -> Option<OwnedSemaphorePermit> {
        self.idle.retain(|eviction| eviction.is_idle());
        if self.slots.available_permits() == 0 {
            let oldest = self.idle.pop_front().and_then(|eviction| eviction.take());
            let _gone = oldest.map(|sender| sender.send(()));
        }
        Arc::clone(&self.slots).acquire_owned().await.ok()
    }
}

impl axum::serve::Listener for BoundedListener {
    type Io = Connection;
    type Addr = ();

    async fn accept(&mut self) -> (Connection, ()) {
        loop {
            let Ok((stream, peer)) = self.listener.accept().await else {
                sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            };
            let Some(slot) = self.slot().await else { continue };
            let (sender, evicted) = oneshot::channel();
            let eviction = Arc::new(Eviction(Mutex::new(Some(sender))));
            self.idle.push_back(Arc::clone(&eviction));
            let connection = Connection {
                stream,
                timer: Box::pin(sleep(HEAD_TIMEOUT)),
                bytes_left: MAX_HEAD_BYTES,
                body_bytes: self.limits.body_bytes + FRAMING_BYTES,
                stage: Stage::Head(PendingHead {
                    eviction,
                    evicted,
                    tail: Vec::new(),
                    has_begun: false,
                }),
                lifetime: Lifetime(Arc::new(Mutex::new(DEFAULT_LIFETIME))),
                peer,
                _slot: slot,
            };
            return (connection, ());
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The facts about its connection that come with a request.
#[derive(Clone)]
pub(super) struct ConnectionInfo {
    pub(super) lifetime: Lifetime,
    pub(super) peer: Peer,
}

/// How long a connection may last after the head of its request. The route sets it; the connection
/// enforces it.
#[derive(Clone)]
pub(super) struct Lifetime(Arc<Mutex<Duration>>);

impl Lifetime {
    /// Replaces the lifetime. It still counts from the head of the request.
    pub(super) fn set(&self, lifetime: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lifetime;
    }

    fn get(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connected<IncomingStream<'_, BoundedListener>> for ConnectionInfo {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        let connection = stream.io();
        Self { lifetime: connection.lifetime.clone(), peer: connection.peer.clone() }
    }
}

/// One connection.
pub(super) struct Connection {
    stream: Stream,
    timer: Pin<Box<Sleep>>,
    /// The bytes that it may still send, of the head or of the body.
    bytes_left: usize,
    body_bytes: usize,
    stage: Stage,
    lifetime: Lifetime,
    peer: Peer,
    _slot: OwnedSemaphorePermit,
}

/// How much of its request a connection has sent.
enum Stage {
    /// No whole head yet.
    Head(PendingHead),
    /// The head was complete at this time.
    Request(Instant),
}

/// A connection whose request has no whole head yet.
struct PendingHead {
    eviction: Arc<Eviction>,
    evicted: oneshot::Receiver<()>,
    /// The last bytes read: the end of the head may be split over two reads.
    tail: Vec<u8>,
    /// A byte of the request line was read.
    has_begun: bool,
}

impl Connection {
    /// Fails when the connection has timed out or was evicted.
    fn check_limits(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let evicted = match &mut self.stage {
            Stage::Head(head) => Pin::new(&mut head.evicted).poll(cx) == Poll::Ready(Ok(())),
            Stage::Request(since) => {
                let deadline = *since + self.lifetime.get();
                if self.timer.deadline() != deadline {
                    self.timer.as_mut().reset(deadline);
                }
                false
            }
        };
        // The timer wakes the connection; it may fire a millisecond after its deadline.
        let fired = self.timer.as_mut().poll(cx).is_ready();
        if fired || self.timer.deadline() <= Instant::now() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if evicted { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    /// Counts the bytes read, and looks for the end of the head in them. A connection with a whole head cannot be
    /// evicted. Fails if it has sent too much.
    fn count(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut counted = bytes.len();
        if let Stage::Head(head) = &mut self.stage {
            let before = head.tail.len();
            // Empty lines before a request belong to no head; without this, two of them would be a whole one.
            let blank = if head.has_begun {
                0
            } else {
                bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count()
            };
            head.has_begun |= blank < bytes.len();
            head.tail.extend_from_slice(&bytes[blank..]);
            let end = head.tail.windows(HEAD_END.len()).position(|window| window == HEAD_END);
            if let Some(end) = end {
                drop(head.eviction.take());
                let of_head = blank + (end + HEAD_END.len()).saturating_sub(before);
                if of_head > self.bytes_left {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                (self.bytes_left, counted) = (self.body_bytes, bytes.len() - of_head);
                let now = Instant::now();
                self.stage = Stage::Request(now);
                self.timer.as_mut().reset(now + self.lifetime.get());
            } else {
                let surplus = head.tail.len().saturating_sub(HEAD_END.len() - 1);
                head.tail.drain(..surplus);
            }
        }
        let left = self.bytes_left.checked_sub(counted);
        self.bytes_left = left.ok_or(io::ErrorKind::InvalidData)?;
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_limits(cx)?;
        let before = into.filled().len();
        let read = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, into),
        };
        self.count(&into.filled()[before..])?;
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_limits(cx)?;
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_limits(cx)?;
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

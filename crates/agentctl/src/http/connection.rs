//! TCP connections with limits: their number, the bytes of a request, and time. axum has no such limits.
//! When all connections are in use, a new connection evicts the oldest one that has sent no request yet.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep};

/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 32;
/// Timeout for the head of the request, from the accept on.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Lifetime of a connection after the head of its request, unless its route sets another.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(10);
/// Maximum size of a request, headers included.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// Pause before `accept` is retried after it failed, mostly for lack of file descriptors.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The bytes that end the head of a request.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A listener that accepts at most [`MAX_CONNECTIONS`] at once.
pub(super) struct BoundedListener {
    listener: TcpListener,
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
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)), idle: VecDeque::new() }
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

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let Ok((stream, from)) = self.listener.accept().await else {
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
                bytes_left: MAX_REQUEST_BYTES,
                stage: Stage::Head(PendingHead { eviction, evicted, tail: Vec::new() }),
                lifetime: Lifetime(Arc::new(Mutex::new(DEFAULT_LIFETIME))),
                _slot: slot,
            };
            return (connection, from);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
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

impl Connected<IncomingStream<'_, BoundedListener>> for Lifetime {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        stream.io().lifetime.clone()
    }
}

/// One connection.
pub(super) struct Connection {
    stream: TcpStream,
    timer: Pin<Box<Sleep>>,
    bytes_left: usize,
    stage: Stage,
    lifetime: Lifetime,
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

    /// Looks for the end of the head in the bytes read. A connection with a whole head cannot be evicted.
    fn look_for_head_end(&mut self, bytes: &[u8]) {
        let Stage::Head(head) = &mut self.stage else { return };
        head.tail.extend_from_slice(bytes);
        if head.tail.windows(HEAD_END.len()).any(|window| window == HEAD_END) {
            drop(head.eviction.take());
            let now = Instant::now();
            self.stage = Stage::Request(now);
            self.timer.as_mut().reset(now + self.lifetime.get());
        } else {
            let surplus = head.tail.len().saturating_sub(HEAD_END.len() - 1);
            head.tail.drain(..surplus);
        }
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
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        let more = into.filled().len() - before;
        self.look_for_head_end(&into.filled()[before..]);
        match self.bytes_left.checked_sub(more) {
            Some(left) => self.bytes_left = left,
            None => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
        }
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
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_limits(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

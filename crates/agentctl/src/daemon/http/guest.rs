//! Connections: so many at once, so many bytes of request, so much time. The server behind them knows no
//! such limits. A connection that has not asked anything yet gives way to a new one where there is no room.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep};

/// So many connections at once; a new one takes the place of the oldest that has asked nothing yet.
const GUESTS_MOST: usize = 32;
/// A connection that has not sent the head of its request by then is ended.
const HEAD_LIMIT: Duration = Duration::from_secs(2);
/// A connection lasts no longer than this after that.
const STAY_LIMIT: Duration = Duration::from_secs(10);
/// A request has no more bytes than this, its headers included.
const REQUEST_MOST: usize = 16 << 10;
/// So long is a pause when no descriptor is to be had.
const BREATH: Duration = Duration::from_millis(100);
/// Ends the head of a request.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Lets in as many as there is room for.
pub(super) struct Door {
    listener: TcpListener,
    room: Arc<Semaphore>,
    /// Those that have asked nothing yet, the oldest first.
    idle: VecDeque<Arc<Leave>>,
}

/// Ends a connection that has asked nothing yet.
struct Leave(Mutex<Option<oneshot::Sender<()>>>);

impl Leave {
    /// Takes the way to end the connection; there is none once it has asked or has gone.
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

impl Door {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(GUESTS_MOST)), idle: VecDeque::new() }
    }

    /// Returns a seat: a free one, or that of the oldest connection that has asked nothing yet.
    async fn seat(&mut self) -> Option<OwnedSemaphorePermit> {
        self.idle.retain(|leave| leave.is_idle());
        if self.room.available_permits() == 0 {
            let oldest = self.idle.pop_front().and_then(|leave| leave.take());
            // Where all have asked, one of them will be done soon.
            let _gone = oldest.map(|sender| sender.send(()));
        }
        Arc::clone(&self.room).acquire_owned().await.ok()
    }
}

impl Listener for Door {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        loop {
            let Ok((stream, from)) = self.listener.accept().await else {
                // Out of descriptors: whoever is connected may finish and give one back.
                sleep(BREATH).await;
                continue;
            };
            let Some(seat) = self.seat().await else { continue };
            let (sender, told) = oneshot::channel();
            let leave = Arc::new(Leave(Mutex::new(Some(sender))));
            self.idle.push_back(Arc::clone(&leave));
            let limit = Box::pin(sleep(HEAD_LIMIT));
            let (left, tail) = (REQUEST_MOST, Vec::new());
            let asking = Some(Asking { leave, told, tail });
            return (Guest { stream, limit, left, asking, _seat: seat }, from);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection.
pub(super) struct Guest {
    stream: TcpStream,
    limit: Pin<Box<Sleep>>,
    left: usize,
    /// Until the head of its request is there.
    asking: Option<Asking>,
    _seat: OwnedSemaphorePermit,
}

/// What is known of a connection whose request has no whole head yet.
struct Asking {
    leave: Arc<Leave>,
    told: oneshot::Receiver<()>,
    /// The last bytes, in which the end of the head may have begun.
    tail: Vec<u8>,
}

impl Guest {
    fn is_late(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let gives_way = match &mut self.asking {
            Some(asking) => Pin::new(&mut asking.told).poll(cx) == Poll::Ready(Ok(())),
            None => false,
        };
        match self.limit.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending if gives_way => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// Takes note of what was read: with the head of a request whole, it is no longer idle.
    fn heard(&mut self, bytes: &[u8]) {
        let Some(asking) = &mut self.asking else { return };
        asking.tail.extend_from_slice(bytes);
        if asking.tail.windows(HEAD_END.len()).any(|window| window == HEAD_END) {
            // Nobody can end it from now on but its own time.
            drop(asking.leave.take());
            self.asking = None;
            self.limit.as_mut().reset(Instant::now() + STAY_LIMIT);
        } else {
            let kept = asking.tail.len().saturating_sub(HEAD_END.len() - 1);
            asking.tail.drain(..kept);
        }
    }
}

impl AsyncRead for Guest {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.is_late(cx)?;
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        let more = into.filled().len() - before;
        self.heard(&into.filled()[before..]);
        match self.left.checked_sub(more) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
        }
        read
    }
}

impl AsyncWrite for Guest {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_late(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_late(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

//! Connections: so many at once, so many bytes of request, so much time. The server behind them knows no
//! such limits.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// More connections at once wait at the door.
const GUESTS_MOST: usize = 32;
/// A connection lasts no longer than this.
const STAY_LIMIT: Duration = Duration::from_secs(10);
/// A request has no more bytes than this, its headers included.
const REQUEST_MOST: usize = 16 << 10;
/// So long is a pause when no descriptor is to be had.
const BREATH: Duration = Duration::from_millis(100);

/// Lets in as many as there is room for.
pub(super) struct Door {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Door {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(GUESTS_MOST)) }
    }
}

impl Listener for Door {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        loop {
            let seat = Arc::clone(&self.room).acquire_owned().await;
            match (self.listener.accept().await, seat) {
                (Ok((stream, from)), Ok(seat)) => {
                    let limit = Box::pin(sleep(STAY_LIMIT));
                    return (Guest { stream, limit, left: REQUEST_MOST, _seat: seat }, from);
                }
                // Out of descriptors: whoever is connected may finish and give one back.
                _ => sleep(BREATH).await,
            }
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
    _seat: OwnedSemaphorePermit,
}

impl Guest {
    fn is_late(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.limit.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
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

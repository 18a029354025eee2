//! The transport of a conversation: a Unix socket, a TCP connection, or TLS over one.
//!
//! Every read and write of the socket gets only the time that is left until the deadline of the whole
//! conversation, so that a server cannot extend it by sending slowly, below TLS or above.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

/// A connected socket.
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A socket with one deadline for all reads and writes.
pub(super) struct Bounded {
    socket: Socket,
    /// `None` in non-blocking mode.
    until: Option<Instant>,
}

impl Bounded {
    pub(super) fn new(socket: Socket, until: Instant) -> Self {
        Self { socket, until: Some(until) }
    }

    /// Returns the TCP connection, if it is one.
    pub(super) fn tcp(&self) -> Option<&TcpStream> {
        match &self.socket {
            Socket::Tcp(socket) => Some(socket),
            Socket::Unix(_) => None,
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(until) = self.until else { return Ok(None) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    fn never_block(&mut self) -> io::Result<()> {
        self.until = None;
        match &self.socket {
            Socket::Unix(socket) => socket.set_nonblocking(true),
            Socket::Tcp(socket) => socket.set_nonblocking(true),
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left()?;
        match &mut self.socket {
            Socket::Unix(socket) => {
                socket.set_read_timeout(left)?;
                socket.read(buffer)
            }
            Socket::Tcp(socket) => {
                socket.set_read_timeout(left)?;
                socket.read(buffer)
            }
        }
    }
}

impl Write for Bounded {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let left = self.left()?;
        match &mut self.socket {
            Socket::Unix(socket) => {
                socket.set_write_timeout(left)?;
                socket.write(buffer)
            }
            Socket::Tcp(socket) => {
                socket.set_write_timeout(left)?;
                socket.write(buffer)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket, or TLS over one.
pub(super) enum Wire {
    Plain(Bounded),
    Tls(Box<StreamOwned<ClientConnection, Bounded>>),
}

impl Wire {
    fn bounded(&self) -> &Bounded {
        match self {
            Self::Plain(bounded) => bounded,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Moves the deadline of the conversation; returns the one before. Not for non-blocking mode.
    pub(super) fn set_deadline(&mut self, until: Instant) -> Option<Instant> {
        let bounded = match self {
            Self::Plain(bounded) => bounded,
            Self::Tls(stream) => &mut stream.sock,
        };
        bounded.until.replace(until)
    }

    /// Switches to non-blocking mode.
    pub(super) fn never_block(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(bounded) => bounded.never_block(),
            Self::Tls(stream) => stream.sock.never_block(),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bounded) => bounded.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bounded) => bounded.write(buffer),
            Self::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(bounded) => bounded.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.bounded().socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

//! A notifier between threads: rung anywhere, heard by whoever polls its descriptor.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Rings; may be cloned and taken to any thread.
#[derive(Clone, Debug)]
pub struct Notifier(Arc<UnixStream>);

impl Notifier {
    /// Rings.
    pub fn notify(&self) {
        // Full means that it rings already, closed that nobody listens.
        let _rings = (&*self.0).write(&[1]);
    }
}

/// Hears its notifier.
#[derive(Debug)]
pub struct Listener(UnixStream);

impl Listener {
    /// Makes a notifier, and what hears it.
    pub fn new() -> io::Result<(Self, Notifier)> {
        let (listener, notifier) = UnixStream::pair()?;
        listener.set_nonblocking(true)?;
        notifier.set_nonblocking(true)?;
        Ok((Self(listener), Notifier(Arc::new(notifier))))
    }

    /// Says whether the notifier rang since it was last asked.
    pub fn take_notifications(&mut self) -> bool {
        let mut rings = [0; 64];
        let mut any = false;
        while self.0.read(&mut rings).is_ok_and(|count| count > 0) {
            any = true;
        }
        any
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

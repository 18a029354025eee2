//! Wakes a thread that polls a descriptor: a socket pair, written by any thread, drained by the polling
//! one.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The sending side; may be cloned and moved to any thread.
#[derive(Clone, Debug)]
pub struct Notifier(Arc<UnixStream>);

impl Notifier {
    /// Makes the listener's descriptor readable.
    pub fn notify(&self) {
        // A full buffer means that a notification is already pending; a closed socket that the listener is
        // gone.
        let _rings = (&*self.0).write(&[1]);
    }
}

/// The receiving side, with a descriptor to poll.
#[derive(Debug)]
pub struct Listener(UnixStream);

impl Listener {
    /// Creates a listener and its notifier.
    pub fn new() -> io::Result<(Self, Notifier)> {
        let (listener, notifier) = UnixStream::pair()?;
        listener.set_nonblocking(true)?;
        notifier.set_nonblocking(true)?;
        Ok((Self(listener), Notifier(Arc::new(notifier))))
    }

    /// Says whether there were notifications since the last call, and clears them.
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

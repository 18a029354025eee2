//! A bell between threads: rung anywhere, heard by whoever polls its descriptor.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Rings; may be cloned and taken to any thread.
#[derive(Clone, Debug)]
pub struct Bell(Arc<UnixStream>);

impl Bell {
    /// Rings.
    pub fn ring(&self) {
        // Full means that it rings already, closed that nobody listens.
        let _rings = (&*self.0).write(&[1]);
    }
}

/// Hears its bell.
#[derive(Debug)]
pub struct Ear(UnixStream);

impl Ear {
    /// Makes a bell, and what hears it.
    pub fn new() -> io::Result<(Self, Bell)> {
        let (ear, bell) = UnixStream::pair()?;
        ear.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        Ok((Self(ear), Bell(Arc::new(bell))))
    }

    /// Says whether the bell rang since it was last asked.
    pub fn heard(&mut self) -> bool {
        let mut rings = [0; 64];
        let mut any = false;
        while self.0.read(&mut rings).is_ok_and(|count| count > 0) {
            any = true;
        }
        any
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

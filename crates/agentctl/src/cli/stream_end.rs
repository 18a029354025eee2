//! Ends a command that prints for as long as it is read: `events` and `list --watch`.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};

use crate::failure::Failure;

/// The function that wakes the reader of a stream.
type WakeFunction = Box<dyn Fn() + Send>;

/// Ends a stream from another thread.
#[derive(Clone, Default)]
pub(super) struct End {
    over: Arc<AtomicBool>,
    wake: Arc<Mutex<Option<WakeFunction>>>,
}

impl End {
    /// Sets the function that wakes the reader of the stream.
    pub(super) fn does(&self, wake: impl Fn() + Send + 'static) {
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(wake));
    }

    /// Ends the stream.
    pub(super) fn now(&self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(wake) = &*self.wake.lock().unwrap_or_else(PoisonError::into_inner) {
            wake();
        }
    }

    /// Says whether the stream was ended.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Ends the stream on SIGINT and SIGTERM; the command then exits with success.
    pub(super) fn on_signal(&self) -> Result<(), Failure> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let this = self.clone();
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                this.now();
            }
        });
        Ok(())
    }

    /// Ends the stream when the reader of stdout closes it, not only with the next line.
    pub(super) fn on_reader_gone(&self) {
        let this = self.clone();
        std::thread::spawn(move || {
            let stdout = std::io::stdout();
            let fd = stdout.as_fd();
            loop {
                // No event is requested: poll reports the closed other end anyway.
                let mut fds = [PollFd::new(&fd, PollFlags::empty())];
                match poll(&mut fds, None) {
                    Err(rustix::io::Errno::INTR) => {}
                    Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => break,
                    _ => return,
                }
            }
            this.now();
        });
    }
}

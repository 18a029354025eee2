//! The end of a stream, set from another thread than the reader's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The function that wakes the reader of a stream.
type WakeFunction = Box<dyn Fn() + Send>;

/// Ends a stream from another thread.
#[derive(Clone, Default)]
pub struct StreamEnd {
    is_over: Arc<AtomicBool>,
    wake: Arc<Mutex<Option<WakeFunction>>>,
}

impl StreamEnd {
    /// Sets the function that wakes the reader of the stream; it replaces the function that was set before.
    pub fn set_wake(&self, wake: impl Fn() + Send + 'static) {
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(wake));
    }

    /// Ends the stream.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(wake) = &*self.wake.lock().unwrap_or_else(PoisonError::into_inner) {
            wake();
        }
    }

    /// Says whether the stream was ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

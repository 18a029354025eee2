//! Waiting for a file to change, by the kernel's file events. An event is a hint to read again.
//!
//! The directory is watched rather than the file, so that a file that does not exist yet, or is
//! replaced, is seen too.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

/// A standing watch on some directories.
pub struct Watch {
    // Dropping the watcher ends the watch.
    _watcher: RecommendedWatcher,
    events: Receiver<()>,
}

impl Watch {
    /// Begins to watch these directories; what does not exist is left out.
    pub fn directories<'a>(paths: impl IntoIterator<Item = &'a Path>) -> notify::Result<Self> {
        let (sender, events) = channel();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                if event.map_or(true, |e| !e.kind.is_access()) {
                    // The receiver is gone only when nobody waits any more.
                    let _nobody_waits = sender.send(());
                }
            })?;
        for path in paths {
            if path.is_dir() {
                watcher.watch(path, RecursiveMode::NonRecursive)?;
            }
        }
        Ok(Self { _watcher: watcher, events })
    }

    /// Blocks until something changed or the time is up; says whether something changed.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        match self.events.recv_timeout(timeout) {
            Ok(()) => {
                while self.events.try_recv().is_ok() {}
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        }
    }
}

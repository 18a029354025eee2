//! The feed of looks: waits until something may have changed, and looks. `events` and `list --watch` read it;
//! while nothing happens there is no look.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentctl_core::ask::Fleet;
use agentctl_core::events::{Notifier, Seen, Watcher};

/// The next item of a feed.
#[derive(Debug)]
pub enum FeedItem {
    /// A look; the first comes at once.
    Look(Box<Seen>),
    /// No look in the time that was given: nothing happened.
    Nothing,
    /// The feed was closed.
    Closed,
}

/// Looks at everything that lives, one after another.
pub struct Feed {
    watcher: Watcher,
    closer: FeedCloser,
    has_begun: bool,
}

/// Closes a feed from another thread.
#[derive(Clone)]
pub struct FeedCloser {
    closed: Arc<AtomicBool>,
    notifier: Notifier,
}

impl FeedCloser {
    /// Closes the feed. A look that is being taken is not interrupted.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.notifier.notify();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

impl Feed {
    /// Opens a feed with a watcher of this process.
    pub fn open(fleet: &Fleet) -> io::Result<Self> {
        let watcher = fleet.watcher()?;
        let closer = FeedCloser { closed: Arc::default(), notifier: watcher.notifier() };
        Ok(Self { watcher, closer, has_begun: false })
    }

    /// Returns a handle that closes this feed.
    #[must_use]
    pub fn closer(&self) -> FeedCloser {
        self.closer.clone()
    }

    /// Returns a notifier that causes a look from another thread.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        self.watcher.notifier()
    }

    /// Says why changes may be noticed late, if they may.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.watcher.trouble()
    }

    /// Returns the next look. Waits at most this long for a reason to look; `Duration::MAX` is for ever.
    pub fn next(&mut self, limit: Duration) -> io::Result<FeedItem> {
        let is_due = !self.has_begun || self.watcher.wait(limit)?;
        if self.closer.is_closed() {
            return Ok(FeedItem::Closed);
        }
        if !is_due {
            return Ok(FeedItem::Nothing);
        }
        self.has_begun = true;
        Ok(FeedItem::Look(Box::new(self.watcher.look())))
    }
}

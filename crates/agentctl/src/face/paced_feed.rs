//! Tells an interface that shows a list when to read it again.

use std::io;
use std::time::{Duration, Instant};

use agentctl_core::ask::Fleet;

use super::{Feed, FeedItem};

/// Longest pause between two readings. Short ids are compared with all history, so reading can cost much more than a
/// look.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The next step of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Something may have changed: the list is read again.
    Read,
    /// The limit has passed, or the terminal has another size: the last list is drawn again.
    Draw,
    /// The feed was closed.
    Close,
}

/// A feed whose reader pauses between two readings for four times as long as a reading takes, at most a second.
pub struct PacedFeed {
    feed: Feed,
    /// Something may have changed since the list was read.
    is_due: bool,
    earliest: Instant,
}

impl PacedFeed {
    /// Opens a feed. Its first step is to read.
    pub fn open(fleet: &Fleet) -> io::Result<Self> {
        Ok(Self { feed: Feed::open(fleet)?, is_due: false, earliest: Instant::now() })
    }

    /// Returns the feed itself, to close it and to cause a look.
    #[must_use]
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Waits for the next step, at most this long; `Duration::MAX` is for ever.
    pub fn next_step(&mut self, limit: Duration) -> io::Result<NextStep> {
        let limit = if self.is_due { limit.min(self.pause_left()) } else { limit };
        match self.feed.next(limit)? {
            FeedItem::Closed => return Ok(NextStep::Close),
            FeedItem::Look(_) => self.is_due = true,
            FeedItem::Nothing => {}
        }
        if self.is_due && self.pause_left().is_zero() {
            self.is_due = false;
            return Ok(NextStep::Read);
        }
        Ok(NextStep::Draw)
    }

    /// Begins the pause after a reading that began at this moment.
    pub fn pause_after(&mut self, began: Instant) {
        self.earliest = Instant::now() + (began.elapsed() * 4).min(MAX_PAUSE);
    }

    fn pause_left(&self) -> Duration {
        self.earliest.saturating_duration_since(Instant::now())
    }
}

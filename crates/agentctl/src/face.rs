//! Wording and drawing that all interfaces share: the command line today, and every further one.
//!
//! Answers come from `agentctl_core::ask` as data. This room turns their failures into sentences with exit
//! codes, ages into a few characters, and messages into typed lines that each interface paints its own way. The
//! feed tells an interface that shows changes when to draw again.

mod conversation;
mod end;
mod failed_launch;
mod feed;
mod time;
mod unresolved;

pub use self::conversation::{
    Conversation, Line, LineKind, SessionLabel, Span, SpanStyle, View, messages_by_time,
    session_labels,
};
pub use self::end::{session_ended, session_waits};
pub use self::failed_launch::{directory_on_server, no_adapter, not_continued, not_started};
pub use self::feed::{Feed, FeedCloser, FeedItem};
pub use self::time::{age, local_clock, local_date, local_minute};
pub use self::unresolved::unresolved;

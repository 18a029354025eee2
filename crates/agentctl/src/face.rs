//! Wording and drawing that all interfaces share: the command line today, and every further one.
//!
//! Answers come from `agentctl_core::ask` as data. This room turns their failures into sentences with exit
//! codes, ages into a few characters, and messages into typed lines that each interface paints its own way. The
//! feed tells an interface that shows changes when to draw again.

mod conversation;
mod failed_launch;
mod failed_orders;
mod feed;
mod fuses;
mod refused_word;
mod sentences;
mod time;
mod unresolved;

pub use self::conversation::{Line, LineKind, Span, SpanStyle, conversation_lines};
pub use self::failed_launch::{directory_on_server, no_adapter, not_continued, not_started};
pub use self::failed_orders::{fuse_not_changed, holder_text, not_locked};
pub use self::feed::{Feed, FeedCloser, FeedItem};
pub use self::fuses::{fuse_actions, fuse_conditions, fuse_name, fuse_target};
pub use self::refused_word::{not_named, refused_word};
pub use self::sentences::{
    session_reason, session_reason_in_brackets, short_name, short_session_name, target_name,
};
pub use self::time::{age, local_clock, local_minute};
pub use self::unresolved::unresolved;

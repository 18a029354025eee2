//! Wording and drawing that all interfaces share: the command line today, and every further one.
//!
//! Answers come from `agentctl_core::ask` as data. This room turns their failures into sentences with exit
//! codes, ages into a few characters, and messages into typed lines that each interface paints its own way. The
//! feed tells an interface that shows changes when to draw again.

mod conversation;
mod doctor;
mod failed_launch;
mod feed;
mod follow;
mod time;
mod unresolved;
mod waited;

pub use self::conversation::{Line, LineKind, Span, SpanStyle, conversation_lines};
pub use self::doctor::doctor_context;
pub use self::failed_launch::{launch_remark, not_started};
pub use self::feed::{Feed, FeedCloser, FeedItem};
pub use self::follow::{Follow, FollowError, FollowItem, not_followed, unread_conversation};
pub use self::time::{age, local_clock, local_minute};
pub use self::unresolved::unresolved;
pub use self::waited::{not_waited, wait_failure, wait_kind, wait_line, wait_remark};

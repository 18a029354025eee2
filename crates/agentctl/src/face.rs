//! Wording and drawing that all interfaces share: the command line today, and every further one.
//!
//! Answers come from `agentctl_core::ask` as data. This room turns their failures into sentences with exit
//! codes, ages into a few characters, and messages into typed lines that each interface paints its own way. The
//! feed tells an interface that shows changes when to draw again; the stream of events and the list of sessions
//! ask the daemon, or look without it.

mod conversation;
mod event_stream;
mod failed_launch;
mod feed;
mod session_list;
mod stream_end;
mod time;
mod unresolved;

pub use self::conversation::{Line, LineKind, Span, SpanStyle, conversation_lines};
pub use self::event_stream::{EventItem, EventRequest, EventStream};
pub use self::failed_launch::{directory_on_server, no_adapter, not_continued, not_started};
pub use self::feed::{Feed, FeedCloser, FeedItem};
pub use self::session_list::{SessionList, session_list};
pub use self::stream_end::StreamEnd;
pub use self::time::{NoBeginning, age, beginning, local_clock, local_minute};
pub use self::unresolved::unresolved;

//! Wording and drawing that all interfaces share: the command line today, and every further one.
//!
//! Answers come from `agentctl_core::ask` as data. This room turns their failures into sentences with exit
//! codes, ages into a few characters, and messages into typed lines that each interface paints its own way. The
//! feed tells an interface that shows changes when to draw again; the stream of events and the list of sessions
//! ask the daemon, or look without it.

mod conversation;
mod doctor;
mod event_stream;
mod failed_launch;
mod failed_orders;
mod feed;
mod follow;
mod fuses;
mod notification;
mod sentences;
mod session_facts;
mod session_list;
mod stream_end;
mod time;
mod tmux;
mod unresolved;
mod waited;

pub use self::conversation::{Line, LineKind, Span, SpanStyle, conversation_lines};
pub use self::doctor::doctor_context;
pub use self::event_stream::{EventItem, EventRequest, EventStream};
pub use self::failed_launch::{launch_remark, not_started};
pub use self::failed_orders::{fuse_not_changed, holder_text, not_locked};
pub use self::feed::{Feed, FeedCloser, FeedItem};
pub use self::follow::{Follow, FollowError, FollowItem, not_followed, unread_conversation};
pub use self::fuses::{fuse_actions, fuse_conditions, fuse_name, fuse_target};
pub use self::notification::{NewlyWaiting, NotificationText, TerminalSequence, is_notified};
pub use self::sentences::{
    session_reason, session_reason_in_brackets, short_name, short_session_name, target_name,
};
pub use self::session_facts::{ended_by_text, grouped_number, span_text};
pub use self::session_list::{SessionList, session_list};
pub use self::stream_end::StreamEnd;
pub use self::time::{NoBeginning, age, beginning, local_clock, local_minute};
pub use self::tmux::{TmuxPane, tmux_message, tmux_pane_of};
pub use self::unresolved::unresolved;
pub use self::waited::{not_waited, wait_failure, wait_kind, wait_line, wait_remark};

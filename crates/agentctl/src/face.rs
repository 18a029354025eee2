//! Wording and drawing that all interfaces share: the command line today, and every further one.
//!
//! Answers come from `agentctl_core::ask` as data. This room turns their failures into sentences with exit
//! codes, ages into a few characters, and messages into typed lines that each interface paints its own way. The
//! feed tells an interface that shows changes when to draw again; the stream of events and the list of sessions
//! ask the daemon, or look without it. Lists have named fields, for templates, sorting and tables.

mod changes;
mod conversation;
mod doctor;
mod event_line;
mod event_stream;
mod failed_launch;
mod failed_orders;
mod feed;
mod follow;
mod fuses;
mod listing;
mod sentences;
mod session_list;
mod stream_end;
mod time;
mod unresolved;
mod waited;

pub use self::changes::ListChanges;
pub use self::conversation::{Line, LineKind, Span, SpanStyle, conversation_lines};
pub use self::doctor::doctor_context;
pub use self::event_line::event_line;
pub use self::event_stream::{EventItem, EventRequest, EventStream, EventSubject};
pub use self::failed_launch::{launch_remark, not_started};
pub use self::failed_orders::{fuse_not_changed, holder_text, not_locked};
pub use self::feed::{Feed, FeedCloser, FeedItem};
pub use self::follow::{Follow, FollowError, FollowItem, not_followed, unread_conversation};
pub use self::fuses::{fuse_actions, fuse_conditions, fuse_name, fuse_target};
pub use self::listing::{
    Arrangement, CONTROL_COLUMNS, Column, Cut, Field, FieldValue, FuseListRow, ListRow, RowContext,
    SortKey, Template, TemplateError, TextTable, UnknownField, columns_table, field_names,
    session_argument,
};
pub use self::sentences::{
    exit_text, session_reason, session_reason_in_brackets, short_name, short_session_name,
    target_name,
};
pub use self::session_list::{SessionList, session_list};
pub use self::stream_end::StreamEnd;
pub use self::time::{NoBeginning, age, beginning, local_clock, local_minute};
pub use self::unresolved::unresolved;
pub use self::waited::{not_waited, wait_failure, wait_kind, wait_line, wait_remark};

//! Wording and drawing that all interfaces share: the command line today, and every further one.
//!
//! Answers come from `agentctl_core::ask` as data. This room turns their failures into sentences with exit
//! codes, ages into a few characters, and messages into typed lines that each interface paints its own way. The
//! feed tells an interface that shows changes when to draw again; the stream of events and the list of sessions
//! ask the daemon, or look without it. Lists have named fields, for templates, sorting and tables.

mod argument_hints;
mod ask_page;
mod begin;
mod below;
mod changes;
mod cleaned;
mod completions;
mod conversation;
mod daemon_change;
mod diff;
mod doctor;
mod end;
mod event_line;
mod event_stream;
mod failed_launch;
mod failed_orders;
mod failed_worktree;
mod feed;
mod file_changes;
mod follow;
mod fuses;
mod group_launch;
mod holders;
mod idle_fuse;
mod inbox;
mod list_stream;
mod listing;
mod notification;
mod output_line;
mod paced_feed;
mod refused_word;
mod row_changes;
mod sent;
mod sentences;
mod session_facts;
mod session_list;
mod set_fuse;
mod status_page;
mod stopped;
mod stream_end;
mod talk;
mod time;
mod tmux;
mod unresolved;
mod waited;
mod why_page;

pub use self::argument_hints::hint_with_arguments;
pub use self::ask_page::{
    AskLine, AskLineKind, AskPageForm, ask_page, ask_text, with_visible_breaks,
};
pub use self::begin::{BeginAdapter, BeginDocument, begin_choices};
pub use self::below::{order_from_agent, refused_below};
pub use self::changes::ListChanges;
pub use self::cleaned::{
    clean_line, finished_line, not_cleaned, not_taken, rescue_lines, rescued_line, take_lines,
};
pub use self::completions::{
    Completion, SessionScope, ask_completions, fuse_completions, group_completions,
    session_completions, worktree_completions,
};
pub use self::conversation::{
    Conversation, Line, LineKind, SessionLabel, Span, SpanStyle, View, messages_by_time,
    session_labels,
};
pub use self::daemon_change::daemon_change_line;
pub use self::diff::{diff_files, diff_heading, diff_remarks, no_diff, no_such_base};
pub use self::doctor::doctor_context;
pub use self::end::{session_ended, session_waits};
pub use self::event_line::EventLines;
pub use self::event_stream::{EventItem, EventRequest, EventStream, EventSubject};
pub use self::failed_launch::{adapters_hint, launch_remark, not_started, unseen_after_launch};
pub use self::failed_orders::{fuse_not_changed, not_locked, not_pruned};
pub use self::failed_worktree::{
    git_failure, kept_worktree_hint, left_behind, made_remarks, making_line, not_made, put_back,
    worktree_line, worktrees_hint,
};
pub use self::feed::{Feed, FeedCloser, FeedItem};
pub use self::file_changes::{changes_not_told, patch_comment, shown_path, unrecorded_lines};
pub use self::follow::{Follow, FollowError, FollowItem, not_followed, unread_conversation};
pub use self::fuses::{fuse_actions, fuse_conditions, fuse_name};
pub use self::group_launch::{
    group_not_started, matrix_failure, plan_lines, slot_failure, slot_started_line,
};
pub use self::holders::holder_text;
pub use self::idle_fuse::{IdleFuse, idle_fuse, launch_with_notes};
pub use self::inbox::{
    FieldWords, answer_flags, answer_hint, answered_line, ask_summary, ask_summary_pieces,
    choice_text, field_reply, key_words_remark, no_open_ask_hint, not_answered, offered_hint,
    paused_remark, secrets_of_stdin, several_questions_remark,
};
pub use self::list_stream::{ListItem, ListStream, is_same_list};
pub use self::listing::{
    Arrangement, AskListRow, CONTROL_COLUMNS, Column, CompareListRow, Cut, Field, FieldValue,
    FuseListRow, FuseSessions, ListRow, LockListRow, RowContext, RunListRow, SortKey, Template,
    TemplateError, TextTable, UnknownField, WorktreeListRow, asks_in_words, columns_table,
    columns_table_with, exact_argument, field_names, messages_in_words, session_argument,
};
pub use self::notification::{NotificationText, TerminalSequence, is_notified};
pub use self::output_line::{OutputKind, OutputLine};
pub use self::paced_feed::{NextStep, PacedFeed};
pub use self::refused_word::{not_named, refused_word};
pub use self::row_changes::RowChanges;
pub use self::sent::{
    awaits_turn_line, not_sent, only_for_start, sent_line, turn_ended_line, turn_not_ended,
    unconfirmed,
};
pub use self::sentences::{
    exit_text, exit_value, fault_text, full_name, id_or_pid, session_name, session_reason,
    session_reason_in_brackets, session_word,
};
pub use self::session_facts::{ended_by_text, grouped_number, launched_by_text, span_text};
pub use self::session_list::{SessionList, session_list};
pub use self::set_fuse::{FuseDaemon, FuseSet, extend_fuse, set_fuse};
pub use self::status_page::status_lines;
pub use self::stopped::{StopSummary, stop_failure, stop_kind, stop_lines, survivor_lines};
pub use self::stream_end::StreamEnd;
pub use self::talk::{Talk, TalkGrowth, TalkPage, talk_page};
pub use self::time::{
    AgeForm, NoBeginning, USUAL_HISTORY, age, age_to_the_minute, beginning, local_clock,
    local_date, local_hour, local_minute, next_minute_of_age,
};
pub use self::tmux::{TmuxPane, tmux_message, tmux_pane_of};
pub use self::unresolved::{groups_hint, no_group, unresolved};
pub use self::waited::{blocked_hint, not_waited, wait_failure, wait_kind, wait_line, wait_remark};
pub use self::why_page::why_lines;

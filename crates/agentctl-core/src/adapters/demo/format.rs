//! The demo agent's own formats: its live record, its conversation, and the lines of its socket.

use serde::{Deserialize, Serialize};

use crate::model::{Time, Tokens};

/// `live/<pid>.json`: the state of a process in its own words.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[allow(missing_docs)] // the names are the format
pub struct Live {
    pub start_ticks: u64,
    pub boot_id: String,
    /// The machine that wrote it: a home may be shared between machines.
    pub machine_id: Option<String>,
    pub pid_namespace: u64,
    pub session: String,
    pub cwd: String,
    pub status: String,
    pub detail: Option<String>,
    /// The open ask of a waiting process.
    #[serde(default)]
    pub ask: Option<LiveAsk>,
    /// It stays after its turn and takes messages.
    #[serde(default)]
    pub stays: bool,
    pub started_ms: i64,
}

/// The open ask in `live/<pid>.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[allow(missing_docs)] // the names are the format
pub struct LiveAsk {
    pub id: String,
    /// `question` or `permission`.
    pub kind: String,
    pub text: String,
    pub command: Option<String>,
    pub options: Vec<String>,
    /// The answer is a secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// When it is denied by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

/// One line of `sessions/<id>.jsonl`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[allow(missing_docs)] // the names are the format
pub enum Line {
    Session {
        cwd: String,
        model: String,
    },
    Prompt {
        id: String,
        text: String,
        at: String,
    },
    Say {
        id: String,
        text: String,
        model: String,
        usage: Usage,
        at: String,
    },
    Tool {
        id: String,
        call: String,
        command: String,
        model: String,
        usage: Usage,
        at: String,
    },
    /// A call that writes a file.
    Write {
        id: String,
        call: String,
        path: String,
        content: String,
        model: String,
        usage: Usage,
        at: String,
    },
    Result {
        call: String,
        text: String,
        is_error: bool,
        at: String,
        /// The file that the call wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wrote: Option<Wrote>,
        /// A person denied the call; it did not run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied: bool,
    },
    /// A message that was taken during a turn, or began one.
    Message {
        id: String,
        text: String,
        at: String,
    },
    /// A turn that this message begins.
    Turn {
        message: String,
        at: String,
    },
    Ask {
        id: String,
        question: String,
        at: String,
    },
    Answer {
        id: String,
        text: String,
        at: String,
    },
    End {
        state: String,
        error: Option<String>,
        at: String,
    },
    Exit {
        code: i32,
        at: String,
    },
}

/// A file that was written: its path, and its content before and after. A file of another user or over 1 MiB
/// has no content here.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[allow(missing_docs)] // the names are the format
pub struct Wrote {
    pub path: String,
    /// It was there before.
    pub existed: bool,
    pub before: Option<String>,
    pub content: String,
}

/// Tokens of one model message.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[allow(missing_docs)] // the names are the format
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl From<Usage> for Tokens {
    fn from(u: Usage) -> Self {
        Self {
            input: u.input,
            output: u.output,
            cache_read: u.cache_read,
            cache_write: u.cache_write,
        }
    }
}

impl Line {
    /// Returns the time of the line.
    pub(super) fn at(&self) -> Option<Time> {
        match self {
            Self::Session { .. } => None,
            Self::Prompt { at, .. }
            | Self::Say { at, .. }
            | Self::Tool { at, .. }
            | Self::Write { at, .. }
            | Self::Result { at, .. }
            | Self::Message { at, .. }
            | Self::Turn { at, .. }
            | Self::Ask { at, .. }
            | Self::Answer { at, .. }
            | Self::End { at, .. }
            | Self::Exit { at, .. } => Time::parse(at),
        }
    }
}

/// One line that the socket of the agent takes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the names are the format
pub enum SocketOrder {
    /// Answers the open ask.
    Answer(SocketAnswer),
    /// Gives it a further prompt. A message with an id that it has taken already is taken once.
    Message { id: String, text: String },
    /// Ends the turn.
    Interrupt {},
}

/// An answer to the open ask.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs)] // the names are the format
pub struct SocketAnswer {
    pub ask: String,
    pub allow: Option<bool>,
    pub always: bool,
    pub text: Option<String>,
    pub options: Vec<String>,
    pub message: Option<String>,
    pub stop: bool,
}

/// The reason in a reply to an answer whose ask is settled, or never was.
pub const ASK_NOT_OPEN: &str = "this ask is not open";

/// The reply of the socket.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[allow(missing_docs)] // the names are the format
pub struct SocketReply {
    pub taken: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

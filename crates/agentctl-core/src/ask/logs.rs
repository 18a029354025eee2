//! The question `logs`: a part of a conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, NotOne, ResolvedTarget};
use crate::model::{Fault, Message, SCHEMA_VERSION, ToolCall};
use crate::transcript::{Earlier, Page, Selection, TranscriptError};

/// The session, and which of its messages are asked for.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogsRequest {
    /// A text that names the session, as a user types it.
    pub session: String,
    /// The messages.
    #[serde(default)]
    pub selection: Selection,
}

/// The answer to `logs`. `agentctl logs --json` prints one message a line, and goes on with `-f`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LogsDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// The calls of results among them that are not among them themselves.
    pub calls: Vec<ToolCall>,
    /// The messages before them; null if they were not counted.
    pub earlier: Option<Earlier>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// Why there are no messages.
#[derive(Debug)]
pub enum NoLogs {
    /// The text names no single session.
    NotOne(NotOne),
    /// The conversation cannot be read.
    Unread(TranscriptError),
}

impl Fleet {
    /// Returns a part of the conversation of the one session that a text names.
    pub fn logs(&self, request: &LogsRequest) -> Result<LogsDocument, NoLogs> {
        let found = self.target(&request.session).map_err(NoLogs::NotOne)?;
        let ResolvedTarget { target, faults } = found;
        let page = self.transcript(&target).and_then(|mut t| t.page(&request.selection));
        let Page { messages, calls, earlier } = page.map_err(NoLogs::Unread)?;
        Ok(LogsDocument { schema_version: SCHEMA_VERSION, messages, calls, earlier, faults })
    }
}

//! The question `logs`: the last messages of a conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, NotOne, ResolvedTarget};
use crate::model::{Fault, Message, SCHEMA_VERSION};
use crate::transcript::TranscriptError;

/// The answer to `logs`. `agentctl logs --json` prints one message a line, and goes on with `-f`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LogsDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
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
    /// Returns the last messages of the one session that a text names.
    pub fn logs(&self, text: &str, count: usize) -> Result<LogsDocument, NoLogs> {
        let ResolvedTarget { target, faults } = self.target(text).map_err(NoLogs::NotOne)?;
        let messages = self.transcript(&target).and_then(|mut transcript| transcript.last(count));
        let messages = messages.map_err(NoLogs::Unread)?;
        Ok(LogsDocument { schema_version: SCHEMA_VERSION, messages, faults })
    }
}

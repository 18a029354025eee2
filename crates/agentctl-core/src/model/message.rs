//! One shape for the messages of every agent's conversations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FileEdit, Time, Tokens, ToolCall};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The author of the prompt.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
    /// The agent program.
    System,
}

/// An image in a message or in the result of a tool. The image itself stays in the agent's own file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Image {
    /// Its media type, such as `image/png`.
    pub media_type: Option<String>,
    /// Its file name or path.
    pub name: Option<String>,
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ToolResult {
    /// The id of the call it answers.
    pub id: Option<String>,
    /// Its text.
    pub text: String,
    /// The tool failed.
    pub is_error: bool,
    /// Images in it.
    #[serde(default)]
    pub images: Vec<Image>,
    /// The file changes that the agent recorded with it. Empty where it records none: the input of the call
    /// may hold them.
    #[serde(default)]
    pub edits: Vec<FileEdit>,
}

/// One message of a conversation: the same shape for every agent.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Message {
    /// The agent's own id for it. Parts of one model message share it.
    pub id: Option<String>,
    /// When it was written.
    pub at: Option<Time>,
    /// Its author.
    pub role: Role,
    /// Its text.
    pub text: Option<String>,
    /// The thoughts of the model before it, if the agent records them; empty if it records only that the
    /// model thought.
    #[serde(default)]
    pub thinking: Option<String>,
    /// Images in it.
    #[serde(default)]
    pub images: Vec<Image>,
    /// Tool calls.
    pub tool_calls: Vec<ToolCall>,
    /// Tool results.
    pub tool_results: Vec<ToolResult>,
    /// The model.
    pub model: Option<String>,
    /// Its tokens. A further line of the same message id holds only the increase since the line before, so
    /// that the tokens of all lines add up.
    pub usage: Option<Tokens>,
}

impl Message {
    /// Returns an empty message of this role.
    #[must_use]
    pub fn of(role: Role) -> Self {
        Self {
            id: None,
            at: None,
            role,
            text: None,
            thinking: None,
            images: Vec::new(),
            tool_calls: Vec::new(),
            tool_results: Vec::new(),
            model: None,
            usage: None,
        }
    }

    /// Says whether it begins a turn: a person or a script said something.
    #[must_use]
    pub fn begins_turn(&self) -> bool {
        self.role == Role::User && (self.text.is_some() || !self.images.is_empty())
    }

    /// Says whether it holds what the model thought and nothing else.
    #[must_use]
    pub fn is_only_thinking(&self) -> bool {
        let said = self.text.is_some() || !self.images.is_empty();
        self.thinking.is_some()
            && !(said || !self.tool_calls.is_empty() || !self.tool_results.is_empty())
    }

    /// Says whether it holds nothing that a reader could see.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_none()
            && self.thinking.is_none()
            && self.images.is_empty()
            && self.tool_calls.is_empty()
            && self.tool_results.is_empty()
    }
}

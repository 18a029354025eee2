//! One shape for the messages of every agent's conversations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Time, Tokens, shorten};

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

/// A tool the model asked for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ToolCall {
    /// The call's id, which its result repeats.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments, as the model gave them.
    pub input: serde_json::Value,
}

impl ToolCall {
    /// Returns the most telling argument: the command, the file, the question.
    #[must_use]
    pub fn telling(&self) -> Option<String> {
        const TELLING: [&str; 10] = [
            "command",
            "cmd",
            "file_path",
            "path",
            "pattern",
            "query",
            "url",
            "plan",
            "prompt",
            "description",
        ];
        match &self.input {
            serde_json::Value::Object(map) if map.is_empty() => None,
            serde_json::Value::Object(map) => {
                let value = TELLING.iter().find_map(|k| map.get(*k)).unwrap_or(&self.input);
                Some(value_text(value))
            }
            serde_json::Value::Null => None,
            other => Some(value_text(other)),
        }
    }

    /// Returns a short form of the call: `Bash: npm test`.
    #[must_use]
    pub fn gist(&self) -> String {
        match self.telling() {
            Some(argument) => shorten(&format!("{}: {argument}", self.name), 120),
            None => self.name.clone(),
        }
    }
}

fn value_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) if items.iter().all(serde_json::Value::is_string) => {
            items.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ToolResult {
    /// The id of the call it answers.
    pub id: Option<String>,
    /// Its text.
    pub text: String,
    /// The tool failed.
    pub is_error: bool,
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
            tool_calls: Vec::new(),
            tool_results: Vec::new(),
            model: None,
            usage: None,
        }
    }
}

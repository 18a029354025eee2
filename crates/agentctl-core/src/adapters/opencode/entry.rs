//! Messages and their parts, which the database and the old files store alike, and the state of the
//! last turn from the newest of them.

use serde::Deserialize;
use serde_json::Value;

use crate::adapters::Turn;
use crate::model::{Reason, ReasonKind, Time, Tokens, ToolCall, shorten};

/// Longest entry that is read, in bytes.
pub(super) const ENTRY_BYTES: u64 = 1 << 20;

/// The metadata of a message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Info {
    pub(super) id: String,
    pub(super) role: String,
    pub(super) time: Times,
    pub(super) finish: Option<String>,
    pub(super) error: Option<Failure>,
    #[serde(rename = "modelID")]
    pub(super) model_id: Option<String>,
    #[serde(rename = "providerID")]
    pub(super) provider_id: Option<String>,
    /// Of a message by the user.
    pub(super) model: Option<Model>,
    pub(super) cost: Option<f64>,
    pub(super) tokens: Option<Spent>,
}

/// The model that the user chose.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Model {
    #[serde(rename = "providerID")]
    pub(super) provider: String,
    #[serde(rename = "modelID", alias = "id")]
    pub(super) name: String,
}

impl Model {
    /// Returns it in the format of `--model`.
    pub(super) fn word(&self) -> String {
        format!("{}/{}", self.provider, self.name)
    }
}

/// When something began and ended, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Times {
    pub(super) created: Option<i64>,
    pub(super) completed: Option<i64>,
    pub(super) updated: Option<i64>,
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
}

/// The error that ended a message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Failure {
    name: String,
    data: Value,
}

impl Failure {
    /// Returns its message, or its name if it has none.
    pub(super) fn text(&self) -> String {
        let said = self.data["message"].as_str().filter(|m| !m.is_empty());
        match (said, self.data["statusCode"].as_u64()) {
            (Some(said), Some(code)) if !said.contains(&code.to_string()) => {
                format!("{said} ({code})")
            }
            (Some(said), _) => said.to_owned(),
            (None, _) => self.name.clone(),
        }
    }

    /// Says whether a person ended it.
    pub(super) fn is_abort(&self) -> bool {
        self.name == "MessageAbortedError"
    }
}

/// Tokens of one step. Reasoning tokens are not part of `output`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spent {
    input: u64,
    output: u64,
    reasoning: u64,
    cache: Cache,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: u64,
    write: u64,
}

impl From<Spent> for Tokens {
    fn from(spent: Spent) -> Self {
        Self {
            input: spent.input,
            output: spent.output.saturating_add(spent.reasoning),
            cache_read: spent.cache.read,
            cache_write: spent.cache.write,
        }
    }
}

/// One part of a message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) synthetic: bool,
    /// Of a file that the user attached.
    pub(super) mime: Option<String>,
    pub(super) filename: Option<String>,
    pub(super) time: Times,
    pub(super) tool: Option<String>,
    #[serde(rename = "callID")]
    pub(super) call_id: Option<String>,
    pub(super) state: ToolState,
    pub(super) tokens: Option<Spent>,
}

/// The state of a tool call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolState {
    pub(super) status: String,
    pub(super) input: Value,
    pub(super) output: Option<String>,
    pub(super) error: Option<String>,
    pub(super) metadata: Option<Value>,
    pub(super) time: Times,
}

impl Part {
    pub(super) fn is_tool(&self) -> bool {
        self.kind == "tool"
    }

    /// Says whether it is written bit by bit.
    pub(super) fn grows(&self) -> bool {
        matches!(self.kind.as_str(), "text" | "reasoning")
    }

    /// Says whether the call has no result yet.
    pub(super) fn is_open(&self) -> bool {
        self.is_tool() && matches!(self.state.status.as_str(), "pending" | "running")
    }

    /// Says whether there is no sign that the tool itself has begun: a shell command writes its output
    /// so far within a second.
    pub(super) fn has_not_begun(&self) -> bool {
        self.is_open() && self.state.metadata.is_none()
    }

    pub(super) fn call(&self) -> ToolCall {
        ToolCall {
            id: self.call_id.clone(),
            name: self.tool.clone().unwrap_or_default(),
            input: self.state.input.clone(),
        }
    }

    /// Returns the shell command of an open call.
    pub(super) fn command(&self) -> Option<&str> {
        self.state.input["command"].as_str().filter(|_| self.is_open())
    }

    /// Says whether the user refused it, which ends the turn without a further message.
    fn is_refused(&self) -> bool {
        const REFUSALS: [&str; 2] = [
            "The user rejected permission to use this specific tool call.",
            "The user dismissed this question",
        ];
        let said = self.state.error.as_deref().map(str::trim);
        self.state.status == "error" && said.is_some_and(|said| REFUSALS.contains(&said))
    }

    fn asks(&self) -> Option<Reason> {
        let asks = self.tool.as_deref() == Some("question") && self.state.status == "running";
        let question = self.state.input["questions"][0]["question"].as_str();
        let detail = question.map(|q| shorten(q, 160));
        asks.then_some(Reason { kind: ReasonKind::Question, detail, until: None })
    }
}

/// The newest message of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Newest {
    pub(super) id: String,
    /// When it was begun and last written, in milliseconds.
    pub(super) created: i64,
    pub(super) updated: i64,
    /// `None` when it could not be read.
    pub(super) info: Option<Info>,
    /// Its parts, where the message alone does not decide.
    pub(super) parts: Vec<Part>,
}

impl Newest {
    /// Says whether the parts are needed to know the state of the turn.
    pub(super) fn needs_parts(&self) -> bool {
        self.info.as_ref().is_some_and(Info::is_unsettled)
    }

    /// Returns the state of the turn.
    pub(super) fn turn(&self) -> Turn {
        let Some(info) = &self.info else {
            return Turn::Undecided("its newest message could not be read".into());
        };
        match info.role.as_str() {
            "user" | "assistant" => {}
            other => {
                let why = format!("its newest message is by `{}`", shorten(other, 40));
                return Turn::Undecided(why);
            }
        }
        if let Some(error) = &info.error {
            return if error.is_abort() { Turn::Interrupted } else { Turn::Failed(error.text()) };
        }
        if info.is_unsettled() {
            if info.time.completed.is_some() && self.refused().is_some() {
                return Turn::Finished;
            }
            let open = self.parts.iter().rev().find(|part| part.is_open());
            return Turn::Open {
                tool: open.map(|part| part.call().gist()),
                retrying: None,
                asks: self.parts.iter().find_map(Part::asks),
                doubt: None,
            };
        }
        match &info.finish {
            Some(_) => Turn::Finished,
            // The turn was ended while a failed model call was about to be retried.
            None => Turn::Interrupted,
        }
    }

    /// Returns the id of the tool call that is open.
    pub(super) fn open_call(&self) -> Option<String> {
        self.parts.iter().rev().find(|part| part.is_open())?.call().id
    }

    /// Returns the tool call that the user refused.
    pub(super) fn refused(&self) -> Option<String> {
        self.parts.iter().find(|part| part.is_refused()).map(|part| part.call().gist())
    }

    /// Returns when it last changed.
    pub(super) fn touched(&self) -> Option<Time> {
        Time::from_millis(self.created.max(self.updated))
    }
}

impl Info {
    /// Says whether the message alone does not decide: a step that called tools is followed by another
    /// one, unless a call was refused.
    fn is_unsettled(&self) -> bool {
        let more = matches!(self.finish.as_deref(), Some("tool-calls" | "unknown"));
        self.role == "user" || (self.error.is_none() && (self.time.completed.is_none() || more))
    }

    /// Returns the model in the format of `--model`.
    pub(super) fn model(&self) -> Option<String> {
        match (&self.provider_id, &self.model_id) {
            (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
            _ => self.model.as_ref().map(Model::word),
        }
    }
}

/// Sums the tokens and cost of the answers of a session.
pub(super) fn sum<'a>(messages: impl Iterator<Item = &'a Info>) -> (Tokens, f64) {
    let (mut tokens, mut cost) = (Tokens::default(), 0.0);
    for info in messages.filter(|info| info.role == "assistant") {
        tokens.add(info.tokens.unwrap_or_default().into());
        cost += info.cost.unwrap_or_default();
    }
    (tokens, cost)
}

/// The beginning of the default title of a new session.
pub(super) const DEFAULT_TITLE: &str = "New session - ";

/// Returns a title, unless it is the default title of a new session.
pub(super) fn title(text: Option<String>) -> Option<String> {
    text.filter(|t| !t.is_empty() && !t.starts_with(DEFAULT_TITLE))
}

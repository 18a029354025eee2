//! The record of every request, for scenarios to compare with the actions of agents.

use serde::Serialize;
use serde_json::Value;

/// The API of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `POST …/messages`
    Anthropic,
    /// `POST …/responses`
    Responses,
    /// `POST …/chat/completions`
    Chat,
    /// `POST …/messages/count_tokens`
    CountTokens,
    /// `GET …/models`
    Models,
    /// Anything else, also invalid HTTP.
    Other,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Not yet.
    Open,
    /// Its answer was sent to the end; an error is an answer.
    Answered,
    /// The script cut the answer off.
    Cut,
    /// The client went away before the end.
    Gone,
    /// The server was stopped before the end.
    Stopped,
}

/// The tokens an answer reported, in that API's own sense: with `OpenAI` the input includes cached
/// tokens, with Anthropic it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens in.
    pub input: u64,
    /// Tokens out.
    pub output: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written to the cache.
    pub cache_write: u64,
    /// Tokens out that were thoughts.
    pub reasoning: u64,
}

/// One request, as it was asked and answered so far.
#[derive(Clone, Debug, Serialize)]
pub struct Request {
    /// When it was read, in milliseconds since 1970.
    pub at_ms: i64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
    /// Its method; empty when it was no HTTP.
    pub method: String,
    /// Its path without the query; empty when it was no HTTP.
    pub path: String,
    /// Its API.
    pub api: Api,
    /// The model it named.
    pub model: Option<String>,
    /// The newest prompt of a person in it, whole: the script.
    pub prompt: String,
    /// How many tool results followed the prompt.
    pub steps_done: usize,
    /// The conversation that it held, if tool results followed the prompt; else null. It is not written into files.
    #[serde(skip)]
    pub conversation: Value,
    /// How many tools it offered.
    pub tools: usize,
    /// Whether it offered none: a title or a summary, answered without regard to the script.
    pub side: bool,
    /// Whether it wanted events.
    pub stream: bool,
    /// The agent's name of the conversation: a session, or a key for the cache.
    pub key: Option<String>,
    /// The usage reported so far; none if none was reported.
    pub usage: Option<Usage>,
    /// The status of the answer; 0 while there is none.
    pub status: u16,
    /// How it ended.
    pub end: End,
}

impl Request {
    /// Begins the record of a request that was just read.
    pub(super) fn begun(api: Api, method: &str, path: &str) -> Self {
        Self {
            at_ms: now_ms(),
            ended_ms: None,
            method: method.to_owned(),
            path: path.to_owned(),
            api,
            model: None,
            prompt: String::new(),
            steps_done: 0,
            conversation: Value::Null,
            tools: 0,
            side: false,
            stream: false,
            key: None,
            usage: None,
            status: 0,
            end: End::Open,
        }
    }
}

pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

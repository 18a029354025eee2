//! The lines of a Pi session file: the header, and the entries of its tree.
//!
//! Format version 3 in every version seen, and in `pi_agent_rust` too. Unknown types and fields are
//! skipped; a line of another shape is ignored.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Kind;
use crate::model::{Time, Tokens, is_session_id};
use crate::native::{file, jsonl};

/// Bytes read at once for a header, which has some 200 bytes; that of `pi_agent_rust` some more.
const HEADER_CHUNK: usize = 1 << 10;
/// Length of the id prefix that `pi_agent_rust` puts into a file's name.
const SHORT_ID: usize = 8;

/// The first line of a session file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::adapters) struct Header {
    #[serde(rename = "type")]
    kind: String,
    /// The session's id.
    pub(super) id: String,
    timestamp: Option<String>,
    /// The working directory of the session.
    pub(super) cwd: Option<String>,
    /// The file it was forked from.
    #[serde(alias = "branchedFrom")]
    pub(super) parent_session: Option<String>,
    // Only `pi_agent_rust` writes these here.
    provider: Option<Value>,
    model_id: Option<Value>,
    thinking_level: Option<Value>,
    leaf_id: Option<Value>,
}

impl Header {
    /// Reads a line as a header.
    pub(in crate::adapters) fn parse(line: &[u8]) -> Option<Self> {
        if !line.starts_with(b"{\"type\":\"session\"") && jsonl::own_type(line) != Some(b"session")
        {
            return None;
        }
        let header: Self = jsonl::parse(line)?;
        (header.kind == "session" && is_session_id(&header.id)).then_some(header)
    }

    /// Returns when the session began.
    pub(in crate::adapters) fn at(&self) -> Option<Time> {
        self.timestamp.as_deref().and_then(Time::parse)
    }

    /// Returns which of the two programs began the file.
    ///
    /// `pi_agent_rust` names a file by the first eight characters of its id, Pi by the whole id. A file
    /// with a name chosen by the user is recognised by the fields that only `pi_agent_rust` writes into
    /// a header.
    pub(super) fn kind(&self, name: &str) -> Kind {
        match stamped(name) {
            Some(id) if id == self.id => Kind::Pi,
            Some(id) if id.len() == SHORT_ID && self.id.starts_with(id) => Kind::PiRust,
            _ => {
                let fields = [&self.provider, &self.model_id, &self.thinking_level, &self.leaf_id];
                let rust = fields.iter().any(|field| field.is_some());
                if rust { Kind::PiRust } else { Kind::Pi }
            }
        }
    }
}

/// Reads the header of a file.
pub(super) fn header_of(path: &Path, uid: u32) -> Result<Option<Header>, file::Skip> {
    let opened = file::open(path, uid)?;
    let mut header = None;
    jsonl::head(&opened.file, HEADER_CHUNK, &mut |line| {
        header = Header::parse(line);
        std::ops::ControlFlow::Break(())
    })?;
    Ok(header)
}

/// Returns the id in a name like `2026-11-15T07-52-18-877Z_<id>.jsonl`.
pub(super) fn stamped(name: &str) -> Option<&str> {
    const STAMP: usize = "2026-11-15T07-52-18-877Z".len();
    let stem = name.strip_suffix(".jsonl")?;
    let (stamp, id) = stem.split_once('_')?;
    let digits = stamp.len() == STAMP && stamp.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    (digits && is_session_id(id)).then_some(id)
}

/// Says whether a text is shaped like a UUID: only Pi names files like that.
pub(super) fn is_uuid(text: &str) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(
            |(at, b)| {
                if dash(at) { b == b'-' } else { b.is_ascii_hexdigit() }
            },
        )
}

/// One entry of the tree.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) parent_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) model_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) target_id: Option<Cow<'a, str>>,
    /// The text that a context edit puts in place of its target; `null` removes the target.
    #[serde(borrow)]
    pub(super) replacement: Option<&'a RawValue>,
    /// Tokens of a compaction, of a branch summary, or of a `usage` entry.
    usage: Option<Usage>,
}

impl<'a> Entry<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        jsonl::parse(line)
    }

    pub(super) fn at(&self) -> Option<Time> {
        self.timestamp.as_deref().and_then(Time::parse)
    }

    /// Returns its message, if it is one.
    pub(super) fn message<T: Deserialize<'a>>(&self) -> Option<T> {
        if self.kind != "message" {
            return None;
        }
        serde_json::from_str(self.message?.get()).ok()
    }

    /// Returns its tokens, if it used any.
    pub(super) fn usage(&self) -> Option<Usage> {
        match self.kind.as_ref() {
            "message" => {
                let spent: Spent<'_> = self.message()?;
                spent.usage.filter(|_| spent.role == "assistant")
            }
            "usage" | "compaction" | "branch_summary" => self.usage,
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Spent<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    usage: Option<Usage>,
}

/// Tokens as Pi writes them: tokens from a cache are not part of the input.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Usage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    /// In dollars, by the prices Pi knows.
    cost: Option<Cost>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Cost {
    total: Option<f64>,
}

impl Usage {
    pub(super) fn cost_usd(&self) -> Option<f64> {
        self.cost.and_then(|cost| cost.total)
    }
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

/// The part of a message that shows the state of a turn.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step<'a> {
    #[serde(borrow)]
    pub(super) role: Cow<'a, str>,
    #[serde(default)]
    pub(super) content: Value,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) stop_reason: Option<Cow<'a, str>>,
    pub(super) error_message: Option<String>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) tool_call_id: Option<Cow<'a, str>>,
}

/// Returns the text of a message's content: a string, or blocks of which some are text.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let text = |block: &'_ Value| {
                (block["type"] == "text").then(|| block["text"].as_str().map(str::to_owned))?
            };
            blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

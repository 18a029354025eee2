//! The lines of a transcript, as far as we read them. Every field is optional: versions differ, and a
//! line we do not understand is passed over.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::{Time, Tokens};
use crate::native::jsonl;

/// One line: an envelope around a message, or a note about the session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) subtype: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) uuid: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) cwd: Option<Cow<'a, str>>,
    /// The git branch of the directory; `HEAD` where none is checked out.
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) git_branch: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    entrypoint: Option<Cow<'a, str>>,
    /// The version of Claude Code that wrote the line; notes have none.
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    version: Option<Cow<'a, str>>,
    /// Of `queue-operation` lines.
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) operation: Option<Cow<'a, str>>,
    /// The refusal of a tool call: by a rule or by a person.
    #[serde(borrow)]
    permission_decision: Option<Decision<'a>>,
    #[serde(default)]
    pub(super) is_meta: bool,
    #[serde(default)]
    pub(super) is_api_error_message: bool,
    #[serde(default)]
    pub(super) is_compact_summary: bool,
    /// It belongs to a subagent.
    #[serde(default)]
    pub(super) is_sidechain: bool,
    /// Of `system` lines: a hook kept the turn from going on.
    #[serde(default)]
    pub(super) prevent_continuation: bool,
    #[serde(borrow)]
    pub(super) prompt_submit_ending: Option<&'a RawValue>,
    /// Of `attachment` lines.
    #[serde(borrow)]
    pub(super) attachment: Option<&'a RawValue>,
    /// Of `cost-state` lines.
    #[serde(rename = "totalCostUSD")]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(borrow)]
    pub(super) message: Option<Body<'a>>,
    /// Of `system` lines.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) retry_attempt: Option<u32>,
    pub(super) max_retries: Option<u32>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// Of `api-request` lines: equal for every attempt at the same call.
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) request_digest: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) custom_title: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) ai_title: Option<Cow<'a, str>>,
}

impl<'a> Line<'a> {
    /// Parses a line; `None` if it is not a JSON object of this shape.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        jsonl::parse(bytes)
    }

    /// Says whether a rule refused a tool call without asking the user.
    pub(super) fn was_refused_by_rule(&self) -> bool {
        let decision = self.permission_decision.as_ref();
        decision.is_some_and(|d| {
            d.decision.as_deref() == Some("reject") && d.source.as_deref() == Some("config")
        })
    }

    /// Says whether the line was written by a process that has a terminal.
    pub(super) fn has_terminal(&self) -> bool {
        self.entrypoint.as_deref() == Some("cli")
    }

    /// Returns the version of Claude Code that wrote the line.
    pub(super) fn version(&self) -> Option<[u32; 3]> {
        let mut parts = self.version.as_deref()?.splitn(3, '.');
        let mut number = || {
            let part = parts.next()?;
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            part[..digits].parse().ok()
        };
        Some([number()?, number()?, number()?])
    }

    pub(super) fn at(&self) -> Option<Time> {
        self.timestamp.as_deref().and_then(Time::parse)
    }
}

#[derive(Deserialize)]
struct Decision<'a> {
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    decision: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    source: Option<Cow<'a, str>>,
}

/// A message of the model's API.
#[derive(Deserialize)]
pub(super) struct Body<'a> {
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    pub(super) stop_reason: Option<Cow<'a, str>>,
    pub(super) usage: Option<Usage>,
}

/// The model name in messages that Claude Code writes itself.
pub(super) const SYNTHETIC: &str = "<synthetic>";

impl Body<'_> {
    pub(super) fn is_synthetic(&self) -> bool {
        self.model.as_deref() == Some(SYNTHETIC)
    }

    /// Returns the content as blocks; a plain text is one block.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let Some(raw) = self.content else { return Vec::new() };
        if raw.get().starts_with('"') {
            let text = serde_json::from_str(raw.get()).ok();
            return vec![Block { kind: "text".into(), text, ..Block::default() }];
        }
        serde_json::from_str(raw.get()).unwrap_or_default()
    }
}

/// A part of a message.
#[derive(Default, Deserialize)]
pub(super) struct Block {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    /// Of `thinking`.
    pub(super) thinking: Option<String>,
    /// Of `image`.
    #[serde(default)]
    pub(super) source: serde_json::Value,
    /// Of `tool_use`.
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) input: serde_json::Value,
    /// Of `tool_result`.
    pub(super) tool_use_id: Option<String>,
    #[serde(default)]
    pub(super) content: serde_json::Value,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
}

/// Tokens of one model message.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_field_names)] // the names are the format
pub(super) struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
}

impl From<Usage> for Tokens {
    fn from(u: Usage) -> Self {
        Self {
            input: u.input_tokens,
            output: u.output_tokens,
            cache_read: u.cache_read_input_tokens,
            cache_write: u.cache_creation_input_tokens,
        }
    }
}

/// Says whether the text of a user line is a prompt of a person or script, and not added by the
/// program.
pub(super) fn is_prompt(text: &str) -> bool {
    const ADDED: [&str; 7] = [
        "<command-name>",
        "<command-message>",
        "<local-command-",
        "<bash-input>",
        "<bash-stdout>",
        "<system-reminder>",
        "Caveat: The messages below",
    ];
    let text = text.trim_start();
    !text.is_empty() && !ADDED.iter().any(|prefix| text.starts_with(prefix))
}

//! Tokens and cost: every distinct model message of a transcript and of its subagents', once. The prompts are
//! counted in the same pass.
//!
//! A message stands on one line per content block. Lines that were written while the answer still arrived
//! carry the small output figure with which the API begins; the largest figure of each field counts. A
//! message none of whose lines has a stop reason was never written with its final figure.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

use super::lines::{SYNTHETIC, Usage};
use super::messages;
use crate::adapters::{Found, PromptCounter, Record};
use crate::model::{Locator, Tokens};
use crate::native::{file, jsonl};

/// Longest line that is searched for a cost figure, in bytes.
const COST_BYTES: usize = 64 << 10;

/// Bytes behind the name of the field `usage` within which the figures of a message are expected.
const FIGURES_BYTES: usize = 256;
/// Bytes of the output figure and its name at most.
const OUTPUT_BYTES: usize = 40;

/// The part of a line that counting needs.
#[derive(Deserialize)]
struct Counted<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    message: Option<Spent<'a>>,
    #[serde(rename = "totalCostUSD")]
    total_cost: Option<f64>,
    #[serde(rename = "modelUsage", borrow)]
    model_usage: Option<HashMap<Cow<'a, str>, ModelUsage>>,
}

#[derive(Deserialize)]
struct Spent<'a> {
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    stop_reason: Option<Cow<'a, str>>,
    usage: Option<Usage>,
}

/// The figures of one message, from all its lines.
struct Answer {
    largest: Tokens,
    is_final: bool,
    /// The figures as its newest line has them: a further line with the same figures is not parsed.
    written: Vec<u8>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_field_names)] // the names are the format
struct ModelUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
}

#[derive(Default)]
struct Sum {
    /// By message id.
    messages: HashMap<String, Answer>,
    /// The newest cost figure and the tokens it includes.
    cost: Option<(f64, Tokens)>,
    oversized: u64,
    /// The prompts of the session's own transcript.
    prompts: PromptCounter,
}

/// Counts this transcript and its subagents'. A total that could not be counted completely stays
/// unknown.
pub(super) fn count(
    opened: &file::Opened,
    uid: u32,
    children: &Found<Locator>,
    record: &mut Record,
) {
    let mut sum = Sum::default();
    let own = sum.add(opened, Whose::Session);
    record.turns = own.is_ok().then(|| sum.prompts.count());
    let mut whole = children.whole && own.is_ok();
    for path in children.rows.iter().filter_map(|c| c.path.as_ref()) {
        let read = file::open(path, uid).map_err(|s| io::Error::other(s.to_string()));
        whole &= read.and_then(|child| sum.add(&child, Whose::Subagent)).is_ok();
    }
    if !whole || sum.oversized > 0 {
        record.notes.push("tokens are not known: part of the transcript could not be read".into());
        return;
    }
    let unfinished = sum.messages.values().filter(|answer| !answer.is_final).count();
    if unfinished > 0 {
        record.notes.push(format!(
            "tokens are not known: the final figures of {unfinished} answers were not written"
        ));
        return;
    }
    let tokens = sum.messages.values().fold(Tokens::default(), |mut tokens, answer| {
        tokens.add(answer.largest);
        tokens
    });
    record.tokens = Some(tokens);
    // The agent's own figure misses the cost of a killed run; it counts only if it includes every
    // token.
    record.cost_usd = sum.cost.filter(|(_, of)| *of == tokens).map(|(cost, _)| whole_nanos(cost));
}

/// Rounds to a billionth: the figure is a sum of floating point numbers.
fn whole_nanos(cost: f64) -> f64 {
    (cost * 1e9).round() / 1e9
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Session,
    Subagent,
}

/// Returns the id of the model's message that a line holds, where it stands near the beginning.
pub(super) fn message_id(line: &[u8]) -> Option<&str> {
    static MESSAGE: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new(b"\"message\":{\"id\":\""));
    let id = jsonl::behind(line, &MESSAGE)?;
    std::str::from_utf8(&id[..memchr::memchr(b'"', id)?]).ok()
}

/// Returns the text of the figures behind `"usage"`; nothing where the last of them is too far behind.
fn figures(usage: &[u8]) -> &[u8] {
    static OUTPUT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"output_tokens\":"));
    let head = &usage[..usage.len().min(FIGURES_BYTES)];
    match OUTPUT.find(head) {
        Some(at) if at + OUTPUT_BYTES <= head.len() => head,
        _ => b"",
    }
}

impl Sum {
    fn add(&mut self, opened: &file::Opened, whose: Whose) -> io::Result<()> {
        // Most bytes are the output of tools; such a line is recognised by its beginning.
        let pass = jsonl::lines(&opened.file, 0, &mut |line| match jsonl::own_type(line) {
            Some(b"user") => self.prompt(line, whose),
            Some(b"assistant" | b"cost-state") => drop(self.figures(line, whose)),
            Some(_) => {}
            None if self.figures(line, whose) => {}
            None => self.prompt(line, whose),
        })?;
        self.oversized += pass.oversized;
        Ok(())
    }

    fn prompt(&mut self, line: &[u8], whose: Whose) {
        if whose == Whose::Session
            && let Some(prompt) = messages::prompt(line)
        {
            self.prompts.add(prompt.id);
        }
    }

    /// Adds the tokens or the cost that a line holds; says whether it is a line that may hold them.
    fn figures(&mut self, line: &[u8], whose: Whose) -> bool {
        static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
        static COST: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"cost-state\""));
        match USAGE.find(line) {
            Some(at) => {
                let written = figures(&line[at..]);
                self.is_known(line, written) || self.line(line, written, whose)
            }
            None if line.len() <= COST_BYTES && COST.find(line).is_some() => {
                self.line(line, b"", whose)
            }
            None => false,
        }
    }

    /// Says whether a line repeats the figures of a message whose final figures were seen.
    fn is_known(&self, line: &[u8], written: &[u8]) -> bool {
        let answer = message_id(line).and_then(|id| self.messages.get(id));
        !written.is_empty() && answer.is_some_and(|a| a.is_final && a.written == written)
    }

    /// Parses a line and adds its tokens or its cost; says whether its type is one that may hold them.
    fn line(&mut self, line: &[u8], written: &[u8], whose: Whose) -> bool {
        let Some(line) = jsonl::parse::<Counted<'_>>(line) else { return false };
        match (line.kind.as_ref(), line.message) {
            ("assistant", Some(Spent { id: Some(id), model, stop_reason, usage: Some(usage) })) => {
                if model.as_deref() == Some(SYNTHETIC) {
                    return true;
                }
                let (largest, is_final) = (Tokens::from(usage), stop_reason.is_some());
                let written = written.to_vec();
                match self.messages.get_mut(id.as_ref()) {
                    Some(answer) => {
                        answer.largest = answer.largest.largest(largest);
                        answer.is_final |= is_final;
                        answer.written = written;
                    }
                    None => {
                        self.messages
                            .insert(id.into_owned(), Answer { largest, is_final, written });
                    }
                }
            }
            ("cost-state", _) if whose == Whose::Session => {
                let of = line.model_usage.map(|models| {
                    models.values().fold(Tokens::default(), |mut sum, m| {
                        sum.add(Tokens {
                            input: m.input_tokens,
                            output: m.output_tokens,
                            cache_read: m.cache_read_input_tokens,
                            cache_write: m.cache_creation_input_tokens,
                        });
                        sum
                    })
                });
                self.cost = line.total_cost.zip(of);
            }
            _ => {}
        }
        line.kind != "user"
    }
}

//! Tokens and cost: every distinct model message of a transcript and of its subagents', once.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;

use memchr::memmem::Finder;
use serde::Deserialize;

use super::lines::{SYNTHETIC, Usage};
use crate::adapters::{Found, Record};
use crate::model::{Locator, Tokens};
use crate::native::{file, jsonl};

/// Longest line that may tell of costs.
const COST_BYTES: usize = 64 << 10;

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
    model_usage: Option<std::collections::HashMap<Cow<'a, str>, ModelUsage>>,
}

#[derive(Deserialize)]
struct Spent<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    usage: Option<Usage>,
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
    seen: HashSet<Vec<u8>>,
    tokens: Tokens,
    /// The newest cost figure and the tokens it speaks of.
    cost: Option<(f64, Tokens)>,
    oversized: u64,
}

/// Counts this transcript and its subagents'. What could not be counted whole stays unknown.
pub(super) fn count(
    opened: &file::Opened,
    uid: u32,
    children: &Found<Locator>,
    record: &mut Record,
) {
    let mut sum = Sum::default();
    let mut whole = children.whole && sum.add(opened, Whose::Session).is_ok();
    for path in children.rows.iter().filter_map(|c| c.path.as_ref()) {
        let read = file::open(path, uid).map_err(|s| io::Error::other(s.to_string()));
        whole &= read.and_then(|child| sum.add(&child, Whose::Subagent)).is_ok();
    }
    if !whole || sum.oversized > 0 {
        record.notes.push("tokens are not known: part of the transcript could not be read".into());
        return;
    }
    record.tokens = Some(sum.tokens);
    // The agent's own figure loses what a killed run spent; it counts only if it speaks of every token.
    record.cost_usd =
        sum.cost.filter(|(_, of)| *of == sum.tokens).map(|(cost, _)| whole_nanos(cost));
}

/// The figure is a sum of floating point numbers; what is below a billionth is noise.
fn whole_nanos(cost: f64) -> f64 {
    (cost * 1e9).round() / 1e9
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Session,
    Subagent,
}

impl Sum {
    fn add(&mut self, opened: &file::Opened, whose: Whose) -> io::Result<()> {
        let usage = Finder::new(b"\"usage\"");
        let cost = Finder::new(b"\"cost-state\"");
        let message = Finder::new(b"\"message\":{\"id\":\"");
        let pass = jsonl::lines(&opened.file, 0, &mut |line| {
            // Most bytes are what tools printed: such a line is known by its beginning.
            if jsonl::own_type(line) == Some(b"user") {
                return;
            }
            let short = line.len() <= COST_BYTES;
            if usage.find(line).is_some() || (short && cost.find(line).is_some()) {
                let id = jsonl::behind(line, &message);
                let id = id.and_then(|id| Some(&id[..memchr::memchr(b'"', id)?]));
                // One answer stands on several lines with the same usage.
                if id.is_none_or(|id| !self.seen.contains(id)) {
                    self.line(line, whose);
                }
            }
        })?;
        self.oversized += pass.oversized;
        Ok(())
    }

    fn line(&mut self, line: &[u8], whose: Whose) {
        let Some(line) = jsonl::parse::<Counted<'_>>(line) else { return };
        match (line.kind.as_ref(), line.message) {
            ("assistant", Some(Spent { id: Some(id), model, usage: Some(usage) })) => {
                let fresh =
                    model.as_deref() != Some(SYNTHETIC) && !self.seen.contains(id.as_bytes());
                if fresh {
                    self.seen.insert(id.as_bytes().to_vec());
                    self.tokens.add(usage.into());
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
    }
}

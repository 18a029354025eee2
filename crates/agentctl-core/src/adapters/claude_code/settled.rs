//! Whether the call that a hook asks about was settled in another way: its result stands in the transcript.
//!
//! All asks of a session share one live record, which says `waiting` as long as one of them is open. The input of
//! the hook has no id of the call, so the call is found by its name and input.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::lines::Line;
use crate::adapters::Look;
use crate::adapters::asker::HookedAsk;
use crate::native::{file, jsonl};

/// Bytes read at once from the end of a transcript.
const CHUNK: usize = 32 << 10;

/// Returns the transcript of the conversation that asks, and its length: that of the session, or of its subagent.
pub(super) fn transcript_of(look: &Look, input: &Value) -> Option<(PathBuf, u64)> {
    let path = Path::new(input["transcript_path"].as_str()?);
    let session = input["session_id"].as_str()?;
    if !path.is_absolute() || path.file_name()?.to_str()?.strip_suffix(".jsonl")? != session {
        return None;
    }
    let path = match input["agent_id"].as_str() {
        Some(agent) if agent.contains('/') => return None,
        Some(agent) => {
            path.with_extension("").join("subagents").join(format!("agent-{agent}.jsonl"))
        }
        None => path.to_owned(),
    };
    // A transcript that does not exist yet is written from its beginning.
    let length = file::open(&path, look.host.kernel.uid()).map_or(0, |opened| opened.size);
    Some((path, length))
}

/// Says whether the call of an ask has a result that was written after the hook was called. As long as a call
/// with the same name and input has none, it is not known which of them the ask is about, and the answer is no.
pub(super) fn has_result(look: &Look, ask: &HookedAsk) -> bool {
    let Some((path, length)) = &ask.record else { return false };
    let Ok(opened) = file::open(path, look.host.kernel.uid()) else { return false };
    if opened.size <= *length {
        return false;
    }
    let mut reading = Reading {
        input: &ask.input,
        length: *length,
        answered: Vec::new(),
        answered_since: Vec::new(),
        is_settled: false,
        is_open: false,
    };
    let visit = &mut |at: u64, line: &[u8]| reading.line(at, line);
    let read = jsonl::tail_from(&opened.file, opened.size, CHUNK, jsonl::TAIL_BYTES, visit);
    read.is_ok() && reading.is_settled && !reading.is_open
}

/// The calls of the turn and their results, read from the newest line backwards.
struct Reading<'a> {
    input: &'a Value,
    length: u64,
    /// The calls with a result.
    answered: Vec<String>,
    /// Those of them whose result was written after the hook was called.
    answered_since: Vec<String>,
    is_settled: bool,
    is_open: bool,
}

impl Reading<'_> {
    fn line(&mut self, at: u64, bytes: &[u8]) -> ControlFlow<()> {
        let Some(line) = Line::parse(bytes) else { return ControlFlow::Continue(()) };
        let Some(body) = &line.message else { return ControlFlow::Continue(()) };
        match line.kind.as_ref() {
            "user" => {
                let results = body.blocks().into_iter().filter_map(|block| block.tool_use_id);
                let before = self.answered.len();
                self.answered.extend(results);
                let new = self.answered.get(before..).unwrap_or_default();
                if at >= self.length {
                    self.answered_since.extend_from_slice(new);
                } else if new.is_empty() && !line.is_meta {
                    // The prompt that began the turn: no call of it stands before.
                    return ControlFlow::Break(());
                }
            }
            "assistant" => {
                for block in body.blocks() {
                    if block.kind == "tool_use"
                        && block.name.as_deref() == self.input["tool_name"].as_str()
                        && block.input == self.input["tool_input"]
                    {
                        self.call(&block.id.unwrap_or_default());
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// Notes a call with the name and input of the ask.
    fn call(&mut self, id: &str) {
        let is_among = |ids: &[String]| ids.iter().any(|other| other == id);
        self.is_settled |= is_among(&self.answered_since);
        self.is_open |= !is_among(&self.answered);
    }
}

//! Facts about a whole conversation that `status` shows: the number of turns, the last answer, the context used
//! and the branch.
//!
//! Most facts are read backwards from the end, at most [`MAX_LINES_BACK`] lines. The prompts of a file are counted
//! in the pass that counts its tokens ([`Record::turns`](crate::adapters::Record::turns)), so the file is read once.

use std::ops::ControlFlow;

use super::{Storage, Transcript, TranscriptError, fetch_conversation, unreadable};
use crate::adapters::PromptCounter;
use crate::model::{Message, Role, Tokens};
use crate::native::{file, jsonl};

/// Number of lines that are read from the end.
const MAX_LINES_BACK: usize = 2000;
/// Bytes read at once for the first line.
const FIRST_LINE_CHUNK: usize = 4 << 10;

/// Facts about a conversation. A fact that the conversation does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// How many prompts it has; `None` of a file.
    pub turns: Option<u64>,
    /// The last message of the model that has text.
    pub last_answer: Option<Message>,
    /// The tokens that the last model call had as its context, and its answer.
    pub context_tokens: Option<u64>,
    /// The most tokens that the model takes, where the agent writes it.
    pub context_window: Option<u64>,
    /// The git branch, where the agent writes it.
    pub branch: Option<String>,
}

impl Transcript {
    /// Reads the facts about the conversation as a whole, and moves to the end.
    pub fn summary(&mut self) -> Result<Summary, TranscriptError> {
        let mut summary = Summary::default();
        self.read_beginning(&mut summary)?;
        self.read_back(&mut summary)?;
        Ok(summary)
    }

    /// Reads the facts of the first line, and the number of prompts where all lines are in memory.
    fn read_beginning(&mut self, summary: &mut Summary) -> Result<(), TranscriptError> {
        let adapter = self.adapter;
        match &mut self.storage {
            Storage::File { path, .. } => {
                let opened = file::open(path, self.fleet.host.kernel.uid())
                    .map_err(|error| unreadable(path, &error))?;
                jsonl::head(&opened.file, FIRST_LINE_CHUNK, &mut |line| {
                    summary.branch = adapter.line_facts(line).branch;
                    ControlFlow::Break(())
                })
                .map_err(|error| unreadable(path, &error))?;
            }
            Storage::Server { target, asked, .. } => {
                let conversation = fetch_conversation(&self.fleet, target, asked)?;
                let mut prompts = PromptCounter::default();
                for line in &conversation.lines {
                    prompts.add_messages(adapter.messages(line));
                }
                summary.turns = Some(prompts.count());
                let first = conversation.lines.first();
                summary.branch = first.and_then(|line| adapter.line_facts(line).branch);
                *asked = Some(conversation);
            }
        }
        Ok(())
    }

    fn read_back(&mut self, summary: &mut Summary) -> Result<(), TranscriptError> {
        let mut branch = None;
        let mut lines = 0;
        self.back(None, &mut |adapter, _, line| {
            let facts = adapter.line_facts(line);
            branch = branch.take().or(facts.branch);
            summary.context_window = summary.context_window.or(facts.context_window);
            summary.context_tokens = summary.context_tokens.or(facts.context_tokens);
            // Only the branch may still be missing, which no message holds.
            let needs_messages = summary.last_answer.is_none() || summary.context_tokens.is_none();
            let messages = if needs_messages { adapter.messages(line) } else { Vec::new() };
            for message in messages.into_iter().rev() {
                if message.role != Role::Assistant {
                    continue;
                }
                let used = message.usage.map(context_of).filter(|used| *used > 0);
                summary.context_tokens = summary.context_tokens.or(used);
                if summary.last_answer.is_none() && has_text(&message) {
                    summary.last_answer = Some(message);
                }
            }
            lines += 1;
            let is_complete = summary.last_answer.is_some()
                && summary.context_tokens.is_some()
                && (branch.is_some() || summary.branch.is_some());
            lines < MAX_LINES_BACK && !is_complete
        })?;
        summary.branch = branch.or(summary.branch.take());
        Ok(())
    }
}

fn context_of(usage: Tokens) -> u64 {
    let Tokens { input, output, cache_read, cache_write } = usage;
    [output, cache_read, cache_write].into_iter().fold(input, u64::saturating_add)
}

fn has_text(message: &Message) -> bool {
    message.text.as_deref().is_some_and(|text| !text.trim().is_empty())
}

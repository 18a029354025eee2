//! A part of a conversation: the last messages or turns that a reader asks for, and how many came before.
//!
//! A conversation is read from its end, so the call of a tool is met after its result. Calls whose results are
//! in the page are kept even if they are older than the page.

use std::collections::HashSet;

use super::{Transcript, TranscriptError, is_bare_usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Message, Role, Time, ToolCall};

/// Most bytes of older lines that are read to count the messages before a page.
const MAX_COUNTED_BYTES: usize = 4 << 20;
/// Most older lines that are read to find the calls of results in a page.
const MAX_CALL_LINES: usize = 200;

/// The messages that a reader asks for.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// How many.
    pub limit: Limit,
    /// Only messages of this time and later.
    pub since: Option<Time>,
    /// Only these authors; empty for all.
    pub roles: Vec<Role>,
    /// Leave out tool calls and their results.
    pub without_tools: bool,
    /// The part of the conversation before the page that is read as well.
    pub beyond: Beyond,
}

/// How many messages a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The last messages.
    Messages(usize),
    /// The last turns, each from its prompt on.
    Turns(usize),
    /// All messages.
    None,
}

/// The part of the conversation before a page that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Beyond {
    /// Nothing.
    Nothing,
    /// The calls of results in the page.
    Calls,
    /// These calls, and the number of messages.
    Count,
}

/// A part of a conversation.
#[derive(Clone, Debug)]
pub struct Page {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// The calls of results in the page that are not in the page themselves.
    pub calls: Vec<ToolCall>,
    /// The messages before the page; `None` if they were not counted.
    pub earlier: Option<Earlier>,
}

/// A part of a conversation that ends before a place.
#[derive(Clone, Debug)]
pub struct PageBefore {
    /// The messages.
    pub page: Page,
    /// The place of the page itself: the page before it ends there. `None` at the beginning of the conversation.
    pub before: Option<u64>,
}

/// The messages before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Earlier {
    /// How many there are at least.
    pub messages: usize,
    /// The number is exact: the conversation was read from its beginning.
    pub is_exact: bool,
}

impl Default for Selection {
    fn default() -> Self {
        Self::last(20)
    }
}

impl Selection {
    /// Selects the last messages of every kind.
    #[must_use]
    pub fn last(count: usize) -> Self {
        let limit = Limit::Messages(count);
        let beyond = Beyond::Nothing;
        Self { limit, since: None, roles: Vec::new(), without_tools: false, beyond }
    }

    /// Returns what of a message is wanted, apart from its number and time.
    #[must_use]
    pub fn admitted(&self, mut message: Message) -> Option<Message> {
        if !self.roles.is_empty() && !self.roles.contains(&message.role) {
            return None;
        }
        if self.without_tools {
            message.tool_calls.clear();
            message.tool_results.clear();
            if message.is_empty() {
                return None;
            }
        }
        Some(message)
    }
}

impl Transcript {
    /// Returns the messages that are asked for and moves to the end.
    pub fn page(&mut self, selection: &Selection) -> Result<Page, TranscriptError> {
        let mut reader = Reader::new(selection);
        let whole = self.back(None, &mut |adapter, _, line| {
            for message in adapter.messages(line).into_iter().rev() {
                reader.take(message);
            }
            reader.goes_on(line.len())
        })?;
        let Reader { mut newest_first, calls, earlier, .. } = reader;
        newest_first.reverse();
        let messages = self.settle(newest_first);
        let earlier = Earlier { messages: earlier, is_exact: whole };
        let earlier = (selection.beyond == Beyond::Count).then_some(earlier);
        Ok(Page { messages, calls, earlier })
    }
}

impl Transcript {
    /// Returns at least this many messages before a place, or the last ones, and moves to the end of what was read. A
    /// line is never split between two pages, so a page can have a few messages more.
    pub fn page_before(
        &mut self,
        count: usize,
        before: Option<u64>,
    ) -> Result<PageBefore, TranscriptError> {
        let (limit, beyond) = (Limit::None, Beyond::Count);
        let selection = Selection { limit, beyond, ..Selection::default() };
        let mut reader = Reader::new(&selection);
        let mut oldest = None;
        let whole = self.back(before, &mut |adapter, at, line| {
            let taken = reader.newest_first.len();
            for message in adapter.messages(line).into_iter().rev() {
                reader.take(message);
            }
            if reader.newest_first.len() > taken {
                oldest = Some(at);
            }
            reader.is_full |= reader.taken >= count;
            reader.goes_on(line.len())
        })?;
        let Reader { mut newest_first, calls, earlier, .. } = reader;
        newest_first.reverse();
        let messages = self.settle(newest_first);
        let has_more = earlier > 0 || !whole;
        let earlier = Some(Earlier { messages: earlier, is_exact: whole });
        let page = Page { messages, calls, earlier };
        Ok(PageBefore { page, before: oldest.filter(|_| has_more) })
    }
}

/// The state of a walk from the newest message to older ones.
struct Reader<'a> {
    selection: &'a Selection,
    newest_first: Vec<Message>,
    /// How many of them are messages and not only a count of tokens.
    taken: usize,
    turns: usize,
    /// The last message that was met is a prompt.
    is_in_prompt: bool,
    is_full: bool,
    /// The last message that was met is the assistant's and in the page, so thinking before it belongs to it.
    is_in_answer: bool,
    /// The ids of results whose calls were not met yet.
    wanted: HashSet<String>,
    calls: Vec<ToolCall>,
    earlier: usize,
    earlier_lines: usize,
    earlier_bytes: usize,
}

impl<'a> Reader<'a> {
    fn new(selection: &'a Selection) -> Self {
        Self {
            selection,
            newest_first: Vec::new(),
            taken: 0,
            turns: 0,
            is_in_prompt: false,
            is_full: matches!(selection.limit, Limit::Messages(0) | Limit::Turns(0)),
            is_in_answer: false,
            wanted: HashSet::new(),
            calls: Vec::new(),
            earlier: 0,
            earlier_lines: 0,
            earlier_bytes: 0,
        }
    }

    fn take(&mut self, message: Message) {
        if is_bare_usage(&message) {
            if !self.is_full {
                self.newest_first.push(message);
            }
            return;
        }
        if message.is_only_thinking() && self.is_in_answer {
            return self.newest_first.push(message);
        }
        // Several prompts in a row begin one turn.
        let is_prompt = message.begins_turn();
        if self.is_in_prompt && !is_prompt {
            self.turns += 1;
            self.is_full |= self.selection.limit == Limit::Turns(self.turns);
        }
        self.is_in_prompt = is_prompt;
        let is_too_old = message.at.zip(self.selection.since).is_some_and(|(at, since)| at < since);
        self.is_full |= is_too_old;
        let calls: Vec<ToolCall> =
            message.tool_calls.iter().filter(|c| self.is_wanted(c)).cloned().collect();
        let admitted = self.selection.admitted(message);
        let shown = admitted.as_ref().filter(|_| !self.is_full);
        for call in calls {
            self.wanted.retain(|id| Some(id) != call.id.as_ref());
            if shown.is_none() {
                self.calls.push(call);
            }
        }
        let results = shown.into_iter().flat_map(|message| &message.tool_results);
        self.wanted.extend(results.filter_map(|result| result.id.clone()));
        self.is_in_answer = shown.is_some_and(|message| message.role == Role::Assistant);
        match admitted {
            Some(message) if !self.is_full => {
                self.newest_first.push(message);
                self.taken += 1;
                self.is_full |= self.selection.limit == Limit::Messages(self.taken);
            }
            Some(_) => self.earlier += 1,
            None => {}
        }
    }

    fn is_wanted(&self, call: &ToolCall) -> bool {
        call.id.as_ref().is_some_and(|id| self.wanted.contains(id))
    }

    /// Says whether an older line is to be read.
    fn goes_on(&mut self, bytes: usize) -> bool {
        if !self.is_full {
            return true;
        }
        self.earlier_lines += 1;
        self.earlier_bytes += bytes;
        let wants_call = !self.wanted.is_empty() && self.earlier_lines < MAX_CALL_LINES;
        match self.selection.beyond {
            // Thinking may stand right before the oldest message.
            Beyond::Nothing => self.is_in_answer && self.earlier_lines <= 1,
            Beyond::Calls => wants_call,
            Beyond::Count => self.earlier_bytes < MAX_COUNTED_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(value: serde_json::Value) -> Message {
        let mut whole = json!({"id": null, "at": null, "role": "assistant", "text": null,
            "tool_calls": [], "tool_results": [], "model": null, "usage": null});
        whole
            .as_object_mut()
            .into_iter()
            .for_each(|w| w.extend(value.as_object().cloned().into_iter().flatten()));
        serde_json::from_value(whole).expect("a message")
    }

    fn conversation() -> Vec<Message> {
        let call = json!([{"id": "c1", "name": "Bash", "input": {"command": "ls"}}]);
        let result = json!([{"id": "c1", "text": "a", "is_error": false}]);
        vec![
            message(json!({"role": "user", "text": "one"})),
            message(json!({"text": "first answer"})),
            message(json!({"role": "user", "text": "two"})),
            message(json!({"role": "user", "images": [{"media_type": "image/png", "name": null}]})),
            message(json!({"tool_calls": call})),
            message(json!({"role": "tool", "tool_results": result})),
            message(json!({"text": "second answer"})),
        ]
    }

    fn read(selection: &Selection) -> Reader<'_> {
        let mut reader = Reader::new(selection);
        for message in conversation().into_iter().rev() {
            reader.take(message);
            if !reader.goes_on(1) {
                break;
            }
        }
        reader
    }

    #[test]
    fn a_turn_begins_with_its_first_prompt_and_what_came_before_is_counted() {
        let mut selection = Selection::last(0);
        (selection.limit, selection.beyond) = (Limit::Turns(1), Beyond::Count);
        let reader = read(&selection);
        assert_eq!((reader.newest_first.len(), reader.earlier), (5, 2));
        selection.limit = Limit::Turns(2);
        assert_eq!(read(&selection).newest_first.len(), 7, "all there are");
        selection.limit = Limit::Messages(0);
        assert_eq!((read(&selection).newest_first.len(), read(&selection).earlier), (0, 7));
    }

    #[test]
    fn a_result_at_the_edge_of_a_page_brings_its_call() {
        let mut selection = Selection::last(2);
        selection.beyond = Beyond::Calls;
        let reader = read(&selection);
        assert_eq!(reader.newest_first.len(), 2);
        assert_eq!(reader.calls[0].name, "Bash");
        (selection.limit, selection.roles) = (Limit::None, vec![Role::Tool]);
        let reader = read(&selection);
        assert_eq!((reader.newest_first.len(), reader.calls.len()), (1, 1));
        selection.roles = vec![Role::Assistant];
        let reader = read(&selection);
        assert_eq!((reader.newest_first.len(), reader.calls.len()), (3, 0));
        (selection.roles, selection.without_tools) = (Vec::new(), true);
        assert_eq!(read(&selection).newest_first.len(), 5);
    }
}

//! A conversation in pages, and its growth: for interfaces that stay open.

use agentctl_core::ask::Fleet;
use agentctl_core::model::Target;
use agentctl_core::native::watch::Watch;
use agentctl_core::transcript::{Earlier, PageBefore, Transcript, TranscriptError};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Conversation, Line, View};

/// A page of a conversation.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TalkPage {
    /// Its lines.
    pub lines: Vec<Line>,
    /// The place that the page before this one ends at; null at the beginning of the conversation.
    pub before: Option<String>,
    /// The number of messages before the page, at least.
    pub earlier: usize,
    /// The number of messages before the page is exact.
    #[serde(skip)]
    pub is_earlier_exact: bool,
}

/// The growth of a conversation.
#[derive(Clone, Debug)]
pub enum TalkGrowth {
    /// Nothing was written.
    Nothing,
    /// These lines follow the ones before.
    Lines(Vec<Line>),
    /// The conversation was written anew: this page replaces everything that was shown.
    Anew(TalkPage),
}

/// A conversation that is followed.
pub struct Talk {
    transcript: Transcript,
    conversation: Conversation,
    count: usize,
    view: View,
}

impl Talk {
    /// Opens the conversation of a session; returns its last page, of about this many messages.
    pub fn open(
        fleet: &Fleet,
        target: &Target,
        (count, view): (usize, View),
    ) -> Result<(Self, TalkPage), TranscriptError> {
        let mut transcript = fleet.transcript(target)?;
        let (conversation, page) = page(&mut transcript, (count, None), &view)?;
        Ok((Self { transcript, conversation, count, view }, page))
    }

    /// Returns what was written since the last call.
    pub fn grow(&mut self) -> Result<TalkGrowth, TranscriptError> {
        if self.transcript.was_rewritten() {
            let (conversation, page) = page(&mut self.transcript, (self.count, None), &self.view)?;
            self.conversation = conversation;
            return Ok(TalkGrowth::Anew(page));
        }
        let messages = self.transcript.more()?;
        let lines = self.conversation.lines(&messages);
        Ok(if lines.is_empty() { TalkGrowth::Nothing } else { TalkGrowth::Lines(lines) })
    }

    /// Returns the line about the messages before a page, with how to see them; none if there are none.
    #[must_use]
    pub fn earlier_line(&self, page: &TalkPage, hint: &str) -> Option<Line> {
        let earlier = Earlier { messages: page.earlier, is_exact: page.is_earlier_exact };
        self.conversation.earlier_line(earlier, hint)
    }

    /// Starts a watch for its growth; fails with `Asked` if nothing announces it.
    pub fn watch(&self) -> Result<Watch, TranscriptError> {
        self.transcript.watch()
    }

    /// Says whether a server or a database keeps the conversation, so that reading it costs a question.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        self.transcript.path().is_none()
    }
}

/// Returns the page of a conversation that ends before a place, or its last page.
pub fn talk_page(
    fleet: &Fleet,
    target: &Target,
    (count, before): (usize, Option<u64>),
    view: &View,
) -> Result<TalkPage, TranscriptError> {
    let mut transcript = fleet.transcript(target)?;
    Ok(page(&mut transcript, (count, before), view)?.1)
}

fn page(
    transcript: &mut Transcript,
    (count, before): (usize, Option<u64>),
    view: &View,
) -> Result<(Conversation, TalkPage), TranscriptError> {
    let PageBefore { page, before } = transcript.page_before(count, before)?;
    let mut conversation = Conversation::new(view.clone());
    conversation.expect(page.calls);
    let lines = conversation.lines(&page.messages);
    let before = before.map(|place| place.to_string());
    let earlier = page.earlier.map_or(0, |earlier| earlier.messages);
    let is_earlier_exact = page.earlier.is_some_and(|earlier| earlier.is_exact);
    Ok((conversation, TalkPage { lines, before, earlier, is_earlier_exact }))
}

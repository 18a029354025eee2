//! The content of the detail: the conversation, or a page.

use agentctl_core::model::Time;

use super::{Action, App, PageRequest, SessionKey, TalkRequest};
use crate::face::Line;
use crate::tui::keys::Focus;

/// Messages that are read at first, and further ones when the user scrolls to the top.
const MESSAGES: usize = 60;
/// Most messages that are laid out.
const MAX_MESSAGES: usize = 4_000;
/// Most lines of a conversation that are kept: the last ones. `agentctl logs` has all.
pub(crate) const MAX_TALK_LINES: usize = 5_000;

/// The content of the detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The conversation.
    #[default]
    Talk,
    /// The ask.
    Ask,
    /// The evidence behind the status.
    Why,
    /// All facts.
    Facts,
    /// Changed files.
    Changes,
}

/// All details, in the order of their keys.
pub(crate) const DETAILS: [Detail; 5] =
    [Detail::Talk, Detail::Ask, Detail::Why, Detail::Facts, Detail::Changes];

impl Detail {
    /// Returns its name.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Talk => "talk",
            Self::Ask => "ask",
            Self::Why => "why",
            Self::Facts => "facts",
            Self::Changes => "changes",
        }
    }

    pub(super) fn neighbour(self, by: isize) -> Self {
        let at = DETAILS.iter().position(|detail| *detail == self).unwrap_or(0);
        let count = isize::try_from(DETAILS.len()).unwrap_or(1);
        let at = (isize::try_from(at).unwrap_or(0) + by).rem_euclid(count);
        DETAILS[usize::try_from(at).unwrap_or(0)]
    }
}

/// The kind of a line of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageLineKind {
    /// Text.
    Text,
    /// A heading.
    Heading,
    /// A remark.
    Dimmed,
    /// An added line.
    Added,
    /// A removed line.
    Removed,
    /// A failure.
    Error,
}

/// A line of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageLine {
    /// Its kind.
    pub(crate) kind: PageLineKind,
    /// Its text, without control characters.
    pub(crate) text: String,
}

/// The page of a detail other than the conversation.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The request whose page is shown or on its way; `None` if it must be made again.
    pub(super) request: Option<PageRequest>,
    /// The session and the detail of the lines.
    shown: Option<(SessionKey, Detail)>,
    /// The lines.
    pub(crate) lines: Vec<PageLine>,
    /// The first visible line.
    pub(crate) first: usize,
    /// When an age in the lines changes.
    pub(super) stale_at: Option<Time>,
}

impl Page {
    pub(super) fn take(
        &mut self,
        request: &PageRequest,
        lines: Vec<PageLine>,
        stale_at: Option<Time>,
    ) {
        if self.request.as_ref() != Some(request) {
            return;
        }
        let of = (request.session.clone(), request.detail);
        if self.shown.as_ref() != Some(&of) {
            self.first = 0;
        }
        (self.lines, self.shown, self.stale_at) = (lines, Some(of), stale_at);
    }

    /// Has the page made again if an age in it has changed.
    pub(super) fn renew(&mut self, now: Time) {
        if self.stale_at.take_if(|at| *at <= now).is_some() {
            self.request = None;
        }
    }

    /// Says whether the lines are of this session and detail.
    #[must_use]
    pub(crate) fn shows(&self, session: &SessionKey, detail: Detail) -> bool {
        self.shown.as_ref().is_some_and(|(key, shown)| key == session && *shown == detail)
    }

    pub(super) fn scroll(&mut self, by: isize) {
        self.first = self.first.saturating_add_signed(by);
    }

    pub(super) fn clamp(&mut self, height: usize) {
        self.first = self.first.min(self.lines.len().saturating_sub(height));
    }
}

/// The conversation of the selected session.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    /// The request whose lines are shown or on their way.
    request: Option<TalkRequest>,
    /// The lines have come.
    pub(crate) is_read: bool,
    /// The lines.
    pub(crate) lines: Vec<Line>,
    /// Why it cannot be read.
    pub(crate) problem: Option<String>,
    /// New lines are not scrolled to.
    pub(crate) is_held: bool,
    /// Lines below the last visible one.
    pub(crate) below: usize,
    /// The number of messages that the user wants to see.
    wanted: usize,
}

impl Talk {
    pub(super) fn take(
        &mut self,
        request: &TalkRequest,
        is_whole: bool,
        lines: Result<Vec<Line>, String>,
    ) {
        if self.request.as_ref() != Some(request) {
            return;
        }
        self.is_read = true;
        let lines = match lines {
            Ok(lines) => lines,
            Err(problem) => {
                self.problem = Some(problem);
                return;
            }
        };
        self.problem = None;
        if is_whole {
            self.lines = lines;
        } else {
            if self.is_held {
                self.below += lines.len();
            }
            self.lines.extend(lines);
        }
        let too_many = self.lines.len().saturating_sub(MAX_TALK_LINES);
        self.lines.drain(..too_many);
    }

    /// Says whether new lines are scrolled to.
    #[must_use]
    pub(crate) fn is_following(&self) -> bool {
        !self.is_held
    }

    pub(super) fn toggle_following(&mut self) {
        self.is_held = !self.is_held;
        if !self.is_held {
            self.below = 0;
        }
    }

    pub(super) fn scroll(&mut self, by: isize, height: usize) {
        let most = self.lines.len().saturating_sub(height);
        let below = self.below.min(most);
        let wanted = below.saturating_add_signed(-by);
        self.below = wanted.min(most);
        self.is_held = self.below > 0;
        // The user looks above the first line: earlier messages are read.
        if wanted > most
            && let Some(request) = &mut self.request
            && request.count < MAX_MESSAGES
            && self.lines.len() < MAX_TALK_LINES
            && self.is_read
        {
            self.wanted = request.count * 2;
        }
    }
}

impl App {
    pub(super) fn show_detail(&mut self, detail: Detail) {
        self.detail = detail;
        if detail == Detail::Ask && self.ask.is_none() {
            return self.inform("this session asks nothing");
        }
        // On a few lines the list and the detail are not both shown.
        let is_drawn = self.layout.is_none_or(|layout| layout.bar.height > 0);
        if !is_drawn && self.focus == Focus::List && self.list.selected().is_some() {
            self.focus = if detail == Detail::Ask { Focus::Ask } else { Focus::Detail };
        }
    }

    /// Asks for what the detail shows, if it is another request than before.
    pub(super) fn read_details(&mut self, actions: &mut Vec<Action>) {
        let Some(session) = self.list.selected_key().cloned() else {
            self.talk = Talk::default();
            return;
        };
        let width = self.text_width();
        if self.detail == Detail::Talk || self.detail == Detail::Ask {
            self.page.stale_at = None;
            let is_same = self.talk.request.as_ref().is_some_and(|r| r.session == session);
            let count = if is_same { self.talk.wanted.max(MESSAGES) } else { MESSAGES };
            let request = TalkRequest { session, width, count };
            if self.talk.request.as_ref() != Some(&request) {
                if !is_same {
                    self.talk = Talk::default();
                }
                self.talk.request = Some(request.clone());
                actions.push(Action::ReadTalk(request));
            }
            return;
        }
        let request = PageRequest { session, detail: self.detail, width };
        if self.page.request.as_ref() != Some(&request) {
            self.page.stale_at = None;
            self.page.request = Some(request.clone());
            actions.push(Action::ReadPage(request));
        }
    }
}

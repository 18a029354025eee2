//! The state of `top`, and how each message changes it. Nothing here reads a clock, a file or a terminal: the
//! time is handed in, and orders are returned as actions.

mod ask_keys;
mod asking;
mod detail;
mod leaving;
mod panes;
mod rows;
mod settled;
mod typing;

use std::path::{Path, PathBuf};

use agentctl_core::model::{Ask, Reply, Status, Time};

pub(crate) use self::asking::{ShownAsk, may_answer};
#[cfg(test)]
pub(crate) use self::detail::MAX_TALK_LINES;
pub(crate) use self::detail::{DETAILS, Detail, Page, PageLine, PageLineKind, Talk};
pub(crate) use self::rows::{Filter, RowList, SessionKey, TopRow};
pub(crate) use self::settled::Settlement;
pub(crate) use self::typing::{Purpose, Secrecy, Typed};
use super::charset::Charset;
use super::keys::{Command, Focus, Key, command, help_lines};
use super::layout::{Layout, Needs};
use crate::face::{Line, next_minute_of_age};
use crate::session_table::{ListWidths, ListedRow};
use crate::text::{clean, wrap};

/// The time of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Milliseconds of a clock that never goes back.
    pub(crate) ms: u64,
    /// The time of day.
    pub(crate) now: Time,
}

/// The list after a look.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// The rows, in the order of `list`.
    pub(crate) rows: Vec<TopRow>,
    /// The widest cells of the rows.
    pub(crate) widths: ListWidths,
    /// The open asks, longest waiting first.
    pub(crate) asks: Vec<Ask>,
    /// The sources that failed, and why changes may be noticed late.
    pub(crate) warnings: Vec<String>,
}

/// The conversation that is to be read and followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TalkRequest {
    /// The session.
    pub(crate) session: SessionKey,
    /// Columns.
    pub(crate) width: usize,
    /// The number of messages.
    pub(crate) count: usize,
}

/// The page that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageRequest {
    /// The session.
    pub(crate) session: SessionKey,
    /// Its content.
    pub(crate) detail: Detail,
    /// Columns.
    pub(crate) width: usize,
}

/// An order to a session or to an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Answer an ask.
    Answer {
        /// Its id.
        ask: String,
        /// The answer.
        reply: Reply,
    },
    /// Send a message.
    Send {
        /// The session.
        session: SessionKey,
        /// The message.
        text: String,
    },
    /// Stop a session.
    Stop(SessionKey),
    /// End the turn of a session.
    EndTurn(SessionKey),
}

/// The result of an order: lines, or the failure as the command line words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderResult {
    /// The order.
    pub(crate) order: Order,
    /// The result.
    pub(crate) lines: Result<Vec<String>, FailedOrder>,
}

/// The failure of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedOrder {
    /// Its sentences.
    pub(crate) lines: Vec<String>,
    /// The order may have been carried out.
    pub(crate) is_unclear: bool,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Message {
    /// A key.
    Key(Key),
    /// Escape and a key that came together: two keys on a slow line, or this key with Alt. Terminals send the same
    /// bytes for both.
    AfterEscape(Key),
    /// Pasted text.
    Paste(String),
    /// A click of the mouse on this line.
    Click(u16),
    /// The wheel of the mouse, towards the user if true, on this line.
    Wheel(bool, u16),
    /// Another size: columns and lines.
    Resized(u16, u16),
    /// A new list, or new asks, can be taken from their place.
    NewLook,
    /// A new list.
    Look(Box<Look>),
    /// A session that left the list, as its record shows it.
    Ended(Box<ListedRow>),
    /// New asks; the list is the same.
    Asks(Vec<Ask>),
    /// Lines of a conversation: all of them, or those that follow.
    Talk {
        /// The request.
        request: TalkRequest,
        /// The lines replace those before.
        is_whole: bool,
        /// The lines; a sentence if the conversation cannot be read.
        lines: Result<Vec<Line>, String>,
    },
    /// A page.
    Page {
        /// The request.
        request: PageRequest,
        /// Its lines.
        lines: Vec<PageLine>,
        /// When an age in it changes.
        stale_at: Option<Time>,
    },
    /// Sentences about what the list may lack.
    Warn(Vec<String>),
    /// An order was carried out or refused.
    Done(OrderResult),
    /// The time of [`App::next_change`] has come.
    Timer,
    /// Ctrl-C.
    Interrupt,
    /// The program must end: a signal, or the terminal is gone.
    Leave,
}

/// Something that is to be done outside the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Leave.
    Leave,
    /// Draw every cell again.
    Redraw,
    /// Turn the mouse on or off.
    SetMouse(bool),
    /// List ended sessions, subagents.
    SetQuery {
        /// Ended sessions too.
        all: bool,
        /// Subagents too.
        children: bool,
    },
    /// Read and follow a conversation.
    ReadTalk(TalkRequest),
    /// Make a page.
    ReadPage(PageRequest),
    /// Read how a session ended that left the list.
    ReadEnd(SessionKey),
    /// Carry out an order.
    Order(Order),
}

/// A sentence in the footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// Its lines.
    pub(crate) lines: Vec<String>,
    /// It reports a failure.
    pub(crate) is_error: bool,
}

/// The state.
#[derive(Debug)]
pub(crate) struct App {
    /// The size of the terminal: columns and lines.
    pub(crate) size: (u16, u16),
    /// The sessions.
    pub(crate) list: RowList,
    /// The open asks, longest waiting first, as `answer` walks through them.
    pub(crate) asks: Vec<Ask>,
    /// The ask that is shown.
    pub(crate) ask: Option<ShownAsk>,
    /// Its place among the open asks.
    ask_at: Option<usize>,
    /// Sources that failed.
    pub(crate) warnings: Vec<String>,
    /// The pane with the focus.
    pub(crate) focus: Focus,
    /// The content of the detail.
    pub(crate) detail: Detail,
    /// The detail has the whole screen.
    pub(crate) is_zoomed: bool,
    /// The conversation.
    pub(crate) talk: Talk,
    /// The page of any other detail.
    pub(crate) page: Page,
    /// The line that is typed.
    pub(crate) typed: Option<Typed>,
    /// The sentence in the footer.
    pub(crate) notice: Option<Notice>,
    /// The help page is shown, from this line on.
    pub(crate) help: Option<usize>,
    /// Ended sessions are listed.
    pub(crate) has_history: bool,
    /// Subagents are listed.
    pub(crate) has_tree: bool,
    /// The mouse is on.
    pub(crate) has_mouse: bool,
    /// The first list has not come yet.
    pub(crate) is_starting: bool,
    /// The characters of the terminal.
    pub(crate) charset: Charset,
    /// The time of the last message.
    pub(crate) now: Time,
    /// The panes; `None` if the terminal is too small.
    pub(crate) layout: Option<Layout>,
    /// The number of orders that are under way.
    pub(crate) open_orders: usize,
    /// The user leaves once the orders are done.
    pub(crate) is_leaving: bool,
    /// No key was pressed since the last order.
    is_untouched: bool,
    /// The message that was refused last, and its session.
    unsent: Option<(SessionKey, String)>,
    /// Paths in asks begin with `~` for this directory.
    home: PathBuf,
}

impl App {
    /// Makes the state before the first look.
    #[must_use]
    pub(crate) fn new(size: (u16, u16), home: &Path, now: Time) -> Self {
        let mut app = Self {
            size,
            list: RowList::default(),
            asks: Vec::new(),
            ask: None,
            ask_at: None,
            warnings: Vec::new(),
            focus: Focus::List,
            detail: Detail::Talk,
            is_zoomed: false,
            talk: Talk::default(),
            page: Page::default(),
            typed: None,
            notice: None,
            help: None,
            has_history: false,
            has_tree: false,
            has_mouse: false,
            is_starting: true,
            charset: Charset::default(),
            now,
            layout: None,
            open_orders: 0,
            is_leaving: false,
            is_untouched: false,
            unsent: None,
            home: home.to_owned(),
        };
        app.lay_out();
        app
    }

    /// Takes note of a message, and returns what is to be done.
    pub(crate) fn update(&mut self, message: Message, clock: Clock) -> Vec<Action> {
        self.now = clock.now;
        let (place, focus) = (self.ask_place(), self.focus);
        let is_key = matches!(message, Message::Key(_));
        let mut actions = Vec::new();
        match message {
            Message::Leave => return vec![Action::Leave],
            Message::AfterEscape(key) => return self.key_after_escape(key, clock),
            Message::Key(key) => self.key(key, clock, &mut actions),
            Message::Paste(text) => self.paste(&text),
            Message::Click(line) => self.click(line),
            Message::Wheel(is_down, line) => self.wheel(is_down, line),
            Message::Resized(columns, lines) => {
                self.size = (columns, lines);
                actions.push(Action::Redraw);
            }
            Message::Look(look) => self.look(*look, &mut actions),
            Message::Ended(row) => self.list.take_ended(*row),
            Message::Asks(asks) => self.asks = asks,
            Message::Talk { request, is_whole, lines } => {
                self.talk.take(&request, is_whole, lines);
            }
            Message::Page { request, lines, stale_at } => {
                self.page.take(&request, lines, stale_at);
            }
            Message::Warn(warnings) => self.warnings = warnings,
            Message::Done(result) => self.done(result, &mut actions),
            Message::Interrupt => self.leave(&mut actions),
            Message::Timer => self.page.renew(clock.now),
            Message::NewLook => {}
        }
        self.show_ask(clock);
        if focus == Focus::Ask && self.focus != Focus::Ask {
            self.rewind_ask();
        }
        self.lay_out();
        self.note_ask_place(place, is_key, clock);
        self.read_details(&mut actions);
        let orders = actions.iter().filter(|action| matches!(action, Action::Order(_))).count();
        self.open_orders += orders;
        self.is_untouched |= orders > 0;
        actions
    }

    /// Returns how many sessions have each status, for the header.
    #[must_use]
    pub(crate) fn counts(&self) -> Vec<(Status, usize)> {
        let listed = || self.list.rows.iter().filter(|row| !row.is_gone);
        let count = |status: Status| listed().filter(|row| row.row.status == status).count();
        let counts = Status::ALL.iter().map(|status| (*status, count(*status)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the time at which the screen changes without a message; `None` if it does not.
    #[must_use]
    pub(crate) fn next_change(&self) -> Option<Time> {
        let layout = self.layout?;
        let visible = self.list.visible(layout.list.height);
        let rows = visible.filter_map(|(_, row)| row.row.active);
        let ask = self.ask.as_ref().filter(|_| layout.ask_bar.height > 0);
        let times = rows.chain(ask.and_then(|shown| shown.ask.since));
        let changes = times.filter_map(|then| next_minute_of_age(self.now, then));
        changes.chain(self.page.stale_at).min()
    }

    fn look(&mut self, look: Look, actions: &mut Vec<Action>) {
        self.is_starting = false;
        let was_gone = self.list.selected().is_some_and(|row| row.is_gone);
        let is_changed = self.list.replace((look.rows, look.widths), self.has_tree);
        if let Some(row) = self.list.selected().filter(|row| row.is_gone && !was_gone) {
            actions.push(Action::ReadEnd(SessionKey::of(&row.row)));
        }
        self.asks = look.asks;
        self.warnings = look.warnings;
        if is_changed {
            self.page.request = None;
        }
    }

    fn key(&mut self, key: Key, clock: Clock, actions: &mut Vec<Action>) {
        self.is_untouched = false;
        if self.typed.is_some() {
            return self.typed_key(key, clock, actions);
        }
        if self.help.is_some() {
            return self.help_key(key, actions);
        }
        self.notice = None;
        let command = command(key, self.focus);
        let was_settled = self.dismiss_settled_ask();
        let goes_on = matches!(command, Some(Command::NextAsk | Command::PreviousAsk));
        if was_settled && self.focus == Focus::Ask && !goes_on {
            // The key was pressed for the ask that is gone.
            self.focus = Focus::List;
            return;
        }
        if let Some(command) = command {
            self.command(command, clock, actions);
        }
    }

    fn help_key(&mut self, key: Key, actions: &mut Vec<Action>) {
        let Some(first) = self.help else { return };
        let page = usize::from(self.size.1.saturating_sub(2)).max(1);
        // `lay_out` stops it at the end.
        self.help = match command(key, Focus::Detail) {
            Some(Command::Down) => Some(first + 1),
            Some(Command::Up) => Some(first.saturating_sub(1)),
            Some(Command::PageDown) => Some(first + page),
            Some(Command::PageUp) => Some(first.saturating_sub(page)),
            Some(Command::First) => Some(0),
            Some(Command::Last) => Some(help_lines()),
            Some(Command::Redraw) => {
                actions.push(Action::Redraw);
                Some(first)
            }
            _ => None,
        };
    }

    fn command(&mut self, command: Command, clock: Clock, actions: &mut Vec<Action>) {
        match command {
            Command::Down => self.step(1),
            Command::Up => self.step(-1),
            Command::First => self.jump(false),
            Command::Last => self.jump(true),
            Command::PageDown => self.step(self.page_lines()),
            Command::PageUp => self.step(-self.page_lines()),
            Command::Open if self.focus == Focus::Ask && self.send_chosen(clock, actions) => {}
            Command::Open => self.open(),
            Command::Back => self.back(),
            Command::NextPane => self.next_pane(1),
            Command::PreviousPane => self.next_pane(-1),
            Command::Detail(at) => self.show_detail(DETAILS[at.min(DETAILS.len() - 1)]),
            Command::PreviousDetail => self.show_detail(self.detail.neighbour(-1)),
            Command::NextDetail => self.show_detail(self.detail.neighbour(1)),
            Command::Allow
            | Command::Deny
            | Command::Words
            | Command::Always
            | Command::Choose(_) => self.answer(command, clock, actions),
            Command::PreviousQuestion => self.previous_question(clock),
            Command::NextAsk => self.next_ask(1),
            Command::PreviousAsk => self.next_ask(-1),
            Command::Filter => self.begin_filter(),
            Command::Tree | Command::History => {
                if command == Command::Tree {
                    self.has_tree = !self.has_tree;
                } else {
                    self.has_history = !self.has_history;
                }
                actions.push(Action::SetQuery { all: self.has_history, children: self.has_tree });
                self.inform(match (command == Command::Tree, self.has_tree, self.has_history) {
                    (true, true, _) => {
                        "subagents are listed, and launched sessions below their launcher"
                    }
                    (true, false, _) => "subagents are hidden",
                    (false, _, true) => "ended sessions are listed",
                    (false, _, false) => "ended sessions are hidden",
                });
            }
            Command::Follow => self.talk.toggle_following(),
            Command::Send => self.begin_message(),
            Command::Stop => self.begin_stop(),
            Command::EndTurn => self.end_turn(clock),
            Command::Mouse => {
                self.has_mouse = !self.has_mouse;
                actions.push(Action::SetMouse(self.has_mouse));
                let on = if self.has_mouse { "on" } else { "off" };
                self.inform(format!("mouse {on}"));
            }
            Command::Redraw => actions.push(Action::Redraw),
            Command::Help => self.help = Some(0),
            Command::Quit => self.leave(actions),
        }
    }

    fn inform(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { lines: vec![text.into()], is_error: false });
    }

    fn refuse(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { lines: vec![text.into()], is_error: true });
    }

    /// Returns the columns of the text of a pane.
    #[must_use]
    pub(crate) fn text_width(&self) -> usize {
        usize::from(self.size.0).saturating_sub(2).max(1)
    }

    /// Returns the lines of the notice.
    #[must_use]
    pub(crate) fn notice_lines(&self) -> Vec<String> {
        let lines = self.notice.iter().flat_map(|notice| &notice.lines);
        let width = self.text_width();
        lines.flat_map(|line| wrap(&clean(line).replace('\n', " "), width)).collect()
    }

    fn lay_out(&mut self) {
        if self.ask.is_none() && self.focus == Focus::Ask {
            self.focus = Focus::List;
            self.is_zoomed = false;
        }
        let needs = self.needs();
        self.layout = Layout::of(self.size, &needs);
        let is_key_hidden =
            self.layout.is_some_and(|layout| layout.ask_keys.height < needs.ask_keys);
        // The keys have the same lines whatever the length of the text is.
        if is_key_hidden
            && self.focus == Focus::Ask
            && self.ask.as_mut().is_some_and(ShownAsk::add_rules)
        {
            self.layout = Layout::of(self.size, &self.needs());
        }
        let help_height = usize::from(self.size.1.saturating_sub(1)).max(1);
        let last_help = help_lines().saturating_sub(help_height);
        self.help = self.help.map(|first| first.min(last_help));
        let layout = self.layout.unwrap_or_default();
        self.list.scroll_to_selection(usize::from(layout.list.height));
        self.page.clamp(usize::from(layout.detail.height));
        if let Some(shown) = &mut self.ask {
            shown.clamp(usize::from(layout.ask.height));
        }
    }

    /// Returns the lines that the panes have to show.
    fn needs(&mut self) -> Needs {
        let width = self.text_width();
        let footer = self.notice_lines().len() + usize::from(self.typed.is_some());
        if let Some(shown) = &mut self.ask {
            shown.lay_out(&self.home, width, self.charset);
        }
        Needs {
            rows: self.list.shown.len(),
            warning: u16::from(!self.warnings.is_empty()),
            ask: self.ask.as_ref().map(|shown| shown.lines.len()),
            ask_keys: self.ask_key_lines(width).len().try_into().unwrap_or(1),
            footer: u16::try_from(footer).unwrap_or(u16::MAX),
            focus: self.focus,
            is_zoomed: self.is_zoomed,
            is_ask_detail: self.detail == Detail::Ask && self.ask.is_some(),
        }
    }
}

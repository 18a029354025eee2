//! The line that is typed: a filter, a message, the words or the number of an answer, or `y`.

use agentctl_core::model::{AskChoice, Reply};

use super::{Action, App, Clock, Filter, Message, Order, SessionKey, ShownAsk, TopRow, may_answer};
use crate::session_table::ListedRow;
use crate::text::{columns, fit};
use crate::tui::keys::{Command, Focus, Key};

/// The purpose of a typed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The filter.
    Filter,
    /// A message to a session; its short name.
    Message(SessionKey, String),
    /// The words of a denial of the ask with this id.
    Deny(String),
    /// The answer to a question of the ask with this id.
    Answer(String),
    /// The number of an option or of a rule of the ask with this id; the words before it.
    Number(String, String),
    /// `y` confirms an order.
    Confirm(Order, Question),
}

/// The question before an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The order and the id of its session, such as `stops 12345678`.
    words: String,
    /// The name of the session, or its agent.
    name: String,
}

impl Question {
    /// Returns the question for this many columns: the name is cut first.
    fn text(&self, width: usize) -> String {
        /// Columns of a name.
        const NAME: usize = 20;
        const REST: &str = "; any other key cancels";
        let begin = format!("y {}", self.words);
        let room = width.saturating_sub(columns(&begin) + columns(REST) + 1).min(NAME);
        let name = if room > 3 { format!(" {}", fit(&self.name, room)) } else { String::new() };
        format!("{begin}{name}{REST}")
    }
}

/// Whether a typed text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secrecy {
    /// It is shown.
    Shown,
    /// Each character is a star.
    Secret,
}

/// A line that is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    /// Its purpose.
    pub(crate) purpose: Purpose,
    /// The text.
    pub(crate) text: String,
    /// The place of the cursor, in bytes.
    pub(crate) cursor: usize,
    /// Whether the text is shown.
    pub(crate) secrecy: Secrecy,
}

impl Typed {
    /// Begins a line.
    #[must_use]
    pub(crate) fn new(purpose: Purpose, text: String, secrecy: Secrecy) -> Self {
        Self { purpose, cursor: text.len(), text, secrecy }
    }

    /// Returns the words before the line, on a screen with this many columns.
    #[must_use]
    pub(crate) fn prompt(&self, width: usize) -> String {
        match &self.purpose {
            Purpose::Filter => "/".to_owned(),
            Purpose::Message(_, name) => format!("message to {name}: "),
            Purpose::Deny(_) => "deny with these words: ".to_owned(),
            Purpose::Answer(_) => "answer: ".to_owned(),
            Purpose::Number(_, words) => format!("{words}: "),
            Purpose::Confirm(_, question) => question.text(width),
        }
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].chars().next_back().map_or(0, char::len_utf8)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(0, char::len_utf8)
    }

    /// Changes the line; says whether the key had a meaning.
    fn edit(&mut self, key: Key) -> bool {
        match key {
            Key::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            Key::Backspace | Key::Ctrl('h') => {
                let begin = self.cursor - self.before();
                self.text.replace_range(begin..self.cursor, "");
                self.cursor = begin;
            }
            Key::Delete => {
                let end = self.cursor + self.after();
                self.text.replace_range(self.cursor..end, "");
            }
            Key::Left => self.cursor -= self.before(),
            Key::Right => self.cursor += self.after(),
            Key::Home | Key::Ctrl('a') => self.cursor = 0,
            Key::End | Key::Ctrl('e') => self.cursor = self.text.len(),
            Key::Ctrl('u') => {
                self.text.replace_range(..self.cursor, "");
                self.cursor = 0;
            }
            Key::Ctrl('w') => {
                let begin = self.text[..self.cursor].trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.text.replace_range(begin..self.cursor, "");
                self.cursor = begin;
            }
            _ => return false,
        }
        true
    }
}

/// Returns the name of a session with its agent and id, for prompts.
fn name_of(row: &ListedRow) -> String {
    let id = format!("{} {}", row.adapter, row.short_id());
    match row.name() {
        "" => id,
        name => format!("{name} ({id})"),
    }
}

impl App {
    pub(super) fn begin_filter(&mut self) {
        let text = self.list.filter.text.clone();
        self.typed = Some(Typed::new(Purpose::Filter, text, Secrecy::Shown));
    }

    fn selected_name(&mut self) -> Option<(SessionKey, String)> {
        let Some(row) = self.list.selected() else {
            self.refuse("no session is selected");
            return None;
        };
        Some((SessionKey::of(&row.row), name_of(&row.row)))
    }

    pub(super) fn begin_message(&mut self) {
        if self.list.selected().is_some_and(TopRow::waits) {
            return self.refuse(match (self.focus, &self.ask) {
                (Focus::List, Some(_)) => "it waits for an answer: Enter goes to its ask",
                (Focus::Detail, Some(_)) => {
                    "it waits for an answer: Esc, then Enter goes to its ask"
                }
                (Focus::Ask, _) => "it waits for an answer, not for a message",
                (_, None) => "it waits for an answer and takes no message",
            });
        }
        let Some((key, name)) = self.selected_name() else { return };
        let unsent = self.unsent.take_if(|(session, _)| *session == key);
        let text = unsent.map(|(_, text)| text).unwrap_or_default();
        self.typed = Some(Typed::new(Purpose::Message(key, name), text, Secrecy::Shown));
    }

    /// Puts the text of a refused order back into the line that is typed. If the user went on to something else, a
    /// message is kept for the next one to its session; says false then.
    pub(super) fn type_again(&mut self, order: Order) -> bool {
        let is_free = self.is_untouched && self.typed.is_none() && self.help.is_none();
        match order {
            Order::Send { session, text } if is_free => {
                let mut rows = self.list.rows.iter();
                let row = rows.find(|row| session.is(&row.row));
                let name = row.map_or(session.adapter.to_owned(), |row| name_of(&row.row));
                let purpose = Purpose::Message(session, name);
                self.typed = Some(Typed::new(purpose, text, Secrecy::Shown));
            }
            Order::Send { .. } => return !self.keep_message(order),
            Order::Answer { ask, reply: Reply::Deny { message: Some(text) } } => {
                let is_open = |shown: &ShownAsk| shown.ask.id == ask && shown.settled.is_none();
                if is_free && self.focus == Focus::Ask && self.ask.as_ref().is_some_and(is_open) {
                    self.typed = Some(Typed::new(Purpose::Deny(ask), text, Secrecy::Shown));
                }
            }
            Order::Answer { .. } | Order::Stop(_) | Order::EndTurn(_) => {}
        }
        true
    }

    /// Keeps the text of a message for the next one to its session; says whether there was one.
    pub(super) fn keep_message(&mut self, order: Order) -> bool {
        let Order::Send { session, text } = order else { return false };
        self.unsent = Some((session, text));
        true
    }

    pub(super) fn begin_stop(&mut self) {
        if self.list.selected().is_some_and(TopRow::has_ended) {
            return self.refuse("it has ended: there is nothing to stop");
        }
        if let Some((key, _)) = self.selected_name() {
            self.confirm(Order::Stop(key), "stops");
        }
    }

    fn confirm(&mut self, order: Order, verb: &str) {
        let Some(row) = self.list.selected() else { return };
        let words = format!("{verb} {}", row.row.short_id());
        let name = match row.row.name() {
            "" => row.row.adapter.to_owned(),
            name => name.to_owned(),
        };
        let purpose = Purpose::Confirm(order, Question { words, name });
        self.typed = Some(Typed::new(purpose, String::new(), Secrecy::Shown));
    }

    /// Stops the turn, after a question. An ask that offers it is answered with that; the guards of answers hold.
    pub(super) fn end_turn(&mut self, clock: Clock) {
        if self.list.selected().is_some_and(TopRow::has_ended) {
            return self.refuse("it has ended: there is no turn to end");
        }
        let Some((key, _)) = self.selected_name() else { return };
        let offered = self.ask.as_ref().filter(|shown| {
            self.focus == Focus::Ask && shown.settled.is_none() && shown.ask.offers(AskChoice::STOP)
        });
        let order = match offered {
            Some(shown) => {
                if let Err(guard) = may_answer(shown, self.focus, Command::Deny, clock.ms) {
                    return self.refuse(guard.sentence());
                }
                Order::Answer { ask: shown.ask.id.clone(), reply: Reply::Stop }
            }
            None => Order::EndTurn(key),
        };
        self.confirm(order, "ends the turn of");
    }

    /// Inserts pasted text into the line that is typed. Without one it is ignored: pasted text is no key.
    pub(super) fn paste(&mut self, text: &str) {
        match &mut self.typed {
            Some(typed) if !matches!(typed.purpose, Purpose::Confirm(..)) => {
                let text: String =
                    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                typed.insert(&text);
                if typed.purpose == Purpose::Filter {
                    let filter = Filter::of(&typed.text);
                    self.list.set_filter(filter);
                }
            }
            _ => self.inform("pasted text is ignored here"),
        }
    }

    /// Takes Escape and the key behind it as two keys. A text that is being typed is edited with Alt, so there the two
    /// are ignored: Escape would lose the text, and the characters that follow would be taken for commands.
    pub(super) fn key_after_escape(&mut self, key: Key, clock: Clock) -> Vec<Action> {
        if self.typed.as_ref().is_some_and(|typed| !typed.text.is_empty()) {
            self.inform("a key with Alt, or right behind Esc, is ignored here");
            return Vec::new();
        }
        let mut actions = self.update(Message::Key(Key::Escape), clock);
        actions.extend(self.update(Message::Key(key), clock));
        actions
    }

    pub(super) fn typed_key(&mut self, key: Key, clock: Clock, actions: &mut Vec<Action>) {
        let Some(mut typed) = self.typed.take() else { return };
        if let Purpose::Confirm(order, _) = typed.purpose {
            if key != Key::Char('y') {
                return self.inform("nothing was stopped");
            }
            actions.push(Action::Order(order));
            return self.inform("the order is being carried out …");
        }
        match key {
            Key::Escape => {
                if typed.purpose == Purpose::Filter {
                    self.list.set_filter(Filter::default());
                }
            }
            Key::Enter => self.line_typed(typed, clock, actions),
            key => {
                typed.edit(key);
                if typed.purpose == Purpose::Filter {
                    self.list.set_filter(Filter::of(&typed.text));
                }
                self.typed = Some(typed);
            }
        }
    }

    fn line_typed(&mut self, typed: Typed, clock: Clock, actions: &mut Vec<Action>) {
        match typed.purpose {
            Purpose::Filter => self.list.set_filter(Filter::of(&typed.text)),
            Purpose::Message(session, name) => {
                if typed.text.trim().is_empty() {
                    return self.inform("nothing was sent: the message is empty");
                }
                self.inform(format!("the message to {name} is being sent …"));
                actions.push(Action::Order(Order::Send { session, text: typed.text }));
            }
            _ => self.words_typed(typed, clock, actions),
        }
    }
}

//! The ask that is shown, the guards before an answer, and the answers.
//!
//! An answer that was given by mistake cannot be taken back, so a key answers only if the ask has the focus, has
//! stood at its place for half a second, and was shown to its end. The same holds for each of its questions.

use std::path::Path;

use agentctl_core::model::{Ask, AskChoice, AskField, FieldAnswer, Reply};

use super::ask_keys::{key_words, rule_words, rules};
use super::settled::{Delivery, Settlement, taken_word};
use super::{Action, App, Clock, Filter, Order, Purpose, Secrecy, Typed};
use crate::face::{AskLine, AskLineKind, ask_text};
use crate::text::{break_line, break_prose, columns};
use crate::tui::charset::Charset;
use crate::tui::keys::{Command, Focus};

/// A key within this time after an ask appeared or moved was meant for what stood there before.
pub(crate) const SETTLE_MS: u64 = 500;

/// The ask that is shown.
#[derive(Clone, Debug)]
pub(crate) struct ShownAsk {
    /// The ask.
    pub(crate) ask: Ask,
    /// Its text for the width of the screen.
    pub(crate) lines: Vec<AskLine>,
    width: usize,
    /// The first visible line.
    pub(crate) first: usize,
    /// Its last line has been on the screen.
    pub(crate) is_read: bool,
    /// Its text ends with all rules that it offers, not only with those that are too long for the line of their key.
    has_rules: bool,
    /// The places of the lines of rules that have not been on the screen.
    unseen_rules: Vec<usize>,
    /// When it appeared or changed its place.
    pub(crate) since_ms: u64,
    /// Its end, once it is not open any more.
    pub(crate) settled: Option<Settlement>,
    /// An answer of ours is being delivered.
    pub(crate) is_delivering: bool,
    /// The answers to the first of its questions, in their order.
    given: Vec<FieldAnswer>,
    /// The chosen options of the current question, if several may be chosen.
    pub(crate) chosen: Vec<usize>,
}

/// Why a key does not answer an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerGuard {
    /// The ask does not have the focus.
    NoFocus,
    /// It is not open any more.
    Settled,
    /// An answer is being delivered.
    Delivering,
    /// It cannot be answered from here.
    Unanswerable,
    /// It appeared or moved just now.
    JustAppeared,
    /// Its end has not been shown.
    Unread,
    /// A rule that it offers has not been shown whole.
    UnseenRule,
}

impl AnswerGuard {
    /// Returns the sentence for the user.
    #[must_use]
    pub(crate) fn sentence(&self) -> &'static str {
        match self {
            Self::NoFocus => "Tab goes to the ask; then the key answers it",
            Self::Settled => "this ask is not open any more",
            Self::Delivering => "an answer is being delivered",
            Self::Unanswerable => "this ask cannot be answered from here: its text says why",
            Self::JustAppeared => {
                "this ask has just appeared or moved: read it, then press the key again"
            }
            Self::Unread => {
                "the ask goes on below: scroll to its end (space, G), then press the key again"
            }
            Self::UnseenRule => {
                "not every line of the rule was shown: scroll through it (j, k), then press the key again"
            }
        }
    }
}

/// Says whether a key may answer an ask now. A denial needs no reading.
pub(crate) fn may_answer(
    shown: &ShownAsk,
    focus: Focus,
    command: Command,
    now_ms: u64,
) -> Result<(), AnswerGuard> {
    let is_denial = matches!(command, Command::Deny)
        || (command == Command::Words && shown.ask.fields.is_empty());
    if focus != Focus::Ask {
        return Err(AnswerGuard::NoFocus);
    }
    if shown.settled.is_some() {
        return Err(AnswerGuard::Settled);
    }
    if shown.is_delivering {
        return Err(AnswerGuard::Delivering);
    }
    if shown.ask.via.is_none() {
        return Err(AnswerGuard::Unanswerable);
    }
    if now_ms.saturating_sub(shown.since_ms) < SETTLE_MS {
        return Err(AnswerGuard::JustAppeared);
    }
    if !is_denial && !shown.is_read {
        return Err(AnswerGuard::Unread);
    }
    let stores_rule = match command {
        Command::Always => true,
        Command::Choose(_) => shown.ask.fields.is_empty(),
        _ => false,
    };
    if stores_rule && !shown.unseen_rules.is_empty() {
        return Err(AnswerGuard::UnseenRule);
    }
    Ok(())
}

impl ShownAsk {
    /// Shows an ask from now on.
    #[must_use]
    pub(crate) fn new(ask: Ask, now_ms: u64) -> Self {
        Self {
            ask,
            lines: Vec::new(),
            width: 0,
            first: 0,
            is_read: false,
            has_rules: false,
            unseen_rules: Vec::new(),
            since_ms: now_ms,
            settled: None,
            is_delivering: false,
            given: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// Lays out its text for a width.
    pub(crate) fn lay_out(&mut self, home: &Path, width: usize, charset: Charset) {
        if self.width == width {
            return;
        }
        self.width = width;
        let broken = |line: &AskLine| wrapped(line, width, charset);
        self.lines = ask_text(home, &self.ask).iter().flat_map(broken).collect();
        let text_lines = self.lines.len();
        for (_, text) in rule_words(&self.ask, charset) {
            if self.has_rules || columns(&text) > width {
                self.lines.extend(broken(&AskLine { kind: AskLineKind::Text, text }));
            }
        }
        self.unseen_rules = (text_lines..self.lines.len()).collect();
    }

    /// Adds all rules to the text: the lines of their keys are not drawn. They stay there, so that a notice that takes a
    /// line and gives it back does not change the text. Says whether that is new.
    pub(super) fn add_rules(&mut self) -> bool {
        let is_new = !self.has_rules && !rules(&self.ask).is_empty();
        if is_new {
            // The text is laid out again.
            (self.has_rules, self.width) = (true, 0);
        }
        is_new
    }

    /// Takes what changed in the same ask. If it asks for something else, it is like an ask that appears.
    fn refresh(&mut self, ask: &Ask, now_ms: u64) {
        if self.ask == *ask {
            return;
        }
        let is_same_question = self.ask.kind == ask.kind
            && self.ask.parts == ask.parts
            && self.ask.fields == ask.fields
            && self.ask.choices == ask.choices;
        if is_same_question {
            self.ask = ask.clone();
            // The text is laid out again.
            self.width = 0;
        } else {
            *self = Self { is_delivering: self.is_delivering, ..Self::new(ask.clone(), now_ms) };
        }
    }

    pub(super) fn clamp(&mut self, height: usize) {
        self.first = self.first.min(self.lines.len().saturating_sub(height.max(1)));
        let visible = self.first..self.first + height;
        self.is_read |= height > 0 && visible.end >= self.lines.len();
        self.unseen_rules.retain(|line| !visible.contains(line));
    }

    /// Returns the place of the question that is answered next.
    #[must_use]
    pub(crate) fn question(&self) -> usize {
        self.given.len()
    }

    /// Returns the question that is answered next; `None` for an ask without one.
    pub(super) fn field(&self) -> Option<&AskField> {
        self.ask.fields.get(self.given.len())
    }

    /// Returns the highest number that chooses an option of the current question, or a rule.
    pub(super) fn highest_number(&self) -> usize {
        let rules = || self.ask.choices.iter().filter_map(AskChoice::rule_number).max();
        self.field().map_or_else(|| rules().unwrap_or(0), |field| field.options.len())
    }
}

/// Spells a line for this terminal and breaks it at its width: words between words, a command at the last column.
fn wrapped(line: &AskLine, width: usize, charset: Charset) -> Vec<AskLine> {
    let text = charset.spelled_in_line(&line.text.replace('\t', "    "));
    let kind = line.kind;
    let broken = match kind {
        AskLineKind::Heading | AskLineKind::Prose | AskLineKind::Choice | AskLineKind::Remark => {
            break_prose(&text, width)
        }
        AskLineKind::Fact | AskLineKind::Text | AskLineKind::Added | AskLineKind::Removed => {
            break_line(&text, width)
        }
    };
    broken.into_iter().map(|text| AskLine { kind, text }).collect()
}

/// Returns the label of the option with this number, counted from 1.
fn label_of(field: &AskField, number: usize) -> Option<String> {
    Some(field.options.get(number.checked_sub(1)?)?.label.clone())
}

impl App {
    /// Shows the ask of the selected session. A settled ask stays until a key is pressed.
    pub(super) fn show_ask(&mut self, clock: Clock) {
        self.choose_ask(clock);
        let shown = self.ask.as_ref().map(|shown| (&shown.ask.id, shown.settled));
        // A settled ask keeps its place: the next one has come to it.
        if !matches!(shown, Some((_, Some(_)))) {
            self.ask_at = shown.and_then(|(id, _)| self.asks.iter().position(|ask| ask.id == *id));
        }
    }

    fn choose_ask(&mut self, clock: Clock) {
        if let Some(shown) = &mut self.ask {
            let open = self.asks.iter().find(|ask| ask.id == shown.ask.id);
            match (shown.settled, open) {
                (Some(Settlement::Ours(_) | Settlement::NotTaken | Settlement::Unclear), _) => {
                    return;
                }
                (None, Some(ask)) => shown.refresh(ask, clock.ms),
                (None | Some(Settlement::Elsewhere(_)), _) => {
                    let mut rows = self.list.rows.iter();
                    let row = rows.find(|row| !row.is_gone && row.asks(&shown.ask));
                    shown.settled = Some(if shown.is_delivering {
                        Settlement::Ours("answered")
                    } else {
                        Settlement::Elsewhere(row.map(|row| row.row.status))
                    });
                    return;
                }
            }
        }
        let selected = self.list.selected();
        let is_of_selected = |ask: &Ask| selected.is_some_and(|row| row.asks(ask));
        if self.ask.as_ref().is_some_and(|shown| is_of_selected(&shown.ask)) {
            return;
        }
        let next = self.asks.iter().find(|ask| is_of_selected(ask));
        self.ask = next.map(|ask| ShownAsk::new(ask.clone(), clock.ms));
        // The focus was given to the ask before: the next key was not meant for this one.
        if self.focus == Focus::Ask {
            self.focus = Focus::List;
        }
    }

    /// Removes a settled ask; says whether there was one.
    pub(super) fn dismiss_settled_ask(&mut self) -> bool {
        let is_settled = self.ask.as_ref().is_some_and(|shown| shown.settled.is_some());
        if is_settled {
            self.ask = None;
        }
        is_settled
    }

    /// Returns where the ask stands on the screen.
    pub(super) fn ask_place(&self) -> Option<(String, u16, u16)> {
        let (shown, layout) = (self.ask.as_ref()?, self.layout?);
        Some((shown.ask.id.clone(), layout.ask_bar.top, layout.ask_keys.top))
    }

    /// Begins the pause again if the ask moved. A key of the user that moves it needs no pause.
    pub(super) fn note_ask_place(
        &mut self,
        before: Option<(String, u16, u16)>,
        is_key: bool,
        clock: Clock,
    ) {
        let now = self.ask_place();
        let is_same_ask = before.as_ref().map(|(id, ..)| id) == now.as_ref().map(|(id, ..)| id);
        if now != before
            && !(is_key && is_same_ask)
            && let Some(shown) = &mut self.ask
        {
            shown.since_ms = clock.ms;
        }
    }

    /// Shows an ask from its beginning: without the focus it is a preview.
    pub(super) fn rewind_ask(&mut self) {
        if let Some(shown) = &mut self.ask {
            shown.first = 0;
        }
    }

    pub(super) fn scroll_ask(&mut self, by: isize) {
        if let Some(shown) = &mut self.ask {
            shown.first = shown.first.saturating_add_signed(by);
        }
    }

    /// Shows the next or the previous of all asks, and selects its session.
    pub(super) fn next_ask(&mut self, by: isize) {
        if self.asks.is_empty() {
            return self.inform("nothing waits for you");
        }
        let shown = self.ask.as_ref().map(|shown| shown.ask.id.as_str());
        let count = isize::try_from(self.asks.len()).unwrap_or(1);
        let at = self.ask_at.and_then(|at| isize::try_from(at).ok());
        let next = match at {
            Some(at) if shown.is_some() => (at + by).rem_euclid(count),
            // The ask of this place was settled: the next one stands there now.
            Some(at) if by > 0 => at.rem_euclid(count),
            Some(at) => (at - 1).rem_euclid(count),
            None if by > 0 => 0,
            None => count - 1,
        };
        let ask = self.asks[usize::try_from(next).unwrap_or(0)].clone();
        if !self.list.select_asking(&ask) {
            self.list.set_filter(Filter::default());
            self.list.select_asking(&ask);
        }
        if shown != Some(&ask.id) {
            // The time is set when its place is noted.
            self.ask = Some(ShownAsk::new(ask, 0));
        }
    }

    /// Answers the ask that is shown, if the guards allow it.
    pub(super) fn answer(&mut self, command: Command, clock: Clock, actions: &mut Vec<Action>) {
        let Some(shown) = &mut self.ask else { return };
        if let Err(guard) = may_answer(shown, self.focus, command, clock.ms) {
            return self.refuse(guard.sentence());
        }
        let ask = &shown.ask;
        let reply = match command {
            Command::Allow if ask.offers(AskChoice::ALLOW) => Reply::Allow,
            Command::Deny if ask.offers(AskChoice::DENY) => Reply::Deny { message: None },
            Command::Always => match rules(ask).as_slice() {
                [rule] => Reply::Always((*rule).to_owned()),
                [] => return self.refuse("the agent offers no rule for this ask"),
                _ => return self.refuse("choose one of the rules by its number"),
            },
            Command::Words => return self.begin_words(),
            Command::Choose(digit) if shown.highest_number() > 9 => {
                return self.begin_number(digit);
            }
            Command::Choose(number) => return self.choose(number, clock, actions),
            _ => {
                let words = key_words(shown, self.charset).join(", ");
                return self.refuse(format!("this ask takes {words}"));
            }
        };
        self.deliver(reply, actions);
    }

    fn deliver(&mut self, reply: Reply, actions: &mut Vec<Action>) {
        let Some(shown) = &mut self.ask else { return };
        shown.is_delivering = true;
        actions.push(Action::Order(Order::Answer { ask: shown.ask.id.clone(), reply }));
        self.inform("the answer is being delivered …");
    }

    /// Begins the number of an option or of a rule with its first digit: a digit alone would choose one of the first
    /// nine while the second digit is still to come.
    fn begin_number(&mut self, digit: usize) {
        let Some(shown) = &self.ask else { return };
        let highest = shown.highest_number();
        let words = match shown.field() {
            Some(field) if field.many => format!("option 1-{highest}, Enter marks"),
            Some(_) => format!("option 1-{highest}, Enter chooses"),
            None => format!("rule 1-{highest}, Enter allows always"),
        };
        let purpose = Purpose::Number(shown.ask.id.clone(), words);
        self.typed = Some(Typed::new(purpose, digit.to_string(), Secrecy::Shown));
    }

    /// Chooses the option or the rule whose number was typed. Any other text stays in the line, to be changed.
    fn number_typed(&mut self, typed: Typed, clock: Clock, actions: &mut Vec<Action>) {
        let Some(shown) = &self.ask else { return };
        let number = typed.text.trim().parse().unwrap_or(0);
        if (1..=shown.highest_number()).contains(&number) {
            return self.choose(number, clock, actions);
        }
        let kind = if shown.field().is_some() { "option" } else { "rule" };
        self.refuse(format!("there is no {kind} {}", typed.text.trim()));
        self.typed = Some(typed);
    }

    /// Chooses an option of the current question, or a rule.
    fn choose(&mut self, number: usize, clock: Clock, actions: &mut Vec<Action>) {
        let Some(shown) = &mut self.ask else { return };
        let Some(field) = shown.field() else {
            let key = format!("always:{number}");
            if shown.ask.offers(&key) {
                return self.deliver(Reply::Always(key), actions);
            }
            return self.refuse(format!("there is no rule {number}"));
        };
        let Some(label) = label_of(field, number) else {
            let has_options = !field.options.is_empty();
            let why = format!("there is no option {number}");
            return self.refuse(if has_options { &why } else { "this question has no options" });
        };
        if field.many {
            match shown.chosen.iter().position(|chosen| *chosen == number) {
                Some(at) => drop(shown.chosen.remove(at)),
                None => shown.chosen.push(number),
            }
            return;
        }
        self.give(vec![label], clock, actions);
    }

    /// Sends the options that were chosen; says whether there were any.
    pub(super) fn send_chosen(&mut self, clock: Clock, actions: &mut Vec<Action>) -> bool {
        let Some(shown) = &self.ask else { return false };
        if shown.chosen.is_empty() {
            return false;
        }
        if let Err(guard) = may_answer(shown, self.focus, Command::Choose(0), clock.ms) {
            self.refuse(guard.sentence());
            return true;
        }
        let mut chosen = shown.chosen.clone();
        chosen.sort_unstable();
        let field = shown.field();
        let labels = chosen.into_iter().filter_map(|number| label_of(field?, number)).collect();
        self.give(labels, clock, actions);
        true
    }

    /// Answers the current question with these labels, or with a text as it stands: a text is never read as the number
    /// of an option. When all questions are answered, the answer is delivered.
    fn give(&mut self, values: Vec<String>, clock: Clock, actions: &mut Vec<Action>) {
        let Some(shown) = &mut self.ask else { return };
        let Some(field) = shown.field().map(|field| field.id.clone()) else { return };
        shown.given.push(FieldAnswer { field, values });
        shown.chosen.clear();
        // The next question has just appeared: a key that is pressed twice does not answer it.
        shown.since_ms = clock.ms;
        if shown.given.len() == shown.ask.fields.len() {
            let reply = Reply::Fields(shown.given.clone());
            self.deliver(reply, actions);
        }
    }

    /// Takes back the answer to the question before: nothing is delivered before the last question is answered.
    pub(super) fn previous_question(&mut self, clock: Clock) {
        let Some(shown) = &mut self.ask else { return };
        if shown.settled.is_some() {
            return self.refuse(AnswerGuard::Settled.sentence());
        }
        if shown.is_delivering {
            return self.refuse(AnswerGuard::Delivering.sentence());
        }
        if shown.given.pop().is_none() {
            return self.refuse("there is no question before this one");
        }
        shown.chosen.clear();
        shown.since_ms = clock.ms;
    }

    fn begin_words(&mut self) {
        let Some(shown) = &self.ask else { return };
        let ask = &shown.ask;
        let field = shown.field();
        let may_type = field.map_or(ask.offers(AskChoice::DENY), |field| field.free_text);
        if !may_type {
            return self.refuse("this ask takes no words");
        }
        let (purpose, secrecy) = match field {
            Some(field) if field.secret => (Purpose::Answer(ask.id.clone()), Secrecy::Secret),
            Some(_) => (Purpose::Answer(ask.id.clone()), Secrecy::Shown),
            None => (Purpose::Deny(ask.id.clone()), Secrecy::Shown),
        };
        self.typed = Some(Typed::new(purpose, String::new(), secrecy));
    }

    /// Uses the words that were typed for an ask, if it is still the one that is shown.
    pub(super) fn words_typed(&mut self, typed: Typed, clock: Clock, actions: &mut Vec<Action>) {
        let (id, command) = match &typed.purpose {
            Purpose::Deny(id) | Purpose::Answer(id) => (id, Command::Words),
            Purpose::Number(id, _) => (id, Command::Choose(0)),
            _ => return,
        };
        let is_same = self.ask.as_ref().is_some_and(|shown| shown.ask.id == *id);
        let Some(shown) = self.ask.as_ref().filter(|_| is_same) else {
            return self.refuse("the ask that these words were for is not shown any more");
        };
        if let Err(guard) = may_answer(shown, self.focus, command, clock.ms) {
            // The words of an ask that is still open can be sent later.
            self.typed = (guard != AnswerGuard::Settled).then_some(typed);
            return self.refuse(guard.sentence());
        }
        if matches!(typed.purpose, Purpose::Number(..)) {
            return self.number_typed(typed, clock, actions);
        }
        let text = typed.text;
        match typed.purpose {
            Purpose::Deny(_) => {
                let message = (!text.trim().is_empty()).then(|| text.trim().to_owned());
                self.deliver(Reply::Deny { message }, actions);
            }
            _ if text.trim().is_empty() => {
                self.refuse("nothing was answered: the text is empty");
            }
            _ => self.give(vec![text], clock, actions),
        }
    }

    /// Takes note of the result of an answer.
    pub(super) fn answered(&mut self, id: &str, reply: &Reply, end: Delivery) {
        let Some(shown) = self.ask.as_mut().filter(|shown| shown.ask.id == id) else { return };
        shown.is_delivering = false;
        if end == Delivery::Taken {
            shown.settled = Some(Settlement::Ours(taken_word(reply)));
        } else if shown.settled.is_some() {
            let is_unclear = end == Delivery::Unclear;
            shown.settled =
                Some(if is_unclear { Settlement::Unclear } else { Settlement::NotTaken });
        } else {
            // The last question is answered again, and the answers before it stand. Whether the ask is open is what
            // the next look says.
            let questions = shown.ask.fields.len();
            shown.given.truncate(questions.saturating_sub(1));
        }
    }
}

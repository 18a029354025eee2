//! `answer` on a terminal: the open asks one after the other, each answered with a key.
//!
//! A key answers an ask only if it was typed after that ask was shown. Everything that was typed before is
//! discarded.

use std::collections::VecDeque;
use std::process::ExitCode;

use agentctl_core::ask::{AsksRequest, Fleet, WaitingSessions};
use agentctl_core::fleet::WaitingSession;
use agentctl_core::inbox::OpenAsk;
use agentctl_core::model::{Ask, AskChoice, AskField, Fault, Reply};

use super::super::asks::print_page;
use super::{answer_found, open_ask, print};
use crate::face::{
    AskListRow, AskPageForm, FieldWords, field_reply, key_words_remark, several_questions_remark,
    unresolved, with_visible_breaks,
};
use crate::failure::{Failure, Outcome};
use crate::text::columns;
use crate::ui::Ui;

/// Shows the open asks one after the other and answers each as the user says. The first failure decides the exit
/// code.
pub(super) fn walk(ui: &mut Ui, fleet: &Fleet, only: Option<&str>) -> Outcome {
    let mut walk = Walk::default();
    match only {
        Some(text) => {
            let OpenAsk { session, ask, faults } = open_ask(fleet, text)?;
            walk.is_of_one = true;
            walk.take(ui, vec![AskListRow::of(&session, ask)], faults);
        }
        None => drop(walk.look(ui, fleet)?),
    }
    if walk.rest.is_empty() {
        let is_certain = walk.faults.is_empty();
        ui.note(if is_certain { "nothing waits for you" } else { "no ask could be seen" });
    }
    walk.through(ui, fleet)?;
    let (skipped, left) = (walk.skipped, walk.left);
    if skipped + left > 0 {
        ui.note(&format!("{skipped} skipped, {left} left; `agentctl asks` shows what is open now"));
    }
    Ok(walk.failed.unwrap_or(walk.seen))
}

/// A walk through the open asks. It looks again before each page: an ask may be settled, and others open, while a page
/// is shown.
struct Walk {
    /// Exactly one ask was named.
    is_of_one: bool,
    /// The asks that come, in the order in which they were seen.
    rest: VecDeque<AskListRow>,
    /// The ids of all asks that were seen.
    known: Vec<String>,
    /// The number of asks whose turn has come.
    done: usize,
    /// The sources that failed at some look.
    faults: Vec<Fault>,
    /// The exit code of these sources.
    seen: ExitCode,
    /// The exit code of the first answer that was not taken.
    failed: Option<ExitCode>,
    skipped: usize,
    left: usize,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            is_of_one: false,
            rest: VecDeque::new(),
            known: Vec::new(),
            done: 0,
            faults: Vec::new(),
            seen: ExitCode::SUCCESS,
            failed: None,
            skipped: 0,
            left: 0,
        }
    }
}

impl Walk {
    /// Shows page after page until no ask is left or the user leaves.
    fn through(&mut self, ui: &mut Ui, fleet: &Fleet) -> Result<(), Failure> {
        let mut is_fresh = true;
        loop {
            if !is_fresh && !self.is_of_one {
                let now = self.look(ui, fleet)?;
                self.drop_settled(ui, fleet, &now);
            }
            is_fresh = false;
            let Some(row) = self.rest.pop_front() else { return Ok(()) };
            self.done += 1;
            ui.line(&format!("\n{} of {}", self.done, self.done + self.rest.len()))?;
            print_page(ui, fleet, &row, AskPageForm::Keys)?;
            ui.flush()?;
            if row.ask.via.is_none() {
                continue;
            }
            match step(ui, fleet, &row.ask)? {
                Step::Answered => {}
                Step::Failed(code) => self.failed = self.failed.or(Some(code)),
                Step::Skipped => self.skipped += 1,
                Step::Quit => {
                    self.rest.push_front(row);
                    let now = waiting(fleet)?;
                    let is_open = |row: &&AskListRow| !fleet.is_settled(&row.ask, &now);
                    let answerable = self.rest.iter().filter(|row| row.ask.via.is_some());
                    self.left = answerable.filter(is_open).count();
                    return Ok(());
                }
            }
        }
    }

    /// Looks at everything that waits, and appends asks that were not seen before.
    fn look(&mut self, ui: &mut Ui, fleet: &Fleet) -> Result<WaitingSessions, Failure> {
        let now = waiting(fleet)?;
        let row = |row: &WaitingSession| {
            let WaitingSession { session, asks } = row.clone();
            asks.into_iter().map(move |ask| AskListRow::of(&session, ask))
        };
        self.take(ui, now.rows.iter().flat_map(row).collect(), now.faults.clone());
        Ok(now)
    }

    fn take(&mut self, ui: &mut Ui, rows: Vec<AskListRow>, faults: Vec<Fault>) {
        for row in rows {
            if !self.known.contains(&row.ask.id) {
                self.known.push(row.ask.id.clone());
                self.rest.push_back(row);
            }
        }
        let is_new = |fault: &Fault| !self.faults.iter().any(|old| old.message == fault.message);
        let new: Vec<Fault> = faults.into_iter().filter(is_new).collect();
        if !new.is_empty() {
            self.seen = super::super::answered(ui, &new);
        }
        self.faults.extend(new);
    }

    /// Drops the asks that were settled since they were seen, with a line for each.
    fn drop_settled(&mut self, ui: &mut Ui, fleet: &Fleet, now: &WaitingSessions) {
        self.rest.retain(|row| {
            let is_settled = fleet.is_settled(&row.ask, now);
            if is_settled {
                let (id, title) = (row.ask.short_id(), with_visible_breaks(&row.ask.title));
                ui.note(&format!("ask {id} was settled meanwhile: {title}"));
            }
            !is_settled
        });
    }
}

/// Returns everything that waits.
fn waiting(fleet: &Fleet) -> Result<WaitingSessions, Failure> {
    let asked = fleet.waiting(&AsksRequest::default());
    asked.map_err(|found| unresolved(fleet, &found.text, found.why))
}

enum Step {
    Answered,
    /// The answer was not taken; the exit code.
    Failed(ExitCode),
    Skipped,
    Quit,
}

/// Asks the user about one ask until it is answered, skipped or left.
fn step(ui: &mut Ui, fleet: &Fleet, ask: &Ask) -> Result<Step, Failure> {
    let remark = several_questions_remark(ask);
    for remark in remark.iter().chain(&key_words_remark(ask)) {
        ui.note(remark);
    }
    // The same prompt takes the keys and the answer.
    let is_secret = matches!(ask.fields.as_slice(), [field] if field.secret);
    discard_early_keys(ui);
    loop {
        let keys = keys(ask, ui.width().unwrap_or(usize::MAX));
        let typed = if is_secret { ui.prompt_hidden(&keys)? } else { ui.prompt(&keys)? };
        let Some(typed) = typed else { return Ok(Step::Quit) };
        // A key counts in upper case too, and everything else is a text as it stands, its blanks included.
        let line = typed.trim_end_matches(['\r', '\n']);
        let word = line.trim();
        let key = if word.len() == 1 { word.to_ascii_lowercase() } else { word.to_owned() };
        let reply = match key.as_str() {
            "q" => return Ok(Step::Quit),
            "s" | "" => return Ok(Step::Skipped),
            "a" if ask.offers(AskChoice::ALLOW) => Reply::Allow,
            "d" if ask.offers(AskChoice::DENY) => Reply::Deny { message: None },
            "m" if ask.offers(AskChoice::DENY) => {
                discard_early_keys(ui);
                let Some(message) = ui.prompt("words for the agent: ")? else {
                    return Ok(Step::Quit);
                };
                let message = message.trim().to_owned();
                // Enter alone never answers: it goes back to the keys.
                if message.is_empty() {
                    continue;
                }
                Reply::Deny { message: Some(message) }
            }
            "x" if ask.offers(AskChoice::STOP) => Reply::Stop,
            _ => match typed_answer(ask, line) {
                Some(reply) => reply,
                None => {
                    ui.note(remark.as_deref().unwrap_or("type one of the keys"));
                    continue;
                }
            },
        };
        let document = match answer_found(fleet, ask, &reply) {
            Ok(document) => document,
            Err(failure) => return Ok(Step::Failed(failure.report(ui))),
        };
        print(ui, &document)?;
        ui.flush()?;
        return Ok(Step::Answered);
    }
}

/// Discards everything that was typed up to now: it was typed before the ask, or the prompt, was shown.
fn discard_early_keys(ui: &mut Ui) {
    let were_typed = ui.typed_bytes() > 0;
    ui.discard_typed();
    if were_typed {
        ui.note("keys that were typed too early were discarded");
    }
}

/// Reads numbers of rules or of options, or the text of an answer. A number that is not offered is no answer.
fn typed_answer(ask: &Ask, text: &str) -> Option<Reply> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    let numbers: Result<Vec<usize>, _> = words.map(str::parse).collect();
    let field = match ask.fields.as_slice() {
        [] => {
            let key = AskChoice::always_key(text.trim().parse().ok()?);
            return ask.offers(&key).then_some(Reply::Always(key));
        }
        [field] => field,
        _ => return None,
    };
    let words = match numbers {
        Ok(options) if is_offered(field, &options) => {
            if options.len() > 1 && !field.many {
                return None;
            }
            FieldWords { options, ..FieldWords::default() }
        }
        _ if field.free_text => FieldWords { text: Some(text.to_owned()), ..FieldWords::default() },
        _ => return None,
    };
    field_reply(ask, &words).ok()
}

/// Says whether these are numbers of options. Any other number is a text.
fn is_offered(field: &AskField, options: &[usize]) -> bool {
    let numbers = 1..=field.options.len();
    !options.is_empty() && options.iter().all(|number| numbers.contains(number))
}

fn keys(ask: &Ask, width: usize) -> String {
    let mut keys = Vec::new();
    if ask.offers(AskChoice::ALLOW) {
        keys.push("[a]llow".to_owned());
    }
    let rules = ask.choices.iter().filter_map(AskChoice::rule_number);
    let rules: Vec<String> = rules.map(|number| number.to_string()).collect();
    if !rules.is_empty() {
        keys.push(format!("[{}] always", rules.join(",")));
    }
    if let Some(deny) = ask.choices.iter().find(|choice| choice.key == AskChoice::DENY) {
        // The label says what a denial without words does, where it does more than deny.
        let about = deny.label.strip_prefix(AskChoice::DENY).unwrap_or_default();
        keys.push(format!("[d]eny{about}"));
        keys.push("[m]essage".to_owned());
    }
    if let [field] = ask.fields.as_slice() {
        match (field.options.len(), field.many) {
            (0, _) => {}
            (count, false) => keys.push(format!("[1-{count}] option")),
            (count, true) => keys.push(format!("[1-{count}] options, like 1,2")),
        }
        if field.free_text {
            let shown =
                if field.secret { "type the answer (not shown)" } else { "type the answer" };
            keys.push(shown.to_owned());
        }
    }
    if ask.offers(AskChoice::STOP) {
        keys.push("[x] end the turn".to_owned());
    }
    keys.push("[s]kip".to_owned());
    keys.push("[q]uit: ".to_owned());
    broken_between(&keys, width)
}

/// Joins keys into lines of this width. A key is not broken.
fn broken_between(keys: &[String], width: usize) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for key in keys {
        let gap = if used == 0 { "" } else { "  " };
        if used > 0 && used + gap.len() + columns(key.trim_end()) > width {
            text.push('\n');
            used = 0;
        } else {
            text.push_str(gap);
            used += gap.len();
        }
        text.push_str(key);
        used += columns(key);
    }
    text
}

#[cfg(test)]
mod tests {
    use agentctl_core::fleet::blank_session;

    use super::*;

    #[test]
    fn the_key_of_a_denial_says_what_else_it_does() {
        let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
        ask.choices = vec![AskChoice::allow(), AskChoice::deny()];
        let wide = |ask: &Ask| keys(ask, usize::MAX);
        assert!(wide(&ask).starts_with("[a]llow  [d]eny  [m]essage  "), "{}", wide(&ask));
        ask.choices[1].label = "deny; without words this ends the turn".into();
        let told = "[d]eny; without words this ends the turn  [m]essage";
        assert!(wide(&ask).contains(told), "{}", wide(&ask));
    }

    #[test]
    fn the_keys_fit_the_terminal() {
        let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
        let rule = AskChoice::always(1, "touch x", agentctl_core::model::AskScope::Session);
        ask.choices = vec![AskChoice::allow(), AskChoice::deny(), rule, AskChoice::stop()];
        let line = keys(&ask, 80);
        assert!(columns(&line) <= 80 && !line.contains('\n'), "{line}");
        ask.choices[1].label = "deny; without words this ends the turn".into();
        let lines = keys(&ask, 80);
        assert!(lines.lines().count() == 2, "{lines}");
        assert!(lines.lines().all(|line| columns(line.trim_end()) <= 80), "{lines}");
        let (one_line, whole) = (lines.replace('\n', "  "), keys(&ask, usize::MAX));
        assert_eq!(one_line, whole, "broken between keys only");
    }
}

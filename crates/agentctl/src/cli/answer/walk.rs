//! `answer` on a terminal: the open asks one after the other, each answered with a key.
//!
//! A key answers an ask only if it was typed after that ask was shown. Everything that was typed before is
//! discarded.

use std::process::ExitCode;

use agentctl_core::ask::{AsksRequest, Fleet};
use agentctl_core::fleet::WaitingSession;
use agentctl_core::inbox::OpenAsk;
use agentctl_core::model::{Ask, AskChoice, Fault, Reply};

use super::super::asks::print_page;
use super::{answer_found, open_ask, print};
use crate::face::{
    AskListRow, AskPageForm, FieldWords, field_reply, key_words_remark, several_questions_remark,
    unresolved,
};
use crate::failure::{Failure, Outcome};
use crate::ui::Ui;

/// Shows the open asks one after the other and answers each as the user says. The first failure decides the exit
/// code.
pub(super) fn walk(ui: &mut Ui, fleet: &Fleet, only: Option<&str>) -> Outcome {
    let (rows, faults) = open_asks(fleet, only)?;
    let seen = super::super::answered(ui, &faults);
    if rows.is_empty() {
        let is_certain = faults.is_empty();
        ui.note(if is_certain { "nothing waits for you" } else { "no ask could be seen" });
    }
    let mut failed: Option<ExitCode> = None;
    let (mut skipped, mut left) = (0, 0);
    for (at, row) in rows.iter().enumerate() {
        ui.line(&format!("\n{} of {}", at + 1, rows.len()))?;
        print_page(ui, fleet, row, AskPageForm::Keys)?;
        ui.flush()?;
        if row.ask.via.is_none() {
            continue;
        }
        match step(ui, fleet, &row.ask)? {
            Step::Answered => {}
            Step::Failed(code) => failed = failed.or(Some(code)),
            Step::Skipped => skipped += 1,
            Step::Quit => {
                left = rows[at..].iter().filter(|row| row.ask.via.is_some()).count();
                break;
            }
        }
    }
    if skipped + left > 0 {
        ui.note(&format!("{skipped} skipped, {left} left; `agentctl asks` shows what is open now"));
    }
    Ok(failed.unwrap_or(seen))
}

/// Returns the asks of the walk and the sources that failed.
fn open_asks(fleet: &Fleet, only: Option<&str>) -> Result<(Vec<AskListRow>, Vec<Fault>), Failure> {
    if let Some(text) = only {
        let OpenAsk { session, ask, faults } = open_ask(fleet, text)?;
        return Ok((vec![AskListRow::of(&session, ask)], faults));
    }
    let asked = fleet.waiting(&AsksRequest::default());
    let waiting = asked.map_err(|found| unresolved(fleet, &found.text, found.why))?;
    let row = |row: WaitingSession| {
        let WaitingSession { session, asks } = row;
        asks.into_iter().map(move |ask| AskListRow::of(&session, ask))
    };
    Ok((waiting.rows.into_iter().flat_map(row).collect(), waiting.faults))
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
    discard_early_keys(ui);
    loop {
        let Some(typed) = ui.prompt(&keys(ask))? else { return Ok(Step::Quit) };
        let reply = match typed.trim() {
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
            text => match typed_answer(ask, text) {
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
            let key = AskChoice::always_key(text.parse().ok()?);
            return ask.offers(&key).then_some(Reply::Always(key));
        }
        [field] => field,
        _ => return None,
    };
    let words = match numbers {
        Ok(options) if !field.options.is_empty() => {
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

fn keys(ask: &Ask) -> String {
    let mut keys = Vec::new();
    if ask.offers(AskChoice::ALLOW) {
        keys.push("[a]llow".to_owned());
    }
    let rules = ask.choices.iter().filter_map(AskChoice::rule_number);
    let rules: Vec<String> = rules.map(|number| number.to_string()).collect();
    if !rules.is_empty() {
        keys.push(format!("[{}] always", rules.join(",")));
    }
    if ask.offers(AskChoice::DENY) {
        keys.push("[d]eny".to_owned());
        keys.push("deny with [m]essage".to_owned());
    }
    if let [field] = ask.fields.as_slice() {
        match (field.options.len(), field.many) {
            (0, _) => {}
            (count, false) => keys.push(format!("[1-{count}] option")),
            (count, true) => keys.push(format!("[1-{count}] options, like 1,2")),
        }
        if field.free_text {
            keys.push("type the answer".to_owned());
        }
    }
    if ask.offers(AskChoice::STOP) {
        keys.push("[x] end the turn".to_owned());
    }
    keys.push("[s]kip".to_owned());
    keys.push("[q]uit: ".to_owned());
    keys.join("  ")
}

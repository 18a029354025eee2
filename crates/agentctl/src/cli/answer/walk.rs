//! `answer` on a terminal: the open asks one after the other, each answered with a key.
//!
//! A key answers an ask only if it was typed after that ask was shown. Everything that was typed before is
//! discarded.

use std::process::ExitCode;

use agentctl_core::ask::{AsksRequest, Fleet};
use agentctl_core::model::{Ask, AskChoice, Reply};

use super::super::asks::print_page;
use super::{answer, open_ask, print};
use crate::face::{FieldWords, field_reply, several_questions_remark};
use crate::failure::{Failure, Outcome};
use crate::ui::Ui;

/// Shows the open asks one after the other and answers each as the user says.
pub(super) fn walk(ui: &mut Ui, fleet: &Fleet, only: Option<&str>) -> Outcome {
    let asks = match only {
        Some(text) => vec![open_ask(fleet, text)?.ask],
        None => match fleet.asks(&AsksRequest::default()) {
            Ok(document) => document.asks,
            Err(found) => return Err(crate::face::unresolved(fleet, &found.text, found.why)),
        },
    };
    if asks.is_empty() {
        ui.note("nothing waits for you");
    }
    let count = asks.len();
    for (at, ask) in asks.iter().enumerate() {
        ui.line(&format!("\n{} of {count}", at + 1))?;
        print_page(ui, fleet, ask)?;
        ui.flush()?;
        if ask.via.is_none() {
            continue;
        }
        match step(ui, fleet, ask)? {
            Step::Next => {}
            Step::Quit => break,
        }
    }
    Ok(ExitCode::SUCCESS)
}

enum Step {
    Next,
    Quit,
}

/// Asks the user about one ask until it is answered, skipped or left.
fn step(ui: &mut Ui, fleet: &Fleet, ask: &Ask) -> Result<Step, Failure> {
    let remark = several_questions_remark(ask);
    if let Some(remark) = &remark {
        ui.note(remark);
    }
    discard_early_keys(ui);
    loop {
        let Some(typed) = ui.prompt(&keys(ask))? else { return Ok(Step::Quit) };
        let reply = match typed.trim() {
            "q" => return Ok(Step::Quit),
            "s" | "" => return Ok(Step::Next),
            "a" if ask.offers(AskChoice::ALLOW) => Reply::Allow,
            "d" if ask.offers(AskChoice::DENY) => Reply::Deny { message: None },
            "m" if ask.offers(AskChoice::DENY) => {
                discard_early_keys(ui);
                let Some(message) = ui.prompt("words for the agent: ")? else {
                    return Ok(Step::Quit);
                };
                let message = message.trim().to_owned();
                Reply::Deny { message: (!message.is_empty()).then_some(message) }
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
        match answer(fleet, &ask.id, &reply) {
            Ok(document) => {
                print(ui, &document)?;
                ui.flush()?;
            }
            Err(failure) => ui.error(failure.message()),
        }
        return Ok(Step::Next);
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
            let key = format!("always:{}", text.parse::<usize>().ok()?);
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
    let rules = ask.choices.iter().filter_map(|choice| choice.key.strip_prefix("always:"));
    let rules: Vec<&str> = rules.collect();
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
        keys.push("[x] stop".to_owned());
    }
    keys.push("[s]kip".to_owned());
    keys.push("[q]uit: ".to_owned());
    keys.join("  ")
}

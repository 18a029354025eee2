//! `agentctl answer`, `approve` and `deny`: answers to asks.

use std::process::ExitCode;

use agentctl_core::ask::{AnswerDocument, AnswerRequest, AsksRequest, Fleet};
use agentctl_core::inbox::{AnswerError, can_name_an_ask};
use agentctl_core::model::{Ask, AskChoice, Reply};
use clap::{ArgGroup, Args};

use super::asks::print_page;
use crate::face::{
    FieldWords, answer_flags, answered_line, field_reply, not_answered, several_questions_remark,
};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Answer an ask
///
/// The answer goes to exactly this ask and is delivered at most once: if the ask was settled meanwhile, nothing is
/// answered. Without a decision, on a terminal, asks are shown one after the other. Processes below an agent may
/// not answer.
#[derive(Args)]
#[command(group = ArgGroup::new("decision").multiple(false))]
pub(super) struct AnswerArgs {
    /// The ask, by at least 6 characters of its id [default: all, one after the other]
    #[arg(value_name = "ASK")]
    ask: Option<String>,
    /// Allow it once
    #[arg(long, group = "decision", requires = "ask")]
    allow: bool,
    /// Deny it; the agent goes on without it
    #[arg(long, group = "decision", requires = "ask")]
    deny: bool,
    /// With --deny: words for the agent
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, requires = "deny")]
    message: Option<String>,
    /// Allow it and store rule N of the ask
    #[arg(long, value_name = "N", group = "decision", requires = "ask")]
    always: Option<usize>,
    /// Choose option N of the question; repeat it where several may be chosen
    #[arg(long, value_name = "N", conflicts_with_all = ["decision", "text", "field"], requires = "ask")]
    option: Vec<usize>,
    /// Answer the question with this text
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with_all = ["decision", "field"],
        requires = "ask"
    )]
    text: Option<String>,
    /// Answer one of several questions: its name, and an option or a text
    #[arg(long, value_name = "ID=VALUE", conflicts_with = "decision", requires = "ask")]
    field: Vec<String>,
    /// Deny it and end the turn
    #[arg(long, group = "decision", requires = "ask")]
    stop: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Allow asks once
#[derive(Args)]
pub(super) struct ApproveArgs {
    /// The asks, by at least 6 characters of their id
    #[arg(value_name = "ASK", required = true)]
    asks: Vec<String>,
    /// Print one JSON document for each ask, one a line
    #[arg(long)]
    json: bool,
}

/// Deny asks; the agents go on without it
#[derive(Args)]
pub(super) struct DenyArgs {
    /// The asks, by at least 6 characters of their id
    #[arg(value_name = "ASK", required = true)]
    asks: Vec<String>,
    /// Words for the agent
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    /// Print one JSON document for each ask, one a line
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_answer(ui: &mut Ui, fleet: &Fleet, args: &AnswerArgs) -> Outcome {
    let reply = match (&args.ask, decision(args)?) {
        (Some(ask), Some(Decision::Reply(reply))) => return one(ui, fleet, ask, reply, args.json),
        (Some(ask), Some(Decision::Fields(words))) => {
            let found = open_ask(fleet, ask)?;
            let reply = field_reply(&found, &words)?;
            return one(ui, fleet, &found.id, reply, args.json);
        }
        (ask, _) => ask.as_deref(),
    };
    if args.json || !ui.converses() {
        let failure =
            Failure::new(Kind::Usage, "no decision was given, and no terminal can be asked");
        return Err(failure.hint(match reply {
            Some(ask) => match open_ask(fleet, ask) {
                Ok(ask) => offered(&ask),
                Err(_) => "add --allow, --deny, --option N or --text TEXT".to_owned(),
            },
            None => "name an ask and a decision: `agentctl asks` shows both".to_owned(),
        }));
    }
    walk(ui, fleet, reply)
}

pub(super) fn cmd_approve(ui: &mut Ui, fleet: &Fleet, args: &ApproveArgs) -> Outcome {
    several(ui, fleet, &args.asks, &Reply::Allow, args.json)
}

pub(super) fn cmd_deny(ui: &mut Ui, fleet: &Fleet, args: &DenyArgs) -> Outcome {
    let reply = Reply::Deny { message: args.message.clone() };
    several(ui, fleet, &args.asks, &reply, args.json)
}

enum Decision {
    Reply(Reply),
    Fields(FieldWords),
}

fn decision(args: &AnswerArgs) -> Result<Option<Decision>, Failure> {
    if args.allow {
        return Ok(Some(Decision::Reply(Reply::Allow)));
    }
    if args.deny {
        return Ok(Some(Decision::Reply(Reply::Deny { message: args.message.clone() })));
    }
    if args.stop {
        return Ok(Some(Decision::Reply(Reply::Stop)));
    }
    if let Some(number) = args.always {
        return Ok(Some(Decision::Reply(Reply::Always(format!("always:{number}")))));
    }
    let mut fields = Vec::new();
    for field in &args.field {
        let Some((name, value)) = field.split_once('=') else {
            let message = format!("--field needs ID=VALUE, not `{field}`");
            return Err(
                Failure::new(Kind::Usage, message).hint("`agentctl asks ASK` shows the ids")
            );
        };
        fields.push((name.to_owned(), value.to_owned()));
    }
    let words = FieldWords { options: args.option.clone(), text: args.text.clone(), fields };
    let is_empty = words.options.is_empty() && words.text.is_none() && words.fields.is_empty();
    Ok((!is_empty).then_some(Decision::Fields(words)))
}

/// Finds the ask that a text names.
fn open_ask(fleet: &Fleet, text: &str) -> Result<Ask, Failure> {
    let found = agentctl_core::inbox::find(fleet, text, None);
    found.map(|found| found.ask).map_err(|error| not_answered(fleet, text, error))
}

fn answer(fleet: &Fleet, ask: &str, reply: &Reply) -> Result<AnswerDocument, Failure> {
    let answerer = fleet.answerer(std::process::id());
    let request = AnswerRequest { ask: ask.to_owned(), reply: reply.clone() };
    fleet.answer(&request, &answerer).map_err(|error| not_answered(fleet, ask, error))
}

fn one(ui: &mut Ui, fleet: &Fleet, ask: &str, reply: Reply, json: bool) -> Outcome {
    let document = answer(fleet, ask, &reply)?;
    if json {
        ui.json(&document)?;
    } else {
        print(ui, &document)?;
    }
    ui.flush()?;
    Ok(super::answered(ui, &document.faults))
}

fn print(ui: &mut Ui, document: &AnswerDocument) -> std::io::Result<()> {
    ui.line(&answered_line(document))?;
    if document.words_lost {
        ui.warn("the agent has no field for the words of a denial: they were not delivered");
    }
    Ok(())
}

/// Answers several asks. The first failure decides the exit code; the others are reported.
fn several(ui: &mut Ui, fleet: &Fleet, asks: &[String], reply: &Reply, json: bool) -> Outcome {
    // A typing error answers nothing.
    if let Some(text) = asks.iter().find(|text| !can_name_an_ask(text)) {
        return Err(not_answered(fleet, text, AnswerError::NotAnId));
    }
    let mut failed: Option<Failure> = None;
    let mut faults = Vec::new();
    let mut answered: Vec<String> = Vec::new();
    for ask in asks {
        // Named twice, it is answered once.
        if answered.iter().any(|id| id.starts_with(ask.as_str())) {
            continue;
        }
        match answer(fleet, ask, reply) {
            Ok(document) => {
                if json {
                    ui.json_line(&document)?;
                } else {
                    print(ui, &document)?;
                }
                answered.push(document.ask.id);
                faults.extend(document.faults);
            }
            Err(failure) if failed.is_none() => failed = Some(failure),
            Err(failure) => ui.error(failure.message()),
        }
        ui.flush()?;
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(super::answered(ui, &faults)),
    }
}

fn offered(ask: &Ask) -> String {
    let flags: Vec<String> = answer_flags(ask).into_iter().map(|(flag, _)| flag).collect();
    format!("it takes {}", flags.join(", "))
}

/// Shows the open asks one after the other and answers each as the user says.
fn walk(ui: &mut Ui, fleet: &Fleet, only: Option<&str>) -> Outcome {
    let asks = match only {
        Some(text) => vec![open_ask(fleet, text)?],
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
    loop {
        let Some(typed) = ui.prompt(&keys(ask))? else { return Ok(Step::Quit) };
        let reply = match typed.trim() {
            "q" => return Ok(Step::Quit),
            "s" | "" => return Ok(Step::Next),
            "a" if ask.offers(AskChoice::ALLOW) => Reply::Allow,
            "d" if ask.offers(AskChoice::DENY) => Reply::Deny { message: None },
            "m" if ask.offers(AskChoice::DENY) => {
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
        let typed_before = ui.typed_bytes();
        match answer(fleet, &ask.id, &reply) {
            Ok(document) => {
                print(ui, &document)?;
                ui.flush()?;
            }
            Err(failure) => ui.error(failure.message()),
        }
        // Keys that were typed while the answer was delivered were meant for an ask that was not shown yet.
        if ui.typed_bytes() > typed_before {
            ui.discard_typed();
            ui.note("the keys typed meanwhile were discarded");
        }
        return Ok(Step::Next);
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

//! `agentctl answer`, `approve` and `deny`: answers to asks.

mod walk;

use std::process::ExitCode;

use agentctl_core::ask::{AnswerDocument, AnswerRequest, Fleet};
use agentctl_core::inbox::{AnswerError, OpenAsk, can_name_an_ask, check_answerer, find};
use agentctl_core::model::{Ask, AskChoice, AskField, FieldAnswer, Reply};
use agentctl_core::text::shell_word;
use clap::{ArgGroup, Args};

use self::walk::walk;
use crate::face::{
    FieldWords, answered_line, field_reply, not_answered, offered_hint, secrets_of_stdin,
    with_visible_breaks,
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
    /// Deny it; the agent goes on without it, but OpenCode ends its turn unless --message is given
    #[arg(long, group = "decision", requires = "ask")]
    deny: bool,
    /// With --deny: words for the agent
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    /// Allow it and store rule N of the ask
    #[arg(long, value_name = "N", group = "decision", requires = "ask")]
    always: Option<usize>,
    /// Choose option N of the question; repeat it where several may be chosen
    #[arg(long, value_name = "N", conflicts_with_all = ["decision", "text", "field"], requires = "ask")]
    option: Vec<usize>,
    /// Answer the question with this text; `-` reads it from stdin, without its last line break
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with_all = ["decision", "field"],
        requires = "ask"
    )]
    text: Option<String>,
    /// Answer one of several questions: its number or id, and an option or a text; `N=-` reads a secret from stdin
    #[arg(long, value_name = "N=VALUE", conflicts_with = "decision", requires = "ask")]
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

/// Deny asks; the agents go on without them
///
/// OpenCode goes on only if it is given words; without --message its turn ends.
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
    let ask = match (&args.ask, decision(args)?) {
        (Some(ask), Some(Decision::Reply(reply))) => {
            return one(ui, &answer(fleet, ask, &reply)?, args.json);
        }
        (Some(ask), Some(Decision::Fields(mut words))) => {
            let found = open_ask(fleet, ask)?;
            let answerer = fleet.answerer(std::process::id());
            check_answerer(fleet, &answerer, &found)
                .map_err(|error| not_answered(fleet, ask, error))?;
            check_channel(fleet, &found.ask)?;
            if words.text.as_deref() == Some("-") {
                words.text = Some(text_of_stdin(ui, &found.ask)?);
            }
            words.secrets = secrets(ui, &secrets_of_stdin(&found.ask, &words))?;
            let reply = field_reply(&found.ask, &words)?;
            return one(ui, &answer_found(fleet, &found.ask, &reply)?, args.json);
        }
        (ask, _) => ask.as_deref(),
    };
    if args.json || !ui.converses() {
        let hint = match ask {
            Some(ask) => {
                let found = open_ask(fleet, ask)?.ask;
                check_channel(fleet, &found)?;
                offered_hint(&found)
            }
            None => "name an ask and a decision: `agentctl asks` shows both".to_owned(),
        };
        let message = if args.json {
            "no decision was given, and --json asks for none"
        } else {
            "no decision was given, and no terminal can be asked"
        };
        return Err(Failure::new(Kind::Usage, message).hint(hint));
    }
    walk(ui, fleet, ask)
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
    // `requires` of clap does not hold here: it is waived by the conflicts within the group of decisions.
    if args.message.is_some() && !args.deny {
        let failure = Failure::new(Kind::Usage, "--message goes only with --deny");
        return Err(failure.hint("the answer to a question is given with --text"));
    }
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
        return Ok(Some(Decision::Reply(Reply::Always(AskChoice::always_key(number)))));
    }
    if let Some(field) = args.field.iter().find(|field| !field.contains('=')) {
        let message = format!("--field needs N=VALUE, not `{field}`");
        let ask = args.ask.as_deref().map_or_else(|| "ASK".to_owned(), shell_word);
        let hint = format!("`agentctl asks {ask}` shows the numbers of the questions");
        return Err(Failure::new(Kind::Usage, message).hint(hint));
    }
    let words = FieldWords {
        options: args.option.clone(),
        text: args.text.clone(),
        fields: args.field.clone(),
        secrets: Vec::new(),
    };
    let is_empty = words.options.is_empty() && words.text.is_none() && words.fields.is_empty();
    Ok((!is_empty).then_some(Decision::Fields(words)))
}

/// Reads the answer to a question from stdin, without the line break at its end. A terminal does not show a secret.
fn text_of_stdin(ui: &mut Ui, ask: &Ask) -> Result<String, Failure> {
    let is_secret = matches!(ask.fields.as_slice(), [field] if field.secret);
    let text = if is_secret && ui.reads_keys() {
        ui.prompt_hidden("type the answer (not shown): ")?.unwrap_or_default()
    } else {
        std::io::read_to_string(std::io::stdin())?
    };
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(Failure::new(Kind::Usage, "stdin has no text for an answer"));
    }
    Ok(text.to_owned())
}

/// Reads the secrets among several answers: on a terminal each by a prompt of its own, else one from each line of stdin.
fn secrets(ui: &mut Ui, fields: &[&AskField]) -> Result<Vec<FieldAnswer>, Failure> {
    let mut lines = Vec::new();
    if ui.reads_keys() {
        for field in fields {
            let prompt = format!("{} (not shown): ", with_visible_breaks(&field.text));
            lines.push(ui.prompt_hidden(&prompt)?.unwrap_or_default());
        }
    } else if !fields.is_empty() {
        let text = std::io::read_to_string(std::io::stdin())?;
        lines = text.lines().map(str::to_owned).collect();
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end_matches(['\r', '\n'])).collect();
    if lines.len() != fields.len() || lines.iter().any(|line| line.is_empty()) {
        let message =
            format!("stdin has {} lines for {} secret answers", lines.len(), fields.len());
        return Err(
            Failure::new(Kind::Usage, message).hint("write each of them in a line of its own")
        );
    }
    let answer = |(field, line): (&&AskField, &str)| FieldAnswer {
        field: field.id.clone(),
        values: vec![line.to_owned()],
    };
    Ok(fields.iter().zip(lines).map(answer).collect())
}

/// Finds the ask that a text names.
fn open_ask(fleet: &Fleet, text: &str) -> Result<OpenAsk, Failure> {
    find(fleet, text, None).map_err(|error| not_answered(fleet, text, error))
}

/// Checks that an ask can be answered from here: without a channel it takes no decision at all.
fn check_channel(fleet: &Fleet, ask: &Ask) -> Result<(), Failure> {
    match ask.via {
        Some(_) => Ok(()),
        None => {
            let error = AnswerError::Unanswerable(Box::new(ask.clone()));
            Err(not_answered(fleet, &ask.id, error))
        }
    }
}

fn answer(fleet: &Fleet, ask: &str, reply: &Reply) -> Result<AnswerDocument, Failure> {
    deliver(fleet, ask, reply).map_err(|error| not_answered(fleet, ask, error))
}

/// Answers an ask that was found before: if it is gone, its session is known.
fn answer_found(fleet: &Fleet, ask: &Ask, reply: &Reply) -> Result<AnswerDocument, Failure> {
    deliver(fleet, &ask.id, reply).map_err(|error| match error {
        AnswerError::Gone(None, faults) => {
            not_answered(fleet, &ask.id, AnswerError::Gone(Some(Box::new(ask.clone())), faults))
        }
        other => not_answered(fleet, &ask.id, other),
    })
}

fn deliver(fleet: &Fleet, ask: &str, reply: &Reply) -> Result<AnswerDocument, AnswerError> {
    let answerer = fleet.answerer(std::process::id());
    fleet.answer(&AnswerRequest { ask: ask.to_owned(), reply: reply.clone() }, &answerer)
}

fn one(ui: &mut Ui, document: &AnswerDocument, json: bool) -> Outcome {
    if json {
        ui.json(document)?;
    } else {
        print(ui, document)?;
    }
    ui.flush()?;
    Ok(super::answered(ui, &document.faults))
}

fn print(ui: &mut Ui, document: &AnswerDocument) -> std::io::Result<()> {
    ui.sentence(&answered_line(document))?;
    if document.words_lost {
        ui.warn("the agent has no field for the words of a denial: they were not delivered");
    }
    Ok(())
}

/// Answers several asks. Each has its own line, in the order of the arguments; the first failure decides the exit
/// code.
fn several(ui: &mut Ui, fleet: &Fleet, asks: &[String], reply: &Reply, json: bool) -> Outcome {
    // A typing error answers nothing.
    if let Some(text) = asks.iter().find(|text| !can_name_an_ask(text)) {
        return Ok(not_answered(fleet, text, AnswerError::NotAnId).report_in_line(ui)?);
    }
    let mut failed: Option<ExitCode> = None;
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
            Err(failure) => {
                let code = failure.report_in_line(ui)?;
                failed = failed.or(Some(code));
            }
        }
        ui.flush()?;
    }
    let seen = super::answered(ui, &faults);
    Ok(failed.unwrap_or(seen))
}

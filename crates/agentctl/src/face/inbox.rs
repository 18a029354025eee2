//! The words of asks and answers: an ask in one line, the command that answers it, and the sentences for answers that
//! were not taken.

use agentctl_core::ask::{AnswerDocument, Fleet};
use agentctl_core::inbox::{AnswerError, Answerer, AnswererLink};
use agentctl_core::model::{Ask, AskChoice, AskField, AskScope, FieldAnswer, Reply, Status};

use super::{full_name, with_visible_breaks};
use crate::failure::{Failure, Kind};

/// Returns an ask in one line, with its options: `question: Which colour?  1 Red  2 Blue`.
#[must_use]
pub fn ask_summary(ask: &Ask) -> String {
    ask_summary_pieces(ask).join("  ")
}

/// Returns the pieces of the line of an ask: its title, its options, and why it cannot be answered from here.
#[must_use]
pub fn ask_summary_pieces(ask: &Ask) -> Vec<String> {
    let mut pieces = vec![match ask.title.as_str() {
        title if title == ask.kind.word() => title.to_owned(),
        title => format!("{}: {title}", ask.kind.word()),
    }];
    if let [field] = ask.fields.as_slice() {
        let options = (1..).zip(&field.options);
        pieces.extend(options.map(|(number, option)| format!("{number} {}", option.label)));
    } else if ask.fields.len() > 1 {
        pieces.push(format!("({} questions)", ask.fields.len()));
    }
    if let Some(why_not) = &ask.why_not {
        pieces.push(format!("(not from here: {why_not})"));
    }
    pieces
}

/// Returns the flags of `answer` that this ask takes, each with its meaning.
#[must_use]
pub fn answer_flags(ask: &Ask) -> Vec<(String, String)> {
    let mut flags = Vec::new();
    match ask.fields.as_slice() {
        [] => {}
        [field] => {
            for (number, option) in (1..).zip(&field.options) {
                flags.push((format!("--option {number}"), option.label.clone()));
            }
            if field.free_text {
                flags.push(("--text TEXT".to_owned(), "answer in your own words".to_owned()));
            }
        }
        several => {
            let named: Vec<String> =
                several.iter().map(|field| format!("--field {}=VALUE", field.id)).collect();
            flags.push((named.join(" "), "answer all questions".to_owned()));
        }
    }
    for choice in &ask.choices {
        flags.push((choice_flag(choice), choice_text(choice)));
    }
    flags
}

fn choice_flag(choice: &AskChoice) -> String {
    match choice.key.split_once(':') {
        Some((word, number)) => format!("--{word} {number}"),
        None => format!("--{}", choice.key),
    }
}

/// Returns a decision that an ask offers in words, with the rule that it stores. A line break in the rule is written
/// as `\n` or `\r`: it is part of what is allowed.
#[must_use]
pub fn choice_text(choice: &AskChoice) -> String {
    let scope = match choice.scope {
        AskScope::Once => String::new(),
        scope => format!(", for this {}", scope.word()),
    };
    let rule = choice.rule.as_deref().map(|rule| format!(": {rule}")).unwrap_or_default();
    with_visible_breaks(&format!("{}{rule}{scope}", choice.label))
}

/// Returns the command that shows an ask in full and then the command that answers it, for hints and
/// notifications: an ask is read before it is answered.
#[must_use]
pub fn answer_hint(ask: &Ask) -> String {
    let id = ask.short_id();
    if let Some(why_not) = &ask.why_not {
        return format!("ask {id} cannot be answered from here: {why_not}");
    }
    let shows = format!("`agentctl asks {id}` shows it in full");
    let both = [AskChoice::ALLOW, AskChoice::DENY].iter().all(|key| ask.offers(key));
    match answer_flags(ask).first() {
        _ if both && ask.fields.is_empty() => {
            format!("{shows}; `agentctl answer {id} --allow` or `--deny` answers it")
        }
        Some((flag, _)) => format!("{shows}; `agentctl answer {id} {flag}` answers it"),
        None => shows,
    }
}

/// Returns the remark of the walk about an ask with several questions, which one line cannot answer.
#[must_use]
pub fn several_questions_remark(ask: &Ask) -> Option<String> {
    let [_, _, ..] = ask.fields.as_slice() else { return None };
    let (flags, _) = answer_flags(ask).into_iter().next()?;
    let id = ask.short_id();
    Some(format!("its questions are answered together: `agentctl answer {id} {flags}`"))
}

/// Returns the remark of the walk about answers in words that are keys there.
#[must_use]
pub fn key_words_remark(ask: &Ask) -> Option<String> {
    let [field] = ask.fields.as_slice() else { return None };
    let id = ask.short_id();
    field.free_text.then(|| {
        format!("`s`, `x` and `q` are keys here: `agentctl answer {id} --text s` answers with such a word")
    })
}

/// Returns the line about an answer that was taken.
#[must_use]
pub fn answered_line(document: &AnswerDocument) -> String {
    let ask = &document.ask;
    let (word, values) = match &document.reply {
        Reply::Allow => ("allowed", String::new()),
        Reply::Always(_) => ("always allowed", String::new()),
        Reply::Deny { .. } => ("denied", String::new()),
        Reply::Stop => ("turn ended", String::new()),
        Reply::Fields(fields) => ("answered", format!("  {}", given(ask, fields))),
    };
    let name = full_name(ask.adapter, ask.session_id.as_deref(), ask.pid);
    let moved = match (&document.moved, &document.session) {
        (Some(moved), _) => format!("{name}: {}", moved.says),
        (None, _) => format!("delivered; {name} was not seen to move yet"),
    };
    format!("{word}  {}{values}  ({moved})", ask.title)
}

/// Returns the values of an answer; a secret is not repeated.
fn given(ask: &Ask, answers: &[FieldAnswer]) -> String {
    let is_secret = |id: &str| ask.fields.iter().any(|field| field.id == id && field.secret);
    let values = answers.iter().map(|answer| {
        if is_secret(&answer.field) { "(secret)".to_owned() } else { answer.values.join(", ") }
    });
    values.collect::<Vec<_>>().join(", ")
}

/// Says why an ask was not answered.
#[must_use]
pub fn not_answered(fleet: &Fleet, text: &str, error: AnswerError) -> Failure {
    match error {
        AnswerError::NotAnId => not_an_ask(fleet, text, Kind::Usage).unwrap_or_else(|| {
            Failure::new(Kind::Usage, format!("`{text}` is no id of an ask")).hint(
                "an ask is named by at least 6 characters of its id: `agentctl asks` shows them",
            )
        }),
        AnswerError::Gone(Some(ask), faults) if faults.is_empty() => {
            let message = format!("ask {} is not open any more", ask.short_id());
            let name = full_name(ask.adapter, ask.session_id.as_deref(), ask.pid);
            let hint = match state_now(fleet, &ask) {
                Some(now) => format!("{name} {now}; `agentctl asks` shows what is open now"),
                None => "`agentctl asks` shows what is open now".to_owned(),
            };
            Failure::new(Kind::NoAsk, message).hint(hint)
        }
        AnswerError::Gone(None, faults) if faults.is_empty() => {
            not_an_ask(fleet, text, Kind::NoAsk).unwrap_or_else(|| {
                Failure::new(Kind::NoAsk, format!("no open ask has the id `{text}`"))
                    .hint("it may be settled already; `agentctl asks` shows what is open now")
            })
        }
        AnswerError::Gone(_, faults) => {
            let message =
                format!("whether ask `{text}` is open is unknown: a source did not answer");
            Failure::new(Kind::Unanswered, message).beside(faults)
        }
        AnswerError::Several(asks) => {
            let message = format!("`{text}` fits {} asks", asks.len());
            let failure = Failure::new(Kind::AmbiguousAsk, message).hint("give more characters");
            asks.iter().fold(failure, |failure, ask| {
                failure.candidate(format!("{}  {}", ask.id, ask_summary(ask)))
            })
        }
        AnswerError::NotOffered(ask, why) => {
            let offered: Vec<String> =
                answer_flags(&ask).into_iter().map(|(flag, _)| flag).collect();
            let message = format!("ask {} was not answered: {why}", ask.short_id());
            Failure::new(Kind::Usage, message).hint(format!("it takes {}", offered.join(", ")))
        }
        AnswerError::Unanswerable(ask) => {
            let why = ask.why_not.as_deref().unwrap_or("no channel reaches it");
            let message = format!("ask {} cannot be answered from here: {why}", ask.short_id());
            let failure = Failure::new(Kind::Refused, message);
            match &ask.session_id {
                Some(id) => failure.hint(format!("`agentctl attach {id}` shows its terminal")),
                None => failure,
            }
        }
        AnswerError::FromAgent(answerer) if answerer.may_answer_others(fleet) => {
            super::below::answer_refused_below(fleet, &answerer, text)
        }
        AnswerError::FromAgent(answerer) => from_agent(&answerer),
        AnswerError::Busy => Failure::new(
            Kind::Refused,
            format!("another answer to ask `{text}` is being delivered"),
        )
        .hint("`agentctl asks` shows whether it is still open"),
        AnswerError::Lock(why) => {
            Failure::new(Kind::Failed, format!("ask `{text}` was not answered: {why}"))
        }
        AnswerError::Refused(ask, why) => {
            let now = state_now(fleet, &ask).map(|now| format!("; it {now}")).unwrap_or_default();
            let message = format!("ask {} was not answered: {why}{now}", ask.short_id());
            Failure::new(Kind::Refused, message).hint("`agentctl asks` shows what is open now")
        }
        AnswerError::Unclear(ask, why) => {
            let message =
                format!("whether ask {} was answered is not known: {why}", ask.short_id());
            Failure::new(Kind::Failed, message)
                .hint("`agentctl asks` shows whether it is still open")
        }
    }
}

/// Says that a process may not answer, because it runs below an agent or cannot be examined.
fn from_agent(answerer: &Answerer) -> Failure {
    let failure = match (answerer.above.first(), &answerer.unseen) {
        (Some(_), _) => {
            let message = format!("{}: agents may not answer", link_above(answerer));
            Failure::new(Kind::Refused, message)
        }
        (None, why) => {
            let why = why.as_deref().unwrap_or("its ancestors cannot be seen");
            Failure::new(Kind::Refused, format!("the answering process cannot be examined: {why}"))
        }
    };
    failure.hint("answer in your own terminal; `[answers] agents` in the configuration allows more")
}

/// Says how the answering process is linked to an agent: by the nearest link whose session is known.
pub(super) fn link_above(answerer: &Answerer) -> String {
    let known = answerer.above.iter().find(|above| above.session.is_some());
    let nearest = known.or(answerer.above.first()).or(answerer.left_behind.first());
    let Some(above) = nearest else { return String::new() };
    let pid = above.pid;
    let session = above.session.as_ref();
    let name = session.map(|session| format!("{} {}", session.adapter, session.id));
    let name = name.unwrap_or_else(|| "an agent".to_owned());
    match above.link {
        AnswererLink::Agent => format!("this process runs below {name} (pid {pid})"),
        AnswererLink::Shim => format!("this process runs below the shim of {name} (pid {pid})"),
        AnswererLink::RunMark | AnswererLink::AgentMark => {
            format!("{name} started this process (pid {pid} has its mark)")
        }
        AnswererLink::EndedRunMark => {
            format!("{name} has ended and started this process (pid {pid} has its mark)")
        }
        AnswererLink::Launcher => format!("{name} launched the agent above this process"),
        AnswererLink::FuseAction => {
            format!(
                "this process runs below the action of a fuse (pid {pid}), which an agent may have set"
            )
        }
    }
}

/// Says that a text names a session instead of an ask.
fn not_an_ask(fleet: &Fleet, text: &str, kind: Kind) -> Option<Failure> {
    fleet.target(text).ok()?;
    let failure = Failure::new(kind, format!("`{text}` is a session, not an ask"));
    Some(failure.hint(format!("`agentctl asks {text}` shows what it asks")))
}

/// Returns what the session of an ask does now, without its subject: `is running now`.
fn state_now(fleet: &Fleet, ask: &Ask) -> Option<String> {
    let target = agentctl_core::model::Target {
        adapter: ask.adapter,
        root: ask.root.clone(),
        session: ask.session_id.clone().map(|id| agentctl_core::model::Locator {
            id,
            path: None,
            parent: None,
        }),
        pid: ask.pid.filter(|_| ask.session_id.is_none()),
    };
    let session = fleet.inspect(&target).session?;
    Some(match session.status {
        Status::Waiting => "waits for something else now".to_owned(),
        status => format!("is {} now", status.word()),
    })
}

/// Reads `--option`, `--text` and `--field` into the answer to the questions of an ask.
pub fn field_reply(ask: &Ask, words: &FieldWords) -> Result<Reply, Failure> {
    let usage = |message: String| Failure::new(Kind::Usage, message);
    if ask.fields.is_empty() {
        let offered: Vec<String> = answer_flags(ask).into_iter().map(|(flag, _)| flag).collect();
        let message = format!("ask {} is a {}, not a question", ask.short_id(), ask.kind.word());
        return Err(usage(message).hint(format!("it takes {}", offered.join(", "))));
    }
    if !words.fields.is_empty() {
        let mut answers: Vec<FieldAnswer> = Vec::new();
        for (name, value) in &words.fields {
            let field = ask.fields.iter().find(|field| field.id == *name);
            let names: Vec<&str> = ask.fields.iter().map(|field| field.id.as_str()).collect();
            let field = field.ok_or_else(|| {
                usage(format!("ask {} has no field `{name}`", ask.short_id()))
                    .hint(format!("fields: {}", names.join(", ")))
            })?;
            let value = option_value(ask, field, value)?;
            match answers.iter_mut().find(|answer| answer.field == *name) {
                Some(answer) => answer.values.push(value),
                None => answers.push(FieldAnswer { field: name.clone(), values: vec![value] }),
            }
        }
        return Ok(Reply::Fields(answers));
    }
    let [field] = ask.fields.as_slice() else {
        let names: Vec<String> =
            ask.fields.iter().map(|field| format!("--field {}=VALUE", field.id)).collect();
        let message = format!("ask {} has {} questions", ask.short_id(), ask.fields.len());
        return Err(usage(message).hint(format!("answer each: {}", names.join(" "))));
    };
    let values = match &words.text {
        Some(text) => vec![text.clone()],
        None => {
            let label = |number: &usize| option_label(ask, field, *number);
            words.options.iter().map(label).collect::<Result<_, _>>()?
        }
    };
    Ok(Reply::Fields(vec![FieldAnswer { field: field.id.clone(), values }]))
}

/// The flags that answer questions, as typed.
#[derive(Clone, Debug, Default)]
pub struct FieldWords {
    /// The numbers of options.
    pub options: Vec<usize>,
    /// A text.
    pub text: Option<String>,
    /// Names of fields with their values.
    pub fields: Vec<(String, String)>,
}

fn option_label(ask: &Ask, field: &AskField, number: usize) -> Result<String, Failure> {
    let option = number.checked_sub(1).and_then(|at| field.options.get(at));
    option.map(|option| option.label.clone()).ok_or_else(|| {
        let message = match field.options.len() {
            0 => format!("`{}` has no options", field.text),
            count => format!("`{}` has options 1 to {count}, not {number}", field.text),
        };
        let hint = if field.options.is_empty() {
            "answer with --text TEXT".to_owned()
        } else {
            format!("`agentctl asks {}` shows them", ask.short_id())
        };
        Failure::new(Kind::Usage, message).hint(hint)
    })
}

/// Returns the label that a value of `--field` means: the number of an option, its label, or a text.
fn option_value(ask: &Ask, field: &AskField, value: &str) -> Result<String, Failure> {
    if field.options.iter().any(|option| option.label == value) || field.options.is_empty() {
        return Ok(value.to_owned());
    }
    match value.parse::<usize>() {
        Ok(number) => option_label(ask, field, number),
        Err(_) => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use agentctl_core::fleet::blank_session;

    use super::*;

    #[test]
    fn the_walk_names_the_command_that_answers_several_questions() {
        let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
        ask.id = "0123456789abcdef".to_owned();
        ask.fields = vec![AskField::question("colour", "?", Vec::new())];
        assert_eq!(several_questions_remark(&ask), None);
        ask.fields.push(AskField::question("size", "?", Vec::new()));
        assert_eq!(
            several_questions_remark(&ask).as_deref(),
            Some(
                "its questions are answered together: \
                 `agentctl answer 01234567 --field colour=VALUE --field size=VALUE`"
            )
        );
    }

    #[test]
    fn a_hint_names_the_command_that_shows_the_ask_first() {
        let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
        ask.id = "0123456789abcdef".to_owned();
        ask.choices = vec![AskChoice::allow(), AskChoice::deny()];
        let hint = answer_hint(&ask);
        assert!(hint.starts_with("`agentctl asks 01234567` shows it in full; "), "{hint}");
        assert!(hint.contains("`agentctl answer 01234567 --allow` or `--deny`"), "{hint}");
    }

    #[test]
    fn a_secret_answer_is_not_repeated() {
        let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
        let field = |id: &str| AskField::question(id, "?", Vec::new());
        ask.fields = vec![field("colour"), AskField { secret: true, ..field("token") }];
        let answer = |field: &str, value: &str| FieldAnswer {
            field: field.to_owned(),
            values: vec![value.to_owned()],
        };
        let answers = [answer("colour", "red"), answer("token", "hunter2")];
        assert_eq!(given(&ask, &answers), "red, (secret)");
    }
}

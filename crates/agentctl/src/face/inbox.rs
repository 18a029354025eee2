//! The words of asks and answers: an ask in one line, the command that answers it, and the sentences for answers that
//! were not taken.

use agentctl_core::ask::{AnswerDocument, AttachmentWay, Fleet};
use agentctl_core::fleet::Query;
use agentctl_core::inbox::{AnswerError, Answerer, AnswererLink};
use agentctl_core::model::{
    Ask, AskChoice, AskField, AskScope, FieldAnswer, ReasonKind, Reply, Session, Status,
};
use agentctl_core::text::shell_word;

use super::{full_name, tmux_pane_of, with_visible_breaks};
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
                let (flag, about) = text_flag(field);
                flags.push((flag.to_owned(), about.to_owned()));
            }
        }
        several => {
            flags.push((numbered_fields(several), "answer all questions".to_owned()));
        }
    }
    for choice in &ask.choices {
        flags.push((choice_flag(choice), choice_text(choice)));
    }
    flags
}

/// Returns the flag that answers a question in words, with its meaning. A secret is read from stdin: other processes
/// see the arguments of a command, and a shell keeps them in its history.
fn text_flag(field: &AskField) -> (&'static str, &'static str) {
    if field.secret {
        ("--text -", "answer with a secret, which is read from stdin")
    } else {
        ("--text TEXT", "answer in your own words")
    }
}

/// Returns the flags that answer several questions. Each is named by its number: a shell would change the text of a
/// question, which is the id of many a field.
fn numbered_fields(fields: &[AskField]) -> String {
    let value = |field: &AskField| if field.secret { STDIN } else { "VALUE" };
    let numbered = (1..).zip(fields);
    let flags = numbered.map(|(number, field)| format!("--field {number}={}", value(field)));
    flags.collect::<Vec<_>>().join(" ")
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
        // No option is preselected.
        Some((flag, _)) => {
            let flag = if flag.starts_with("--option ") { "--option N" } else { flag };
            format!("{shows}; `agentctl answer {id} {flag}` answers it")
        }
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
    if !field.free_text {
        return None;
    }
    let mut keys = Vec::new();
    for (choice, words) in
        [(AskChoice::ALLOW, "`a`"), (AskChoice::DENY, "`d`, `m`"), (AskChoice::STOP, "`x`")]
    {
        if ask.offers(choice) {
            keys.push(words);
        }
    }
    keys.push("`s`");
    let id = ask.short_id();
    let flag = if field.secret { "--text -" } else { "--text s" };
    let keys = keys.join(", ");
    Some(format!(
        "{keys} and `q` are keys here: `agentctl answer {id} {flag}` answers with such a word"
    ))
}

/// Returns the line about an answer that was taken. A line break in a text of the agent is written as `\n`: it would
/// look like a line about another answer.
#[must_use]
pub fn answered_line(document: &AnswerDocument) -> String {
    let ask = &document.ask;
    let (word, values) = match &document.reply {
        Reply::Allow => ("allowed", String::new()),
        Reply::Always(_) => ("always allowed", String::new()),
        Reply::Deny { .. } => ("denied", String::new()),
        Reply::Stop => ("turn ended", String::new()),
        Reply::Fields(fields) => ("answered", format!("  {}", given(fields))),
    };
    let name = full_name(ask.adapter, ask.session_id.as_deref(), ask.pid);
    let moved = match (&document.moved, &document.session) {
        (Some(moved), _) => format!("{name}: {}", moved.says),
        (None, _) => format!("delivered; {name} was not seen to move yet"),
    };
    with_visible_breaks(&format!("{word}  {}{values}  ({moved})", ask.title))
}

/// Returns the values of an answer.
fn given(answers: &[FieldAnswer]) -> String {
    let values = answers.iter().map(|answer| answer.values.join(", "));
    values.collect::<Vec<_>>().join(", ")
}

/// Says why an ask was not answered.
#[must_use]
pub fn not_answered(fleet: &Fleet, text: &str, error: AnswerError) -> Failure {
    match error {
        AnswerError::NotAnId => not_an_ask(fleet, text).unwrap_or_else(|| {
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
        AnswerError::Gone(None, faults) if faults.is_empty() => not_an_ask(fleet, text)
            .unwrap_or_else(|| {
                Failure::new(Kind::NoAsk, format!("no open ask has the id `{text}`"))
                    .hint(no_open_ask_hint(fleet))
            }),
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
            let message = format!("ask {} was not answered: {why}", ask.short_id());
            Failure::new(Kind::Usage, message).hint(offered_hint(&ask))
        }
        AnswerError::Unanswerable(ask) => {
            let failure = unanswerable(&ask);
            match ask.session_id.as_deref().and_then(|id| terminal_hint(fleet, id)) {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        AnswerError::FromAgent(answerer) if is_one_of_its_own(fleet, &answerer) => {
            let what = format!("ask `{text}` was not answered");
            super::below::answer_refused_below(fleet, &answerer, &what)
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
            let failure = Failure::new(Kind::Failed, message).unclear();
            failure.hint("`agentctl asks` shows whether it is still open")
        }
    }
}

/// Returns the hint that names the flags which an ask takes.
#[must_use]
pub fn offered_hint(ask: &Ask) -> String {
    let flags: Vec<String> = answer_flags(ask).into_iter().map(|(flag, _)| flag).collect();
    format!("it takes {}", flags.join(", "))
}

/// Says that an ask cannot be answered from here, and why.
fn unanswerable(ask: &Ask) -> Failure {
    let why = ask.why_not.as_deref().unwrap_or("no channel reaches it");
    let message = format!("ask {} cannot be answered from here: {why}", ask.short_id());
    Failure::new(Kind::Refused, message)
}

/// Says where the terminal of a session is; `None` if it has none.
fn terminal_hint(fleet: &Fleet, id: &str) -> Option<String> {
    let AttachmentWay::Terminal(terminal) = fleet.attachment(id).ok()?.way else { return None };
    match tmux_pane_of(&fleet.host, &terminal.tty) {
        Ok(Some(_)) => Some(format!("`agentctl attach {}` shows its terminal", shell_word(id))),
        _ => {
            let (tty, pid) = (terminal.tty.display(), terminal.pid);
            Some(format!("answer it in its own terminal: {tty} (pid {pid})"))
        }
    }
}

/// Says whether agents may answer others, so that only this ask is refused.
fn is_one_of_its_own(fleet: &Fleet, answerer: &Answerer) -> bool {
    answerer.left_behind.is_empty() && answerer.may_answer_others(fleet)
}

/// Says that a turn was not ended because that would answer the ask of its session.
pub(super) fn turn_refused(fleet: &Fleet, session: &Session, answerer: &Answerer) -> Failure {
    let name = full_name(session.adapter, session.id.as_deref(), session.pid);
    let what = format!("the turn of {name} was not ended: that would answer what it asks");
    if is_one_of_its_own(fleet, answerer) {
        super::below::answer_refused_below(fleet, answerer, &what)
    } else {
        from_agent(answerer).within(&what)
    }
}

/// Says that a process may not answer, because it runs below an agent or cannot be examined.
fn from_agent(answerer: &Answerer) -> Failure {
    let is_linked = !answerer.above.is_empty() || !answerer.left_behind.is_empty();
    let failure = match (is_linked, &answerer.unseen) {
        (true, _) => {
            let message = format!("{}: agents may not answer", link_above(answerer));
            Failure::new(Kind::Refused, message)
        }
        (false, why) => {
            let why = why.as_deref().unwrap_or("its ancestors cannot be seen");
            Failure::new(Kind::Refused, format!("the answering process cannot be examined: {why}"))
        }
    };
    failure.hint("answer in a terminal that no agent has started")
}

/// Says how the answering process is linked to an agent: by the nearest link whose session is known.
pub(super) fn link_above(answerer: &Answerer) -> String {
    let known = answerer.above.iter().find(|above| above.session.is_some());
    let nearest = answerer.left_behind.first().or(known).or(answerer.above.first());
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
        AnswererLink::EndedRunShim => {
            format!("{name} has ended and started this process (below its shim, pid {pid})")
        }
        AnswererLink::Launcher | AnswererLink::EndedLauncher => {
            format!("{name} launched the agent above this process")
        }
        AnswererLink::FuseAction => {
            format!(
                "this process runs below the action of a fuse (pid {pid}), which an agent may have set"
            )
        }
    }
}

/// Says why an ask may not be found: it is settled, or its session is paused and asks nothing until it goes on.
#[must_use]
pub fn no_open_ask_hint(fleet: &Fleet) -> String {
    let mut paused = fleet.list(&Query::default()).sessions;
    paused.retain(is_paused);
    let why = match paused.as_slice() {
        [] => "`agentctl asks` shows what is open now".to_owned(),
        [session] => {
            let name = full_name(session.adapter, session.id.as_deref(), None);
            format!(
                "if it is of {name}, which is paused by a signal, it is shown again once that goes on{}",
                resuming_signal(session)
            )
        }
        _ => "if it is of a session that is paused by a signal (`agentctl list`), it is shown again once that goes on"
            .to_owned(),
    };
    format!("it may be settled already; {why}")
}

/// Says of a session that is paused by a signal that its asks are not known; `None` for any other session.
#[must_use]
pub fn paused_remark(session: &Session) -> Option<String> {
    is_paused(session).then(|| {
        let command = resuming_signal(session);
        format!("is paused by a signal: whether it waits for you is known once it goes on{command}")
    })
}

fn is_paused(session: &Session) -> bool {
    session.reason.as_ref().is_some_and(|reason| reason.kind == ReasonKind::Paused)
}

/// Returns the command that lets a paused session go on, in brackets.
fn resuming_signal(session: &Session) -> String {
    session.pid.map(|pid| format!(" (`kill -CONT {pid}`)")).unwrap_or_default()
}

/// Says that a text names a session instead of an ask.
fn not_an_ask(fleet: &Fleet, text: &str) -> Option<Failure> {
    fleet.target(text).ok()?;
    let failure = Failure::new(Kind::Usage, format!("`{text}` is a session, not an ask"));
    Some(failure.hint(format!("`agentctl asks {}` shows what it asks", shell_word(text))))
}

/// Returns what the session of an ask does now, without its subject: `is running now`.
fn state_now(fleet: &Fleet, ask: &Ask) -> Option<String> {
    let session = fleet.inspect(&ask.target()).session?;
    Some(match session.status {
        Status::Waiting => "is waiting now".to_owned(),
        status => format!("is {} now", status.word()),
    })
}

/// Reads `--option`, `--text` and `--field` into the answer to the questions of an ask.
pub fn field_reply(ask: &Ask, words: &FieldWords) -> Result<Reply, Failure> {
    let usage = |message: String| Failure::new(Kind::Usage, message);
    if ask.via.is_none() {
        return Err(unanswerable(ask));
    }
    if ask.fields.is_empty() {
        let message = format!("ask {} is a {}, not a question", ask.short_id(), ask.kind.word());
        return Err(usage(message).hint(offered_hint(ask)));
    }
    if !words.fields.is_empty() {
        let mut answers: Vec<FieldAnswer> = Vec::new();
        for typed in &words.fields {
            let (field, value) = named_field(ask, typed).ok_or_else(|| {
                // The value may be a secret.
                let name = typed.split_once('=').map_or(typed.as_str(), |(name, _)| name);
                let message = format!("`{name}` names no question of ask {}", ask.short_id());
                usage(message).hint(format!("answer each: {}", numbered_fields(&ask.fields)))
            })?;
            let secret = words.secrets.iter().find(|secret| secret.field == field.id);
            let value = match secret {
                Some(secret) if value == STDIN => secret.values.concat(),
                _ => option_value(ask, field, value)?,
            };
            match answers.iter_mut().find(|answer| answer.field == field.id) {
                Some(answer) => answer.values.push(value),
                None => {
                    answers.push(FieldAnswer { field: field.id.clone(), values: vec![value] });
                }
            }
        }
        return Ok(Reply::Fields(answers));
    }
    let [field] = ask.fields.as_slice() else {
        let message = format!("ask {} has {} questions", ask.short_id(), ask.fields.len());
        return Err(usage(message).hint(format!("answer each: {}", numbered_fields(&ask.fields))));
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
    /// Questions with their values: the number or the id of the field, `=`, and the value.
    pub fields: Vec<String>,
    /// The values of secret fields whose typed value is `-`.
    pub secrets: Vec<FieldAnswer>,
}

/// Stands for stdin in the place of a secret, so that it is in no list of processes and in no history of a shell.
const STDIN: &str = "-";

/// Returns the questions whose secret answers are read from stdin.
#[must_use]
pub fn secrets_of_stdin<'a>(ask: &'a Ask, words: &FieldWords) -> Vec<&'a AskField> {
    let named = words.fields.iter().filter_map(|typed| named_field(ask, typed));
    named.filter(|(field, value)| field.secret && *value == STDIN).map(|(field, _)| field).collect()
}

/// Finds the question that `--field` names, and its value. A number comes first, because hints and pages show numbers.
/// The id of a field may hold `=` itself, so the longest known id decides.
fn named_field<'a, 'b>(ask: &'a Ask, typed: &'b str) -> Option<(&'a AskField, &'b str)> {
    let value_of = |name: &str| typed.strip_prefix(name)?.strip_prefix('=');
    let mut numbered = (1..)
        .zip(&ask.fields)
        .filter_map(|(number, field): (usize, _)| Some((field, value_of(&number.to_string())?)));
    let named = ask.fields.iter().filter_map(|field| Some((field, value_of(&field.id)?)));
    numbered.next().or_else(|| named.min_by_key(|(_, value)| value.len()))
}

fn option_label(ask: &Ask, field: &AskField, number: usize) -> Result<String, Failure> {
    let option = number.checked_sub(1).and_then(|at| field.options.get(at));
    option.map(|option| option.label.clone()).ok_or_else(|| {
        let message = match field.options.len() {
            0 => format!("`{}` has no options", field.text),
            count => format!("`{}` has options 1 to {count}, not {number}", field.text),
        };
        let hint = if field.options.is_empty() {
            format!("answer with {}", text_flag(field).0)
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
        Ok(number) if number > field.options.len() && field.free_text => Ok(value.to_owned()),
        Ok(number) => option_label(ask, field, number),
        Err(_) => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests;

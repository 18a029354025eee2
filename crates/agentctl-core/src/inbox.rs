//! The inbox: everything that waits for a human, and answers to it.
//!
//! An ask is derived at the moment of the question, like a status: there is no table of asks and no record of
//! answers. The process that asked is the arbiter: an answer counts as taken when that process, its server or our
//! asker says so. [`answer`] never marks an ask as answered; it looks again and reports what the agent did.

mod answerer;
mod delivery;
mod handing;

use std::time::{Duration, Instant};

pub use self::answerer::{Answerer, AnswererAbove, AnswererLink, AnswererSession};
use crate::adapters::answering::{Delivered, NotDelivered};
use crate::adapters::asker::AskerOrder;
use crate::adapters::{Look, Root};
use crate::fleet::{self, Fleet, Query, WaitingSession};
use crate::model::{ASK_ID_CHARS, Ask, AskKind, Evidence, Fault, MIN_ASK_PREFIX, Reply, Session};
use crate::state_files::{EnterError, NamedLock};

/// Time for another answer to the same ask to be delivered.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the agent to be seen to move after an answer.
const MOVE_TIMEOUT: Duration = Duration::from_secs(2);

/// An answer that was delivered.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The ask.
    pub ask: Ask,
    /// The behaviour of the agent after the answer; `None` if it was not seen to move.
    pub moved: Option<Evidence>,
    /// The session after the answer, where it was seen.
    pub session: Option<Session>,
    /// The words of a denial could not travel with it.
    pub words_lost: bool,
    /// The sources that failed.
    pub faults: Vec<Fault>,
}

/// Why an ask was not answered.
#[derive(Clone, Debug)]
pub enum AnswerError {
    /// The text is too short, or no id of an ask.
    NotAnId,
    /// No open ask has this id. A source that failed may hide it. The ask is there if it was open at the first look.
    Gone(Option<Box<Ask>>, Vec<Fault>),
    /// The id fits several asks.
    Several(Vec<Ask>),
    /// The ask does not offer this decision; the reason.
    NotOffered(Box<Ask>, String),
    /// It cannot be answered from here.
    Unanswerable(Box<Ask>),
    /// The caller runs below an agent.
    FromAgent(Box<Answerer>),
    /// Another answer to the same ask is being delivered.
    Busy,
    /// Our own lock could not be taken.
    Lock(String),
    /// The agent refused the answer; the ask was settled otherwise or is not open any more.
    Refused(Box<Ask>, String),
    /// It is not known whether the answer arrived.
    Unclear(Box<Ask>, String),
}

/// Says whether a text can be the id of an ask or its beginning, whether that ask is open or not.
#[must_use]
pub fn can_name_an_ask(text: &str) -> bool {
    let is_hex = text.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase());
    (MIN_ASK_PREFIX..=ASK_ID_CHARS).contains(&text.len()) && is_hex
}

/// Finds the one open ask whose id begins with this text.
pub fn find(fleet: &Fleet, text: &str, adapter: Option<&str>) -> Result<OpenAsk, AnswerError> {
    if !can_name_an_ask(text) {
        return Err(AnswerError::NotAnId);
    }
    let query = Query { adapter: adapter.map(str::to_owned), ..Query::default() };
    let found = fleet::asks(fleet, &query);
    choose(found.rows, text, found.faults)
}

/// Chooses the one ask whose id begins with this text: a text that fits several asks names none of them.
fn choose(
    rows: Vec<WaitingSession>,
    text: &str,
    faults: Vec<Fault>,
) -> Result<OpenAsk, AnswerError> {
    let mut fitting = Vec::new();
    for row in rows {
        for ask in row.asks {
            if ask.id.starts_with(text) {
                fitting.push((row.session.clone(), ask));
            }
        }
    }
    match fitting.len() {
        0 => Err(AnswerError::Gone(None, faults)),
        1 => {
            let (session, ask) = fitting.remove(0);
            Ok(OpenAsk { session, ask, faults })
        }
        _ => Err(AnswerError::Several(fitting.into_iter().map(|(_, ask)| ask).collect())),
    }
}

/// An open ask and its session.
#[derive(Clone, Debug)]
pub struct OpenAsk {
    /// The session.
    pub session: Session,
    /// The ask.
    pub ask: Ask,
    /// The sources that failed.
    pub faults: Vec<Fault>,
}

/// Answers one ask, exactly once: the caller is checked, the answers to one ask are put in a row by a lock, the
/// ask is looked at again, the answer is delivered, and the agent is watched until it moves.
pub fn answer(
    fleet: &Fleet,
    text: &str,
    reply: &Reply,
    answerer: &Answerer,
) -> Result<Settled, AnswerError> {
    let named = find(fleet, text, None)?;
    check_answerer(fleet, answerer, &named)?;
    check_offered(&named.ask, reply)?;
    if named.ask.via.is_none() {
        return Err(AnswerError::Unanswerable(Box::new(named.ask)));
    }
    let lock = lock(fleet, &named.ask.id)?;
    // The lock was waited for: another answer may have been taken meanwhile.
    let now = find(fleet, &named.ask.id, Some(named.ask.adapter)).map_err(|error| match error {
        AnswerError::Gone(_, faults) => AnswerError::Gone(Some(Box::new(named.ask)), faults),
        other => other,
    })?;
    if now.ask.via.is_none() {
        return Err(AnswerError::Unanswerable(Box::new(now.ask)));
    }
    check_offered(&now.ask, reply)?;
    let delivered = deliver(fleet, &now, reply)?;
    drop(lock);
    let (mut session, moved) = delivery::watch(fleet, &now, MOVE_TIMEOUT);
    let mut faults = now.faults;
    faults.extend(fleet::add_launches(fleet, session.as_mut_slice()));
    Ok(Settled {
        ask: now.ask,
        moved,
        session,
        words_lost: delivered == Delivered::TakenWithoutWords,
        faults,
    })
}

/// Checks that this process may answer an ask. It comes before everything that an agent could learn about the ask
/// from a refusal.
pub fn check_answerer(
    fleet: &Fleet,
    answerer: &Answerer,
    open: &OpenAsk,
) -> Result<(), AnswerError> {
    if answerer.may_not_answer(fleet, &open.session) {
        return Err(AnswerError::FromAgent(Box::new(answerer.clone())));
    }
    Ok(())
}

/// Checks that the ask offers this decision.
fn check_offered(ask: &Ask, reply: &Reply) -> Result<(), AnswerError> {
    let refused = |why: String| Err(AnswerError::NotOffered(Box::new(ask.clone()), why));
    match reply {
        // An ask that cannot be answered offers nothing; that is the better reason.
        _ if ask.via.is_none() => Ok(()),
        Reply::Fields(answers) => {
            if ask.fields.is_empty() {
                return refused(format!("it is a {}, not a question", ask.kind.word()));
            }
            for answer in answers {
                let Some(field) = ask.fields.iter().find(|field| field.id == answer.field) else {
                    return refused(format!("it has no field `{}`", answer.field));
                };
                if answer.values.iter().all(|value| value.trim().is_empty()) {
                    return refused(format!("the answer to `{}` is empty", field.text));
                }
                if answer.values.len() > 1 && !field.many {
                    return refused(format!("`{}` takes one option", field.text));
                }
                let is_option =
                    |value: &String| field.options.iter().any(|option| option.label == *value);
                if !field.free_text
                    && let Some(value) = answer.values.iter().find(|value| !is_option(value))
                {
                    return refused(format!("`{value}` is no option of `{}`", field.text));
                }
            }
            match ask.fields.iter().find(|f| !answers.iter().any(|a| a.field == f.id)) {
                Some(field) => refused(format!("`{}` has no answer", field.text)),
                None => Ok(()),
            }
        }
        reply => match reply.key() {
            Some(key) if ask.offers(key) => Ok(()),
            _ if ask.kind == AskKind::Question => refused("it is a question".into()),
            Some(key) => refused(format!("it does not offer `{key}`")),
            None => Ok(()),
        },
    }
}

/// Takes the lock of one ask: a second answer looks again only after the first one is delivered.
fn lock(fleet: &Fleet, ask: &str) -> Result<NamedLock, AnswerError> {
    let folder = fleet.host.runtime().join("answers");
    NamedLock::take(&folder, ask, Instant::now() + LOCK_TIMEOUT).map_err(|error| match error {
        EnterError::Busy => AnswerError::Busy,
        EnterError::Io(error) => AnswerError::Lock(error.to_string()),
    })
}

fn deliver(fleet: &Fleet, now: &OpenAsk, reply: &Reply) -> Result<Delivered, AnswerError> {
    let ask = || Box::new(now.ask.clone());
    let adapter = fleet.adapter(now.ask.adapter);
    let Some((adapter, answering)) = adapter.and_then(|a| Some((a, a.answering()?))) else {
        return Err(AnswerError::Unanswerable(ask()));
    };
    let look: Look = fleet::look(fleet, fleet.host.deadlines.live);
    let root = Root::find(&adapter.roots(&look), &now.ask.root);
    let handed = answering.deliver(&look, &root, &now.session, &now.ask, reply);
    let delivered = handed.map_err(|error| match error {
        NotDelivered::Gone => AnswerError::Gone(Some(ask()), Vec::new()),
        NotDelivered::Refused(why) => AnswerError::Refused(ask(), why),
        NotDelivered::NotOffered(why) => AnswerError::NotOffered(ask(), why),
        NotDelivered::Unclear(why) => AnswerError::Unclear(ask(), why),
    })?;
    let handing = handing::Handing { host: &fleet.host, answering, look: &look, now };
    match &delivered {
        Delivered::Line(line) => handing.write(line)?,
        Delivered::ToAsker { asker, socket, ask } => {
            let order = AskerOrder { ask: ask.clone(), reply: reply.clone() };
            handing.give_to_asker(asker, socket, &order)?;
        }
        Delivered::Taken | Delivered::TakenWithoutWords => {}
    }
    Ok(delivered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::blank_session;

    #[test]
    fn a_beginning_that_two_asks_share_names_neither() {
        let waiting = |ids: &[&str]| {
            let session = blank_session("demo", "/home/ada".into());
            let with = |id: &&str| Ask { id: (*id).to_owned(), ..Ask::of(&session) };
            let asks = ids.iter().map(with).collect();
            WaitingSession { session, asks }
        };
        // In one session, and in two.
        for rows in [
            vec![waiting(&["abcdef01", "abcdef02", "12345678"])],
            vec![waiting(&["abcdef01"]), waiting(&["12345678", "abcdef02"])],
        ] {
            let find = |text: &str| choose(rows.clone(), text, Vec::new());
            match find("abcdef") {
                Err(AnswerError::Several(asks)) => {
                    let ids: Vec<&str> = asks.iter().map(|ask| ask.id.as_str()).collect();
                    assert_eq!(ids, ["abcdef01", "abcdef02"]);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(find("abcdef02").expect("one").ask.id, "abcdef02");
            assert!(matches!(find("fedcba"), Err(AnswerError::Gone(None, _))));
        }
    }
}

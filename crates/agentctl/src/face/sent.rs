//! The sentences for messages that were not sent, and for turns that were not ended.

use agentctl_core::ask::{Fleet, MessageWay, NotSent, SendDocument, TurnEndDocument, TurnNotEnded};
use agentctl_core::model::Session;
use agentctl_core::send::SendError;

use super::inbox::turn_refused;
use super::{answer_hint, full_name, session_reason_in_brackets, session_word, unresolved};
use crate::failure::{Failure, Kind};

/// Returns the line about a message that the record of its session holds.
#[must_use]
pub fn sent_line(document: &SendDocument) -> String {
    let how = match document.how {
        MessageWay::TurnBegun => "turn begun",
        MessageWay::Steered => "steered",
    };
    let id = document.session.id.as_deref().unwrap_or_default();
    format!("sent  {id}  ({how})")
}

/// Returns the line about a message that is sent once the turn of its session is over.
#[must_use]
pub fn awaits_turn_line(session: &Session) -> String {
    format!("{} is at work: the message is sent when its turn is over", name(session))
}

/// Returns the line about a turn that was ended.
#[must_use]
pub fn turn_ended_line(document: &TurnEndDocument) -> String {
    let id = document.session.id.as_deref().unwrap_or_default();
    format!("ended the turn of {} {id}", document.session.adapter)
}

/// Says why a message was not sent.
#[must_use]
pub fn not_sent(fleet: &Fleet, text: &str, why: NotSent) -> Failure {
    let error = match why {
        NotSent::NotOne(not_one) => return unresolved(fleet, text, not_one),
        NotSent::Ended => return Failure::new(Kind::Failed, format!("`{text}` has ended")),
        NotSent::Failed(error) => error,
    };
    match error {
        SendError::Ended => Failure::new(Kind::Failed, format!("`{text}` has ended")),
        SendError::EndedMeanwhile(session) => {
            let message = format!(
                "{} has ended while the end of its turn was awaited: nothing was sent",
                name(&session)
            );
            let id = session_word(&session);
            let hint = format!("`agentctl send {id} \"MESSAGE\"` resumes it");
            Failure::new(Kind::Refused, message).hint(hint)
        }
        SendError::TimedOut(session) => {
            let message =
                format!("the turn of {} was not over in time: nothing was sent", name(&session));
            Failure::new(Kind::TimedOut, message)
        }
        SendError::Waiting(session, asks) => {
            let why = session_reason_in_brackets(&session);
            let message =
                format!("{} waits for a human{why}: a message is no answer", name(&session));
            let failure = Failure::new(Kind::Blocked, message);
            match asks.first() {
                Some(ask) => failure.hint(answer_hint(ask)),
                None => failure,
            }
        }
        SendError::Busy(session, why) => {
            let message = format!("{} takes no message now: {why}", name(&session));
            Failure::new(Kind::Refused, message)
                .hint("add --when-idle to wait until its turn is over")
        }
        SendError::Refused { session, why, hint } => {
            let pid = session.pid.map(|pid| format!(" (pid {pid}, {})", session.status.word()));
            let message = format!("{} is live{}: {why}", name(&session), pid.unwrap_or_default());
            let failure = Failure::new(Kind::Refused, message);
            failure.hint(hint.unwrap_or_else(|| {
                let id = session_word(&session);
                format!(
                    "`agentctl stop {id}` first, or `agentctl send --fork {id}` goes on in a copy"
                )
            }))
        }
        SendError::Unknown(session, faults) => {
            let name = session.map_or_else(|| format!("`{text}`"), |session| name(&session));
            let message = format!("the state of {name} is unknown: nothing was sent");
            Failure::new(Kind::Unanswered, message).beside(faults)
        }
        SendError::Io(error) => error.into(),
    }
}

/// Says that an option is for a process that is started, and that the session has one already.
#[must_use]
pub fn only_for_start(session: &Session, option: &str) -> Failure {
    let message = format!(
        "{} is live: {option} counts only for a session that is started; nothing was sent",
        name(session)
    );
    let id = session_word(session);
    let hint = format!("leave it out, or `agentctl stop {id}` first");
    Failure::new(Kind::Refused, message).hint(hint)
}

/// Says why it is not known that a message arrived; `None` if the session's own record holds it.
#[must_use]
pub fn unconfirmed(document: &SendDocument) -> Option<Failure> {
    if document.confirmed {
        return None;
    }
    let seconds = document.watched_ms / 1000;
    let message = match (document.taken, document.how) {
        (true, MessageWay::Steered) => format!(
            "the agent has taken the message, but its record does not hold it after {seconds} s: it may be recorded when the tool or the answer that runs has ended"
        ),
        (true, MessageWay::TurnBegun) => format!(
            "the agent has taken the message, but its record does not hold it after {seconds} s"
        ),
        (false, _) => format!(
            "whether the message arrived is not known: its record does not hold it after {seconds} s"
        ),
    };
    let hint = "it was sent once; look with `agentctl logs` before you send it again";
    Some(Failure::new(Kind::Failed, message).hint(hint).unclear())
}

/// Says why a turn was not ended.
#[must_use]
pub fn turn_not_ended(fleet: &Fleet, text: &str, why: TurnNotEnded) -> Failure {
    match why {
        TurnNotEnded::NotOne(not_one) => unresolved(fleet, text, not_one),
        TurnNotEnded::NoTurn(session) => {
            let message =
                format!("{} is {}: no turn is running", name(&session), session.status.word());
            Failure::new(Kind::Failed, message).hint(no_turn_hint(&session))
        }
        TurnNotEnded::Unknown(session, faults) => {
            let why = session_reason_in_brackets(&session);
            let message =
                format!("whether {} has a running turn is not known{why}", name(&session));
            let hint = format!("`agentctl why {}` shows what is known", session_word(&session));
            Failure::new(Kind::Unanswered, message).hint(hint).beside(faults)
        }
        TurnNotEnded::FromAgent(session, answerer) => turn_refused(fleet, &session, &answerer),
        TurnNotEnded::Refused { session, why, hint } => {
            let message = format!("the turn of {} was not ended: {why}", name(&session));
            let ends = || format!("`agentctl stop {}` ends the session", session_word(&session));
            Failure::new(Kind::Refused, message).hint(hint.unwrap_or_else(ends))
        }
        TurnNotEnded::Unclear(session, why) => {
            let message =
                format!("whether the turn of {} was ended is not known: {why}", name(&session));
            let hint = format!("`agentctl status {}` shows what it does", session_word(&session));
            Failure::new(Kind::Failed, message).unclear().hint(hint)
        }
    }
}

fn no_turn_hint(session: &Session) -> String {
    let id = session_word(session);
    match session.status {
        status if status.is_live() => format!("`agentctl stop {id}` ends its process"),
        _ => format!("`agentctl send {id} \"MESSAGE\"` begins a turn"),
    }
}

fn name(session: &Session) -> String {
    full_name(session.adapter, session.id.as_deref(), session.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_no_record_holds_is_unclear_and_not_refused() {
        let session = serde_json::json!({
            "id": "a", "adapter": "demo", "root": "/r", "foreign_home": false, "native_key": null,
            "status": "idle", "reason": null, "outcome": null, "pid": null, "processes": [],
            "hosted": false, "cwd": null, "model": null, "title": null, "name": null, "prompt": null,
            "started_at": null, "last_activity_at": null, "ended_at": null, "exit": null,
            "ended_by": null, "tokens": null, "cost_usd": null, "group": null, "run": null,
            "parent": null, "notes": [], "evidence": [],
        });
        let document = |confirmed: bool| -> SendDocument {
            let document = serde_json::json!({
                "schema_version": 1, "session": session, "message_id": "m", "how": "steered",
                "taken": false, "confirmed": confirmed, "watched_ms": 5000, "faults": [],
            });
            serde_json::from_value(document).expect("a document")
        };
        assert!(unconfirmed(&document(true)).is_none());
        let failure = unconfirmed(&document(false)).expect("a failure");
        assert!(failure.is_unclear() && failure.message().contains("is not known"), "{failure}");
        let session: Session = document(true).session;
        let why = "its socket was closed".to_owned();
        let fleet = Fleet::new(std::sync::Arc::new(host()), &[]);
        let unclear = TurnNotEnded::Unclear(Box::new(session), why);
        assert!(turn_not_ended(&fleet, "a", unclear).is_unclear());
    }

    fn host() -> agentctl_core::host::Host {
        let kernel = agentctl_core::kernel::Kernel::open().expect("a kernel");
        agentctl_core::host::Host::new("/home/ada", kernel, || {
            agentctl_core::model::Time::from_millis(0).expect("a time")
        })
    }
}

//! The sentences for a name or a group that a session cannot be given.

use agentctl_core::ask::{Fleet, NotNamed, WordRefusal};
use agentctl_core::names::{NamesError, Word};

use super::{session_word, unresolved};
use crate::failure::{Failure, Kind};

/// Says why a session was not given a name or a group.
#[must_use]
pub fn not_named(fleet: &Fleet, text: &str, why: NotNamed) -> Failure {
    match why {
        NotNamed::NotOne(not_one) => unresolved(fleet, text, not_one),
        NotNamed::NoSession { pid } => {
            let pid = pid.map_or_else(|| text.to_owned(), |pid| format!("pid {pid}"));
            Failure::new(Kind::Refused, format!("{pid} has no session yet"))
                .hint("`agentctl list` shows when it has one")
        }
        NotNamed::Refused(why) => refused_word(&why),
        NotNamed::Unwritten(error @ NamesError::Unreadable { .. }) => {
            Failure::new(Kind::Failed, error.to_string())
                .hint("repair the file, or remove it: only names and groups are lost")
        }
        NotNamed::Unwritten(error) => Failure::new(Kind::Failed, error.to_string()),
    }
}

/// Says why a text cannot be a name or a group.
#[must_use]
pub fn refused_word(why: &WordRefusal) -> Failure {
    match why {
        WordRefusal::Malformed { word, text, why } => {
            let word = if *word == Word::Name { "name" } else { "group" };
            Failure::new(Kind::Usage, format!("`{text}` cannot be the {word} of a session: {why}"))
        }
        WordRefusal::BeginsId { text, session } => {
            let id = session.session.as_ref().map(|l| l.id.as_str()).unwrap_or_default();
            let message =
                format!("`{text}` cannot be the name of a session: it begins the id {id}");
            Failure::new(Kind::Usage, message).hint("choose a word that no id begins with")
        }
        WordRefusal::Busy { name } => {
            let message = format!("another command is giving the name `{name}` to a session");
            Failure::new(Kind::Refused, message).hint("try again, or choose another name")
        }
        WordRefusal::Taken { name, session } => {
            let id = session.id.clone().unwrap_or_else(|| "-".to_owned());
            let pid = session.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
            let message =
                format!("the live session {} {id}{pid} is named `{name}`", session.adapter);
            let word = session_word(session);
            Failure::new(Kind::Refused, message)
                .hint(format!("choose another name, or `agentctl name {word} --clear` first"))
        }
    }
}

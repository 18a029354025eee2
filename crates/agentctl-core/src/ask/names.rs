//! The orders `name` and `group`: a person's own words for a session, and the rules for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::launch::{FIRST_RECORD_TIMEOUT, StartedSession};
use super::{Fleet, NotOne, ResolvedTarget};
use crate::fleet::{Query, roots_of};
use crate::model::{
    Fault, FaultCode, InternedName, OWN_SOURCE, SCHEMA_VERSION, Session, Target, is_session_id,
    word,
};
use crate::names::{self, NameIsBusy, NameReservation, NamesError, Subject, Word};
use crate::resolve::{PREFIX_CHARS, begin_with};

/// The answer to `name --json` and `group --json`: the session and the words that it has now.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct NamedSession {
    /// The version of this document.
    pub schema_version: u32,
    /// The agent's own session id.
    pub id: String,
    /// The adapter that found it.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The agent home (or gateway) it was found in.
    pub root: String,
    /// Its name; null where it has none.
    pub name: Option<String>,
    /// Its group; null where it has none.
    pub group: Option<String>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// Why a text cannot be the name or the group of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum WordRefusal {
    /// It does not keep to the rules for names or groups.
    Malformed {
        /// Whether it was to be a name or a group.
        word: Word,
        /// The text.
        text: String,
        /// The rule.
        why: &'static str,
    },
    /// The id of a session begins with it, so it would mean two sessions.
    BeginsId {
        /// The text.
        text: String,
        /// The session.
        session: Box<Target>,
    },
    /// Another process is giving this name to a session.
    Busy {
        /// The name.
        name: String,
    },
    /// A live session has this name.
    Taken {
        /// The name.
        name: String,
        /// The session.
        session: Box<Session>,
    },
}

/// Why a session was not given a word.
#[derive(Debug)]
pub enum NotNamed {
    /// The text names no single session.
    NotOne(NotOne),
    /// The process serves no session yet.
    NoSession {
        /// The process.
        pid: Option<u32>,
    },
    /// The word is refused.
    Refused(WordRefusal),
    /// The file could not be changed.
    Unwritten(NamesError),
}

/// The words that a launch gives to its session.
#[derive(Clone, Debug, Default)]
pub(super) struct LaunchWords {
    pub(super) name: Option<String>,
    pub(super) group: Option<String>,
}

impl Fleet {
    /// Gives a session a name, or clears it. The name is kept over resume, prune and the age of runs.
    pub fn name(&self, text: &str, name: Option<&str>) -> Result<NamedSession, NotNamed> {
        self.give(text, Word::Name, name)
    }

    /// Puts a session into a group, in place of the one it was in; `None` takes it out.
    pub fn group(&self, text: &str, group: Option<&str>) -> Result<NamedSession, NotNamed> {
        self.give(text, Word::Group, group)
    }

    fn give(&self, text: &str, word: Word, value: Option<&str>) -> Result<NamedSession, NotNamed> {
        if let Some(value) = value {
            check_form(word, value).map_err(NotNamed::Refused)?;
        }
        let ResolvedTarget { target, mut faults } = self.target(text).map_err(NotNamed::NotOne)?;
        let subject = Subject::of(&target);
        let subject = subject.ok_or(NotNamed::NoSession { pid: target.pid })?;
        let _reserved = match (word, value) {
            (Word::Name, Some(name)) => {
                let reserved = self.reserve(name).map_err(NotNamed::Refused)?;
                self.check_free(name, Some(&subject)).map_err(NotNamed::Refused)?;
                Some(reserved)
            }
            _ => None,
        };
        names::write(&self.host, &subject, &[(word, value)]).map_err(NotNamed::Unwritten)?;
        let inspected = self.inspect(&target);
        faults.extend(inspected.faults);
        faults.sort();
        faults.dedup();
        let (name, group) = inspected.session.map(|s| (s.name, s.group)).unwrap_or_default();
        let Subject { root, session: id, .. } = subject;
        let (schema_version, adapter) = (SCHEMA_VERSION, target.adapter);
        Ok(NamedSession { schema_version, id, adapter, root, name, group, faults })
    }

    /// Checks the words of a launch before anything is started. The name stays reserved until the result is dropped:
    /// no other launch can be given it before the words of this one are written.
    pub(super) fn check_words(
        &self,
        words: &LaunchWords,
    ) -> Result<Option<NameReservation>, WordRefusal> {
        if let Some(group) = &words.group {
            check_form(Word::Group, group)?;
        }
        let Some(name) = &words.name else { return Ok(None) };
        check_form(Word::Name, name)?;
        let reserved = self.reserve(name)?;
        self.check_free(name, None)?;
        Ok(Some(reserved))
    }

    fn reserve(&self, name: &str) -> Result<NameReservation, WordRefusal> {
        // A launch that has the name may wait for its agent to start and for its first record.
        let limit = self.host.deadlines.launch + FIRST_RECORD_TIMEOUT;
        let busy = |NameIsBusy| WordRefusal::Busy { name: name.to_owned() };
        names::reserve(&self.host, name, limit).map_err(busy)
    }

    /// Writes the words of a launch once its session is known. A launch whose words cannot be written has
    /// succeeded all the same, so the reason becomes a fault of the launch.
    pub(super) fn remember_words(&self, started: &mut StartedSession, words: &LaunchWords) {
        let given = [(Word::Name, words.name.as_deref()), (Word::Group, words.group.as_deref())];
        let given: Vec<_> = given.into_iter().filter(|(_, value)| value.is_some()).collect();
        if given.is_empty() {
            return;
        }
        let why = match self.subject_of(started) {
            Some(subject) => names::write(&self.host, &subject, &given).err(),
            None => return,
        };
        started.launched.faults.extend(why.map(|why| Fault {
            adapter: OWN_SOURCE,
            root: None,
            code: FaultCode::Unreadable,
            message: format!("the session's name and group are kept only with its run: {why}"),
        }));
    }

    /// Returns the session of a launch with its home. If its record is not there yet, the home is the first
    /// that the agent has.
    fn subject_of(&self, started: &StartedSession) -> Option<Subject> {
        if let Some(target) = self.find_started(started) {
            return Subject::of(&target);
        }
        let adapter = started.adapter.name();
        let roots = roots_of(self, adapter, self.host.deadlines.live).rows;
        let (root, session) = (roots.first()?.label(), started.launched.session.clone());
        Some(Subject { adapter: adapter.to_owned(), root, session })
    }

    /// Checks that a name means no other session: neither by an id nor as the name of a live one.
    fn check_free(&self, name: &str, own: Option<&Subject>) -> Result<(), WordRefusal> {
        if name.chars().count() >= PREFIX_CHARS && is_session_id(name) {
            let begun = begin_with(self, name).into_iter().next();
            if let Some(session) = begun.map(Box::new) {
                return Err(WordRefusal::BeginsId { text: name.to_owned(), session });
            }
        }
        let live = self.list(&Query { resting: true, ..Query::default() }).sessions;
        let is_taken = |session: &Session| {
            session.name.as_deref() == Some(name) && Subject::of(&session.target()).as_ref() != own
        };
        match live.into_iter().find(is_taken).map(Box::new) {
            Some(session) => Err(WordRefusal::Taken { name: name.to_owned(), session }),
            None => Ok(()),
        }
    }
}

/// Checks that a text can be the group of a session.
pub fn check_group(group: &str) -> Result<(), WordRefusal> {
    check_form(Word::Group, group)
}

/// Checks the rules that a text must keep to by itself.
fn check_form(word: Word, text: &str) -> Result<(), WordRefusal> {
    let why = names::broken_rule(word, text);
    let malformed = |why| WordRefusal::Malformed { word, text: text.to_owned(), why };
    why.map_or(Ok(()), |why| Err(malformed(why)))
}

//! The person's own words for sessions: a name and a group each, in one file below the state folder.
//!
//! An entry is keyed by adapter, home and session id. Its words win over those of the agent's own record and
//! of the runs folder, also when they say that a session has no name. Without the file only these words are
//! missing: no status, no process and no record depends on it. A file that cannot be read is a fault and is
//! never overwritten.

mod branch_groups;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use self::branch_groups::{BranchGroups, DEFAULT_BRANCH_PREFIX, SETTINGS, split_group};
use crate::host::Host;
use crate::model::{Fault, Session, Target, Time};
use crate::native::file::{self, Skip, Stamp};
use crate::native::private;
use crate::state_files::{EnterError, Folder, fnv, open_mutex, take};
use crate::text::is_harmful;

/// Longest name or group, in characters.
pub const MAX_WORD_CHARS: usize = 64;
/// Number of sessions that the file holds. A further one replaces the entry that was changed longest ago.
const MAX_ENTRIES: usize = 5_000;
/// Largest file that is read or written.
const MAX_BYTES: u64 = 4 << 20;
/// The format of the file.
const VERSION: u32 = 1;

/// The session that words belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The adapter.
    pub adapter: String,
    /// The home, as the session shows it.
    pub root: String,
    /// The agent's own session id.
    pub session: String,
}

impl Subject {
    /// Returns the subject of a target; `None` for a process without a session.
    #[must_use]
    pub fn of(target: &Target) -> Option<Self> {
        let session = target.session.as_ref()?.id.clone();
        Some(Self { adapter: target.adapter.to_owned(), root: target.root.clone(), session })
    }

    fn is(&self, session: &Session) -> bool {
        self.adapter == session.adapter && self.root == session.root
    }
}

/// One of the two words of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Its name.
    Name,
    /// Its group.
    Group,
}

/// The words of one session. `None`: the person has said nothing. An empty text: the person has cleared it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    subject: Subject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    at: Time,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct NamesFile {
    version: u32,
    sessions: Vec<Entry>,
}

/// Why a word was not written.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    /// The file is there and cannot be read. It is left as it is.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// Another process held the lock of the file until the timeout, or it could not be written.
    #[error("{path} cannot be written: {source}")]
    Unwritten {
        /// The file.
        path: String,
        /// Why.
        source: EnterError,
    },
}

/// The words of all sessions, as the file held them when it was last read.
#[derive(Debug, Default)]
pub struct Names {
    by_session: HashMap<String, Vec<Entry>>,
    /// The file that was read.
    stamp: Option<Stamp>,
    /// Why the file could not be read.
    fault: Option<Fault>,
}

impl Names {
    /// Reads the file.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let mut names = Self::default();
        names.read(host);
        names
    }

    /// Reads the file again if it was replaced; says whether it was.
    pub fn read(&mut self, host: &Host) -> bool {
        let place = Place::of(host);
        let stamp = Stamp::now(&place.path);
        let is_same = stamp == self.stamp;
        if stamp.is_some() && is_same && self.fault.is_none() {
            return false;
        }
        *self = Self { stamp, ..Self::default() };
        match place.read() {
            Ok(entries) => {
                for entry in entries {
                    let id = entry.subject.session.clone();
                    self.by_session.entry(id).or_default().push(entry);
                }
            }
            Err(why) => self.fault = Some(place.folder.fault(&place.path, &why)),
        }
        !is_same
    }

    /// Returns the fault of a file that could not be read.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Says whether there is no word about any session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_session.is_empty()
    }

    /// Says whether there may be words about the session of this id.
    #[must_use]
    pub fn has(&self, session: &str) -> bool {
        self.by_session.contains_key(session)
    }

    /// Puts the words of a session in the place of those that other sources have.
    pub fn add(&self, session: &mut Session) {
        let Some(id) = session.id.as_deref() else { return };
        let entries = self.by_session.get(id).map(Vec::as_slice).unwrap_or_default();
        let Some(entry) = entries.iter().find(|entry| entry.subject.is(session)) else { return };
        let said = |word: &String| Some(word.clone()).filter(|word| !word.is_empty());
        if let Some(name) = &entry.name {
            session.name = said(name);
        }
        if let Some(group) = &entry.group {
            session.group = said(group);
        }
    }

    /// Returns the word that a person gave to a session; an empty text if the person cleared it.
    #[must_use]
    pub fn word_of(&self, word: Word, adapter: &str, session: &str) -> Option<&str> {
        let entries = self.by_session.get(session)?;
        let entry = entries.iter().find(|entry| entry.subject.adapter == adapter)?;
        match word {
            Word::Name => entry.name.as_deref(),
            Word::Group => entry.group.as_deref(),
        }
    }

    /// Returns all names.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.by_session.values().flatten().filter_map(|entry| entry.name.as_deref())
    }

    /// Returns all groups; a group of several sessions is there several times.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let groups = self.by_session.values().flatten().filter_map(|entry| entry.group.as_deref());
        groups.filter(|group| !group.is_empty())
    }

    /// Returns the sessions of this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Subject> {
        let entries = self.by_session.values().flatten();
        entries.filter(move |e| e.name.as_deref() == Some(name)).map(|entry| &entry.subject)
    }
}

/// A name that one process may check and give at a time; free again when the value is dropped.
pub(crate) struct NameReservation(#[expect(dead_code, reason = "held for its lock")] Option<File>);

/// Reserves a name, waiting at most this long: of two launches under one name at the same moment, the second sees
/// the session of the first. Names share a fixed number of lock files. Without a writable state folder there is no
/// lock, and writing the name reports the error.
pub(crate) fn reserve(
    host: &Host,
    name: &str,
    limit: Duration,
) -> Result<NameReservation, NameIsBusy> {
    const LOCK_FILES: u64 = 256;
    let number = fnv(name.as_bytes()) % LOCK_FILES;
    let folder = Place::of(host).folder;
    let path = folder.path().join(format!(".name-{number:03}.mutex"));
    let opened = private::directory(folder.path()).and_then(|()| open_mutex(&path));
    let Ok(file) = opened else { return Ok(NameReservation(None)) };
    match take(file, Instant::now() + limit) {
        Ok(file) => Ok(NameReservation(Some(file))),
        Err(EnterError::Busy) => Err(NameIsBusy),
        Err(EnterError::Io(_)) => Ok(NameReservation(None)),
    }
}

/// Another process had reserved the name until the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameIsBusy;

/// Writes words of a session, each with its value; `None` clears it. Other words stay as they are.
pub fn write(
    host: &Host,
    subject: &Subject,
    words: &[(Word, Option<&str>)],
) -> Result<(), NamesError> {
    change(host, |sessions| {
        let before = sessions.iter().position(|entry| entry.subject == *subject);
        let mut entry = match before {
            Some(at) => sessions.remove(at),
            None => Entry { subject: subject.clone(), name: None, group: None, at: host.now() },
        };
        entry.at = host.now();
        for (word, value) in words {
            let value = Some(value.unwrap_or_default().to_owned());
            match word {
                Word::Name => entry.name = value,
                Word::Group => entry.group = value,
            }
        }
        // The newest entry is the last one.
        sessions.push(entry);
        let surplus = sessions.len().saturating_sub(MAX_ENTRIES);
        sessions.drain(..surplus);
    })
}

/// Removes all words of sessions whose records are gone. A session that still has a record would get the name of its
/// run or of its agent back: its words are cleared with [`write()`] instead.
pub fn forget(host: &Host, subjects: &[Subject]) -> Result<(), NamesError> {
    change(host, |sessions| sessions.retain(|entry| !subjects.contains(&entry.subject)))
}

/// Reads the file, changes its entries and replaces it, under the lock of its folder.
fn change(host: &Host, edit: impl FnOnce(&mut Vec<Entry>)) -> Result<(), NamesError> {
    let place = Place::of(host);
    let path = place.path.to_string_lossy().into_owned();
    let unwritten = |source| NamesError::Unwritten { path: path.clone(), source };
    let entered = place.folder.enter().map_err(unwritten)?;
    let mut sessions =
        place.read().map_err(|why| NamesError::Unreadable { path: path.clone(), why })?;
    edit(&mut sessions);
    let mut file = NamesFile { version: VERSION, sessions };
    file.shrink(MAX_BYTES).map_err(|error| unwritten(error.into()))?;
    place.folder.put(&entered, &place.path, &file).map_err(unwritten)
}

impl NamesFile {
    /// Removes the oldest entries until the file is not longer than this.
    fn shrink(&mut self, most: u64) -> io::Result<()> {
        loop {
            let bytes = serde_json::to_vec_pretty(self)?.len() as u64;
            if bytes < most || self.sessions.len() <= 1 {
                return Ok(());
            }
            self.sessions.drain(..self.sessions.len().div_ceil(8));
        }
    }
}

/// The folder and the file.
struct Place {
    folder: Folder,
    path: PathBuf,
    uid: u32,
}

impl Place {
    fn of(host: &Host) -> Self {
        let folder = Folder::of(host, "names", "list of names");
        let path = folder.path().join("names.json");
        Self { folder, path, uid: host.kernel.uid() }
    }

    /// Reads the entries; a missing file has none.
    fn read(&self) -> Result<Vec<Entry>, String> {
        let bytes = match file::read_small(&self.path, self.uid, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(Skip::Missing) => return Ok(Vec::new()),
            Err(skip) => return Err(skip.to_string()),
        };
        let file: NamesFile = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        if file.version != VERSION {
            return Err(format!("its version is {}, not {VERSION}", file.version));
        }
        Ok(file.sessions)
    }
}

/// Returns the rule that a text breaks which is to be the name or the group of a session.
#[must_use]
pub fn broken_rule(word: Word, text: &str) -> Option<&'static str> {
    let of_names = || broken_rule_of_names(text).filter(|_| word == Word::Name);
    broken_rule_of_words(text).or_else(of_names)
}

/// Says whether a text can be a name and nothing else that a person may type for a session: no pid, no path, no
/// home. A name that an agent gave to itself counts only then.
#[must_use]
pub fn can_be_typed(name: &str) -> bool {
    broken_rule_of_names(name).is_none()
}

fn broken_rule_of_words(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        return Some("it is empty");
    }
    if text.trim() != text {
        return Some("it begins or ends with a space");
    }
    if text.chars().any(|c| c.is_control() || is_harmful(c)) {
        return Some("it has characters that cannot be shown on one line");
    }
    (text.chars().count() > MAX_WORD_CHARS).then_some("it is longer than 64 characters")
}

/// A name must not look like another way to write a session: a pid, a path, `@last`, `ID@HOME`,
/// `adapter:id`, a flag.
fn broken_rule_of_names(text: &str) -> Option<&'static str> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Some("it has only digits, which mean a pid");
    }
    if text.starts_with(['.', '~']) || text.contains('/') {
        return Some("it looks like a path");
    }
    if text.contains('@') {
        return Some("an `@` is kept for words like @last and for ID@HOME");
    }
    if text.starts_with('-') {
        return Some("it begins like a flag");
    }
    text.contains(':').then_some("a `:` is kept for adapter:id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_to_the_rules() {
        let name = |text: &str| broken_rule(Word::Name, text).is_none();
        let group = |text: &str| broken_rule(Word::Group, text).is_none();
        for text in ["painter", "two words", "a", "1a", "v1.2", "größe"] {
            assert!(name(text) && group(text), "{text}");
        }
        for text in ["123", "/x", ".", "~x", "@last", "demo:x", "-x", "a/b", "x@y", "x@/home"] {
            assert!(!name(text) && group(text), "{text}");
        }
        let long = "x".repeat(MAX_WORD_CHARS + 1);
        for text in ["", " ", "a\nb", "a\u{1b}[1m", "a\u{202e}b", " a", "a ", &long] {
            assert!(!name(text) && !group(text), "{text:?}");
        }
    }
}

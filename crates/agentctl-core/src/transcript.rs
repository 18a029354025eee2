//! Reads a conversation: the last messages, then appended ones, in one shape for every agent.
//!
//! Only complete lines are read, each once: a follower keeps the offset behind the last line and waits for
//! file events in between. A conversation on a server is fetched as a whole each time, and the lines that
//! were shown are remembered by digest.

mod page;
mod summary;

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

pub use self::page::{Beyond, Earlier, Limit, Page, PageBefore, Selection};
use crate::adapters::{Adapter, Conversation, Found};
use crate::fleet::{Fleet, each_adapter, limited, written};
use crate::model::{Message, Role, Target, Tokens};
use crate::native::watch::Watch;
use crate::native::{file, jsonl};

pub use self::summary::Summary;

/// Most bytes of a file that are searched for the last messages.
const MAX_SEARCH_BYTES: u64 = 64 << 20;
/// Bytes read at once from the end; the last messages need little more.
const BACK_CHUNK: usize = 16 << 10;

/// Why a conversation cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The agent has written none yet.
    #[error("it has not written a conversation yet")]
    Unwritten,
    /// A server or database keeps it, so there is no file to watch.
    #[error("a server keeps it")]
    Asked,
    /// It may be in a source that failed.
    #[error("its conversation may be in a place that could not be read: {0}")]
    Hidden(String),
    /// The file cannot be read.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
}

/// Takes a line with its place, an offset in the file or a number; says whether an older line is wanted.
type BackVisitor<'a> = &'a mut dyn FnMut(&'static dyn Adapter, u64, &[u8]) -> bool;

/// The storage of a conversation.
enum Storage {
    /// A file, and the offset behind the last line that was read.
    File { path: PathBuf, end: u64 },
    /// A server or a database: its last answer, the digests of the lines that were shown, and the paths
    /// whose change announces new lines.
    Server {
        target: Box<Target>,
        asked: Option<Conversation>,
        shown: HashSet<u64>,
        places: Vec<PathBuf>,
    },
}

/// A position in one conversation.
pub struct Transcript {
    adapter: &'static dyn Adapter,
    /// The fleet with this adapter only.
    fleet: Fleet,
    storage: Storage,
    /// The usage given so far, by message id.
    counted: HashMap<String, Tokens>,
}

/// A conversation that was found.
enum Location {
    File(PathBuf),
    Server(Conversation, Vec<PathBuf>),
}

impl Transcript {
    /// Opens the conversation of a session.
    pub fn open(fleet: &Fleet, target: &Target) -> Result<Self, TranscriptError> {
        let fleet = fleet.only(target.adapter).ok_or(TranscriptError::Unwritten)?;
        let found = look_for(&fleet, target);
        let hidden = found.faults.first().map(|f| f.message.clone());
        let location = found.rows.into_iter().next().ok_or(match hidden {
            Some(why) => TranscriptError::Hidden(why),
            None => TranscriptError::Unwritten,
        })?;
        let adapter = fleet.adapter(target.adapter).ok_or(TranscriptError::Unwritten)?;
        let storage = match location {
            Location::File(path) => Storage::File { path, end: 0 },
            Location::Server(conversation, places) => Storage::Server {
                target: Box::new(target.clone()),
                asked: Some(conversation),
                shown: HashSet::new(),
                places,
            },
        };
        Ok(Self { adapter, fleet, storage, counted: HashMap::new() })
    }

    /// Returns the file; `None` if a server or database stores it.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.storage {
            Storage::File { path, .. } => Some(path),
            Storage::Server { .. } => None,
        }
    }

    /// Returns the last `count` messages and moves to the end.
    pub fn last(&mut self, count: usize) -> Result<Vec<Message>, TranscriptError> {
        Ok(self.page(&Selection::last(count))?.messages)
    }

    /// Returns the messages appended since the last call.
    pub fn more(&mut self) -> Result<Vec<Message>, TranscriptError> {
        let mut messages = Vec::new();
        self.forward(&mut |adapter, line| messages.extend(adapter.messages(line)))?;
        Ok(self.settle(messages))
    }

    /// Returns the last `count` native lines as they are and moves to the end.
    pub fn last_raw(&mut self, count: usize) -> Result<Vec<Vec<u8>>, TranscriptError> {
        let mut lines = Vec::new();
        self.back(None, &mut |_, _, line| {
            lines.push(line.to_vec());
            lines.len() < count
        })?;
        lines.truncate(count);
        lines.reverse();
        Ok(lines)
    }

    /// Returns the native lines appended since the last call.
    pub fn more_raw(&mut self) -> Result<Vec<Vec<u8>>, TranscriptError> {
        let mut lines = Vec::new();
        self.forward(&mut |_, line| lines.push(line.to_vec()))?;
        Ok(lines)
    }

    /// Visits every native line from the beginning on; returns the number of lines that are too long to read.
    pub fn each_line(
        &mut self,
        visit: &mut dyn FnMut(&'static dyn Adapter, &[u8]),
    ) -> Result<u64, TranscriptError> {
        if let Storage::File { end, .. } = &mut self.storage {
            *end = 0;
        }
        self.forward(visit)
    }

    /// Starts a watch for appended lines; fails with `Asked` if no path announces them.
    pub fn watch(&self) -> Result<Watch, TranscriptError> {
        watch_all(std::slice::from_ref(self))
    }

    /// Returns the directories whose changes announce new lines; none if nothing announces them.
    fn watched_directories(&self) -> Vec<&Path> {
        match &self.storage {
            Storage::File { path, .. } => path.parent().into_iter().collect(),
            Storage::Server { places, .. } => places.iter().filter_map(|p| p.parent()).collect(),
        }
    }

    /// Says whether the file is shorter than the part that was read: it was written anew, and a reader begins again.
    #[must_use]
    pub fn was_rewritten(&self) -> bool {
        match &self.storage {
            Storage::File { path, end } => std::fs::metadata(path).is_ok_and(|m| m.len() < *end),
            Storage::Server { .. } => false,
        }
    }

    /// Visits lines, the newest first, until the visitor stops; says whether all lines were visited. Each line comes
    /// with its place, an offset in the file or a number; only lines before the given place are visited.
    fn back(
        &mut self,
        before: Option<u64>,
        visit: BackVisitor<'_>,
    ) -> Result<bool, TranscriptError> {
        let (adapter, uid) = (self.adapter, self.fleet.host.kernel.uid());
        let (path, place) = match &mut self.storage {
            Storage::File { path, end } => (path, end),
            Storage::Server { target, asked, shown, .. } => {
                let conversation = fetch_conversation(&self.fleet, target, asked)?;
                shown.extend(conversation.lines.iter().map(|line| digest(line)));
                let newest = conversation.unfinished.iter().chain(conversation.lines.iter().rev());
                let places = (0..=conversation.lines.len() as u64).rev();
                let places = places.skip(usize::from(conversation.unfinished.is_none()));
                let mut numbered = newest.zip(places);
                let is_before = |place: u64| before.is_none_or(|before| place < before);
                return Ok(numbered.all(|(line, at)| !is_before(at) || visit(adapter, at, line)));
            }
        };
        let opened = file::open(path, uid).map_err(|e| unreadable(path, &e))?;
        let mut end = None;
        let size = before.map_or(opened.size, |before| before.min(opened.size));
        let read =
            jsonl::tail_from(&opened.file, size, BACK_CHUNK, MAX_SEARCH_BYTES, &mut |at, line| {
                end.get_or_insert(at + line.len() as u64 + 1);
                if visit(adapter, at, line) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        *place = end.unwrap_or(0);
        let read = read.map_err(|e| unreadable(path, &e))?;
        Ok(matches!(read, jsonl::ReadEnd::Whole))
    }

    /// Visits the lines behind the offset; returns the number of lines that are too long to read.
    fn forward(
        &mut self,
        visit: &mut dyn FnMut(&'static dyn Adapter, &[u8]),
    ) -> Result<u64, TranscriptError> {
        let (adapter, uid) = (self.adapter, self.fleet.host.kernel.uid());
        let (path, end) = match &mut self.storage {
            Storage::File { path, end } => (path, end),
            Storage::Server { target, asked, shown, .. } => {
                // An unfinished message is shown once it is complete.
                for line in fetch_conversation(&self.fleet, target, asked)?.lines {
                    if shown.insert(digest(&line)) {
                        visit(adapter, &line);
                    }
                }
                return Ok(0);
            }
        };
        let opened = file::open(path, uid).map_err(|e| unreadable(path, &e))?;
        if opened.size < *end {
            // The file was rewritten, so all its lines are new.
            *end = 0;
        }
        let pass = jsonl::lines(&opened.file, *end, &mut |line| visit(adapter, line));
        let pass = pass.map_err(|e| unreadable(path, &e))?;
        *end = pass.end;
        Ok(pass.oversized)
    }

    /// Moves a usage line without text to the message before it, and thinking to the message after it. A
    /// further line of the same message id keeps only the increase of its usage, so that the usage of all
    /// lines adds up.
    fn settle(&mut self, messages: Vec<Message>) -> Vec<Message> {
        let mut settled: Vec<Message> = Vec::with_capacity(messages.len());
        for mut message in with_thinking(messages) {
            if is_bare_usage(&message) {
                let before = settled.iter_mut().rev().find(|m| m.role == Role::Assistant);
                if let Some(before) = before.filter(|m| m.usage.is_none()) {
                    before.usage = message.usage;
                }
                continue;
            }
            if let (Some(usage), Some(id)) = (message.usage, &message.id) {
                if let Some(given) = self.counted.get_mut(id) {
                    let growth = usage.growth_since(*given);
                    *given = given.largest(usage);
                    message.usage = (growth != Tokens::default()).then_some(growth);
                } else {
                    self.counted.insert(id.clone(), usage);
                }
            }
            settled.push(message);
        }
        settled
    }
}

/// Starts one watch for the appended lines of several conversations; fails with `Asked` if no path announces
/// those of one of them.
pub fn watch_all<'a>(
    transcripts: impl IntoIterator<Item = &'a Transcript>,
) -> Result<Watch, TranscriptError> {
    let mut places: Vec<&Path> = Vec::new();
    for transcript in transcripts {
        let directories = transcript.watched_directories();
        if directories.is_empty() {
            return Err(TranscriptError::Asked);
        }
        places.extend(directories);
    }
    places.sort_unstable();
    places.dedup();
    let first = places.first().copied().ok_or(TranscriptError::Asked)?;
    Watch::directories(places.iter().copied()).map_err(|e| unreadable(first, &e))
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> TranscriptError {
    TranscriptError::Unreadable { path: path.display().to_string(), why: why.to_string() }
}

/// Finds where a conversation is stored.
fn look_for(fleet: &Fleet, target: &Target) -> Found<Location> {
    let wanted = target.clone();
    each_adapter(fleet, fleet.host.deadlines.all, move |adapter, look| {
        let mut found = Found::default();
        if let (true, Some(locator)) = (adapter.name() == wanted.adapter, &wanted.session) {
            for root in adapter.roots(look).iter().filter(|r| r.label() == wanted.root) {
                let _limit = limited(root);
                let store = adapter.store(look, root);
                match store.conversation(locator) {
                    Some(Ok(conversation)) => {
                        let places = store.watched(locator);
                        found.rows.push(Location::Server(conversation, places));
                    }
                    Some(Err(fault)) => found.faults.push(fault),
                    None => {
                        let location = written(store.as_ref(), locator);
                        let paths = location.rows.into_iter().filter_map(|l| l.path);
                        found.rows.extend(paths.map(Location::File));
                        found.faults.extend(location.faults);
                    }
                }
            }
        }
        found
    })
}

/// Returns the conversation from a server: the answer that was just fetched, or a new one.
fn fetch_conversation(
    fleet: &Fleet,
    target: &Target,
    asked: &mut Option<Conversation>,
) -> Result<Conversation, TranscriptError> {
    if let Some(conversation) = asked.take() {
        return Ok(conversation);
    }
    let found = look_for(fleet, target);
    let why = found.faults.first().map(|f| f.message.clone());
    match found.rows.into_iter().next() {
        Some(Location::Server(conversation, _)) => Ok(conversation),
        _ => Err(TranscriptError::Hidden(why.unwrap_or_else(|| "it is no longer there".into()))),
    }
}

fn digest(line: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    line.hash(&mut hasher);
    hasher.finish()
}

/// Joins thinking that is a line of its own with the assistant's message that follows it.
fn with_thinking(messages: Vec<Message>) -> Vec<Message> {
    let mut joined: Vec<Message> = Vec::with_capacity(messages.len());
    for mut message in messages {
        let belongs = |before: &mut Message| {
            let is_counted_apart = before.usage.is_some() && before.id != message.id;
            before.is_only_thinking() && !is_counted_apart
        };
        if message.role == Role::Assistant
            && !is_bare_usage(&message)
            && let Some(before) = joined.pop_if(belongs)
        {
            let texts = [before.thinking, message.thinking.take()];
            let texts: Vec<String> = texts.into_iter().flatten().collect();
            message.thinking = Some(texts.join("\n"));
            message.usage = message.usage.or(before.usage);
        }
        joined.push(message);
    }
    joined
}

fn is_bare_usage(message: &Message) -> bool {
    message.usage.is_some() && message.is_empty()
}

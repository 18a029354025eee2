//! The types that all rooms share: sessions, statuses, evidence, faults, messages.
//!
//! These types *are* the JSON contract (`docs/schema/` is generated from them), so a field is added with
//! care and never renamed. Nothing here reads or decides anything.

mod ask;
mod callback;
mod fault;
mod file_changes;
mod file_edit;
mod identity;
mod message;
mod process;
mod session;
mod shell_line;
mod status;
mod time;
mod tool_call;
mod wanted_edits;

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::ask::{
    ASK_ID_CHARS, Ask, AskChannel, AskChoice, AskField, AskKind, AskOption, AskPart, AskScope,
    FieldAnswer, MAX_PART_BYTES, MAX_RULE_BYTES, MIN_ASK_PREFIX, Reply,
};
pub use self::callback::{Callback, MAX_CALLBACK_BYTES};
pub use self::fault::{Fault, FaultCode, HomeScope, Reach};
pub use self::file_changes::{ChangeKind, ChangeTold, ChangedBy, FileChanges, FileNow, FilePatch};
pub use self::file_edit::{FileEdit, Hunk};
pub(crate) use self::identity::{digest, identity};
pub use self::message::{Image, Message, Role, ToolResult};
pub use self::process::{Exit, Join, ProcId, ServingProcess};
pub use self::session::{EndedBy, EndedByKind, Evidence, LaunchedBy, Session, Tokens};
pub use self::shell_line::shell_line;
pub use self::status::{Outcome, Reason, ReasonKind, Status};
pub use self::time::Time;
pub use self::tool_call::{Task, TaskState, ToolCall, is_patch};

/// The version written into every JSON document we emit.
pub const SCHEMA_VERSION: u32 = 1;

/// The `adapter` in faults of this program's own files and of the process table.
pub const OWN_SOURCE: &str = "agentctl";

/// The answer to `list`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Listing {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The sessions that were found.
    pub sessions: Vec<Session>,
    /// The sources that failed.
    pub faults: Vec<Fault>,
}

/// An adapter name: one of a small fixed set of strings.
pub type InternedName = &'static str;

/// Interns an adapter name as `&'static str`.
pub(crate) fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    interned(text).map_err(serde::de::Error::custom)
}

/// Interns a name as `&'static str`. Leaks each distinct string once; the number of strings is limited.
fn interned(text: Cow<'_, str>) -> Result<InternedName, &'static str> {
    use std::sync::{Mutex, PoisonError};
    static WORDS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    const MAX_NAMES: usize = 256;
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.iter().find(|known| **known == text) {
        return Ok(known);
    }
    if words.len() >= MAX_NAMES {
        return Err("too many different words");
    }
    let kept: &'static str = Box::leak(text.into_owned().into_boxed_str());
    words.push(kept);
    Ok(kept)
}

/// Interns an optional adapter name.
pub(crate) fn maybe_word<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<InternedName>, D::Error> {
    #[derive(Deserialize)]
    struct Held(#[serde(deserialize_with = "word")] InternedName);
    Ok(Option::<Held>::deserialize(from)?.map(|held| held.0))
}

/// The place of a session's record. Created by listing a store, never from an id that was typed.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub struct Locator {
    /// The session id.
    pub id: String,
    /// The file of the record, if there is one.
    pub path: Option<PathBuf>,
    /// The parent session, for a subagent.
    pub parent: Option<String>,
}

/// One session, or one live process without a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Target {
    /// Its adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// Its home.
    pub root: String,
    /// Its record; `None` for a process without a session.
    pub session: Option<Locator>,
    /// The pid, if the user typed one.
    pub pid: Option<u32>,
}

/// Says whether a text has the form of a session id.
#[must_use]
pub fn is_session_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=128).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Shortens a text to at most `most` characters on one line.
#[must_use]
pub fn shorten(text: &str, most: usize) -> String {
    // Most texts are short and on one line already.
    let plain = |b: &u8| matches!(b, b'!'..=b'~');
    if text.len() <= most
        && text
            .as_bytes()
            .split(|b| *b == b' ')
            .all(|word| !word.is_empty() && word.iter().all(plain))
    {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len().min(most * 4));
    let mut blank = false;
    for (count, c) in text.trim().chars().enumerate() {
        if count >= most {
            out.push('…');
            break;
        }
        if c.is_whitespace() {
            if !blank {
                out.push(' ');
            }
            blank = true;
        } else {
            out.push(c);
            blank = false;
        }
    }
    out
}

//! The changed files and shell commands that a native line records. The room `changes` adds them up.

mod apply_patch;
mod lines;

pub(crate) use self::apply_patch::patched;
pub use self::lines::{LineHunk, applied, counted, difference, hunks_of_unified};
use crate::model::{ChangeTold, ChangedBy, Time};

/// How much the records of an agent hold about changed files, for `agentctl adapters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesTold {
    /// The changed lines of its tools.
    Hunks,
    /// The arguments of its tools.
    Arguments,
    /// Nothing, for this reason.
    Nothing(&'static str),
}

/// One statement of a native line.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeNote {
    /// A shell command was called.
    Command {
        /// The id of the call.
        call: String,
    },
    /// A tool that changes files was called. Its arguments count if its result tells nothing better.
    Called {
        /// The id of the call.
        call: String,
        /// The changes that it asks for.
        edits: Vec<RecordedEdit>,
    },
    /// A call ended, or a further record tells what it changed.
    Ended {
        /// The id of the call.
        call: String,
        /// How it ended.
        end: CallEnd,
        /// The changes that the record tells.
        edits: Vec<RecordedEdit>,
    },
    /// A turn begins, and its record tells the difference between its first and its last moment.
    Turn {
        /// The id of its prompt.
        id: String,
        /// One difference for each file.
        net: Vec<RecordedEdit>,
    },
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It was carried out.
    Done,
    /// It failed: a file tool changed nothing, a shell command may have changed anything.
    Failed,
    /// It was refused and never ran.
    Refused,
}

/// The content that a record gives for a file before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind {
    /// The file was created.
    Added,
    /// The file was there and is there.
    Changed,
    /// The file was deleted.
    Deleted,
    /// The file is there; whether it was there before is not recorded.
    Written,
}

/// How a record describes a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditBody {
    /// The changed places.
    Hunks(Vec<LineHunk>),
    /// The whole new content.
    Content(String),
    /// Texts that were replaced, without their places.
    Replaced(Vec<Replacement>),
    /// Nothing.
    Path,
    /// A later difference of the same turn contains it.
    InTurn,
}

/// A text and the text in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The text before.
    pub old: String,
    /// The text after.
    pub new: String,
    /// Every occurrence was replaced.
    pub everywhere: bool,
}

/// One change of one file, as a record tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEdit {
    /// The file, as the agent named it.
    pub path: String,
    /// Its path before, if it was moved.
    pub from: Option<String>,
    /// Whether it was there before and after.
    pub kind: EditKind,
    /// The means.
    pub by: ChangedBy,
    /// The change.
    pub body: EditBody,
    /// How much of the change is recorded.
    pub told: ChangeTold,
    /// The whole content before, where it is recorded.
    pub before: Option<String>,
    /// When it was recorded.
    pub at: Option<Time>,
}

impl RecordedEdit {
    /// Makes a change of which only the path is known.
    #[must_use]
    pub fn of(path: impl Into<String>, kind: EditKind, by: ChangedBy) -> Self {
        Self {
            path: path.into(),
            from: None,
            kind,
            by,
            body: EditBody::Path,
            told: ChangeTold::Path,
            before: None,
            at: None,
        }
    }

    /// Adds the changed places. Places that are not well-formed leave only the path.
    #[must_use]
    pub fn with_hunks(mut self, hunks: Option<Vec<LineHunk>>) -> Self {
        if let Some(hunks) = hunks {
            (self.body, self.told) = (EditBody::Hunks(hunks), ChangeTold::Hunks);
        }
        self
    }

    /// Adds the whole content.
    #[must_use]
    pub fn with_content(mut self, content: String, told: ChangeTold) -> Self {
        (self.body, self.told) = (EditBody::Content(content), told);
        self
    }

    /// Adds the texts that were replaced.
    #[must_use]
    pub fn with_replacements(mut self, texts: Vec<Replacement>) -> Self {
        (self.body, self.told) = (EditBody::Replaced(texts), ChangeTold::Arguments);
        self
    }

    /// Returns the number of bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        let body = match &self.body {
            EditBody::Hunks(hunks) => hunks.iter().map(|hunk| hunk.text.len()).sum(),
            EditBody::Content(content) => content.len(),
            EditBody::Replaced(texts) => texts.iter().map(|t| t.old.len() + t.new.len()).sum(),
            EditBody::Path | EditBody::InTurn => 0,
        };
        body + self.path.len() + self.before.as_ref().map_or(0, String::len)
    }
}

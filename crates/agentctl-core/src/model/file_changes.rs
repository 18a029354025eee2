//! The changed files of a session, as the agent's own records tell them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;

/// The change of a file from its first recorded change to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It was created.
    Added,
    /// Its content was changed.
    Changed,
    /// It was deleted.
    Deleted,
    /// It was moved, and perhaps changed.
    Moved,
}

/// The means of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangedBy {
    /// A tool that replaces text.
    Edit,
    /// A tool that writes whole files.
    Write,
    /// A tool that applies a patch.
    Patch,
    /// A shell command.
    Shell,
}

/// How much the record tells about a change, the least first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ChangeTold {
    /// The path of the file only.
    Path,
    /// The arguments of the tool: texts without line numbers, or a content whose predecessor is not recorded.
    Arguments,
    /// The whole content.
    Content,
    /// The changed lines with their numbers.
    Hunks,
}

/// The file on disk, compared with the state after the last recorded change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileNow {
    /// It is as the record says.
    Same,
    /// It is not as the record says.
    Different,
    /// The record leaves it in place, and it does not exist.
    Gone,
    /// The record does not tell its whole content, or it was not read.
    Unknown,
}

/// The recorded changes of one file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct FileChanges {
    /// The file: relative to the session's directory if it is below it, else absolute.
    pub path: String,
    /// Its path before it was moved.
    pub from: Option<String>,
    /// The change.
    pub kind: ChangeKind,
    /// The number of recorded changes.
    pub edits: u64,
    /// The number of added lines; null if no record tells lines.
    pub added: Option<u64>,
    /// The number of removed lines; null if no record tells lines.
    pub removed: Option<u64>,
    /// The means of the last change.
    pub by: ChangedBy,
    /// The time of the first change.
    pub first_at: Option<Time>,
    /// The time of the last change.
    pub last_at: Option<Time>,
    /// How much the record tells: the least of its changes decides.
    pub told: ChangeTold,
    /// The file on disk, compared with the record.
    pub now: FileNow,
}

/// One recorded change of one file, as a patch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct FilePatch {
    /// The file, as in [`FileChanges`].
    pub path: String,
    /// The time of the change.
    pub at: Option<Time>,
    /// The means.
    pub by: ChangedBy,
    /// How much the record tells.
    pub told: ChangeTold,
    /// The change in the format of `git diff`; null if it cannot be applied.
    pub patch: Option<String>,
    /// Why there is no patch, or what has to be known to apply it.
    pub remark: Option<String>,
}

impl ChangeKind {
    /// Returns the word in tables and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::Moved => "moved",
        }
    }
}

impl ChangedBy {
    /// Returns the word in tables and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Write => "write",
            Self::Patch => "patch",
            Self::Shell => "shell",
        }
    }
}

impl ChangeTold {
    /// Returns the word in tables and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Arguments => "arguments",
            Self::Content => "content",
            Self::Hunks => "hunks",
        }
    }
}

impl FileNow {
    /// Returns the word in tables and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::Gone => "gone",
            Self::Unknown => "unknown",
        }
    }
}

//! Findings about the configuration file: the file, the line, the key and the reason.

use std::fmt;
use std::path::PathBuf;

use agentctl_core::model::{Fault, FaultCode, OWN_SOURCE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keys::Part;
use crate::failure::{Failure, Kind};

/// Something wrong with a setting, before its line is known.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) key: String,
    pub(super) what: String,
    pub(super) hint: Option<String>,
}

impl Problem {
    pub(super) fn new(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { key: key.into(), what: what.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A setting that cannot be used. Its default is in force instead.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Finding {
    /// The configuration file.
    pub file: PathBuf,
    /// The line of the key, or of its table; null if the whole file is meant.
    pub line: Option<usize>,
    /// The key with its table; empty if the whole file is meant.
    pub key: String,
    /// The reason.
    pub what: String,
    /// A hint for the user.
    pub hint: Option<String>,
    #[serde(skip)]
    pub(super) part: Part,
}

impl Finding {
    /// Returns the finding and its hint in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{self}{hint}")
    }

    /// Says whether a home or a server may be missing from every answer because of this setting.
    pub(super) fn hides_sources(&self) -> bool {
        matches!(self.part, Part::Sources | Part::Any)
    }

    /// Says whether the setting is in this table, or in one of the list of tables of this name.
    pub(super) fn is_in(&self, table: &str) -> bool {
        let first = self.key.trim_start_matches('[').split(['.', ']']).next();
        first == Some(table)
    }

    /// Returns the finding as a fault beside an answer.
    pub(super) fn fault(&self) -> Fault {
        Fault {
            adapter: OWN_SOURCE,
            root: None,
            code: FaultCode::Unreadable,
            message: self.to_string(),
        }
    }

    /// Returns the finding as the failure of a command.
    #[must_use]
    pub fn failure(&self) -> Failure {
        let failure = Failure::new(Kind::Failed, self.to_string());
        self.hint.iter().fold(failure, Failure::hint)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.what)
    }
}

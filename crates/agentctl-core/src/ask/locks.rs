//! The question `locks`, and the orders `lock` and `unlock`: which directories are occupied or locked.

use std::io::ErrorKind;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use super::request::{InvalidRequest, RequestField, directory, end_of, short_text};
use crate::locks::{self, Lock, LockError};
use crate::model::{Fault, SCHEMA_VERSION};

/// Longest reason, in characters.
const MAX_REASON_CHARS: usize = 2000;
/// Longest name, in characters.
const MAX_NAME_CHARS: usize = 200;

/// The answer to `locks --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LocksDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// One row per directory and holder.
    pub locks: Vec<Lock>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// The answer to `lock` and `unlock`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct LockDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The directory, links resolved.
    pub directory: String,
    /// The lock that was set; null after `unlock`.
    pub lock: Option<Lock>,
}

/// The order to lock a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LockRequest {
    /// The directory; the current one if not given.
    pub directory: Option<PathBuf>,
    /// The name of the person who locks it; the user name if not given.
    pub by: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The time after which the lock expires, in milliseconds; without it the lock stays.
    pub ttl_ms: Option<u64>,
}

/// The order to unlock a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UnlockRequest {
    /// The directory; the current one if not given.
    pub directory: Option<PathBuf>,
}

/// Why a directory was not locked or unlocked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockOrderError {
    /// The request cannot be carried out as it is.
    Invalid(InvalidRequest),
    /// The directory has this lock already.
    Locked(Box<Lock>),
    /// The directory is not locked.
    NotLocked {
        /// The directory.
        directory: String,
    },
    /// A launch was at work there until the timeout.
    Busy {
        /// The directory.
        directory: String,
    },
    /// The stored locks could not be read.
    Unreadable {
        /// The error.
        why: String,
    },
    /// There is no such directory.
    NoDirectory {
        /// The directory.
        directory: String,
    },
    /// The path leads to a file of another kind.
    NotADirectory {
        /// The path.
        directory: String,
    },
    /// The lock could not be read or written.
    Failed {
        /// The directory.
        directory: String,
        /// The error of the system.
        why: String,
    },
}

impl From<InvalidRequest> for LockOrderError {
    fn from(invalid: InvalidRequest) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<LockError> for LockOrderError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Locked(lock) => Self::Locked(lock),
            LockError::NotLocked(directory) => Self::NotLocked { directory },
            LockError::Busy(directory) => Self::Busy { directory },
            LockError::Unreadable(why) => Self::Unreadable { why },
            LockError::Io(directory, error) => match error.kind() {
                ErrorKind::NotFound => Self::NoDirectory { directory },
                ErrorKind::NotADirectory => Self::NotADirectory { directory },
                _ => Self::Failed { directory, why: error.to_string() },
            },
        }
    }
}

impl Fleet {
    /// Lists the directories that are occupied or locked.
    #[must_use]
    pub fn locks(&self) -> LocksDocument {
        let (locks, faults) = locks::all(self);
        LocksDocument { schema_version: SCHEMA_VERSION, locks, faults }
    }

    /// Locks a directory until it is unlocked or the lock expires.
    pub fn lock(&self, request: &LockRequest) -> Result<LockDocument, LockOrderError> {
        let host = &self.host;
        let directory = directory(host, request.directory.as_deref())?;
        let user = || host.var("USER").or_else(|| host.var("LOGNAME"));
        let by = request.by.as_deref().or_else(user);
        let by = short_text(RequestField::By, by, MAX_NAME_CHARS)?;
        let reason = request.reason.as_deref();
        let reason = short_text(RequestField::Reason, reason, MAX_REASON_CHARS)?;
        let until = request.ttl_ms.map(|ms| end_of(host, RequestField::Ttl, ms)).transpose()?;
        let lock = locks::lock(host, &directory, by, reason, until)?;
        let directory = lock.directory.clone();
        Ok(LockDocument { schema_version: SCHEMA_VERSION, directory, lock: Some(lock) })
    }

    /// Removes the lock of a directory.
    pub fn unlock(&self, request: &UnlockRequest) -> Result<LockDocument, LockOrderError> {
        let directory = directory(&self.host, request.directory.as_deref())?;
        locks::unlock(&self.host, &directory)?;
        let directory = directory.to_string_lossy().into_owned();
        Ok(LockDocument { schema_version: SCHEMA_VERSION, directory, lock: None })
    }
}

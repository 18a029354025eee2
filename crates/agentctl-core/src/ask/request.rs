//! The checks that orders of locks and fuses share: the length of texts, the range of times, and the
//! directory that a request names.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fuses;
use crate::host::Host;
use crate::locks::real_path;
use crate::model::Time;

/// A field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestField {
    /// The name of the person who locks.
    By,
    /// The reason of a lock.
    Reason,
    /// The label of a fuse.
    Label,
    /// The time to live of a lock or a fuse.
    Ttl,
    /// The idle time of a fuse.
    Idle,
    /// The runtime of a session that a fuse allows.
    MaxRuntime,
    /// The cost of a session that a fuse allows.
    MaxCost,
    /// The command of an action.
    Command,
    /// The address of an action.
    Url,
}

/// Why a request cannot be carried out as it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvalidRequest {
    /// A text has more characters than the limit.
    TooManyCharacters {
        /// The text.
        field: RequestField,
        /// The limit.
        limit: usize,
    },
    /// A text has more bytes than the limit.
    TooManyBytes {
        /// The text.
        field: RequestField,
        /// The limit.
        limit: usize,
    },
    /// A time is zero.
    ZeroTime {
        /// The time.
        field: RequestField,
    },
    /// A time ends later than any date that can be written.
    TooFar {
        /// The time.
        field: RequestField,
    },
    /// An amount is not a number above zero.
    NotAnAmount {
        /// The amount.
        field: RequestField,
    },
    /// The request names no absolute path, and the current directory was removed.
    NoCurrentDirectory {
        /// The error of the system.
        why: String,
    },
}

/// Returns a text without blanks around it, if it is given and not blank.
pub(super) fn short_text(
    field: RequestField,
    text: Option<&str>,
    limit: usize,
) -> Result<Option<String>, InvalidRequest> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    if text.chars().count() > limit {
        return Err(InvalidRequest::TooManyCharacters { field, limit });
    }
    Ok(Some(text.to_owned()))
}

/// Returns the end of a time that begins now.
pub(super) fn end_of(host: &Host, field: RequestField, ms: u64) -> Result<Time, InvalidRequest> {
    if ms == 0 {
        return Err(InvalidRequest::ZeroTime { field });
    }
    fuses::after(host.now(), ms).ok_or(InvalidRequest::TooFar { field })
}

/// Returns the real path of the directory that a request names; without a name the current directory. Fails
/// if the current directory is needed and was removed: no other directory may be used instead.
pub(super) fn directory(host: &Host, given: Option<&Path>) -> Result<PathBuf, InvalidRequest> {
    let given = given.unwrap_or(Path::new(""));
    if !given.is_absolute()
        && let Err(error) = host.cwd.symlink_metadata()
        && error.kind() == std::io::ErrorKind::NotFound
    {
        return Err(InvalidRequest::NoCurrentDirectory { why: error.to_string() });
    }
    Ok(real_path(host, given))
}

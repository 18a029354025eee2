//! The question `fuses`, and the orders that set, extend and cancel a fuse.

mod selection;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::selection::{FuseSelector, NotOneFuse};
use super::request::{InvalidRequest, RequestField, directory, end_of, short_text};
use super::{Fleet, ResolvedTarget, UnresolvedText};
use crate::fuses::{self, Action, Bound, Conditions, Fuse, FuseError, FuseOrder};
use crate::hooks;
use crate::model::{Fault, SCHEMA_VERSION};

/// Longest label, in characters.
const MAX_LABEL_CHARS: usize = 200;
/// Longest command of an action, in bytes.
pub const MAX_COMMAND_BYTES: usize = 16 << 10;
/// Longest address of an action, in bytes.
pub const MAX_URL_BYTES: usize = 2000;
/// Time to live of a fuse without any condition.
const DEFAULT_TTL_MS: u64 = 10 * 60_000;

/// The answer to `fuses --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct FusesDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The fuses; the fuse that expires next comes first.
    pub fuses: Vec<Fuse>,
    /// The sources that could not be read.
    pub faults: Vec<Fault>,
}

/// The answer to `fuse set` and `fuse extend`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct FuseDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The fuse, without secrets.
    pub fuse: Fuse,
    /// The older fuse with the same target and label that it replaced.
    pub replaced: Option<Fuse>,
    /// The directory it is bound to does not exist yet.
    pub directory_is_missing: bool,
    /// The sources that could not be asked while its session was looked for.
    pub faults: Vec<Fault>,
}

/// The answer to `fuse cancel`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct CancelledFuseDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The fuse, without secrets; null where its file could not be read.
    pub fuse: Option<Fuse>,
    /// The directory it was bound to; null for the fuse of a session.
    pub directory: Option<String>,
}

/// The order to set a fuse.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FuseRequest {
    /// The session it is bound to, as text: id or prefix, name, pid, or adapter:id.
    pub session: Option<String>,
    /// Without a session: the directory it is bound to; the current one if not given. It need not exist.
    pub directory: Option<PathBuf>,
    /// Its label; there is one fuse per target and label.
    pub label: Option<String>,
    /// Its conditions; without any, a time to live of ten minutes.
    pub when: Conditions,
    /// Its actions, in order; without any, only the event.
    pub on_expire: Vec<Action>,
}

/// The order to extend a fuse.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExtendFuseRequest {
    /// The fuse.
    pub which: FuseSelector,
    /// The conditions that replace the old ones; without any, its time to live starts again.
    pub change: Conditions,
}

/// Why a fuse was not set, extended or cancelled.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FuseOrderError {
    /// The request cannot be carried out as it is.
    Invalid(InvalidRequest),
    /// The program of an action cannot be run.
    NoProgram {
        /// Why.
        why: String,
    },
    /// The text of the request names no single session.
    NotOneSession(UnresolvedText),
    /// The process serves no session yet, so there is nothing to bind the fuse to.
    NoSession {
        /// The text that named the process.
        text: String,
    },
    /// The path leads to a file of another kind.
    NotADirectory {
        /// The path.
        directory: String,
    },
    /// The path is not UTF-8, so it cannot be stored.
    NotUtf8 {
        /// The path, shown as far as it can be.
        directory: String,
    },
    /// The selector means no single fuse.
    NotOneFuse(NotOneFuse),
    /// The fuse expired or was cancelled at this moment.
    Gone(Box<Fuse>),
    /// The fuse has expired, and its actions are being run.
    Firing(Box<Fuse>),
    /// The fuse has no time to live that could start again.
    Timeless(Box<Fuse>),
    /// Other processes held the lock of the folder until the timeout.
    Busy,
    /// The folder of fuses could not be read or written.
    Failed {
        /// The error.
        why: String,
    },
}

impl From<InvalidRequest> for FuseOrderError {
    fn from(invalid: InvalidRequest) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<NotOneFuse> for FuseOrderError {
    fn from(not_one: NotOneFuse) -> Self {
        match not_one {
            NotOneFuse::Invalid(invalid) => Self::Invalid(invalid),
            not_one => Self::NotOneFuse(not_one),
        }
    }
}

impl From<FuseError> for FuseOrderError {
    fn from(error: FuseError) -> Self {
        match error {
            FuseError::Busy => Self::Busy,
            error => Self::Failed { why: error.to_string() },
        }
    }
}

impl FuseOrderError {
    /// Names the fuse that an order was about.
    fn about(fuse: &Fuse, error: FuseError) -> Self {
        let fuse = Box::new(fuse.clone());
        match error {
            FuseError::Missing => Self::Gone(fuse),
            FuseError::Firing => Self::Firing(fuse),
            FuseError::Timeless => Self::Timeless(fuse),
            error => error.into(),
        }
    }
}

impl Fleet {
    /// Lists the fuses.
    #[must_use]
    pub fn fuses(&self) -> FusesDocument {
        let (fuses, faults) = fuses::all(&self.host);
        FusesDocument { schema_version: SCHEMA_VERSION, fuses, faults }
    }

    /// Sets a fuse. An older one with the same target and label is replaced.
    pub fn set_fuse(&self, request: &FuseRequest) -> Result<FuseDocument, FuseOrderError> {
        let target = self.fuse_target(request)?;
        let document = self.set_fuse_on(request, target.bound, None)?;
        let (directory_is_missing, faults) = (target.directory_is_missing, target.faults);
        Ok(FuseDocument { directory_is_missing, faults, ..document })
    }

    /// Sets a fuse on this target, whatever the request names, for as long as this run serves it.
    pub(super) fn set_fuse_on(
        &self,
        request: &FuseRequest,
        bound: Bound,
        run: Option<String>,
    ) -> Result<FuseDocument, FuseOrderError> {
        let label = short_text(RequestField::Label, request.label.as_deref(), MAX_LABEL_CHARS)?;
        let mut when = self.checked(request.when)?;
        if when.is_empty() {
            when.ttl_ms = Some(DEFAULT_TTL_MS);
        }
        let on_expire = request.on_expire.iter().map(|action| self.runnable(action));
        let mut on_expire = on_expire.collect::<Result<Vec<_>, _>>()?;
        if on_expire.is_empty() {
            on_expire.push(Action::Event);
        }
        let order = FuseOrder { bound, run, label, when, on_expire };
        let (fuse, replaced) = fuses::set(&self.host, order)?;
        let schema_version = SCHEMA_VERSION;
        let (directory_is_missing, faults) = (false, Vec::new());
        Ok(FuseDocument { schema_version, fuse, replaced, directory_is_missing, faults })
    }

    /// Starts the time of a fuse again, or gives it other conditions.
    pub fn extend_fuse(&self, request: &ExtendFuseRequest) -> Result<FuseDocument, FuseOrderError> {
        let change = self.checked(request.change)?;
        let fuse = self.fuse(&request.which)?;
        let fuse = fuses::extend(&self.host, &fuse.id, change)
            .map_err(|error| FuseOrderError::about(&fuse, error))?;
        Ok(FuseDocument {
            schema_version: SCHEMA_VERSION,
            fuse,
            replaced: None,
            directory_is_missing: false,
            faults: Vec::new(),
        })
    }

    /// Cancels a fuse. The file of a directory's fuse that cannot be read is removed.
    pub fn cancel_fuse(
        &self,
        which: &FuseSelector,
    ) -> Result<CancelledFuseDocument, FuseOrderError> {
        let fuse = match self.fuse(which) {
            Ok(fuse) => fuse,
            Err(not_one) => return self.cancel_unreadable_fuse(not_one),
        };
        let fuse = fuses::cancel(&self.host, &fuse.id)
            .map_err(|error| FuseOrderError::about(&fuse, error))?;
        let (schema_version, directory) = (SCHEMA_VERSION, fuse.directory.clone());
        Ok(CancelledFuseDocument { schema_version, fuse: Some(fuse), directory })
    }

    /// Removes a file that cannot be read, in the place where the fuse of the directory would be.
    fn cancel_unreadable_fuse(
        &self,
        not_one: NotOneFuse,
    ) -> Result<CancelledFuseDocument, FuseOrderError> {
        let NotOneFuse::Nothing { directory: Some(directory), label, .. } = &not_one else {
            return Err(not_one.into());
        };
        let bound = Bound::Directory(directory.clone());
        if !fuses::clear(&self.host, &bound, label.as_deref())? {
            return Err(not_one.into());
        }
        let (schema_version, directory) = (SCHEMA_VERSION, Some(directory.clone()));
        Ok(CancelledFuseDocument { schema_version, fuse: None, directory })
    }

    fn checked(&self, when: Conditions) -> Result<Conditions, InvalidRequest> {
        let times = [
            (RequestField::Ttl, when.ttl_ms),
            (RequestField::Idle, when.idle_ms),
            (RequestField::MaxRuntime, when.max_runtime_ms),
        ];
        for (field, ms) in times {
            ms.map(|ms| end_of(&self.host, field, ms)).transpose()?;
        }
        match when.max_cost_usd {
            Some(amount) if !amount.is_finite() || amount <= 0.0 => {
                Err(InvalidRequest::NotAnAmount { field: RequestField::MaxCost })
            }
            _ => Ok(when),
        }
    }

    /// Returns the action with its program's absolute path: it is run much later, from another directory.
    fn runnable(&self, action: &Action) -> Result<Action, FuseOrderError> {
        let too_long = |field, limit| Err(InvalidRequest::TooManyBytes { field, limit }.into());
        match action {
            Action::Webhook { url } if url.len() > MAX_URL_BYTES => {
                too_long(RequestField::Url, MAX_URL_BYTES)
            }
            Action::Event | Action::Stop | Action::Webhook { .. } => Ok(action.clone()),
            Action::Run { argv } => {
                if argv.iter().map(String::len).sum::<usize>() > MAX_COMMAND_BYTES {
                    return too_long(RequestField::Command, MAX_COMMAND_BYTES);
                }
                let mut argv = argv.clone();
                let Some(program) = argv.first_mut() else {
                    return Err(FuseOrderError::NoProgram { why: "the command is empty".into() });
                };
                let path = hooks::program(&self.host, program)
                    .map_err(|why| FuseOrderError::NoProgram { why })?;
                *program = path.to_string_lossy().into_owned();
                Ok(Action::Run { argv })
            }
        }
    }

    /// Finds the session or the directory to which a fuse is bound.
    fn fuse_target(&self, request: &FuseRequest) -> Result<FuseTarget, FuseOrderError> {
        if let Some(text) = &request.session {
            let unresolved = |why| UnresolvedText { text: text.clone(), why };
            let found = self.target(text).map_err(unresolved);
            let ResolvedTarget { target, faults } = found.map_err(FuseOrderError::NotOneSession)?;
            let no_session = || FuseOrderError::NoSession { text: text.clone() };
            let id = target.session.ok_or_else(no_session)?.id;
            let bound =
                Bound::Session { adapter: target.adapter.to_owned(), root: target.root, id };
            return Ok(FuseTarget { bound, directory_is_missing: false, faults });
        }
        let path = directory(&self.host, request.directory.as_deref())?;
        let directory_is_missing = !path.exists();
        let shown = || path.to_string_lossy().into_owned();
        if !directory_is_missing && !path.is_dir() {
            return Err(FuseOrderError::NotADirectory { directory: shown() });
        }
        let Some(name) = path.to_str() else {
            return Err(FuseOrderError::NotUtf8 { directory: shown() });
        };
        let bound = Bound::Directory(name.to_owned());
        Ok(FuseTarget { bound, directory_is_missing, faults: Vec::new() })
    }
}

/// The target of a new fuse.
struct FuseTarget {
    bound: Bound,
    directory_is_missing: bool,
    faults: Vec<Fault>,
}

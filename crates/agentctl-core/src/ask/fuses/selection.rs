//! From the words of a request to the one fuse that they mean, or to the reason why they mean no single fuse.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Fleet;
use super::super::request::{InvalidRequest, directory};
use crate::fuses::{self, Fuse};
use crate::model::Fault;
use crate::names::Subject;
use crate::resolve::PREFIX_CHARS;

/// The words that name a fuse.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FuseSelector {
    /// The session it is bound to: id or prefix, name, pid, directory, or adapter:id.
    pub session: Option<String>,
    /// Without a session: the directory it is bound to, or else the fuse's id or a prefix of it. The current
    /// directory if not given.
    pub directory_or_id: Option<PathBuf>,
    /// Its label.
    pub label: Option<String>,
}

/// Why a selector does not mean exactly one fuse.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotOneFuse {
    /// No fuse matches.
    Nothing {
        /// The session that the selector names.
        session: Option<String>,
        /// The directory that was looked for; null where the selector names a session.
        directory: Option<String>,
        /// The label that the selector names.
        label: Option<String>,
    },
    /// Several fuses match: these.
    Several(Vec<Fuse>),
    /// The fuses could not be read.
    Unknown {
        /// Why.
        why: String,
    },
    /// The selector names no absolute path, and the current directory was removed.
    Invalid(InvalidRequest),
}

impl Fleet {
    /// Finds the one fuse that a selector means.
    pub fn fuse(&self, which: &FuseSelector) -> Result<Fuse, NotOneFuse> {
        let (all, faults) = fuses::all(&self.host);
        if let Some(blind) = faults.into_iter().find(Fault::hides_adapter) {
            return Err(NotOneFuse::Unknown { why: blind.message });
        }
        let label = which.label.as_deref().map(str::trim);
        let labelled = |f: &Fuse| label.is_none_or(|label| f.label.as_deref() == Some(label));
        let all: Vec<Fuse> = all.into_iter().filter(labelled).collect();
        let (mut found, place) = match &which.session {
            Some(text) => (self.of_session(&all, text), None),
            None => {
                let given = which.directory_or_id.as_deref();
                let place = directory(&self.host, given).map_err(NotOneFuse::Invalid)?;
                (of_directory(&all, &place), Some(place.to_string_lossy().into_owned()))
            }
        };
        if let Some(text) = which.directory_or_id.as_ref().and_then(|text| text.to_str())
            && found.is_empty()
        {
            found = all.iter().filter(|fuse| is_id_or_prefix(&fuse.id, text)).collect();
        }
        match found.as_slice() {
            [] => Err(NotOneFuse::Nothing {
                session: which.session.clone(),
                directory: place,
                label: which.label.clone(),
            }),
            [one] => Ok((*one).clone()),
            several => Err(NotOneFuse::Several(several.iter().copied().cloned().collect())),
        }
    }
}

impl Fleet {
    /// Finds the fuses of a session: by its id, which also finds those of a session that is gone, else by any
    /// text that names the session.
    fn of_session<'a>(&self, all: &'a [Fuse], text: &str) -> Vec<&'a Fuse> {
        let found = of_session_id(all, text);
        let subject = if found.is_empty() { self.target(text).ok() } else { None };
        let Some(subject) = subject.and_then(|found| Subject::of(&found.target)) else {
            return found;
        };
        let is_bound = |fuse: &&Fuse| {
            fuse.session.as_ref() == Some(&subject.session)
                && fuse.adapter.as_ref() == Some(&subject.adapter)
                && fuse.root.as_ref() == Some(&subject.root)
        };
        all.iter().filter(is_bound).collect()
    }
}

fn of_session_id<'a>(all: &'a [Fuse], text: &str) -> Vec<&'a Fuse> {
    let id = text.split_once(':').map_or(text, |(_, id)| id);
    let is_bound = |fuse: &&Fuse| fuse.session.as_deref().is_some_and(|s| is_id_or_prefix(s, id));
    all.iter().filter(is_bound).collect()
}

fn of_directory<'a>(all: &'a [Fuse], place: &Path) -> Vec<&'a Fuse> {
    let is_bound = |fuse: &&Fuse| fuse.directory.as_ref().is_some_and(|d| Path::new(d) == place);
    all.iter().filter(is_bound).collect()
}

fn is_id_or_prefix(id: &str, text: &str) -> bool {
    id == text || (text.chars().count() >= PREFIX_CHARS && id.starts_with(text))
}

//! The order `resume`: which session goes on, with which agent and where.

use std::path::PathBuf;

use super::launch::is_remote;
use super::{Fleet, InspectedSession, NotOne};
use crate::adapters::Adapter;
use crate::adapters::control::Begin;
use crate::model::{Fault, Target};

/// A session that begins or can go on.
pub(super) struct Continuation {
    /// Its agent.
    pub(super) adapter: &'static dyn Adapter,
    /// Whether a session begins, goes on, or is copied.
    pub(super) begin: Begin,
    /// The directory in which the agent works.
    pub(super) cwd: PathBuf,
    /// The session that goes on or is copied.
    pub(super) from: Option<Target>,
    /// The last run of the session that goes on under its id.
    pub(super) last_run: Option<String>,
}

/// Why a session cannot go on.
#[derive(Debug)]
pub enum NotContinued {
    /// The text names no single session.
    NotOne(NotOne),
    /// The process serves no session yet.
    NoSession {
        /// The process.
        pid: u32,
    },
    /// It is a subagent: only the session it belongs to can go on.
    Subagent {
        /// The subagent.
        id: String,
        /// The session it belongs to.
        parent: String,
    },
    /// It lives in a server, which decides where it works.
    DirectoryOnServer(&'static str),
    /// Its record does not say where it worked, and no directory was given.
    UnknownDirectory {
        /// The session.
        id: String,
    },
}

impl Fleet {
    /// Finds the session that is to go on, and where. `cwd` is another directory than its own; with `fork` a
    /// copy of the session goes on. `tell` hears of sources that could not be asked, before anything is refused.
    pub(super) fn continuation(
        &self,
        text: &str,
        cwd: Option<PathBuf>,
        fork: bool,
        tell: &mut dyn FnMut(&Fault),
    ) -> Result<Continuation, NotContinued> {
        let found = self.inspected(text).map_err(NotContinued::NotOne)?;
        let InspectedSession { target, session, faults } = found;
        faults.iter().for_each(tell);
        let Some(id) = session.id.clone() else {
            return Err(NotContinued::NoSession { pid: session.pid.unwrap_or_default() });
        };
        if let Some(parent) = session.parent {
            return Err(NotContinued::Subagent { id, parent });
        }
        let adapter = self.adapter(session.adapter);
        let adapter = adapter.ok_or(NotContinued::NotOne(NotOne::Nothing))?;
        let cwd = match (cwd, session.cwd) {
            // The session goes on in its server, which knows where.
            (None, None) if is_remote(adapter) => self.host.cwd.clone(),
            (Some(_), _) if is_remote(adapter) => {
                return Err(NotContinued::DirectoryOnServer(adapter.name()));
            }
            (Some(directory), _) => self.host.cwd.join(directory),
            (None, Some(directory)) => PathBuf::from(directory),
            (None, None) => return Err(NotContinued::UnknownDirectory { id }),
        };
        let last_run = session.run.filter(|_| !fork);
        let begin = if fork { Begin::Fork(id) } else { Begin::Resume(id) };
        Ok(Continuation { adapter, begin, cwd, from: Some(target), last_run })
    }
}

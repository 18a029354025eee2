//! The order `resume`: which session goes on, with which agent and where.

use std::path::PathBuf;

use super::{Fleet, InspectedSession, NotOne, is_remote};
use crate::adapters::Adapter;
use crate::adapters::control::Begin;
use crate::model::{Fault, Target};

/// A session that can go on.
pub struct Continuation {
    /// Its agent.
    pub adapter: &'static dyn Adapter,
    /// Whether the session goes on or a copy of it.
    pub begin: Begin,
    /// The directory in which the agent works.
    pub cwd: PathBuf,
    /// The session.
    pub from: Target,
}

/// Why a session cannot go on.
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
    DirectoryOnServer(&'static dyn Adapter),
    /// Its record does not say where it worked, and no directory was given.
    UnknownDirectory {
        /// The session.
        id: String,
    },
}

impl Fleet {
    /// Finds the session that is to go on, and where. `cwd` is another directory than its own; with `fork` a
    /// copy of the session goes on. `tell` hears of sources that could not be asked, before anything is refused.
    pub fn continuation(
        &self,
        text: &str,
        cwd: Option<PathBuf>,
        fork: bool,
        tell: &mut dyn FnMut(&Fault),
    ) -> Result<Continuation, NotContinued> {
        let found = self.status(text).map_err(NotContinued::NotOne)?;
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
                return Err(NotContinued::DirectoryOnServer(adapter));
            }
            (Some(directory), _) => self.host.cwd.join(directory),
            (None, Some(directory)) => PathBuf::from(directory),
            (None, None) => return Err(NotContinued::UnknownDirectory { id }),
        };
        let begin = if fork { Begin::Fork(id) } else { Begin::Resume(id) };
        Ok(Continuation { adapter, begin, cwd, from: target })
    }
}

//! The question `status`: one session in full.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, NotOne};
use crate::model::{Fault, Session, Target};

/// One session that a text names, in full.
#[derive(Clone, Debug)]
pub struct InspectedSession {
    /// The session's adapter, home and record.
    pub target: Target,
    /// The session.
    pub session: Session,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// The answer to `session.status` on the socket. `agentctl status --json` prints the session alone.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SessionDocument {
    /// The session; null where the sources that know it could not be asked.
    pub session: Option<Session>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

impl Fleet {
    /// Looks at the one session that a text names.
    pub fn status(&self, text: &str) -> Result<InspectedSession, NotOne> {
        let (target, mut faults) = self.target(text)?;
        let inspected = self.inspect(&target);
        faults.extend(inspected.faults);
        faults.sort();
        faults.dedup();
        match inspected.session {
            Some(session) => Ok(InspectedSession { target, session, faults }),
            None if faults.is_empty() => Err(NotOne::Nothing),
            None => Err(NotOne::Unreadable(faults)),
        }
    }

    /// Answers `session.status`: sources that failed are part of the answer, so an error is only that no
    /// session matches, or that several do.
    pub fn session_document(&self, text: &str) -> Result<SessionDocument, NotOne> {
        match self.status(text) {
            Ok(found) => Ok(SessionDocument { session: Some(found.session), faults: found.faults }),
            Err(NotOne::Unknown(faults) | NotOne::Unreadable(faults)) => {
                Ok(SessionDocument { session: None, faults })
            }
            Err(not_one) => Err(not_one),
        }
    }
}

//! The question `status`: one session in full.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, NotOne, ResolvedTarget};
use crate::model::{Fault, Session, Target};

/// The answer to `status`: one session that a text names, in full. `agentctl status --json` prints the
/// session alone.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct InspectedSession {
    /// The session's adapter, home and record.
    pub target: Target,
    /// The session.
    pub session: Session,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

impl Fleet {
    /// Looks at the one session that a text names.
    pub fn status(&self, text: &str) -> Result<InspectedSession, NotOne> {
        let ResolvedTarget { target, mut faults } = self.target(text)?;
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
}

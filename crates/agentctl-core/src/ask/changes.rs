//! The question `changes`: which files a session changed, as the agent's own records tell it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, NotOne, ResolvedTarget};
use crate::adapters::changes::ChangesTold;
use crate::changes::{self, Patches};
use crate::model::{Fault, FaultCode, FileChanges, FilePatch, InternedName, SCHEMA_VERSION};
use crate::transcript::TranscriptError;

/// The session, and whether each change is wanted as a patch.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangesRequest {
    /// A text that names the session, as a user types it.
    pub session: String,
    /// Return each change as a patch too.
    #[serde(default)]
    pub patch: bool,
}

/// The answer to `changes --json`. It holds what is recorded, which is not all: `commands` counts shell commands
/// whose changes are not recorded.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ChangesDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The agent.
    pub adapter: String,
    /// The session id.
    pub session: String,
    /// The session's directory; the paths of files are relative to it.
    pub cwd: Option<String>,
    /// The changed files, in the order of their first change.
    pub files: Vec<FileChanges>,
    /// The number of shell commands that ended without a record of what they changed.
    pub commands: u64,
    /// The number of file changes and shell commands that were called and have no result.
    pub unanswered: u64,
    /// The number of subagents whose own records are included.
    pub subagents: u64,
    /// Each change in the order of time; null unless patches were asked for.
    pub patches: Option<Vec<FilePatch>>,
    /// The sources that could not be asked or read whole.
    pub faults: Vec<Fault>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoChanges {
    /// The text names no single session.
    NotOne(NotOne),
    /// The records of this agent tell nothing about changed files.
    Untold {
        /// The agent.
        adapter: InternedName,
        /// The reason.
        why: &'static str,
    },
    /// The conversation cannot be read.
    Unread(TranscriptError),
}

impl Fleet {
    /// Returns the recorded file changes of the one session that a text names, subagents included.
    pub fn changes(&self, request: &ChangesRequest) -> Result<ChangesDocument, NoChanges> {
        let found = self.target(&request.session).map_err(NoChanges::NotOne)?;
        let ResolvedTarget { target, mut faults } = found;
        let told = self.adapter(target.adapter).map(|adapter| adapter.capabilities().changes);
        if let Some(ChangesTold::Nothing(why)) = told {
            return Err(NoChanges::Untold { adapter: target.adapter, why });
        }
        let patches = if request.patch { Patches::Yes } else { Patches::No };
        let read = changes::read(self, &target, patches).map_err(NoChanges::Unread)?;
        faults.extend(read.left_out.into_iter().map(|message| Fault {
            adapter: target.adapter,
            root: Some(target.root.clone()),
            code: FaultCode::Skipped,
            message,
        }));
        Ok(ChangesDocument {
            schema_version: SCHEMA_VERSION,
            adapter: target.adapter.to_owned(),
            session: target.session.map(|locator| locator.id).unwrap_or_default(),
            cwd: read.cwd,
            files: read.files,
            commands: read.commands,
            unanswered: read.unanswered,
            subagents: read.subagents,
            patches: request.patch.then_some(read.patches),
            faults,
        })
    }
}

//! The request for a launch, as data: what another process may send.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::worktree::WorktreeRequest;
use crate::adapters::control::Permissions;
use crate::launch::context::PromptContext;
use crate::model::Callback;
use crate::worktrees::WorktreeSettings;

/// A request to start or continue a session, before the defaults are applied.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchRequest {
    /// Whether a session begins, goes on, or is copied.
    pub subject: LaunchSubject,
    /// The prompt or message.
    pub prompt: TextOrBytes,
    /// The text that is put in front of the prompt.
    #[serde(default)]
    pub context: PromptContext,
    /// The directory in which the agent works. Without it a session that begins works in the current
    /// directory, and one that goes on in its own.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// The name of the session.
    #[serde(default)]
    pub name: Option<String>,
    /// Look for the session and return it. Without this only an on-create hook causes the look.
    #[serde(default)]
    pub look: bool,
    /// Let the agent work in a new git worktree of the repository of the directory. Only for a session that
    /// begins.
    #[serde(default)]
    pub worktree: Option<WorktreeRequest>,
    /// Everything else that may be said.
    #[serde(default)]
    pub options: LaunchOptions,
}

/// The session that an agent is started for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LaunchSubject {
    /// A new session.
    New {
        /// The name of the adapter; null for the configured one, else the first that is installed.
        adapter: Option<String>,
    },
    /// A session that goes on under its own id.
    Resume {
        /// A text that names the session, as a user types it.
        session: String,
    },
    /// A copy of a session, with an id of its own.
    Fork {
        /// A text that names the session, as a user types it.
        session: String,
    },
}

/// A text; bytes where it is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TextOrBytes {
    /// UTF-8 text.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes(Vec<u8>),
}

/// The part of a request that launches and resumes have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LaunchOptions {
    /// The model, in the agent's own words.
    pub model: Option<String>,
    /// The launch group.
    pub group: Option<String>,
    /// Variables set for the agent.
    pub env: Vec<(String, String)>,
    /// The permissions of the agent.
    pub permissions: Option<Permissions>,
    /// Start it also where an agent works or a lock stands.
    pub force: bool,
    /// The programs that are run when the session begins or ends.
    pub hooks: LaunchHooks,
    /// The session or agent that is to be told about this one.
    pub callback: Option<Callback>,
    /// The agent may ask a human, and waits this long for each answer; null where it may not ask.
    pub ask_ms: Option<u64>,
    /// The agent stays when its turn is over, and takes messages.
    pub keep: bool,
    /// The agent that stays is ended when it was idle for this long, by a fuse that the launch sets.
    pub keep_idle_ms: Option<u64>,
    /// Further arguments for the agent itself.
    pub extra: Vec<TextOrBytes>,
}

/// The commands to run at the start and the end of a session, as argv.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LaunchHooks {
    /// After the start of a session.
    pub on_create: Option<Vec<String>>,
    /// After the end of its agent.
    pub on_complete: Option<Vec<String>>,
}

/// The values of a launch that its request leaves out.
#[derive(Clone, Debug)]
pub struct LaunchDefaults {
    /// The adapter.
    pub adapter: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The permissions of the agent.
    pub permissions: Permissions,
    /// The hooks.
    pub hooks: LaunchHooks,
    /// How long an agent that may ask waits for each answer.
    pub ask: Duration,
    /// How long the folders of ended runs are kept.
    pub keep: Duration,
    /// How worktrees are made.
    pub worktree: WorktreeSettings,
}

impl Default for LaunchDefaults {
    fn default() -> Self {
        Self {
            adapter: None,
            model: None,
            permissions: Permissions::Default,
            hooks: LaunchHooks::default(),
            ask: Duration::from_hours(24),
            keep: Duration::from_hours(7 * 24),
            worktree: WorktreeSettings::default(),
        }
    }
}

impl LaunchHooks {
    /// Says whether no program is to be run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.on_create.is_none() && self.on_complete.is_none()
    }

    /// Returns these hooks, and those of the other that are missing here.
    #[must_use]
    pub(in crate::ask) fn or(&self, other: &Self) -> Self {
        Self {
            on_create: self.on_create.as_ref().or(other.on_create.as_ref()).cloned(),
            on_complete: self.on_complete.as_ref().or(other.on_complete.as_ref()).cloned(),
        }
    }
}

impl TextOrBytes {
    /// Returns the bytes of the text.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns it as an argument of a program.
    pub(super) fn into_argument(self) -> OsString {
        OsString::from_vec(self.into_bytes())
    }
}

impl From<Vec<u8>> for TextOrBytes {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|e| Self::Bytes(e.into_bytes()), Self::Text)
    }
}

impl From<OsString> for TextOrBytes {
    fn from(argument: OsString) -> Self {
        Self::from(argument.into_vec())
    }
}

//! The processes that serve sessions, and how they ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The identity of a process, which a recycled pid cannot match.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub struct ProcId {
    /// Process id in the observer's pid namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot (`/proc/<pid>/stat` field 22).
    pub start_ticks: u64,
    /// The pidfs inode: unique for the life of the system. Null on kernels without pidfs.
    pub inode: Option<u64>,
    /// The boot this process belongs to.
    pub boot_id: String,
}

/// How certain it is that a process serves a session.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// A record, lock, open file, protocol or environment of the agent's own process names the session.
    Proved,
    /// Only directory and start time match. Such a process is shown; no order acts on it.
    Inferred,
}

/// A process that serves a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ServingProcess {
    /// The process.
    #[serde(flatten)]
    pub id: ProcId,
    /// How certain it is that it serves this session.
    pub join: Join,
}

impl ServingProcess {
    /// Returns a process that is proved to serve its session.
    #[must_use]
    pub fn proved(id: ProcId) -> Self {
        Self { id, join: Join::Proved }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Exit {
    /// The exit code, when it exited.
    pub code: Option<i32>,
    /// The signal, when one killed it.
    pub signal: Option<i32>,
}

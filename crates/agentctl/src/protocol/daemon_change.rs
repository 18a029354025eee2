//! The document of `daemon start` and `daemon stop`.

use agentctl_core::model::SCHEMA_VERSION;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to `daemon start` and `daemon stop`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct DaemonChange {
    /// The version of this document.
    pub schema_version: u32,
    /// The result of the order.
    pub result: DaemonResult,
    /// The process that was started or stopped, or that runs already; null if no daemon runs.
    pub pid: Option<u32>,
    /// The service manager started or stopped it.
    pub by_service_manager: bool,
}

/// The result of an order to start or stop the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DaemonResult {
    /// It was started.
    Started,
    /// It was running already.
    AlreadyRunning,
    /// It was stopped.
    Stopped,
    /// It did not answer and was killed.
    Killed,
    /// No daemon was running.
    NotRunning,
}

impl DaemonChange {
    /// Returns the document of an order that this program carried out itself.
    #[must_use]
    pub fn new(result: DaemonResult, pid: Option<u32>) -> Self {
        Self { schema_version: SCHEMA_VERSION, result, pid, by_service_manager: false }
    }

    /// Marks the order as carried out by the service manager.
    #[must_use]
    pub fn by_service_manager(self) -> Self {
        Self { by_service_manager: true, ..self }
    }
}

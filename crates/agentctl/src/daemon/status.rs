//! The status document of the daemon. Its figures are counted when it is asked for.

use std::collections::BTreeMap;

use agentctl_core::model::{Fault, Listing, SCHEMA_VERSION, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metrics::server::MetricsStatus;
use super::notify::NotifyStatus;
use super::webhooks::WebhookStatus;
use crate::protocol::Welcome;

/// The answer to `daemon status`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DaemonStatus {
    /// The version of this document.
    pub schema_version: u32,
    /// Somebody serves.
    pub running: bool,
    /// Its process.
    pub pid: Option<u32>,
    /// The version of its program.
    pub version: Option<String>,
    /// Since when it serves.
    pub since: Option<Time>,
    /// Where it is asked.
    pub socket: String,
    /// Where it writes down what it does.
    pub log: String,
    /// It looks at the same homes, with the same settings and the same program, as this command.
    pub same_world: Option<bool>,
    /// Live sessions by status, counted now.
    pub sessions: Option<BTreeMap<String, u64>>,
    /// Directories that are kept, counted now.
    pub locks: Option<u64>,
    /// Fuses that burn, counted now.
    pub fuses: Option<u64>,
    /// Those who listen to events now.
    pub subscribers: Option<u64>,
    /// What keeps it from noticing changes by itself; it then looks at a pace.
    pub trouble: Option<String>,
    /// How it stands with each webhook.
    pub webhooks: Vec<WebhookStatus>,
    /// How it stands with notifications, if they are wished.
    pub notify: Option<NotifyStatus>,
    /// How it stands with the metrics, if they are wished.
    pub metrics: Option<MetricsStatus>,
    /// What could not be asked.
    pub faults: Vec<Fault>,
}

impl DaemonStatus {
    /// Returns the status without a daemon.
    #[must_use]
    pub fn absent(socket: String, log: String) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            running: false,
            pid: None,
            version: None,
            since: None,
            socket,
            log,
            same_world: None,
            sessions: None,
            locks: None,
            fuses: None,
            subscribers: None,
            trouble: None,
            webhooks: Vec::new(),
            notify: None,
            metrics: None,
            faults: Vec::new(),
        }
    }

    /// Sets the fields about the daemon process.
    pub(super) fn set_daemon(&mut self, by: &Welcome) {
        self.running = true;
        self.pid = Some(by.pid);
        self.version = Some(by.version.clone());
        self.since = Some(by.since);
    }

    /// Counts the sessions of a listing by status.
    pub(super) fn count(&mut self, listing: Listing) {
        let mut counts = BTreeMap::new();
        for session in &listing.sessions {
            *counts.entry(session.status.word().to_owned()).or_default() += 1;
        }
        self.sessions = Some(counts);
        self.faults = listing.faults;
    }
}

//! The status document of the daemon. Its figures are counted when it is asked for.

use std::collections::BTreeMap;

use agentctl_core::model::{Fault, Listing, SCHEMA_VERSION, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Welcome;

/// The answer to `daemon status`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DaemonStatus {
    /// The version of this document.
    pub schema_version: u32,
    /// A daemon is running.
    pub running: bool,
    /// Its process.
    pub pid: Option<u32>,
    /// The version of its program.
    pub version: Option<String>,
    /// When it started to serve.
    pub since: Option<Time>,
    /// The path of its socket.
    pub socket: String,
    /// The path of its log file.
    pub log: String,
    /// It looks at the same homes, with the same settings and the same program, as this command.
    pub same_world: Option<bool>,
    /// Live sessions by status, counted now.
    pub sessions: Option<BTreeMap<String, u64>>,
    /// Occupied and locked directories, counted now.
    pub locks: Option<u64>,
    /// Fuses that are set, counted now.
    pub fuses: Option<u64>,
    /// Clients that are subscribed to events now.
    pub subscribers: Option<u64>,
    /// Why the kernel does not report changes to it; it then looks every two seconds.
    pub trouble: Option<String>,
    /// The state of each webhook.
    pub webhooks: Vec<WebhookStatus>,
    /// The state of notifications, if they are configured.
    pub notify: Option<NotifyStatus>,
    /// The state of the metrics server, if it is configured.
    pub metrics: Option<MetricsStatus>,
    /// The sources that could not be asked.
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
    pub(crate) fn set_daemon(&mut self, by: &Welcome) {
        self.running = true;
        self.pid = Some(by.pid);
        self.version = Some(by.version.clone());
        self.since = Some(by.since);
    }

    /// Counts the sessions of a listing by status.
    pub(crate) fn count(&mut self, listing: Listing) {
        let mut counts = BTreeMap::new();
        for session in &listing.sessions {
            *counts.entry(session.status.word().to_owned()).or_default() += 1;
        }
        self.sessions = Some(counts);
        self.faults = listing.faults;
    }
}

/// The state of one webhook endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct WebhookStatus {
    /// Its name: never the whole address, which may hold a secret.
    pub name: String,
    /// Events in the queue or being sent.
    pub queued: usize,
    /// Events that the endpoint accepted.
    pub delivered: u64,
    /// Events given up after all retries.
    pub failed: u64,
    /// Events dropped because the queue was full.
    pub dropped: u64,
    /// Delivery attempts, retries included.
    pub attempts: u64,
    /// When the endpoint last accepted an event.
    pub last_success_at: Option<Time>,
    /// When a delivery last failed.
    pub last_error_at: Option<Time>,
    /// The error of that delivery.
    pub last_error: Option<String>,
}

/// The state of notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct NotifyStatus {
    /// Notifications whose program exited with 0.
    pub shown: u64,
    /// Notifications whose program failed or could not be run.
    pub failed: u64,
    /// Notifications dropped because the queue was full.
    pub dropped: u64,
    /// The last error.
    pub last_error: Option<String>,
}

/// The state of the metrics server.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct MetricsStatus {
    /// The address of the server.
    pub url: String,
    /// The source of the token: the configuration or a file; never the token itself.
    pub token: String,
    /// Why metrics are not served; null if they are.
    pub trouble: Option<String>,
}

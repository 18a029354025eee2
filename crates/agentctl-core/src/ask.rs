//! Every question that an interface may ask about the agents of this machine, and the document that answers
//! it.
//!
//! [`Fleet`] receives the questions: one method each, in one file each, beside the document that it returns.
//! The command line prints these documents with `--json`, the daemon's socket sends them, and `docs/schema/`
//! is generated from them. Failures are data as well ([`NotOne`]): the sentences about them belong to the
//! interface. Nothing here decides a status or names an agent.

mod adapters;
mod doctor;
mod fuses;
mod launch;
mod locks;
mod logs;
mod resume;
mod runs;
mod status;
mod stop;
mod target;
mod wait;
mod why;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use self::adapters::{AdapterControl, AdapterRow, AdaptersDocument};
pub use self::doctor::{Check, CheckState, DaemonState, DoctorContext, DoctorDocument};
pub use self::fuses::FusesDocument;
pub use self::launch::{
    ChosenAdapter, LaunchDefaults, LaunchHooks, LaunchOptions, LaunchRequest, NoAdapter,
    NotStarted, StartedSession, is_remote,
};
pub use self::locks::LocksDocument;
pub use self::logs::{LogsDocument, NoLogs};
pub use self::resume::{Continuation, NotContinued};
pub use self::runs::{PruneDocument, PruneError, PruneOptions, RunRow, RunsDocument};
pub use self::status::{InspectedSession, SessionDocument};
pub use self::stop::{
    FailedRow, RunWithoutSession, StopDocument, StopNews, StopTargets, Stopped, StoppedRow,
    SurvivorRow,
};
pub use self::target::{Candidate, NotOne};
pub use self::wait::WaitDocument;
pub use self::why::WhyDocument;
use crate::adapters::Adapter;
use crate::events::Watcher;
use crate::fleet::{self, Adapters, Inspected, Query, Rows};
use crate::host::Host;
use crate::model::{Listing, Target};
use crate::transcript::{Transcript, TranscriptError};

/// The agents of one host: the receiver of every question.
#[derive(Clone)]
pub struct Fleet {
    /// The host that is looked at.
    pub host: Arc<Host>,
    /// The adapters that are asked.
    pub adapters: Adapters,
}

impl Fleet {
    /// Asks these adapters about this host.
    #[must_use]
    pub fn new(host: Arc<Host>, adapters: Adapters) -> Self {
        Self { host, adapters }
    }

    /// Lists sessions: the live ones, and on request those that have ended.
    #[must_use]
    pub fn list(&self, query: &Query) -> Listing {
        fleet::list(&self.host, self.adapters, query)
    }

    /// Lists the same sessions as [`Fleet::list`], and keeps the rows packed.
    #[must_use]
    pub fn rows(&self, query: &Query) -> Rows {
        fleet::rows(&self.host, self.adapters, query)
    }

    /// Returns the same fleet with another limit for questions about all history.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        let mut host = Host::clone(&self.host);
        host.deadlines.all = limit;
        Self { host: Arc::new(host), adapters: self.adapters }
    }

    /// Returns the adapter of this name.
    #[must_use]
    pub fn adapter(&self, name: &str) -> Option<&'static dyn Adapter> {
        self.adapters.iter().find(|adapter| adapter.name() == name).copied()
    }

    /// Opens the conversation of one session.
    pub fn transcript(&self, target: &Target) -> Result<Transcript, TranscriptError> {
        Transcript::open(&self.host, self.adapters, target)
    }

    /// Makes a watcher that tells events.
    pub fn watcher(&self) -> io::Result<Watcher> {
        Watcher::new(Arc::clone(&self.host), self.adapters)
    }

    /// Looks at one session in full.
    #[must_use]
    pub fn inspect(&self, target: &Target) -> Inspected {
        fleet::inspect(&self.host, self.adapters, target)
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let adapters: Vec<&str> = self.adapters.iter().map(|adapter| adapter.name()).collect();
        f.debug_struct("Fleet").field("host", &self.host).field("adapters", &adapters).finish()
    }
}

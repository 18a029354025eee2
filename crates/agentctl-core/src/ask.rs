//! Every question that an interface may ask about the agents of this machine, and the document that answers
//! it.
//!
//! [`Fleet`] receives the questions: one method each, in one file each, beside the document that it returns.
//! The command line prints these documents with `--json`, the daemon's socket sends them, and `docs/schema/`
//! is generated from them. Failures are data as well ([`NotOne`]): the sentences about them belong to the
//! interface. Nothing here decides a status or names an agent.

mod adapters;
mod attach;
mod changes;
mod clean;
mod compare;
mod diff;
mod doctor;
mod ended_by;
mod fuses;
mod groups;
mod inbox;
mod launch;
mod launch_group;
mod locks;
mod logs;
mod names;
mod remove_runs;
mod request;
mod resume;
mod runs;
mod send;
mod status;
mod stop;
mod take;
mod target;
mod wait;
mod why;
mod worktrees;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use self::adapters::{AdapterAnswering, AdapterControl, AdapterRow, AdaptersDocument};
pub use self::attach::{Attachment, AttachmentWay, OpenCommand, SessionTerminal};
pub use self::changes::{ChangesDocument, ChangesRequest, NoChanges};
pub use self::clean::{CleanDocument, CleanRequest};
pub use self::compare::{CompareDocument, CompareRequest, CompareRow, Merges, Verification};
pub use self::diff::{DiffBase, DiffDocument, DiffRequest, GoneDirectory, NoDiff, WorkDiff};
pub use self::doctor::{
    COMPLETION_SHELLS, Check, CheckState, CompletionShell, ConfigFinding, ConfiguredWebhook,
    DaemonState, DoctorContext, DoctorDocument, WebContext,
};
pub use self::fuses::{
    CancelledFuseDocument, ExtendFuseRequest, FuseDocument, FuseOrderError, FuseRequest,
    FuseSelector, FusesDocument, MAX_COMMAND_BYTES, MAX_URL_BYTES, NotOneFuse,
};
pub use self::inbox::{
    AnswerDocument, AnswerRequest, AskHookDocument, AsksDocument, AsksRequest, WaitingSessions,
};
pub use self::launch::{
    LaunchDefaults, LaunchDocument, LaunchHooks, LaunchNews, LaunchOptions, LaunchRequest,
    LaunchSubject, NoAdapter, NotStarted, TextOrBytes, WorktreeRequest,
};
pub use self::launch_group::{
    GroupLaunchDocument, GroupLaunchNews, GroupLaunchRequest, LaunchPlan, LaunchedSlot, PlanPlace,
    PlannedSlot,
};
pub use self::locks::{LockDocument, LockOrderError, LockRequest, LocksDocument, UnlockRequest};
pub use self::logs::{LogsDocument, LogsRequest, NoLogs};
pub use self::names::{NamedSession, NotNamed, WordRefusal, check_group};
pub use self::remove_runs::{OutputStream, RunsNotFound, RunsNotRemoved};
pub use self::request::{InvalidRequest, RequestField};
pub use self::resume::NotContinued;
pub use self::runs::{PruneDocument, PruneError, PruneOptions, RunRow, RunsDocument};
pub use self::send::{
    MessageWay, NotSent, SendDocument, SendRequest, SendStep, TurnEndDocument, TurnNotEnded,
};
pub use self::status::{DetailedSession, InspectedSession, StatusDocument};
pub use self::stop::{
    FailedRow, RunWithoutSession, RunWithoutSessionRow, StopDocument, StopNews, StopRequest,
    StopSelection, StopTargets, StoppedRow, SurvivorRow,
};
pub use self::take::{NotTaken, TakeDocument, TakeRequest};
pub use self::target::{Candidate, NotOne, ResolvedTarget, UnresolvedText};
pub use self::wait::{NotWaited, SessionVerdict, WaitDocument, WaitRequest, WaitTarget};
pub use self::why::{ExplainedSession, WhyDocument, reason_text};
pub use self::worktrees::{SessionOfWorktree, WorktreeRow, WorktreesDocument, WorktreesRequest};
use crate::events::Watcher;
pub use crate::fleet::Fleet;
use crate::fleet::{self, Inspected, Query, Rows};
use crate::host::Host;
pub use crate::launch::context::{ContextError, IssueReference, PromptContext};
use crate::model::{Listing, Target};
use crate::transcript::{Transcript, TranscriptError};

impl Fleet {
    /// Lists sessions: the live ones, and on request those that have ended.
    #[must_use]
    pub fn list(&self, query: &Query) -> Listing {
        fleet::list(self, query)
    }

    /// Lists the same sessions as [`Fleet::list`], and keeps the rows packed.
    #[must_use]
    pub fn rows(&self, query: &Query) -> Rows {
        fleet::rows(self, query)
    }

    /// Returns the same fleet with another limit for questions about all history.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        let mut host = Host::clone(&self.host);
        host.deadlines.all = limit;
        Self { host: Arc::new(host), ..self.clone() }
    }

    /// Opens the conversation of one session.
    pub fn transcript(&self, target: &Target) -> Result<Transcript, TranscriptError> {
        Transcript::open(self, target)
    }

    /// Makes a watcher that tells events.
    pub fn watcher(&self) -> io::Result<Watcher> {
        Watcher::new(self.clone())
    }

    /// Looks at one session in full.
    #[must_use]
    pub fn inspect(&self, target: &Target) -> Inspected {
        fleet::inspect(self, target)
    }
}

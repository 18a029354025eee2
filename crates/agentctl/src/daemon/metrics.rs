//! The metrics. Gauges are counted from a fresh snapshot at each scrape and kept nowhere; counters add up the
//! events since the daemon started.
//!
//! A gauge is 0 only if its source has answered; if the source failed, the gauge is left out. Labels whose
//! values an agent chooses are limited in length and number.

pub mod server;
mod table;
mod text;
mod usage;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentctl_core::adapters::ALL;
use agentctl_core::events::{Event, EventKind};
use agentctl_core::fleet::Fleet;
use agentctl_core::locks::{self, Kind as LockKind, Lock};
use agentctl_core::model::{Fault, Listing, Outcome, Session, Status, Time};

use self::text::{Samples, Value, Values};
use self::usage::Usage;
use super::webhooks::duration;
use crate::protocol::WebhookStatus;

pub use self::table::{ALL as TABLE, Kind, Metric};
pub use self::text::Form;

/// The statuses of live sessions.
const LIVE: [Status; 4] = [Status::Running, Status::Waiting, Status::Idle, Status::Unknown];
/// All outcomes of a session.
const OUTCOMES: [Outcome; 5] =
    [Outcome::Finished, Outcome::Failed, Outcome::Interrupted, Outcome::Killed, Outcome::Unknown];
/// The number of event ids of ended sessions that are remembered, to count an end once that is reported twice.
const MAX_REMEMBERED_ENDS: usize = 256;

/// The counters of the daemon and the thread that counts usage.
pub(super) struct Metrics {
    fleet: Fleet,
    counted: Arc<Mutex<Counted>>,
    usage: Usage,
}

/// The counters, and the ids that keep an end from being counted twice.
#[derive(Debug, Default)]
struct Counted {
    samples: Samples,
    models: Values,
    ends: VecDeque<String>,
}

/// The daemon's figures about itself at a scrape.
pub(super) struct DaemonFigures {
    pub(super) since: Time,
    pub(super) subscribers: usize,
    pub(super) webhooks: Vec<WebhookStatus>,
}

impl Metrics {
    /// Starts counting.
    pub(super) fn start(fleet: Fleet) -> io::Result<Arc<Self>> {
        let counted: Arc<Mutex<Counted>> = Arc::default();
        lock(&counted).set_to_zero();
        let usage = Usage::start(fleet.clone(), Arc::clone(&counted))?;
        Ok(Arc::new(Self { fleet, counted, usage }))
    }

    /// Counts an event. Never blocks.
    pub(super) fn count_event(&self, event: &Event) {
        let ended = lock(&self.counted).count_event(event, self.fleet.host.now());
        if ended && let Some(session) = &event.session {
            self.usage.ask(session);
        }
    }

    /// Counts the duration and the new faults of a snapshot that the daemon took.
    pub(super) fn count_snapshot<'a>(
        &self,
        took: &[(&'static str, Duration)],
        missing: &[Fault],
        fresh: impl Iterator<Item = &'a Fault>,
    ) {
        let mut counted = lock(&self.counted);
        let given_up = missing.iter().filter(|fault| fault.is_adapter_timeout());
        let given_up = given_up.map(|f| (f.adapter, self.fleet.host.deadlines.live));
        for (adapter, time) in took.iter().copied().chain(given_up) {
            counted.samples.observe(&table::QUESTION, &[adapter.into()], time.as_secs_f64());
        }
        for fault in fresh {
            counted.samples.add(&table::FAULTS_TOTAL, &fault_labels(fault), 1);
        }
    }

    /// Takes a snapshot, counts it and returns all metrics as text. Blocks as long as the snapshot takes.
    pub(super) fn scrape(&self, own: DaemonFigures, form: Form) -> Result<String, std::fmt::Error> {
        let mut samples = lock(&self.counted).samples.clone();
        let (listing, locks, lock_faults) = locks::sessions_and_locks(&self.fleet);
        let (fuses, fuse_faults) = agentctl_core::fuses::all(&self.fleet.host);
        samples.extend(sessions(&listing));
        samples.extend(directories(&listing, &locks, &lock_faults));
        if !fuses.is_empty() || fuse_faults.is_empty() {
            samples.add(&table::FUSES, &[], fuses.len() as u64);
            samples.add(&table::FUSES_ACTIVE, &[], fuses.len() as u64);
        }
        for fault in listing.faults.iter().chain(&lock_faults).chain(&fuse_faults) {
            samples.add(&table::FAULTS, &fault_labels(fault), 1);
        }
        samples.extend(daemon_itself(own));
        samples.text(form)
    }
}

fn lock(counted: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counted {
    /// Sets all counters with known labels to 0, so that the first event shows as an increase.
    fn set_to_zero(&mut self) {
        for kind in EventKind::ALL {
            self.samples.add(&table::EVENTS, &[kind.word().into()], 0);
        }
        for adapter in ALL {
            self.samples.add(&table::LAUNCHES, &[adapter.name().into()], 0);
            for outcome in OUTCOMES {
                let labels = [adapter.name().into(), outcome.word().into()];
                self.samples.add(&table::ENDS, &labels, 0);
            }
        }
        for outcome in OUTCOMES {
            self.samples.add(&table::SESSIONS_TOTAL, &[predecessor_status(outcome)], 0);
        }
        self.samples.add(&table::EXPIRED, &[], 0);
        self.samples.add_empty_histogram(&table::DURATION);
        self.samples.add_empty_histogram(&table::LAG);
    }

    /// Counts an event; says whether a session has ended by it for the first time.
    fn count_event(&mut self, event: &Event, now: Time) -> bool {
        self.samples.add(&table::EVENTS, &[event.kind.word().into()], 1);
        if !event.late {
            let lag =
                Duration::from_millis(u64::try_from(now.millis() - event.at.millis()).unwrap_or(0));
            self.samples.observe(&table::LAG, &[], lag.as_secs_f64());
        }
        match (event.kind, &event.session) {
            (EventKind::FuseExpired, _) => self.samples.add(&table::EXPIRED, &[], 1),
            (EventKind::Started, Some(session)) if event.run.is_some() => {
                self.samples.add(&table::LAUNCHES, &[session.adapter.into()], 1);
            }
            (EventKind::Stopped | EventKind::Error, Some(session)) => {
                return self.ended(event, session);
            }
            _ => {}
        }
        false
    }

    fn ended(&mut self, event: &Event, session: &Session) -> bool {
        if self.ends.contains(&event.id) {
            return false;
        }
        if self.ends.len() == MAX_REMEMBERED_ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back(event.id.clone());
        let outcome = session.outcome.unwrap_or(Outcome::Unknown);
        let labels = [session.adapter.into(), outcome.word().into()];
        self.samples.add(&table::ENDS, &labels, 1);
        self.samples.add(&table::SESSIONS_TOTAL, &[predecessor_status(outcome)], 1);
        if let Some(seconds) = duration(session, event) {
            self.samples.observe(&table::DURATION, &[], seconds);
        }
        true
    }
}

/// Returns the value of an outcome in the metrics of the predecessor of this program.
fn predecessor_status(outcome: Outcome) -> Value {
    Cow::Borrowed(match outcome {
        Outcome::Finished => "completed",
        Outcome::Failed => "failed",
        Outcome::Interrupted | Outcome::Killed | Outcome::Unknown => "stopped",
    })
}

fn fault_labels(fault: &Fault) -> [Value; 2] {
    [fault.adapter.into(), fault.code.word().into()]
}

/// Counts live sessions. An adapter with a fault gets no zeros.
fn sessions(listing: &Listing) -> Samples {
    let mut samples = Samples::default();
    let asked = |name: &str| !listing.faults.iter().any(|fault| fault.adapter == name);
    for adapter in ALL.iter().filter(|adapter| asked(adapter.name())) {
        for status in LIVE {
            samples.add(&table::SESSIONS, &[adapter.name().into(), status.word().into()], 0);
        }
    }
    for session in &listing.sessions {
        samples.add(&table::SESSIONS, &[session.adapter.into(), session.status.word().into()], 1);
    }
    let count = listing.sessions.len() as u64;
    if count > 0 || listing.faults.is_empty() {
        samples.add(&table::SESSIONS_ACTIVE, &[], count);
    }
    samples
}

/// Counts locked directories.
fn directories(listing: &Listing, locks: &[Lock], faults: &[Fault]) -> Samples {
    let mut samples = Samples::default();
    for (kind, before, whole) in [
        (LockKind::Occupied, "auto", listing.faults.is_empty()),
        (LockKind::Manual, "manual", faults.is_empty()),
    ] {
        let count = locks.iter().filter(|lock| lock.holder.kind == kind).count() as u64;
        if count > 0 || whole {
            samples.add(&table::LOCKS, &[kind.word().into()], count);
            samples.add(&table::LOCKS_ACTIVE, &[before.into()], count);
        }
    }
    samples
}

/// Returns the metrics about the daemon itself.
fn daemon_itself(own: DaemonFigures) -> Samples {
    let mut samples = Samples::default();
    samples.add(&table::BUILD, &[env!("CARGO_PKG_VERSION").into()], 1);
    let since = Duration::from_millis(u64::try_from(own.since.millis()).unwrap_or(0));
    samples.add_amount(&table::BEGAN, &[], since.as_secs_f64());
    samples.add(&table::SUBSCRIBERS, &[], own.subscribers as u64);
    let mut names = Values::default();
    for webhook in own.webhooks {
        let name = names.name(&webhook.name);
        samples.add(&table::QUEUE, std::slice::from_ref(&name), webhook.queued as u64);
        for (result, count) in [
            ("delivered", webhook.delivered),
            ("failed", webhook.failed),
            ("dropped", webhook.dropped),
        ] {
            samples.add(&table::DELIVERIES, &[name.clone(), result.into()], count);
        }
    }
    samples
}

//! The thread that watches all agents. It passes each event to the event sinks: subscribers on the socket,
//! webhooks, notifications, metrics; and each snapshot to the fuses. No sink can block it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_core::adapters::ALL;
use agentctl_core::events::{Event, Notifier, Seen, Watcher, replay};
use agentctl_core::fleet::Fleet;
use agentctl_core::host::Host;
use agentctl_core::model::Fault;
use agentctl_core::runs::Runs;
use serde_json::json;
use tokio::sync::{broadcast, watch};

use super::fuses::{Fuses, Outlets, Weight};
use super::log::{Level, Log};
use super::metrics::Metrics;
use super::notify::Notify;
use super::webhooks::{Webhooks, World};
use super::{News, Say};
use crate::config::Loaded;
use crate::protocol::{EventText, Notification};

/// Timeout for firing fuses and for undelivered webhooks when the daemon ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout of a subscriber for the first snapshot. Shorter than the client's timeout for an answer.
const FIRST_SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(4);

/// The receivers of every event.
pub(super) struct EventSinks {
    pub(super) events: broadcast::Sender<News>,
    pub(super) webhooks: Webhooks,
    pub(super) notify: Option<Notify>,
    pub(super) metrics: Option<Arc<Metrics>>,
}

impl EventSinks {
    fn send(&self, event: Event) {
        let event = Arc::new(event);
        if let Some(metrics) = &self.metrics {
            metrics.count_event(&event);
        }
        self.webhooks.offer(&event);
        if let Some(notify) = &self.notify {
            notify.offer(&event);
        }
        let text = EventText::new(Arc::clone(&event));
        let Ok(line) = text.and_then(|text| Notification::Event(text).line()) else { return };
        let line = line.into();
        // Fails when there is no subscriber.
        let _no_subscriber = self.events.send(News { event, line });
    }
}

/// Sends the events of fuses to the same sinks.
struct FuseOutlets {
    sinks: Arc<EventSinks>,
    log: Log,
}

impl Outlets for FuseOutlets {
    fn tell(&self, event: Event) {
        self.sinks.send(event);
    }

    fn post(&self, url: &str, event: &Event) -> Result<(), String> {
        self.sinks.webhooks.post_to(url, event)
    }

    fn log(&self, weight: Weight, text: &str) {
        let level = match weight {
            Weight::Note => Level::Info,
            Weight::Warning => Level::Warn,
        };
        self.log.say(level, "fuse", json!({"says": text}));
    }
}

/// A handle to the thread.
pub(super) struct WatchThread {
    pub(super) sinks: Arc<EventSinks>,
    fuses: Arc<Fuses>,
    notifier: Notifier,
    over: Arc<AtomicBool>,
    trouble: Arc<Mutex<Option<String>>>,
    /// True after the first snapshot: every later change becomes an event.
    has_snapshot: watch::Receiver<bool>,
}

impl WatchThread {
    /// Starts the thread.
    pub(super) fn start(
        loaded: Loaded,
        log: &Log,
        (events, metrics): (broadcast::Sender<News>, Option<Arc<Metrics>>),
    ) -> io::Result<Self> {
        let fleet = Fleet::new(loaded.host, ALL);
        let host = &fleet.host;
        let say = say(log);
        let settled = settled(host, log);
        let world = World::new(Arc::clone(host), settled, Arc::clone(&say));
        let webhooks = Webhooks::start(loaded.webhooks, &world)?;
        let notify =
            loaded.notify.map(|settings| Notify::start(settings, host, say)).transpose()?;
        let sinks = Arc::new(EventSinks { events, webhooks, notify, metrics });
        let words = FuseOutlets { sinks: Arc::clone(&sinks), log: log.clone() };
        let fuses = Arc::new(Fuses::start(fleet.clone(), Arc::new(words))?);
        let watcher = Watcher::new(fleet.clone())?;
        let (has_snapshot_sender, has_snapshot) = watch::channel(false);
        let watch_thread = Self {
            has_snapshot,
            notifier: watcher.notifier(),
            over: Arc::default(),
            trouble: Arc::default(),
            fuses: Arc::clone(&fuses),
            sinks: Arc::clone(&sinks),
        };
        let mut watch_loop = WatchLoop {
            fleet,
            sinks,
            fuses,
            log: log.clone(),
            over: Arc::clone(&watch_thread.over),
            trouble: Arc::clone(&watch_thread.trouble),
            faults: Vec::new(),
            has_snapshot: has_snapshot_sender,
        };
        std::thread::Builder::new()
            .name("watcher".into())
            .spawn(move || watch_loop.run(watcher))?;
        Ok(watch_thread)
    }

    /// Waits for the first snapshot, at most [`FIRST_SNAPSHOT_TIMEOUT`]. Events are differences to it, so a
    /// subscriber that starts earlier would miss the changes before it.
    pub(super) async fn first_snapshot(&self) {
        let mut has_snapshot = self.has_snapshot.clone();
        // `wait_for` fails when the thread has ended; there will be no snapshot then.
        let _late = tokio::time::timeout(FIRST_SNAPSHOT_TIMEOUT, has_snapshot.wait_for(|has| *has))
            .await
            .is_err();
    }

    /// Says why changes may be noticed late, if a wake-up source is unavailable.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the thread, and waits for fuses and webhooks at most [`SHUTDOWN_TIMEOUT`].
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.notifier.notify();
        let _unfinished = self.fuses.stop(SHUTDOWN_TIMEOUT);
        self.sinks.webhooks.stop(SHUTDOWN_TIMEOUT);
    }
}

struct WatchLoop {
    fleet: Fleet,
    sinks: Arc<EventSinks>,
    fuses: Arc<Fuses>,
    log: Log,
    over: Arc<AtomicBool>,
    trouble: Arc<Mutex<Option<String>>>,
    faults: Vec<Fault>,
    has_snapshot: watch::Sender<bool>,
}

impl WatchLoop {
    fn run(&mut self, mut watcher: Watcher) {
        // Snapshot first, run folders second: the end of a run in between is reported twice, with the same id.
        // In the other order it would be lost.
        let seen = watcher.look();
        self.has_snapshot.send_replace(true);
        self.record(seen, watcher.trouble());
        for (_, event) in replay::unannounced(&self.fleet) {
            self.sinks.send(event);
        }
        while !self.over.load(Ordering::SeqCst) {
            if let Err(error) = watcher.wait(Duration::MAX) {
                self.log.say(Level::Error, "watch", json!({"error": error.to_string()}));
                std::thread::park_timeout(Duration::from_secs(1));
            }
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let mut seen = watcher.look();
            for event in std::mem::take(&mut seen.events) {
                self.sinks.send(event);
            }
            self.record(seen, watcher.trouble());
        }
    }

    fn record(&mut self, seen: Seen, trouble: Option<&str>) {
        let fresh = || seen.faults.iter().filter(|fault| !self.faults.contains(fault));
        if let Some(metrics) = &self.sinks.metrics {
            metrics.count_snapshot(&seen.took, &seen.listing.faults, fresh());
        }
        for fault in fresh() {
            self.log.warn("fault", json!({"fault": fault}));
        }
        self.fuses.looked(Arc::new(seen.listing));
        self.faults = seen.faults;
        let mut known = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() != trouble {
            self.log.warn("late", json!({"trouble": trouble}));
            *known = trouble.map(str::to_owned);
        }
    }
}

fn say(log: &Log) -> Say {
    let log = log.clone();
    Arc::new(move |text: &str| log.info("says", json!({"says": text})))
}

/// Returns the function that marks the end of a run as announced, after every webhook has taken it or was
/// given up for it. The next daemon does not announce it again.
fn settled(host: &Arc<Host>, log: &Log) -> super::webhooks::Settled {
    let (runs, log) = (Runs::of(host), log.clone());
    Arc::new(move |event: &Event| {
        let Some(run) = replay::run_that_ended(event) else { return };
        if let Err(error) = runs.run(run).announce() {
            log.warn("announce", json!({"run": run, "error": error.to_string()}));
        }
    })
}

//! One thread looks, and everybody who reacts to an edge is told: listeners on the socket, webhooks,
//! notifications, fuses, metrics. None of them can hold it up.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_core::adapters::ALL;
use agentctl_core::events::{Event, Notifier, Seen, Watcher, replay};
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

/// When the daemon ends, what is on its way has this long.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A listener waits so long for the first look: less than it waits for an answer.
const FIRST_LOOK: Duration = Duration::from_secs(4);

/// Everybody who hears of an edge.
pub(super) struct Ears {
    pub(super) events: broadcast::Sender<News>,
    pub(super) webhooks: Webhooks,
    pub(super) notify: Option<Notify>,
    pub(super) metrics: Option<Arc<Metrics>>,
}

impl Ears {
    fn hear(&self, event: Event) {
        let event = Arc::new(event);
        if let Some(metrics) = &self.metrics {
            metrics.heard(&event);
        }
        self.webhooks.offer(&event);
        if let Some(notify) = &self.notify {
            notify.offer(&event);
        }
        let Ok(told) = crate::text::json_line(&*event) else { return };
        let line =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{told}}}\n").into();
        // Nobody may be listening.
        let _nobody = self.events.send(News { event, line });
    }
}

/// What fuses tell goes the same way.
struct FuseWords {
    ears: Arc<Ears>,
    log: Log,
}

impl Outlets for FuseWords {
    fn tell(&self, event: Event) {
        self.ears.hear(event);
    }

    fn post(&self, url: &str, event: &Event) -> Result<(), String> {
        self.ears.webhooks.post_to(url, event)
    }

    fn log(&self, weight: Weight, text: &str) {
        let level = match weight {
            Weight::Note => Level::Info,
            Weight::Warning => Level::Warn,
        };
        self.log.say(level, "fuse", json!({"says": text}));
    }
}

/// The thread that looks, and what it tells about itself.
pub(super) struct Awake {
    pub(super) ears: Arc<Ears>,
    fuses: Arc<Fuses>,
    bell: Notifier,
    over: Arc<AtomicBool>,
    trouble: Arc<Mutex<Option<String>>>,
    /// The first look was taken: every change from then on is told.
    begun: watch::Receiver<bool>,
}

impl Awake {
    /// Begins to look.
    pub(super) fn start(
        loaded: Loaded,
        log: &Log,
        (events, metrics): (broadcast::Sender<News>, Option<Arc<Metrics>>),
    ) -> io::Result<Self> {
        let host = loaded.host;
        let say = say(log);
        let settled = settled(&host, log);
        let world = World::new(Arc::clone(&host), settled, Arc::clone(&say));
        let webhooks = Webhooks::start(loaded.webhooks, &world)?;
        let notify =
            loaded.notify.map(|settings| Notify::start(settings, &host, say)).transpose()?;
        let ears = Arc::new(Ears { events, webhooks, notify, metrics });
        let words = FuseWords { ears: Arc::clone(&ears), log: log.clone() };
        let fuses = Arc::new(Fuses::start(Arc::clone(&host), ALL, Arc::new(words))?);
        let watcher = Watcher::new(Arc::clone(&host), ALL)?;
        let (begins, begun) = watch::channel(false);
        let awake = Self {
            begun,
            bell: watcher.bell(),
            over: Arc::default(),
            trouble: Arc::default(),
            fuses: Arc::clone(&fuses),
            ears: Arc::clone(&ears),
        };
        let mut sentry = Sentry {
            host,
            ears,
            fuses,
            log: log.clone(),
            over: Arc::clone(&awake.over),
            trouble: Arc::clone(&awake.trouble),
            faults: Vec::new(),
            begins,
        };
        std::thread::Builder::new().name("watcher".into()).spawn(move || sentry.watch(watcher))?;
        Ok(awake)
    }

    /// Waits for the first look, with which everything later is compared: a listener that is told to go
    /// ahead before that would miss what changes until then. A source that hangs is not waited for long.
    pub(super) async fn first_look(&self) {
        let mut begun = self.begun.clone();
        // It fails only when the thread that looks has gone: then there is nothing to wait for.
        let _late = tokio::time::timeout(FIRST_LOOK, begun.wait_for(|begun| *begun)).await.is_err();
    }

    /// Says why changes may be seen late, if they may.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks no more; what is on its way has a moment.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.bell.notify();
        let _unfinished = self.fuses.stop(LAST_WORDS);
        self.ears.webhooks.stop(LAST_WORDS);
    }
}

struct Sentry {
    host: Arc<Host>,
    ears: Arc<Ears>,
    fuses: Arc<Fuses>,
    log: Log,
    over: Arc<AtomicBool>,
    trouble: Arc<Mutex<Option<String>>>,
    faults: Vec<Fault>,
    begins: watch::Sender<bool>,
}

impl Sentry {
    fn watch(&mut self, mut watcher: Watcher) {
        // Looked first, remembered second: an end in between is told twice, under one id, not never.
        let seen = watcher.look();
        self.begins.send_replace(true);
        self.take_in(seen, watcher.trouble());
        for (_, event) in replay::unannounced(&self.host, ALL) {
            self.ears.hear(event);
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
                self.ears.hear(event);
            }
            self.take_in(seen, watcher.trouble());
        }
    }

    fn take_in(&mut self, seen: Seen, trouble: Option<&str>) {
        let fresh = || seen.faults.iter().filter(|fault| !self.faults.contains(fault));
        if let Some(metrics) = &self.ears.metrics {
            metrics.looked(&seen.took, &seen.listing.faults, fresh());
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

/// A run's end that everybody has heard is marked so: the next daemon need not tell it.
fn settled(host: &Arc<Host>, log: &Log) -> super::webhooks::Settled {
    let (runs, log) = (Runs::of(host), log.clone());
    Arc::new(move |event: &Event| {
        let Some(run) = replay::run_that_ended(event) else { return };
        if let Err(error) = runs.run(run).announce() {
            log.warn("announce", json!({"run": run, "error": error.to_string()}));
        }
    })
}

//! The daemon: a process that watches all agents, sends events and answers questions faster. It owns no
//! session: kill it or delete its directory, and no answer changes.
//!
//! One thread watches (`watch_thread`), one thread serves the connections (`socket`). Events go through a
//! bounded broadcast channel: a slow subscriber loses events and delays no other.

mod answers;
pub mod fuses;
mod lists;
mod log;
pub mod metrics;
pub mod notify;
mod ready;
pub mod service;
mod socket;
mod watch_thread;
pub mod webhooks;

use std::fs::File;
use std::io;
use std::sync::Arc;

use agentctl_core::events::Event;
use agentctl_core::host::Host;
use agentctl_core::kernel;
use agentctl_core::locks;
use agentctl_core::model::Fault;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, broadcast};

use self::answers::{Answer, Answers};
pub use self::log::Log;
use self::metrics::server::{self as metrics_server, MetricsServer};
pub use self::ready::report_refusal;
use self::watch_thread::WatchThread;
use crate::config::Loaded;
use crate::place::{Instance, Place};
use crate::protocol::DaemonStatus;
use crate::protocol::{Encoding, PROTOCOL, Welcome};

/// Writes one sentence to the log. The sentence contains no secret and no control character.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// Capacity of the event channel; a subscriber that is further behind loses events.
const EVENT_CHANNEL_CAPACITY: usize = 1024;
/// Maximum number of questions that are answered at once; further questions wait.
const MAX_CONCURRENT_QUESTIONS: usize = 8;

/// An event and its line on the socket, serialised once for all subscribers.
#[derive(Clone, Debug)]
pub struct News {
    /// The event.
    pub event: Arc<Event>,
    /// The JSON-RPC notification, with its newline.
    pub line: Arc<str>,
}

/// The state that all parts of the daemon share.
pub(crate) struct Hub {
    host: Arc<Host>,
    place: Place,
    log: Log,
    answers: Answers,
    welcome: Welcome,
    watch_thread: WatchThread,
    metrics: Option<MetricsServer>,
    /// The settings that could not be read.
    left_out: Vec<Fault>,
    ending: Notify,
}

impl Hub {
    /// Ends the daemon.
    fn end(&self) {
        self.ending.notify_one();
    }

    /// Returns the status, with sessions, locks and fuses counted now.
    async fn status(&self) -> Answer {
        let mut status = DaemonStatus::absent(
            self.place.socket().display().to_string(),
            self.place.log().display().to_string(),
        );
        status.set_daemon(&self.welcome);
        status.subscribers = Some(self.watch_thread.sinks.events.receiver_count() as u64);
        status.trouble = self.watch_thread.trouble();
        status.webhooks = self.watch_thread.sinks.webhooks.status();
        status.notify = self.watch_thread.sinks.notify.as_ref().map(notify::Notify::status);
        status.metrics = self.metrics.as_ref().map(MetricsServer::status);
        let left_out = self.left_out.clone();
        self.answers
            .blocking(move |fleet| {
                let (listing, locks, _) = locks::sessions_and_locks(fleet);
                status.count(listing);
                status.faults.extend(left_out);
                status.locks = Some(locks.len() as u64);
                status.fuses = Some(agentctl_core::fuses::all(&fleet.host).0.len() as u64);
                answers::raw(&status)
            })
            .await
    }
}

/// Serves until it is told to end. Calls `serving` once it serves, with the reason if metrics are not served.
pub fn run(
    mut loaded: Loaded,
    place: &Place,
    right: &Arc<Instance>,
    ready: Option<File>,
    serving: impl FnOnce(Option<String>),
) -> io::Result<()> {
    let log = Log::open(&place.log(), loaded.host.clock)?;
    kernel::keep_memory_together();
    // A long-lived process profits from a cache of the files it has read.
    loaded.host = Arc::new(Host { file_cache: Some(Arc::default()), ..Host::clone(&loaded.host) });
    log_panics(&log);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(MAX_CONCURRENT_QUESTIONS)
        .build()?;
    let served = runtime.block_on(serve(loaded, place, right, (log.clone(), ready), serving));
    // Do not wait for a thread that hangs in a system call.
    runtime.shutdown_background();
    log.info("ended", json!({"error": served.as_ref().err().map(ToString::to_string)}));
    served
}

async fn serve(
    mut loaded: Loaded,
    place: &Place,
    right: &Arc<Instance>,
    (log, ready): (Log, Option<File>),
    serving: impl FnOnce(Option<String>),
) -> io::Result<()> {
    let host = Arc::clone(&loaded.host);
    for warning in loaded.warnings.iter().chain(&loaded.missing_secrets()) {
        log.warn("config", json!({"says": warning}));
    }
    let left_out = loaded.leave_out_broken();
    for fault in &left_out {
        log.warn("config", json!({"says": fault.message}));
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let listener = place.listen(right)?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let welcome = Welcome {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        fingerprint: crate::client::fingerprint(&host),
        pid: std::process::id(),
        since: host.now(),
        encoding: Encoding::default(),
    };
    let metrics = loaded.metrics.take().map(|s| MetricsServer::new(s, &host)).transpose()?;
    let counters = metrics.as_ref().map(|server| Arc::clone(&server.metrics));
    let hub = Arc::new(Hub {
        place: place.clone(),
        answers: Answers::new(loaded.fleet()),
        watch_thread: WatchThread::start(
            loaded,
            &log,
            (broadcast::channel(EVENT_CHANNEL_CAPACITY).0, counters),
        )?,
        metrics,
        left_out,
        host,
        welcome,
        log,
        ending: Notify::new(),
    });
    // The lock file keeps out a second daemon. If its directory is deleted, the lock is worthless: end.
    let (lost, guarded) = (Arc::clone(&hub), Arc::clone(right));
    std::thread::Builder::new().name("guard".into()).spawn(move || {
        guarded.wait_until_lost();
        lost.log
            .warn("wiped", json!({"hint": "the directory was removed; another daemon may serve"}));
        lost.end();
    })?;
    hub.log.info("serving", json!({"pid": hub.welcome.pid, "socket": place.socket()}));
    tokio::spawn(socket::serve(listener, Arc::clone(&hub)));
    metrics_server::open(&hub).await;
    serving(hub.metrics.as_ref().and_then(|server| server.status().trouble));
    // A change after `daemon start` has returned is an event: the snapshot that it differs from is there.
    hub.watch_thread.first_snapshot().await;
    ready::report_ready(ready, hub.host.var("NOTIFY_SOCKET"));
    tokio::select! {
        () = hub.ending.notified() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    hub.watch_thread.end();
    Ok(())
}

/// Logs every panic. A panic ends one thread or task; the others go on.
fn log_panics(log: &Log) {
    let log = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        log.say(log::Level::Error, "panic", json!({"says": panic.to_string()}));
    }));
}

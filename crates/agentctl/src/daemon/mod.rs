//! The daemon: somebody awake. It fans questions out, merges answers and pushes edges; it owns no session.
//!
//! Kill it, wipe its directory, and no answer changes. One thread looks (`awake`), one thread serves
//! connections; both hear of edges on one bounded channel, so whoever is slow falls behind alone.

mod answers;
mod awake;
pub mod fuses;
pub mod http;
mod lists;
mod log;
pub mod metrics;
pub mod notify;
pub mod service;
mod socket;
pub mod start;
pub mod status;
pub mod webhooks;

use std::fs::File;
use std::io;
use std::sync::Arc;

use agentctl_core::events::Event;
use agentctl_core::host::Host;
use agentctl_core::kernel;
use agentctl_core::locks;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, broadcast};

use self::answers::{Answer, Answers};
use self::awake::Awake;
use self::http::Desk;
pub use self::log::Log;
use self::status::DaemonStatus;
use crate::config::Loaded;
use crate::place::{Instance, Place};
use crate::protocol::{PROTOCOL, Welcome};

/// Where one sentence for the log goes. It holds no secret and no control character.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// So many edges may be unread before a slow reader loses some.
const NEWS_MOST: usize = 1024;
/// So many questions may block at once; the others wait for their turn.
const QUESTIONS_MOST: usize = 8;

/// An edge, and how it is written on the socket: once for all.
#[derive(Clone, Debug)]
pub struct News {
    /// The edge.
    pub event: Arc<Event>,
    /// Its line.
    pub line: Arc<str>,
}

/// What every part of the daemon shares.
pub(crate) struct Hub {
    host: Arc<Host>,
    place: Place,
    log: Log,
    answers: Answers,
    welcome: Welcome,
    awake: Awake,
    metrics: Option<Desk>,
    ending: Notify,
}

impl Hub {
    /// Makes the daemon end.
    fn end(&self) {
        self.ending.notify_one();
    }

    /// Counts what there is now.
    async fn status(&self) -> Answer {
        let mut status = DaemonStatus::absent(
            self.place.socket().display().to_string(),
            self.place.log().display().to_string(),
        );
        status.served(&self.welcome);
        status.subscribers = Some(self.awake.ears.events.receiver_count() as u64);
        status.trouble = self.awake.trouble();
        status.webhooks = self.awake.ears.webhooks.status();
        status.notify = self.awake.ears.notify.as_ref().map(notify::Notify::status);
        status.metrics = self.metrics.as_ref().map(Desk::status);
        self.answers
            .blocking(move |fleet| {
                let (listing, locks, _) = locks::survey(&fleet.host, fleet.adapters);
                status.count(listing);
                status.locks = Some(locks.len() as u64);
                status.fuses = Some(agentctl_core::fuses::all(&fleet.host).0.len() as u64);
                answers::raw(&status)
            })
            .await
    }
}

/// Serves until told to end. Once it does, somebody hears of it, and why metrics are not served if so.
pub fn run(
    mut loaded: Loaded,
    place: &Place,
    right: &Arc<Instance>,
    ready: Option<File>,
    serving: impl FnOnce(Option<String>),
) -> io::Result<()> {
    let log = Log::open(&place.log(), loaded.host.clock)?;
    kernel::keep_memory_together();
    // Somebody who stays awake remembers.
    loaded.host = Arc::new(Host { memo: Some(Arc::default()), ..Host::clone(&loaded.host) });
    log_panics(&log);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(QUESTIONS_MOST)
        .build()?;
    let served = runtime.block_on(serve(loaded, place, right, (log.clone(), ready), serving));
    // A question that hangs in the kernel is not waited for.
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
    for warning in &loaded.warnings {
        log.warn("config", json!({"says": warning}));
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
    };
    let metrics = loaded.metrics.take().map(|wished| Desk::new(wished, &host)).transpose()?;
    let counters = metrics.as_ref().map(|desk| Arc::clone(&desk.metrics));
    let hub = Arc::new(Hub {
        place: place.clone(),
        answers: Answers::new(loaded.fleet()),
        awake: Awake::start(loaded, &log, (broadcast::channel(NEWS_MOST).0, counters))?,
        metrics,
        host,
        welcome,
        log,
        ending: Notify::new(),
    });
    // Until it ends nobody else has the right to serve here, unless somebody wipes the directory.
    let (lost, guarded) = (Arc::clone(&hub), Arc::clone(right));
    std::thread::Builder::new().name("guard".into()).spawn(move || {
        guarded.wait_until_lost();
        lost.log
            .warn("wiped", json!({"hint": "the directory was removed; another daemon may serve"}));
        lost.end();
    })?;
    hub.log.info("serving", json!({"pid": hub.welcome.pid, "socket": place.socket()}));
    tokio::spawn(socket::serve(listener, Arc::clone(&hub)));
    http::open(&hub).await;
    serving(hub.metrics.as_ref().and_then(|desk| desk.status().trouble));
    start::tell(ready, hub.host.var("NOTIFY_SOCKET"));
    tokio::select! {
        () = hub.ending.notified() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    hub.awake.end();
    Ok(())
}

/// A part that breaks is written down; the others go on.
fn log_panics(log: &Log) {
    let log = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        log.say(log::Level::Error, "panic", json!({"says": panic.to_string()}));
    }));
}

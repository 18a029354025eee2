//! Webhooks: posts every event to each endpoint that wants it, at least once, always with the same id.
//!
//! Each endpoint has its own thread and bounded queue, so that a slow endpoint delays no other, and offering
//! an event never blocks. Queues are not on disk: the end of a run that was not delivered when the daemon
//! ends stays unannounced, and the next daemon sends it again.

mod address;
mod first_seen;
mod payload;
mod post;
mod queue;
mod signature;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use agentctl_core::events::Event;
use agentctl_core::host::Host;
use agentctl_core::model::Time;

pub use self::address::{Lookup, system_lookup};
pub use self::payload::{body, duration};
pub use self::queue::RetryPolicy;
pub use self::signature::{Signing, headers};

use self::post::{DeliveryError, Post};
use self::queue::{Entry, Queue};
use super::Say;
use crate::config::WebhookEndpoint;
use crate::protocol::WebhookStatus;

/// Maximum number of queued events per endpoint.
pub const MAX_QUEUED: usize = 1000;

/// Called with each event that is settled: every endpoint that wants it has taken it or was given up for it.
pub type Settled = Arc<dyn Fn(&Event) + Send + Sync>;

/// The environment of deliveries; tests replace parts of it.
#[derive(Clone)]
pub struct World {
    /// Clock, environment and user.
    pub host: Arc<Host>,
    /// Resolves host names.
    pub lookup: Lookup,
    /// Intervals and limits of retries.
    pub retry: RetryPolicy,
    /// Maximum number of queued events per endpoint.
    pub queue: usize,
    /// Called when an event is settled: on the thread of the last endpoint, or inside [`Webhooks::offer`]
    /// when no endpoint wants it.
    pub settled: Settled,
    /// Writes a sentence to the log.
    pub say: Say,
}

impl World {
    /// Returns the environment of the daemon.
    #[must_use]
    pub fn new(host: Arc<Host>, settled: Settled, say: Say) -> Self {
        Self {
            host,
            lookup: system_lookup(),
            retry: RetryPolicy::default(),
            queue: MAX_QUEUED,
            settled,
            say,
        }
    }
}

/// Maximum number of endpoints for URLs that only fuses name. Each has a thread.
pub const MAX_FUSE_ENDPOINTS: usize = 32;

/// Returns the index of the endpoint to close for a new one: the oldest with an empty queue, one without
/// failures first, because `daemon status` still shows the failures of the others.
fn longest_idle(named: &[Arc<EndpointWorker>]) -> Option<usize> {
    let idle = (0..named.len()).filter(|at| named[*at].queue.len() == 0);
    idle.min_by_key(|at| (named[*at].status().failed > 0, *at))
}

/// The endpoints and their threads.
pub struct Webhooks {
    workers: Vec<Arc<EndpointWorker>>,
    /// Endpoints for URLs that only fuses name, started when first needed.
    named: Mutex<Vec<Arc<EndpointWorker>>>,
    world: World,
}

/// One endpoint, shared by its thread and the callers of [`Webhooks`].
struct EndpointWorker {
    endpoint: Arc<WebhookEndpoint>,
    /// When a daemon first served it; `None` for a URL that only a fuse names.
    first_seen: Option<Time>,
    queue: Queue,
    status: Mutex<WebhookStatus>,
    post: Post,
    say: Say,
    retry: RetryPolicy,
}

/// Counts how many endpoints have not settled an event yet.
struct Ticket {
    event: Arc<Event>,
    open: AtomicUsize,
    lost: AtomicBool,
    settled: Settled,
}

impl Ticket {
    fn close(&self) {
        let last = self.open.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && !self.lost.load(Ordering::Acquire) {
            (self.settled)(&self.event);
        }
    }

    /// Closes the ticket for an endpoint whose queue dropped the event: the event is never settled.
    fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.close();
    }
}

impl Webhooks {
    /// Starts a thread for each endpoint. The threads sleep until an event is offered.
    pub fn start(endpoints: Vec<WebhookEndpoint>, world: &World) -> std::io::Result<Self> {
        let (times, stored) = first_seen::first_seen(&world.host, &endpoints);
        if let Err(why) = stored {
            (world.say)(&format!(
                "webhooks: the time they were first configured could not be stored: {why}"
            ));
        }
        let workers = endpoints.into_iter().zip(times);
        let workers =
            workers.map(|(endpoint, at)| EndpointWorker::start(endpoint, Some(at), world));
        let workers = workers.collect::<std::io::Result<_>>()?;
        Ok(Self { workers, named: Mutex::default(), world: world.clone() })
    }

    /// Queues an event for a URL that a fuse names. It is signed only if the URL is a configured endpoint.
    pub fn post_to(&self, url: &str, event: &Event) -> Result<(), String> {
        let endpoint = WebhookEndpoint::parse(url)?;
        let same = |worker: &&Arc<EndpointWorker>| worker.endpoint.url() == endpoint.url();
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.workers.iter().chain(&*named).find(same);
        let worker = match known {
            Some(worker) => Arc::clone(worker),
            None => {
                if let Some(why) = endpoint.never() {
                    return Err(format!("{why}; name it in [[webhooks]] first"));
                }
                if named.len() >= MAX_FUSE_ENDPOINTS {
                    let Some(idle) = longest_idle(&named) else {
                        return Err(format!(
                            "{MAX_FUSE_ENDPOINTS} other addresses are still being tried"
                        ));
                    };
                    named.remove(idle).queue.close(Instant::now());
                }
                let worker = EndpointWorker::start(endpoint, None, &self.world)
                    .map_err(|e| e.to_string())?;
                named.push(Arc::clone(&worker));
                worker
            }
        };
        let ticket = Arc::new(Ticket {
            event: Arc::new(event.clone()),
            open: AtomicUsize::new(1),
            lost: AtomicBool::new(false),
            settled: Arc::clone(&self.world.settled),
        });
        worker.count_dropped(worker.queue.offer(Entry::new(ticket)));
        Ok(())
    }

    fn all(&self) -> Vec<Arc<EndpointWorker>> {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        self.workers.iter().chain(&*named).cloned().collect()
    }

    /// Puts an event into the queue of every endpoint that wants it. Never blocks.
    pub fn offer(&self, event: &Arc<Event>) {
        let wanted: Vec<_> = self.workers.iter().filter(|worker| worker.wants(event)).collect();
        if wanted.is_empty() {
            (self.world.settled)(event);
            return;
        }
        let ticket = Arc::new(Ticket {
            event: Arc::clone(event),
            open: AtomicUsize::new(wanted.len()),
            lost: AtomicBool::new(false),
            settled: Arc::clone(&self.world.settled),
        });
        for worker in wanted {
            worker.count_dropped(worker.queue.offer(Entry::new(Arc::clone(&ticket))));
        }
    }

    /// Returns the status of each endpoint.
    #[must_use]
    pub fn status(&self) -> Vec<WebhookStatus> {
        let now = |worker: &Arc<EndpointWorker>| WebhookStatus {
            queued: worker.queue.len(),
            ..worker.status().clone()
        };
        self.all().iter().map(now).collect()
    }

    /// Tries queued events that were never tried, at most for `limit`; then aborts running requests. Events
    /// that are not delivered stay unsettled; events offered later are not delivered.
    pub fn stop(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let workers = self.all();
        for worker in &workers {
            worker.queue.close(until);
        }
        for worker in &workers {
            if !worker.queue.has_ended(until) {
                worker.post.abort();
            }
        }
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.workers.iter().map(|worker| &worker.endpoint)).finish()
    }
}

impl EndpointWorker {
    /// Starts the thread of an endpoint. It sleeps until an event is offered.
    fn start(
        endpoint: WebhookEndpoint,
        first_seen: Option<Time>,
        world: &World,
    ) -> std::io::Result<Arc<Self>> {
        let endpoint = Arc::new(endpoint);
        let post = Post::new(Arc::clone(&endpoint), world);
        let status = WebhookStatus { name: endpoint.name.clone(), ..WebhookStatus::default() };
        let worker = Arc::new(Self {
            endpoint,
            first_seen,
            queue: Queue::new(world.queue),
            status: Mutex::new(status),
            post,
            say: Arc::clone(&world.say),
            retry: world.retry,
        });
        let running = Arc::clone(&worker);
        std::thread::Builder::new().name("webhook".into()).spawn(move || running.work())?;
        Ok(worker)
    }

    /// Says whether an event is posted to it: its filters admit the event, and it is no late event from before
    /// the endpoint was configured.
    fn wants(&self, event: &Event) -> bool {
        let is_older = self.first_seen.is_some_and(|first_seen| event.at < first_seen);
        self.endpoint.wants(event) && !(event.late && is_older)
    }

    fn status(&self) -> std::sync::MutexGuard<'_, WebhookStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let _end_guard = self.queue.end_guard();
        while let Some(entry) = self.queue.next() {
            match self.post.post(&entry.ticket.event) {
                Ok(at) => self.delivered(entry, at),
                Err(error) => self.failed(entry, error),
            }
        }
    }

    fn delivered(&self, entry: Entry, at: Time) {
        self.queue.answered();
        self.queue.done();
        let recovered = {
            let mut status = self.status();
            status.attempts += 1;
            status.delivered += 1;
            status.last_success_at.replace(at) < status.last_error_at
        };
        if recovered {
            self.log("it takes events again");
        }
        entry.ticket.close();
    }

    fn failed(&self, entry: Entry, error: DeliveryError) {
        let fresh = {
            let mut status = self.status();
            status.attempts += 1;
            let fresh = status.last_error_at <= status.last_success_at;
            status.last_error_at = Some(error.at);
            status.last_error = Some(error.what.clone());
            fresh
        };
        if self.queue.is_closed() {
            // The request was aborted by `stop`: neither delivered nor given up.
            return;
        }
        let asked = error.retry_after.unwrap_or_default().min(self.retry.max_interval);
        if error.unreachable {
            self.queue.back_off(self.retry, asked);
        } else {
            self.queue.answered();
        }
        if error.gone || entry.age() >= self.retry.span {
            self.queue.done();
            self.status().failed += 1;
            self.log(&format!("event {} is given up: {}", entry.ticket.event.id, error.what));
            entry.ticket.close();
            return;
        }
        if fresh {
            self.log(&format!("{}; it is tried again", error.what));
        }
        // A backoff of the whole endpoint replaces the retry interval of the event.
        let wait =
            if error.unreachable { Duration::ZERO } else { self.retry.wait(entry.attempts + 1) };
        self.count_dropped(self.queue.retry(entry, wait.max(asked)));
    }

    /// Counts an event that the queue dropped; it stays unsettled.
    fn count_dropped(&self, dropped: Option<Entry>) {
        let Some(entry) = dropped else { return };
        let first = {
            let mut status = self.status();
            status.dropped += 1;
            status.dropped == 1
        };
        if first {
            self.log("its queue is full; the oldest events are dropped");
        }
        entry.ticket.lose();
    }

    fn log(&self, what: &str) {
        (self.say)(&crate::text::one_line(&format!("webhook {}: {what}", self.endpoint.name)));
    }
}

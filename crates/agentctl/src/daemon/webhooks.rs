//! Webhooks: every edge that an endpoint wants is posted to it, at least once, under one id.
//!
//! Each endpoint has a thread and a bounded queue of its own, so that none waits for another, and
//! whoever offers an event waits for nobody. Nothing is kept on disk: what was not delivered when the
//! daemon ends was not told, and the next daemon tells what runs remember of it.

mod address;
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
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::address::{Lookup, system_lookup};
pub use self::payload::{body, duration};
pub use self::queue::Pace;
pub use self::signature::{Signing, headers};

use self::post::{Post, Trouble};
use self::queue::{Entry, Queue};
use super::Say;
use crate::config::WebhookEndpoint;

/// So many events wait for one endpoint at most.
pub const QUEUE: usize = 1000;

/// Is told about each event that every endpoint that wants it has heard or has been given up for.
pub type Settled = Arc<dyn Fn(&Event) + Send + Sync>;

/// What deliveries need of the world.
#[derive(Clone)]
pub struct World {
    /// Its clock, its environment, its user.
    pub host: Arc<Host>,
    /// Who turns a name into addresses.
    pub lookup: Lookup,
    /// How often and how long it is tried.
    pub pace: Pace,
    /// Events that wait for one endpoint at most.
    pub queue: usize,
    /// Who hears that an event is settled. Called on the thread of the last endpoint, or of the offer
    /// when nobody wants it.
    pub settled: Settled,
    /// The log.
    pub say: Say,
}

impl World {
    /// The real one.
    #[must_use]
    pub fn new(host: Arc<Host>, settled: Settled, say: Say) -> Self {
        Self { host, lookup: system_lookup(), pace: Pace::default(), queue: QUEUE, settled, say }
    }
}

/// How it stands with one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct WebhookStatus {
    /// What it is called: never its whole address, which may be a secret.
    pub name: String,
    /// Events that wait or are on their way.
    pub queued: usize,
    /// Events it has taken.
    pub delivered: u64,
    /// Events it was given up for, after the time for retries.
    pub failed: u64,
    /// Events that found no room in the queue.
    pub dropped: u64,
    /// Deliveries tried, retries counted.
    pub attempts: u64,
    /// When it last took one.
    pub last_success_at: Option<Time>,
    /// When it last failed.
    pub last_error_at: Option<Time>,
    /// What went wrong then.
    pub last_error: Option<String>,
}

/// So many addresses that fuses named are kept at once, each with a thread.
pub const NAMED_MOST: usize = 32;

/// Returns which has nothing to deliver: one that never failed before one whose failures are still shown.
fn longest_idle(named: &[Arc<Line>]) -> Option<usize> {
    let idle = (0..named.len()).filter(|at| named[*at].queue.len() == 0);
    idle.min_by_key(|at| (named[*at].known().failed > 0, *at))
}

/// The endpoints and their threads.
pub struct Webhooks {
    lines: Vec<Arc<Line>>,
    /// Addresses that fuses named, each once it was needed.
    named: Mutex<Vec<Arc<Line>>>,
    world: World,
}

/// One endpoint, shared by its thread and whoever offers.
struct Line {
    endpoint: Arc<WebhookEndpoint>,
    queue: Queue,
    status: Mutex<WebhookStatus>,
    post: Post,
    say: Say,
    pace: Pace,
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

    /// It found no room: somebody never heard it, so it stays untold.
    fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.close();
    }
}

impl Webhooks {
    /// Starts a thread for each endpoint. They sleep until something is offered.
    pub fn start(endpoints: Vec<WebhookEndpoint>, world: &World) -> std::io::Result<Self> {
        let lines = endpoints.into_iter().map(|endpoint| Line::start(endpoint, world));
        let lines = lines.collect::<std::io::Result<_>>()?;
        Ok(Self { lines, named: Mutex::default(), world: world.clone() })
    }

    /// Posts one event to an address that a fuse names: signed if it is one of the endpoints', else not.
    pub fn post_to(&self, url: &str, event: &Event) -> Result<(), String> {
        let endpoint = WebhookEndpoint::parse(url)?;
        let same = |line: &&Arc<Line>| line.endpoint.url() == endpoint.url();
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.lines.iter().chain(&*named).find(same);
        let line = match known {
            Some(line) => Arc::clone(line),
            None => {
                if let Some(why) = endpoint.never() {
                    return Err(format!("{why}; name it in [[webhooks]] first"));
                }
                if named.len() >= NAMED_MOST {
                    let Some(idle) = longest_idle(&named) else {
                        return Err(format!("{NAMED_MOST} other addresses are still being tried"));
                    };
                    named.remove(idle).queue.close(Instant::now());
                }
                let line = Line::start(endpoint, &self.world).map_err(|e| e.to_string())?;
                named.push(Arc::clone(&line));
                line
            }
        };
        let ticket = Arc::new(Ticket {
            event: Arc::new(event.clone()),
            open: AtomicUsize::new(1),
            lost: AtomicBool::new(false),
            settled: Arc::clone(&self.world.settled),
        });
        line.make_room(line.queue.offer(Entry::new(ticket)));
        Ok(())
    }

    fn all(&self) -> Vec<Arc<Line>> {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        self.lines.iter().chain(&*named).cloned().collect()
    }

    /// Puts an event into the queue of every endpoint that wants it. Never blocks.
    pub fn offer(&self, event: &Arc<Event>) {
        let wanted: Vec<_> = self.lines.iter().filter(|l| l.endpoint.wants(event)).collect();
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
        for line in wanted {
            line.make_room(line.queue.offer(Entry::new(Arc::clone(&ticket))));
        }
    }

    /// Returns how it stands with each endpoint now.
    #[must_use]
    pub fn status(&self) -> Vec<WebhookStatus> {
        let now =
            |line: &Arc<Line>| WebhookStatus { queued: line.queue.len(), ..line.known().clone() };
        self.all().iter().map(now).collect()
    }

    /// Tries what was never tried, for this long at most; then whatever is on its way is cut off. What
    /// is not delivered stays unsettled. What is offered afterwards is not delivered.
    pub fn stop(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let lines = self.all();
        for line in &lines {
            line.queue.close(until);
        }
        for line in &lines {
            if !line.queue.has_ended(until) {
                line.post.cut_off();
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
        f.debug_list().entries(self.lines.iter().map(|l| &l.endpoint)).finish()
    }
}

impl Line {
    /// Starts a thread for an endpoint. It sleeps until something is offered.
    fn start(endpoint: WebhookEndpoint, world: &World) -> std::io::Result<Arc<Self>> {
        let endpoint = Arc::new(endpoint);
        let post = Post::new(Arc::clone(&endpoint), world);
        let status = WebhookStatus { name: endpoint.name.clone(), ..WebhookStatus::default() };
        let line = Arc::new(Self {
            endpoint,
            queue: Queue::new(world.queue),
            status: Mutex::new(status),
            post,
            say: Arc::clone(&world.say),
            pace: world.pace,
        });
        let worker = Arc::clone(&line);
        std::thread::Builder::new().name("webhook".into()).spawn(move || worker.work())?;
        Ok(line)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, WebhookStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let _left = self.queue.leaving();
        while let Some(entry) = self.queue.next() {
            match self.post.post(&entry.ticket.event) {
                Ok(at) => self.delivered(entry, at),
                Err(trouble) => self.troubled(entry, trouble),
            }
        }
    }

    fn delivered(&self, entry: Entry, at: Time) {
        self.queue.answered();
        self.queue.done();
        let recovered = {
            let mut status = self.known();
            status.attempts += 1;
            status.delivered += 1;
            status.last_success_at.replace(at) < status.last_error_at
        };
        if recovered {
            self.tell("it takes events again");
        }
        entry.ticket.close();
    }

    fn troubled(&self, entry: Entry, trouble: Trouble) {
        let fresh = {
            let mut status = self.known();
            status.attempts += 1;
            let fresh = status.last_error_at <= status.last_success_at;
            status.last_error_at = Some(trouble.at);
            status.last_error = Some(trouble.what.clone());
            fresh
        };
        if self.queue.is_closed() {
            // Cut off: neither delivered nor given up.
            return;
        }
        let asked = trouble.wait.unwrap_or_default().min(self.pace.most);
        if trouble.closed {
            self.queue.rest(self.pace, asked);
        } else {
            self.queue.answered();
        }
        if trouble.hopeless || entry.age() >= self.pace.span {
            self.queue.done();
            self.known().failed += 1;
            self.tell(&format!("event {} is given up: {}", entry.ticket.event.id, trouble.what));
            entry.ticket.close();
            return;
        }
        if fresh {
            self.tell(&format!("{}; it is tried again", trouble.what));
        }
        // Where the endpoint rests, the event waits no longer than that.
        let wait = if trouble.closed { Duration::ZERO } else { self.pace.wait(entry.attempts + 1) };
        self.make_room(self.queue.again(entry, wait.max(asked)));
    }

    /// What found no room is counted, and stays untold.
    fn make_room(&self, dropped: Option<Entry>) {
        let Some(entry) = dropped else { return };
        let first = {
            let mut status = self.known();
            status.dropped += 1;
            status.dropped == 1
        };
        if first {
            self.tell("its queue is full; the oldest events are dropped");
        }
        entry.ticket.lose();
    }

    fn tell(&self, what: &str) {
        (self.say)(&crate::text::one_line(&format!("webhook {}: {what}", self.endpoint.name)));
    }
}

//! Notifications: shows each event that is configured once, in every configured channel: a program, tmux, a
//! terminal.
//!
//! The program is an argv, not a shell line. It has a timeout of ten seconds and its own process group, and
//! gets the event in `AGENTCTL_*` variables and as JSON on stdin. Events from before the daemon started are
//! not shown. A notification that fails is only counted.

mod channels;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentctl_core::events::{Event, EventKind};
use agentctl_core::host::Host;

pub use self::channels::Channel;
use super::{Say, webhooks};
use crate::config::NotifySettings;
use crate::face::NotificationText;
use crate::protocol::NotifyStatus;
use crate::text;

/// Maximum number of programs that run at once.
const MAX_RUNNING: usize = 2;
/// Maximum number of queued notifications.
const MAX_WAITING: usize = 32;
/// Number of remembered event ids. A duplicate event follows soon after the first.
const MAX_REMEMBERED_IDS: usize = 4096;

/// A handle to the threads that run the programs. Dropping it ends them.
pub struct Notify {
    on: Vec<EventKind>,
    queue: SyncSender<Arc<Event>>,
    seen: Mutex<SeenIds>,
    status: Arc<Mutex<NotifyStatus>>,
    say: Say,
}

/// The last event ids, to drop duplicates.
#[derive(Default)]
struct SeenIds {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl SeenIds {
    /// Says whether an id is new, and remembers it.
    fn add(&mut self, id: &str) -> bool {
        let new = self.ids.insert(id.to_owned());
        if new {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > MAX_REMEMBERED_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        new
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notify {
    /// Starts the threads. They sleep until an event is offered.
    pub fn start(settings: NotifySettings, host: &Arc<Host>, say: Say) -> io::Result<Self> {
        let (queue, waiting) = sync_channel::<Arc<Event>>(MAX_WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let status = Arc::new(Mutex::new(NotifyStatus::default()));
        for _ in 0..MAX_RUNNING {
            let worker = Worker {
                settings: settings.clone(),
                host: Arc::clone(host),
                waiting: Arc::clone(&waiting),
                status: Arc::clone(&status),
                say: Arc::clone(&say),
            };
            std::thread::Builder::new().name("notify".into()).spawn(move || worker.work())?;
        }
        Ok(Self { on: settings.on, queue, seen: Mutex::default(), status, say })
    }

    /// Queues an event if its kind is configured, it is not late and it is no duplicate. Never blocks.
    pub fn offer(&self, event: &Arc<Event>) {
        let ends = matches!(event.kind, EventKind::Stopped | EventKind::Error);
        // The end of a subagent needs no action of a person: its parent goes on.
        let subagent = event.session.as_ref().is_some_and(|s| s.parent.is_some());
        if event.late || !self.on.contains(&event.kind) || (ends && subagent) {
            return;
        }
        if lock(&self.seen).add(&event.id) && self.queue.try_send(Arc::clone(event)).is_err() {
            let mut status = lock(&self.status);
            status.dropped += 1;
            let first = status.dropped == 1;
            drop(status);
            if first {
                (self.say)("notify: those shown hang; further ones are dropped");
            }
        }
    }

    /// Returns the current status.
    #[must_use]
    pub fn status(&self) -> NotifyStatus {
        lock(&self.status).clone()
    }
}

struct Worker {
    settings: NotifySettings,
    host: Arc<Host>,
    waiting: Arc<Mutex<Receiver<Arc<Event>>>>,
    status: Arc<Mutex<NotifyStatus>>,
    say: Say,
}

impl Worker {
    fn work(&self) {
        loop {
            let next = lock(&self.waiting).recv();
            let Ok(event) = next else { return };
            let Err(why) = self.show(&event) else {
                lock(&self.status).shown += 1;
                continue;
            };
            let why = text::one_line(&why);
            (self.say)(&format!("notify: {why}"));
            let mut status = lock(&self.status);
            status.failed += 1;
            status.last_error = Some(why);
        }
    }

    fn show(&self, event: &Arc<Event>) -> Result<(), String> {
        let notice = Notice::of(event);
        let channels = Channel::all(&self.settings);
        let failed = channels.iter().filter_map(|channel| {
            let shown = channel.show(&self.host, &self.settings, &notice);
            shown.err().map(|why| match channel {
                Channel::Desktop | Channel::Command(_) => why,
                Channel::Tmux | Channel::Tty(_) => format!("{}: {why}", channel.word()),
            })
        });
        let failed: Vec<String> = failed.collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }
}

/// A notification: its text, and the event behind it.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The text.
    pub text: NotificationText,
    /// The event; `None` for a test.
    pub event: Option<Arc<Event>>,
    /// The JSON that a command gets on stdin.
    pub body: Vec<u8>,
}

impl Notice {
    /// Returns the notification about an event.
    #[must_use]
    pub fn of(event: &Arc<Event>) -> Self {
        let (text, body) = (NotificationText::of(event), webhooks::body(event));
        Self { text, event: Some(Arc::clone(event)), body }
    }

    /// Returns the notification that `agentctl notify test` sends.
    #[must_use]
    pub fn test() -> Self {
        let text = NotificationText::test();
        let body = serde_json::json!({ "type": "test", "summary": text.text });
        Self { text, event: None, body: body.to_string().into_bytes() }
    }
}

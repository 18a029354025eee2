//! Desktop notifications: runs a program once for each event that is configured.
//!
//! The program is an argv, not a shell line. It has a timeout of ten seconds and its own process group, and
//! gets the event in `AGENTCTL_*` variables and as JSON on stdin. Events from before the daemon started are
//! not shown. A program that fails is only counted.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentctl_core::events::{Event, EventKind};
use agentctl_core::hooks::Call;
use agentctl_core::host::Host;
use agentctl_core::marks::hook;
use agentctl_core::model::{Outcome, Session};
use agentctl_core::native::private;

use super::{Say, webhooks};
use crate::config::{DESKTOP_PROGRAM, NotifySettings};
use crate::face::session_reason;
use crate::protocol::NotifyStatus;
use crate::text;

/// Maximum number of programs that run at once.
const MAX_RUNNING: usize = 2;
/// Maximum number of queued notifications.
const MAX_WAITING: usize = 32;
/// Number of remembered event ids. A duplicate event follows soon after the first.
const MAX_REMEMBERED_IDS: usize = 4096;
/// Maximum width of a line.
const MAX_COLUMNS: usize = 120;

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

    fn show(&self, event: &Event) -> Result<(), String> {
        let text = NotificationText::of(event);
        let command = self.settings.command.clone().unwrap_or_else(|| text.desktop());
        let name = command.first().ok_or("its command is empty")?;
        let limit = self.settings.limit;
        let call = Call {
            argv: &command,
            variables: text.variables(event),
            cwd: &self.host.home,
            stdin: self.event_file(event).ok(),
            limit,
        };
        let attended = call.run(&self.host)?;
        let said = String::from_utf8_lossy(&attended.said);
        let said = text::fit(&text::one_line(&said), MAX_COLUMNS);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        match attended.exit {
            None => Err(format!("{name} was ended after {} s", limit.as_secs())),
            Some(exit) if exit.code == Some(0) => Ok(()),
            Some(exit) => match exit.code {
                Some(code) => Err(format!("{name} exited with {code}{said}")),
                None => Err(format!("{name} was ended by a signal{said}")),
            },
        }
    }

    /// Returns the event as an unlinked file, for the program's stdin.
    fn event_file(&self, event: &Event) -> io::Result<File> {
        let state = self.host.state();
        private::directory(&state)?;
        let path = state.join(format!("notify-{}.json", uuid::Uuid::new_v4()));
        let mut file = private::file(&path)?;
        let reader = File::open(&path);
        std::fs::remove_file(&path)?;
        file.write_all(&webhooks::body(event))?;
        reader
    }
}

/// The text of a notification: single lines without control characters.
struct NotificationText {
    title: String,
    text: String,
}

impl NotificationText {
    fn of(event: &Event) -> Self {
        let session = event.session.as_ref();
        let who = event.adapter.unwrap_or("agentctl");
        let title = match event.kind {
            EventKind::Waiting => format!("{who} needs you"),
            EventKind::Error => format!("{who} has failed"),
            EventKind::Stopped => format!("{who} {}", ended(session)),
            other => format!("{who}: {}", other.word()),
        };
        let detail = session.and_then(session_reason);
        let called = session
            .and_then(|s| [&s.name, &s.title, &s.prompt].into_iter().flatten().next().cloned());
        let place = session.and_then(|s| s.cwd.clone());
        let place = place.or_else(|| event.lock.as_ref().map(|l| l.directory.clone()));
        let place = place.or_else(|| event.fuse.as_ref().and_then(|f| f.directory.clone()));
        let lines = [detail, called, place].into_iter().flatten();
        let lines: Vec<_> = lines.map(|l| text::fit(&text::one_line(&l), MAX_COLUMNS)).collect();
        Self { title, text: lines.join("\n") }
    }

    /// Returns the default command. The title starts with an adapter name, so it cannot be taken for an option.
    fn desktop(&self) -> Vec<String> {
        let argv: Vec<&str> = if cfg!(target_os = "macos") {
            let show = "display notification (item 2 of argv) with title (item 1 of argv)";
            vec![DESKTOP_PROGRAM, "-e", "on run argv", "-e", show, "-e", "end run"]
        } else {
            vec![DESKTOP_PROGRAM, "--app-name=agentctl", "--"]
        };
        // Notification servers on Linux interpret some HTML tags.
        let text = if cfg!(target_os = "macos") {
            self.text.clone()
        } else {
            self.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
        };
        let argv = argv.into_iter().map(str::to_owned);
        argv.chain([self.title.clone(), text]).collect()
    }

    fn variables(&self, event: &Event) -> Vec<(&'static str, String)> {
        let session = event.session.as_ref();
        let safe = |t: Option<&str>| t.unwrap_or_default().to_owned();
        vec![
            (hook::EVENT, event.kind.word().to_owned()),
            (hook::EVENT_ID, safe(Some(&event.id))),
            (hook::ADAPTER, safe(event.adapter)),
            (hook::SESSION_ID, safe(event.session_id.as_deref())),
            (hook::CWD, safe(session.and_then(|s| s.cwd.as_deref()))),
            (hook::STATUS, safe(session.map(|s| s.status.word()))),
            (hook::TITLE, self.title.clone()),
            (hook::TEXT, self.text.clone()),
        ]
    }
}

fn ended(session: Option<&Session>) -> &'static str {
    match session.and_then(|s| s.outcome) {
        Some(Outcome::Finished) => "has finished",
        Some(Outcome::Failed) => "has failed",
        Some(Outcome::Interrupted) => "was interrupted",
        Some(Outcome::Killed) => "was killed",
        Some(Outcome::Unknown) | None => "has stopped",
    }
}

//! Desktop notifications: one program run for each edge that a person wants to see, and for none twice.
//!
//! The program is an argv, never a shell line. It has ten seconds, a process group of its own, what is
//! known in `AGENTCTL_*` variables and as JSON on stdin. What happened while nobody was awake is not
//! shown. A program that fails is counted; it changes nothing else.

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
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Say, webhooks};
use crate::config::NotifySettings;
use crate::text;

/// So many run at once.
const AT_ONCE: usize = 2;
/// So many wait.
const WAITING: usize = 32;
/// So many ids are remembered: an edge that is told twice is told twice soon.
const REMEMBERED: usize = 4096;
/// Columns of one line.
const COLUMNS: usize = 120;

/// How it stands with notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct NotifyStatus {
    /// Programs that ended well.
    pub shown: u64,
    /// Programs that did not, or could not be run.
    pub failed: u64,
    /// Notifications that found no room behind those that hang.
    pub dropped: u64,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// Shows notifications from threads of its own, which end with it.
pub struct Notify {
    on: Vec<EventKind>,
    queue: SyncSender<Arc<Event>>,
    seen: Mutex<Seen>,
    status: Arc<Mutex<NotifyStatus>>,
    say: Say,
}

#[derive(Default)]
struct Seen {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Seen {
    /// Says whether an id is new, and remembers it.
    fn add(&mut self, id: &str) -> bool {
        let new = self.ids.insert(id.to_owned());
        if new {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > REMEMBERED
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
    /// Starts the threads. They sleep until something is offered.
    pub fn start(settings: NotifySettings, host: &Arc<Host>, say: Say) -> io::Result<Self> {
        let (queue, waiting) = sync_channel::<Arc<Event>>(WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let status = Arc::new(Mutex::new(NotifyStatus::default()));
        for _ in 0..AT_ONCE {
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

    /// Shows an event, if it is one of those wanted, fresh, and not seen before. Never blocks.
    pub fn offer(&self, event: &Arc<Event>) {
        let ends = matches!(event.kind, EventKind::Stopped | EventKind::Error);
        // A subagent's end is its parent's business.
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

    /// Returns how it stands now.
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
        let words = Words::of(event);
        let command = self.settings.command.clone().unwrap_or_else(|| words.desktop());
        let name = command.first().ok_or("its command is empty")?;
        let limit = self.settings.limit;
        let call = Call {
            argv: &command,
            variables: words.variables(event),
            cwd: &self.host.home,
            stdin: self.told(event).ok(),
            limit,
        };
        let attended = call.run(&self.host)?;
        let said = String::from_utf8_lossy(&attended.said);
        let said = text::fit(&text::one_line(&said), COLUMNS);
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

    /// The event in a file without a name. Where none can be made, the variables must do.
    fn told(&self, event: &Event) -> io::Result<File> {
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

/// What a person reads, on single lines without control characters.
struct Words {
    title: String,
    text: String,
}

impl Words {
    fn of(event: &Event) -> Self {
        let session = event.session.as_ref();
        let who = event.adapter.unwrap_or("agentctl");
        let title = match event.kind {
            EventKind::Waiting => format!("{who} needs you"),
            EventKind::Error => format!("{who} has failed"),
            EventKind::Stopped => format!("{who} {}", ended(session)),
            other => format!("{who}: {}", other.word()),
        };
        let detail = session.and_then(|s| s.reason.as_ref()).map(|reason| match &reason.detail {
            Some(detail) => format!("{}: {detail}", reason.kind.word()),
            None => reason.kind.word().to_owned(),
        });
        let called = session
            .and_then(|s| [&s.name, &s.title, &s.prompt].into_iter().flatten().next().cloned());
        let place = session.and_then(|s| s.cwd.clone());
        let place = place.or_else(|| event.lock.as_ref().map(|l| l.directory.clone()));
        let place = place.or_else(|| event.fuse.as_ref().and_then(|f| f.directory.clone()));
        let lines = [detail, called, place].into_iter().flatten();
        let lines: Vec<_> = lines.map(|l| text::fit(&text::one_line(&l), COLUMNS)).collect();
        Self { title, text: lines.join("\n") }
    }

    /// The desktop's own program. The title begins with a name of ours, never with a dash.
    fn desktop(&self) -> Vec<String> {
        let argv: Vec<&str> = if cfg!(target_os = "macos") {
            let show = "display notification (item 2 of argv) with title (item 1 of argv)";
            vec!["osascript", "-e", "on run argv", "-e", show, "-e", "end run"]
        } else {
            vec!["notify-send", "--app-name=agentctl", "--"]
        };
        // Desktops on Linux read a little HTML in the text.
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

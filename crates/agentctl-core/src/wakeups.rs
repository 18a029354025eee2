//! Wake-up sources for `wait` and `events`: process exits, file events, messages of servers, and a notifier
//! for other threads. A wake-up is a hint to look again, never a fact.
//!
//! All sources share one `poll` (pidfds, the listener of the file watch, server sockets). The only threads
//! are those that connect to a server; the only timeout is the caller's.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use crate::fleet::WatchTargets;
use crate::host::Host;
use crate::kernel::ExitWatch;
use crate::model::ProcId;
use crate::native::notifier::{Listener, Notifier};
use crate::native::watch::Alarm;
use crate::talk::{Heard, Pushes, Pushing, TalkError};

/// Interval between two looks when no wake-up comes. It limits the delay that a lost wake-up can cause.
pub(crate) const SAFETY_INTERVAL: Duration = Duration::from_mins(1);
/// How long a session may be unknown before that is reported. The sources of an agent that is just exiting
/// contradict each other for a moment.
pub(crate) const UNKNOWN_GRACE: Duration = Duration::from_millis(250);
/// Limit of looks in a row that each add objects to watch; after that many the caller pauses.
pub(crate) const LOOKS_BEFORE_A_PAUSE: u32 = 16;
/// Timeout for connecting to a server and subscribing to its messages.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Delay before the first retry of a failed subscription; it doubles with each failure.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest delay between two retries of a failed subscription.
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Delay before the first repeated look after a write to a `SQLite` journal; later delays equal the time
/// since the write.
const FIRST_JOURNAL_DELAY: Duration = Duration::from_millis(50);
/// For this long after a write to a journal, looks are repeated.
const JOURNAL_WINDOW: Duration = Duration::from_secs(1);

/// The result of [`Wakeups::arm`].
#[derive(Debug, Default)]
pub(crate) struct Armed {
    /// An object is watched that was not watched before. Its changes until now caused no wake-up, so look
    /// again before blocking.
    pub(crate) news: bool,
    /// A process that was to be watched has already exited: the source that named it may answer differently
    /// now.
    pub(crate) death: bool,
    /// Why some object cannot be watched.
    pub(crate) trouble: Option<String>,
    /// Files or processes are among the unwatched objects (not only servers).
    pub(crate) blind: bool,
    /// The servers whose subscription failed, and the times of their next retries.
    pub(crate) failed_servers: Vec<(String, Instant)>,
}

impl Armed {
    fn cannot(&mut self, why: String) {
        self.trouble = Some(why);
        self.blind = true;
    }
}

/// The cause of a return from [`Wakeups::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The timeout passed.
    Timeout,
    /// A process has exited.
    Exit,
    /// A watched file changed, or a server sent a message.
    Change,
    /// Another thread used the notifier.
    Notified,
}

/// A failed subscription to a server.
struct FailedSubscription {
    again: Instant,
    pause: Duration,
    why: String,
}

pub(crate) struct Wakeups {
    exits: ExitWatch,
    held: HashSet<ProcId>,
    gone: HashSet<ProcId>,
    files: Result<Alarm, String>,
    servers: HashMap<String, Pushes>,
    failed: HashMap<String, FailedSubscription>,
    pending: HashMap<String, Receiver<Result<Pushes, TalkError>>>,
    /// When a `SQLite` journal was last seen to be written.
    journal: Option<Instant>,
    notifier: Option<(Listener, Notifier)>,
}

impl Wakeups {
    pub(crate) fn new() -> Self {
        Self {
            exits: ExitWatch::default(),
            held: HashSet::new(),
            gone: HashSet::new(),
            files: Alarm::new().map_err(|error| error.to_string()),
            servers: HashMap::new(),
            failed: HashMap::new(),
            pending: HashMap::new(),
            journal: None,
            notifier: None,
        }
    }

    /// Releases the sources without delaying the caller: the kernel takes a while to close file watches.
    pub(crate) fn release(self) {
        crate::kernel::release_later(self);
    }

    /// Returns a handle with which any thread can end a wait.
    pub(crate) fn notifier(&mut self) -> std::io::Result<Notifier> {
        if self.notifier.is_none() {
            self.notifier = Some(Listener::new()?);
        }
        let notifier = self.notifier.as_ref().map(|(_, notifier)| notifier.clone());
        notifier.ok_or_else(|| std::io::Error::other("no notifier"))
    }

    /// Watches exactly the processes, paths and servers of these targets.
    pub(crate) fn arm<'a>(
        &mut self,
        host: &Host,
        watch_targets: impl Iterator<Item = &'a WatchTargets> + Clone,
    ) -> Armed {
        let mut armed = Armed::default();
        let processes: HashSet<&ProcId> =
            watch_targets.clone().flat_map(|s| &s.processes).collect();
        self.exits.keep(&|held| processes.contains(held));
        self.held.retain(|held| processes.contains(held));
        self.gone.retain(|gone| processes.contains(gone));
        for process in processes {
            self.hold(host, process, &mut armed);
        }
        let places: Vec<PathBuf> =
            watch_targets.clone().flat_map(|s| s.places.iter().cloned()).collect();
        if self.files.is_err() {
            self.files = Alarm::new().map_err(|error| error.to_string());
        }
        let set = match &mut self.files {
            Ok(files) => files.set(&places).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match set {
            Ok(news) => armed.news |= news,
            Err(why) => armed.cannot(format!("file events are not available ({why})")),
        }
        let speaking: HashMap<&str, &Pushing> =
            watch_targets.flat_map(|s| &s.pushing).map(|p| (p.name.as_str(), p)).collect();
        self.servers.retain(|name, _| speaking.contains_key(name.as_str()));
        self.failed.retain(|name, _| speaking.contains_key(name.as_str()));
        self.pending.retain(|name, _| speaking.contains_key(name.as_str()));
        for (name, pushing) in speaking {
            self.listen(name, pushing, &mut armed);
        }
        armed
    }

    fn hold(&mut self, host: &Host, process: &ProcId, armed: &mut Armed) {
        if self.held.contains(process) {
            return;
        }
        match self.exits.add(&host.kernel, process) {
            Ok(true) => {
                self.held.insert(process.clone());
                armed.news = true;
            }
            // The exit is reported as news once. A source that continues to name the process is then
            // polled.
            Ok(false) if self.gone.insert(process.clone()) => {
                (armed.news, armed.death) = (true, true);
            }
            Ok(false) => armed.cannot(format!("process {} has exited", process.pid)),
            Err(error) => {
                armed.cannot(format!("process {} cannot be watched ({error})", process.pid));
            }
        }
    }

    fn listen(&mut self, name: &str, pushing: &Pushing, armed: &mut Armed) {
        if self.servers.contains_key(name) {
            return;
        }
        let before = self.failed.get(name);
        if let Some(failed) = before.filter(|d| Instant::now() < d.again) {
            armed.failed_servers.push((name.to_owned(), failed.again));
            armed.trouble.get_or_insert(failed.why.clone());
            return;
        }
        let Some(answer) = self.subscribe(name, pushing) else { return };
        match answer {
            Ok(pushes) => {
                self.servers.insert(name.to_owned(), pushes);
                self.failed.remove(name);
                armed.news = true;
            }
            Err(error) => {
                let before = self.failed.get(name);
                let pause =
                    before.map_or(FIRST_RETRY_DELAY, |d| (d.pause * 2).min(LONGEST_RETRY_DELAY));
                let why = format!("{name} does not say when something changes ({error})");
                let again = Instant::now() + pause;
                armed.failed_servers.push((name.to_owned(), again));
                armed.trouble.get_or_insert(why.clone());
                self.failed.insert(name.to_owned(), FailedSubscription { again, pause, why });
            }
        }
    }

    /// Subscribes to a server on a thread of its own, so that a server that does not answer delays nothing.
    /// The notifier wakes the caller when the answer is there; until then this returns `None`.
    fn subscribe(&mut self, name: &str, pushing: &Pushing) -> Option<Result<Pushes, TalkError>> {
        if let Some(answer) = self.pending.get(name) {
            return match answer.try_recv() {
                Err(TryRecvError::Empty) => None,
                heard => {
                    self.pending.remove(name);
                    heard.ok()
                }
            };
        }
        let (sender, answer) = channel();
        let notifier = self.notifier();
        let asked = pushing.clone();
        let connect = move || {
            // The receiver is gone if the subscription is no longer wanted.
            let _gone = sender.send(asked.follow(SUBSCRIBE_TIMEOUT));
            if let Ok(notifier) = notifier {
                notifier.notify();
            }
        };
        match std::thread::Builder::new().name("subscribe".into()).spawn(connect) {
            Ok(_) => {
                self.pending.insert(name.to_owned(), answer);
                None
            }
            Err(error) => Some(Err(TalkError::Unreachable(error))),
        }
    }

    /// Says whether file events were lost since the last call.
    pub(crate) fn has_lost_events(&self) -> bool {
        self.files.as_ref().is_ok_and(Alarm::has_lost)
    }

    /// Returns the delay until a repeated look after a write to a `SQLite` journal. The look that the write
    /// caused may have run before the data became visible to readers, and no event announces that moment.
    pub(crate) fn journal_delay(&mut self) -> Option<Duration> {
        if self.files.as_ref().is_ok_and(Alarm::has_journal) {
            self.journal = Some(Instant::now());
        }
        let age = self.journal?.elapsed();
        (age < JOURNAL_WINDOW).then(|| age.max(FIRST_JOURNAL_DELAY))
    }

    /// Blocks until a wake-up or the timeout.
    pub(crate) fn wait(&mut self, limit: Duration) -> std::io::Result<Woken> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let woken = self.wait_once(left)?;
            if woken != Woken::Timeout || left.is_zero() {
                return Ok(woken);
            }
        }
    }

    fn wait_once(&mut self, limit: Duration) -> std::io::Result<Woken> {
        let files = self.files.as_ref().ok().map(AsFd::as_fd);
        let listener = self.notifier.as_ref().map(|(listener, _)| listener.as_fd());
        let servers = self.servers.values().map(AsFd::as_fd);
        let others: Vec<BorrowedFd<'_>> =
            files.into_iter().chain(listener).chain(servers).collect();
        let exited = self.exits.wait_beside(&others, Some(limit))?;
        let mut woken = Woken::Timeout;
        if self.files.as_mut().is_ok_and(Alarm::rang) {
            woken = Woken::Change;
        }
        // A server also sends messages that do not matter; they cause no wake-up.
        self.servers.retain(|_, pushes| {
            let heard = pushes.skip();
            if heard != Heard::Nothing {
                woken = Woken::Change;
            }
            heard != Heard::Gone
        });
        if self.notifier.as_mut().is_some_and(|(listener, _)| listener.take_notifications()) {
            woken = Woken::Notified;
        }
        if !exited.is_empty() {
            woken = Woken::Exit;
        }
        for process in exited {
            self.held.remove(&process);
            self.gone.insert(process);
        }
        Ok(woken)
    }
}

//! What wakes whoever waits: exits, file events, a server's own word, a notifier. Each is a hint to look
//! again.
//!
//! One `poll` over pidfds, the file events' notifier and the servers' sockets; no thread of ours but to knock
//! at a server, and no clock but the one the caller sets.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use crate::fleet::Signs;
use crate::host::Host;
use crate::kernel::ExitWatch;
use crate::model::ProcId;
use crate::native::notifier::{Listener, Notifier};
use crate::native::watch::Alarm;
use crate::talk::{Heard, Pushes, Pushing, TalkError};

/// A server that takes longer to let us in is not listened to.
const PATIENCE: Duration = Duration::from_millis(500);
/// One that did not let us in is tried again after so long, then twice as long, …
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// … and at least so often.
const LAST_RETRY: Duration = Duration::from_secs(30);
/// A database may be looked at again so soon after its journal was written, …
const FIRST_ECHO: Duration = Duration::from_millis(50);
/// … then less and less often, and for so long.
const ECHO: Duration = Duration::from_secs(1);

/// What arming came to.
#[derive(Debug, Default)]
pub(crate) struct Armed {
    /// Something is watched that was not before: what it did until now was not noticed.
    pub(crate) news: bool,
    /// A process that was to be watched has ended: whoever named it may say otherwise now.
    pub(crate) death: bool,
    /// What cannot be watched, and why.
    pub(crate) trouble: Option<String>,
    /// Files or processes are among that.
    pub(crate) blind: bool,
    /// The servers that did not let us in, and when they are asked again.
    pub(crate) deaf: Vec<(String, Instant)>,
}

impl Armed {
    fn cannot(&mut self, why: String) {
        self.trouble = Some(why);
        self.blind = true;
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The time was up.
    Late,
    /// A process has exited.
    Exit,
    /// A file changed, or a server spoke.
    Sign,
    /// The notifier rang.
    Notified,
}

/// A server that did not let us in.
struct Deaf {
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
    deaf: HashMap<String, Deaf>,
    knocking: HashMap<String, Receiver<Result<Pushes, TalkError>>>,
    /// When a journal was last seen to be written.
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
            deaf: HashMap::new(),
            knocking: HashMap::new(),
            journal: None,
            notifier: None,
        }
    }

    /// Returns what wakes it from any thread.
    pub(crate) fn notifier(&mut self) -> std::io::Result<Notifier> {
        if self.notifier.is_none() {
            self.notifier = Some(Listener::new()?);
        }
        let notifier = self.notifier.as_ref().map(|(_, notifier)| notifier.clone());
        notifier.ok_or_else(|| std::io::Error::other("no notifier"))
    }

    /// Watches everything in which these may show, and nothing else.
    pub(crate) fn arm<'a>(
        &mut self,
        host: &Host,
        signs: impl Iterator<Item = &'a Signs> + Clone,
    ) -> Armed {
        let mut armed = Armed::default();
        let processes: HashSet<&ProcId> = signs.clone().flat_map(|s| &s.processes).collect();
        self.exits.keep(&|held| processes.contains(held));
        self.held.retain(|held| processes.contains(held));
        self.gone.retain(|gone| processes.contains(gone));
        for process in processes {
            self.hold(host, process, &mut armed);
        }
        let places: Vec<PathBuf> = signs.clone().flat_map(|s| s.places.iter().cloned()).collect();
        if self.files.is_err() {
            self.files = Alarm::new().map_err(|error| error.to_string());
        }
        let set = match &mut self.files {
            Ok(files) => files.set(&places).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match set {
            Ok(news) => armed.news |= news,
            Err(why) => armed.cannot(format!("no file events are to be had ({why})")),
        }
        let speaking: HashMap<&str, &Pushing> =
            signs.flat_map(|s| &s.pushing).map(|p| (p.name.as_str(), p)).collect();
        self.servers.retain(|name, _| speaking.contains_key(name.as_str()));
        self.deaf.retain(|name, _| speaking.contains_key(name.as_str()));
        self.knocking.retain(|name, _| speaking.contains_key(name.as_str()));
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
            // Its end is news once; a source that goes on naming it is looked at again at leisure.
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
        let before = self.deaf.get(name);
        if let Some(deaf) = before.filter(|d| Instant::now() < d.again) {
            armed.deaf.push((name.to_owned(), deaf.again));
            armed.trouble.get_or_insert(deaf.why.clone());
            return;
        }
        let Some(answer) = self.knock(name, pushing) else { return };
        match answer {
            Ok(pushes) => {
                self.servers.insert(name.to_owned(), pushes);
                self.deaf.remove(name);
                armed.news = true;
            }
            Err(error) => {
                let before = self.deaf.get(name);
                let pause = before.map_or(FIRST_RETRY, |d| (d.pause * 2).min(LAST_RETRY));
                let why = format!("{name} does not say when something changes ({error})");
                let again = Instant::now() + pause;
                armed.deaf.push((name.to_owned(), again));
                armed.trouble.get_or_insert(why.clone());
                self.deaf.insert(name.to_owned(), Deaf { again, pause, why });
            }
        }
    }

    /// Asks a server to let us in, on a thread of its own: one that is mute holds nobody up. The notifier says
    /// when there is an answer.
    fn knock(&mut self, name: &str, pushing: &Pushing) -> Option<Result<Pushes, TalkError>> {
        if let Some(answer) = self.knocking.get(name) {
            return match answer.try_recv() {
                Err(TryRecvError::Empty) => None,
                heard => {
                    self.knocking.remove(name);
                    heard.ok()
                }
            };
        }
        let (sender, answer) = channel();
        let notifier = self.notifier();
        let asked = pushing.clone();
        let knocks = move || {
            // Nobody listens any more when the wakeups has gone.
            let _gone = sender.send(asked.follow(PATIENCE));
            if let Ok(notifier) = notifier {
                notifier.notify();
            }
        };
        match std::thread::Builder::new().name("knock".into()).spawn(knocks) {
            Ok(_) => {
                self.knocking.insert(name.to_owned(), answer);
                None
            }
            Err(error) => Some(Err(TalkError::Unreachable(error))),
        }
    }

    /// Says whether file events were lost since it was last asked.
    pub(crate) fn has_lost_events(&self) -> bool {
        self.files.as_ref().is_ok_and(Alarm::has_lost)
    }

    /// Returns how soon to look again because a journal of `SQLite` was written: the look that it brought
    /// may have come before what was written could be read, and nothing tells when it can.
    pub(crate) fn echo(&mut self) -> Option<Duration> {
        if self.files.as_ref().is_ok_and(Alarm::has_journal) {
            self.journal = Some(Instant::now());
        }
        let age = self.journal?.elapsed();
        (age < ECHO).then(|| age.max(FIRST_ECHO))
    }

    /// Blocks until something happened that may matter, or the time is up.
    pub(crate) fn wait(&mut self, limit: Duration) -> std::io::Result<Woken> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let woken = self.wait_once(left)?;
            if woken != Woken::Late || left.is_zero() {
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
        let mut woken = Woken::Late;
        if self.files.as_mut().is_ok_and(Alarm::rang) {
            woken = Woken::Sign;
        }
        // A server may say much that concerns nobody.
        self.servers.retain(|_, pushes| {
            let heard = pushes.skip();
            if heard != Heard::Nothing {
                woken = Woken::Sign;
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

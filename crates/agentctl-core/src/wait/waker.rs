//! What wakes a waiter: exits, file events, a server's own word. Each is a hint to look again.
//!
//! One `poll` over pidfds, the file events' bell and the servers' sockets; no thread of ours, and no
//! clock but the one the caller sets.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::fleet::Observed;
use crate::host::Host;
use crate::kernel::ExitWatch;
use crate::model::ProcId;
use crate::native::watch::Alarm;
use crate::talk::{Heard, Pushes};

/// A server that takes longer to let us in is not listened to.
const PATIENCE: Duration = Duration::from_millis(500);

/// What arming came to.
#[derive(Debug, Default)]
pub(super) struct Armed {
    /// Something is watched that was not before: what it did until now was not noticed.
    pub(super) news: bool,
    /// What cannot be watched, and why.
    pub(super) trouble: Option<String>,
}

pub(super) struct Waker {
    exits: ExitWatch,
    held: HashSet<ProcId>,
    gone: HashSet<ProcId>,
    files: Result<Alarm, String>,
    servers: HashMap<String, Pushes>,
    /// Some process or file is watched beside the servers.
    beside: bool,
}

impl Waker {
    pub(super) fn new() -> Self {
        Self {
            exits: ExitWatch::default(),
            held: HashSet::new(),
            gone: HashSet::new(),
            files: Alarm::new().map_err(|error| error.to_string()),
            servers: HashMap::new(),
            beside: false,
        }
    }

    /// Watches everything in which these may change.
    pub(super) fn arm<'a>(
        &mut self,
        host: &Host,
        seen: impl Iterator<Item = &'a Observed> + Clone,
    ) -> Armed {
        let mut armed = Armed::default();
        for process in seen.clone().flat_map(|s| &s.processes) {
            self.hold(host, process, &mut armed);
        }
        let places: Vec<PathBuf> = seen.clone().flat_map(|s| s.places.iter().cloned()).collect();
        self.beside = !places.is_empty();
        let set = match &mut self.files {
            Ok(files) => files.set(&places).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match set {
            Ok(news) => armed.news |= news,
            Err(why) => armed.trouble = Some(format!("no file events are to be had ({why})")),
        }
        for pushing in seen.filter_map(|s| s.pushing.as_ref()) {
            if self.servers.contains_key(&pushing.name) {
                continue;
            }
            match pushing.follow(PATIENCE) {
                Ok(pushes) => {
                    self.servers.insert(pushing.name.clone(), pushes);
                    armed.news = true;
                }
                Err(error) => armed.trouble = Some(error.to_string()),
            }
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
            Ok(false) if self.gone.insert(process.clone()) => armed.news = true,
            Ok(false) => armed.trouble = Some(format!("process {} has exited", process.pid)),
            Err(error) => {
                let why = format!("process {} cannot be watched ({error})", process.pid);
                armed.trouble = Some(why);
            }
        }
    }

    /// Blocks until something happened that may matter, or the time is up.
    pub(super) fn wait(&mut self, limit: Duration) -> std::io::Result<()> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let heard = self.wait_once(left)?;
            // A server may say much that concerns nobody; whether a file event does cannot be told.
            let idle = heard == Heard::Nothing && !self.beside && self.held.is_empty();
            if !idle || left.is_zero() {
                return Ok(());
            }
        }
    }

    fn wait_once(&mut self, limit: Duration) -> std::io::Result<Heard> {
        let files = self.files.as_ref().ok().map(AsFd::as_fd);
        let others: Vec<BorrowedFd<'_>> =
            files.into_iter().chain(self.servers.values().map(AsFd::as_fd)).collect();
        let exited = self.exits.wait_beside(&others, Some(limit))?;
        for process in exited {
            self.held.remove(&process);
            self.gone.insert(process);
        }
        if let Ok(files) = &mut self.files {
            files.quiet();
        }
        let mut all = if self.servers.is_empty() { Heard::News } else { Heard::Nothing };
        self.servers.retain(|_, pushes| {
            let heard = pushes.skip();
            if heard != Heard::Nothing {
                all = heard;
            }
            heard != Heard::Gone
        });
        Ok(all)
    }
}

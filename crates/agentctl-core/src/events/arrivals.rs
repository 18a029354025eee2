//! Agents that begin where no folder is watched: in a home that only their own environment names, or in
//! a version that writes nothing when it begins.
//!
//! Once a second one number is read, the newest pid. Only when it has moved is the process table read,
//! and only a process that an adapter recognises as its own program is a reason to look. See
//! docs/adr/0029-agents-are-noticed-by-their-processes.md.

use std::collections::HashSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::Notifier;
use crate::adapters::Look;
use crate::fleet::{self, Fleet};
use crate::kernel::{Brief, NewestPid, Table};
use crate::model::ProcId;

/// How often the newest pid is read.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum pause after a count, as a multiple of the time the count took: at most one percent of a core.
const PAUSES: u32 = 100;
/// A process that has begun is looked at again after one second, then after twice as long, and so on.
/// This is the last such pause; the look once a minute comes next.
const LAST_PAUSE: Duration = Duration::from_secs(32);
/// Maximum number of new processes that are looked at again.
const MAX_YOUNG_PROCESSES: usize = 4096;

/// A thread that counts agents and notifies when there is a new one. It ends when this is dropped.
///
/// Everything is read on this one thread, the first count included: a program or a home may lie on a file
/// system that never answers. Then no agent is noticed here any more, and the watcher goes on with its look
/// once a minute, which names the process that hangs. Starting further threads to read would move the
/// counter of pids by itself.
pub(super) struct Arrivals {
    _end: Sender<()>,
}

impl Arrivals {
    /// Counts the live agents, notifies once, then watches for new ones.
    pub(super) fn watch(fleet: &Fleet, notifier: &Notifier) -> io::Result<Self> {
        let (fleet, counter) = (fleet.clone(), NewestPid::open().ok());
        let before = counter.as_ref().and_then(|counter| counter.read().ok());
        let ((end, ended), notifier) = (channel(), notifier.clone());
        let thread = std::thread::Builder::new().name("arrivals".into());
        thread.spawn(move || {
            // This thread has a pid of its own: a counter that did not move by it is not usable.
            let counter = counter.filter(|counter| counter.read().ok() != before);
            let mut census = Census::take(fleet, counter);
            // An agent that started between the watcher's look and this count is found by the next look.
            notifier.notify();
            watch(&mut census, &ended, &notifier);
        })?;
        Ok(Self { _end: end })
    }
}

fn watch(census: &mut Census, ended: &Receiver<()>, notifier: &Notifier) {
    let mut pause = COUNT_INTERVAL;
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let began = Instant::now();
        if census.has_newcomer(began) {
            notifier.notify();
        }
        pause = COUNT_INTERVAL.max(began.elapsed() * PAUSES);
    }
}

/// An agent's process as it was counted: another program, or another home, makes it a new one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Agent {
    adapter: &'static str,
    process: ProcId,
    program: Option<PathBuf>,
    home: Option<PathBuf>,
}

/// The agents that live, and what is needed to notice another one.
struct Census {
    fleet: Fleet,
    /// `None` where there is no usable counter: then every check reads the process table.
    counter: Option<NewestPid>,
    newest: Option<u32>,
    /// The pids of this user, in ascending order.
    pids: Vec<u32>,
    agents: HashSet<Agent>,
    /// Pids that are new since a while: each may yet become an agent by `exec`, which moves no counter.
    young: Vec<u32>,
    /// When those are looked at again, and how long the pause before was.
    again: Option<(Instant, Duration)>,
}

impl Census {
    fn take(fleet: Fleet, counter: Option<NewestPid>) -> Self {
        let newest = counter.as_ref().and_then(|counter| counter.read().ok());
        let mut census = Self {
            fleet,
            counter,
            newest,
            pids: Vec::new(),
            agents: HashSet::new(),
            young: Vec::new(),
            again: None,
        };
        census.count(Instant::now());
        // Processes that exist already are not new.
        (census.young, census.again) = (Vec::new(), None);
        census
    }

    /// Says whether there is an agent that was not counted before.
    fn has_newcomer(&mut self, now: Instant) -> bool {
        if self.has_moved() {
            return self.count(now);
        }
        match self.again {
            Some((due, pause)) if due <= now => self.recount_young(now, pause),
            _ => false,
        }
    }

    fn has_moved(&mut self) -> bool {
        let Some(counter) = &self.counter else { return true };
        // Read before the table: a process that starts meanwhile moves the counter again.
        let newest = counter.read().ok();
        let moved = newest.is_none() || newest != self.newest;
        self.newest = newest;
        moved
    }

    /// Counts all agents. Processes that were there before are read too: any of them may have become an
    /// agent by `exec`, or have been given to this user.
    fn count(&mut self, now: Instant) -> bool {
        if let Ok(pids) = self.fleet.host.kernel.own_pids() {
            let new = pids.iter().filter(|pid| self.pids.binary_search(pid).is_err());
            let known = self.young.len();
            self.young.extend(new);
            if self.young.len() > known {
                self.again = Some((now + COUNT_INTERVAL, COUNT_INTERVAL));
            }
            let surplus = self.young.len().saturating_sub(MAX_YOUNG_PROCESSES);
            self.young.drain(..surplus);
            self.pids = pids;
        }
        let agents = self.agents_of(&self.pids, now);
        let is_new = !agents.is_subset(&self.agents);
        self.agents = agents;
        is_new
    }

    /// Looks again at the processes that began a while ago.
    fn recount_young(&mut self, now: Instant, pause: Duration) -> bool {
        let agents = self.agents_of(&self.young, now);
        self.again = (pause < LAST_PAUSE).then(|| (now + pause * 2, pause * 2));
        if self.again.is_none() {
            self.young = Vec::new();
        }
        let is_new = !agents.is_subset(&self.agents);
        self.agents.extend(agents);
        is_new
    }

    /// Returns the agents among these processes.
    fn agents_of(&self, pids: &[u32], now: Instant) -> HashSet<Agent> {
        let kernel = &self.fleet.host.kernel;
        let wanted = |brief: Brief<'_>| fleet::is_candidate(self.fleet.adapters, brief);
        let candidates = pids.iter().map(|pid| kernel.candidate(*pid, &wanted));
        // A process that cannot be read has ended, or is read again with all others.
        let processes = candidates.filter_map(|candidate| candidate.ok().flatten()).collect();
        let table = Arc::new(Table { processes, ..Table::default() });
        let deadline = now + self.fleet.host.deadlines.live;
        let look = Look {
            host: Arc::clone(&self.fleet.host),
            table,
            deadline,
            now: self.fleet.host.now(),
        };
        self.agents_in(&look)
    }

    /// Returns the processes that an adapter recognises as its own program, each with its home.
    fn agents_in(&self, look: &Look) -> HashSet<Agent> {
        let mut agents = HashSet::new();
        for process in &look.table.processes {
            for adapter in self.fleet.adapters {
                let own = || {
                    let own = adapter.is_own_program(look, process);
                    own.then(|| adapter.home_of(look, process))
                };
                // An adapter that panics says so in every look.
                if let Ok(Some(home)) = catch_unwind(AssertUnwindSafe(own)) {
                    let (process, program) = (process.id.clone(), process.exe.clone());
                    agents.insert(Agent { adapter: adapter.name(), process, program, home });
                }
            }
        }
        agents
    }
}

//! Decides when to look. Process exits, file events, announcements of servers and a notifier are wake-ups;
//! only a look decides that something has changed.
//!
//! The pause between two looks grows with the cost of a look and is at least 50 ms; the exit of a process
//! ends it at once. An agent that starts where no folder is watched is noticed within a second
//! ([`Arrivals`]). One look a minute finds changes that caused no wake-up.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::time::{Duration, Instant};

use super::arrivals::Arrivals;
use super::background::{self, Answer, BackgroundPoll, ByName, FIRST_ANSWER_TIMEOUT, silent};
use super::edges::{DOUBT_TIMEOUT, Edges, EndedLaunch, Key, LaunchInfo, LookupResult, Snapshot};
use super::left_homes::LeftHomes;
use super::lock_edges::LocksAndFuses;
use super::replay::{self, Past, launch_info_of};
use super::{Event, Notifier};
use crate::fleet::{self, Fleet, Launch, Launches, WatchTargets, WatchedList};
use crate::fuses;
use crate::locks::{self, Launched, Lock};
use crate::model::{Ask, Fault, Listing, ProcId, Session, Status, Time};
use crate::runs::Run;
use crate::wakeups::{LOOKS_BEFORE_A_PAUSE, SAFETY_INTERVAL, Wakeups, Woken};

/// Minimum pause between two looks.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause between two looks that a wake-up asks for, when looks are expensive.
const MAX_PAUSE: Duration = Duration::from_millis(150);
/// Interval of looks while wake-ups are unavailable.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout for the shim of an ended agent to write `exit.json`.
const EXIT_FILE_TIMEOUT: Duration = Duration::from_secs(2);
/// An adapter that timed out is not asked for this long; each further timeout doubles the time.
const FIRST_BACKOFF: Duration = Duration::from_secs(2);
/// Maximum time for which an adapter that timed out is not asked.
const MAX_BACKOFF: Duration = Duration::from_mins(5);
/// The reason that is reported when the kernel dropped file events.
const OVERFLOW: &str =
    "more files changed at once than the system keeps for us (fs.inotify.max_queued_events)";

/// The result of one look.
#[derive(Debug)]
pub struct Seen {
    /// The changes since the look before, oldest first.
    pub events: Vec<Event>,
    /// The live sessions.
    pub listing: Listing,
    /// Everything that waits for a human, longest waiting first, as `asks` returns it.
    pub asks: Vec<Ask>,
    /// The directories that are occupied or locked.
    pub locks: Vec<Lock>,
    /// All faults of the look, including those of the listing.
    pub faults: Vec<Fault>,
    /// How long each home took to answer, by its adapter.
    pub took: Vec<(&'static str, Duration)>,
}

/// An adapter that timed out and is not asked for a while.
struct Resting {
    until: Instant,
    rest: Duration,
    fault: Fault,
}

/// Looks, compares, and sleeps until there is a reason to look again.
pub struct Watcher {
    fleet: Fleet,
    edges: Edges,
    launches: Launches,
    wakeups: Wakeups,
    notifier: Notifier,
    resting: HashMap<&'static str, Resting>,
    leaving: HashMap<String, Instant>,
    trouble: Option<String>,
    looked: Instant,
    /// The next look is not before this time, unless a process exits.
    earliest: Instant,
    /// The next look is at this time at the latest.
    latest: Instant,
    /// When file events were last lost.
    lost: Option<Instant>,
    news: bool,
    death: bool,
    restless: u32,
    asleep: bool,
    /// Notifies of agents that start in a home that is not watched; `None` until the first look.
    arrivals: Option<Arrivals>,
    /// Homes that a process named, still watched after the process has exited.
    left_homes: LeftHomes,
    background: Vec<BackgroundPoll>,
    /// The live sessions of adapters whose first answer came after the first look.
    first: Vec<Session>,
}

impl Watcher {
    /// Makes a watcher. Its first look reports no events; the second look is compared with it.
    pub fn new(fleet: Fleet) -> io::Result<Self> {
        let mut wakeups = Wakeups::new();
        let notifier = wakeups.notifier()?;
        let (now, background) = (Instant::now(), BackgroundPoll::all(&fleet));
        Ok(Self {
            fleet,
            edges: Edges::default(),
            launches: Launches::default(),
            wakeups,
            notifier,
            resting: HashMap::new(),
            leaving: HashMap::new(),
            trouble: None,
            looked: now,
            earliest: now,
            latest: now,
            lost: None,
            news: false,
            death: false,
            restless: 0,
            asleep: false,
            arrivals: None,
            left_homes: LeftHomes::default(),
            background,
            first: Vec::new(),
        })
    }

    /// Makes a watcher that follows the events of another watcher and sets up no wake-ups of its own.
    pub fn asleep(fleet: Fleet) -> io::Result<Self> {
        let mut watcher = Self::new(fleet)?;
        watcher.asleep = true;
        watcher.edges.tell_at_once();
        // It looks once only, so no adapter is asked in the background.
        watcher.background.clear();
        Ok(watcher)
    }

    /// Records an event that another watcher reported: the next look is compared with it.
    pub fn suppose(&mut self, told: &Event) {
        self.edges.suppose(told);
    }

    /// Returns a notifier that ends a [`Self::wait`] from any thread.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Returns why changes may be noticed late, if so.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Looks at all live sessions and returns the changes. The first look returns no events.
    pub fn look(&mut self) -> Seen {
        // Agents are counted on another thread, which notifies when the count is done: agents that start
        // during this look are found by the look after that.
        if !self.asleep && self.arrivals.is_none() {
            let arrivals = Arrivals::watch(&self.fleet, &self.notifier);
            self.arrivals = arrivals.ok();
        }
        let began = Instant::now();
        let at = self.fleet.host.now();
        let unasked = self.unasked(began);
        let (watched, by_name, launched) = self.gather(began, &unasked);
        let WatchedList { mut listing, resting, mut asks, mut watch_targets, took } = watched;
        fleet::sort_asks(&mut asks);
        listing.faults.extend(self.background.iter().filter_map(BackgroundPoll::pending));
        let mut faults = listing.faults.clone();
        faults.extend(unasked.iter().filter_map(|a| self.resting.get(a)).map(|r| r.fault.clone()));
        self.note_silence(&listing.faults);
        // A session that rests in a local server ends with the server, so it is followed although it is
        // not listed.
        let mut sessions = listing.sessions.clone();
        sessions.extend(resting.into_iter().filter(|session| !session.processes.is_empty()));
        let missing = self.missing(&sessions, &unasked);
        let named = self.take_names(&listing, missing, by_name, &mut watch_targets);
        let launches = self.launch_infos(&sessions, at);
        let first = std::mem::take(&mut self.first);
        self.edges.adopt(first, &launches);
        let ended_launches = self.ended_launches(&sessions, &named);
        watch_targets.processes.extend(launched.processes().cloned());
        let (locks, lock_faults) = locks::of(&self.fleet.host, launched, &listing.sessions);
        faults.extend(lock_faults);
        let (fuses, fuse_faults) = fuses::seen(&self.fleet.host);
        let fuses_hidden = !fuse_faults.is_empty();
        let locks_and_fuses =
            LocksAndFuses { locks: locks.clone(), fuses, fuses_hidden, faults: faults.clone() };
        faults.extend(fuse_faults);
        self.add_own_watch_targets(&mut watch_targets);
        self.left_homes.take(&watch_targets.named_homes, began);
        let left = self.left_homes.iter();
        watch_targets.places.extend(left.flat_map(|home| home.places.iter().cloned()));
        // The clock may have been set back during the look.
        let until = self.fleet.host.now().max(at);
        let moment = began;
        let snapshot = Snapshot {
            at,
            until,
            moment,
            sessions,
            unasked,
            named,
            launches,
            ended_launches,
            asks: asks.clone(),
            locks_and_fuses,
        };
        let events = self.edges.step(snapshot);
        let known = self.edges.known();
        for background in &mut self.background {
            background.ask(&self.notifier, known.clone());
        }
        let kept = &self.launches;
        self.edges.keep_launches(&|run| kept.get(run).is_some());
        let seen = Seen { events, listing, asks, locks, faults, took };
        if self.asleep {
            self.edges.leave_launches();
        } else {
            self.prepare(began, at, &watch_targets, &seen);
        }
        seen
    }

    /// Waits for a reason to look again, at most `limit`. Returns whether there is one.
    pub fn wait(&mut self, limit: Duration) -> io::Result<bool> {
        if std::mem::take(&mut self.death) {
            return Ok(true);
        }
        let limit = Instant::now().checked_add(limit);
        loop {
            let due = if self.news { self.latest.min(self.earliest) } else { self.latest };
            let until = limit.map_or(due, |limit| limit.min(due));
            let now = Instant::now();
            if now >= until {
                return Ok(now >= due);
            }
            match self.wakeups.wait(until - now)? {
                Woken::Exit | Woken::Notified => return Ok(true),
                Woken::Timeout => {}
                // Only the exit of a process shortens the pause between two looks.
                Woken::Change => self.news = true,
            }
        }
    }

    /// Arms the wake-ups and computes when to look again without one.
    fn prepare(&mut self, began: Instant, at: Time, watch_targets: &WatchTargets, seen: &Seen) {
        if self.wakeups.has_lost_events() {
            self.lost = Some(Instant::now());
        }
        let armed = self.wakeups.arm(&self.fleet.host, std::iter::once(watch_targets));
        self.looked = Instant::now();
        self.restless = if armed.news { self.restless + 1 } else { 0 };
        let restless = self.restless > LOOKS_BEFORE_A_PAUSE;
        (self.news, self.death) = (armed.news && !restless, armed.death);
        // A server that does not answer cannot announce anything; it is tried again later.
        let silent = |name: &str| seen.faults.iter().any(|f| f.root.as_deref() == Some(name));
        let (silent, deaf): (Vec<_>, Vec<_>) =
            armed.failed_servers.into_iter().partition(|(name, _)| silent(name));
        let only_silent = !silent.is_empty() && deaf.is_empty() && !armed.blind;
        // After lost file events more may be lost, so looks are paced for a while.
        let lost = self.lost.is_some_and(|at| at.elapsed() < SAFETY_INTERVAL);
        let paced = (armed.trouble.is_some() && !only_silent) || restless || lost;
        self.trouble = armed.trouble.or_else(|| lost.then(|| OVERFLOW.to_owned()));
        let cost = self.looked.saturating_duration_since(began);
        // A pending `exit.json` is awaited without the usual pause.
        let apart = (cost * 4).clamp(MIN_PAUSE, MAX_PAUSE);
        self.earliest = if self.leaving.is_empty() { self.looked + apart } else { self.looked };
        let mut pause = if paced { POLL_INTERVAL } else { SAFETY_INTERVAL };
        // An occupant without a session is starting or exiting, and no wake-up may announce the next step.
        let known = |id: &String| seen.listing.sessions.iter().any(|s| s.id.as_ref() == Some(id));
        let between = |lock: &Lock| {
            lock.holder.kind == locks::Kind::Occupied
                && !lock.holder.session.as_ref().is_some_and(known)
        };
        if seen.locks.iter().any(between) {
            pause = pause.min(DOUBT_TIMEOUT);
        }
        // No wake-up may announce that an unknown status is known again. The longer it is unknown, the
        // longer the pause.
        if let Some(since) = self.edges.doubtful_since() {
            pause = pause.min(self.looked.saturating_duration_since(since).max(DOUBT_TIMEOUT));
        }
        // A prompt is reported without its detail when the detail does not arrive in time.
        if let Some(since) = self.edges.held_since() {
            let left = (since + DOUBT_TIMEOUT).saturating_duration_since(self.looked);
            pause = pause.min(left.max(MIN_PAUSE));
        }
        if let Some(echo) = self.wakeups.journal_delay() {
            pause = pause.min(echo.max(apart));
        }
        let soonest = self.leaving.values().map(|since| *since + EXIT_FILE_TIMEOUT);
        let rested = self.resting.values().map(|resting| resting.until);
        let again = silent.into_iter().map(|(_, again)| again);
        let latest = soonest.chain(rested).chain(again).min().unwrap_or(self.looked + pause);
        self.latest = latest.min(self.looked + pause);
        // The expiry of a lock is an event without a wake-up.
        let ends = seen.locks.iter().filter_map(|lock| lock.holder.until).min();
        let left = ends.map(|end| u64::try_from(end.millis() - at.millis()).unwrap_or(0));
        if let Some(left) = left {
            self.latest = self.latest.min(began + Duration::from_millis(left));
        }
    }

    /// Returns the adapters that are not asked in this look.
    fn unasked(&self, now: Instant) -> Vec<&'static str> {
        let rests = self.resting.iter().filter(|(_, resting)| now < resting.until);
        rests.map(|(adapter, _)| *adapter).collect()
    }

    /// Stops asking the adapters that timed out for a while, because every look would wait for them.
    fn note_silence(&mut self, faults: &[Fault]) {
        let now = Instant::now();
        let silent = faults.iter().filter(|fault| fault.is_adapter_timeout());
        let mut next: HashMap<&'static str, Resting> = HashMap::new();
        for fault in silent {
            let before = self.resting.get(fault.adapter).map(|resting| resting.rest * 2);
            let rest = before.unwrap_or(FIRST_BACKOFF).min(MAX_BACKOFF);
            let resting = Resting { until: now + rest, rest, fault: fault.clone() };
            next.insert(fault.adapter, resting);
        }
        self.resting.retain(|_, resting| now < resting.until);
        self.resting.extend(next);
    }

    /// Surveys all sessions and looks for the agents of open launches. The runs folder is read once, after
    /// the list, so that the run of every session in the list is known. The agents of launches that an
    /// earlier look read are looked for before the list: an agent that hands over to a child process in
    /// the meantime is then found either here or there.
    fn gather(
        &mut self,
        began: Instant,
        unasked: &[&'static str],
    ) -> (WatchedList, Vec<ByName>, Launched) {
        if !self.edges.has_begun() {
            self.launches.read(&self.fleet);
        }
        let open = self.open_runs();
        let known: BTreeSet<String> = open.iter().map(|run| run.id.clone()).collect();
        let mut launched = Launched::look(&self.fleet, open.into_iter());
        let (mut watched, by_name) = self.ask(began, unasked);
        self.launches.read(&self.fleet);
        let new = self.open_runs().into_iter().filter(|run| !known.contains(&run.id));
        launched.add(Launched::look(&self.fleet, new));
        for sessions in [&mut watched.listing.sessions, &mut watched.resting, &mut self.first] {
            self.launches.add(sessions);
        }
        watched.listing.faults.extend(self.launches.fault().cloned());
        (watched, by_name, launched)
    }

    /// Returns the runs whose end is not known.
    fn open_runs(&self) -> Vec<Run> {
        let open = self.launches.newest().filter(|launch| launch.ended.is_none());
        open.map(|launch| launch.run.clone()).collect()
    }

    /// Asks all adapters. An adapter that is asked in the background contributes its last answer.
    fn ask(&mut self, began: Instant, unasked: &[&'static str]) -> (WatchedList, Vec<ByName>) {
        let first = !self.edges.has_begun();
        if first {
            for background in &mut self.background {
                background.ask(&self.notifier, Vec::new());
            }
        }
        let background = self.background.iter().map(BackgroundPoll::name);
        let left_out: Vec<&'static str> = unasked.iter().copied().chain(background).collect();
        let known = self.edges.known();
        let answer = background::ask(&self.fleet, &left_out, known);
        let Answer { mut watched, by_name } = answer;
        let mut by_name = vec![by_name];
        for background in &mut self.background {
            let heard = background.hear(first.then(|| began + FIRST_ANSWER_TIMEOUT));
            // A first answer after the first look reports no events: its sessions may have been there.
            self.first.extend(heard.into_iter().flatten().filter(|_| !first).cloned());
            if let Some(answer) = background.answer().cloned() {
                watched.add(answer.watched);
                by_name.push(answer.by_name);
            }
        }
        (watched, by_name)
    }

    /// Returns the sessions of the look before that are missing now, except those of adapters that were
    /// not asked.
    fn missing(&self, sessions: &[Session], unasked: &[&'static str]) -> Vec<Key> {
        let mut missing = self.edges.missing(sessions);
        missing.retain(|key| !unasked.contains(&key.adapter()));
        missing
    }

    /// Returns what the look by name found for each missing session.
    fn take_names(
        &mut self,
        listing: &Listing,
        missing: Vec<Key>,
        by_name: Vec<ByName>,
        watch_targets: &mut WatchTargets,
    ) -> HashMap<Key, LookupResult> {
        let mut named = HashMap::new();
        for key in &missing {
            if let Some(why) = silent(listing, key) {
                named.insert(key.clone(), LookupResult::Failed(why));
            }
        }
        let mut leaving = HashMap::new();
        for ByName { asked, observation } in by_name {
            let seen = asked.into_iter().zip(observation.seen);
            for (key, mut seen) in seen.filter(|(key, _)| missing.contains(key)) {
                watch_targets.add(std::mem::take(&mut seen.watch_targets));
                let said = match seen.session {
                    Some(session) => self.said(&key, session, watch_targets, &mut leaving),
                    None => match covering(&observation.faults, &key) {
                        Some(fault) => LookupResult::Failed(fault.message.clone()),
                        None => LookupResult::Gone,
                    },
                };
                named.insert(key, said);
            }
        }
        self.leaving = leaving;
        named
    }

    /// Returns what a look by name found for one missing session. The shim of a launched agent writes
    /// `exit.json` a moment after the agent has exited; until then, or until the shim has exited, the
    /// session counts as leaving.
    fn said(
        &self,
        key: &Key,
        mut session: Session,
        watch_targets: &mut WatchTargets,
        leaving: &mut HashMap<String, Instant>,
    ) -> LookupResult {
        let ended = matches!(session.status, Status::Stopped | Status::Error);
        let run = self.edges.launch(key).map(|launch| launch.run.as_str()).filter(|_| ended);
        let launch = run.and_then(|run| self.launches.get(run)).cloned();
        let Some(launch) = launch else {
            self.launches.add(std::slice::from_mut(&mut session));
            return LookupResult::Seen(Box::new(session));
        };
        // The shim is checked before `exit.json`: it may write the file and exit in between.
        let attended = launch.run.is_attended(&self.fleet.host);
        let launch = launch.again(&self.fleet);
        if launch.ended.is_none() && attended {
            let run = launch.run.id.clone();
            let now = Instant::now();
            let since = self.leaving.get(&run).copied().unwrap_or(now);
            if now.saturating_duration_since(since) < EXIT_FILE_TIMEOUT {
                watch_targets.places.push(launch.run.directory.join("exit.json"));
                watch_targets.processes.extend(launch.started.and_then(|started| started.shim));
                leaving.insert(run, since);
                return LookupResult::Leaving;
            }
        }
        launch.add(&mut session);
        self.launches.add_words(&mut session);
        // The end of the run counts, as in a later replay; the record may only have the end of the turn.
        session.ended_at = launch.ended.map(|ended| ended.at).or(session.ended_at);
        LookupResult::Seen(Box::new(session))
    }

    /// Returns the launch that serves each of these sessions.
    fn launch_infos(&self, sessions: &[Session], at: Time) -> HashMap<Key, LaunchInfo> {
        let mut launches = HashMap::new();
        for session in sessions {
            let (Some(run), Some(key)) = (&session.run, Key::of(session)) else { continue };
            let Some(launch) = self.launches.get(run) else { continue };
            let process: Option<&ProcId> = launch.started.as_ref().map(|s| &s.process);
            let serves = process.is_some_and(|process| session.is_served_by(process));
            // After the end of a launch another process serves the session, unless the launch ended
            // during this look.
            if serves || launch.ended.as_ref().is_none_or(|ended| ended.at >= at) {
                launches.insert(key, launch_info_of(launch));
            }
        }
        launches
    }

    /// Returns the launches that have ended and whose end was not reported.
    fn ended_launches(
        &mut self,
        sessions: &[Session],
        named: &HashMap<Key, LookupResult>,
    ) -> Vec<EndedLaunch> {
        let untold = self.launches.newest();
        let untold = untold.filter(|l| l.ended.is_some() && !self.edges.is_over(&l.run.id));
        let untold: Vec<&Launch> = untold.collect();
        if !self.edges.has_begun() {
            self.edges.pass_over(untold.iter().map(|launch| launch.run.id.clone()));
            return Vec::new();
        }
        if untold.is_empty() {
            return Vec::new();
        }
        let listed = |launch: &Launch| {
            let own = |s: &&Session| s.adapter == launch.spec.adapter && s.id == launch.session;
            let by_name = || {
                named.values().find_map(|said| match said {
                    LookupResult::Seen(session) if own(&session.as_ref()) => Some(session.as_ref()),
                    _ => None,
                })
            };
            sessions.iter().find(own).or_else(by_name).cloned()
        };
        let mut known: Vec<Option<Session>> = untold.iter().map(|l| listed(l)).collect();
        let unknown: Vec<usize> = (0..untold.len()).filter(|at| known[*at].is_none()).collect();
        if !unknown.is_empty() {
            let asked: Vec<&Launch> = unknown.iter().map(|at| untold[*at]).collect();
            let found = replay::sessions_of(&self.fleet, &asked);
            for (at, session) in unknown.into_iter().zip(found) {
                known[at] = session;
            }
        }
        let (mut ended_launches, mut nothing) = (Vec::new(), Vec::new());
        for (launch, seen) in untold.into_iter().zip(known) {
            match Past::of(&self.fleet, &self.launches, launch, seen).and_then(|past| past.over()) {
                Some(over) => ended_launches.push(over),
                None => nothing.push(launch.run.id.clone()),
            }
        }
        self.edges.pass_over(nothing.into_iter());
        ended_launches
    }

    /// Adds the folders and files of this program that change with launches, locks, fuses and names. A new name is
    /// no event; it is a reason to look, because lists show it.
    fn add_own_watch_targets(&self, watch_targets: &mut WatchTargets) {
        let state = self.fleet.host.state();
        let folders = ["runs", "locks", "fuses", "names"];
        watch_targets.places.extend(folders.map(|folder| state.join(folder)));
        for run in self.open_runs() {
            let files = ["started.json", "session.json", "exit.json"];
            watch_targets.places.extend(files.map(|name| run.directory.join(name)));
        }
    }
}

fn covering<'a>(faults: &'a [Fault], key: &Key) -> Option<&'a Fault> {
    faults.iter().find(|fault| {
        fault.adapter == key.adapter() && fault.root.as_deref().is_none_or(|r| r == key.root())
    })
}

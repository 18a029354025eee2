//! Fires fuses: one thread computes which fuses are due, and each due fuse fires on a thread of its own, so
//! that a slow action delays no other fuse.
//!
//! The thread gets every snapshot of the daemon and sleeps until the next deadline in between. Deadlines are
//! wall-clock times and are computed anew at each wake-up; the snapshot once a minute makes sure that a
//! changed clock or a suspended machine is noticed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentctl_core::ask::StopTargets;
use agentctl_core::events::{Event, EventKind, about_fuse};
use agentctl_core::fleet::{self, Adapters, Fleet, Inspected, Query};
use agentctl_core::fuses::{self, Action, Cause, Due, Firing, Fuse, FuseError};
use agentctl_core::hooks::{Call, HOOK_TIMEOUT};
use agentctl_core::host::Host;
use agentctl_core::locks;
use agentctl_core::marks::{FUSE_ACTION, hook};
use agentctl_core::model::{
    EndedBy, EndedByKind, Fault, Listing, Locator, SCHEMA_VERSION, Session, Status, Target, Time,
};
use agentctl_core::runs::{HookReport, Run, Runs};

use crate::face::StopSummary;

/// Maximum number of fuses that fire at once; further due fuses wait.
const MAX_FIRING: usize = 8;
/// Pause before a fuse that could not be claimed is retried.
const CLAIM_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Minimum interval between two readings of the cost of a session: each one reads its whole file.
const COST_INTERVAL: Duration = Duration::from_secs(10);
/// How long the parent of a command has beyond the timeout of the command, which it enforces itself.
const PARENT_GRACE_PERIOD: Duration = Duration::from_secs(30);
/// Maximum number of bytes of a command's output in the log.
const MAX_LOGGED_BYTES: usize = 4 << 10;

/// The outputs of fuses.
pub trait Outlets: Send + Sync {
    /// Sends an event to all event sinks.
    fn tell(&self, event: Event);
    /// Queues an event for delivery to a URL, or says why it cannot be queued. May be called twice with the
    /// same event id.
    fn post(&self, url: &str, event: &Event) -> Result<(), String>;
    /// Writes a line to the log.
    fn log(&self, weight: Weight, text: &str);
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Success.
    Note,
    /// A failure.
    Warning,
}

/// A handle to the thread that fires this user's fuses. Dropping it ends the thread.
#[derive(Debug)]
pub struct Fuses {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Inbox>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inbox {
    /// The newest snapshot that the thread has not used yet.
    listing: Option<Arc<Listing>>,
    notified: bool,
    over: bool,
    /// The number of fuses that are firing.
    firing: usize,
}

/// Why the thread woke up.
enum Wake {
    /// A fuse may be due. Holds the daemon's newest snapshot, if there is an unused one.
    Look(Option<Arc<Listing>>),
    /// The thread is to end.
    Over,
}

impl Fuses {
    /// Starts the thread.
    pub fn start(fleet: Fleet, outlets: Arc<dyn Outlets>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = FuseThread {
            started_at: fleet.host.now(),
            fleet,
            outlets,
            shared: Arc::clone(&shared),
            faults: Vec::new(),
            costs: Costs::default(),
        };
        std::thread::Builder::new().name("fuses".into()).spawn(move || thread.run())?;
        shared.ring(None);
        Ok(Self { shared })
    }

    /// Hands over the daemon's newest snapshot of live sessions, including those that are idle in shared
    /// servers. Never blocks; replaces a snapshot that was not used yet.
    pub fn looked(&self, listing: Arc<Listing>) {
        self.shared.ring(Some(listing));
    }

    /// Claims no more fuses and waits for the firing ones, at most `limit`; says whether all are done. The
    /// next daemon resumes the others.
    #[must_use]
    pub fn stop(&self, limit: Duration) -> bool {
        let mut state = self.shared.lock();
        state.over = true;
        self.shared.changed.notify_all();
        let until = Instant::now() + limit;
        while state.firing > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for Fuses {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, listing: Option<Arc<Listing>>) {
        let mut state = self.lock();
        state.listing = listing.or(state.listing.take());
        state.notified = true;
        self.changed.notify_all();
    }

    /// Waits for a notification or the timeout.
    fn wait(&self, limit: Option<Duration>) -> Wake {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.lock();
        loop {
            if state.over {
                return Wake::Over;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if state.notified || left.is_some_and(|left| left.is_zero()) {
                state.notified = false;
                return Wake::Look(state.listing.take());
            }
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// One of the [`MAX_FIRING`] slots for firing fuses. Dropping it wakes the thread.
struct Slot(Arc<Shared>);

impl Slot {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let mut state = shared.lock();
        if state.over || state.firing >= MAX_FIRING {
            return None;
        }
        state.firing += 1;
        drop(state);
        Some(Self(Arc::clone(shared)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.lock().firing -= 1;
        self.0.ring(None);
    }
}

/// The state of the thread.
struct FuseThread {
    fleet: Fleet,
    outlets: Arc<dyn Outlets>,
    shared: Arc<Shared>,
    started_at: Time,
    /// Faults that were logged already.
    faults: Vec<Fault>,
    costs: Costs,
}

impl FuseThread {
    fn run(mut self) {
        let mut limit = None;
        while let Wake::Look(listing) = self.shared.wait(limit) {
            limit = self.attend(listing);
        }
    }

    /// Fires the due fuses; returns how long the thread may sleep.
    fn attend(&mut self, listing: Option<Arc<Listing>>) -> Option<Duration> {
        let mut again = self.resume();
        let (burning, faults) = fuses::all(&self.fleet.host);
        for fault in faults.iter().filter(|f| !self.faults.contains(f)) {
            self.outlets.log(Weight::Warning, &fault.message);
        }
        self.faults = faults;
        let looks = burning.iter().any(depends_on_a_snapshot);
        let handed = listing.is_some();
        let mut listing = listing.unwrap_or_else(|| Arc::new(empty()));
        if looks && !handed {
            listing = Arc::new(self.look());
        }
        let mut due = self.due(&burning, &listing);
        // The snapshot handed over may be old: confirm what is due by it with a fresh one.
        if handed && due.iter().any(|d| d.cause != Cause::Ttl) {
            listing = Arc::new(self.look());
            due = self.due(&burning, &listing);
        }
        let mut left = burning;
        for due in due {
            match self.begin(&due) {
                Ok(true) => left.retain(|f| f.id != due.fuse.id),
                // Claimed by another process, changed meanwhile, or no free slot.
                Ok(false) => again = Some(CLAIM_RETRY_PAUSE),
                Err(error) => {
                    let name = name(&due.fuse);
                    let text = format!("{name} has expired and could not be claimed: {error}");
                    self.outlets.log(Weight::Warning, &text);
                    again = Some(CLAIM_RETRY_PAUSE);
                }
            }
        }
        let now = self.fleet.host.now();
        let next = fuses::next_due(&self.fleet.host, &left, &listing, now).map(|at| {
            let ms = u64::try_from(at.millis() - now.millis()).unwrap_or_default();
            // Round up: the thread must not wake before the deadline.
            Duration::from_millis(ms + 1)
        });
        [again, next, self.costs.settle()].into_iter().flatten().min()
    }

    /// Resumes fuses whose firing process died.
    fn resume(&mut self) -> Option<Duration> {
        let unfinished = match fuses::unfinished(&self.fleet.host) {
            Ok(unfinished) => unfinished,
            Err(error) => {
                let text = format!("interrupted fuses could not be looked for: {error}");
                self.outlets.log(Weight::Warning, &text);
                return Some(CLAIM_RETRY_PAUSE);
            }
        };
        for firing in unfinished {
            let text = format!("{} was interrupted and continues", name(&firing.fuse));
            self.outlets.log(Weight::Warning, &text);
            if let Some(note) = &firing.fuse.note {
                let text = format!("{}: {note}", name(&firing.fuse));
                self.outlets.log(Weight::Warning, &text);
            }
            // Without a free slot the claim is dropped; the fuse stays unfinished and is retried.
            if let Some(slot) = Slot::take(&self.shared) {
                self.fire(firing, slot);
            }
        }
        None
    }

    fn look(&self) -> Listing {
        let query = Query { resting: true, ..Query::default() };
        fleet::list(&self.fleet, &query)
    }

    fn due(&mut self, burning: &[Fuse], listing: &Listing) -> Vec<Due> {
        let (fleet, costs) = (&self.fleet, &mut self.costs);
        let mut cost = |session: &Session| costs.of(fleet, session);
        fuses::due(&fleet.host, burning, listing, &mut cost, fleet.host.now())
    }

    fn begin(&self, due: &Due) -> Result<bool, FuseError> {
        let Some(slot) = Slot::take(&self.shared) else { return Ok(false) };
        let Some(firing) = fuses::claim(&self.fleet.host, due)? else { return Ok(false) };
        self.fire(firing, slot);
        Ok(true)
    }

    fn fire(&self, firing: Firing, slot: Slot) {
        let late = firing.at() < self.started_at;
        let (fleet, outlets) = (self.fleet.clone(), Arc::clone(&self.outlets));
        let builder = std::thread::Builder::new().name("fuse".into());
        let spawned = builder.spawn(move || {
            let _slot = slot;
            fire(&fleet, outlets.as_ref(), firing, late);
        });
        if let Err(error) = spawned {
            let text = format!("a fuse could not be fired and is tried again: {error}");
            self.outlets.log(Weight::Warning, &text);
        }
    }
}

/// A cache of the cost of sessions.
#[derive(Default)]
struct Costs {
    known: Vec<Cost>,
    /// A cost was needed before [`COST_INTERVAL`] was over, so an old one was used.
    stale: bool,
}

struct Cost {
    target: Target,
    last_activity_at: Option<Time>,
    at: Instant,
    usd: Option<f64>,
    wanted: bool,
}

impl Costs {
    fn of(&mut self, fleet: &Fleet, session: &Session) -> Option<f64> {
        let target = session.target();
        if let Some(known) = self.known.iter_mut().find(|k| k.target == target) {
            known.wanted = true;
            let same = known.last_activity_at == session.last_activity_at;
            // Only for idle sessions: subagents can add cost while the file of their parent does not change.
            if same && session.status == Status::Idle {
                return known.usd;
            }
            if known.at.elapsed() < COST_INTERVAL {
                self.stale = true;
                return known.usd;
            }
        }
        let usd = fleet::inspect(fleet, &target).session.and_then(|s| s.cost_usd);
        self.known.retain(|k| k.target != target);
        let (last_activity_at, at) = (session.last_activity_at, Instant::now());
        self.known.push(Cost { target, last_activity_at, at, usd, wanted: true });
        usd
    }

    /// Drops entries that were not needed this time; returns when to read again.
    fn settle(&mut self) -> Option<Duration> {
        self.known.retain(|k| k.wanted);
        for known in &mut self.known {
            known.wanted = false;
        }
        std::mem::take(&mut self.stale).then_some(COST_INTERVAL)
    }
}

fn depends_on_a_snapshot(fuse: &Fuse) -> bool {
    fuse.idle_ms.is_some() || fuse.max_runtime_ms.is_some() || fuse.max_cost_usd.is_some()
}

fn empty() -> Listing {
    Listing { schema_version: SCHEMA_VERSION, sessions: Vec::new(), faults: Vec::new() }
}

/// Names a fuse for the log.
fn name(fuse: &Fuse) -> String {
    let what = match (&fuse.directory, &fuse.session) {
        (Some(directory), _) => directory.as_str(),
        (None, Some(session)) => session.as_str(),
        (None, None) => "?",
    };
    let label = fuse.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
    format!("the fuse of {what}{label}")
}

/// Sends the event that a fuse has expired, and performs all its actions.
pub fn fire(fleet: &Fleet, outlets: &dyn Outlets, mut firing: Firing, late: bool) {
    let name = name(&firing.fuse);
    let target = target(fleet.adapters, &firing.fuse);
    let mut event = about_fuse(EventKind::FuseExpired, &firing.fuse, firing.at());
    event.late = late;
    event.adapter = target.as_ref().map(|t| t.adapter);
    event.session = target.as_ref().and_then(|t| fleet::inspect(fleet, t).session);
    outlets.log(Weight::Note, &format!("{name} has expired: {}", firing.cause().word()));
    outlets.tell(event.clone());
    while let Some(action) = firing.action().cloned() {
        let (what, done) = match &action {
            Action::Event => ("event", Ok(String::new())),
            Action::Stop => ("stop", end(fleet, &firing, target.as_ref())),
            Action::Webhook { url } => {
                ("webhook", outlets.post(url, &event).map(|()| "handed over".to_owned()))
            }
            Action::Run { argv } => {
                let begun = firing.begin().map_err(|e| format!("could not be run: {e}"));
                ("run", begun.and_then(|()| run(&fleet.host, argv, &event)))
            }
        };
        match done {
            Ok(words) if words.is_empty() => {}
            Ok(words) => outlets.log(Weight::Note, &format!("{name}: {what}: {words}")),
            Err(why) => outlets.log(Weight::Warning, &format!("{name}: {what} failed: {why}")),
        }
        if let Err(error) = firing.step() {
            let text = format!("{name}: the end of {what} could not be recorded: {error}");
            outlets.log(Weight::Warning, &text);
        }
    }
    if let Err(error) = firing.finish() {
        outlets.log(Weight::Warning, &format!("{name} could not be removed: {error}"));
    }
}

/// Returns the session that a fuse is bound to.
fn target(adapters: Adapters, fuse: &Fuse) -> Option<Target> {
    let (id, root) = (fuse.session.as_ref()?, fuse.root.as_ref()?);
    let adapter = adapters.iter().find(|a| Some(a.name()) == fuse.adapter.as_deref())?;
    let locator = Locator { id: id.clone(), path: None, parent: None };
    Some(Target { adapter: adapter.name(), root: root.clone(), session: Some(locator), pid: None })
}

/// Stops the session that a fuse is bound to, or all sessions in its directory, like `agentctl stop`.
fn end(fleet: &Fleet, firing: &Firing, target: Option<&Target>) -> Result<String, String> {
    let fuse = &firing.fuse;
    let detail = Some(format!("{}: {}", name(fuse), firing.cause().word()));
    let ordered_by = EndedBy { kind: EndedByKind::Fuse, detail };
    let mut summary = StopSummary::default();
    let targets = match (&fuse.directory, target) {
        (Some(directory), _) => {
            let listing = fleet::list(fleet, &Query::default());
            let blind = listing.faults.iter().filter(|fault| fault.hides_adapter());
            summary.troubles.extend(blind.map(|f| format!("{}: {}", f.adapter, f.message)));
            let there = |s: &&Session| locks::works_in(&fleet.host, s, Path::new(directory));
            listing.sessions.iter().filter(there).map(Session::target).collect()
        }
        (None, Some(target)) => {
            if let Some(run) = &fuse.run
                && let Some(why) = why_spared(fleet, &Runs::of(&fleet.host).run(run), target)?
            {
                return Ok(why.into());
            }
            vec![target.clone()]
        }
        (None, None) => return Err("there is no such adapter any more".into()),
    };
    for target in targets {
        let targets = StopTargets {
            targets: vec![target],
            ordered_by: Some(ordered_by.clone()),
            ..StopTargets::default()
        };
        summary.add(&fleet.stop(&targets, &mut |_| {}));
    }
    let StopSummary { stopped, troubles } = summary;
    if stopped.is_empty() && troubles.is_empty() {
        return Ok("no session runs there".into());
    }
    let all = [stopped, troubles.clone()].concat().join("; ");
    if troubles.is_empty() { Ok(all) } else { Err(all) }
}

/// Returns why the session of a fuse that is limited to this run is not stopped: the run has ended, and a person may
/// have continued the session. An error if that cannot be told.
fn why_spared(fleet: &Fleet, run: &Run, target: &Target) -> Result<Option<&'static str>, String> {
    if run.is_gone() || run.over(&fleet.host).is_some() {
        return Ok(Some("its run has ended"));
    }
    let Inspected { session, faults, .. } = fleet::inspect(fleet, target);
    let is_found = session.is_some();
    if session.is_some_and(|session| run.serves(&fleet.host, &session)) {
        return Ok(None);
    }
    match faults.first() {
        Some(fault) => Err(format!("its session cannot be looked at: {}", fault.message)),
        None if !is_found => Err("its run has not ended, and its session is not found".into()),
        None if run.started().is_none() => Err(format!("the process of run {} is unknown", run.id)),
        None => Ok(Some("its run serves the session no more")),
    }
}

/// Runs a command to its end, in the directory of the fuse or session, or else in the home directory.
fn run(host: &Arc<Host>, argv: &[String], event: &Event) -> Result<String, String> {
    let fuse = event.fuse.as_ref();
    let session = event.session.as_ref();
    let directory =
        fuse.and_then(|f| f.directory.as_ref()).or(session.and_then(|s| s.cwd.as_ref()));
    let there = directory.map(PathBuf::from).filter(|d| d.is_dir());
    let cwd = there.unwrap_or_else(|| host.home.clone());
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let time = |time: Option<Time>| time.map(|t| t.to_string()).unwrap_or_default();
    let cause = fuse.and_then(|f| f.cause).map(|c| c.word().to_owned());
    let variables = vec![
        (hook::FUSE_ID, text(fuse.map(|f| &f.id))),
        (hook::FUSE_CAUSE, cause.unwrap_or_default()),
        (hook::FUSE_LABEL, text(fuse.and_then(|f| f.label.as_ref()))),
        (hook::FUSE_DIRECTORY, text(fuse.and_then(|f| f.directory.as_ref()))),
        (hook::FUSE_SESSION, text(fuse.and_then(|f| f.session.as_ref()))),
        (hook::FUSE_ADAPTER, text(fuse.and_then(|f| f.adapter.as_ref()))),
        (hook::FUSE_SET_AT, time(fuse.map(|f| f.set_at))),
        (hook::FUSE_EXPIRED_AT, time(Some(event.at))),
        (hook::EVENT_ID, event.id.clone()),
    ];
    let told = serde_json::to_vec(event).map_err(|e| e.to_string())?;
    let stdin = pipe_with(told).map_err(|e| e.to_string())?;
    let parent = parent_of_command(host, fuse.map_or("-", |f| f.id.as_str()));
    let limit = HOOK_TIMEOUT + PARENT_GRACE_PERIOD;
    let call = Call { argv, variables, cwd: &cwd, stdin: Some(stdin), limit };
    let attended = call.run_below(host, &parent);
    let said = attended.as_ref().map(|a| a.said.clone()).unwrap_or_default();
    let said = String::from_utf8_lossy(&said[..said.len().min(MAX_LOGGED_BYTES)]).trim().to_owned();
    let words = if said.is_empty() { String::new() } else { format!("; output: {said}") };
    match HookReport::of(attended.map(|a| a.exit), HOOK_TIMEOUT, host.now()).failure() {
        None => Ok(format!("done{words}")),
        Some(why) => Err(format!("{why}{words}")),
    }
}

/// Returns the program and the first arguments of the process that runs the command of a fuse: it ends the command in
/// time, and every process of the command can be told by it.
fn parent_of_command(host: &Host, fuse: &str) -> Vec<OsString> {
    let words = [FUSE_ACTION, fuse, "--"].map(OsString::from);
    std::iter::once(host.program.clone().into()).chain(words).collect()
}

/// Returns a pipe to read these bytes from. A thread writes them, so a command that does not read its stdin
/// blocks nothing; the thread ends when the command closes the pipe.
fn pipe_with(bytes: Vec<u8>) -> io::Result<File> {
    let (reader, mut writer) = io::pipe()?;
    std::thread::Builder::new().name("fuse-stdin".into()).spawn(move || {
        let _unread = writer.write_all(&bytes);
    })?;
    Ok(File::from(OwnedFd::from(reader)))
}

//! The agents that occupy a directory, and the manual locks of a person.
//!
//! Occupancy is derived, never stored: a directory is occupied while a live session works in it, whichever
//! program started it, and free as soon as the last one ends. Only manual locks are stored. The race between
//! two launches is closed by [`enter`], the mutex of the directory, held over *check, spawn, exec*.
//!
//! # Why no agent is overlooked
//!
//! The holder of the mutex must see every agent that was launched under the mutex before:
//!
//! - Until the agent's `exec` the mutex is held by the launcher, then the shim, then the starter, which share
//!   one file description. If one of them is killed, the next one still holds the mutex, or there will be
//!   no agent. So the holder of the mutex meets no starter, unless the starter's launch had no mutex (the
//!   directory was replaced in between, or the file system has no locks and the file used instead was
//!   removed). Such a starter counts as an agent, because it will become one.
//! - During an `exec`, neither arguments nor environment of a process can be read. On Linux the mutex is
//!   released only after the `exec`, but a script becomes its interpreter in a second `exec`. So a process
//!   that cannot be read is read again until the deadline; then it counts as occupying, because a refusal
//!   is safe.
//! - An agent that its adapter does not recognise yet (an interpreter before its second `exec`) carries the
//!   marker that names its own process. Processes that inherited the marker are its descendants and occupy
//!   nothing.
//! - Processes with a marker are looked for before the sessions are listed: an agent that hands over to a
//!   child process in between is found as the one or as the other.

mod announced;
mod manual;
mod mutex;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::announced::{Announced, announce, announced};
pub use self::manual::Manual;
use self::manual::{Folder, Kept};
pub use self::mutex::{EnterError, HeldMutex, enter, enter_resuming};
use crate::fleet::{self, Fleet, Query};
use crate::host::Host;
use crate::kernel::{Brief, Environ, ExitWatch, Process};
use crate::marks::{MARKER, Marker, STARTER};
use crate::model::{
    Fault, FaultCode, InternedName, Listing, OWN_SOURCE, ProcId, Session, Time, maybe_word,
};
use crate::native::real_path::real_place;
use crate::runs::{Run, Runs};

/// Time that a process may take for an `exec` before it counts as it is.
const FORMING_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a process without any environment is read again.
const EMPTY_TIMEOUT: Duration = Duration::from_millis(100);
/// Timeout of a manual lock that waits for a launch.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a directory is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A live session works in it.
    Occupied,
    /// A person locked it.
    Manual,
}

impl Kind {
    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Occupied => "occupied",
            Self::Manual => "manual",
        }
    }
}

/// An occupant of a directory, or a lock on it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Holder {
    /// Why it is not free.
    pub kind: Kind,
    /// The session that works there.
    pub session: Option<String>,
    /// Its adapter.
    #[serde(deserialize_with = "maybe_word")]
    pub adapter: Option<InternedName>,
    /// Its process.
    pub pid: Option<u32>,
    /// The holder that locked it.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Since when.
    pub since: Option<Time>,
    /// Until when, where the lock expires.
    pub until: Option<Time>,
    /// The holder in a few words.
    #[serde(skip)]
    pub what: String,
}

impl Holder {
    /// Describes the holder in a few words. `what` does not travel in JSON, so for a holder that the daemon sent
    /// the text is made from the other fields.
    #[must_use]
    pub fn description(&self) -> String {
        if !self.what.is_empty() {
            return self.what.clone();
        }
        if self.kind == Kind::Manual {
            let by = self.by.as_deref().unwrap_or("an unknown user");
            let reason = self.reason.as_ref().map(|reason| format!(": {reason}"));
            return format!("locked by {by}{}", reason.unwrap_or_default());
        }
        let name = match (self.adapter, &self.session) {
            (Some(adapter), Some(id)) => format!("{adapter} session {id}"),
            (Some(adapter), None) => format!("a {adapter} process without a session yet"),
            (None, _) => "an agent".to_owned(),
        };
        let pid = self.pid.map(|pid| format!(" (pid {pid})"));
        format!("{name}{}", pid.unwrap_or_default())
    }
}

/// One row of `agentctl locks`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Lock {
    /// The directory, links resolved.
    pub directory: String,
    /// The holder.
    #[serde(flatten)]
    pub holder: Holder,
}

/// The occupants and locks of one directory.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    /// The occupants and locks that refuse a launch.
    pub holders: Vec<Holder>,
    /// The occupants that are ancestors of this process: an agent may launch a helper where it works.
    pub exempt: Vec<Holder>,
    /// The sources that failed.
    pub faults: Vec<Fault>,
    /// The faults that may hide an occupant of this directory; see [`Fault::hides_adapter`].
    pub unsure: Vec<Fault>,
}

/// Why a directory could not be locked or unlocked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The directory is locked already.
    #[error("{} is already {}", .0.directory, .0.holder.what)]
    Locked(Box<Lock>),
    /// It is not locked.
    #[error("{0} is not locked")]
    NotLocked(String),
    /// A launch was at work there all the time.
    #[error("another launch is in progress in {0}")]
    Busy(String),
    /// The locks that are there could not be read.
    #[error("{0}")]
    Unreadable(String),
    /// It could not be done.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
}

/// Names the holder of the mutex of a directory, as far as the kernel knows it: the process that took the
/// lock or, if that process has exited, a process of this user that has the directory open.
#[must_use]
pub fn who_is_in(host: &Host, directory: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(directory).ok()?;
    let named = |process: &Process| {
        let paused = if process.paused { ", paused by a signal" } else { "" };
        let command = crate::model::shorten(&process.argv.join(" "), 80);
        format!("pid {} ({command}){paused}", process.id.pid)
    };
    let locks = host.kernel.file_locks(&|locked| locked == meta.ino()).ok()?;
    let mut held = locks.iter().filter(|l| l.inode == meta.ino() && l.kind == "FLOCK");
    let taker = held.find_map(|lock| host.kernel.process(lock.pid?).ok().flatten());
    if let Some(process) = taker {
        return Some(named(&process));
    }
    let table = host.kernel.table(Instant::now() + host.deadlines.live, |_| true);
    let own = std::process::id();
    let has_it_open = |process: &&Process| {
        process.id.pid != own
            && host.kernel.has_open(process.id.pid, meta.dev(), meta.ino()).unwrap_or(false)
    };
    let heir = table.processes.iter().find(has_it_open)?;
    Some(format!("a process that has exited; {} has the directory open", named(heir)))
}

/// Returns the occupants and locks of a directory (its real path). A caller that acts on the answer must hold
/// its [`HeldMutex`].
#[must_use]
pub fn occupancy(fleet: &Fleet, directory: &Path) -> Occupancy {
    let mut answer = Occupancy::default();
    let ancestors = ancestors(&fleet.host);
    let marked = marked(fleet, directory, &mut answer.faults);
    let listing = fleet::list(fleet, &Query::default());
    answer.faults.extend(listing.faults);
    let mut found: Vec<(Vec<ProcId>, Holder)> = Vec::new();
    for session in listing.sessions.iter().filter(|s| works_in(&fleet.host, s, directory)) {
        // Before the agent has a session, its run may name the session that was chosen.
        let launched = marked.iter().find(|(id, _)| session.is_served_by(id));
        let holder = match launched {
            Some((_, holder)) if session.id.is_none() => holder.clone(),
            _ => session_holder(session),
        };
        found.push((session.process_ids(), holder));
    }
    // The row of an adapter is more precise than the marker, also about the directory.
    let unknown = |(id, holder): &(ProcId, Holder)| !is_listed(&listing.sessions, id, holder);
    found.extend(marked.into_iter().filter(unknown).map(|(id, h)| (vec![id], h)));
    for (processes, holder) in found {
        let ours = processes.iter().any(|p| ancestors.contains(p));
        if ours { &mut answer.exempt } else { &mut answer.holders }.push(holder);
    }
    answer.holders.extend(manual_holder(&fleet.host, directory, &mut answer.faults));
    answer.unsure = unsure(fleet, directory, &answer.faults);
    answer
}

/// Returns the faults that may hide an occupant of this directory. An adapter that could not be asked matters
/// only if one of its processes has this working directory: one process anywhere on the machine must not be
/// able to refuse launches in every directory.
fn unsure(fleet: &Fleet, directory: &Path, faults: &[Fault]) -> Vec<Fault> {
    let blind: Vec<&Fault> = faults.iter().filter(|fault| fault.hides_adapter()).collect();
    if blind.is_empty() {
        return Vec::new();
    }
    let here = fleet.host.kernel.standing_in(directory, Instant::now() + fleet.host.deadlines.live);
    let may_be_there = |fault: &&Fault| {
        let Some(adapter) = fleet.adapters.iter().find(|a| a.name() == fault.adapter) else {
            return true;
        };
        // An adapter that panics here may be there.
        let claims = |process: &Process| {
            let exe = process.exe.as_deref().and_then(Path::file_name).unwrap_or_default();
            let brief = Brief { comm: &process.comm, exe_name: &exe.to_string_lossy() };
            std::panic::catch_unwind(AssertUnwindSafe(|| adapter.is_candidate(brief)))
                .unwrap_or(true)
        };
        !here.gaps.is_empty() || here.processes.iter().any(claims)
    };
    blind.into_iter().filter(may_be_there).cloned().collect()
}

/// Returns all occupied and all locked directories.
#[must_use]
pub fn all(fleet: &Fleet) -> (Vec<Lock>, Vec<Fault>) {
    let (listing, locks, mut faults) = sessions_and_locks(fleet);
    faults.extend(listing.faults);
    faults.sort();
    faults.dedup();
    (locks, faults)
}

/// Lists the live sessions and, from the same look, all occupied and locked directories. The faults are those
/// of the locks only; the listing has its own.
#[must_use]
pub fn sessions_and_locks(fleet: &Fleet) -> (Listing, Vec<Lock>, Vec<Fault>) {
    let runs = Runs::of(&fleet.host).all().unwrap_or_default();
    let launched = Launched::look(fleet, runs.into_iter().filter(|r| r.ended().is_none()));
    let listing = fleet::list(fleet, &Query::default());
    let (locks, faults) = of(&fleet.host, launched, &listing.sessions);
    (listing, locks, faults)
}

/// The live agents of runs, each with its working directory. A caller looks for them before it lists
/// sessions: an agent that hands over to a child process in between is found as the one or as the other.
#[derive(Debug)]
pub struct Launched(Vec<(ProcId, Lock)>);

impl Launched {
    /// Looks for the live agents of these runs, by the markers of their processes.
    pub fn look(fleet: &Fleet, runs: impl Iterator<Item = Run>) -> Self {
        Self(runs.filter_map(|run| launched(fleet, &run)).collect())
    }

    /// Adds the agents of other runs.
    pub fn add(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Returns their processes. Their exit makes a directory free.
    pub fn processes(&self) -> impl Iterator<Item = &ProcId> {
        self.0.iter().map(|(process, _)| process)
    }
}

/// Returns the directories that these agents and sessions occupy, and those with a manual lock.
#[must_use]
pub fn of(host: &Host, launched: Launched, sessions: &[Session]) -> (Vec<Lock>, Vec<Fault>) {
    let mut faults = Vec::new();
    let mut locks: Vec<Lock> = Vec::new();
    for session in sessions {
        let Some(cwd) = &session.cwd else { continue };
        locks.push(Lock {
            directory: real_text(host, session, cwd),
            holder: session_holder(session),
        });
    }
    let unknown = |(id, lock): &(ProcId, Lock)| !is_listed(sessions, id, &lock.holder);
    locks.extend(launched.0.into_iter().filter(unknown).map(|(_, lock)| lock));
    let folder = Folder::of(host);
    match folder.all() {
        Ok(kept) => {
            for kept in kept {
                match kept {
                    Kept::Lock(manual) => locks.push(manual_lock(&manual)),
                    Kept::Unreadable { path, why } => faults.push(folder.fault(&path, &why)),
                }
            }
        }
        Err(skip) => faults.push(folder.blind(&skip)),
    }
    locks.sort_by(|a, b| {
        let key = |l: &Lock| (l.directory.clone(), l.holder.kind == Kind::Occupied, l.holder.since);
        key(a).cmp(&key(b))
    });
    (locks, faults)
}

/// Locks a directory (its real path) until it is unlocked or the lock expires. An occupied directory may be
/// locked, to refuse the next launch.
pub fn lock(
    host: &Host,
    directory: &Path,
    by: Option<String>,
    reason: Option<String>,
    until: Option<Time>,
) -> Result<Lock, LockError> {
    let name = directory.to_string_lossy().into_owned();
    host.check_home().map_err(|e| failed(&name, e.into()))?;
    // With the mutex, a launch at the same time either sees the lock or has finished.
    let entry = enter(host, directory, LOCK_TIMEOUT).map_err(|e| failed(&name, e))?;
    let mut faults = Vec::new();
    if let Some(holder) = manual_holder(host, directory, &mut faults) {
        return Err(LockError::Locked(Box::new(Lock { directory: name, holder })));
    }
    if let Some(blind) = faults.into_iter().find(Fault::hides_adapter) {
        return Err(LockError::Unreadable(blind.message));
    }
    let manual = Manual { directory: name.clone(), by, reason, since: host.now(), until };
    Folder::of(host).put(directory, &manual).map_err(|e| failed(&name, e))?;
    drop(entry);
    Ok(manual_lock(&manual))
}

/// Removes a manual lock. A directory that no longer exists can still be unlocked.
pub fn unlock(host: &Host, directory: &Path) -> Result<(), LockError> {
    let name = directory.to_string_lossy().into_owned();
    match Folder::of(host).take(directory) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(LockError::NotLocked(name)),
        Err(error) => Err(failed(&name, error)),
    }
}

/// Returns the real path of a directory, links resolved, also of a directory that no longer exists.
#[must_use]
pub fn real_path(host: &Host, path: &Path) -> PathBuf {
    real_place(&host.cwd.join(path))
}

fn failed(name: &str, error: EnterError) -> LockError {
    match error {
        EnterError::Busy => LockError::Busy(name.to_owned()),
        EnterError::Io(error) => LockError::Io(name.to_owned(), error),
    }
}

/// Says whether a session works in this directory (its real path).
#[must_use]
pub fn works_in(host: &Host, session: &Session, directory: &Path) -> bool {
    session.cwd.as_ref().is_some_and(|cwd| Path::new(&real_text(host, session, cwd)) == directory)
}

/// Returns the directory of a session, links resolved. A directory that the kernel reported is not resolved
/// again, because a dead mount would block.
fn real_text(host: &Host, session: &Session, cwd: &str) -> String {
    let stands = |id: &ProcId| host.kernel.process(id.pid).ok().flatten().and_then(|p| p.cwd);
    if session.processes.iter().any(|p| stands(&p.id).as_deref() == Some(Path::new(cwd))) {
        return cwd.to_owned();
    }
    real_place(Path::new(cwd)).to_string_lossy().into_owned()
}

fn session_holder(session: &Session) -> Holder {
    let name = match &session.id {
        Some(id) => format!("{} session {id}", session.adapter),
        None => format!("a {} process without a session yet", session.adapter),
    };
    let what = match session.pid {
        Some(pid) => format!("{name} (pid {pid})"),
        None => name,
    };
    Holder {
        kind: Kind::Occupied,
        session: session.id.clone(),
        adapter: Some(session.adapter),
        pid: session.pid,
        by: None,
        reason: None,
        since: session.started_at,
        until: None,
        what,
    }
}

fn manual_lock(manual: &Manual) -> Lock {
    let mut holder = Holder {
        by: manual.by.clone(),
        reason: manual.reason.clone(),
        since: Some(manual.since),
        until: manual.until,
        ..blank(Kind::Manual)
    };
    holder.what = holder.description();
    Lock { directory: manual.directory.clone(), holder }
}

/// Returns the manual lock of a directory. A lock file that cannot be read counts as a lock.
fn manual_holder(host: &Host, directory: &Path, faults: &mut Vec<Fault>) -> Option<Holder> {
    let folder = Folder::of(host);
    let kept = match folder.all() {
        Ok(kept) => kept,
        Err(skip) => {
            faults.push(folder.blind(&skip));
            return None;
        }
    };
    let (name, place) = (directory.to_string_lossy(), folder.place(directory));
    let mut holder = None;
    for kept in kept {
        match kept {
            Kept::Lock(manual) if manual.directory == name => {
                holder = Some(manual_lock(&manual).holder);
            }
            Kept::Unreadable { path, why } if path == place => {
                faults.push(folder.fault(&path, &why));
                holder = holder.or(Some(Holder {
                    what: format!("locked (its lock file cannot be read: {why})"),
                    ..blank(Kind::Manual)
                }));
            }
            _ => {}
        }
    }
    holder
}

fn blank(kind: Kind) -> Holder {
    Holder {
        kind,
        session: None,
        adapter: None,
        pid: None,
        by: None,
        reason: None,
        since: None,
        until: None,
        what: String::new(),
    }
}

/// Returns this process and its ancestors.
fn ancestors(host: &Host) -> Vec<ProcId> {
    let Ok(Some(own)) = host.kernel.process(std::process::id()) else { return Vec::new() };
    let above: Vec<ProcId> = host.kernel.ancestors(&own).map(|process| process.id).collect();
    std::iter::once(own.id).chain(above).collect()
}

/// The kind of a process with a given working directory.
enum Seen {
    /// An agent that was launched by this program.
    Launched(Marker),
    /// It could not be read in time, perhaps because of an `exec`.
    Beginning,
    /// Any other process, or one that has exited.
    Stranger,
}

/// Returns the processes with this working directory that are launched agents, by their own environment.
fn marked(fleet: &Fleet, directory: &Path, faults: &mut Vec<Fault>) -> Vec<(ProcId, Holder)> {
    let table =
        fleet.host.kernel.standing_in(directory, Instant::now() + fleet.host.deadlines.live);
    if let Some(gap) = table.gaps.first() {
        let message = format!("not every process could be looked at: {gap}");
        faults.push(Fault { adapter: OWN_SOURCE, root: None, code: FaultCode::Failed, message });
    }
    let began = Instant::now();
    let me = std::process::id();
    let mut found = Vec::new();
    for process in table.processes.iter().filter(|p| p.id.pid != me) {
        match look(&fleet.host, process, began) {
            Seen::Launched(marker) => {
                found.push((process.id.clone(), launched_holder(fleet, process, &marker)));
            }
            Seen::Beginning => {
                let what = format!("a process that is just beginning (pid {})", process.id.pid);
                let pid = Some(process.id.pid);
                let holder =
                    Holder { pid, since: process.started_at, what, ..blank(Kind::Occupied) };
                found.push((process.id.clone(), holder));
            }
            Seen::Stranger => {}
        }
    }
    found
}

/// Reads one process again and again, until it can be read or the deadline has passed.
fn look(host: &Host, process: &Process, began: Instant) -> Seen {
    let named = || match host.kernel.process(process.id.pid) {
        Ok(Some(now)) if now.id == process.id => Some(now),
        _ => None,
    };
    loop {
        let Some(before) = named() else { return Seen::Stranger };
        // A process that may not be read was not launched by this user.
        let Ok(environ) = host.kernel.environ_now(&process.id, &[MARKER]) else {
            return Seen::Stranger;
        };
        let Some(after) = named() else { return Seen::Stranger };
        let starter = after.argv.get(1).is_some_and(|arg| arg == STARTER);
        let limit = match environ {
            Environ::Values(values) => {
                let marker = values.into_iter().flatten().next().and_then(|t| Marker::parse(&t));
                match marker.filter(|m| m.names(&process.id)) {
                    Some(marker) => return Seen::Launched(marker),
                    None if starter => FORMING_TIMEOUT,
                    // An `exec` happened meanwhile: the new program may be the launched agent.
                    None if before.argv != after.argv => EMPTY_TIMEOUT,
                    None => return Seen::Stranger,
                }
            }
            Environ::Empty if starter => FORMING_TIMEOUT,
            Environ::Empty => EMPTY_TIMEOUT,
            // Without a program: a thread of the kernel, or a process that exits.
            Environ::Forming if after.exe.is_none() => return Seen::Stranger,
            Environ::Forming => FORMING_TIMEOUT,
        };
        if began.elapsed() >= limit {
            return if limit == EMPTY_TIMEOUT { Seen::Stranger } else { Seen::Beginning };
        }
        // The exit of the process ends this wait; the kernel has no event for the end of an `exec`.
        let mut watch = ExitWatch::default();
        if matches!(watch.add(&host.kernel, &process.id), Ok(true)) {
            let _hint = watch.wait(Some(Duration::from_millis(1)));
        }
    }
}

fn launched_holder(fleet: &Fleet, process: &Process, marker: &Marker) -> Holder {
    let run = Runs::of(&fleet.host).run(&marker.run);
    let spec = run.spec();
    let session = run.session().or_else(|| spec.as_ref().and_then(|s| s.session.clone()));
    let name = spec.as_ref().map(|s| s.adapter.as_str());
    let adapter = fleet.adapters.iter().map(|a| a.name()).find(|n| Some(*n) == name);
    let pid = process.id.pid;
    let what = match (adapter, &session) {
        (Some(adapter), Some(id)) => format!("{adapter} session {id} (pid {pid})"),
        (Some(adapter), None) => format!("a {adapter} process without a session yet (pid {pid})"),
        _ => format!("an agent launched as run {} (pid {pid})", marker.run),
    };
    let pid = Some(pid);
    Holder { session, adapter, pid, since: process.started_at, what, ..blank(Kind::Occupied) }
}

/// Says whether a launched process is listed already: by its pid or, if it only wraps the agent, by the
/// session of its run.
fn is_listed(sessions: &[Session], id: &ProcId, holder: &Holder) -> bool {
    sessions.iter().any(|session| {
        let same = session.id.is_some() && session.id == holder.session;
        session.is_served_by(id) || (same && Some(session.adapter) == holder.adapter)
    })
}

/// Returns the agent of a run that has started, if the marker of its process confirms it.
fn launched(fleet: &Fleet, run: &Run) -> Option<(ProcId, Lock)> {
    let started = run.started()?;
    let process = fleet.host.kernel.process(started.process.pid).ok().flatten()?;
    if process.id != started.process {
        return None;
    }
    let Seen::Launched(marker) = look(&fleet.host, &process, Instant::now()) else { return None };
    let directory = process.cwd.as_ref()?.to_string_lossy().into_owned();
    let holder = launched_holder(fleet, &process, &marker);
    Some((process.id.clone(), Lock { directory, holder }))
}

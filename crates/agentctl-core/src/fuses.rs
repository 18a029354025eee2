//! Fuses: a user's orders to act when a condition is met, one small file each in `<state>/fuses/`.
//!
//! A fuse holds conditions and actions, never a status: whether it is due is computed from the clock and a
//! fresh look. There is one fuse per target and label; setting it again replaces it. The name of the file
//! holds the progress of its actions (see `firing`).

mod due;
mod firing;

use std::fs::TryLockError;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::due::{Due, due, next_due};
use self::firing::FiringProgress;
pub use self::firing::{Firing, claim, unfinished};
use crate::host::Host;
use crate::model::{Fault, Time, is_session_id};
use crate::native::file;
use crate::runs::Runs;
use crate::state_files::{EnterError, Folder};

/// Limit of retries when files are renamed while the folder is read: more than a fuse has steps.
const MAX_READ_RETRIES: u32 = 1000;

/// The condition that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Its time to live is over.
    Ttl,
    /// Its target was idle for too long.
    Idle,
    /// A session ran for too long.
    MaxRuntime,
    /// A session cost too much.
    MaxCost,
}

impl Cause {
    const ALL: [Self; 4] = [Self::Ttl, Self::Idle, Self::MaxRuntime, Self::MaxCost];

    /// Returns its name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Idle => "idle",
            Self::MaxRuntime => "max-runtime",
            Self::MaxCost => "max-cost",
        }
    }
}

/// An action of a fuse that has expired. The event `fuse.expired` is sent in any case.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Action {
    /// Only the event.
    Event,
    /// The session of the fuse is stopped, or all sessions that work in its directory.
    Stop,
    /// A program is run, without a shell.
    Run {
        /// The program and its arguments; events hold the program only.
        argv: Vec<String>,
    },
    /// The event is posted to an address.
    Webhook {
        /// The address; only its host is shown, since the rest may be a secret.
        url: String,
    },
}

impl Action {
    /// Returns a copy without secrets.
    fn public(&self) -> Self {
        let Self::Webhook { url } = self else { return self.clone() };
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        // A user name and password may precede the host.
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        Self::Webhook { url: format!("{scheme}://{host}") }
    }

    /// Returns the form for events: of a program only its name, not its arguments.
    fn told(&self) -> Self {
        match self {
            Self::Run { argv } => Self::Run { argv: argv.iter().take(1).cloned().collect() },
            other => other.public(),
        }
    }
}

/// The progress of a fuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FuseState {
    /// Its conditions are not met yet.
    #[default]
    Burning,
    /// It has expired, and a daemon is running its actions.
    Firing,
    /// It has expired, and the daemon that ran its actions was ended before it finished.
    Interrupted,
    /// It expired a moment ago, and all its actions are done.
    Fired,
}

impl FuseState {
    /// Returns its name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Burning => "burning",
            Self::Firing => "firing",
            Self::Interrupted => "interrupted",
            Self::Fired => "fired",
        }
    }
}

/// One fuse.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fuse {
    /// Its id.
    pub id: String,
    /// The directory it is bound to, as a canonical path.
    pub directory: Option<String>,
    /// The session it is bound to.
    pub session: Option<String>,
    /// The adapter of that session.
    pub adapter: Option<String>,
    /// The home of that session.
    pub root: Option<String>,
    /// The run that it is limited to: it counts only while the process of that run serves the session, and goes with
    /// the run.
    #[serde(default)]
    pub run: Option<String>,
    /// The user's label.
    pub label: Option<String>,
    /// When it was set.
    pub set_at: Time,
    /// When it was last extended.
    pub extended_at: Option<Time>,
    /// When it expires, if it has a time to live.
    pub due_at: Option<Time>,
    /// The time to live in milliseconds; `extend` starts it again.
    pub ttl_ms: Option<u64>,
    /// It expires when its target has been idle for this many milliseconds.
    pub idle_ms: Option<u64>,
    /// It expires when a session has run for this many milliseconds.
    pub max_runtime_ms: Option<u64>,
    /// It expires when a session has cost this many dollars.
    pub max_cost_usd: Option<f64>,
    /// The actions, in order.
    pub on_expire: Vec<Action>,
    /// Its progress.
    #[serde(default)]
    pub state: FuseState,
    /// When it expired.
    #[serde(default)]
    pub expired_at: Option<Time>,
    /// Why it expired.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// A remark about an interrupted fuse.
    #[serde(default)]
    pub note: Option<String>,
}

impl Fuse {
    /// Returns a copy without secrets.
    pub(crate) fn public(&self) -> Self {
        let on_expire = self.on_expire.iter().map(Action::public).collect();
        Self { on_expire, ..self.clone() }
    }

    /// Returns the form for events and webhooks.
    pub(crate) fn told(&self) -> Self {
        let on_expire = self.on_expire.iter().map(Action::told).collect();
        Self { on_expire, ..self.clone() }
    }

    /// Says whether it waits for its conditions and the run that it is limited to is over, or was removed. A run that
    /// cannot be read is neither.
    fn has_lost_its_run(&self, host: &Host) -> bool {
        let run = self.run.as_deref().filter(|_| self.state == FuseState::Burning);
        run.map(|id| Runs::of(host).run(id))
            .is_some_and(|run| run.is_gone() || run.over(host).is_some())
    }

    fn bound(&self) -> Option<Bound> {
        match (&self.directory, &self.session, &self.adapter, &self.root) {
            (Some(directory), None, ..) if Path::new(directory).is_absolute() => {
                Some(Bound::Directory(directory.clone()))
            }
            (None, Some(id), Some(adapter), Some(root)) => {
                let (adapter, root, id) = (adapter.clone(), root.clone(), id.clone());
                Some(Bound::Session { adapter, root, id })
            }
            _ => None,
        }
    }
}

/// The target of a fuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A directory, as a canonical path.
    Directory(String),
    /// One session.
    Session {
        /// Its adapter.
        adapter: String,
        /// Its home.
        root: String,
        /// Its id.
        id: String,
    },
}

/// The conditions of a fuse; any one of them is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// Time to live in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Idle time in milliseconds.
    pub idle_ms: Option<u64>,
    /// Runtime of a session in milliseconds.
    pub max_runtime_ms: Option<u64>,
    /// Cost of a session in dollars.
    pub max_cost_usd: Option<f64>,
}

impl Conditions {
    /// Says whether no condition is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The request to set a fuse.
#[derive(Clone, Debug)]
pub struct FuseOrder {
    /// Its target.
    pub bound: Bound,
    /// The run that it is limited to.
    pub run: Option<String>,
    /// Its label; there is one fuse per target and label.
    pub label: Option<String>,
    /// Its conditions.
    pub when: Conditions,
    /// Its actions.
    pub on_expire: Vec<Action>,
}

/// Why a fuse could not be set, extended, cancelled or fired.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// There is no fuse with this id.
    #[error("there is no such fuse")]
    Missing,
    /// Its actions are being run.
    #[error("it has expired, and its actions are running")]
    Firing,
    /// It has no time to live to restart.
    #[error("it has no ttl")]
    Timeless,
    /// The time is out of range.
    #[error("the date is too far in the future")]
    TooFar,
    /// Other processes held the folder's lock until the timeout.
    #[error("another process is changing fuses")]
    Busy,
    /// The folder could not be read or written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl From<EnterError> for FuseError {
    fn from(error: EnterError) -> Self {
        match error {
            EnterError::Busy => Self::Busy,
            EnterError::Io(error) => Self::Io(error),
        }
    }
}

impl From<file::Skip> for FuseError {
    fn from(skip: file::Skip) -> Self {
        Self::Io(std::io::Error::other(skip.to_string()))
    }
}

/// Returns the folder of fuses, for a file watch.
#[must_use]
pub fn folder(host: &Host) -> PathBuf {
    Fuses::of(host).folder.path().to_owned()
}

/// Returns every fuse without secrets, the next to expire first, and a fault for each unreadable file.
#[must_use]
pub fn all(host: &Host) -> (Vec<Fuse>, Vec<Fault>) {
    let (mut fuses, faults) = seen(host);
    fuses.retain(|f| f.state != FuseState::Fired);
    (fuses, faults)
}

/// As [`all`], plus the fuses that were fired a moment ago, so that a comparison of two looks can tell a
/// fired fuse from a cancelled one.
#[must_use]
pub fn seen(host: &Host) -> (Vec<Fuse>, Vec<Fault>) {
    let fuses = Fuses::of(host);
    let (found, faults) = match fuses.all() {
        Ok(found) => found,
        Err(skip) => return (Vec::new(), vec![fuses.folder.blind(&skip)]),
    };
    let found = found.into_iter().filter(|entry| !entry.fuse.has_lost_its_run(host));
    let mut found: Vec<Fuse> = found.map(|entry| entry.fuse.public()).collect();
    let key = |f: &Fuse| {
        (f.state == FuseState::Burning, f.due_at.is_none(), f.due_at, f.set_at, f.id.clone())
    };
    found.sort_by_key(key);
    (found, faults)
}

/// Sets a fuse. An older one with the same target and label is replaced and returned as the second value.
pub fn set(host: &Host, order: FuseOrder) -> Result<(Fuse, Option<Fuse>), FuseError> {
    let FuseOrder { bound, run, label, when, on_expire } = order;
    let now = host.now();
    let (directory, session, adapter, root) = match bound {
        Bound::Directory(directory) => (Some(directory), None, None, None),
        Bound::Session { adapter, root, id } => (None, Some(id), Some(adapter), Some(root)),
    };
    let fuse = Fuse {
        id: uuid::Uuid::new_v4().to_string(),
        directory,
        session,
        adapter,
        root,
        run,
        label,
        set_at: now,
        extended_at: None,
        due_at: when.ttl_ms.map(|ttl| after(now, ttl).ok_or(FuseError::TooFar)).transpose()?,
        ttl_ms: when.ttl_ms,
        idle_ms: when.idle_ms,
        max_runtime_ms: when.max_runtime_ms,
        max_cost_usd: when.max_cost_usd,
        on_expire,
        state: FuseState::Burning,
        expired_at: None,
        cause: None,
        note: None,
    };
    let fuses = Fuses::of(host);
    let entered = fuses.folder.enter()?;
    let place = fuses.place(&fuse);
    let (entry, _unreadable) = fuses.all()?;
    let same = |l: &&FuseFile| l.fuse.bound() == fuse.bound() && l.fuse.label == fuse.label;
    let older: Vec<&FuseFile> = entry.iter().filter(same).collect();
    let replaced = older.iter().find(|l| l.progress.is_none()).map(|l| l.fuse.public());
    fuses.folder.put(&entered, &place, &fuse)?;
    // Remove copies that a user put under another name, and the remains of an interrupted one.
    let told = |l: &FuseFile| l.is_over() && l.fuse.state == FuseState::Interrupted;
    let stale = older.into_iter().filter(|l| told(l) || (l.progress.is_none() && l.path != place));
    let over = entry.iter().filter(|l| l.path != place && l.fuse.has_lost_its_run(host));
    let stale: Vec<PathBuf> = stale.chain(over).map(|l| l.path.clone()).collect();
    fuses.folder.remove(&entered, &stale)?;
    Ok((fuse.public(), replaced))
}

/// Restarts the time to live of a fuse, and replaces the conditions that are given.
pub fn extend(host: &Host, id: &str, change: Conditions) -> Result<Fuse, FuseError> {
    let fuses = Fuses::of(host);
    let entered = fuses.enter_existing()?;
    let FuseFile { path, mut fuse, .. } = fuses.find(id)?;
    if fuse.state != FuseState::Burning {
        return Err(FuseError::Firing);
    }
    if change.is_empty() && fuse.ttl_ms.is_none() {
        return Err(FuseError::Timeless);
    }
    let now = host.now();
    if change.is_empty() || change.ttl_ms.is_some() {
        fuse.ttl_ms = change.ttl_ms.or(fuse.ttl_ms);
        let due = |ttl| after(now, ttl).ok_or(FuseError::TooFar);
        fuse.due_at = fuse.ttl_ms.map(due).transpose()?;
    }
    fuse.idle_ms = change.idle_ms.or(fuse.idle_ms);
    fuse.max_runtime_ms = change.max_runtime_ms.or(fuse.max_runtime_ms);
    fuse.max_cost_usd = change.max_cost_usd.or(fuse.max_cost_usd);
    fuse.extended_at = Some(now);
    fuses.folder.put(&entered, &path, &fuse)?;
    Ok(fuse.public())
}

/// Cancels a fuse, or removes the remains of an interrupted one.
pub fn cancel(host: &Host, id: &str) -> Result<Fuse, FuseError> {
    let fuses = Fuses::of(host);
    let entered = fuses.enter_existing()?;
    let entry = fuses.find(id)?;
    if entry.fuse.state == FuseState::Firing {
        return Err(FuseError::Firing);
    }
    fuses.folder.remove(&entered, std::slice::from_ref(&entry.path))?;
    Ok(entry.fuse.public())
}

/// Removes an unreadable file in the place of this fuse; says whether there was one.
pub fn clear(host: &Host, bound: &Bound, label: Option<&str>) -> Result<bool, FuseError> {
    let fuses = Fuses::of(host);
    let Ok(entered) = fuses.enter_existing() else { return Ok(false) };
    let place = fuses.place_of(bound, label);
    if !place.exists() || fuses.read(&place).is_ok() {
        return Ok(false);
    }
    fuses.folder.remove(&entered, &[place])?;
    Ok(true)
}

/// Returns the time `ms` milliseconds later, if it is in range.
#[must_use]
pub fn after(time: Time, ms: u64) -> Option<Time> {
    let ms = i64::try_from(ms).ok()?;
    time.millis().checked_add(ms).and_then(Time::from_millis)
}

/// One file of the folder.
struct FuseFile {
    path: PathBuf,
    /// The fuse, with secrets.
    fuse: Fuse,
    /// The progress of its actions; `None` while its conditions are not met.
    progress: Option<FiringProgress>,
}

impl FuseFile {
    /// Says whether all its actions are done and the file remains for display only.
    fn is_over(&self) -> bool {
        self.progress.as_ref().is_some_and(|m| m.is_over)
    }
}

/// The folder of fuses.
struct Fuses {
    folder: Folder,
}

impl Fuses {
    fn of(host: &Host) -> Self {
        Self { folder: Folder::of(host, "fuses", "fuse") }
    }

    fn enter_existing(&self) -> Result<crate::state_files::Entered, FuseError> {
        if !self.folder.path().exists() {
            return Err(FuseError::Missing);
        }
        Ok(self.folder.enter()?)
    }

    fn place(&self, fuse: &Fuse) -> PathBuf {
        match fuse.bound() {
            Some(bound) => self.place_of(&bound, fuse.label.as_deref()),
            None => self.folder.place("", fuse.id.as_bytes()),
        }
    }

    fn place_of(&self, bound: &Bound, label: Option<&str>) -> PathBuf {
        let label = label.unwrap_or_default();
        match bound {
            Bound::Directory(directory) => {
                let name = Path::new(directory).file_name().unwrap_or_default().to_string_lossy();
                self.folder.place(&name, format!("directory\0{directory}\0{label}").as_bytes())
            }
            Bound::Session { adapter, root, id } => {
                let key = format!("session\0{adapter}\0{root}\0{id}\0{label}");
                self.folder.place(id, key.as_bytes())
            }
        }
    }

    fn all(&self) -> Result<(Vec<FuseFile>, Vec<Fault>), file::Skip> {
        let mut tries = 1;
        loop {
            let (mut found, mut faults, mut moved) = (Vec::new(), Vec::new(), false);
            for entry in self.folder.entries()? {
                match self.read(&entry.path) {
                    Ok(entry) => found.push(entry),
                    Err(file::Skip::Missing) => moved = true,
                    Err(why) => faults.push(self.folder.fault(&entry.path, &why.to_string())),
                }
            }
            // A missing file was removed or renamed by its next step. Read again: an expired fuse must not
            // be taken for a cancelled one.
            if !moved || tries == MAX_READ_RETRIES {
                return Ok((found, faults));
            }
            tries += 1;
        }
    }

    fn find(&self, id: &str) -> Result<FuseFile, FuseError> {
        let (found, _unreadable) = self.all()?;
        let mut found = found.into_iter().filter(|entry| entry.fuse.state != FuseState::Fired);
        found.find(|entry| entry.fuse.id == id).ok_or(FuseError::Missing)
    }

    fn read(&self, path: &Path) -> Result<FuseFile, file::Skip> {
        let mut fuse: Fuse = self.folder.read(path)?;
        if !is_session_id(&fuse.id) {
            return Err(file::Skip::Other(format!("`{}` is no id", fuse.id)));
        }
        if fuse.bound().is_none() {
            let why = "it is bound neither to a directory nor to a session";
            return Err(file::Skip::Other(why.into()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let progress = FiringProgress::parse(&name);
        if progress.as_ref().is_some_and(|progress| progress.id != fuse.id) {
            return Err(file::Skip::Other("its name says another id".into()));
        }
        (fuse.state, fuse.expired_at, fuse.cause, fuse.note) = match &progress {
            None => (FuseState::Burning, None, None, None),
            Some(progress) => {
                let state = match progress.is_over {
                    true if progress.cut.is_none() => FuseState::Fired,
                    false if self.is_attended(path)? => FuseState::Firing,
                    _ => FuseState::Interrupted,
                };
                (state, Some(progress.at), Some(progress.cause), progress.note(&fuse, state))
            }
        };
        Ok(FuseFile { path: path.to_owned(), fuse, progress })
    }

    /// Says whether a daemon runs its actions: the daemon holds the file's lock, which the kernel releases
    /// if the daemon dies.
    fn is_attended(&self, path: &Path) -> Result<bool, file::Skip> {
        match self.folder.open(path)?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

//! Fuses: a person's intent that something happens at a time, one small file each in `<state>/fuses/`.
//!
//! A fuse says what is to be done and when, never what lives: whether it is due is reckoned from the
//! clock and from a fresh look. There is one for a target and label; setting it again replaces it. The
//! file is the fuse; its name says how far it has come (`firing`).

mod due;
mod firing;

use std::fs::TryLockError;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::due::{Due, due, next_due};
use self::firing::Mark;
pub use self::firing::{Firing, claim, unfinished};
use crate::host::Host;
use crate::model::{Fault, Time, is_session_id};
use crate::native::file;
use crate::state_files::{EnterError, Folder};

/// So often the folder is read anew where files move while it is read: more often than any fuse can move.
const MOST_TRIES: u32 = 1000;

/// Why a fuse burnt down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Its time was over.
    Ttl,
    /// What it is bound to was idle for too long.
    Idle,
    /// A session ran for too long.
    MaxRuntime,
    /// A session cost too much.
    MaxCost,
}

impl Cause {
    const ALL: [Self; 4] = [Self::Ttl, Self::Idle, Self::MaxRuntime, Self::MaxCost];

    /// Returns the word for it.
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

/// What is done when a fuse has burnt down. That it has is told in any case (`fuse.expired`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Action {
    /// Nothing but telling.
    Event,
    /// The session it is bound to is stopped, or all that work in the directory.
    Stop,
    /// A program is run, without a shell.
    Run {
        /// The program and its arguments; events hold the program only.
        argv: Vec<String>,
    },
    /// The event is posted there.
    Webhook {
        /// The address; only its host is shown, since the rest may be a secret.
        url: String,
    },
}

impl Action {
    /// Returns it without what may be a secret.
    fn public(&self) -> Self {
        let Self::Webhook { url } = self else { return self.clone() };
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        // A name and a password may stand before the host.
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        Self::Webhook { url: format!("{scheme}://{host}") }
    }

    /// Returns it as events tell it to everybody: of a program its name, not its arguments.
    fn told(&self) -> Self {
        match self {
            Self::Run { argv } => Self::Run { argv: argv.iter().take(1).cloned().collect() },
            other => other.public(),
        }
    }
}

/// How far a fuse has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FuseState {
    /// It burns.
    #[default]
    Burning,
    /// It has burnt down, and somebody is at what it asks for.
    Firing,
    /// It has burnt down, and whoever was at it was ended in the middle.
    Interrupted,
    /// It burnt down a moment ago, and all it asks for was done.
    Fired,
}

impl FuseState {
    /// Returns the word for it.
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

/// One fuse, as a person set it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fuse {
    /// Its id.
    pub id: String,
    /// The directory it is bound to, links resolved.
    pub directory: Option<String>,
    /// The session it is bound to.
    pub session: Option<String>,
    /// The adapter of that session.
    pub adapter: Option<String>,
    /// The home that session lies in.
    pub root: Option<String>,
    /// A few words of whoever set it.
    pub label: Option<String>,
    /// When it was set.
    pub set_at: Time,
    /// When it was last extended.
    pub extended_at: Option<Time>,
    /// When it burns down, for one with a time to live.
    pub due_at: Option<Time>,
    /// That time to live, in milliseconds; `extend` starts it again.
    pub ttl_ms: Option<u64>,
    /// It burns down when what it is bound to has been idle for so many milliseconds.
    pub idle_ms: Option<u64>,
    /// It burns down when a session has run for so many milliseconds.
    pub max_runtime_ms: Option<u64>,
    /// It burns down when a session has cost so many dollars.
    pub max_cost_usd: Option<f64>,
    /// What is done then, in this order.
    pub on_expire: Vec<Action>,
    /// How far it has come.
    #[serde(default)]
    pub state: FuseState,
    /// When it burnt down.
    #[serde(default)]
    pub expired_at: Option<Time>,
    /// Why it burnt down.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// What is worth knowing about one that was interrupted.
    #[serde(default)]
    pub note: Option<String>,
}

impl Fuse {
    /// Returns it without what may be a secret.
    pub(crate) fn public(&self) -> Self {
        let on_expire = self.on_expire.iter().map(Action::public).collect();
        Self { on_expire, ..self.clone() }
    }

    /// Returns it as events tell it to everybody, webhooks included.
    pub(crate) fn told(&self) -> Self {
        let on_expire = self.on_expire.iter().map(Action::told).collect();
        Self { on_expire, ..self.clone() }
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

/// What a fuse is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A directory: its real path.
    Directory(String),
    /// One session.
    Session {
        /// Its adapter.
        adapter: String,
        /// The home it lies in.
        root: String,
        /// Its id.
        id: String,
    },
}

/// When a fuse burns down. Any one of several conditions is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// After so many milliseconds.
    pub ttl_ms: Option<u64>,
    /// After so many of them without work.
    pub idle_ms: Option<u64>,
    /// When a session has run for so many.
    pub max_runtime_ms: Option<u64>,
    /// When a session has cost so much.
    pub max_cost_usd: Option<f64>,
}

impl Conditions {
    /// Says whether nothing is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A fuse that somebody wants.
#[derive(Clone, Debug)]
pub struct FuseOrder {
    /// What it is bound to.
    pub bound: Bound,
    /// A few words; there is one fuse for a target and label.
    pub label: Option<String>,
    /// When it burns down.
    pub when: Conditions,
    /// What is done then.
    pub on_expire: Vec<Action>,
}

/// Why a fuse could not be set, extended, cancelled or fired.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// There is none of this id, or none any more.
    #[error("there is no such fuse")]
    Missing,
    /// What it asks for is being done.
    #[error("it has burnt down, and what it asks for is being done")]
    Firing,
    /// It has no time to live that could start again.
    #[error("it has no time to live")]
    Timeless,
    /// That time is in no calendar.
    #[error("no calendar reaches that far")]
    TooFar,
    /// Others changed fuses all the time.
    #[error("others are changing fuses")]
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

/// Returns the folder whose changes are worth another look.
#[must_use]
pub fn folder(host: &Host) -> PathBuf {
    Fuses::of(host).folder.path().to_owned()
}

/// Returns every fuse, the next to burn down first, without what may be a secret; and a fault for each
/// file that cannot be read.
#[must_use]
pub fn all(host: &Host) -> (Vec<Fuse>, Vec<Fault>) {
    let (mut fuses, faults) = seen(host);
    fuses.retain(|f| f.state != FuseState::Fired);
    (fuses, faults)
}

/// As [`all`], with those that were fired a moment ago: whoever compares two looks must be able to tell
/// them from cancelled ones.
#[must_use]
pub fn seen(host: &Host) -> (Vec<Fuse>, Vec<Fault>) {
    let fuses = Fuses::of(host);
    let (found, faults) = match fuses.all() {
        Ok(found) => found,
        Err(skip) => return (Vec::new(), vec![fuses.folder.blind(&skip)]),
    };
    let mut found: Vec<Fuse> = found.into_iter().map(|lit| lit.fuse.public()).collect();
    let key = |f: &Fuse| {
        (f.state == FuseState::Burning, f.due_at.is_none(), f.due_at, f.set_at, f.id.clone())
    };
    found.sort_by_key(key);
    (found, faults)
}

/// Sets a fuse; one of the same target and label is replaced and returned beside it.
pub fn set(host: &Host, order: FuseOrder) -> Result<(Fuse, Option<Fuse>), FuseError> {
    let FuseOrder { bound, label, when, on_expire } = order;
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
    let (lit, _unreadable) = fuses.all()?;
    let same = |l: &&Lit| l.fuse.bound() == fuse.bound() && l.fuse.label == fuse.label;
    let older: Vec<&Lit> = lit.iter().filter(same).collect();
    let replaced = older.iter().find(|l| l.mark.is_none()).map(|l| l.fuse.public());
    fuses.folder.put(&entered, &place, &fuse)?;
    // Where a person may have put it, and what was said about the one before.
    let told = |l: &Lit| l.is_over() && l.fuse.state == FuseState::Interrupted;
    let stale = older.iter().filter(|l| told(l) || (l.mark.is_none() && l.path != place));
    let stale: Vec<PathBuf> = stale.map(|l| l.path.clone()).collect();
    fuses.folder.remove(&entered, &stale)?;
    Ok((fuse.public(), replaced))
}

/// Starts the time to live of a fuse again, and puts other conditions in the place of those given.
pub fn extend(host: &Host, id: &str, change: Conditions) -> Result<Fuse, FuseError> {
    let fuses = Fuses::of(host);
    let entered = fuses.enter_existing()?;
    let Lit { path, mut fuse, .. } = fuses.find(id)?;
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

/// Puts a fuse out, or takes away what is left of one that was interrupted.
pub fn cancel(host: &Host, id: &str) -> Result<Fuse, FuseError> {
    let fuses = Fuses::of(host);
    let entered = fuses.enter_existing()?;
    let lit = fuses.find(id)?;
    if lit.fuse.state == FuseState::Firing {
        return Err(FuseError::Firing);
    }
    fuses.folder.remove(&entered, std::slice::from_ref(&lit.path))?;
    Ok(lit.fuse.public())
}

/// Takes away a file that cannot be read and lies where this fuse would; says whether there was one.
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

/// Returns the instant so many milliseconds after this one, if any calendar reaches that far.
#[must_use]
pub fn after(time: Time, ms: u64) -> Option<Time> {
    let ms = i64::try_from(ms).ok()?;
    time.millis().checked_add(ms).and_then(Time::from_millis)
}

/// One file of the folder.
struct Lit {
    path: PathBuf,
    /// With what may be a secret.
    fuse: Fuse,
    /// How far it has come; `None` while it burns.
    mark: Option<Mark>,
}

impl Lit {
    /// Says whether it stays only to be seen.
    fn is_over(&self) -> bool {
        self.mark.as_ref().is_some_and(|m| m.is_over)
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

    fn all(&self) -> Result<(Vec<Lit>, Vec<Fault>), file::Skip> {
        let mut tries = 1;
        loop {
            let (mut found, mut faults, mut moved) = (Vec::new(), Vec::new(), false);
            for entry in self.folder.entries()? {
                match self.read(&entry.path) {
                    Ok(lit) => found.push(lit),
                    Err(file::Skip::Missing) => moved = true,
                    Err(why) => faults.push(self.folder.fault(&entry.path, &why.to_string())),
                }
            }
            // It was taken away, or it is a step further and has another name by now: who has burnt down
            // must not be taken for cancelled.
            if !moved || tries == MOST_TRIES {
                return Ok((found, faults));
            }
            tries += 1;
        }
    }

    fn find(&self, id: &str) -> Result<Lit, FuseError> {
        let (found, _unreadable) = self.all()?;
        let mut found = found.into_iter().filter(|lit| lit.fuse.state != FuseState::Fired);
        found.find(|lit| lit.fuse.id == id).ok_or(FuseError::Missing)
    }

    fn read(&self, path: &Path) -> Result<Lit, file::Skip> {
        let mut fuse: Fuse = self.folder.read(path)?;
        if !is_session_id(&fuse.id) {
            return Err(file::Skip::Other(format!("`{}` is no id", fuse.id)));
        }
        if fuse.bound().is_none() {
            let why = "it is bound neither to a directory nor to a session";
            return Err(file::Skip::Other(why.into()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mark = Mark::parse(&name);
        if mark.as_ref().is_some_and(|mark| mark.id != fuse.id) {
            return Err(file::Skip::Other("its name says another id".into()));
        }
        (fuse.state, fuse.expired_at, fuse.cause, fuse.note) = match &mark {
            None => (FuseState::Burning, None, None, None),
            Some(mark) => {
                let state = match mark.is_over {
                    true if mark.cut.is_none() => FuseState::Fired,
                    false if self.is_attended(path)? => FuseState::Firing,
                    _ => FuseState::Interrupted,
                };
                (state, Some(mark.at), Some(mark.cause), mark.note(&fuse, state))
            }
        };
        Ok(Lit { path: path.to_owned(), fuse, mark })
    }

    /// Says whether somebody is at it: whoever is holds its lock, and nobody can die with it.
    fn is_attended(&self, path: &Path) -> Result<bool, file::Skip> {
        match self.folder.open(path)?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

//! Running the actions of an expired fuse: claimed once, step by step, and resumed by another daemon if the
//! first was killed.
//!
//! The claim and each step are one rename, which also works on a full disk. The process that runs the
//! actions holds the file's lock, so that its death is noticed at once and two daemons never run the same
//! action. The name of a claimed fuse is `<id>~<cause>~<when>~<step>~<begun>~<cut>.firing`. After an
//! interruption an action that may be repeated is repeated; a command is not. When all actions are done the
//! name ends in `.fired`: for a few minutes, so that a watcher does not take the fuse for cancelled, and
//! for days if a command was interrupted, for people to see.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Action, Cause, Due, Fuse, FuseError, FuseFile, FuseState, Fuses};
use crate::host::Host;
use crate::model::{Time, is_session_id};
use crate::native::file;

/// How long the remains of a fuse with an interrupted command are shown.
const INTERRUPTED_RETENTION: Duration = Duration::from_hours(7 * 24);
/// How long a fired fuse stays visible: longer than the interval of any watcher, which is a minute.
const FIRED_RETENTION: Duration = Duration::from_mins(5);

/// The progress of a claimed fuse, as encoded in its file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FiringProgress {
    pub(super) id: String,
    pub(super) cause: Cause,
    /// When it expired.
    pub(super) at: Time,
    /// Number of finished actions.
    step: usize,
    /// The next action is a command and was started.
    begun: bool,
    /// Index of a command whose daemon was killed while it ran.
    pub(super) cut: Option<usize>,
    /// All actions are done; the file remains for display only.
    pub(super) is_over: bool,
}

impl FiringProgress {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (name, is_over) = match name.strip_suffix(".firing") {
            Some(name) => (name, false),
            None => (name.strip_suffix(".fired")?, true),
        };
        let mut parts = name.split('~');
        let id = parts.next().filter(|id| is_session_id(id))?.to_owned();
        let cause = parts.next()?;
        let cause = Cause::ALL.into_iter().find(|c| c.word() == cause)?;
        let at = Time::from_millis(parts.next()?.parse().ok()?)?;
        let step = parts.next()?.parse().ok()?;
        let begun = parts.next()? == "begun";
        let cut = match parts.next()? {
            "-" => None,
            number => Some(number.parse().ok()?),
        };
        parts.next().is_none().then_some(Self { id, cause, at, step, begun, cut, is_over })
    }

    fn name(&self) -> String {
        let begun = if self.begun { "begun" } else { "-" };
        let cut = self.cut.map_or_else(|| "-".to_owned(), |cut| cut.to_string());
        let end = if self.is_over { "fired" } else { "firing" };
        let (id, cause, at, step) = (&self.id, self.cause.word(), self.at.millis(), self.step);
        format!("{id}~{cause}~{at}~{step}~{begun}~{cut}.{end}")
    }

    /// Returns a remark for people about a fuse in this state.
    pub(super) fn note(&self, fuse: &Fuse, state: FuseState) -> Option<String> {
        let cut =
            self.cut.or_else(|| (self.begun && state != FuseState::Firing).then_some(self.step));
        let cut = cut.and_then(|step| match fuse.on_expire.get(step)? {
            Action::Run { argv } => argv.first(),
            _ => None,
        });
        match (cut, state) {
            (Some(program), _) => Some(format!(
                "`{program}` was interrupted or its end is unknown; it is not run again"
            )),
            (None, FuseState::Interrupted) => Some("the daemon continues it when it runs".into()),
            (None, _) => None,
        }
    }
}

/// An expired fuse whose actions this process runs.
#[derive(Debug)]
pub struct Firing {
    /// The fuse, with secrets.
    pub fuse: Fuse,
    /// Another process ran its actions before and was killed.
    pub resumed: bool,
    progress: FiringProgress,
    path: PathBuf,
    /// Keeps the file's lock.
    _lock: File,
}

/// Claims a due fuse; `None` when it has changed since it was judged, or another process has claimed it.
pub fn claim(host: &Host, due: &Due) -> Result<Option<Firing>, FuseError> {
    let fuses = Fuses::of(host);
    let _entered = match fuses.enter_existing() {
        Err(FuseError::Missing) => return Ok(None),
        entered => entered?,
    };
    let entry = match fuses.find(&due.fuse.id) {
        Err(FuseError::Missing) => return Ok(None),
        found => found?,
    };
    // The fuse may have been extended or claimed since it was read.
    if entry.progress.is_some() || entry.fuse.public() != due.fuse {
        return Ok(None);
    }
    let Some(lock) = lock(&fuses, &entry.path)? else { return Ok(None) };
    let progress = FiringProgress {
        id: entry.fuse.id.clone(),
        cause: due.cause,
        at: due.at,
        step: 0,
        begun: false,
        cut: None,
        is_over: false,
    };
    let path = fuses.folder.path().join(progress.name());
    fs::rename(&entry.path, &path)?;
    let firing = Firing { fuse: entry.fuse, resumed: false, progress, path, _lock: lock }.told();
    // Flush, so that the fuse does not fire again after a power cut.
    fuses.folder.flush()?;
    Ok(Some(firing))
}

/// Claims the fuses whose daemon was killed while it ran their actions, and removes the remains that were
/// shown long enough.
pub fn unfinished(host: &Host) -> Result<Vec<Firing>, FuseError> {
    let fuses = Fuses::of(host);
    let is_left = |l: &FuseFile| matches!(l.fuse.state, FuseState::Interrupted | FuseState::Fired);
    // Usually there is nothing to do, so check without the folder's lock first.
    let is_waste = |l: &FuseFile| l.is_over() && is_old(host, l);
    if !fuses.all()?.0.iter().any(|l| is_left(l) && (!l.is_over() || is_waste(l))) {
        return Ok(Vec::new());
    }
    let entered = fuses.folder.enter()?;
    let (entry, _unreadable) = fuses.all()?;
    let mut found = Vec::new();
    for entry in entry.into_iter().filter(is_left) {
        if is_waste(&entry) {
            fuses.folder.remove(&entered, std::slice::from_ref(&entry.path))?;
        }
        let Some(progress) = entry.progress.filter(|m| !m.is_over) else { continue };
        let Some(lock) = lock(&fuses, &entry.path)? else { continue };
        let mut firing =
            Firing { fuse: entry.fuse, resumed: true, progress, path: entry.path, _lock: lock };
        if firing.progress.begun {
            firing.progress.cut = Some(firing.progress.step);
            firing.step()?;
        }
        found.push(firing.told());
    }
    Ok(found)
}

/// Says whether a finished fuse was shown long enough.
fn is_old(host: &Host, entry: &FuseFile) -> bool {
    let Ok(meta) = fs::symlink_metadata(&entry.path) else { return false };
    // The change time of the inode is the time of the last rename.
    let age_ms = host.now().millis() - (meta.ctime() * 1000 + meta.ctime_nsec() / 1_000_000);
    let keep =
        if entry.fuse.state == FuseState::Fired { FIRED_RETENTION } else { INTERRUPTED_RETENTION };
    u128::try_from(age_ms).is_ok_and(|age| age > keep.as_millis())
}

/// Takes the lock of a file, if it is free and the path still names that file.
fn lock(fuses: &Fuses, path: &Path) -> Result<Option<File>, FuseError> {
    let file = match fuses.folder.open(path) {
        Err(file::Skip::Missing) => return Ok(None),
        opened => opened?,
    };
    if file.try_lock().is_err() {
        return Ok(None);
    }
    let there = fs::symlink_metadata(path).map(|m| m.ino()).ok();
    Ok((there == Some(file.metadata()?.ino())).then_some(file))
}

impl Firing {
    fn told(mut self) -> Self {
        self.fuse.state = FuseState::Firing;
        (self.fuse.expired_at, self.fuse.cause) =
            (Some(self.progress.at), Some(self.progress.cause));
        self.fuse.note = self.progress.note(&self.fuse, FuseState::Firing);
        self
    }

    /// Returns when it expired.
    #[must_use]
    pub fn at(&self) -> Time {
        self.progress.at
    }

    /// Returns why it expired.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.progress.cause
    }

    /// Returns the next action.
    #[must_use]
    pub fn action(&self) -> Option<&Action> {
        self.fuse.on_expire.get(self.progress.step)
    }

    /// Records that the next action is a command that is about to be run; no other process runs it from
    /// here on. If this fails, the command must not be run.
    pub fn begin(&mut self) -> io::Result<()> {
        self.progress.begun = true;
        self.rename()
    }

    /// Records that the action is done.
    pub fn step(&mut self) -> io::Result<()> {
        self.progress.step += 1;
        self.progress.begun = false;
        self.rename()
    }

    /// Records that all actions are done.
    pub fn finish(mut self) -> io::Result<()> {
        self.progress.is_over = true;
        self.rename()
    }

    fn rename(&mut self) -> io::Result<()> {
        let next = self.path.with_file_name(self.progress.name());
        fs::rename(&self.path, &next)?;
        self.path = next;
        File::open(self.path.parent().unwrap_or(&self.path))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_read_as_it_was_written_and_rubbish_is_none() {
        for (step, begun, cut, is_over) in
            [(0, false, None, false), (3, true, Some(1), false), (7, false, Some(6), true)]
        {
            let at = Time::from_millis(1_794_728_785_156).expect("a time");
            let id = "5b0f2c52-4b33-4b53-8f0e-3f5f3c9a7a10".to_owned();
            let progress =
                FiringProgress { id, cause: Cause::MaxCost, at, step, begun, cut, is_over };
            assert_eq!(FiringProgress::parse(&progress.name()), Some(progress));
        }
        for rubbish in [
            "w-0123456789abcdef.json",
            "a~ttl~1~0~-~-",
            "a~ttl~x~0~-~-.firing",
            "a~tea~1~0~-~-.firing",
            "a~ttl~1~0~-.firing",
            "a~ttl~1~0~-~-~-.firing",
            "..~ttl~1~0~-~-.firing",
        ] {
            assert_eq!(FiringProgress::parse(rubbish), None, "{rubbish}");
        }
    }
}

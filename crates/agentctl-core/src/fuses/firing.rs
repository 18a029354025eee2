//! A fuse on its way: claimed once, done step by step, taken up again by the next one where the last was
//! killed.
//!
//! The claim and each step are one rename, so that a full disk stops nothing; whoever is at it holds the
//! file's lock, so that its death is seen at once and two daemons never do the same. The name of a
//! claimed fuse is `<id>~<cause>~<when>~<step>~<begun>~<cut>.firing`. What can be done twice is done again
//! when nobody knows how far it came; a command is not. When all is done its name ends in `.fired` for a
//! few minutes, so that nobody takes it for cancelled; and for days where a command was cut short, for
//! people to see.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Action, Cause, Due, Fuse, FuseError, FuseState, Fuses, Lit};
use crate::host::Host;
use crate::model::{Time, is_session_id};
use crate::native::file;

/// So long is shown that a command was cut short.
const SHOWN: Duration = Duration::from_hours(7 * 24);
/// So long is seen that a fuse was fired: everybody who compares looks takes one in less than a minute.
const SEEN: Duration = Duration::from_mins(5);

/// How far a claimed fuse has come: its file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) id: String,
    pub(super) cause: Cause,
    /// When it burnt down.
    pub(super) at: Time,
    /// So many of its actions are done.
    step: usize,
    /// The next one is a command, and it has been begun.
    begun: bool,
    /// A command that was begun by one who was killed.
    pub(super) cut: Option<usize>,
    /// Nothing is left to do: it stays to be seen.
    pub(super) is_over: bool,
}

impl Mark {
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

    /// Says what people should know of one in this state.
    pub(super) fn note(&self, fuse: &Fuse, state: FuseState) -> Option<String> {
        let cut =
            self.cut.or_else(|| (self.begun && state != FuseState::Firing).then_some(self.step));
        let cut = cut.and_then(|step| match fuse.on_expire.get(step)? {
            Action::Run { argv } => argv.first(),
            _ => None,
        });
        match (cut, state) {
            (Some(program), _) => Some(format!(
                "`{program}` was cut short, or nobody saw its end; it is not repeated"
            )),
            (None, FuseState::Interrupted) => {
                Some("the daemon goes on with it when it is awake".into())
            }
            (None, _) => None,
        }
    }
}

/// A fuse that has burnt down, in the hands of the one who does what it asks for.
#[derive(Debug)]
pub struct Firing {
    /// The fuse, with what may be a secret.
    pub fuse: Fuse,
    /// Whoever was at it before was killed.
    pub resumed: bool,
    mark: Mark,
    path: PathBuf,
    /// Held for its lock.
    _lock: File,
}

/// Takes a fuse that is due in hand; `None` when it is no longer as it was judged, or somebody else's.
pub fn claim(host: &Host, due: &Due) -> Result<Option<Firing>, FuseError> {
    let fuses = Fuses::of(host);
    let _entered = match fuses.enter_existing() {
        Err(FuseError::Missing) => return Ok(None),
        entered => entered?,
    };
    let lit = match fuses.find(&due.fuse.id) {
        Err(FuseError::Missing) => return Ok(None),
        found => found?,
    };
    // It may have been extended, or claimed, since it was looked at.
    if lit.mark.is_some() || lit.fuse.public() != due.fuse {
        return Ok(None);
    }
    let Some(lock) = lock(&fuses, &lit.path)? else { return Ok(None) };
    let mark = Mark {
        id: lit.fuse.id.clone(),
        cause: due.cause,
        at: due.at,
        step: 0,
        begun: false,
        cut: None,
        is_over: false,
    };
    let path = fuses.folder.path().join(mark.name());
    fs::rename(&lit.path, &path)?;
    let firing = Firing { fuse: lit.fuse, resumed: false, mark, path, _lock: lock }.told();
    // After a power cut it must not burn again.
    fuses.folder.flush()?;
    Ok(Some(firing))
}

/// Takes in hand what others left in the middle when they were killed; and takes away what has been shown
/// for long enough.
pub fn unfinished(host: &Host) -> Result<Vec<Firing>, FuseError> {
    let fuses = Fuses::of(host);
    let is_left = |l: &Lit| matches!(l.fuse.state, FuseState::Interrupted | FuseState::Fired);
    // Most of the time there is nothing to do, and nobody need be kept out.
    let is_waste = |l: &Lit| l.is_over() && is_old(host, l);
    if !fuses.all()?.0.iter().any(|l| is_left(l) && (!l.is_over() || is_waste(l))) {
        return Ok(Vec::new());
    }
    let entered = fuses.folder.enter()?;
    let (lit, _unreadable) = fuses.all()?;
    let mut found = Vec::new();
    for lit in lit.into_iter().filter(is_left) {
        if is_waste(&lit) {
            fuses.folder.remove(&entered, std::slice::from_ref(&lit.path))?;
        }
        let Some(mark) = lit.mark.filter(|m| !m.is_over) else { continue };
        let Some(lock) = lock(&fuses, &lit.path)? else { continue };
        let mut firing =
            Firing { fuse: lit.fuse, resumed: true, mark, path: lit.path, _lock: lock };
        if firing.mark.begun {
            firing.mark.cut = Some(firing.mark.step);
            firing.step()?;
        }
        found.push(firing.told());
    }
    Ok(found)
}

/// Says whether what is only there to be seen has been there for long enough.
fn is_old(host: &Host, lit: &Lit) -> bool {
    let Ok(meta) = fs::symlink_metadata(&lit.path) else { return false };
    // Its last change was its last name.
    let age_ms = host.now().millis() - (meta.ctime() * 1000 + meta.ctime_nsec() / 1_000_000);
    let keep = if lit.fuse.state == FuseState::Fired { SEEN } else { SHOWN };
    u128::try_from(age_ms).is_ok_and(|age| age > keep.as_millis())
}

/// Takes the lock of a file, if nobody has it and it is still the one that lies there.
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
        (self.fuse.expired_at, self.fuse.cause) = (Some(self.mark.at), Some(self.mark.cause));
        self.fuse.note = self.mark.note(&self.fuse, FuseState::Firing);
        self
    }

    /// Returns when it burnt down.
    #[must_use]
    pub fn at(&self) -> Time {
        self.mark.at
    }

    /// Returns why.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.mark.cause
    }

    /// Returns what is to be done next.
    #[must_use]
    pub fn action(&self) -> Option<&Action> {
        self.fuse.on_expire.get(self.mark.step)
    }

    /// Writes down that the next action is a command and about to be run: from here on nobody else runs
    /// it. It must not be run when this fails.
    pub fn begin(&mut self) -> io::Result<()> {
        self.mark.begun = true;
        self.rename()
    }

    /// Writes down that the action is done.
    pub fn step(&mut self) -> io::Result<()> {
        self.mark.step += 1;
        self.mark.begun = false;
        self.rename()
    }

    /// Notes that all is done.
    pub fn finish(mut self) -> io::Result<()> {
        self.mark.is_over = true;
        self.rename()
    }

    fn rename(&mut self) -> io::Result<()> {
        let next = self.path.with_file_name(self.mark.name());
        fs::rename(&self.path, &next)?;
        self.path = next;
        File::open(self.path.parent().unwrap_or(&self.path))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_rubbish_is_none() {
        for (step, begun, cut, is_over) in
            [(0, false, None, false), (3, true, Some(1), false), (7, false, Some(6), true)]
        {
            let at = Time::from_millis(1_794_728_785_156).expect("a time");
            let id = "5b0f2c52-4b33-4b53-8f0e-3f5f3c9a7a10".to_owned();
            let mark = Mark { id, cause: Cause::MaxCost, at, step, begun, cut, is_over };
            assert_eq!(Mark::parse(&mark.name()), Some(mark));
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
            assert_eq!(Mark::parse(rubbish), None, "{rubbish}");
        }
    }
}

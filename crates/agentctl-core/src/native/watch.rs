//! Waiting for a file to change, by the kernel's file events. An event is a hint to read again.
//!
//! The directory is watched rather than the file, so that a file that does not exist yet, or is
//! replaced, is seen too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::notifier::Listener;

/// A standing watch on some directories.
pub struct Watch {
    // Dropping the watcher ends the watch.
    _watcher: RecommendedWatcher,
    events: Receiver<()>,
}

impl Watch {
    /// Begins to watch these directories; what does not exist is left out.
    pub fn directories<'a>(paths: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        let (sender, events) = channel();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                if event.map_or(true, |e| is_change(&e)) {
                    // The receiver is gone only when nobody waits any more.
                    let _nobody_waits = sender.send(());
                }
            })
            .map_err(|error| refused(&error))?;
        for path in paths {
            if path.is_dir() {
                let watched = watcher.watch(path, RecursiveMode::NonRecursive);
                watched.map_err(|error| refused(&error))?;
            }
        }
        Ok(Self { _watcher: watcher, events })
    }

    /// Blocks until something changed or the time is up; says whether something changed.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        match self.events.recv_timeout(timeout) {
            Ok(()) => {
                while self.events.try_recv().is_ok() {}
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        }
    }
}

/// What matters in a directory: everything, or what has one of these names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    Only(BTreeSet<OsString>),
}

type Wanted = BTreeMap<PathBuf, Names>;

/// A standing watch on places that may come and go, with a descriptor to poll.
///
/// Each place is a directory, where every change matters, or a file. Of one that does not exist yet the
/// nearest directory above it is watched for the next step of its path.
pub struct Alarm {
    watcher: RecommendedWatcher,
    wanted: Arc<Mutex<Wanted>>,
    /// The directories that are watched, as they were then.
    standing: BTreeMap<PathBuf, (u64, u64)>,
    listener: Listener,
    flags: Arc<Flags>,
}

/// What happened since somebody last asked.
#[derive(Default)]
struct Flags {
    lost: AtomicBool,
    journal: AtomicBool,
}

impl Alarm {
    /// Makes an alarm that watches nothing yet.
    pub fn new() -> io::Result<Self> {
        let (listener, notifier) = Listener::new()?;
        let wanted: Arc<Mutex<Wanted>> = Arc::default();
        let flags: Arc<Flags> = Arc::default();
        let (known, raised) = (Arc::clone(&wanted), Arc::clone(&flags));
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            // What was lost may have mattered.
            let rescan = event.as_ref().map_or(true, notify::Event::need_rescan);
            if rescan {
                raised.lost.store(true, Ordering::SeqCst);
            }
            let matters = event.is_ok_and(|event| {
                let matters = matters(&known, &event);
                if matters && event.paths.iter().any(|path| is_journal(path)) {
                    raised.journal.store(true, Ordering::SeqCst);
                }
                matters
            });
            if rescan || matters {
                notifier.notify();
            }
        })
        .map_err(|error| refused(&error))?;
        Ok(Self { watcher, wanted, standing: BTreeMap::new(), listener, flags })
    }

    /// Watches these places and no others; says whether that is news: what happened there before was
    /// not noticed. Where one cannot be watched the others are all the same.
    pub fn set(&mut self, places: &[PathBuf]) -> io::Result<bool> {
        let wanted = wanted(places);
        let mut news = false;
        {
            let mut known = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            if *known != wanted {
                known.clone_from(&wanted);
                news = true;
            }
        }
        let gone: Vec<PathBuf> = self
            .standing
            .iter()
            .filter(|(path, identity)| {
                !wanted.contains_key(*path) || identity_of(path) != Some(**identity)
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            // The kernel ends the watch on a directory that is removed.
            let _ended = self.watcher.unwatch(&path);
            self.standing.remove(&path);
        }
        let mut failed = None;
        for path in wanted.into_keys() {
            if self.standing.contains_key(&path) {
                continue;
            }
            let Some(identity) = identity_of(&path) else { continue };
            if let Err(error) = self.watcher.watch(&path, RecursiveMode::NonRecursive) {
                failed = failed.or_else(|| Some(refused(&error)));
                continue;
            }
            self.standing.insert(path, identity);
            news = true;
        }
        failed.map_or(Ok(news), Err)
    }

    /// Says whether it rang since it was last asked.
    pub fn rang(&mut self) -> bool {
        self.listener.take_notifications()
    }

    /// Says whether events were lost since it was last asked: more happened than was kept for us.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.flags.lost.swap(false, Ordering::SeqCst)
    }

    /// Says whether a journal of `SQLite` was written since it was last asked. What was written there is
    /// made known to readers a moment later, in shared memory, where no event tells of it.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        self.flags.journal.swap(false, Ordering::SeqCst)
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Says why there is no watch; where a limit is the reason, which one, and how it is raised.
fn refused(error: &notify::Error) -> io::Error {
    let code = match &error.kind {
        notify::ErrorKind::Io(error) => error.raw_os_error(),
        notify::ErrorKind::MaxFilesWatch => Some(rustix::io::Errno::NOSPC.raw_os_error()),
        _ => None,
    };
    let what = match code.map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOSPC) => "watches",
        // It is also said of descriptors.
        Some(rustix::io::Errno::MFILE) if std::fs::File::open("/dev/null").is_ok() => "instances",
        _ => return io::Error::other(error.to_string()),
    };
    let limit = |name: String| {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        let value: u64 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
        Some((value, name))
    };
    // A user namespace may have a lower limit of its own.
    let names = [format!("fs.inotify.max_user_{what}"), format!("user.max_inotify_{what}")];
    match names.into_iter().filter_map(limit).min_by_key(|(value, _)| *value) {
        Some((value, name)) => {
            let more = (value * 2).max(if what == "watches" { 524_288 } else { 1024 });
            let raise = format!("raise it: sysctl -w {name}={more}");
            io::Error::other(format!("all {what} are taken: {name} is {value}; {raise}"))
        }
        None => io::Error::other(error.to_string()),
    }
}

fn identity_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir).map(|m| (m.dev(), m.ino()))
}

fn wanted(places: &[PathBuf]) -> Wanted {
    let mut wanted = Wanted::new();
    for place in places {
        if place.is_dir() {
            wanted.insert(place.clone(), Names::All);
            continue;
        }
        let mut step = place.as_path();
        while let (Some(above), Some(name)) = (step.parent(), step.file_name()) {
            if above.is_dir() {
                let names = wanted.entry(above.to_owned());
                if let Names::Only(names) = names.or_insert_with(|| Names::Only(BTreeSet::new())) {
                    names.insert(name.to_owned());
                }
                break;
            }
            step = above;
        }
    }
    wanted
}

/// Reading is no change, ours least of all; nor is who owns a file: `SQLite`, run by root, sets the owner of
/// a journal that it only reads.
fn is_change(event: &notify::Event) -> bool {
    let attributes = matches!(event.kind, EventKind::Modify(ModifyKind::Metadata(_)));
    !event.kind.is_access() && !attributes
}

fn is_journal(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"-wal")
}

/// Says whether an event concerns what is watched.
fn matters(wanted: &Wanted, event: &notify::Event) -> bool {
    let concerns = |path: &PathBuf| {
        let within = path.parent().and_then(|above| wanted.get(above));
        let named = match within {
            Some(Names::All) => true,
            Some(Names::Only(names)) => path.file_name().is_some_and(|name| names.contains(name)),
            None => false,
        };
        named || wanted.contains_key(path)
    };
    is_change(event) && (event.paths.is_empty() || event.paths.iter().any(concerns))
}

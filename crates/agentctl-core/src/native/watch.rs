//! Waiting for file changes, by the kernel's file events. An event is a hint to read again.
//!
//! The directory is watched rather than the file, so that a file that does not exist yet, or is replaced,
//! is noticed too.

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

/// A watch on a fixed set of directories.
pub struct Watch {
    // Dropping the watcher ends the watch.
    _watcher: RecommendedWatcher,
    events: Receiver<()>,
}

impl Watch {
    /// Starts a watch on these directories; missing ones are skipped.
    pub fn directories<'a>(paths: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        let (sender, events) = channel();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                if event.map_or(true, |e| is_change(&e)) {
                    // The receiver is gone only while the watch is being dropped.
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

    /// Blocks until a change or the timeout; says whether there was a change.
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

/// The changes in a directory that cause a wake-up: all, or those of these names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    Only(BTreeSet<OsString>),
}

type Wanted = BTreeMap<PathBuf, Names>;

/// A watch on a changing set of paths, with a descriptor to poll.
///
/// Each path is a directory, of which every change matters, or a file. For a path that does not exist yet,
/// the nearest existing directory above it is watched for the next component of the path.
pub struct Alarm {
    watcher: RecommendedWatcher,
    wanted: Arc<Mutex<Wanted>>,
    /// The watched directories, with device and inode at the time the watch began. Another inode means that
    /// the directory was replaced.
    standing: BTreeMap<PathBuf, (u64, u64)>,
    listener: Listener,
    flags: Arc<Flags>,
}

/// Events since the last query.
#[derive(Default)]
struct Flags {
    lost: AtomicBool,
    journal: AtomicBool,
}

impl Alarm {
    /// Creates a watch on nothing.
    pub fn new() -> io::Result<Self> {
        let (listener, notifier) = Listener::new()?;
        let wanted: Arc<Mutex<Wanted>> = Arc::default();
        let flags: Arc<Flags> = Arc::default();
        let (known, raised) = (Arc::clone(&wanted), Arc::clone(&flags));
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            // A lost event may have been a relevant one.
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

    /// Watches exactly these paths. Returns whether the set changed: earlier changes there caused no
    /// wake-up. If one path cannot be watched, the others are watched all the same.
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
            // The kernel has already ended the watch of a removed directory.
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

    /// Says whether there was a relevant event since the last call.
    pub fn rang(&mut self) -> bool {
        self.listener.take_notifications()
    }

    /// Says whether events were lost since the last call, because the kernel's queue was full.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.flags.lost.swap(false, Ordering::SeqCst)
    }

    /// Says whether a journal of `SQLite` was written since the last call. The written data becomes visible
    /// to readers a moment later, through shared memory, without an event.
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

/// Turns an error into a message; if a kernel limit is the cause, the message names the limit and how to
/// raise it.
fn refused(error: &notify::Error) -> io::Error {
    let code = match &error.kind {
        notify::ErrorKind::Io(error) => error.raw_os_error(),
        notify::ErrorKind::MaxFilesWatch => Some(rustix::io::Errno::NOSPC.raw_os_error()),
        _ => None,
    };
    let what = match code.map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOSPC) => "watches",
        // `EMFILE` also means that this process has no free descriptor.
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

/// Reads are no changes; nor are changes of owner or mode: `SQLite` run by root sets the owner of a journal
/// that it only reads.
fn is_change(event: &notify::Event) -> bool {
    let attributes = matches!(event.kind, EventKind::Modify(ModifyKind::Metadata(_)));
    !event.kind.is_access() && !attributes
}

fn is_journal(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"-wal")
}

/// Says whether an event concerns a watched path.
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

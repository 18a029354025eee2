//! Watches everything while a page is open: one watcher for all pages, none without a page.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentctl_core::ask::Fleet;
use agentctl_core::fleet::Query;
use agentctl_core::model::Fault;
use agentctl_core::names::Names;

use super::board::Board;
use crate::face::{FeedCloser, ListItem, ListStream};

/// Pause before a watch that failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// The watcher of all pages.
pub(super) struct Feeder {
    fleet: Fleet,
    /// The settings because of which sources may be missing.
    faults: Vec<Fault>,
    pub(super) board: Board,
    /// Counts the changes of the names that a person gave.
    name_changes: AtomicU64,
    open: Mutex<OpenPages>,
}

#[derive(Default)]
struct OpenPages {
    count: usize,
    watch: Option<Arc<WatchLife>>,
}

/// Ends the watch of the last pages.
#[derive(Default)]
struct WatchLife {
    is_over: AtomicBool,
    closer: Mutex<Option<FeedCloser>>,
}

/// A page that is open.
pub(super) struct OpenPage(Arc<Feeder>);

impl Feeder {
    pub(super) fn new(fleet: Fleet, faults: Vec<Fault>) -> Self {
        Self {
            fleet,
            faults,
            board: Board::new(),
            name_changes: AtomicU64::new(0),
            open: Mutex::default(),
        }
    }

    /// Returns how often names and groups have changed since the server began, as far as pages were told.
    pub(super) fn name_changes(&self) -> u64 {
        self.name_changes.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, OpenPages> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a page. The first one begins the watch.
    pub(super) fn join(self: &Arc<Self>) -> std::io::Result<OpenPage> {
        let mut open = self.lock();
        if open.watch.is_none() {
            let life = Arc::new(WatchLife::default());
            let (feeder, watch) = (Arc::clone(self), Arc::clone(&life));
            let thread = std::thread::Builder::new().name("watch".into());
            thread.spawn(move || feeder.watch(&watch))?;
            open.watch = Some(life);
        }
        open.count += 1;
        Ok(OpenPage(Arc::clone(self)))
    }

    /// Looks until the last page is closed.
    fn watch(&self, life: &WatchLife) {
        while !life.is_over.load(Ordering::SeqCst) {
            if self.look(life).is_err() {
                std::thread::park_timeout(RETRY_PAUSE);
            }
        }
    }

    fn look(&self, life: &WatchLife) -> std::io::Result<()> {
        let mut stream = ListStream::open(&self.fleet, &Query::default())?;
        stream.check_paused_sessions();
        *life.closer.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream.closer());
        let mut names = Names::of(&self.fleet.host);
        while !life.is_over.load(Ordering::SeqCst) {
            match stream.next_item()? {
                ListItem::Closed => break,
                ListItem::Look | ListItem::Nothing => {}
                ListItem::Rows(rows) => {
                    // A watch that ended meanwhile does not overwrite the look of its successor.
                    let _open = self.lock();
                    if names.read(&self.fleet.host) {
                        self.name_changes.fetch_add(1, Ordering::SeqCst);
                    }
                    if !life.is_over.load(Ordering::SeqCst) {
                        let shown = (stream.asks(), self.faults.as_slice());
                        self.board.take(&rows, shown, self.name_changes());
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        let mut open = self.0.lock();
        open.count = open.count.saturating_sub(1);
        if open.count > 0 {
            return;
        }
        if let Some(life) = open.watch.take() {
            life.is_over.store(true, Ordering::SeqCst);
            let closer = life.closer.lock().unwrap_or_else(PoisonError::into_inner);
            closer.iter().for_each(FeedCloser::close);
        }
        self.0.board.set_stale();
    }
}

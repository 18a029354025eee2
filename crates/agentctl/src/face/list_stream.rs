//! The list of sessions again whenever something happens, for every interface that shows one.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use agentctl_core::ask::Fleet;
use agentctl_core::events::Seen;
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::kernel::Kernel;
use agentctl_core::model::{Ask, Listing, ProcId, ReasonKind, Session, Time};

use super::{Feed, FeedCloser, FeedItem, session_list};

/// How often the processes of a list are asked whether they were paused or continued. Each check wakes a thread, which
/// is most of what an idle list costs.
const PAUSED_CHECK_PACE: Duration = Duration::from_secs(2);
/// History is read at most this often, because that costs much more than a look.
const HISTORY_PACE: Duration = Duration::from_secs(1);

/// Makes the list of a query again after every change.
pub struct ListStream {
    fleet: Fleet,
    query: Query,
    feed: Feed,
    paused: Option<PausedSessions>,
    /// When history was read: a look does not read it.
    read_at: Option<Instant>,
    /// Something has changed since history was read.
    is_due: bool,
    /// The asks of the last look.
    asks: Vec<Ask>,
}

/// An item of a stream of lists.
pub enum ListItem {
    /// A new list.
    Rows(Rows),
    /// A look without a new list. Another size of the terminal causes one too.
    Look,
    /// The limit has passed.
    Nothing,
    /// The stream was closed.
    Closed,
}

impl ListStream {
    /// Begins to watch the sessions of a query.
    pub fn open(fleet: &Fleet, query: &Query) -> io::Result<Self> {
        let (fleet, query, feed) = (fleet.clone(), query.clone(), Feed::open(fleet)?);
        Ok(Self {
            fleet,
            query,
            feed,
            paused: None,
            read_at: None,
            is_due: false,
            asks: Vec::new(),
        })
    }

    /// Also notices sessions that were stopped by a signal, or continued: their processes are asked every two seconds.
    pub fn check_paused_sessions(&mut self) {
        self.paused = Some(PausedSessions::default());
    }

    /// Returns a handle that closes the stream.
    #[must_use]
    pub fn closer(&self) -> FeedCloser {
        self.feed.closer()
    }

    /// Returns the feed behind the lists.
    #[must_use]
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Returns the asks of the last look, longest waiting first.
    #[must_use]
    pub fn asks(&self) -> &[Ask] {
        &self.asks
    }

    /// Lists the sessions of another query from now on; the next item is its list.
    pub fn set_query(&mut self, query: &Query) {
        self.query.clone_from(query);
        (self.is_due, self.read_at) = (true, None);
    }

    /// Waits for the next item.
    pub fn next_item(&mut self) -> io::Result<ListItem> {
        let usual = if self.paused.is_some() { PAUSED_CHECK_PACE } else { Duration::MAX };
        // If history is due, the next look is awaited only until it may be read.
        let limit = if self.is_due { usual.min(self.pause_left()) } else { usual };
        let (rows, without) = match self.feed.next(limit)? {
            FeedItem::Closed => return Ok(ListItem::Closed),
            FeedItem::Look(seen) => (self.rows(*seen), ListItem::Look),
            FeedItem::Nothing => {
                let kernel = &self.fleet.host.kernel;
                self.is_due |= self.paused.as_mut().is_some_and(|p| p.have_changed(kernel));
                (self.read_if_due(), ListItem::Nothing)
            }
        };
        if let (Some(rows), Some(paused)) = (&rows, &mut self.paused) {
            paused.set_list(rows);
        }
        Ok(rows.map_or(without, ListItem::Rows))
    }

    /// Returns the rows after a look; `None` if history was read too recently to be read again.
    fn rows(&mut self, mut seen: Seen) -> Option<Rows> {
        self.asks = std::mem::take(&mut seen.asks);
        if !self.query.all && !self.query.children {
            return Some(self.query.select(Listing { faults: seen.faults, ..seen.listing }));
        }
        self.is_due = true;
        self.read_if_due()
    }

    /// Reads history if something has changed and the pace allows it.
    fn read_if_due(&mut self) -> Option<Rows> {
        if !self.is_due || !self.pause_left().is_zero() {
            return None;
        }
        (self.is_due, self.read_at) = (false, Some(Instant::now()));
        // A daemon has cached the history that has not changed.
        Some(session_list(&self.fleet, &self.query).rows)
    }

    fn pause_left(&self) -> Duration {
        self.read_at.map_or(Duration::ZERO, |at| HISTORY_PACE.saturating_sub(at.elapsed()))
    }
}

/// Says whether two lists show the same. The times of evidence are left out: most are the moment of the look.
#[must_use]
pub fn is_same_list(before: &Rows, now: &Rows) -> bool {
    let timeless = |mut session: Session| {
        for evidence in &mut session.evidence {
            evidence.at = Time(jiff::Timestamp::UNIX_EPOCH);
        }
        session
    };
    before.faults == now.faults && before.iter().map(timeless).eq(now.iter().map(timeless))
}

/// The live sessions that were stopped by a signal, or continued, since they were listed. The kernel announces
/// neither SIGSTOP nor SIGCONT, so the list is compared with the processes.
#[derive(Default)]
struct PausedSessions {
    /// The live sessions of the last list: their processes, and whether they were listed as paused.
    listed: Vec<(Vec<ProcId>, bool)>,
    /// The processes whose state the last check did not find in the list, and whether each was paused.
    differing: HashSet<(ProcId, bool)>,
}

impl PausedSessions {
    fn set_list(&mut self, rows: &Rows) {
        let listed = rows.live().map(|session| {
            let was = session.reason.as_ref().is_some_and(|r| r.kind == ReasonKind::Paused);
            (session.processes.into_iter().map(|process| process.id).collect(), was)
        });
        self.listed = listed.collect();
    }

    /// Says whether the list must be made again. A list that was made again and still differs, because it shows
    /// another reason than the pause, is not made a third time.
    fn have_changed(&mut self, kernel: &Kernel) -> bool {
        let mut differing = HashSet::new();
        for (processes, was) in &self.listed {
            let is = processes.iter().any(|process| kernel.seems_paused(process));
            if is != *was {
                differing.extend(processes.iter().map(|process| (process.clone(), is)));
            }
        }
        let before = std::mem::replace(&mut self.differing, differing);
        !self.differing.is_subset(&before)
    }
}

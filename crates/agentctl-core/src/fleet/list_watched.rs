//! One look at all live sessions, and every place where the next change would show.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::inspect_watched::{NamedHome, WatchTargets};
use super::{Fleet, Query, Question, each_adapter, each_root, sort};
use crate::adapters::{Adapter, Found, Look};
use crate::host::Host;
use crate::model::{Ask, Listing, SCHEMA_VERSION, Session};

/// The live sessions, and where the next change would show.
#[derive(Clone, Debug)]
pub struct WatchedList {
    /// The sessions that [`super::list`] returns without history.
    pub listing: Listing,
    /// The sessions that rest in shared servers.
    pub resting: Vec<Session>,
    /// The asks of the waiting sessions.
    pub asks: Vec<Ask>,
    /// The files, folders and processes that show a change of these sessions, or a new session.
    pub watch_targets: WatchTargets,
    /// How long each home took to answer, by its adapter. A home without an answer is missing.
    pub took: Vec<(&'static str, Duration)>,
}

impl WatchedList {
    /// Adds the list of other adapters.
    pub fn add(&mut self, more: Self) {
        self.listing.sessions.extend(more.listing.sessions);
        sort(&mut self.listing.sessions);
        self.listing.faults.extend(more.listing.faults);
        self.resting.extend(more.resting);
        self.asks.extend(more.asks);
        self.watch_targets.add(more.watch_targets);
        self.took.extend(more.took);
    }
}

/// One home's share.
struct Share {
    sessions: Vec<Session>,
    resting: Vec<Session>,
    asks: Vec<Ask>,
    watch_targets: WatchTargets,
    took: (&'static str, Duration),
}

/// Lists the live sessions of all adapters except `left_out`. The fields that only a launch knows are left
/// empty: see [`super::Launches::add`].
#[must_use]
pub fn list_watched(fleet: &Fleet, left_out: &[&'static str]) -> WatchedList {
    let left_out = left_out.to_vec();
    let found = each_adapter(fleet, fleet.host.deadlines.live, move |adapter, look| {
        if left_out.contains(&adapter.name()) { Found::default() } else { home(adapter, look) }
    });
    let (mut sessions, mut resting, mut asks) = (Vec::new(), Vec::new(), Vec::new());
    let mut watch_targets = WatchTargets::default();
    let mut took = Vec::new();
    // The first session of an agent creates its home.
    let homes = fleet.adapters.iter().flat_map(|adapter| adapter.homes(&fleet.host));
    watch_targets
        .places
        .extend(homes.filter(|path| !path.exists()).map(|path| absolute(&fleet.host, path)));
    for share in found.rows {
        sessions.extend(share.sessions);
        resting.extend(share.resting);
        asks.extend(share.asks);
        watch_targets.add(share.watch_targets);
        took.push(share.took);
    }
    sort(&mut sessions);
    let mut faults = found.faults;
    faults.sort();
    faults.dedup();
    let listing = Listing { schema_version: SCHEMA_VERSION, sessions, faults };
    WatchedList { listing, resting, asks, watch_targets, took }
}

fn absolute(host: &Host, path: PathBuf) -> PathBuf {
    if path.is_absolute() { path } else { host.cwd.join(path) }
}

fn home(adapter: &'static dyn Adapter, look: &Look) -> Found<Share> {
    let (living, all) = (Query::default(), Query { resting: true, ..Query::default() });
    each_root(adapter, look, move |look, root| {
        let asked = Instant::now();
        let store = adapter.store(look, root);
        let live = store.live();
        let mut question = Question::new(adapter, look, root, store.as_ref(), live);
        question.add_living(None);
        question.add_unjoined(|_| true);
        question.confirm();
        let places = store.beginnings();
        let named = root.place().directory().filter(|_| !root.is_known());
        let named = named.map(|path| NamedHome { path: path.to_owned(), places: places.clone() });
        let mut watch_targets = WatchTargets {
            // A home that only processes name is listed while one of these processes lives.
            processes: root.named_by.clone(),
            places,
            pushing: store.announcing(),
            named_homes: named.into_iter().collect(),
        };
        question.rows.retain(|row| all.admits(&row.session));
        let asks = question.asks();
        let rows = std::mem::take(&mut question.rows);
        let (mut sessions, mut resting) = (Vec::new(), Vec::new());
        for row in rows {
            let rests = !living.admits(&row.session);
            // A session without a local process changes only at its server, which announces it.
            if rests && row.session.processes.is_empty() {
                resting.push(row.session);
                continue;
            }
            let observed = question.observed(&row.locator, row.session);
            watch_targets.add(observed.watch_targets);
            if rests { &mut resting } else { &mut sessions }.extend(observed.session);
        }
        let asks = asks.into_iter().flatten().collect();
        let took = (adapter.name(), asked.elapsed());
        let rows = vec![Share { sessions, resting, asks, watch_targets, took }];
        Found { rows, faults: question.faults, whole: true }
    })
}

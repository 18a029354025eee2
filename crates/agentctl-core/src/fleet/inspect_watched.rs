//! One look at sessions by name: the same verdict as in a list, without tokens, and the places where the next
//! change would show.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Fleet, Question, each_adapter, limited};
use crate::adapters::{Depth, Found, Root};
use crate::model::{Fault, Locator, ProcId, Session, Status, Target};
use crate::talk::Pushing;

/// The places where a change would show. A change there is a hint to look again, not a fact.
#[derive(Clone, Debug, Default)]
pub struct WatchTargets {
    /// The processes whose exit may change something.
    pub processes: Vec<ProcId>,
    /// The directories and files where a change shows.
    pub places: Vec<PathBuf>,
    /// The servers that announce changes.
    pub pushing: Vec<Pushing>,
    /// The homes that only processes name.
    pub named_homes: Vec<NamedHome>,
}

/// A home that only processes name.
#[derive(Clone, Debug)]
pub struct NamedHome {
    /// The directory of the home.
    pub path: PathBuf,
    /// The directories and files where it shows that a session begins.
    pub places: Vec<PathBuf>,
}

impl WatchTargets {
    /// Adds other places.
    pub fn add(&mut self, more: Self) {
        self.processes.extend(more.processes);
        self.places.extend(more.places);
        self.pushing.extend(more.pushing);
        self.named_homes.extend(more.named_homes);
    }
}

/// One session as one look showed it, and where the next change would show.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The session; `None` when no source knows it (any more), or the look failed.
    pub session: Option<Session>,
    /// Its processes were started for one prompt: they end by themselves when its turn is over.
    pub ends_by_itself: bool,
    /// The files, folders and processes that show its next change.
    pub watch_targets: WatchTargets,
}

/// Several sessions as one look showed them.
#[derive(Clone, Debug)]
pub struct Observation {
    /// In the order they were asked for.
    pub seen: Vec<Observed>,
    /// The sources that failed.
    pub faults: Vec<Fault>,
}

/// Looks at these sessions once, each home at most once.
#[must_use]
pub fn inspect_watched(fleet: &Fleet, targets: &[Target], limit: Duration) -> Observation {
    let mut seen = vec![Observed::default(); targets.len()];
    let targets: Arc<[Target]> = targets.into();
    let asked = narrowed(fleet, &targets);
    let found = each_adapter(&asked, limit, move |adapter, look| {
        let mut found = Found::default();
        let theirs = targets.iter().enumerate().filter(|(_, t)| t.adapter == adapter.name());
        let theirs: Vec<(usize, &Target)> = theirs.collect();
        if theirs.is_empty() {
            return found;
        }
        let roots = adapter.roots(look);
        let labels: BTreeSet<&str> =
            theirs.iter().map(|(_, target)| target.root.as_str()).collect();
        for label in labels {
            let root = Root::find(&roots, label);
            let here: Vec<_> = theirs.iter().copied().filter(|(_, t)| t.root == label).collect();
            let _limit = limited(&root);
            let store = adapter.store(look, &root);
            let live = store.live();
            let mut question = Question::new(adapter, look, &root, store.as_ref(), live);
            found.rows.extend(question.observe(&here));
            found.faults.append(&mut question.faults);
        }
        found
    });
    for (index, observed) in found.rows {
        seen[index] = observed;
    }
    let mut faults = found.faults;
    faults.sort();
    faults.dedup();
    Observation { seen, faults }
}

/// Returns the fleet with the adapter of all targets only, if they have the same.
fn narrowed(fleet: &Fleet, targets: &[Target]) -> Fleet {
    let none = || Fleet::new(Arc::clone(&fleet.host), &[]);
    let Some(first) = targets.first() else { return none() };
    let same = targets.iter().all(|target| target.adapter == first.adapter);
    fleet.only(first.adapter).filter(|_| same).unwrap_or_else(|| fleet.clone())
}

impl Question<'_> {
    fn observe(&mut self, targets: &[(usize, &Target)]) -> Vec<(usize, Observed)> {
        let mut places = Vec::new();
        for (index, target) in targets {
            match (&target.session, target.pid) {
                (Some(locator), _) => self.add_one(locator, Depth::Outline),
                (None, Some(pid)) => self.add_process(pid),
                (None, None) => {}
            }
            places.push((*index, self.rows.len()));
        }
        self.confirm();
        let mut seen = Vec::new();
        let mut before = 0;
        for (index, end) in places {
            let observed = match self.rows.get(before..end) {
                Some([.., row]) => self.observed(&row.locator, row.session.clone()),
                // The live records of the home change when the process gets a session or exits.
                _ => {
                    let places = self.store.watched(&nobody());
                    Observed {
                        watch_targets: WatchTargets { places, ..WatchTargets::default() },
                        ..Observed::default()
                    }
                }
            };
            before = end;
            seen.push((index, observed));
        }
        seen
    }

    /// Adds the session that a process serves, or the process while it serves none.
    fn add_process(&mut self, pid: u32) {
        if let Some(id) = self.view.served_by(pid).map(str::to_owned) {
            return self.add_one(&Locator { id, path: None, parent: None }, Depth::Outline);
        }
        let known = self.rows.len();
        let locators = self.possibly_served();
        self.add(locators, Depth::Outline);
        self.add_unjoined(|s| s.by.iter().any(|p| p.pid == pid));
        let rows = self.rows.split_off(known);
        self.rows.extend(rows.into_iter().filter(|row| row.session.id.is_none()).take(1));
    }

    pub(super) fn observed(&self, locator: &Locator, session: Session) -> Observed {
        let claims = self.view.claims(&locator.id);
        let mut processes = session.process_ids();
        // The exit of a process that may serve it decides an unknown status.
        if session.status == Status::Unknown {
            let suspects = self.view.unjoined().flat_map(|served| served.by.iter().cloned());
            processes.extend(suspects);
        }
        Observed {
            ends_by_itself: !claims.is_empty() && claims.iter().all(|c| c.single_prompt),
            watch_targets: WatchTargets {
                processes,
                places: self.store.watched(locator),
                pushing: self.store.pushing(&session).into_iter().collect(),
                ..WatchTargets::default()
            },
            session: Some(session),
        }
    }
}

fn nobody() -> Locator {
    Locator { id: String::new(), path: None, parent: None }
}

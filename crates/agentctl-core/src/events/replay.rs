//! Events of the past: the starts and ends of launches, which are stored in the runs folder. Nothing else
//! of the past is known.

use std::collections::BTreeMap;

use super::edges::{EndedLaunch, LaunchInfo};
use super::{Event, EventKind};
use crate::adapters::Root;
use crate::fleet::{self, Fleet, Launch, Launches};
use crate::model::{Locator, Session, Target, Time};
use crate::runs::Run;

/// Returns the starts and ends of launches since a time, oldest first, with the times of their runs.
#[must_use]
pub fn since(fleet: &Fleet, since: Time) -> Vec<Event> {
    let mut launches = Launches::default();
    launches.read(fleet);
    let recent: Vec<&Launch> = launches
        .newest()
        .filter(|launch| launch.ended.as_ref().map_or(launch.spec.at, |e| e.at) >= since)
        .collect();
    let mut events = Vec::new();
    let known = sessions_of(fleet, &recent);
    for (launch, session) in recent.into_iter().zip(known) {
        let Some(past) = Past::of(fleet, &launches, launch, session) else { continue };
        events.push(past.started());
        events.extend(past.over().map(|passed| passed.stopped()));
    }
    events.retain(|event| event.at >= since);
    events.sort_by_key(|event| event.at);
    events
}

/// Returns the launches whose end no daemon has announced, each with the event of its end: they ended while
/// no daemon was running. Runs that were not to be announced are left out.
#[must_use]
pub fn unannounced(fleet: &Fleet) -> Vec<(Run, Event)> {
    let mut launches = Launches::default();
    launches.read(fleet);
    let untold: Vec<&Launch> = launches
        .newest()
        .filter(|l| l.spec.announce && l.ended.is_some() && !l.run.is_announced())
        .collect();
    let known = sessions_of(fleet, &untold);
    let mut late = Vec::new();
    for (launch, session) in untold.into_iter().zip(known) {
        let past = Past::of(fleet, &launches, launch, session);
        let Some(passed) = past.and_then(|past| past.over()) else { continue };
        let mut event = passed.stopped();
        event.late = true;
        late.push((launch.run.clone(), event));
    }
    late.sort_by_key(|(_, event)| event.at);
    late
}

/// Returns the run whose end an event reports, if it reports one.
#[must_use]
pub fn run_that_ended(event: &Event) -> Option<&str> {
    let ends = matches!(event.kind, EventKind::Stopped | EventKind::Error);
    event.run.as_deref().filter(|_| ends)
}

/// Looks at the sessions of these launches, each by name.
pub(super) fn sessions_of(fleet: &Fleet, launches: &[&Launch]) -> Vec<Option<Session>> {
    let mut targets = Vec::new();
    let mut homes: BTreeMap<&str, Vec<Root>> = BTreeMap::new();
    for (index, launch) in launches.iter().enumerate() {
        let Some(id) = &launch.session else { continue };
        let Some(adapter) = fleet.adapters.iter().find(|a| a.name() == launch.spec.adapter) else {
            continue;
        };
        // An adapter that does not answer is asked once; its launches are reported without their sessions.
        let roots = homes.entry(adapter.name()).or_insert_with(|| {
            fleet::roots_of(fleet, adapter.name(), fleet.host.deadlines.live).rows
        });
        for root in roots.iter() {
            let session = Some(Locator { id: id.clone(), path: None, parent: None });
            let target = Target { adapter: adapter.name(), root: root.label(), session, pid: None };
            targets.push((index, target));
        }
    }
    let asked: Vec<Target> = targets.iter().map(|(_, target)| target.clone()).collect();
    let mut found = vec![None; launches.len()];
    if asked.is_empty() {
        return found;
    }
    let seen = fleet::inspect_watched(fleet, &asked, fleet.host.deadlines.all).seen;
    for ((index, _), seen) in targets.iter().zip(seen) {
        // A session without any entry is unknown in this home.
        let known = seen.session.filter(|s| s.last_activity_at.is_some() || s.status.is_live());
        if found[*index].is_none() {
            found[*index] = known;
        }
    }
    found
}

/// One launch that has a session, with the session as its record shows it.
pub(super) struct Past {
    launch: LaunchInfo,
    begun: Session,
    over: Option<(Session, Time)>,
}

impl Past {
    /// Combines a run with its session; `None` when the launch never got a session.
    pub(super) fn of(
        fleet: &Fleet,
        launches: &Launches,
        launch: &Launch,
        seen: Option<Session>,
    ) -> Option<Self> {
        let adapter = fleet.adapter(&launch.spec.adapter)?.name();
        let id = launch.session.clone().filter(|_| launch.run.session().is_some())?;
        let mut begun = match &seen {
            Some(session) => session.clone(),
            None => Session { id: Some(id), ..fleet::blank_session(adapter, String::new()) },
        };
        fill(&mut begun, launch);
        launches.add_words(&mut begun);
        let ended = launch.ended.as_ref();
        let over = ended.map(|end| (fleet::as_run_ended(&begun, seen, end), end.at));
        let begun = fleet::as_launched(begun);
        Some(Self { launch: launch_info_of(launch), begun, over })
    }

    fn started(&self) -> Event {
        let (begun, over) = (self.begun.clone(), self.begun.clone());
        EndedLaunch { launch: self.launch.clone(), begun, over, ended: self.launch.began }.started()
    }

    pub(super) fn over(&self) -> Option<EndedLaunch> {
        let (over, ended) = self.over.clone()?;
        Some(EndedLaunch { launch: self.launch.clone(), begun: self.begun.clone(), over, ended })
    }
}

/// Returns the launch as the events need it.
pub(super) fn launch_info_of(launch: &Launch) -> LaunchInfo {
    LaunchInfo {
        run: launch.run.id.clone(),
        // Not the start of its agent, which may be seen before it is written.
        began: launch.spec.at,
        callback: launch.spec.callback.clone(),
    }
}

fn fill(session: &mut Session, launch: &Launch) {
    let spec = &launch.spec;
    session.run = Some(launch.run.id.clone());
    session.group.clone_from(&spec.group);
    session.name = session.name.take().or_else(|| spec.name.clone());
    session.model = session.model.take().or_else(|| spec.model.clone());
    session.cwd = session.cwd.take().or_else(|| Some(spec.cwd.to_string_lossy().into_owned()));
    session.started_at = session.started_at.or(Some(spec.at));
}

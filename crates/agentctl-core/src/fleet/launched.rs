//! Adds the fields that only a launch knows to its session (run, exit code), and the person's words for it
//! (name, group).
//!
//! Nothing here changes a status, an outcome or a process: without the runs folder and the file of names only
//! these fields are missing.

use std::collections::{BTreeMap, HashMap};

use super::{Fleet, Rows};
use crate::adapters::control::{FirstWords, Handshake, Order};
use crate::model::{Fault, InternedName, Session, is_session_id};
use crate::names::{BranchGroups, Names};
use crate::runs::{FIRST_OUTPUT_BYTES, Run, RunEnd, Runs, Spec, Started, beginning};

/// One launch, as the folder of its run describes it.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The run.
    pub run: Run,
    /// The request.
    pub spec: Spec,
    /// Its session, once that is known.
    pub session: Option<String>,
    /// Its processes, once they have started.
    pub started: Option<Started>,
    /// How it ended, once it has.
    pub ended: Option<RunEnd>,
}

/// All launches in the runs folder. Facts that cannot change any more are read once.
#[derive(Debug, Default)]
pub struct Launches {
    by_run: BTreeMap<String, Launch>,
    names: Names,
    /// Without any directory: branches change.
    branches: BranchGroups,
}

/// The newest launch of a session, and the newest words that any of its launches gave.
struct Newest<'a> {
    launch: &'a Launch,
    name: Option<&'a String>,
    group: Option<&'a String>,
}

impl Launches {
    /// Reads the runs folder again: new runs, and new facts of runs that have not ended.
    pub fn read(&mut self, fleet: &Fleet) {
        self.names.read(&fleet.host);
        self.branches = BranchGroups::of(&fleet.host);
        let mut known = std::mem::take(&mut self.by_run);
        for run in Runs::of(&fleet.host).all().unwrap_or_default() {
            let launch = match known.remove(&run.id) {
                Some(launch) if launch.ended.is_some() => launch,
                Some(launch) => launch.once_told(fleet),
                None => {
                    let Some(spec) = run.spec() else { continue };
                    let fresh = Launch { run, spec, session: None, started: None, ended: None };
                    fresh.once_told(fleet)
                }
            };
            self.by_run.insert(launch.run.id.clone(), launch);
        }
    }

    /// Returns them, newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Launch> {
        self.by_run.values().rev()
    }

    /// Returns one of them.
    #[must_use]
    pub fn get(&self, run: &str) -> Option<&Launch> {
        self.by_run.get(run)
    }

    /// Returns why the names could not be read.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        self.names.fault()
    }

    /// Adds the fields of the newest launch of each session, and the person's words.
    pub fn add(&self, sessions: &mut [Session]) {
        let newest = self.newest_of_each_session();
        let mut branches = self.branches.clone();
        for session in sessions {
            add_branch_group(session, &mut branches);
            self.add_to(session, &newest);
        }
    }

    /// Puts the person's words in the place of those of a single launch.
    pub fn add_words(&self, session: &mut Session) {
        self.names.add(session);
    }

    fn add_to(&self, session: &mut Session, newest: &HashMap<(&str, &str), Newest<'_>>) {
        let id = session.id.clone().unwrap_or_default();
        if let Some(newest) = newest.get(&(session.adapter, id.as_str())) {
            newest.add(session);
        }
        self.names.add(session);
    }

    /// Adds the same to packed rows.
    pub(super) fn add_to_rows(&self, rows: &mut Rows) {
        let newest = self.newest_of_each_session();
        if newest.is_empty() && self.names.is_empty() {
            return;
        }
        rows.change(
            |adapter, id| newest.contains_key(&(adapter, id)) || self.names.has(id),
            |session| self.add_to(session, &newest),
        );
    }

    /// Returns the newest launch of each session, by adapter and id.
    fn newest_of_each_session(&self) -> HashMap<(&str, &str), Newest<'_>> {
        let mut newest: HashMap<_, Newest<'_>> = HashMap::new();
        for launch in self.newest() {
            let Some(session) = &launch.session else { continue };
            let (name, group) = (launch.spec.name.as_ref(), launch.spec.group.as_ref());
            let known = newest
                .entry((launch.spec.adapter.as_str(), session.as_str()))
                .or_insert(Newest { launch, name, group });
            (known.name, known.group) = (known.name.or(name), known.group.or(group));
        }
        newest
    }
}

impl Newest<'_> {
    fn add(&self, session: &mut Session) {
        let of_branch = session.group.take();
        self.launch.add(session);
        session.name = session.name.take().or_else(|| self.name.cloned());
        session.group = session.group.take().or_else(|| self.group.cloned()).or(of_branch);
    }
}

impl Launch {
    /// Reads the facts that were missing. An end counts only when its session is known: the launcher writes
    /// the session, and a quick agent may have ended before. While the launcher lives, a missing session
    /// does not mean that there was none.
    fn once_told(self, fleet: &Fleet) -> Self {
        // The launcher is checked before the session: it may write the session and exit in between.
        let untold = self.run.is_being_launched() && self.run.session().is_none();
        let mut launch = self.again(fleet);
        launch.ended = launch.ended.filter(|_| !untold);
        launch
    }

    /// Reads the facts that were missing when it was last read.
    #[must_use]
    pub fn again(mut self, fleet: &Fleet) -> Self {
        // The end is read first: when it is there, all other facts are there too.
        self.ended = self.ended.or_else(|| self.run.ended());
        self.started = self.started.or_else(|| self.run.started());
        // The agent may use another id than the one that was chosen for it.
        let session = || session_of(fleet, &self.run, &self.spec);
        self.session = self.session.filter(|_| self.run.session().is_some()).or_else(session);
        self
    }

    /// Adds its fields to its session.
    pub fn add(&self, session: &mut Session) {
        session.run = Some(self.run.id.clone());
        session.launched_by = self.spec.launcher();
        session.group = self.spec.group.clone().or_else(|| session.group.take());
        // A name in the agent's own record is newer.
        session.name = session.name.take().or_else(|| self.spec.name.clone());
        let Some(ended) = self.ended.as_ref().filter(|_| !session.status.is_live()) else { return };
        // If the session was continued after the end of this run, its exit code does not apply.
        if session.last_activity_at.is_none_or(|last| last <= ended.at) {
            session.exit = session.exit.or(Some(ended.exit));
            session.ended_at = session.ended_at.or(Some(ended.at));
        }
    }
}

/// Adds the fields of the newest run of each session, and the person's words. Returns why the words could not
/// be read.
pub fn add(fleet: &Fleet, sessions: &mut [Session]) -> Option<Fault> {
    let mut launches = Launches::default();
    launches.read(fleet);
    launches.add(sessions);
    launches.fault().cloned()
}

/// Adds the same to packed rows.
pub(super) fn add_to_rows(fleet: &Fleet, rows: &mut Rows) {
    let mut launches = Launches::default();
    launches.read(fleet);
    launches.add_to_rows(rows);
    rows.faults.extend(launches.fault().cloned());
}

/// Adds the group that the branch of the session's worktree tells.
pub(super) fn add_branch_group(session: &mut Session, branches: &mut BranchGroups) {
    if session.group.is_none() {
        session.group = session.cwd.as_deref().and_then(|cwd| branches.group_of(cwd));
    }
}

/// Returns the adapter and the session of a run of this id, as far as they are recorded.
#[must_use]
pub(crate) fn recorded_session(fleet: &Fleet, run: &str) -> Option<(InternedName, String)> {
    let run = Runs::of(&fleet.host).run(run);
    let spec = run.spec()?;
    let adapter = fleet.adapter(&spec.adapter)?;
    Some((adapter.name(), session_of(fleet, &run, &spec)?))
}

/// Returns the session of a run: as the launcher wrote it, as the first output of the agent names it, or as
/// it was chosen.
#[must_use]
pub fn session_of(fleet: &Fleet, run: &Run, spec: &Spec) -> Option<String> {
    if let Some(session) = run.session() {
        return Some(session);
    }
    let adapter = fleet.adapters.iter().find(|a| a.name() == spec.adapter)?;
    let (stdout, stderr) = (
        beginning(&run.stdout(), FIRST_OUTPUT_BYTES),
        beginning(&run.stderr(), FIRST_OUTPUT_BYTES),
    );
    let words = FirstWords { stdout: &stdout, stderr: &stderr };
    let order = Order {
        begin: spec.begin.clone(),
        cwd: spec.cwd.clone(),
        model: spec.model.clone(),
        name: spec.name.clone(),
        permissions: spec.permissions,
        extra: Vec::new(),
        root: None,
        ask: None,
        keep: false,
    };
    match adapter.control()?.handshake(&fleet.host, &order, &words) {
        Handshake::Up(id) | Handshake::Nearly(id, _) => Some(id).filter(|id| is_session_id(id)),
        Handshake::Wait | Handshake::Failed(_) => spec.session.clone(),
    }
}

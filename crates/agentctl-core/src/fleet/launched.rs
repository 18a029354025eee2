//! What only a launch knows, put beside what the agent's own files say: group, run, name, exit code.
//!
//! Nothing here touches a status, an outcome or a process: wipe all runs and only these fields go.

use std::collections::{BTreeMap, HashMap};

use super::{Adapters, Rows};
use crate::adapters::control::{FirstWords, Handshake, Order};
use crate::host::Host;
use crate::model::{Session, is_session_id};
use crate::runs::{FIRST_OUTPUT_BYTES, Run, RunEnd, Runs, Spec, Started, beginning};

/// One launch, as its run's folder tells it.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The run.
    pub run: Run,
    /// What was asked for.
    pub spec: Spec,
    /// The session it became, once that is known.
    pub session: Option<String>,
    /// Which process it became, once it has.
    pub started: Option<Started>,
    /// How it ended, once it has.
    pub ended: Option<RunEnd>,
}

/// All launches that are kept. What a folder says for good is read once, for as long as it lies there.
#[derive(Debug, Default)]
pub struct Launches {
    by_run: BTreeMap<String, Launch>,
}

impl Launches {
    /// Reads what is new.
    pub fn read(&mut self, host: &Host, adapters: Adapters) {
        let mut known = std::mem::take(&mut self.by_run);
        for run in Runs::of(host).all().unwrap_or_default() {
            let launch = match known.remove(&run.id) {
                Some(launch) if launch.ended.is_some() => launch,
                Some(launch) => launch.once_told(host, adapters),
                None => {
                    let Some(spec) = run.spec() else { continue };
                    let fresh = Launch { run, spec, session: None, started: None, ended: None };
                    fresh.once_told(host, adapters)
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

    /// Adds what the newest launch of each session knows.
    pub fn add(&self, sessions: &mut [Session]) {
        let newest = self.newest_of_each_session();
        if newest.is_empty() {
            return;
        }
        for session in sessions {
            let Some(id) = session.id.as_deref() else { continue };
            let Some(launch) = newest.get(&(session.adapter, id)) else { continue };
            launch.add(session);
        }
    }

    /// Adds the same to packed rows.
    pub(super) fn add_to_rows(&self, rows: &mut Rows) {
        let newest = self.newest_of_each_session();
        if !newest.is_empty() {
            rows.change(
                |adapter, id| newest.contains_key(&(adapter, id)),
                |session| {
                    let id = session.id.clone().unwrap_or_default();
                    if let Some(launch) = newest.get(&(session.adapter, id.as_str())) {
                        launch.add(session);
                    }
                },
            );
        }
    }

    /// Returns the newest launch of each session, by adapter and id.
    fn newest_of_each_session(&self) -> HashMap<(&str, &str), &Launch> {
        let mut newest = HashMap::new();
        for launch in self.newest() {
            let Some(session) = &launch.session else { continue };
            newest.entry((launch.spec.adapter.as_str(), session.as_str())).or_insert(launch);
        }
        newest
    }
}

impl Launch {
    /// Reads what was not written yet; an end counts once it is known which session it is the end of.
    /// That is the launcher's to say, and a quick agent has ended before: as long as there is a launcher,
    /// its silence does not mean that there was no session.
    fn once_told(self, host: &Host, adapters: Adapters) -> Self {
        // Whether anybody is left to say it is asked before whether it is said.
        let untold = self.run.is_being_launched() && self.run.session().is_none();
        let mut launch = self.again(host, adapters);
        launch.ended = launch.ended.filter(|_| !untold);
        launch
    }

    /// Reads what was not written yet when it was last read.
    #[must_use]
    pub fn again(mut self, host: &Host, adapters: Adapters) -> Self {
        // Whether it has ended is read first: everything else is there then.
        self.ended = self.ended.or_else(|| self.run.ended());
        self.started = self.started.or_else(|| self.run.started());
        // An id that was only chosen may turn out to be another one.
        let session = || session_of(host, adapters, &self.run, &self.spec);
        self.session = self.session.filter(|_| self.run.session().is_some()).or_else(session);
        self
    }

    /// Adds what it knows to its session.
    pub fn add(&self, session: &mut Session) {
        session.run = Some(self.run.id.clone());
        session.group.clone_from(&self.spec.group);
        // A name the agent itself keeps is the newer one.
        session.name = session.name.take().or_else(|| self.spec.name.clone());
        let Some(ended) = self.ended.as_ref().filter(|_| !session.status.is_live()) else { return };
        // Somebody else may have continued it since: then how this run ended says nothing.
        if session.last_activity_at.is_none_or(|last| last <= ended.at) {
            session.exit = session.exit.or(Some(ended.exit));
            session.ended_at = session.ended_at.or(Some(ended.at));
        }
    }
}

/// Adds what the newest run of each session knows.
pub fn add(host: &Host, adapters: Adapters, sessions: &mut [Session]) {
    let mut launches = Launches::default();
    launches.read(host, adapters);
    launches.add(sessions);
}

/// Adds the same to packed rows.
pub(super) fn add_to_rows(host: &Host, adapters: Adapters, rows: &mut Rows) {
    let mut launches = Launches::default();
    launches.read(host, adapters);
    launches.add_to_rows(rows);
}

/// Returns the session of a run: as the launcher wrote it, as it was chosen, or as the agent told it
/// when nobody listened any more.
#[must_use]
pub fn session_of(host: &Host, adapters: Adapters, run: &Run, spec: &Spec) -> Option<String> {
    if let Some(session) = run.session() {
        return Some(session);
    }
    let adapter = adapters.iter().find(|a| a.name() == spec.adapter)?;
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
    };
    match adapter.control()?.handshake(host, &order, &words) {
        Handshake::Up(id) | Handshake::Nearly(id, _) => Some(id).filter(|id| is_session_id(id)),
        Handshake::Wait | Handshake::Failed(_) => spec.session.clone(),
    }
}

//! Proofs from the run folders: which process is a run's shim, and which is its agent.
//!
//! A marker or a command line only says which folder to read. The proof is the folder's `started.json`,
//! which the shim itself wrote and which names both processes by pid, start time and inode. An agent that
//! is confined to its workspace cannot write there.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::host::Host;
use crate::kernel::{Liveness, Process};
use crate::model::ProcId;
use crate::runs::{Runs, Started};

/// Limit of different run ids that are looked up without success in one stop.
const MAX_MISSING_RUNS: usize = 4096;

/// The run folders of this user, each read once per stop.
pub(super) struct RunFolders<'a> {
    host: &'a Host,
    runs: Runs,
    read: RefCell<HashMap<String, Started>>,
    missing: RefCell<HashMap<String, u32>>,
}

impl<'a> RunFolders<'a> {
    pub(super) fn of(host: &'a Host) -> Self {
        let (read, missing) = (RefCell::default(), RefCell::default());
        Self { host, runs: Runs::of(host), read, missing }
    }

    /// Returns the processes of a run, if its folder names them and they belong to this pid namespace and
    /// boot.
    pub(super) fn started(&self, run: &str) -> Option<Started> {
        if let Some(started) = self.read.borrow().get(run) {
            return Some(started.clone());
        }
        let mut missing = self.missing.borrow_mut();
        if missing.len() >= MAX_MISSING_RUNS && !missing.contains_key(run) {
            return None;
        }
        let started = self.runs.run(run).started().filter(|started| {
            started.is_here(&self.host.kernel)
                && started.process.boot_id == self.host.kernel.boot_id()
        });
        match &started {
            Some(started) => {
                self.read.borrow_mut().insert(run.to_owned(), started.clone());
            }
            // The file may be written a moment later, so the next scan reads it again.
            None => *missing.entry(run.to_owned()).or_default() += 1,
        }
        started
    }

    /// Says whether the run's folder names this process as its shim.
    pub(super) fn is_shim(&self, run: &str, process: &ProcId) -> bool {
        self.started(run).is_some_and(|started| started.shim.as_ref() == Some(process))
    }

    /// Returns the agent of a run of this session, if it has ended.
    pub(super) fn ended_agent(&self, run: &str, (adapter, id): (&str, &str)) -> Option<ProcId> {
        let agent = self.started(run)?.process;
        let run = self.runs.run(run);
        let is_of_session = run.session().as_deref() == Some(id)
            && run.spec().is_some_and(|spec| spec.adapter == adapter);
        let has_ended = self.host.kernel.liveness(&agent) == Liveness::Gone;
        (is_of_session && has_ended).then_some(agent)
    }

    /// Returns the shim of a run that died before it wrote how its agent ended.
    pub(super) fn lost_shim(&self, run: &str) -> Option<ProcId> {
        let shim = self.started(run)?.shim?;
        // The shim writes `exit.json` before it exits, so its death must be checked first: otherwise a
        // normal exit between the two checks would look like a lost shim.
        let is_gone = self.host.kernel.liveness(&shim) == Liveness::Gone;
        (is_gone && self.runs.run(run).ended().is_none()).then_some(shim)
    }

    /// Says whether the run's folder names this process as its shim or as its agent.
    pub(super) fn names(&self, run: &str, process: &ProcId) -> bool {
        self.started(run).is_some_and(|started| {
            started.process == *process || started.shim.as_ref() == Some(process)
        })
    }

    /// Says whether a process that carries the marker of this run may be its agent: the run's folder names
    /// it, or the folder no longer exists.
    pub(super) fn may_be_agent(&self, run: &str, process: &ProcId) -> bool {
        self.started(run).is_none_or(|started| started.process == *process)
    }
}

/// Says whether a process runs this program, also after the file was replaced by an upgrade.
pub(super) fn is_this_program(host: &Host, process: &Process) -> bool {
    process.exe.as_deref() == Some(&host.program)
}

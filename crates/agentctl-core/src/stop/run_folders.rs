//! What our own run folders prove about processes: which one is a run's shim, which one its agent.
//!
//! A text in an environment or a command line only says which folder to read. The proof is the folder's
//! `started.json`, which the shim itself wrote and which names both processes by pid, start time and
//! inode. An agent that is confined to its workspace cannot write there.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::host::Host;
use crate::kernel::{Liveness, Process};
use crate::model::ProcId;
use crate::runs::{Runs, Started};

/// At most so many different run ids are looked up in one stop.
const MOST: usize = 4096;

/// The run folders of this user, each read once in a stop.
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

    /// Returns which processes a run became, if its folder says so and they can be looked for from here.
    pub(super) fn started(&self, run: &str) -> Option<Started> {
        if let Some(started) = self.read.borrow().get(run) {
            return Some(started.clone());
        }
        let mut missing = self.missing.borrow_mut();
        if missing.len() >= MOST && !missing.contains_key(run) {
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
            // It may be written a moment later: it is read again in the next pass.
            None => *missing.entry(run.to_owned()).or_default() += 1,
        }
        started
    }

    /// Says whether the run's folder names this process as its shim.
    pub(super) fn is_shim(&self, run: &str, process: &ProcId) -> bool {
        self.started(run).is_some_and(|started| started.shim.as_ref() == Some(process))
    }

    /// Returns the shim of a run if it has died before it could write how its agent ended.
    pub(super) fn lost_shim(&self, run: &str) -> Option<ProcId> {
        let shim = self.started(run)?.shim?;
        // The shim writes `exit.json` before it ends: the order of these two looks matters.
        let is_gone = self.host.kernel.liveness(&shim) == Liveness::Gone;
        (is_gone && self.runs.run(run).ended().is_none()).then_some(shim)
    }

    /// Says whether the run's folder names this process as its shim or as its agent.
    pub(super) fn names(&self, run: &str, process: &ProcId) -> bool {
        self.started(run).is_some_and(|started| {
            started.process == *process || started.shim.as_ref() == Some(process)
        })
    }

    /// Says whether a process that calls itself the agent of this run may be it: the run's folder names
    /// it, or there is no such folder (any more).
    pub(super) fn may_be_agent(&self, run: &str, process: &ProcId) -> bool {
        self.started(run).is_none_or(|started| started.process == *process)
    }
}

/// Says whether a process runs this very program, also after the file was replaced by an upgrade.
pub(super) fn is_this_program(host: &Host, process: &Process) -> bool {
    process.exe.as_deref() == Some(&host.program)
}

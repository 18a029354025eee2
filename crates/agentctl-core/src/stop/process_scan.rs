//! One scan of the process table: each process, its parent, and the markers in its environment. A marker
//! alone proves nothing; `belonging` decides what it counts for.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::daemon::is_daemon;
use crate::adapters::control::Mark;
use crate::host::Host;
use crate::kernel::{Kernel, Process, Table};
pub(super) use crate::marks::shim_of;
use crate::marks::{MARKER, Marker};
use crate::model::ProcId;

/// One process of a scan.
pub(super) struct ScannedProcess {
    pub(super) process: Process,
    /// The marker of a run in its environment.
    pub(super) marker: Option<Marker>,
    /// The process is this user's daemon, which belongs to no session, whichever session started it.
    pub(super) daemon: bool,
    /// The values of the agents' own variables in its environment.
    pub(super) values: HashMap<&'static str, String>,
    /// The process belongs to another user.
    pub(super) foreign: bool,
}

impl ScannedProcess {
    /// Says whether the process belongs to another user or another pid namespace, where a pid in its
    /// environment may mean another process.
    pub(super) fn is_outsider(&self) -> bool {
        self.foreign || self.process.elsewhere
    }
}

/// Timeout for reading the processes of all users.
const SCAN_TIMEOUT: Duration = Duration::from_secs(20);

/// Processes by pid.
pub(super) type ProcessTable = HashMap<u32, ScannedProcess>;

/// All processes by pid, and the reasons why some may be missing.
pub(super) struct ProcessScan {
    pub(super) by_pid: ProcessTable,
    pub(super) gaps: Vec<String>,
}

/// Reads the whole process table once, with these environment variables.
pub(super) fn scan(host: &Host, names: &[&'static str]) -> ProcessScan {
    let mut wanted = vec![MARKER];
    wanted.extend(names);
    let kernel = &host.kernel;
    let until = Instant::now() + SCAN_TIMEOUT;
    let (own, others) = (kernel.table(until, |_| true), strangers(kernel, until));
    let mut gaps = own.gaps;
    gaps.extend(others.gaps);
    let own = own.processes.into_iter().map(|process| (false, process));
    let others = others.processes.into_iter().map(|process| (true, process));
    let by_pid = others.chain(own).map(|(foreign, process)| {
        let said = kernel.environ(&process.id, &wanted).unwrap_or_default();
        let mut said = said.into_iter();
        let marker = said.next().flatten().and_then(|t| Marker::parse(&t));
        let values = names.iter().zip(said).filter_map(|(name, v)| Some((*name, v?)));
        let values = values.collect();
        let daemon = !foreign && is_daemon(host, &process);
        let seen = ScannedProcess { process, marker, daemon, values, foreign };
        (seen.process.id.pid, seen)
    });
    ProcessScan { by_pid: by_pid.collect(), gaps }
}

#[cfg(target_os = "linux")]
fn strangers(kernel: &Kernel, until: Instant) -> Table {
    kernel.strangers(until)
}

/// On other systems the processes of other users are not read.
#[cfg(not(target_os = "linux"))]
fn strangers(_: &Kernel, _: Instant) -> Table {
    Table::default()
}

/// Returns the variable that links a process to one of these marks. A mark that holds a pid counts only for
/// a process that started after that agent, and only while no other process has its pid.
pub(super) fn borne(
    seen: &ScannedProcess,
    marks: &[Mark],
    by: &[ProcId],
    table: &ProcessTable,
) -> Option<&'static str> {
    let borne =
        marks.iter().filter(|m| seen.values.get(m.name) == Some(&m.value)).find(|mark| match mark
            .value
            .parse::<u32>()
        {
            Err(_) => true,
            Ok(_) if seen.is_outsider() => false,
            Ok(pid) => by.iter().any(|agent| {
                agent.pid == pid
                    && seen.process.id != *agent
                    && seen.process.id.start_ticks >= agent.start_ticks
                    && table.get(&pid).is_none_or(|now| now.process.id == *agent)
            }),
        });
    borne.map(|mark| mark.name)
}

/// Says whether a process carries one of these marks: see [`borne`].
pub(super) fn bears(
    seen: &ScannedProcess,
    marks: &[Mark],
    by: &[ProcId],
    table: &ProcessTable,
) -> bool {
    borne(seen, marks, by, table).is_some()
}

/// Returns the parent of a process. A process with the parent's pid that is younger than its child has
/// recycled the pid and is not returned.
pub(super) fn parent<'t>(
    table: &'t ProcessTable,
    seen: &ScannedProcess,
) -> Option<&'t ScannedProcess> {
    let above = table.get(&seen.process.parent_pid)?;
    (above.process.id.start_ticks <= seen.process.id.start_ticks
        && above.process.id.pid != seen.process.id.pid)
        .then_some(above)
}

pub(super) fn ancestors<'t>(
    table: &'t ProcessTable,
    seen: &'t ScannedProcess,
) -> impl Iterator<Item = &'t ScannedProcess> {
    std::iter::successors(parent(table, seen), |s| parent(table, s)).take(4096)
}

/// Says whether orphans are re-parented to this process: pid 1, or the manager of a login session.
pub(super) fn is_reaper(pid: u32, seen: Option<&ScannedProcess>) -> bool {
    pid <= 1 || seen.is_some_and(|s| matches!(s.process.comm.as_str(), "systemd" | "init"))
}

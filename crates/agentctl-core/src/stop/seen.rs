//! One pass over the process table: who is there, whose child, and what its environment says.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::adapters::control::Mark;
use crate::host::Host;
use crate::kernel::{Kernel, Process, Table};
use crate::launch::SHIM;
use crate::model::{ProcId, is_session_id};
use crate::runs::{MARKER, Marker};

/// What a hook's environment says: that it is one, and whose.
const HOOK: [&str; 2] = ["AGENTCTL_HOOK", "AGENTCTL_RUN_ID"];
/// The variable that a daemon is started with, wherever it was started from.
pub const DAEMON: &str = "AGENTCTL_DAEMON";

/// One process as a pass over the table shows it.
pub(super) struct Seen {
    pub(super) process: Process,
    pub(super) run: Option<String>,
    pub(super) hook_of: Option<String>,
    /// It is this user's daemon, which is nobody's tool, whoever happened to start it.
    pub(super) daemon: bool,
    pub(super) values: HashMap<&'static str, String>,
    /// Another user's, or of another pid namespace: what it says of itself may spare it, and never makes
    /// it anybody's.
    pub(super) outsider: bool,
}

/// So long may reading the processes of everybody take.
const TABLE_LIMIT: Duration = Duration::from_secs(20);

/// Everybody there was, by pid, and why that may not be all.
pub(super) struct Everybody {
    pub(super) by_pid: HashMap<u32, Seen>,
    pub(super) gaps: Vec<String>,
}

/// Reads the whole table once, with these marks.
pub(super) fn look(host: &Host, names: &[&'static str]) -> Everybody {
    let mut wanted = vec![MARKER, HOOK[0], HOOK[1], DAEMON];
    wanted.extend(names);
    let kernel = &host.kernel;
    let until = Instant::now() + TABLE_LIMIT;
    let (own, others) = (kernel.table(until, |_| true), strangers(kernel, until));
    let mut gaps = own.gaps;
    gaps.extend(others.gaps);
    let own = own.processes.into_iter().map(|process| (process.elsewhere, process));
    let others = others.processes.into_iter().map(|process| (true, process));
    let by_pid = others.chain(own).map(|(outsider, process)| {
        let said = kernel.environ(&process.id, &wanted).unwrap_or_default();
        let mut said = said.into_iter();
        let run = said.next().flatten().and_then(|t| Marker::parse(&t)).map(|m| m.run);
        let (hook, hook_run) = (said.next().flatten(), said.next().flatten());
        let daemon = said.next().flatten().is_some() && is_daemon(host, &process);
        let values = names.iter().zip(said).filter_map(|(name, v)| Some((*name, v?)));
        let values = values.collect();
        let hook_of = hook.and(hook_run);
        let seen = Seen { process, run, hook_of, daemon, values, outsider };
        (seen.process.id.pid, seen)
    });
    Everybody { by_pid: by_pid.collect(), gaps }
}

#[cfg(target_os = "linux")]
fn strangers(kernel: &Kernel, until: Instant) -> Table {
    kernel.strangers(until)
}

/// Elsewhere another user's processes are not looked at.
#[cfg(not(target_os = "linux"))]
fn strangers(_: &Kernel, _: Instant) -> Table {
    Table::default()
}

/// Says whether a process bears one of these marks. One that names a pid counts only for what began
/// after that very process, and only as long as nobody else has its pid; an outsider's may mean anybody.
pub(super) fn bears(
    seen: &Seen,
    marks: &[Mark],
    by: &[ProcId],
    table: &HashMap<u32, Seen>,
) -> bool {
    marks.iter().filter(|m| seen.values.get(m.name) == Some(&m.value)).any(|mark| {
        match mark.value.parse::<u32>() {
            Err(_) => true,
            Ok(_) if seen.outsider => false,
            Ok(pid) => by.iter().any(|agent| {
                agent.pid == pid
                    && seen.process.id != *agent
                    && seen.process.id.start_ticks >= agent.start_ticks
                    && table.get(&pid).is_none_or(|now| now.process.id == *agent)
            }),
        }
    })
}

/// `agentctl daemon run`, of this very program.
fn is_daemon(host: &Host, process: &Process) -> bool {
    let ours = process.exe.as_deref() == Some(host.program.as_path());
    ours && matches!(process.argv.as_slice(), [_, room, word, ..] if room == "daemon" && word == "run")
}

/// `agentctl shim …/runs/<run> …`
pub(super) fn shim_of(process: &Process) -> Option<&str> {
    let [_, word, folder, ..] = process.argv.as_slice() else { return None };
    let folder = Path::new(folder).is_absolute().then_some(Path::new(folder))?;
    let kept = folder.parent()?.file_name()?;
    let run = folder.file_name()?.to_str().filter(|r| is_session_id(r))?;
    (word == SHIM && kept == "runs").then_some(run)
}

/// The parent of a process, if what has that pid can be it: nobody is older than their parent.
pub(super) fn parent<'t>(table: &'t HashMap<u32, Seen>, seen: &Seen) -> Option<&'t Seen> {
    let above = table.get(&seen.process.parent_pid)?;
    (above.process.id.start_ticks <= seen.process.id.start_ticks
        && above.process.id.pid != seen.process.id.pid)
        .then_some(above)
}

pub(super) fn ancestors<'t>(
    table: &'t HashMap<u32, Seen>,
    seen: &'t Seen,
) -> impl Iterator<Item = &'t Seen> {
    std::iter::successors(parent(table, seen), |s| parent(table, s)).take(4096)
}

/// Orphans are given to the first process, or to the one that stands in for it in a login session.
pub(super) fn is_reaper(pid: u32, seen: Option<&Seen>) -> bool {
    pid <= 1 || seen.is_some_and(|s| matches!(s.process.comm.as_str(), "systemd" | "init"))
}

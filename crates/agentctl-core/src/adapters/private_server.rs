//! The server of one run: which process it is, and that no other client may use it.

use super::Look;
use crate::kernel::Process;
use crate::marks::{MARKER, Marker};
use crate::model::ProcId;

/// Says whether a process is the server of a run. The marker of the run names it, or names its parent with the
/// same arguments: a script that waits for the program itself.
pub(super) fn is_server_of_run(look: &Look, process: &Process) -> bool {
    let Ok(values) = look.environ(process, &[MARKER]) else { return false };
    let Some(marker) = values.first().and_then(|value| Marker::parse(value.as_deref()?)) else {
        return false;
    };
    marker.names(&process.id)
        || parent(look, process)
            .is_some_and(|parent| marker.names(&parent.id) && is_wrapper(&parent, process))
}

/// Returns the server itself, given the process that was started for a run: that process, or the program that
/// it waits for.
pub(super) fn server_itself<'a>(
    look: &'a Look,
    started: &ProcId,
    is_server: &dyn Fn(&Process) -> bool,
) -> Option<&'a Process> {
    let is_it = |process: &&Process| {
        let is_below = || {
            process.parent_pid == started.pid
                && parent(look, process)
                    .is_some_and(|parent| parent.id == *started && is_wrapper(&parent, process))
        };
        is_server(process) && (process.id == *started || is_below())
    };
    look.table.processes.iter().find(is_it)
}

fn parent(look: &Look, process: &Process) -> Option<Process> {
    look.host.kernel.process(process.parent_pid).ok().flatten()
}

fn is_wrapper(parent: &Process, process: &Process) -> bool {
    process.argv.get(1..).is_some_and(|words| !words.is_empty() && parent.argv.ends_with(words))
}

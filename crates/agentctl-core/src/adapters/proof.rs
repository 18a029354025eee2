//! The proof that a process is the agent that a record of a home names.
//!
//! A record, a lock or a socket in a home can be written by any program that may write there. It joins
//! a process only if the process is the agent's own program, acts as our user, lives in our pid
//! namespace and itself names this home. Adapters check this before they join, `stop` again before its
//! first signal. See docs/adr/0025-a-join-has-a-grade.md.

use std::fmt;
use std::path::PathBuf;

use super::{Adapter, Look, Root};
use crate::kernel::Process;
use crate::marks::{MARKER, Marker};
use crate::model::ProcId;

/// The reason why a process is not proved to be the agent of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unproved {
    /// It runs another program.
    Program {
        /// The program file, where readable.
        exe: Option<PathBuf>,
    },
    /// It acts as another user.
    Owner {
        /// That user; `None` where the kernel does not say.
        uid: Option<u32>,
    },
    /// It lives in another pid namespace.
    Namespace,
    /// It uses another home.
    Home {
        /// That home; `None` where the process does not say.
        home: Option<PathBuf>,
    },
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { exe: Some(exe) } => {
                write!(f, "it runs {}, which is not the agent's program", exe.display())
            }
            Self::Program { exe: None } => f.write_str("its program file cannot be read"),
            Self::Owner { uid: Some(uid) } => write!(f, "it belongs to user {uid}"),
            Self::Owner { uid: None } => f.write_str("its user cannot be read"),
            Self::Namespace => f.write_str("it lives in another pid namespace"),
            Self::Home { home: Some(home) } => {
                write!(f, "its own environment names the home {}", home.display())
            }
            Self::Home { home: None } => {
                f.write_str("its own environment names no home that can be resolved")
            }
        }
    }
}

/// Proves that a process is the agent's own program, ours, in our pid namespace, and uses this home.
pub fn prove(
    adapter: &dyn Adapter,
    look: &Look,
    root: &Root,
    process: &Process,
) -> Result<(), Unproved> {
    if process.uid != Some(look.host.kernel.uid()) {
        return Err(Unproved::Owner { uid: process.uid });
    }
    if process.elsewhere {
        return Err(Unproved::Namespace);
    }
    if !adapter.is_own_program(look, process) {
        return Err(Unproved::Program { exe: process.exe.clone() });
    }
    let home = adapter.home_of(look, process);
    match home {
        Some(home) if home == root.path() => Ok(()),
        home => Err(Unproved::Home { home }),
    }
}

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

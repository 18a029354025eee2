//! Launchers: programs of an agent's name that have started the agent and only wait for it. They serve no
//! session.

use std::collections::{HashMap, HashSet};

use super::Look;
use crate::kernel::Process;

/// Longest chain of processes from an agent up to its launcher, the launcher included: an interpreter
/// and a shell may be in between.
const MAX_STEPS: usize = 8;

/// Returns the pids of the candidates that are launchers of these agents. `launches` decides, given the
/// candidate, the agent and the number of steps between them.
///
/// Walks up from each agent once, so thousands of processes with an agent's name cost no more than
/// that.
pub fn launchers<'a>(
    look: &Look,
    agents: impl Iterator<Item = &'a Process>,
    launches: &dyn Fn(&Process, &Process, usize) -> bool,
) -> HashSet<u32> {
    let mut parents: HashMap<u32, u32> = HashMap::new();
    let mut found = HashSet::new();
    for agent in agents {
        let mut pid = agent.parent_pid;
        for steps in 1..=MAX_STEPS {
            if pid <= 1 {
                break;
            }
            let above = look.table.process(pid);
            if above.is_some_and(|above| launches(above, agent, steps)) {
                found.insert(pid);
            }
            let read = || look.host.kernel.process(pid).ok().flatten().map_or(0, |p| p.parent_pid);
            pid = match above {
                Some(above) => above.parent_pid,
                None => *parents.entry(pid).or_insert_with(read),
            };
        }
    }
    found
}

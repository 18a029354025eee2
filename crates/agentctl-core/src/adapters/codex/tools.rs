//! The tools of a Codex process: they show its work where its rollout does not.

use crate::adapters::Look;
use crate::kernel::Process;
use crate::model::{ProcId, shorten};

/// Returns the command line of a tool that one of these processes runs for this thread.
///
/// Codex gives its tools `CODEX_THREAD_ID`. A process that itself has this value inherited it from
/// another Codex.
pub(super) fn at_work(look: &Look, by: &[ProcId], id: &str) -> Option<String> {
    let kernel = &look.host.kernel;
    let thread_of = |process: &ProcId| {
        let values = kernel.environ(process, &["CODEX_THREAD_ID"]).unwrap_or_default();
        values.into_iter().next().flatten()
    };
    let agents: Vec<&ProcId> =
        by.iter().filter(|agent| thread_of(agent).as_deref() != Some(id)).collect();
    let is_tool = |child: &&Process| {
        agents.iter().any(|agent| agent.pid == child.parent_pid)
            && thread_of(&child.id).as_deref() == Some(id)
    };
    let tool = look.everyone().processes.iter().find(is_tool)?;
    Some(shorten(&tool.argv.join(" "), 160))
}

//! Recognises the processes of OpenClaw that run commands: the gateway, its helper, nodes, and agents without a gateway.
//!
//! No session names one of them, and nothing proves them. They are suspects: an order from below one is refused.

use crate::adapters::runtime::{is_runtime, possible_scripts};
use crate::adapters::version_beside;
use crate::kernel::Process;

/// The variables of the commands that it runs, each with its value.
pub(super) const TOOL_VARIABLES: [(&str, &str); 2] =
    [("OPENCLAW_SHELL", "exec"), ("OPENCLAW_CLI", "1")];
/// The name of the npm package.
const PACKAGE: &str = "openclaw";

/// Says whether a process calls itself OpenClaw by its title (`openclaw-gateway`), or is a runtime with a script of its
/// package: `node dist/index.js gateway` never takes a title.
pub(super) fn is_suspect(process: &Process) -> bool {
    process.comm.starts_with("openclaw") || runs_script(process)
}

fn runs_script(process: &Process) -> bool {
    process.exe.as_deref().is_some_and(is_runtime)
        && possible_scripts(process).any(|path| version_beside(&path, PACKAGE).is_some())
}

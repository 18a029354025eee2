//! Recognises the processes of OpenClaw that run commands: the gateway, its helper, nodes, and agents without a gateway.
//!
//! No session names one of them, and nothing proves them. They are suspects: an order from below one is refused.

use std::path::Path;

use crate::adapters::version_beside;
use crate::kernel::Process;

/// The variables of the commands that it runs, each with its value. A shell that a person opens in its interface has
/// another value.
pub(super) const TOOL_VARIABLES: [(&str, &str); 2] =
    [("OPENCLAW_SHELL", "exec"), ("OPENCLAW_CLI", "1")];
/// The name of the npm package.
const PACKAGE: &str = "openclaw";
/// Programs that run its scripts.
const RUNTIMES: [&str; 4] = ["node", "nodejs", "bun", "deno"];

/// Says whether a process calls itself OpenClaw by its title (`openclaw-gateway`), or is a runtime with a script of its
/// package: `node dist/index.js gateway` never takes a title.
pub(super) fn is_suspect(process: &Process) -> bool {
    process.comm.starts_with("openclaw") || runs_script(process)
}

fn runs_script(process: &Process) -> bool {
    let exe = process.exe.as_deref().and_then(Path::file_name).unwrap_or_default();
    let exe = exe.to_string_lossy();
    // `node-22` is Node.js too.
    let name = exe.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    if !RUNTIMES.contains(&name) {
        return false;
    }
    let mut words = process.argv.iter().skip(1);
    let Some(script) = words.find(|word| !word.starts_with('-')) else { return false };
    let script = process.cwd.as_deref().unwrap_or(Path::new("/")).join(script);
    version_beside(&script, PACKAGE).is_some()
}

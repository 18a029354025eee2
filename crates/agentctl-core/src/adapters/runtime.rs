//! Programs that run the scripts of agents.

use std::path::{Path, PathBuf};

use crate::kernel::Process;
use crate::native::real_path::real_path;

const RUNTIMES: [&str; 4] = ["node", "nodejs", "bun", "deno"];
/// The most arguments that may be a script.
const MAX_SCRIPTS: usize = 4;

/// Says whether a program file is a runtime of JavaScript by its name. `node-22` is Node.js too.
pub(super) fn is_runtime(exe: &Path) -> bool {
    let name = exe.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    RUNTIMES.contains(&name)
}

/// Returns the arguments of a process that may be the script that it executes, links resolved, the most probable
/// first: the value of an option (`--import ./x.mjs`) or a subcommand (`bun run`) may stand before the script.
pub(super) fn possible_scripts(process: &Process) -> impl Iterator<Item = PathBuf> + '_ {
    paths(process).take(MAX_SCRIPTS).filter_map(|path| real_path(&path).ok())
}

/// Returns the script of a process that was started as `node SCRIPT`, links resolved.
pub(super) fn script(process: &Process) -> Option<PathBuf> {
    paths(process).next().and_then(|path| real_path(&path).ok())
}

/// Returns the arguments that are no options, as paths.
fn paths(process: &Process) -> impl Iterator<Item = PathBuf> + '_ {
    let directory = process.cwd.as_deref().unwrap_or_else(|| Path::new("/"));
    let named = process.argv.iter().skip(1).filter(|word| !word.starts_with('-'));
    named.map(|word| directory.join(word))
}

//! Programs that run the scripts of agents.

use std::path::{Path, PathBuf};

use crate::kernel::Process;
use crate::native::real_path::real_path;

const RUNTIMES: [&str; 4] = ["node", "nodejs", "bun", "deno"];

/// Says whether a program file is a runtime of JavaScript by its name. `node-22` is Node.js too.
pub(super) fn is_runtime(exe: &Path) -> bool {
    let name = exe.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    RUNTIMES.contains(&name)
}

/// Returns the script that a runtime executes, links resolved.
pub(super) fn script(process: &Process) -> Option<PathBuf> {
    let named = process.argv.iter().skip(1).find(|arg| !arg.starts_with('-'))?;
    let path = process.cwd.as_deref().unwrap_or_else(|| Path::new("/")).join(named);
    real_path(&path).ok()
}

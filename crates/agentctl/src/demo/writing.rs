//! Writes a file for the agent.

use std::fs;
use std::io;
use std::path::Path;

use agentctl_core::adapters::demo::Wrote;

/// Largest content before the change that is recorded.
const MAX_BEFORE_BYTES: u64 = 1 << 20;

/// Writes a file and the folders above it; returns what is recorded about it.
pub(super) fn write(path: &str, content: String) -> io::Result<Wrote> {
    let file = Path::new(path);
    let meta = fs::metadata(file).ok();
    let existed = meta.is_some();
    let is_small = meta.is_some_and(|meta| meta.is_file() && meta.len() <= MAX_BEFORE_BYTES);
    let before = if is_small { fs::read_to_string(file).ok() } else { None };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, &content)?;
    Ok(Wrote { path: path.to_owned(), existed, before, content })
}

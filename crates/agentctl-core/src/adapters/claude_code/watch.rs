//! The files that change with a session: the live records, its transcript, its subagents' transcripts.

use std::path::{Path, PathBuf};

/// Returns the places of a session with this transcript. Before it has one, any new folder may be its
/// folder.
pub(super) fn places(root: &Path, transcript: Option<PathBuf>) -> Vec<PathBuf> {
    let mut places = vec![root.join("sessions")];
    match transcript {
        Some(path) => {
            places.push(path.with_extension("").join("subagents"));
            places.push(path);
        }
        None => places.push(root.join("projects")),
    }
    places
}

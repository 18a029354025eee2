//! The cause of a merge that failed, by the words of git: an untracked file in the way, or a hook.

use std::path::Path;

use super::in_tree::index_lock;
use super::{TakeError, short};
use crate::git::GitError;
use crate::text::bounded;

/// The ends of the lines before a list of untracked files that a merge would overwrite or remove.
const IN_THE_WAY: [&str; 3] = [
    "untracked working tree files would be overwritten by merge:",
    "untracked working tree files would be removed by merge:",
    "directories would lose untracked files in them:",
];
/// The line that `git merge` prints after a hook refused its commit.
const NOT_COMMITTED: &str = "Not committing merge; use 'git commit' to complete the merge.";
/// The line before that one if no hook, but the message of the commit is the cause.
const NO_MESSAGE: &str = "Empty commit message.";
/// Longest excerpt of a hook's words.
const MAX_WORDS_BYTES: usize = 400;

/// Describes a merge into a branch that failed in a working tree and was undone.
pub(super) fn describe(into: &str, path: &Path, error: GitError) -> TakeError {
    let GitError::Failed { command, code, stderr, .. } = &error else {
        return TakeError::Undone(error);
    };
    if let Some(lock) = index_lock(path) {
        return TakeError::IndexLocked { path: path.to_owned(), lock };
    }
    let files = in_the_way(stderr);
    if !files.is_empty() {
        return TakeError::InTheWay { into: short(into), path: path.to_owned(), files };
    }
    let is_refused_merge = stderr.contains(NOT_COMMITTED) && !stderr.contains(NO_MESSAGE);
    // Of a commit that has changes and a message: other failures have the exit code 128.
    let is_refused_commit = command == "commit" && *code == 1;
    if is_refused_merge || is_refused_commit {
        return TakeError::Hook { words: words_of_hook(stderr) };
    }
    TakeError::Undone(error)
}

fn in_the_way(stderr: &str) -> Vec<String> {
    let mut lines = stderr.lines();
    if !lines.any(|line| IN_THE_WAY.iter().any(|words| line.ends_with(words))) {
        return Vec::new();
    }
    let files = lines.map_while(|line| line.strip_prefix('\t'));
    files.map(|file| bounded(file, MAX_WORDS_BYTES).into_owned()).collect()
}

/// Returns the words of a hook as one line, with a colon and a space before them; empty if it said nothing.
fn words_of_hook(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim);
    let lines: Vec<&str> =
        lines.filter(|line| !line.is_empty() && *line != NOT_COMMITTED).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(": {}", bounded(&lines.join("; "), MAX_WORDS_BYTES))
}

//! Rescue refs: they name commits and files that no other ref would name after a worktree is removed.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RESCUE_REFS, ref_part};
use crate::git::{Git, GitError};
use crate::model::Time;

/// How many parents one commit gets.
const MAX_PARENTS: usize = 100;
/// How many names are tried.
const MAX_TRIES: usize = 100;

/// A ref that keeps what was in a removed worktree.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Rescue {
    /// The full name of the ref.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The commit that it names.
    pub commit: String,
    /// The command that brings the worktree back, to be run in the repository.
    pub command: String,
}

/// The contents that a rescue keeps.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    /// The name of the worktree, for the ref.
    pub name: &'a str,
    /// The tree with the files.
    pub tree: &'a str,
    /// The tree of the index, if it differs.
    pub staged: Option<&'a str>,
    /// The commit that the worktree had.
    pub commit: Option<&'a str>,
    /// Further commits.
    pub others: Vec<String>,
}

/// Makes a commit of everything, and a ref that names it. Returns both.
pub(super) fn make(
    git: &Git,
    common: &Path,
    now: Time,
    kept: &Kept<'_>,
) -> Result<(String, String), GitError> {
    let name = kept.name;
    let message = |what: &str| format!("{what} the removed worktree {name}");
    let mut parents: Vec<String> = kept.commit.map(str::to_owned).into_iter().collect();
    if let Some(staged) = kept.staged {
        parents.push(commit_tree(git, common, staged, &parents, &message("Index of"))?);
    }
    for others in kept.others.chunks(MAX_PARENTS) {
        let mut with: Vec<String> = parents.clone();
        with.extend(others.iter().filter(|id| !parents.contains(id)).cloned());
        if with.len() > parents.len() {
            let commit =
                commit_tree(git, common, kept.tree, &with, &message("Earlier commits of"))?;
            parents = vec![commit];
        }
    }
    let commit = commit_tree(git, common, kept.tree, &parents, &message("Content of"))?;
    let time = now.0.strftime("%Y%m%dT%H%M%SZ").to_string();
    let part = Some(ref_part(name)).filter(|part| !part.is_empty());
    let part = part.unwrap_or_else(|| "worktree".to_owned());
    let mut last = None;
    for number in 0..MAX_TRIES {
        let suffix = if number == 0 { String::new() } else { format!("-{number}") };
        let reference = format!("{RESCUE_REFS}{time}-{part}{suffix}");
        // An empty old value: the ref must not exist.
        let call = bookkeeping(git, common).args(["update-ref", &reference, &commit, ""]);
        match call.ok() {
            Ok(_) => return Ok((reference, commit)),
            Err(error) => last = Some(error),
        }
        match git.ref_value(common, &reference)? {
            // git made the ref and was killed before it could report success.
            Some(value) if value == commit => return Ok((reference, commit)),
            Some(_) => {}
            None => break,
        }
    }
    Err(last.unwrap_or(GitError::NotInstalled))
}

/// Prepares a change of our own data in a repository: no hook of the repository runs.
pub(super) fn bookkeeping<'a>(git: &'a Git, common: &Path) -> crate::git::GitCall<'a> {
    git.change(common).setting("core.hooksPath=/dev/null")
}

fn commit_tree(
    git: &Git,
    common: &Path,
    tree: &str,
    parents: &[String],
    message: &str,
) -> Result<String, GitError> {
    let call = bookkeeping(git, common)
        .setting("user.name=agentctl")
        .setting("user.email=agentctl@localhost")
        .setting("commit.gpgSign=false");
    let mut call = call.args(["commit-tree", tree, "-m", message]);
    for parent in parents {
        call = call.args(["-p", parent]);
    }
    call.text()
}

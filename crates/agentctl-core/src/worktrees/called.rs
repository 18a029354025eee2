//! The worktree that a text names, and the group that a worktree belongs to. All commands judge both here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::facts::Reader;
use super::{ref_part, short_branch};
use crate::git::{Git, GitError, Repository, WorktreeEntry};
use crate::host::Host;
use crate::names::split_group;

/// A worktree with the names by which it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledWorktree {
    /// Its directory.
    pub path: PathBuf,
    /// The full name of its branch; `None` for a detached HEAD.
    pub branch: Option<String>,
    /// The branch without the prefix; `None` if it is not ours.
    pub name: Option<String>,
}

impl CalledWorktree {
    /// Says whether a text is its name or its branch.
    #[must_use]
    pub fn is_called(&self, text: &str) -> bool {
        is_called(self.name.as_deref(), self.branch.as_deref(), text)
    }

    /// Says whether its name is one of a group.
    #[must_use]
    pub fn is_of_group(&self, group: &str) -> bool {
        self.name.as_deref().is_some_and(|name| slot_in(name, group).is_some())
    }
}

/// Lists the worktrees of the repository of the current directory, without the main one.
pub fn worktrees_here(
    host: &Host,
    git: &Git,
    prefix: &str,
) -> Result<Vec<CalledWorktree>, GitError> {
    let repository = git.repository(&host.cwd)?;
    let reader = Reader::new(host, git, &repository, prefix)?;
    let called = |entry: &WorktreeEntry| CalledWorktree {
        path: entry.path.clone(),
        branch: entry.branch().map(str::to_owned),
        name: reader.name(entry).map(str::to_owned),
    };
    Ok(reader.entries.iter().skip(1).map(called).collect())
}

/// Returns the name of the worktree with this top; `None` if it has none, or is the main working tree.
pub fn name_at(
    host: &Host,
    git: &Git,
    top: &Path,
    prefix: &str,
) -> Result<Option<String>, GitError> {
    let repository = git.repository(top)?;
    if repository.git_dir == repository.common {
        return Ok(None);
    }
    let reader = Reader::new(host, git, &repository, prefix)?;
    let entry = reader.entries.iter().find(|entry| entry.path == top);
    Ok(entry.and_then(|entry| reader.name(entry)).map(str::to_owned))
}

/// Says whether a text is the name of a worktree, or its branch with or without `refs/heads/`.
pub(super) fn is_called(name: Option<&str>, branch: Option<&str>, text: &str) -> bool {
    name == Some(text) || branch == Some(text) || branch.map(short_branch) == Some(text)
}

/// Returns the part of a worktree's name after its group; `None` if it is not of this group. The name of a branch has
/// `-` where the name of the group has a space or another character that git does not accept.
#[must_use]
pub fn slot_in<'a>(name: &'a str, group: &str) -> Option<&'a str> {
    let (own, slot) = split_group(name)?;
    (own == group || own == ref_part(group)).then_some(slot)
}

/// Returns the folders that hold worktrees of a repository: those of its worktrees now, and the one beside it.
pub(crate) fn worktree_folders(
    git: &Git,
    repository: &Repository,
) -> Result<BTreeSet<PathBuf>, GitError> {
    let linked = git.worktrees(&repository.common)?.into_iter().skip(1);
    let mut folders: BTreeSet<PathBuf> =
        linked.filter_map(|entry| Some(entry.path.parent()?.to_owned())).collect();
    let mut own = repository.main.clone().into_os_string();
    own.push(".worktrees");
    folders.insert(own.into());
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_group() {
        assert_eq!(slot_in("release-1/codex", "release 1"), Some("codex"));
        assert_eq!(slot_in("release-1/codex", "release-1"), Some("codex"));
        assert_eq!(slot_in("a/b/codex", "a/b"), Some("codex"));
        for other in ["a", "b", "a/b/codex", ""] {
            assert_eq!(slot_in("a/b/codex", other), None, "{other}");
        }
        assert_eq!(slot_in("release-1", "release 1"), None);
    }

    #[test]
    fn a_worktree_is_called_by_its_name_and_its_branch() {
        let names = (Some("fix"), Some("refs/heads/agentctl/fix"));
        for text in ["fix", "agentctl/fix", "refs/heads/agentctl/fix"] {
            assert!(is_called(names.0, names.1, text), "{text}");
        }
        assert!(!is_called(names.0, names.1, "heads/agentctl/fix"));
        assert!(!is_called(None, None, ""));
    }
}

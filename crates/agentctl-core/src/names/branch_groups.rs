//! The group of a session as the branch of its worktree tells it: `PREFIX/GROUP/AGENT`.
//!
//! It counts only where neither the person nor a run says anything, so that a wiped state folder loses no group. Only
//! directories that can be worktrees of ours are looked at: other ones may be on a disk that does not answer.

use std::collections::HashMap;
use std::path::Path;

use crate::host::Host;
use crate::native::git_head;

/// The name of our settings among those of the adapters.
pub const SETTINGS: &str = "worktree";
/// The prefix of our branches, unless the configuration has another.
pub const DEFAULT_BRANCH_PREFIX: &str = "agentctl/";
/// The end of the name of a folder of worktrees.
const FOLDER_END: &str = ".worktrees";

/// The groups of directories. Each directory is looked at once.
#[derive(Clone, Debug, Default)]
pub struct BranchGroups {
    prefix: String,
    /// The configured folder of worktrees.
    folder: Option<String>,
    uid: u32,
    known: HashMap<String, Option<String>>,
}

impl BranchGroups {
    /// Knows no directory yet.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let setting = |key| host.setting(SETTINGS, key).map(str::to_owned);
        Self {
            prefix: setting("prefix").unwrap_or_else(|| DEFAULT_BRANCH_PREFIX.to_owned()),
            folder: setting("dir"),
            uid: host.kernel.uid(),
            known: HashMap::new(),
        }
    }

    /// Returns the group of a directory, if the branch of its worktree tells one.
    pub fn group_of(&mut self, cwd: &str) -> Option<String> {
        if !self.may_be_worktree(cwd) {
            return None;
        }
        if let Some(known) = self.known.get(cwd) {
            return known.clone();
        }
        let group = git_head::branch(Path::new(cwd), self.uid);
        let group = group.and_then(|branch| group_in(&branch, &self.prefix).map(str::to_owned));
        self.known.insert(cwd.to_owned(), group.clone());
        group
    }

    fn may_be_worktree(&self, cwd: &str) -> bool {
        let folder = self.folder.as_deref().map(Path::new);
        let path = Path::new(cwd);
        let configured = folder.is_some_and(|folder| {
            path.starts_with(folder)
                || (folder.is_relative() && path.ancestors().any(|above| above.ends_with(folder)))
        });
        configured || cwd.split('/').any(|part| part.ends_with(FOLDER_END))
    }
}

/// Returns the group in the name of a branch of ours.
fn group_in<'a>(branch: &'a str, prefix: &str) -> Option<&'a str> {
    let name =
        branch.strip_prefix(prefix).or_else(|| branch.strip_prefix(DEFAULT_BRANCH_PREFIX))?;
    split_group(name).map(|(group, _)| group)
}

/// Splits the name of a worktree, its branch without the prefix, into its group and the slot in the group.
#[must_use]
pub fn split_group(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('/').filter(|(group, slot)| !group.is_empty() && !slot.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_of_a_worktree_tells_the_group() {
        assert_eq!(group_in("agentctl/g-4f1a2c/codex", "agentctl/"), Some("g-4f1a2c"));
        assert_eq!(group_in("agentctl/a/b/codex", "agentctl/"), Some("a/b"));
        assert_eq!(group_in("try/g/codex", "try/"), Some("g"));
        assert_eq!(
            group_in("agentctl/g/codex", "try/"),
            Some("g"),
            "made before the prefix changed"
        );
        for other in ["main", "agentctl/lone", "agentctl//x", "feature/g/codex"] {
            assert_eq!(group_in(other, "agentctl/"), None, "{other}");
        }
    }

    #[test]
    fn other_directories_are_not_looked_at() {
        let groups = |folder: Option<&str>| BranchGroups {
            folder: folder.map(str::to_owned),
            ..BranchGroups::default()
        };
        assert!(groups(None).may_be_worktree("/home/u/shop.worktrees/g-codex/src"));
        assert!(!groups(None).may_be_worktree("/home/u/shop"));
        assert!(groups(Some("/trees")).may_be_worktree("/trees/g-codex"));
        assert!(!groups(Some("/trees")).may_be_worktree("/treeses/g-codex"));
        assert!(groups(Some("../trees")).may_be_worktree("/x/../trees/g"));
    }
}

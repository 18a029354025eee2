//! The groups that are known, for a hint about one that is not.

use std::collections::BTreeSet;

use super::Fleet;
use crate::git::Git;
use crate::names::{DEFAULT_BRANCH_PREFIX, Names, SETTINGS, split_group};
use crate::worktrees::BRANCH_REFS;

impl Fleet {
    /// Returns these groups of sessions, which a list has shown, and those of a person and of the branches of the
    /// repository of the current directory. A source that does not answer adds none.
    #[must_use]
    pub fn known_groups(&self, of_sessions: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        let mut groups: BTreeSet<String> = of_sessions.into_iter().collect();
        groups.extend(Names::of(&self.host).groups().map(str::to_owned));
        groups.extend(self.groups_of_branches().unwrap_or_default());
        groups
    }

    fn groups_of_branches(&self) -> Option<Vec<String>> {
        let git = Git::find(&self.host).ok()?;
        let prefix = self.host.setting(SETTINGS, "prefix").unwrap_or(DEFAULT_BRANCH_PREFIX);
        let prefix = format!("{BRANCH_REFS}{prefix}");
        let args = ["for-each-ref", "--format=%(refname)", BRANCH_REFS];
        let listed = git.read(&self.host.cwd).args(args).text().ok()?;
        let names = listed.lines().filter_map(|name| name.strip_prefix(&prefix));
        Some(names.filter_map(|name| Some(split_group(name)?.0.to_owned())).collect())
    }
}

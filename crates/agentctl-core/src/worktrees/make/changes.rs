//! The uncommitted changes of the present working tree: counted, or taken along as the first commit of each branch.
//!
//! git would record a repository inside by the name of its commit, which nobody else has. Such an entry is left out.

use std::path::Path;

use super::super::MakeOrder;
use super::MakeError;
use super::plan::Plan;
use crate::git::{GitError, TreeSnapshot};

/// The changes that are taken along.
pub(super) struct Changes {
    /// The commit that they belong to.
    base: String,
    /// Everything that git would commit.
    snapshot: TreeSnapshot,
}

impl Plan<'_> {
    /// Counts the uncommitted changes of the present working tree that are left behind.
    pub(super) fn count_changes(&mut self, order: &MakeOrder) -> Result<(), MakeError> {
        let Some(top) = self.repository.top.clone().filter(|_| !order.options.with_changes) else {
            return Ok(());
        };
        let head = self.git.commit(&top, "HEAD")?;
        if !self.places.iter().any(|place| head.as_ref() == Some(&place.base)) {
            return Ok(());
        }
        let args = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"];
        let status = self.git.read(&top).args(args).ok()?.stdout;
        let lines = || status.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        self.left_behind = lines().count();
        self.unchanged_head = head.filter(|_| lines().all(|line| line.starts_with(b"??")));
        Ok(())
    }

    /// Reads the uncommitted changes, if the order takes them along. `snapshot` decides where their objects go.
    pub(super) fn changes(
        &self,
        order: &MakeOrder,
        snapshot: impl FnOnce(&Path) -> Result<TreeSnapshot, GitError>,
    ) -> Result<Option<Changes>, MakeError> {
        if !order.options.with_changes {
            return Ok(None);
        }
        let Some(top) = &self.repository.top else {
            return Err(MakeError::NoChanges { repository: self.repository.main.clone() });
        };
        let head = self.git.commit(top, "HEAD")?;
        if let Some(elsewhere) = self.places.iter().find(|place| head.as_ref() != Some(&place.base))
        {
            return Err(MakeError::ChangesOfOtherBase { revision: elsewhere.from.clone() });
        }
        let Some(base) = head else { return Ok(None) };
        let snapshot = snapshot(top)?;
        if let Some(why) = snapshot.gaps.first() {
            return Err(MakeError::UnreadableChanges { why: why.clone() });
        }
        Ok(Some(Changes { base, snapshot }))
    }

    /// Makes a commit of the uncommitted changes, if the order says so, without the repositories inside.
    pub(super) fn take_changes(&mut self, order: &MakeOrder) -> Result<(), MakeError> {
        let git = self.git;
        let Some(changes) = self.changes(order, |top| git.snapshot_into_repository(top))? else {
            return Ok(());
        };
        let Some(top) = self.repository.top.clone() else { return Ok(()) };
        let Changes { base, snapshot } = changes;
        let trees = (base.as_str(), snapshot.tree.as_str());
        let inside = git.embedded_repositories(snapshot.see(git.read(&top)), &top, trees)?;
        let tree = git.without_repositories(&top, trees, &inside)?;
        for path in inside {
            let path = path.display();
            self.warnings.push(format!(
                "{path} is a repository of its own: the files in it are not taken along"
            ));
        }
        for path in git.dirty_submodules(&top)? {
            self.warnings.push(format!(
                "the submodule {path} has changes that are not committed in it: they are not taken along"
            ));
        }
        if git.tree(&top, &base)?.as_ref() != Some(&tree) {
            let words = "Uncommitted changes at the start of this worktree";
            let start = git.commit_with_parents(&top, &tree, &[&base], words)?;
            for place in &mut self.places {
                place.start.clone_from(&start);
            }
        }
        Ok(())
    }
}

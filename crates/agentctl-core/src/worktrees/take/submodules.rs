//! Submodules whose commit a merge would change: git takes the name of the commit and none of its files, so somebody
//! else must have that commit. The same holds for the submodules in them.

use std::path::{Path, PathBuf};

use super::{Preview, TakeError, Taking};
use crate::git::{TreeChange, check_all_below};
use crate::text::shell_word;

/// How deep submodules in submodules are followed.
const MAX_DEPTH: usize = 16;

/// A submodule at one place in several working trees.
struct Place {
    /// Below the top of each working tree.
    below: PathBuf,
    /// In the worktree.
    own: PathBuf,
    /// In the working trees of the branch and of the main one.
    others: Vec<PathBuf>,
}

impl Place {
    /// Returns the place of what is at this path below it.
    fn at(&self, path: &Path) -> Self {
        Self {
            below: self.below.join(path),
            own: self.own.join(path),
            others: self.others.iter().map(|other| other.join(path)).collect(),
        }
    }

    /// Returns the other working trees that have the submodule checked out.
    fn checked_out(&self) -> impl Iterator<Item = &PathBuf> {
        self.others.iter().filter(|path| is_repository(path))
    }
}

impl Taking<'_> {
    /// Returns the submodules whose commit the merge changes. Refuses a commit that only the worktree has: neither the
    /// same submodule of the branch's working tree or of the main one, nor its remote as far as was fetched.
    pub(super) fn check_submodules(&self, preview: &Preview) -> Result<Vec<String>, TakeError> {
        let target = self.entry.as_ref().map(|entry| entry.path.clone());
        let others = target.into_iter().chain([self.main.to_owned()]).collect();
        let top = Place { below: PathBuf::new(), own: self.top.clone(), others };
        let mut moved = Vec::new();
        for change in preview.changes.iter().filter(|change| change.is_repository()) {
            self.check_submodule(&top.at(&change.path), change, MAX_DEPTH)?;
            moved.push(change.path.to_string_lossy().into_owned());
        }
        Ok(moved)
    }

    /// Checks a submodule and the ones in it whose commit changes with its own.
    fn check_submodule(
        &self,
        place: &Place,
        change: &TreeChange,
        depth: usize,
    ) -> Result<(), TakeError> {
        if !is_repository(&place.own) {
            // The worktree does not have it either: its commit came from elsewhere.
            return Ok(());
        }
        if !self.is_known_elsewhere(place, change)? {
            return Err(self.unknown_commit(place, change));
        }
        let git = self.git;
        let Some(after) = git.commit(&place.own, &change.object_after)? else { return Ok(()) };
        let before = if change.was_repository() {
            git.commit(&place.own, &change.object_before)?
        } else {
            None
        };
        let before = before.map_or_else(|| git.empty_tree(&place.own), Ok)?;
        let inside = git.tree_changes(git.read(&place.own), &before, &after)?;
        check_all_below(&inside)?;
        for change in inside.iter().filter(|change| change.is_repository()) {
            let below = place.at(&change.path);
            let depth = depth.checked_sub(1);
            let depth = depth.ok_or_else(|| self.unknown_commit(&below, change))?;
            self.check_submodule(&below, change, depth)?;
        }
        Ok(())
    }

    fn is_known_elsewhere(&self, place: &Place, change: &TreeChange) -> Result<bool, TakeError> {
        let commit = format!("{}^{{commit}}", change.object_after);
        for other in place.checked_out() {
            if self.git.read(other).args(["cat-file", "-e", &commit]).run()?.code == 0 {
                return Ok(true);
            }
        }
        let contains = ["for-each-ref", "--count=1", "--format=x", "--contains"];
        let call = self.git.read(&place.own).args(contains);
        let output = call.args([&change.object_after, "refs/remotes"]).run()?;
        Ok(output.code == 0 && !output.text().is_empty())
    }

    fn unknown_commit(&self, place: &Place, change: &TreeChange) -> TakeError {
        let word = |path: &Path| shell_word(&path.to_string_lossy());
        let own = word(&place.own);
        let command = match place.checked_out().next() {
            // Without the option git also fetches what is inside, from a remote that does not have it, and fails.
            Some(other) => format!(
                "git -C {} fetch --no-recurse-submodules {own} {}",
                word(other),
                change.object_after
            ),
            None => format!("git -C {own} push"),
        };
        TakeError::SubmoduleCommit {
            branch: self.branch.clone(),
            submodule: place.below.to_string_lossy().into_owned(),
            commit: change.object_after.chars().take(7).collect(),
            command,
        }
    }
}

/// Says whether a directory is a repository of its own. Otherwise git would answer for the one around it.
fn is_repository(path: &Path) -> bool {
    path.join(".git").symlink_metadata().is_ok()
}

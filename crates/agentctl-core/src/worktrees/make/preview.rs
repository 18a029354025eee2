//! The branches and directories of worktrees, before anything is made.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::super::{BRANCH_REFS, WorktreeOptions, WorktreeSettings};
use super::plan::{Plan, clean, worktrees_directory};
use super::{MakeError, MakeOrder, Wanted};
use crate::git::Git;
use crate::host::Host;
use crate::kernel::Cancellation;

/// Returns the branch and the directory of each worktree that [`super::all`] would make, in their order, and refuses
/// what that would refuse. Nothing is written into the repository, and the remotes are not asked.
pub fn preview(
    host: &Host,
    order: &MakeOrder,
    wanted: &[Wanted],
) -> Result<Vec<(String, PathBuf)>, MakeError> {
    let git = Git::find(host)?;
    let plan = Plan::checked(host, &git, order, wanted)?;
    let _readable = plan.changes(order, |top| git.snapshot(top))?;
    plan.check_parent()?;
    plan.check_refs()?;
    Ok(plan.places.into_iter().map(|place| (place.branch, place.path)).collect())
}

impl Plan<'_> {
    /// Refuses a directory that could not be created.
    fn check_parent(&self) -> Result<(), MakeError> {
        let above = self.parent.ancestors().find(|path| path.symlink_metadata().is_ok());
        let allowed = access(above.unwrap_or(Path::new("/")), Access::WRITE_OK | Access::EXEC_OK);
        allowed.map_err(|error| self.no_parent(&error.into()))
    }

    /// Refuses names that the transaction of refs would refuse.
    fn check_refs(&self) -> Result<(), MakeError> {
        let common = &self.repository.common;
        for place in &self.places {
            let name = format!("{BRANCH_REFS}{}", place.branch);
            if !self.git.read(common).args(["check-ref-format", &name]).says_yes()? {
                return Err(MakeError::bad_branch(&place.branch));
            }
        }
        for place in &self.places {
            if let Some(holder) = self.holder(place)? {
                return Err(MakeError::Taken { name: place.name.clone(), holder });
            }
        }
        match access(common.join("refs/heads"), Access::WRITE_OK) {
            Err(error @ (Errno::ROFS | Errno::ACCESS)) => {
                let (repository, words) = (self.repository.main.clone(), error.to_string());
                Err(MakeError::ReadOnly { repository, words })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the directory that would hold the worktrees of a launch from `from` without options, with the links of
/// its existing part resolved.
pub fn directory(
    host: &Host,
    from: &Path,
    settings: &WorktreeSettings,
) -> Result<PathBuf, MakeError> {
    let git = Git::find(host)?;
    let order = MakeOrder {
        from: from.to_owned(),
        options: WorktreeOptions::default(),
        settings: settings.clone(),
        group: None,
        cancellation: Cancellation::default(),
    };
    let repository = git.repository(&order.from)?;
    worktrees_directory(&git, &repository, &order).map(|directory| clean(&directory))
}

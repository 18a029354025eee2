//! The branches and directories of worktrees, before anything is made.

use std::path::{Path, PathBuf};

use super::super::{WorktreeOptions, WorktreeSettings};
use super::plan::{base, check_names, clean, folder_name, worktrees_directory};
use super::{MakeError, MakeOrder, Wanted};
use crate::git::Git;
use crate::host::Host;
use crate::kernel::Cancellation;

/// Returns the branch and the directory of each worktree that [`super::all`] would make, in their order. Nothing is
/// written, and the remotes are not asked.
pub fn preview(
    host: &Host,
    order: &MakeOrder,
    wanted: &[Wanted],
) -> Result<Vec<(String, PathBuf)>, MakeError> {
    let names: Vec<&str> = wanted.iter().map(|wanted| wanted.name.as_str()).collect();
    check_names(&names)?;
    let git = Git::find(host)?;
    let repository = git.repository(&order.from)?;
    for wanted in wanted {
        base(&git, &repository, order, wanted.base.as_deref())?;
    }
    let parent = worktrees_directory(&git, &repository, order)?;
    let place =
        |name: &&str| (format!("{}{name}", order.settings.prefix), parent.join(folder_name(name)));
    Ok(names.iter().map(place).collect())
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

//! `agentctl worktree`: the git worktrees in which agents work.

mod clean;
mod take;

use std::path::PathBuf;

use agentctl_core::ask::{Fleet, WorktreesDocument, WorktreesRequest};
use clap::{Args, Subcommand};

use super::listed::Listed;
use super::shape::{Shape, ShapeArgs};
use super::watch::watch;
use crate::config::Loaded;
use crate::face::{WorktreeListRow, git_failure};
use crate::failure::{Failure, Outcome};
use crate::ui::Ui;

/// The fields for which every file of a worktree is looked at.
const SIZES: [&str; 2] = ["size", "ignored"];

/// The git worktrees in which agents work
#[derive(Subcommand)]
pub(super) enum WorktreeCommand {
    #[command(visible_alias = "ls")]
    List(WorktreeListArgs),
    Take(take::WorktreeTakeArgs),
    #[command(visible_alias = "rm")]
    Clean(clean::WorktreeCleanArgs),
}

impl WorktreeCommand {
    /// Says whether it changes something.
    pub(super) fn is_order(&self) -> bool {
        !matches!(self, Self::List(_))
    }
}

/// List the worktrees of a repository, with the sessions in them
///
/// git itself is asked. `half-made` is what a killed launch left behind, `missing` has no directory any more, and
/// `foreign` is not below the prefix of agentctl's branches.
#[derive(Args)]
pub(super) struct WorktreeListArgs {
    /// A directory of the repository [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The worktrees of all repositories in which sessions worked
    #[arg(long, conflicts_with = "cwd")]
    all_repos_of_sessions: bool,
    #[command(flatten)]
    shape: ShapeArgs,
}

pub(super) fn cmd_worktree(ui: &mut Ui, loaded: &Loaded, command: &WorktreeCommand) -> Outcome {
    match command {
        WorktreeCommand::List(args) => cmd_list(ui, loaded, args),
        WorktreeCommand::Take(args) => take::cmd_take(ui, loaded, args),
        WorktreeCommand::Clean(args) => clean::cmd_clean(ui, loaded, args),
    }
}

fn cmd_list(ui: &mut Ui, loaded: &Loaded, args: &WorktreeListArgs) -> Outcome {
    let fleet = &loaded.fleet();
    let shape = args.shape.shape::<WorktreeListRow>()?;
    let request = WorktreesRequest {
        directory: args.cwd.clone(),
        repositories_of_sessions: args.all_repos_of_sessions,
        prefix: loaded.defaults.worktree.prefix.clone(),
        omits_sizes: !SIZES.iter().any(|field| shape.needs(field)),
    };
    if shape.is_watched {
        return watch(ui, fleet, &shape, || listed(fleet, &shape, &request));
    }
    let listed = listed(fleet, &shape, &request)?;
    listed.print(ui, &fleet.host, &shape)?;
    Ok(super::answered(ui, &listed.faults))
}

fn listed(
    fleet: &Fleet,
    shape: &Shape<WorktreeListRow>,
    request: &WorktreesRequest,
) -> Result<Listed<WorktreeListRow, WorktreesDocument>, Failure> {
    let mut document =
        fleet.worktrees(request).map_err(|error| git_failure(&fleet.host, &error))?;
    let (worktrees, faults) = (std::mem::take(&mut document.worktrees), document.faults.clone());
    let mut rows = WorktreeListRow::all(fleet, worktrees, shape.shows_short_ids());
    shape.arrange(&fleet.host, &mut rows);
    document.worktrees = rows.iter().map(|row| row.worktree.clone()).collect();
    let empty = "there are no worktrees";
    Ok(Listed {
        title: "worktrees",
        rows,
        document,
        faults,
        remarks: Vec::new(),
        empty: empty.into(),
    })
}

//! `agentctl worktree take`: takes the work of a worktree into a branch.

use std::process::ExitCode;

use agentctl_core::ask::TakeRequest;
use agentctl_core::worktrees::take::TakeWay;
use clap::Args;

use super::super::interrupt::Interrupt;
use crate::config::Loaded;
use crate::face::{not_taken, take_lines};
use crate::failure::Outcome;
use crate::ui::Ui;

/// Take the work of a worktree into a branch
///
/// The merge is tried first without touching anything; conflicts are refused (exit code 5) with the commands to do it
/// by hand. A branch that is checked out in a working tree with changes, or in which a session works, is refused
/// too. The worktree stays: `agentctl worktree clean` removes it.
#[derive(Args)]
pub(in crate::cli) struct WorktreeTakeArgs {
    /// The name, branch or directory of a worktree, or a session that works in it
    #[arg(value_name = "ID|NAME")]
    of: String,
    /// The branch that gets the work [default: the branch that the worktree began from]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Make one commit of all changes
    #[arg(long, conflicts_with = "ff")]
    squash: bool,
    /// Only move the branch forward; refused if it has other commits
    #[arg(long)]
    ff: bool,
    /// Take files that are not committed as well
    #[arg(long)]
    with_uncommitted: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_take(ui: &mut Ui, loaded: &Loaded, args: &WorktreeTakeArgs) -> Outcome {
    let fleet = loaded.fleet();
    let way = match (args.squash, args.ff) {
        (true, _) => TakeWay::Squash,
        (_, true) => TakeWay::FastForward,
        _ => TakeWay::Merge,
    };
    let request = TakeRequest {
        of: args.of.clone(),
        into: args.into.clone(),
        way,
        with_uncommitted: args.with_uncommitted,
        settings: loaded.defaults.worktree.clone(),
    };
    let interrupt = Interrupt::listen(&fleet.cancellation)?;
    let taken = fleet.take_worktree(&request).map_err(|why| not_taken(&fleet, &args.of, why));
    let document = interrupt.end(ui, taken)?;
    let interrupted = "interrupted: the branch had moved, so the work is taken";
    if args.json {
        ui.json(&document)?;
        interrupt.end_called_off(ui, interrupted)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (line, remarks) = take_lines(&document.taken);
    ui.line(&line)?;
    ui.flush()?;
    for remark in remarks {
        ui.note(&remark);
    }
    interrupt.end_called_off(ui, interrupted)?;
    Ok(ExitCode::SUCCESS)
}

//! `agentctl runs` and `agentctl prune`: lists and removes the folders of earlier launches.

use std::io::IsTerminal;
use std::process::ExitCode;

use agentctl_core::ask::{Fleet, PruneDocument, PruneError, PruneOptions, RunRow};
use agentctl_core::host::Host;
use agentctl_core::runs::Runs;
use clap::Args;

use super::shape::ShapeArgs;
use crate::config::{Defaults, Span};
use crate::face::{ListRow, RowContext, columns_table, short_name};
use crate::failure::{Failure, Kind, Outcome};
use crate::text::{byte_size, one_line};
use crate::ui::Ui;

/// List what launches left behind: logs, exit codes, how big
///
/// A run is one launch. It says what was asked for and how that ended, never whether anything lives.
/// Runs are removed some days after their end (`keep` below [runs] in the configuration).
#[derive(Args)]
pub(super) struct RunsArgs {
    #[command(flatten)]
    shape: ShapeArgs,
}

/// Remove the runs that have ended
#[derive(Args)]
pub(super) struct PruneArgs {
    /// Remove them, also on a terminal, where they are only listed otherwise
    #[arg(short, long)]
    yes: bool,
    /// Only list them
    #[arg(short = 'n', long, conflicts_with = "yes")]
    dry_run: bool,
    /// Only those that ended longer ago than this
    #[arg(long, value_name = "SPAN")]
    older_than: Option<Span>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_runs(
    ui: &mut Ui,
    fleet: &Fleet,
    defaults: &Defaults,
    args: &RunsArgs,
) -> Outcome {
    let (host, shape) = (&fleet.host, args.shape.shape::<RunRow>()?);
    // A failed cleanup does not prevent the listing.
    let _untidied = Runs::of(host).evict(host, defaults.keep);
    let mut document = fleet.runs()?;
    let count = document.runs.len();
    shape.arrange(host, &mut document.runs);
    if document.runs.is_empty() && !shape.is_for_programs() {
        ui.note("no run is kept: nothing was launched with `agentctl launch` lately");
        return Ok(ExitCode::SUCCESS);
    }
    shape.print(ui, host, &document.runs, &document)?;
    if !shape.is_for_programs() {
        print_hook_failures(ui, &document.runs)?;
        let runs = if count == 1 { "run" } else { "runs" };
        ui.note(&format!("{count} {runs}, {}", byte_size(document.bytes)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the table of runs.
fn table(ui: &mut Ui, host: &Host, runs: &[RunRow]) -> std::io::Result<()> {
    let context = RowContext { host, now: host.now() };
    let table = columns_table(&context, RunRow::COLUMNS, runs.iter());
    ui.drawn(&table.draw(ui.canvas(), true))?;
    print_hook_failures(ui, runs)
}

/// Prints the failures of the hooks of these runs, below their table.
fn print_hook_failures(ui: &mut Ui, runs: &[RunRow]) -> std::io::Result<()> {
    for run in runs {
        let name = short_name(run.session.as_deref(), None);
        for failure in &run.hook_failures {
            ui.line(&format!("{name}: {}", one_line(failure)))?;
        }
    }
    ui.flush()
}

pub(super) fn cmd_prune(ui: &mut Ui, fleet: &Fleet, args: &PruneArgs) -> Outcome {
    let host = &fleet.host;
    let dry_run = args.dry_run || (!args.yes && std::io::stdout().is_terminal());
    let older_than_ms = args.older_than.map(Span::millis).unwrap_or_default();
    let document = fleet.prune(PruneOptions { dry_run, older_than_ms }).map_err(unpruned)?;
    if args.json {
        ui.json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    let PruneDocument { pruned, bytes, .. } = document;
    match (pruned.len(), dry_run) {
        (0, _) => ui.note("no run has ended: there is nothing to remove"),
        (count, true) => {
            table(ui, host, &pruned)?;
            ui.note(&format!("{count} ended runs, {}, would be removed", byte_size(bytes)));
            ui.hint(
                "`agentctl prune --yes` removes them; sessions themselves stay with their agents",
            );
        }
        (count, false) => ui.note(&format!("removed {count} ended runs, {}", byte_size(bytes))),
    }
    Ok(ExitCode::SUCCESS)
}

fn unpruned(error: PruneError) -> Failure {
    match error {
        PruneError::Unlisted(source) => source.into(),
        PruneError::Unremoved { directory, source } => {
            let message = format!("{} cannot be removed: {source}", directory.display());
            Failure::new(Kind::Failed, message).hint("make its folder writable")
        }
    }
}

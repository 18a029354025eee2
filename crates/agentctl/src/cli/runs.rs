//! `agentctl runs` and `agentctl prune`: lists and removes the folders of earlier launches.

use std::io::IsTerminal;
use std::process::ExitCode;

use agentctl_core::ask::{Fleet, PruneDocument, PruneOptions, RunRow, RunsDocument};
use agentctl_core::host::Host;
use agentctl_core::model::Time;
use clap::Args;

use crate::config::{Defaults, Span};
use crate::face::{age, exit_text, not_pruned, short_id};
use crate::failure::Outcome;
use crate::session_table;
use crate::text::{byte_size, fit, one_line};
use crate::ui::Ui;

/// List what launches left behind: logs, exit codes, how big
///
/// A run is one launch. It says what was asked for and how that ended, never whether anything lives.
/// Runs are removed some days after their end (`keep` below [runs] in the configuration).
#[derive(Args)]
pub(super) struct RunsArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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
    let host = &fleet.host;
    let document = fleet.runs(defaults.keep)?;
    if args.json {
        ui.json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    let RunsDocument { runs, bytes, .. } = document;
    if runs.is_empty() {
        ui.note("no run is kept: nothing was launched with `agentctl launch` lately");
        return Ok(ExitCode::SUCCESS);
    }
    table(ui, host, &runs)?;
    ui.note(&format!("{} runs, {}", runs.len(), byte_size(bytes)));
    Ok(ExitCode::SUCCESS)
}

fn table(ui: &mut Ui, host: &Host, runs: &[RunRow]) -> std::io::Result<()> {
    let now = host.now();
    ui.line("SESSION   AGENT        STARTED  ENDED  EXIT        SIZE      FOLDER")?;
    for run in runs {
        let id = run.session.as_deref().unwrap_or("-");
        let ago = |t: Option<Time>| t.map_or_else(|| "-".into(), |t| age(now, t));
        let exit = run.exit.and_then(exit_text).unwrap_or_else(|| "-".into());
        ui.line(&format!(
            "{:<8}  {:<11}  {:<7}  {:<5}  {:<10}  {:<8}  {}",
            short_id(id),
            fit(&one_line(run.adapter.as_deref().unwrap_or("-")), 11),
            ago(run.started_at),
            ago(run.ended_at),
            exit,
            byte_size(run.bytes),
            session_table::directory(host, &run.directory),
        ))?;
        for failure in &run.hook_failures {
            ui.line(&format!("          {}", one_line(failure)))?;
        }
    }
    ui.flush()
}

pub(super) fn cmd_prune(ui: &mut Ui, fleet: &Fleet, args: &PruneArgs) -> Outcome {
    let host = &fleet.host;
    let dry_run = args.dry_run || (!args.yes && std::io::stdout().is_terminal());
    let older_than_ms = args.older_than.map(Span::millis).unwrap_or_default();
    let document = fleet.prune(PruneOptions { dry_run, older_than_ms }).map_err(not_pruned)?;
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

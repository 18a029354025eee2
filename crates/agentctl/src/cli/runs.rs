//! `agentctl runs` and `agentctl prune`: what launches left behind, and removing it.

use std::io::IsTerminal;
use std::process::ExitCode;

use agentctl_core::adapters::ALL;
use agentctl_core::ask::Fleet;
use agentctl_core::fleet::session_of;
use agentctl_core::host::Host;
use agentctl_core::model::{Exit, SCHEMA_VERSION, Time};
use agentctl_core::runs::{HookMoment, Run, Runs, Spec};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::{Defaults, Span};
use crate::failure::{Failure, Kind, Outcome};
use crate::rows;
use crate::shim;
use crate::text::{fit, one_line};
use crate::ui::{Ui, age};

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

/// What `runs` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct RunsReport {
    /// The version of this document.
    schema_version: u32,
    /// The runs that are kept, newest first.
    runs: Vec<Row>,
    /// How many bytes they take in all.
    bytes: u64,
}

/// What `prune` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct PruneReport {
    /// The version of this document.
    schema_version: u32,
    /// Nothing was removed: this is what would be.
    dry_run: bool,
    /// The runs.
    pruned: Vec<Row>,
    /// How many bytes they take, or took.
    bytes: u64,
}

/// One launch.
#[derive(Serialize, JsonSchema)]
struct Row {
    /// Its id.
    id: String,
    /// The adapter.
    adapter: Option<String>,
    /// The session it began or continued.
    session: Option<String>,
    /// Where the agent was started.
    cwd: Option<String>,
    /// The launch group.
    group: Option<String>,
    /// The name given.
    name: Option<String>,
    /// When it was launched.
    started_at: Option<Time>,
    /// When it was over; null while it may still be at work.
    ended_at: Option<Time>,
    /// How the agent ended, as its parent saw it.
    exit: Option<Exit>,
    /// What went wrong with its hooks.
    hook_failures: Vec<String>,
    /// How many bytes it takes.
    bytes: u64,
    /// Its folder: `stdout`, `stderr`, `prompt` and the rest.
    directory: String,
}

fn row(host: &Host, run: &Run) -> Row {
    let spec: Option<Spec> = run.spec();
    let failure = |moment: HookMoment| {
        let why = run.report(moment)?.failure()?;
        Some(format!("{}: {why}", moment.word()))
    };
    let moments = [HookMoment::Create, HookMoment::Complete];
    Row {
        id: run.id.clone(),
        session: spec.as_ref().and_then(|spec| session_of(host, ALL, run, spec)),
        started_at: spec.as_ref().map(|spec| spec.at),
        ended_at: run.over(host),
        exit: run.ended().map(|ended| ended.exit),
        hook_failures: moments.into_iter().filter_map(failure).collect(),
        bytes: run.bytes(),
        directory: run.directory.to_string_lossy().into_owned(),
        adapter: spec.as_ref().map(|s| s.adapter.clone()),
        cwd: spec.as_ref().map(|s| s.cwd.to_string_lossy().into_owned()),
        group: spec.as_ref().and_then(|s| s.group.clone()),
        name: spec.and_then(|s| s.name),
    }
}

pub(super) fn cmd_runs(
    ui: &mut Ui,
    fleet: &Fleet,
    defaults: &Defaults,
    args: &RunsArgs,
) -> Outcome {
    let host = &fleet.host;
    let kept = Runs::of(host);
    // What cannot be tidied can still be listed.
    let _untidied = kept.evict(host, defaults.keep);
    let runs: Vec<Row> = kept.all()?.iter().map(|run| row(host, run)).collect();
    let bytes = runs.iter().map(|r| r.bytes).sum();
    if args.json {
        ui.json(&RunsReport { schema_version: SCHEMA_VERSION, runs, bytes })?;
        return Ok(ExitCode::SUCCESS);
    }
    if runs.is_empty() {
        ui.note("no run is kept: nothing was launched with `agentctl launch` lately");
        return Ok(ExitCode::SUCCESS);
    }
    table(ui, host, &runs)?;
    ui.note(&format!("{} runs, {}", runs.len(), size(bytes)));
    Ok(ExitCode::SUCCESS)
}

fn table(ui: &mut Ui, host: &Host, runs: &[Row]) -> std::io::Result<()> {
    let now = host.now();
    ui.line("SESSION   AGENT        STARTED  ENDED  EXIT        SIZE      FOLDER")?;
    for run in runs {
        let id = run.session.as_deref().unwrap_or("-");
        let ago = |t: Option<Time>| t.map_or_else(|| "-".into(), |t| age(now, t));
        let exit = run.exit.map_or_else(|| "-".into(), shim::words);
        ui.line(&format!(
            "{:<8}  {:<11}  {:<7}  {:<5}  {:<10}  {:<8}  {}",
            id.get(..8).unwrap_or(id),
            fit(&one_line(run.adapter.as_deref().unwrap_or("-")), 11),
            ago(run.started_at),
            ago(run.ended_at),
            exit,
            size(run.bytes),
            rows::directory(host, &run.directory),
        ))?;
        for failure in &run.hook_failures {
            ui.line(&format!("          {}", one_line(failure)))?;
        }
    }
    ui.flush()
}

pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MB", bytes >> 20),
        _ => format!("{} GB", bytes >> 30),
    }
}

pub(super) fn cmd_prune(ui: &mut Ui, fleet: &Fleet, args: &PruneArgs) -> Outcome {
    let host = &fleet.host;
    let dry_run = args.dry_run || (!args.yes && std::io::stdout().is_terminal());
    let least =
        args.older_than.map_or(0, |Span(s)| i64::try_from(s.as_millis()).unwrap_or(i64::MAX));
    let before = host.now().millis().saturating_sub(least);
    let ended = |run: &Run| {
        run.over(host).is_some_and(|at| at.millis() <= before) && !run.is_attended(host)
    };
    let mut runs = Runs::of(host).all()?;
    runs.retain(ended);
    let pruned: Vec<Row> = runs.iter().map(|run| row(host, run)).collect();
    if !dry_run {
        for run in &runs {
            run.remove().map_err(|e| {
                let message = format!("{} cannot be removed: {e}", run.directory.display());
                Failure::new(Kind::Failed, message).hint("make its folder writable")
            })?;
        }
    }
    let bytes: u64 = pruned.iter().map(|r| r.bytes).sum();
    if args.json {
        ui.json(&PruneReport { schema_version: SCHEMA_VERSION, dry_run, pruned, bytes })?;
        return Ok(ExitCode::SUCCESS);
    }
    match (runs.len(), dry_run) {
        (0, _) => ui.note("no run has ended: there is nothing to remove"),
        (count, true) => {
            table(ui, host, &pruned)?;
            ui.note(&format!("{count} ended runs, {}, would be removed", size(bytes)));
            ui.hint(
                "`agentctl prune --yes` removes them; sessions themselves stay with their agents",
            );
        }
        (count, false) => ui.note(&format!("removed {count} ended runs, {}", size(bytes))),
    }
    Ok(ExitCode::SUCCESS)
}

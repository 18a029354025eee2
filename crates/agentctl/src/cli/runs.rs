//! `agentctl runs`, `agentctl prune` and `agentctl rm`: lists and removes the folders of earlier launches.

use std::io::{BufRead, BufReader, Read};
use std::process::ExitCode;

use agentctl_core::ask::{
    Fleet, OutputStream, PruneDocument, PruneOptions, RunRow, RunsDocument, RunsNotFound,
    RunsNotRemoved,
};
use agentctl_core::text::shell_word;
use clap::Args;

use super::ids;
use super::listed::Listed;
use super::shape::{Shape, ShapeArgs};
use super::watch::watch;
use crate::config::{Defaults, Span};
use crate::face::{ListRow, RowContext, RunListRow, columns_table, not_pruned, unresolved};
use crate::failure::{Failure, Kind, Outcome};
use crate::text::{byte_size, clean, one_line};
use crate::ui::Ui;

/// Longest part of a line that is printed at once.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// List earlier launches: exit code, directory, size on disk
///
/// A run is the record of one launch: its prompt, output and exit code. Runs are removed 7 days after their end
/// (`keep` in the table [runs] of the configuration). `agentctl list` shows whether a session is alive.
#[derive(Args)]
pub(super) struct RunsArgs {
    #[arg(value_name = "ID", help = ids::RUNS_OF_ONE)]
    id: Option<String>,
    /// Print what the agent of the newest of these runs wrote to stdout
    #[arg(long, requires = "id", conflicts_with_all = ["stderr", "watch", "json"])]
    stdout: bool,
    /// Print what the agent of the newest of these runs wrote to stderr
    #[arg(long, requires = "id", conflicts_with_all = ["watch", "json"])]
    stderr: bool,
    #[command(flatten)]
    shape: ShapeArgs,
}

impl RunsArgs {
    fn stream(&self) -> Option<OutputStream> {
        match (self.stdout, self.stderr) {
            (true, _) => Some(OutputStream::Stdout),
            (_, true) => Some(OutputStream::Stderr),
            _ => None,
        }
    }
}

/// Remove ended runs
///
/// A run is the record of one launch: its prompt, output and exit code. Sessions, their names and their groups are
/// not removed. On a terminal it asks; off a terminal it needs -y.
#[derive(Args)]
pub(super) struct PruneArgs {
    #[arg(value_name = "ID", help = ids::RUNS_OF, conflicts_with_all = ["dry_run", "older_than"])]
    ids: Vec<String>,
    /// Do not ask for confirmation; required off a terminal
    #[arg(short, long)]
    yes: bool,
    /// List what would be removed, and remove nothing
    #[arg(short = 'n', long, conflicts_with = "yes")]
    dry_run: bool,
    /// Only runs that ended longer ago than this: 1d, 12h
    #[arg(long, value_name = "SPAN")]
    older_than: Option<Span>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Remove the runs of a session
///
/// Same as `prune ID`. The session itself, its name and its group are not removed. A live session is refused
/// (exit code 5).
#[derive(Args)]
pub(super) struct RmArgs {
    #[arg(required = true, value_name = "ID", help = ids::SEVERAL)]
    ids: Vec<String>,
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
    let shape = args.shape.shape::<RunListRow>()?;
    if let (Some(id), Some(stream)) = (&args.id, args.stream()) {
        return print_output(ui, fleet, id, stream);
    }
    let document = document(fleet, defaults, args.id.as_deref())?;
    if shape.is_watched {
        return watch(ui, fleet, &shape, || {
            let now = match self::document(fleet, defaults, args.id.as_deref()) {
                // The session had runs at first; they were removed.
                Err(failure) if failure.is_not_found() => RunsDocument {
                    schema_version: document.schema_version,
                    runs: Vec::new(),
                    bytes: 0,
                },
                now => now?,
            };
            Ok(listed(fleet, &shape, now))
        });
    }
    let count = document.runs.len();
    let listed = listed(fleet, &shape, document);
    listed.print(ui, &fleet.host, &shape)?;
    if !listed.is_empty(&shape) && !shape.is_for_programs() {
        for remark in &listed.remarks {
            ui.line(remark)?;
        }
        ui.flush()?;
        let runs = if count == 1 { "run" } else { "runs" };
        ui.note(&format!("{count} {runs}, {}", byte_size(listed.document.bytes)));
    }
    Ok(ExitCode::SUCCESS)
}

fn document(fleet: &Fleet, defaults: &Defaults, id: Option<&str>) -> Result<RunsDocument, Failure> {
    match id {
        Some(id) => fleet.session_runs(id).map_err(|why| runs_not_found(fleet, id, why)),
        None => Ok(fleet.runs(defaults.keep)?),
    }
}

fn listed(
    fleet: &Fleet,
    shape: &Shape<RunListRow>,
    mut document: RunsDocument,
) -> Listed<RunListRow, RunsDocument> {
    let runs = std::mem::take(&mut document.runs);
    let mut rows = RunListRow::all(fleet, runs, shape.shows_short_ids());
    shape.arrange(&fleet.host, &mut rows);
    document.runs = rows.iter().map(|row| row.run.clone()).collect();
    let empty = "no runs: nothing was launched with `agentctl launch` recently";
    let (faults, remarks) = (Vec::new(), hook_failures(&rows));
    Listed { title: "runs", rows, document, faults, remarks, empty: empty.into() }
}

/// Prints the output of the newest run: unchanged if it is piped, with control characters neutralised on a terminal.
fn print_output(ui: &mut Ui, fleet: &Fleet, text: &str, stream: OutputStream) -> Outcome {
    let opened = fleet.run_output(text, stream);
    let mut file = BufReader::new(opened.map_err(|why| runs_not_found(fleet, text, why))?);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without an end is printed in parts.
        if file.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            ui.flush()?;
            return Ok(ExitCode::SUCCESS);
        }
        if ui.is_terminal() {
            ui.drawn(&clean(&String::from_utf8_lossy(&line)))?;
        } else {
            ui.raw(&line)?;
        }
    }
}

fn runs_not_found(fleet: &Fleet, text: &str, why: RunsNotFound) -> Failure {
    match why {
        RunsNotFound::NotOne(not_one) => unresolved(fleet, text, not_one),
        RunsNotFound::NoRun { session } => no_run(&session),
        RunsNotFound::Failed(error) => not_pruned(error),
        RunsNotFound::Unreadable { path, why } => {
            Failure::new(Kind::Failed, format!("{} cannot be read: {why}", path.display()))
        }
    }
}

fn no_run(session: &str) -> Failure {
    Failure::new(Kind::NotFound, format!("no run of session {session} is kept"))
        .hint("a run is one `agentctl launch` or `resume`; `agentctl runs` lists them")
}

/// Prints the table of runs.
fn table(ui: &mut Ui, fleet: &Fleet, runs: &[RunRow]) -> std::io::Result<()> {
    let context = RowContext { host: &fleet.host, now: fleet.host.now() };
    let rows = RunListRow::all(fleet, runs.to_vec(), true);
    let table = columns_table(&context, RunListRow::COLUMNS, rows.iter());
    ui.drawn(&table.draw(ui.canvas(), true))?;
    for failure in hook_failures(&rows) {
        ui.line(&failure)?;
    }
    ui.flush()
}

/// Returns the failures of the hooks of these runs, each behind its session.
fn hook_failures(rows: &[RunListRow]) -> Vec<String> {
    let failures = rows.iter().flat_map(|row| {
        let name = row.short_session().unwrap_or("-");
        row.run.hook_failures.iter().map(move |why| format!("{name}: {}", one_line(why)))
    });
    failures.collect()
}

pub(super) fn cmd_prune(ui: &mut Ui, fleet: &Fleet, args: &PruneArgs) -> Outcome {
    if !args.ids.is_empty() {
        return remove(ui, fleet, &args.ids, args.json);
    }
    let older_than_ms = args.older_than.map(Span::millis).unwrap_or_default();
    let preview = fleet.prune(PruneOptions { dry_run: true, older_than_ms }).map_err(not_pruned)?;
    let document = if args.dry_run || preview.pruned.is_empty() {
        PruneDocument { dry_run: args.dry_run, ..preview }
    } else {
        confirm(ui, fleet, args, &preview)?;
        fleet.prune(PruneOptions { dry_run: false, older_than_ms }).map_err(not_pruned)?
    };
    if args.json {
        ui.json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    let PruneDocument { pruned, bytes, dry_run, .. } = document;
    match (pruned.len(), dry_run) {
        (0, _) => ui.note("no run has ended: there is nothing to remove"),
        (_, true) => {
            table(ui, fleet, &pruned)?;
            ui.note(&format!("{}, {}, would be removed", ended(&pruned), byte_size(bytes)));
            ui.hint("`agentctl prune -y` removes them; sessions themselves stay with their agents");
        }
        (_, false) => ui.note(&format!("removed {}, {}", ended(&pruned), byte_size(bytes))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows which runs are to be removed. On a terminal the user must confirm; elsewhere `-y` is required.
fn confirm(
    ui: &mut Ui,
    fleet: &Fleet,
    args: &PruneArgs,
    preview: &PruneDocument,
) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    if !args.json {
        table(ui, fleet, &preview.pruned)?;
    }
    let what = ended(&preview.pruned);
    if args.json || !ui.converses() {
        let message = format!("nothing was removed: removing {what} needs a confirmation");
        let failure = Failure::new(Kind::Refused, message)
            .hint("add -y to confirm; without it this command asks, but only on a terminal");
        let listed = if args.json { preview.pruned.as_slice() } else { &[] };
        return Err(listed.iter().fold(failure, |f, run| f.candidate(run.directory.clone())));
    }
    if ui.confirm(&format!("remove {what}, {}?", byte_size(preview.bytes)))? {
        return Ok(());
    }
    Err(Failure::new(Kind::Refused, "nothing was removed"))
}

/// Returns `3 ended runs`.
fn ended(runs: &[RunRow]) -> String {
    match runs.len() {
        1 => "1 ended run".to_owned(),
        count => format!("{count} ended runs"),
    }
}

pub(super) fn cmd_rm(ui: &mut Ui, fleet: &Fleet, args: &RmArgs) -> Outcome {
    remove(ui, fleet, &args.ids, args.json)
}

/// Removes the runs of sessions that were named; of all or, if one is refused, of none.
fn remove(ui: &mut Ui, fleet: &Fleet, ids: &[String], json: bool) -> Outcome {
    let removed = fleet.remove_runs(ids).map_err(|why| not_removed(fleet, why))?;
    if json {
        ui.json(&removed)?;
        return Ok(ExitCode::SUCCESS);
    }
    for runs in removed.pruned.chunk_by(|a, b| a.session == b.session) {
        let [first, ..] = runs else { continue };
        let name = first.session.as_ref().unwrap_or(&first.id);
        let bytes = runs.iter().map(|run| run.bytes).sum();
        ui.line(&format!("removed {} of {name}, {}", ended(runs), byte_size(bytes)))?;
    }
    ui.flush()?;
    ui.note("the sessions' own records stay with their agents");
    Ok(ExitCode::SUCCESS)
}

fn not_removed(fleet: &Fleet, why: RunsNotRemoved) -> Failure {
    match why {
        RunsNotRemoved::NotOne { text, why } => unresolved(fleet, &text, why),
        RunsNotRemoved::Live { session } => Failure::new(
            Kind::Refused,
            format!("`{session}` is live, and nothing of a live session is removed"),
        )
        .hint(format!("`agentctl stop {}` ends it", shell_word(&session))),
        RunsNotRemoved::NoRun { session } => no_run(&session),
        RunsNotRemoved::Running { run } => {
            Failure::new(Kind::Refused, format!("run {run} has not ended"))
                .hint("its agent or a hook of it may be running")
        }
        RunsNotRemoved::Failed(error) => not_pruned(error),
    }
}

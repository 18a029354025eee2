//! `agentctl stop`: ends sessions and all processes that they have started.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{Fleet, StopDocument, StopNews, StopRequest, StopSelection, StopTargets};
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::model::Status;
use agentctl_core::stop::StopOptions;
use clap::Args;

use super::list::{StatusArg, adapter_name};
use crate::config::Span;
use crate::face::{stop_failure, stop_kind, stop_lines, survivor_lines, unresolved};
use crate::failure::{Failure, Kind, Outcome};
use crate::session_table;
use crate::ui::Ui;

/// Stop sessions: ask, wait, kill, and end everything they have started
///
/// Works for sessions that nobody launched through agentctl. A session in a shared server is ended by
/// asking that server. `stopped` is said only when the next look says so; what lives on is named.
#[derive(Args)]
pub(super) struct StopArgs {
    /// Session ids or prefixes, names, pids, directories, or adapter:id
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// Every live session that the filters admit
    #[arg(long)]
    all: bool,
    /// With --all: only this agent
    #[arg(long, value_name = "NAME", value_parser = adapter_name, requires = "all")]
    adapter: Option<String>,
    /// With --all: only these statuses (repeat or separate by commas)
    #[arg(long, value_name = "STATUS", value_enum, value_delimiter = ',', requires = "all")]
    status: Vec<StatusArg>,
    /// With --all: only this launch group
    #[arg(long, value_name = "GROUP", requires = "all")]
    group: Option<String>,
    /// With --all: only sessions of this directory
    #[arg(long, value_name = "DIR", requires = "all")]
    cwd: Option<PathBuf>,
    /// Kill at once, without asking first
    #[arg(long)]
    force: bool,
    /// How long each may take [default: 10s and the time its agent needs for an orderly end]
    #[arg(long, value_name = "SPAN")]
    timeout: Option<Span>,
    /// With --all: do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_stop(ui: &mut Ui, fleet: &Fleet, args: &StopArgs) -> Outcome {
    let targets = fleet.stop_targets(&request(args));
    let targets = targets.map_err(|found| unresolved(fleet, &found.text, found.why))?;
    if args.all {
        confirm(ui, fleet, args, &targets)?;
    }
    let mut written = Ok(());
    let document = fleet.stop(&targets, &mut |news| {
        // A run without a session is reported on stderr, also beside JSON.
        if args.json && !matches!(news, StopNews::Run(_)) {
            return;
        }
        for line in stop_lines(&targets, news) {
            if written.is_ok() {
                written = super::print(ui, &line);
            }
        }
    });
    written?;
    match stop_failure(&targets, &document) {
        Some(failure) => Err(failure),
        None => told(ui, args, &targets, &document),
    }
}

/// Reports surviving processes and sources that could not be asked.
fn told(ui: &mut Ui, args: &StopArgs, targets: &StopTargets, document: &StopDocument) -> Outcome {
    if args.json {
        ui.json(document)?;
    } else {
        for line in survivor_lines(document) {
            super::print(ui, &line)?;
        }
    }
    ui.flush()?;
    for fault in &document.faults {
        ui.warn_fault(fault);
    }
    Ok(ExitCode::from(stop_kind(targets, document).map_or(0, Kind::exit_code)))
}

fn request(args: &StopArgs) -> StopRequest {
    let timeout_ms = args.timeout.map(Span::millis);
    let options = StopOptions { force: args.force, timeout_ms };
    let select = if args.all {
        StopSelection::Matching(query(args))
    } else {
        StopSelection::Named(args.ids.clone())
    };
    StopRequest { select, options }
}

fn query(args: &StopArgs) -> Query {
    let cwd = args.cwd.as_ref().map(|dir| {
        let real = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
        real.to_string_lossy().into_owned()
    });
    Query {
        adapter: args.adapter.clone(),
        statuses: args.status.iter().map(|s| Status::from(*s)).collect(),
        group: args.group.clone(),
        cwd,
        ..Query::default()
    }
}

/// Shows on a terminal which sessions are to be stopped; the user must confirm.
fn confirm(
    ui: &mut Ui,
    fleet: &Fleet,
    args: &StopArgs,
    targets: &StopTargets,
) -> Result<(), Failure> {
    let sessions = &targets.sessions;
    if sessions.is_empty() {
        ui.note(if targets.faults.is_empty() {
            "there is nothing to stop"
        } else {
            "no session could be seen"
        });
    } else if !args.yes && !args.json && ui.converses() {
        ui.drawn(&session_table::drawn(ui.canvas(), &fleet.host, &Rows::of(sessions)))?;
        let what = match sessions.len() {
            1 => "this session".to_owned(),
            count => format!("these {count} sessions"),
        };
        if !ui.confirm(&format!("stop {what}?"))? {
            return Err(Failure::new(Kind::Refused, "nothing was stopped"));
        }
    }
    Ok(())
}

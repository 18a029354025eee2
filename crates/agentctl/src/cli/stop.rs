//! `agentctl stop`: ends sessions and all processes that they have started.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{Fleet, StopDocument, StopNews, StopRequest, StopSelection, StopTargets};
use agentctl_core::fleet::{Query, rows_of};
use agentctl_core::model::Status;
use agentctl_core::stop::StopOptions;
use clap::Args;

use super::ids;
use super::list::{StatusArg, adapter_name, resolved_directory};
use super::send::{Turns, end_turns};
use crate::config::Span;
use crate::face::{full_name, stop_failure, stop_kind, stop_lines, survivor_lines, unresolved};
use crate::failure::{Failure, Kind, Outcome};
use crate::session_table;
use crate::ui::Ui;

/// Stop sessions and all processes they have started
///
/// Ask the agent to exit, wait, then kill; at last verify that nothing is left. Works for sessions that were
/// not started by agentctl, too. A session of a shared server is stopped through that server. Surviving
/// processes are listed (exit code 1). With --turn only the turn is ended, and --json prints a document per session.
#[derive(Args)]
pub(super) struct StopArgs {
    #[arg(value_name = "ID", help = ids::SEVERAL_LIVE_OR_HERE, conflicts_with_all = ["all", "adapter", "status", "group", "cwd"])]
    ids: Vec<String>,
    /// Stop every live session that matches the filters; implied by a filter
    #[arg(long)]
    all: bool,
    /// Only sessions of this agent, by adapter name (`agentctl adapters`)
    #[arg(long, value_name = "NAME", value_parser = adapter_name)]
    adapter: Option<String>,
    /// Only sessions with this status (repeatable, or separated by commas)
    #[arg(long, value_name = "STATUS", value_enum, value_delimiter = ',')]
    status: Vec<StatusArg>,
    /// Only sessions of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only sessions in this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// End the turn only; the agent's process stays
    #[arg(long, conflicts_with_all = ["force", "timeout"])]
    turn: bool,
    /// Kill at once instead of asking the agent to exit
    #[arg(long)]
    force: bool,
    /// Time limit for each session [default: 10s plus the time its agent needs to exit]
    #[arg(long, value_name = "SPAN")]
    timeout: Option<Span>,
    /// Without an id: do not ask for confirmation; required off a terminal
    #[arg(short, long)]
    yes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl StopArgs {
    /// Says whether the sessions are chosen by filters and not by name.
    fn selects(&self) -> bool {
        let filters = self.adapter.is_some() || self.group.is_some() || self.cwd.is_some();
        self.all || filters || !self.status.is_empty()
    }
}

pub(super) fn cmd_stop(ui: &mut Ui, fleet: &Fleet, args: &StopArgs) -> Outcome {
    if args.turn && !args.ids.is_empty() {
        return end_turns(ui, fleet, &Turns::Named(&args.ids), args.json);
    }
    let targets = fleet.stop_targets(&request(args));
    let mut targets = targets.map_err(|found| unresolved(fleet, &found.text, found.why))?;
    if args.ids.is_empty() {
        if !args.selects() {
            only_here(&targets)?;
        }
        if let Some(group) = args.group.as_ref().filter(|_| targets.finds_nothing()) {
            super::group_members(fleet, group)?;
        }
        if args.turn {
            targets.sessions.retain(|s| matches!(s.status, Status::Running | Status::Waiting));
        }
        confirm(ui, fleet, args, &targets)?;
    }
    if args.turn {
        let ended = end_turns(ui, fleet, &Turns::Of(&targets.sessions), args.json)?;
        let seen = super::answered(ui, &targets.faults);
        return Ok(if ended == ExitCode::SUCCESS { seen } else { ended });
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
    let select = if args.ids.is_empty() {
        StopSelection::Matching(query(args))
    } else {
        StopSelection::Named(args.ids.clone())
    };
    StopRequest { select, options }
}

fn query(args: &StopArgs) -> Query {
    let here = (!args.selects()).then(|| PathBuf::from("."));
    let cwd = args.cwd.as_ref().or(here.as_ref()).map(|directory| resolved_directory(directory));
    Query {
        adapter: args.adapter.clone(),
        statuses: args.status.iter().map(|s| Status::from(*s)).collect(),
        group: args.group.clone(),
        cwd,
        ..Query::default()
    }
}

/// Checks that the current directory has exactly one live session, for an order that names none.
fn only_here(targets: &StopTargets) -> Result<(), Failure> {
    let sessions = &targets.sessions;
    if sessions.len() == 1 {
        return Ok(());
    }
    if sessions.is_empty() {
        let kind = if targets.faults.is_empty() { Kind::NotFound } else { Kind::Unanswered };
        return Err(Failure::new(kind, "no live session is in this directory")
            .hint("name a session: `agentctl list` shows what is alive")
            .beside(targets.faults.clone()));
    }
    let message = format!("there are {} live sessions in this directory", sessions.len());
    let failure = Failure::new(Kind::Ambiguous, message)
        .hint("name one of them, or stop them all: `agentctl stop --cwd .`");
    Err(sessions.iter().fold(failure, |failure, session| {
        failure.candidate(format!(
            "{}  {}",
            full_name(session.adapter, session.id.as_deref(), session.pid),
            session.status.word()
        ))
    }))
}

/// Shows which sessions are to be stopped. On a terminal the user must confirm; elsewhere `-y` is required.
fn confirm(
    ui: &mut Ui,
    fleet: &Fleet,
    args: &StopArgs,
    targets: &StopTargets,
) -> Result<(), Failure> {
    let sessions = &targets.sessions;
    if sessions.is_empty() {
        ui.note(match (targets.faults.is_empty(), args.turn) {
            (false, _) => "no session could be seen",
            (true, false) => "no session to stop",
            (true, true) => "no turn to end",
        });
        return Ok(());
    }
    if args.yes {
        return Ok(());
    }
    if !args.json {
        let rows = rows_of(fleet, sessions);
        ui.drawn(&session_table::drawn(ui.canvas(), &fleet.host, &rows))?;
    }
    let (what, would) = match sessions.len() {
        1 => ("this session".to_owned(), "1 session".to_owned()),
        count => (format!("these {count} sessions"), format!("{count} sessions")),
    };
    if args.json || !ui.converses() {
        ui.flush()?;
        let (message, hint) = if args.selects() {
            let stopping = if args.turn { "ending the turns of" } else { "stopping" };
            (
                format!("nothing was stopped: {stopping} {would} needs a confirmation"),
                "add -y to confirm; without it this command asks, but only on a terminal",
            )
        } else {
            (
                "nothing was stopped: no session was named".to_owned(),
                "name the session, or write `.` for this directory, or add -y",
            )
        };
        let failure = Failure::new(Kind::Refused, message).hint(hint);
        let listed = if args.json { sessions.as_slice() } else { &[] };
        return Err(listed.iter().fold(failure, |failure, session| {
            failure.candidate(full_name(session.adapter, session.id.as_deref(), session.pid))
        }));
    }
    let stop = if args.turn { "end the turn of" } else { "stop" };
    if ui.confirm(&format!("{stop} {what}?"))? {
        return Ok(());
    }
    Err(Failure::new(Kind::Refused, "nothing was stopped"))
}

//! `agentctl stop`: ends sessions and all processes that they have started.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{
    Fleet, RunWithoutSession, StopDocument, StopNews, StopRequest, StopSelection, StopTargets,
};
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::model::{Status, Target};
use agentctl_core::stop::{Report, StopFailureCode, StopOptions, StopVerdict};
use clap::Args;

use super::list::{StatusArg, adapter_name};
use crate::config::Span;
use crate::face::{target_name, unresolved};
use crate::failure::{Failure, Kind, Outcome};
use crate::session_table;
use crate::text::one_line;
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
    let mut worst = if targets.may_miss_sessions { Kind::Unanswered.exit_code() } else { 0 };
    let mut failed = None;
    let mut written = Ok(());
    let alone = targets.targets.len() == 1;
    let stopped = fleet.stop(&targets, &mut |news| match news {
        StopNews::Run { run: RunWithoutSession { run, pid }, lives_on } => {
            let words = if lives_on { "lives on" } else { "was ended" };
            ui.note(&format!("run {run} (pid {pid}), which served no session, {words}"));
            worst = worst.max(if lives_on { Kind::Failed.exit_code() } else { 0 });
        }
        StopNews::Session { target, report } => {
            let kind = report.failure_code().map(kind);
            worst = worst.max(kind.map_or(0, Kind::exit_code));
            if alone && kind.is_some_and(|kind| kind != Kind::Failed) {
                failed = Some(failure(target, report).beside(report.faults.clone()));
            } else if !args.json && written.is_ok() {
                written = say(ui, target, report);
            }
        }
    });
    written?;
    match failed {
        Some(failure) => Err(failure),
        None => told(ui, args, &stopped, worst),
    }
}

/// Reports surviving processes and sources that could not be asked.
fn told(ui: &mut Ui, args: &StopArgs, stopped: &StopDocument, worst: u8) -> Outcome {
    let survive = !stopped.survivors.is_empty();
    let worst = if survive { worst.max(Kind::Failed.exit_code()) } else { worst };
    if args.json {
        ui.json(stopped)?;
    } else {
        say_survivors(ui, stopped);
    }
    ui.flush()?;
    for fault in &stopped.faults {
        ui.warn_fault(fault);
    }
    Ok(ExitCode::from(worst))
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

fn kind(code: StopFailureCode) -> Kind {
    match code {
        StopFailureCode::Refused => Kind::Refused,
        StopFailureCode::Unknown => Kind::Unanswered,
        StopFailureCode::Failed => Kind::Failed,
    }
}

fn failure(target: &Target, report: &Report) -> Failure {
    let name = target_name(target);
    match &report.verdict {
        StopVerdict::Refused(why, hint) => {
            let failure = Failure::new(Kind::Refused, format!("{name} was not stopped: {why}"));
            hint.iter().fold(failure, Failure::hint)
        }
        StopVerdict::Unknown(why) => {
            let message = format!("whether {name} lives is unknown: {why}");
            let hint = "`agentctl why` shows what is known; a process can be stopped by its pid";
            Failure::new(Kind::Unanswered, message).hint(hint)
        }
        _ => Failure::new(Kind::Failed, format!("{name} was not stopped")),
    }
}

fn say(ui: &mut Ui, target: &Target, report: &Report) -> Result<(), Failure> {
    let name = target_name(target);
    match &report.verdict {
        StopVerdict::Stopped => ui.line(&format!("stopped {name}{}", about(report)))?,
        StopVerdict::Already => ui.line(&format!("{name} was stopped already{}", about(report)))?,
        StopVerdict::Rests(server) => {
            let turn = if report.was_idle() {
                format!("{name} was at rest already")
            } else {
                format!("stopped {name}: its turn was interrupted")
            };
            let text = format!(
                "{turn}; it rests in a shared server (pid {server}) that also serves others{}",
                about(report)
            );
            ui.line(&text)?;
        }
        StopVerdict::Refused(why, _) | StopVerdict::Failed(why) => {
            ui.error(&format!("{name} was not stopped: {why}"));
        }
        StopVerdict::Unknown(why) => ui.error(&format!("whether {name} lives is unknown: {why}")),
    }
    for left in &report.left {
        let who = left.session.as_deref().unwrap_or("no session yet");
        let text =
            format!("left alone: {} {who} (pid {}), a session of its own", left.adapter, left.pid);
        ui.note(&text);
    }
    match (&report.lost_shim, &report.verdict) {
        (Some(why), StopVerdict::Already) => ui.note(why),
        (Some(why), _) => ui.error(why),
        (None, _) => {}
    }
    for note in &report.notes {
        ui.note(note);
    }
    Ok(())
}

/// Reports surviving processes. A session that was left alone has been reported already.
fn say_survivors(ui: &mut Ui, document: &StopDocument) {
    let left = |pid: u32| document.stopped.iter().flat_map(|s| &s.left).any(|l| l.pid == pid);
    for survivor in document.survivors.iter().filter(|s| !left(s.pid)) {
        let text =
            format!("still alive: pid {} ({}): {}", survivor.pid, survivor.command, survivor.why);
        ui.error(&one_line(&text));
    }
}

/// Returns `(pid 6224 and 3 processes it had started)`.
fn about(report: &Report) -> String {
    let agents = report.before.as_ref().map(|s| s.processes.as_slice()).unwrap_or_default();
    let agents = agents.iter().filter(|p| report.ended.iter().any(|e| e.pid == p.id.pid));
    let pids: Vec<String> = agents.map(|p| p.id.pid.to_string()).collect();
    let started = report.ended.len().saturating_sub(pids.len());
    let started = match started {
        0 => None,
        1 => Some("1 process it had started".to_owned()),
        more => Some(format!("{more} processes it had started")),
    };
    let pids = (!pids.is_empty()).then(|| format!("pid {}", pids.join(", ")));
    match (pids, started) {
        (Some(pids), Some(started)) => format!(" ({pids} and {started})"),
        (Some(one), None) | (None, Some(one)) => format!(" ({one})"),
        (None, None) => String::new(),
    }
}

//! `agentctl stop`: ends sessions and all processes that they have started.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{Fleet, RunWithoutSession, StopDocument, StopNews, StopTargets, Stopped};
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::model::{Session, Status, Target};
use agentctl_core::stop::{Options, Report, StopVerdict};
use clap::Args;

use super::list::{StatusArg, adapter_name};
use crate::config::Span;
use crate::face::unresolved;
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
    let targets = if args.all { all(ui, fleet, args)? } else { named(fleet, &args.ids)? };
    let options = Options { force: args.force, timeout: args.timeout.map(|Span(time)| time) };
    // A source that could not be listed may hide sessions that should be stopped.
    let missing = args.all && !targets.faults.is_empty();
    let mut worst = if missing { Kind::Unanswered.exit_code() } else { 0 };
    let mut failed = None;
    let mut written = Ok(());
    let alone = targets.sessions.len() == 1;
    let stopped = fleet.stop(&targets, options, &mut |news| match news {
        StopNews::Run { run: RunWithoutSession { run, pid }, lives_on } => {
            let words = if lives_on { "lives on" } else { "was ended" };
            ui.note(&format!("run {run} (pid {pid}), which served no session, {words}"));
            worst = worst.max(if lives_on { Kind::Failed.exit_code() } else { 0 });
        }
        StopNews::Session { target, report } => {
            let code = exit_code(report);
            worst = worst.max(code);
            if alone && code > 1 {
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
fn told(ui: &mut Ui, args: &StopArgs, stopped: &Stopped, worst: u8) -> Outcome {
    let survive = !stopped.document.survivors.is_empty();
    let worst = if survive { worst.max(Kind::Failed.exit_code()) } else { worst };
    if args.json {
        ui.json(&stopped.document)?;
    } else {
        say_survivors(ui, &stopped.document);
    }
    ui.flush()?;
    for fault in &stopped.faults {
        ui.warn_fault(fault);
    }
    Ok(ExitCode::from(worst))
}

fn named(fleet: &Fleet, ids: &[String]) -> Result<StopTargets, Failure> {
    let found = fleet.stop_targets(ids);
    found.map_err(|(text, not_one)| unresolved(fleet, text, not_one))
}

/// Lists the live sessions; on a terminal the user must confirm.
fn all(ui: &mut Ui, fleet: &Fleet, args: &StopArgs) -> Result<StopTargets, Failure> {
    let cwd = args.cwd.as_ref().map(|dir| {
        let real = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
        real.to_string_lossy().into_owned()
    });
    let query = Query {
        adapter: args.adapter.clone(),
        statuses: args.status.iter().map(|s| Status::from(*s)).collect(),
        group: args.group.clone(),
        cwd,
        ..Query::default()
    };
    let listing = fleet.list(&query);
    if listing.sessions.is_empty() {
        ui.note(if listing.faults.is_empty() {
            "there is nothing to stop"
        } else {
            "no session could be seen"
        });
    } else if !args.yes && !args.json && ui.converses() {
        ui.drawn(&session_table::drawn(ui.canvas(), &fleet.host, &Rows::of(&listing.sessions)))?;
        let count = listing.sessions.len();
        let what =
            if count == 1 { "this session".into() } else { format!("these {count} sessions") };
        if !ui.confirm(&format!("stop {what}?"))? {
            return Err(Failure::new(Kind::Refused, "nothing was stopped"));
        }
    }
    let sessions = listing.sessions.iter().map(Session::target).collect();
    Ok(StopTargets { sessions, runs: Vec::new(), faults: listing.faults })
}

fn exit_code(report: &Report) -> u8 {
    match &report.verdict {
        StopVerdict::Refused(..) => Kind::Refused.exit_code(),
        StopVerdict::Unknown(_) => Kind::Unanswered.exit_code(),
        StopVerdict::Failed(_) => Kind::Failed.exit_code(),
        StopVerdict::Stopped if report.lost_shim.is_some() => Kind::Failed.exit_code(),
        // Survivors are counted after all sessions were stopped.
        _ => 0,
    }
}

/// Returns the name of a session for messages: `claude-code 2a658488`.
fn name(target: &Target) -> String {
    let id = match (&target.session, target.pid) {
        (Some(locator), _) => locator.id.clone(),
        (None, Some(pid)) => format!("pid {pid}"),
        (None, None) => "?".into(),
    };
    format!("{} {id}", target.adapter)
}

fn failure(target: &Target, report: &Report) -> Failure {
    let name = name(target);
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
    let name = name(target);
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

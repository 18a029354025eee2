//! `agentctl stop`: ends sessions and all processes that they have started.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{
    Fleet, RunWithoutSession, StopDocument, StopNews, StopRequest, StopSelection, StopTargets,
};
use agentctl_core::fleet::{Query, rows_of};
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
#[command(after_help = "Examples:
  agentctl stop painter
  agentctl stop 2a658488 .
  agentctl stop --group morning
  agentctl stop --all --status idle -y")]
pub(super) struct StopArgs {
    /// Session ids or prefixes, names, pids, directories (`.`), @last, or adapter:id [default: the only live
    /// session here]
    #[arg(conflicts_with_all = ["all", "adapter", "status", "group", "cwd"])]
    ids: Vec<String>,
    /// Every live session that the filters admit; a filter alone means the same
    #[arg(long)]
    all: bool,
    /// Only sessions of this agent
    #[arg(long, value_name = "NAME", value_parser = adapter_name)]
    adapter: Option<String>,
    /// Only sessions with these statuses (repeat or separate by commas)
    #[arg(long, value_name = "STATUS", value_enum, value_delimiter = ',')]
    status: Vec<StatusArg>,
    /// Only sessions of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only sessions of this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Kill at once, without asking first
    #[arg(long)]
    force: bool,
    /// How long each may take [default: 10s and the time its agent needs for an orderly end]
    #[arg(long, value_name = "SPAN")]
    timeout: Option<Span>,
    /// With --all or a filter: do not ask for confirmation; required where no terminal can be asked
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
    let targets = fleet.stop_targets(&request(args));
    let targets = targets.map_err(|found| unresolved(fleet, &found.text, found.why))?;
    if args.selects() {
        confirm(ui, fleet, args, &targets)?;
    } else if args.ids.is_empty() {
        only_here(&targets)?;
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
    let select = if args.ids.is_empty() {
        StopSelection::Matching(query(args))
    } else {
        StopSelection::Named(args.ids.clone())
    };
    StopRequest { select, options }
}

fn query(args: &StopArgs) -> Query {
    let here = (!args.selects()).then(|| PathBuf::from("."));
    let cwd = args.cwd.as_ref().or(here.as_ref()).map(|dir| {
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

/// Checks that the current directory has exactly one live session: nothing was named.
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
        failure.candidate(format!("{}  {}", target_name(&session.target()), session.status.word()))
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
        ui.note(if targets.faults.is_empty() {
            "there is nothing to stop"
        } else {
            "no session could be seen"
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
        let message = format!("nothing was stopped: to stop {would} needs a confirmation");
        let failure = Failure::new(Kind::Refused, message)
            .hint("add -y to confirm; without it this command asks, but only on a terminal");
        let listed = if args.json { sessions.as_slice() } else { &[] };
        return Err(listed
            .iter()
            .fold(failure, |failure, session| failure.candidate(target_name(&session.target()))));
    }
    if ui.confirm(&format!("stop {what}?"))? {
        return Ok(());
    }
    Err(Failure::new(Kind::Refused, "nothing was stopped"))
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

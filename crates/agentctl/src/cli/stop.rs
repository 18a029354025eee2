//! `agentctl stop`: end sessions, and everything they have started.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use agentctl_core::adapters::ALL;
use agentctl_core::ask::Fleet;
use agentctl_core::fleet::{self, Query, Rows};
use agentctl_core::host::Host;
use agentctl_core::kernel::Liveness;
use agentctl_core::model::{Fault, Outcome as How, SCHEMA_VERSION, Session, Status, Target};
use agentctl_core::runs;
use agentctl_core::stop::{self, Ended, Left, Options, Report, Survivor, Verdict};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::list::{StatusArg, adapter_name};
use crate::config::Span;
use crate::failure::{Failure, Kind, Outcome};
use crate::rows;
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

/// The answer to `stop --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    schema_version: u32,
    /// The sessions that are stopped now.
    stopped: Vec<StoppedRow>,
    /// Processes of theirs that live on.
    survivors: Vec<SurvivorRow>,
    /// The sessions that could not be stopped.
    failed: Vec<FailedRow>,
}

#[derive(Serialize, JsonSchema)]
struct StoppedRow {
    /// The agent's own session id; null for a process without a session.
    id: Option<String>,
    /// The adapter that found it.
    adapter: &'static str,
    /// The process that served it.
    pid: Option<u32>,
    /// What the last look says; null when nothing knows it any more.
    status: Option<Status>,
    /// How its last turn ended.
    outcome: Option<How>,
    /// There was nothing to stop: nothing served it, or no turn of it was running.
    already: bool,
    /// Its turn is over and it rests in this shared server, which serves others too.
    rests_in: Option<u32>,
    /// Every process that was ended: the agent first, then what it had started.
    ended: Vec<Ended>,
    /// Sessions inside it that were left alone.
    left: Vec<Left>,
    /// Why processes that left the agent cannot be seen; absent where all can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct SurvivorRow {
    /// Its pid.
    pid: u32,
    /// Its command line, shortened.
    command: String,
    /// Why it lives.
    why: String,
    /// The session it belongs to, or may belong to.
    session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct FailedRow {
    /// The agent's own session id; null for a process without a session.
    id: Option<String>,
    /// The adapter that found it.
    adapter: &'static str,
    /// A stable word for scripts.
    code: &'static str,
    /// One sentence for people.
    message: String,
    /// What to do next.
    hint: Option<String>,
}

pub(super) fn cmd_stop(ui: &mut Ui, fleet: &Fleet, args: &StopArgs) -> Outcome {
    let host = &fleet.host;
    let mut orphans = Vec::new();
    let (targets, mut faults) =
        if args.all { all(ui, host, args)? } else { named(fleet, args, &mut orphans)? };
    let options = Options { force: args.force, timeout: args.timeout.map(|Span(time)| time) };
    let mut document = Document {
        schema_version: SCHEMA_VERSION,
        stopped: Vec::new(),
        survivors: Vec::new(),
        failed: Vec::new(),
    };
    // What could not be listed could not be stopped.
    let missing = args.all && !faults.is_empty();
    let mut worst = if missing { Kind::Unanswered.exit_code() } else { 0 };
    let (gone, mut survivors) = end_orphans(ui, host, &orphans);
    if !gone {
        worst = Kind::Failed.exit_code();
    }
    for target in &targets {
        let report = stop::stop(host, ALL, target, options);
        let code = exit_code(&report);
        worst = worst.max(code);
        if targets.len() == 1 && code > 1 {
            return Err(failure(target, &report).beside(report.faults));
        }
        if !args.json {
            say(ui, target, &report)?;
        }
        faults.extend(report.faults.iter().cloned());
        let id = target.session.as_ref().map(|l| l.id.clone());
        survivors.extend(report.survivors.iter().map(|s| (id.clone(), s.clone())));
        document.add(target, report);
    }
    // What one of several stops has spared, another one may have ended.
    survivors.retain(|(_, s)| host.kernel.liveness(&s.id) != Liveness::Gone);
    survivors.sort_by_key(|(_, s)| s.pid);
    survivors.dedup_by_key(|(_, s)| s.pid);
    if !survivors.is_empty() {
        worst = worst.max(Kind::Failed.exit_code());
    }
    if !args.json {
        say_survivors(ui, &document, &survivors);
    }
    document.survivors = survivors.into_iter().map(SurvivorRow::of).collect();
    if args.json {
        ui.json(&document)?;
    }
    ui.flush()?;
    faults.sort();
    faults.dedup();
    for fault in &faults {
        ui.warn_fault(fault);
    }
    Ok(ExitCode::from(worst))
}

/// A launched agent that no adapter knows how to tell a session of: its run, and its process.
fn orphan(host: &Host, text: &str) -> Option<(String, u32)> {
    let named = |pid: u32, run: &str| pid.to_string() == text || run == text;
    let (process, marker) = runs::agents(host).find(|(p, m)| named(p.id.pid, &m.run))?;
    Some((marker.run, process.id.pid))
}

/// A process that lives on, and the session it may belong to.
type Surviving = (Option<String>, Survivor);

/// Ends runs that serve no session; says whether each is gone, and what of them lives on.
fn end_orphans(ui: &mut Ui, host: &Arc<Host>, orphans: &[(String, u32)]) -> (bool, Vec<Surviving>) {
    let ends = orphans.iter().flat_map(|(run, _)| stop::end_run(host, ALL, run).survivors);
    let survivors = ends.map(|survivor| (None, survivor)).collect();
    let left: Vec<String> = runs::agents(host).map(|(_, marker)| marker.run).collect();
    for (run, pid) in orphans {
        let words = if left.contains(run) { "lives on" } else { "was ended" };
        ui.note(&format!("run {run} (pid {pid}), which served no session, {words}"));
    }
    (!orphans.iter().any(|(run, _)| left.contains(run)), survivors)
}

/// Finds every session that was named before any of them is touched: a typo stops nothing.
fn named(
    fleet: &Fleet,
    args: &StopArgs,
    orphans: &mut Vec<(String, u32)>,
) -> Result<(Vec<Target>, Vec<Fault>), Failure> {
    let (mut targets, mut faults) = (Vec::new(), Vec::new());
    for text in &args.ids {
        let (target, more) = match super::target(fleet, text) {
            Err(failure) if failure.is_not_found() => match orphan(&fleet.host, text) {
                Some(found) => {
                    orphans.push(found);
                    continue;
                }
                None => return Err(failure),
            },
            found => found?,
        };
        if !targets.contains(&target) {
            targets.push(target);
        }
        faults.extend(more);
    }
    Ok((targets, faults))
}

/// Lists what lives; a person at a terminal is asked before any of it is touched.
fn all(
    ui: &mut Ui,
    host: &Arc<Host>,
    args: &StopArgs,
) -> Result<(Vec<Target>, Vec<Fault>), Failure> {
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
    let listing = fleet::list(host, ALL, &query);
    if listing.sessions.is_empty() {
        ui.note(if listing.faults.is_empty() {
            "there is nothing to stop"
        } else {
            "no session could be seen"
        });
    } else if !args.yes && !args.json && ui.converses() {
        ui.raw(rows::drawn(ui.canvas(), host, &Rows::of(&listing.sessions)).as_bytes())?;
        let count = listing.sessions.len();
        let what =
            if count == 1 { "this session".into() } else { format!("these {count} sessions") };
        if !ui.confirm(&format!("stop {what}?"))? {
            return Err(Failure::new(Kind::Refused, "nothing was stopped"));
        }
    }
    let targets = listing.sessions.iter().map(Session::target).collect();
    Ok((targets, listing.faults))
}

fn exit_code(report: &Report) -> u8 {
    match &report.verdict {
        Verdict::Refused(..) => Kind::Refused.exit_code(),
        Verdict::Unknown(_) => Kind::Unanswered.exit_code(),
        Verdict::Failed(_) => Kind::Failed.exit_code(),
        Verdict::Stopped if report.lost_shim.is_some() => Kind::Failed.exit_code(),
        // Whether something lives on is asked when all are through.
        _ => 0,
    }
}

/// Names a session as a person would: `claude-code 2a658488`.
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
        Verdict::Refused(why, hint) => {
            let failure = Failure::new(Kind::Refused, format!("{name} was not stopped: {why}"));
            hint.iter().fold(failure, Failure::hint)
        }
        Verdict::Unknown(why) => {
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
        Verdict::Stopped => ui.line(&format!("stopped {name}{}", about(report)))?,
        Verdict::Already => ui.line(&format!("{name} was stopped already{}", about(report)))?,
        Verdict::Rests(server) => {
            let turn = if rested(report) {
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
        Verdict::Refused(why, _) | Verdict::Failed(why) => {
            ui.error(&format!("{name} was not stopped: {why}"));
        }
        Verdict::Unknown(why) => ui.error(&format!("whether {name} lives is unknown: {why}")),
    }
    for left in &report.left {
        let who = left.session.as_deref().unwrap_or("no session yet");
        let text =
            format!("left alone: {} {who} (pid {}), a session of its own", left.adapter, left.pid);
        ui.note(&text);
    }
    match (&report.lost_shim, &report.verdict) {
        (Some(why), Verdict::Already) => ui.note(why),
        (Some(why), _) => ui.error(why),
        (None, _) => {}
    }
    for note in &report.notes {
        ui.note(note);
    }
    Ok(())
}

/// Names what lives on. A session that was left alone has been named already.
fn say_survivors(ui: &mut Ui, document: &Document, survivors: &[Surviving]) {
    let left = |pid: u32| document.stopped.iter().flat_map(|s| &s.left).any(|l| l.pid == pid);
    for (_, survivor) in survivors.iter().filter(|(_, s)| !left(s.pid)) {
        let text =
            format!("still alive: pid {} ({}): {}", survivor.pid, survivor.command, survivor.why);
        ui.error(&one_line(&text));
    }
}

impl SurvivorRow {
    fn of((session, survivor): Surviving) -> Self {
        let Survivor { pid, command, why, .. } = survivor;
        Self { pid, command, why, session }
    }
}

/// Says whether no turn of it was running when we came.
fn rested(report: &Report) -> bool {
    report.before.as_ref().is_some_and(|s| s.status == Status::Idle)
}

/// `(pid 6224 and 3 processes it had started)`
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

impl Document {
    fn add(&mut self, target: &Target, report: Report) {
        let id = target.session.as_ref().map(|l| l.id.clone());
        let already = match &report.verdict {
            Verdict::Rests(_) => rested(&report),
            verdict => *verdict == Verdict::Already,
        };
        let (code, message, hint) = match report.verdict {
            Verdict::Stopped | Verdict::Already | Verdict::Rests(_) => {
                let after = report.after.as_ref();
                return self.stopped.push(StoppedRow {
                    id,
                    adapter: target.adapter,
                    pid: report.before.as_ref().and_then(|s| s.pid),
                    status: after.map(|s| s.status),
                    outcome: after.and_then(|s| s.outcome),
                    already,
                    rests_in: match report.verdict {
                        Verdict::Rests(server) => Some(server),
                        _ => None,
                    },
                    ended: report.ended,
                    left: report.left,
                    unseen: report.lost_shim,
                });
            }
            Verdict::Refused(why, hint) => (Kind::Refused.code(), why, hint),
            Verdict::Unknown(why) => (Kind::Unanswered.code(), why, None),
            Verdict::Failed(why) => (Kind::Failed.code(), why, None),
        };
        self.failed.push(FailedRow { id, adapter: target.adapter, code, message, hint });
    }
}

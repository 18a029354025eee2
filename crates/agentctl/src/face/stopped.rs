//! The result of a stop in words, with its exit code: every text comes from the rows of the document.

use agentctl_core::ask::{
    FailedRow, RunWithoutSessionRow, StopDocument, StopNews, StopTargets, StoppedRow, SurvivorRow,
};
use agentctl_core::stop::{Left, StopFailureCode};

use super::{OutputKind, OutputLine, full_name};
use crate::failure::{Failure, Kind};
use crate::text::one_line;

/// Returns the kind of failure that decides the exit code of a stop; `None` for exit code 0. Of several the one
/// with the largest exit code counts.
#[must_use]
pub fn stop_kind(targets: &StopTargets, document: &StopDocument) -> Option<Kind> {
    let may_leave = document.stopped.iter().any(StoppedRow::may_leave_processes);
    let lives_on = document.runs.iter().any(|run| run.lives_on);
    let failed = may_leave || lives_on || !document.survivors.is_empty();
    let blind = targets.may_miss_sessions.then_some(Kind::Unanswered);
    let rows = document.failed.iter().map(|row| failure_kind(row.code));
    rows.chain(failed.then_some(Kind::Failed)).chain(blind).max_by_key(|kind| kind.exit_code())
}

fn failure_kind(code: StopFailureCode) -> Kind {
    match code {
        StopFailureCode::Refused => Kind::Refused,
        StopFailureCode::Unknown => Kind::Unanswered,
        StopFailureCode::Failed => Kind::Failed,
    }
}

/// Says why the only session of an order was not touched: the stop was refused, or whether it lives is unknown.
/// `None` where the order has several targets or the stop was carried out.
#[must_use]
pub fn stop_failure(targets: &StopTargets, document: &StopDocument) -> Option<Failure> {
    let row = document.failed.iter().find(|row| is_whole_failure(targets, row))?;
    let failure = Failure::new(failure_kind(row.code), failed_text(row));
    let unknown = (row.code == StopFailureCode::Unknown)
        .then_some("`agentctl why` shows what is known; a process can be stopped by its pid");
    let hint = row.hint.as_deref().or(unknown);
    Some(hint.into_iter().fold(failure, Failure::hint).beside(document.faults.clone()))
}

/// Says whether this row is the failure of the whole order; see [`stop_failure`].
fn is_whole_failure(targets: &StopTargets, row: &FailedRow) -> bool {
    targets.targets.len() == 1 && row.code != StopFailureCode::Failed
}

/// Returns the lines about one row. A row that is the failure of the whole order has none: see
/// [`stop_failure`].
#[must_use]
pub fn stop_lines(targets: &StopTargets, news: StopNews<'_>) -> Vec<OutputLine> {
    match news {
        StopNews::Run(row) => vec![run_line(row)],
        StopNews::Stopped(row) => stopped_lines(row),
        StopNews::Failed(row) if is_whole_failure(targets, row) => Vec::new(),
        StopNews::Failed(row) => failed_lines(row),
    }
}

fn run_line(row: &RunWithoutSessionRow) -> OutputLine {
    let words = if row.lives_on { "is still running" } else { "was stopped" };
    let RunWithoutSessionRow { run, pid, .. } = row;
    let text = format!("run {run} (pid {pid}), which had no session, {words}");
    OutputLine::new(OutputKind::Note, text)
}

fn stopped_lines(row: &StoppedRow) -> Vec<OutputLine> {
    let verdict = match row.rests_in {
        None => stopped_text(row),
        Some(server) => {
            let turn = if row.already {
                format!("{} was already idle", stopped_name(row))
            } else {
                format!("{}: its turn was interrupted", stopped_text(row))
            };
            format!("{turn}; it stays idle in a server (pid {server}) that other sessions share")
        }
    };
    let text = format!("{verdict}{}", ended_in_brackets(row));
    // Without a process before this stop, no process can have left the agent during it.
    let unseen =
        if row.already && row.rests_in.is_none() { OutputKind::Note } else { OutputKind::Error };
    let unseen = row.unseen.as_ref().map(|why| OutputLine::new(unseen, why));
    let mut lines = vec![OutputLine::new(OutputKind::Line, text)];
    lines.extend(row.left.iter().map(left_line).chain(unseen).chain(notes(&row.notes)));
    lines
}

fn failed_lines(row: &FailedRow) -> Vec<OutputLine> {
    let unseen = row.unseen.as_ref().map(|why| OutputLine::new(OutputKind::Error, why));
    let mut lines = vec![OutputLine::new(OutputKind::Error, failed_text(row))];
    lines.extend(row.left.iter().map(left_line).chain(unseen).chain(notes(&row.notes)));
    lines
}

fn left_line(left: &Left) -> OutputLine {
    let session = left.session.as_deref().unwrap_or("no session yet");
    let Left { adapter, pid, .. } = left;
    let text = format!("not stopped: {adapter} {session} (pid {pid}), a session of its own");
    OutputLine::new(OutputKind::Note, text)
}

fn notes(notes: &[String]) -> impl Iterator<Item = OutputLine> {
    notes.iter().map(|note| OutputLine::new(OutputKind::Note, note))
}

/// Returns a line for each surviving process. A session that was left alone has a line already.
#[must_use]
pub fn survivor_lines(document: &StopDocument) -> Vec<OutputLine> {
    let left = |pid: u32| document.stopped.iter().flat_map(|s| &s.left).any(|l| l.pid == pid);
    let line = |SurvivorRow { pid, command, why, .. }: &SurvivorRow| {
        let text = one_line(&format!("still alive: pid {pid} ({command}): {why}"));
        OutputLine::new(OutputKind::Error, text)
    };
    document.survivors.iter().filter(|s| !left(s.pid)).map(line).collect()
}

/// The result of the stop of one session in short texts, for a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopSummary {
    /// The sessions that are stopped now.
    pub stopped: Vec<String>,
    /// Surviving processes, and the sessions that could not be stopped.
    pub troubles: Vec<String>,
}

impl StopSummary {
    /// Adds the document of the stop of one session.
    pub fn add(&mut self, document: &StopDocument) {
        let stopped = document.stopped.iter().map(stopped_name);
        let name = stopped.chain(document.failed.iter().map(failed_name)).next();
        let name = name.unwrap_or_else(|| "?".to_owned());
        self.troubles.extend(document.survivors.iter().map(|survivor| {
            let SurvivorRow { pid, command, why, .. } = survivor;
            format!("pid {pid} of {name} is still running ({command}): {why}")
        }));
        for row in &document.stopped {
            self.stopped.push(match row.rests_in {
                Some(server) => format!("{name} is idle in pid {server}"),
                None => stopped_text(row),
            });
            self.troubles.extend(row.unseen.clone().filter(|_| row.may_leave_processes()));
        }
        self.troubles.extend(document.failed.iter().map(failed_text));
    }
}

fn stopped_name(row: &StoppedRow) -> String {
    full_name(row.adapter, row.id.as_deref(), row.pid)
}

fn failed_name(row: &FailedRow) -> String {
    full_name(row.adapter, row.id.as_deref(), row.pid)
}

fn stopped_text(row: &StoppedRow) -> String {
    let name = stopped_name(row);
    if row.already { format!("{name} was already stopped") } else { format!("stopped {name}") }
}

fn failed_text(row: &FailedRow) -> String {
    let (name, why) = (failed_name(row), &row.message);
    match row.code {
        StopFailureCode::Unknown => format!("cannot tell whether {name} is running: {why}"),
        StopFailureCode::Refused | StopFailureCode::Failed => {
            format!("{name} was not stopped: {why}")
        }
    }
}

/// Returns ` (pid 6224 and 3 processes it had started)`.
fn ended_in_brackets(row: &StoppedRow) -> String {
    let pids: Vec<String> = row.agent_pids.iter().map(u32::to_string).collect();
    let started = match row.ended.len().saturating_sub(pids.len()) {
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

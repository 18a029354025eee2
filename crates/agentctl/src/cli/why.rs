//! `agentctl why`: the evidence behind a status, in sentences.

use agentctl_core::ask::{Fleet, InspectedSession};
use agentctl_core::model::{Evidence, Outcome as Ended, ReasonKind, Session, Status};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::status::inspect;
use crate::failure::Outcome;
use crate::text::{one_line, wrap};
use crate::ui::Ui;

/// Explain a session's status: which source said what
#[derive(Args)]
pub(super) struct WhyArgs {
    /// Session id or prefix, name, pid, directory, or adapter:id
    id: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The answer to `why --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Why<'a> {
    /// The session.
    id: Option<&'a str>,
    /// Its status.
    status: Status,
    /// The verdict in one sentence.
    verdict: String,
    /// What it rests on.
    evidence: &'a [Evidence],
}

pub(super) fn cmd_why(ui: &mut Ui, fleet: &Fleet, args: &WhyArgs) -> Outcome {
    let InspectedSession { session, faults, .. } = inspect(fleet, &args.id)?;
    let verdict = verdict(&session);
    if args.json {
        let id = session.id.as_deref();
        ui.json(&Why { id, status: session.status, verdict, evidence: &session.evidence })?;
    } else {
        let room = ui.width().unwrap_or(usize::MAX);
        for line in wrap(&verdict, room) {
            ui.line(&line)?;
        }
        ui.line("")?;
        let said = |e: &Evidence| format!("{} says: {}", one_line(&e.source), one_line(&e.says));
        let noted = session.notes.iter().map(|note| format!("note: {}", one_line(note)));
        for text in session.evidence.iter().map(said).chain(noted) {
            for (index, line) in wrap(&text, room.saturating_sub(4).max(20)).iter().enumerate() {
                let indent = if index == 0 { "  " } else { "    " };
                ui.line(&format!("{indent}{line}"))?;
            }
        }
        ui.flush()?;
    }
    Ok(super::answered(ui, &faults))
}

fn verdict(session: &Session) -> String {
    let who = match (&session.id, session.pid) {
        (Some(id), _) => format!("{} {id}", session.adapter),
        (None, Some(pid)) => format!("{} process {pid}", session.adapter),
        (None, None) => session.adapter.to_owned(),
    };
    // What a server keeps has no process here: the server's word is all there is.
    let kept = session.hosted && session.processes.is_empty();
    let because = match session.status {
        Status::Running if kept => "its server says that a run of it goes on",
        Status::Idle if kept => "its server has it and no run of it goes on",
        Status::Error if kept => "its server says that its last run failed",
        Status::Stopped if kept => "its server says that its run is over",
        Status::Waiting => "a live process serves it and says that it needs a human",
        Status::Running => match session.reason.as_ref().map(|r| r.kind) {
            Some(ReasonKind::Starting) => "a live process is getting ready",
            _ => "a live process is working on a turn of it",
        },
        Status::Idle => "a live process serves it and no turn is open",
        Status::Unknown => "the source that would decide could not",
        Status::Error => "no process serves it and its last turn failed",
        Status::Stopped => match session.outcome {
            Some(Ended::Finished) => "no process serves it and its last turn is complete",
            Some(Ended::Interrupted) => "no process serves it and its last turn was interrupted",
            Some(Ended::Killed) => "no process serves it and nobody lived to end its last turn",
            _ => "no process serves it",
        },
    };
    let detail = session.reason.as_ref().map(|r| match &r.detail {
        Some(detail) => format!(" ({}: {})", r.kind.word(), one_line(detail)),
        None => format!(" ({})", r.kind.word()),
    });
    format!("{who} is {}: {because}{}", session.status.word(), detail.unwrap_or_default())
}

//! `agentctl why`: the evidence behind a status, in sentences.

use std::sync::Arc;

use agentctl_core::host::Host;
use agentctl_core::model::{Evidence, Outcome as Ended, Session, Status};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::status::inspect;
use crate::failure::Outcome;
use crate::text::one_line;
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

pub(super) fn cmd_why(ui: &mut Ui, host: &Arc<Host>, args: &WhyArgs) -> Outcome {
    let (session, faults) = inspect(host, &args.id)?;
    let verdict = verdict(&session);
    if args.json {
        let id = session.id.as_deref();
        ui.json(&Why { id, status: session.status, verdict, evidence: &session.evidence })?;
    } else {
        ui.line(&verdict)?;
        ui.line("")?;
        for evidence in &session.evidence {
            ui.line(&format!(
                "  {} says: {}",
                one_line(&evidence.source),
                one_line(&evidence.says)
            ))?;
        }
        for note in &session.notes {
            ui.line(&format!("  note: {}", one_line(note)))?;
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
    let because = match session.status {
        Status::Waiting => "a live process serves it and says that it needs a human",
        Status::Running => "a live process is working on a turn of it",
        Status::Idle => "a live process serves it and its turn is over",
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

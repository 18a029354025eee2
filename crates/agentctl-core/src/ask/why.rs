//! The question `why`: the evidence behind a session's status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, NotOne};
use crate::model::{EndedBy, Evidence, Fault, Outcome, Reason, ReasonKind, Session, Status};
use crate::text::one_line;

/// The answer to `why --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WhyDocument {
    /// The session.
    pub id: Option<String>,
    /// Its status.
    pub status: Status,
    /// The verdict in one sentence.
    pub verdict: String,
    /// The cause of its end, once it has ended.
    #[serde(default)]
    pub ended_by: Option<EndedBy>,
    /// The observations behind the status.
    pub evidence: Vec<Evidence>,
}

/// The answer to `why`, with the facts beside the explanation. `agentctl why --json` prints the explanation
/// alone.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ExplainedSession {
    /// The status and the evidence behind it.
    pub explanation: WhyDocument,
    /// Remarks about the session.
    pub notes: Vec<String>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

impl WhyDocument {
    /// Explains the status of a session that was looked at.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        Self {
            id: session.id.clone(),
            status: session.status,
            verdict: verdict(session),
            ended_by: session.ended_by.clone(),
            evidence: session.evidence.clone(),
        }
    }
}

impl Fleet {
    /// Explains the status of the one session that a text names.
    pub fn why(&self, text: &str) -> Result<ExplainedSession, NotOne> {
        let inspected = self.inspected(text)?;
        let explanation = WhyDocument::of(&inspected.session);
        let (notes, faults) = (inspected.session.notes, inspected.faults);
        Ok(ExplainedSession { explanation, notes, faults })
    }
}

/// Returns the detail of a status in a few words: `tool: npm test`.
#[must_use]
pub fn reason_text(reason: &Reason) -> String {
    match &reason.detail {
        Some(detail) => format!("{}: {}", reason.kind.word(), one_line(detail)),
        None => reason.kind.word().to_owned(),
    }
}

fn verdict(session: &Session) -> String {
    let subject = match (&session.id, session.pid) {
        (Some(id), _) => format!("{} {id}", session.adapter),
        (None, Some(pid)) => format!("{} process {pid}", session.adapter),
        (None, None) => session.adapter.to_owned(),
    };
    // A session in a server has no process on this machine: only the server knows its state.
    let kept = session.hosted && session.processes.is_empty();
    let because = match session.status {
        Status::Running if kept => "its server says that a run is in progress",
        Status::Idle if kept => "its server has it, and no run is in progress",
        Status::Error if kept => "its server says that its last run failed",
        Status::Stopped if kept => "its server says that its run is over",
        Status::Waiting => "its process is alive and says that it waits for a human",
        Status::Running => match session.reason.as_ref().map(|r| r.kind) {
            Some(ReasonKind::Starting) => "its process is starting",
            _ => "its process is alive and works on a turn",
        },
        Status::Idle => "its process is alive and no turn is open",
        Status::Unknown => "the source that decides could not be read",
        Status::Error => "no process runs it, and its last turn failed",
        Status::Stopped => match session.outcome {
            Some(Outcome::Finished) => "no process runs it, and its last turn is complete",
            Some(Outcome::Interrupted) => "no process runs it, and its last turn was interrupted",
            Some(Outcome::Killed) => "no process runs it, and its last turn was never finished",
            _ => "no process runs it",
        },
    };
    let detail = session.reason.as_ref().map(|reason| format!(" ({})", reason_text(reason)));
    format!("{subject} is {}: {because}{}", session.status.word(), detail.unwrap_or_default())
}

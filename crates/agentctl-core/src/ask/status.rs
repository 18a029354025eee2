//! The question `status`: one session in full.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ended_by::add_ended_by;
use super::{Fleet, NotOne, ResolvedTarget};
use crate::model::{Fault, Session, Target};
use crate::native::git_head;
use crate::transcript::Summary;

/// Number of characters of the last message that are kept.
const MAX_MESSAGE_CHARS: usize = 2000;

/// One session that a text names, in full.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct InspectedSession {
    /// The session's adapter, home and record.
    pub target: Target,
    /// The session.
    pub session: Session,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// The answer to `status --json`: the session, and the facts that need its whole conversation.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct StatusDocument {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// The git branch: as the agent wrote it, else that of the session's directory now.
    pub branch: Option<String>,
    /// Seconds from its beginning to its end; of a live session, until now.
    pub duration_seconds: Option<u64>,
    /// How many prompts its conversation has.
    pub turns: Option<u64>,
    /// The tokens that the last model call had as its context, and its answer.
    pub context_tokens: Option<u64>,
    /// The most tokens that the model takes, where the agent writes it.
    pub context_window: Option<u64>,
    /// The last text of the model, cut to 2,000 characters.
    pub last_message: Option<String>,
}

/// The answer to `status`, with the sources that failed. `agentctl status --json` prints the document alone.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DetailedSession {
    /// The session's adapter, home and record.
    pub target: Target,
    /// The session and its details.
    pub document: StatusDocument,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

impl Fleet {
    /// Looks at the one session that a text names, and reads its conversation.
    pub fn status(&self, text: &str) -> Result<DetailedSession, NotOne> {
        let ResolvedTarget { target, faults } = self.target(text)?;
        let (inspected, mut summary) = std::thread::scope(|scope| {
            let summary = scope.spawn(|| self.summary(&target));
            let inspected = self.inspected_target(target.clone(), faults);
            (inspected, summary.join().unwrap_or_default())
        });
        let (InspectedSession { target, session, faults }, turns) = inspected?;
        summary.turns = turns.or(summary.turns);
        let document = self.detailed(session, summary);
        Ok(DetailedSession { target, document, faults })
    }

    /// Looks at the one session that a text names.
    pub(super) fn inspected(&self, text: &str) -> Result<InspectedSession, NotOne> {
        let ResolvedTarget { target, faults } = self.target(text)?;
        Ok(self.inspected_target(target, faults)?.0)
    }

    /// Looks at one session; returns it with the number of prompts in its file.
    fn inspected_target(
        &self,
        target: Target,
        mut faults: Vec<Fault>,
    ) -> Result<(InspectedSession, Option<u64>), NotOne> {
        let inspected = self.inspect(&target);
        faults.extend(inspected.faults);
        faults.sort();
        faults.dedup();
        match inspected.session {
            Some(mut session) => {
                add_ended_by(&self.host, &mut session);
                Ok((InspectedSession { target, session, faults }, inspected.turns))
            }
            None if faults.is_empty() => Err(NotOne::Nothing),
            None => Err(NotOne::Unreadable(faults)),
        }
    }

    /// Reads the conversation; without one nothing is known of it.
    fn summary(&self, target: &Target) -> Summary {
        let transcript = target.session.is_some().then(|| self.transcript(target));
        let summary = transcript.and_then(Result::ok).and_then(|mut t| t.summary().ok());
        summary.unwrap_or_default()
    }

    fn detailed(&self, session: Session, summary: Summary) -> StatusDocument {
        let uid = self.host.kernel.uid();
        let branch =
            summary.branch.or_else(|| git_head::branch(session.cwd.as_deref()?.as_ref(), uid));
        let text = summary.last_answer.and_then(|message| message.text);
        StatusDocument {
            branch,
            duration_seconds: session.lifetime_ms(self.host.now()).map(|ms| ms / 1000),
            turns: summary.turns,
            context_tokens: summary.context_tokens,
            context_window: summary.context_window,
            last_message: text.map(|text| cut(text.trim(), MAX_MESSAGE_CHARS)),
            session,
        }
    }
}

/// Cuts a text to this many characters. Its lines stay.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

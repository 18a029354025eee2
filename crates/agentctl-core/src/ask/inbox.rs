//! The questions `asks` and `answer`: everything that waits for a human, and the answer to one of it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, NotOne, UnresolvedText};
use crate::adapters::asker::AskHook;
use crate::fleet::{self, Query, WaitingSession};
use crate::inbox::{self, AnswerError, Answerer};
use crate::model::{
    Ask, Evidence, Fault, MIN_ASK_PREFIX, ReasonKind, Reply, SCHEMA_VERSION, Session,
};

/// Time that the hook in the user's own settings waits for an answer.
const OWN_HOOK_TIMEOUT: Duration = Duration::from_hours(24);

/// The answer to `asks --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct AsksDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// Everything that waits for a human, longest waiting first.
    pub asks: Vec<Ask>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// Sessions that wait for a human, and the sources that could not be asked.
#[derive(Clone, Debug)]
pub struct WaitingSessions {
    /// The sessions with those of their asks that were asked for, longest waiting first.
    pub rows: Vec<WaitingSession>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// The answer to `asks --hook`: settings to merge into the agent's own settings file.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct AskHookDocument {
    /// The hooks, by the name of their event.
    pub hooks: serde_json::Value,
    /// The file of the agent into which they are merged. No part of the JSON, which is merged as it stands.
    #[serde(skip)]
    pub file: Option<&'static str>,
}

/// The question for asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AsksRequest {
    /// Only these asks, and the asks of these sessions; empty for all.
    pub select: Vec<String>,
    /// Only asks of this adapter.
    pub adapter: Option<String>,
    /// Only asks of sessions of this group.
    pub group: Option<String>,
    /// Only asks of sessions in this directory, links resolved.
    pub cwd: Option<String>,
}

/// The order to answer one ask.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// The id of the ask, or at least six characters of it.
    pub ask: String,
    /// The answer.
    pub reply: Reply,
}

/// The answer to `answer --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct AnswerDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The ask that was answered.
    pub ask: Ask,
    /// The answer that was delivered.
    pub reply: Reply,
    /// The behaviour of the agent after the answer; null if it was not seen to move within two seconds.
    pub moved: Option<Evidence>,
    /// The agent has no field for the words of this answer: they were not delivered.
    pub words_lost: bool,
    /// The session after the answer; null where it was not seen.
    pub session: Option<Session>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

impl Fleet {
    /// Returns everything that waits for a human. A text that names neither an open ask nor a session is an
    /// error.
    pub fn asks(&self, request: &AsksRequest) -> Result<AsksDocument, UnresolvedText> {
        let WaitingSessions { rows, faults } = self.waiting(request)?;
        let asks = rows.into_iter().flat_map(|row| row.asks).collect();
        Ok(AsksDocument { schema_version: SCHEMA_VERSION, asks, faults })
    }

    /// Returns what [`Fleet::asks`] returns, with the sessions that ask: their names and groups are no part of an ask.
    pub fn waiting(&self, request: &AsksRequest) -> Result<WaitingSessions, UnresolvedText> {
        let query = Query {
            adapter: request.adapter.clone(),
            group: request.group.clone(),
            cwd: request.cwd.clone(),
            ..Query::default()
        };
        let found = fleet::asks(self, &query);
        let (mut rows, mut faults) = (found.rows, found.faults);
        if !request.select.is_empty() {
            let mut wanted = Vec::new();
            for text in &request.select {
                wanted.extend(self.named_asks(text, &rows, &mut faults)?);
            }
            for row in &mut rows {
                row.asks.retain(|ask| wanted.contains(&ask.id));
            }
            rows.retain(|row| !row.asks.is_empty());
        }
        Ok(WaitingSessions { rows, faults })
    }

    /// Says whether an ask that was open is known to be settled: every source answered, it is not among these asks,
    /// and its session is not paused, which would hide it.
    #[must_use]
    pub fn is_settled(&self, ask: &Ask, now: &WaitingSessions) -> bool {
        let mut open = now.rows.iter().flat_map(|row| &row.asks);
        if !now.faults.is_empty() || open.any(|open| open.id == ask.id) {
            return false;
        }
        let seen = self.inspect(&ask.target());
        let Some(session) = seen.session else { return seen.faults.is_empty() };
        session.reason.is_none_or(|reason| reason.kind != ReasonKind::Paused)
    }

    /// Returns the ids of the asks that a text names: by their id, or by their session.
    fn named_asks(
        &self,
        text: &str,
        rows: &[WaitingSession],
        faults: &mut Vec<Fault>,
    ) -> Result<Vec<String>, UnresolvedText> {
        let asks = || rows.iter().flat_map(|row| &row.asks);
        let by_id: Vec<String> = asks()
            .filter(|ask| text.len() >= MIN_ASK_PREFIX && ask.id.starts_with(text))
            .map(|ask| ask.id.clone())
            .collect();
        if !by_id.is_empty() {
            return Ok(by_id);
        }
        let unresolved = |why: NotOne| UnresolvedText { text: text.to_owned(), why };
        let found = self.target(text).map_err(unresolved)?;
        faults.extend(found.faults);
        let target = found.target;
        let id = target.session.map(|locator| locator.id);
        let is_meant = |ask: &&Ask| {
            ask.adapter == target.adapter
                && ask.root == target.root
                && (ask.session_id == id && (id.is_some() || ask.pid == target.pid))
        };
        Ok(asks().filter(is_meant).map(|ask| ask.id.clone()).collect())
    }

    /// Returns the settings with which the user's own sessions can be answered from here, of the first agent that
    /// has a hook for asks; without hooks where no agent has one.
    #[must_use]
    pub fn ask_hook_settings(&self) -> AskHookDocument {
        let (program, runtime) = (&self.host.program, self.host.runtime());
        let hook = self.adapters.iter().find_map(|adapter| adapter.answering()?.ask_hook());
        let settings = hook
            .map(|hook| hook.settings(program, &runtime, OWN_HOOK_TIMEOUT.as_secs()))
            .and_then(|settings| serde_json::from_str(&settings).ok());
        let settings: AskHookDocument = settings.unwrap_or_default();
        AskHookDocument { file: hook.map(AskHook::settings_file), ..settings }
    }

    /// Examines the process that answers: it may not run below an agent.
    #[must_use]
    pub fn answerer(&self, pid: u32) -> Answerer {
        Answerer::of(self, pid)
    }

    /// Answers one ask, exactly once.
    pub fn answer(
        &self,
        request: &AnswerRequest,
        answerer: &Answerer,
    ) -> Result<AnswerDocument, AnswerError> {
        let settled = inbox::answer(self, &request.ask, &request.reply, answerer)?;
        Ok(AnswerDocument {
            schema_version: SCHEMA_VERSION,
            reply: request.reply.without_secrets(&settled.ask),
            ask: settled.ask,
            moved: settled.moved,
            words_lost: settled.words_lost,
            session: settled.session,
            faults: settled.faults,
        })
    }
}

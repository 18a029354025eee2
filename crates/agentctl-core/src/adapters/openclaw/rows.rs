//! A snapshot of the sessions of a gateway: its whole list or nothing.
//!
//! Pages are read on one connection until the gateway says that there are no more. A list that changed
//! while it was read is read again; a list with repeated rows, without an end or with a wrong total is
//! a fault. A row's `hasActiveRun` decides the status; the other fields describe.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::approvals::Approval;
use super::wire::{Conversation, GatewayError};
use crate::adapters::{Look, Record, Served, State, Turn};
use crate::model::{FaultCode, Outcome, Reason, ReasonKind, Status, Time, is_session_id, shorten};

/// Rows per request: one page is enough for most gateways, so nothing changes between pages.
const PAGE_ROWS: usize = 1_000;
/// Most attempts to read a list that changes while it is read.
const MAX_LIST_READS: usize = 6;
/// Most rows of a gateway that are read.
const MAX_ROWS: usize = 100_000;
/// Jobs per request: the most that a gateway gives.
const PAGE_JOBS: u64 = 200;
/// Most conversations whose last message is read in one look.
const MAX_HISTORY_REQUESTS: usize = 500;
/// Longest text of a row that is kept, in characters.
const TEXT_CHARS: usize = 500;

/// The kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A conversation: it is idle until the next message.
    Conversation,
    /// A scheduled run.
    Cron,
    /// A run that a request from outside started.
    Hook,
    /// A session of another session.
    Subagent,
}

/// One session, as the list shows it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) kind: Kind,
    /// The key of the session it was spawned by.
    pub(super) spawned_by: Option<String>,
    pub(super) label: Option<String>,
    archived: bool,
    active: Option<bool>,
    active_below: bool,
    status: Option<String>,
    error: Option<String>,
    title: Option<String>,
    model: Option<String>,
    created_at: Option<Time>,
    updated_at: Option<Time>,
    ended_at: Option<Time>,
}

fn time(value: &Value) -> Option<Time> {
    value.as_i64().and_then(Time::from_millis)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|t| !t.trim().is_empty()).map(|t| shorten(t, TEXT_CHARS))
}

impl Row {
    /// Reads a row; a row without a usable session id is an error that names it.
    fn of(row: &Value, key: &str) -> Result<Self, String> {
        let id = row["sessionId"].as_str().filter(|id| is_session_id(id));
        let id = id.ok_or_else(|| format!("{} has no usable session id", shorten(key, 80)))?;
        let spawned = row["classification"] == "subagent" || row["createdVia"] == "spawn";
        let kind = match (row["classification"].as_str(), row["createdVia"].as_str()) {
            _ if spawned => Kind::Subagent,
            (Some("hook"), _) | (_, Some("hook")) => Kind::Hook,
            // A hook run looks like a scheduled run; only the list of jobs tells them apart.
            (Some("cron"), _) | (_, Some("cron")) => Kind::Cron,
            _ => Kind::Conversation,
        };
        let above = row["spawnedBy"].as_str().or_else(|| row["parentSessionKey"].as_str());
        Ok(Self {
            id: id.to_owned(),
            key: key.to_owned(),
            kind,
            spawned_by: above.filter(|_| spawned).map(str::to_owned),
            label: text(&row["label"]),
            archived: row["archived"] == true,
            active: row["hasActiveRun"].as_bool(),
            active_below: row["hasActiveSubagentRun"] == true,
            status: text(&row["status"]),
            error: text(&row["lastRunError"]),
            title: text(&row["derivedTitle"]).or_else(|| text(&row["displayName"])),
            model: text(&row["model"]),
            created_at: time(&row["createdAt"]),
            updated_at: time(&row["updatedAt"]),
            ended_at: time(&row["endedAt"]),
        })
    }

    /// Says whether a run of it is active.
    pub(super) fn is_active(&self) -> bool {
        self.active == Some(true)
    }

    /// Says whether it changed since that time; an active session always counts.
    pub(super) fn is_since(&self, since_ms: Option<i64>) -> bool {
        let since = since_ms.unwrap_or(i64::MIN);
        self.active != Some(false) || self.updated_at.is_none_or(|at| at.millis() >= since)
    }

    /// Says whether the row of a run says neither that it is active nor how it ended: in the first
    /// seconds and after the end such rows look alike.
    fn is_silent(&self) -> bool {
        self.kind != Kind::Conversation && self.status.is_none() && self.active == Some(false)
    }

    /// Returns how its last run ended; `None` while a run is active, or before the first run.
    fn outcome(&self, word: Option<&RunState>) -> Option<Outcome> {
        if self.active != Some(false) {
            return None;
        }
        match self.status.as_deref() {
            Some("done") => Some(Outcome::Finished),
            Some("failed" | "timeout") => Some(Outcome::Failed),
            Some("killed") => Some(Outcome::Interrupted),
            Some(_) => Some(Outcome::Unknown),
            None => match word {
                Some(RunState::Ended(outcome, _)) => Some(*outcome),
                _ => None,
            },
        }
    }

    fn state(&self, outcome: Option<Outcome>, word: Option<&RunState>) -> State {
        let ends = self.archived || self.kind != Kind::Conversation;
        let (status, reason) = match self.active {
            None => {
                let why = "the gateway does not say whether a run of it is active";
                (Status::Unknown, Some(Reason::with(ReasonKind::Unreadable, why)))
            }
            Some(true) if self.status.as_deref() == Some("queued") => {
                (Status::Running, Some(Reason::of(ReasonKind::Queued)))
            }
            Some(true) => (Status::Running, None),
            Some(false) if self.active_below && ends => {
                (Status::Running, Some(Reason::of(ReasonKind::Subagents)))
            }
            Some(false) if self.is_silent() && word == Some(&RunState::Works) => {
                (Status::Running, Some(Reason::of(ReasonKind::Starting)))
            }
            Some(false) if self.is_silent() && !matches!(word, Some(RunState::Ended(..))) => {
                let why = "the gateway does not say whether its run is about to begin or is over";
                (Status::Unknown, Some(Reason::with(ReasonKind::Ambiguous, why)))
            }
            Some(false) if self.active_below => {
                let what = "a subagent is at work";
                (Status::Idle, Some(Reason::with(ReasonKind::Background, what)))
            }
            Some(false) if ends && outcome == Some(Outcome::Failed) => {
                let told = match word {
                    Some(RunState::Ended(_, why)) => why.clone(),
                    _ => None,
                };
                let why = self.error.clone().or(told).unwrap_or_else(|| "its run failed".into());
                (Status::Error, Some(Reason::with(ReasonKind::Failure, why)))
            }
            Some(false) if ends => (Status::Stopped, None),
            Some(false) => (Status::Idle, None),
        };
        State { status, reason }
    }

    /// Makes the gateway's claim about the session. An active run with an open request waits for a human.
    pub(super) fn claim(
        &self,
        look: &Look,
        word: Option<&RunState>,
        request: Option<&Approval>,
    ) -> Served {
        let outcome = self.outcome(word);
        let request = request.filter(|_| self.is_active());
        let waiting = request.map(|request| State {
            status: Status::Waiting,
            reason: Some(Reason::with(ReasonKind::Permission, request.gist())),
        });
        let state = waiting.unwrap_or_else(|| self.state(outcome, word));
        // While a part of it is active, no outcome counts.
        let outcome = outcome.filter(|_| state.status != Status::Running);
        let mut claim = Served::kept(self.id.clone(), state, outcome);
        let active = match self.active {
            Some(active) => format!("hasActiveRun is {active}"),
            None => "hasActiveRun is missing".into(),
        };
        let status = self.status.as_ref().map(|s| format!(", the last run is {s}"));
        let below = if self.active_below { ", a run of a subagent is active" } else { "" };
        let archived = if self.archived { ", archived" } else { "" };
        let says = format!("{active}{}{below}{archived}", status.unwrap_or_default());
        claim.evidence.push(look.evidence("openclaw:sessions.list", says));
        if let Some(request) = request {
            let says = format!("waits for an approval: {}", request.gist());
            claim.evidence.push(look.evidence("openclaw:exec.approval.list", says));
        }
        if let Some(word) = word {
            let source = match self.kind {
                Kind::Cron => "openclaw:cron.list",
                _ => "openclaw:chat.history",
            };
            claim.evidence.push(look.evidence(source, word.says()));
        }
        claim
    }

    /// Makes the session's record.
    pub(super) fn record(&self, parent: Option<String>) -> Record {
        let mut notes = Vec::new();
        match self.kind {
            Kind::Conversation => {}
            Kind::Cron => notes.push("a cron run".to_owned()),
            Kind::Hook => notes.push("a hook run".to_owned()),
            Kind::Subagent if parent.is_none() => {
                notes.push("a subagent run whose parent is no longer listed".to_owned());
            }
            Kind::Subagent => notes.push("a subagent run".to_owned()),
        }
        if self.archived {
            notes.push("archived".to_owned());
        }
        if let Some(error) = self.error.as_ref().filter(|_| self.active == Some(false)) {
            notes.push(format!("the last run failed: {}", shorten(error, 200)));
        }
        Record {
            native_key: Some(self.key.clone()),
            model: self.model.clone(),
            title: self.title.clone(),
            name: self.label.clone().filter(|_| self.kind == Kind::Conversation),
            started_at: self.created_at,
            last_activity_at: self.updated_at,
            ended_at: self.ended_at.or(self.updated_at),
            turn: Turn::None,
            parent,
            notes,
            ..Record::default()
        }
    }
}

/// The state of a run from another source, where its row does not show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    /// It goes on.
    Works,
    /// It is over, and how; with the reason where it failed.
    Ended(Outcome, Option<String>),
    /// The source says nothing.
    Nothing,
}

impl RunState {
    fn says(&self) -> String {
        match self {
            Self::Works => "the job is at work".into(),
            Self::Ended(outcome, _) => format!("the last run is over: {}", outcome.word()),
            Self::Nothing => "nothing has been answered".into(),
        }
    }

    /// Reads the state of a job's last run from the list of jobs.
    fn of_job(state: &Value) -> Self {
        if state["runningAtMs"].is_i64() || state["runningAtMs"].is_u64() {
            return Self::Works;
        }
        match state["lastRunStatus"].as_str() {
            Some("ok") => Self::Ended(Outcome::Finished, None),
            Some("error") => Self::Ended(Outcome::Failed, text(&state["lastError"])),
            Some(_) => Self::Ended(Outcome::Unknown, None),
            None => Self::Nothing,
        }
    }

    /// Reads the state of a run that answers once from the last message of its conversation.
    fn of_history(history: &Value) -> Self {
        let last = history["messages"].as_array().and_then(|messages| messages.last());
        let Some(last) = last.filter(|message| message["role"] == "assistant") else {
            return Self::Nothing;
        };
        match last["stopReason"].as_str() {
            Some("stop" | "length") => Self::Ended(Outcome::Finished, None),
            Some("error") => Self::Ended(Outcome::Failed, text(&last["errorMessage"])),
            Some("aborted") => Self::Ended(Outcome::Interrupted, None),
            _ => Self::Nothing,
        }
    }
}

/// All sessions of a gateway.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// Ordered by session id.
    pub(super) rows: Vec<Row>,
    by_key: HashMap<String, usize>,
    /// Rows that cannot be shown, each with its reason.
    pub(super) skipped: Vec<String>,
    /// The states of runs from other sources, by key, for rows that do not show them.
    words: HashMap<String, RunState>,
}

impl Snapshot {
    /// Reads the whole list.
    pub(super) fn read(conversation: &mut Conversation) -> Result<Self, GatewayError> {
        for _ in 0..MAX_LIST_READS {
            if let Some(mut snapshot) = pass(conversation)? {
                snapshot.rows.sort_by(|a, b| (&a.id, &a.key).cmp(&(&b.id, &b.key)));
                let keys = snapshot.rows.iter().enumerate();
                snapshot.by_key = keys.map(|(at, row)| (row.key.clone(), at)).collect();
                snapshot.ask_elsewhere(conversation)?;
                return Ok(snapshot);
            }
        }
        let what = "its list of sessions changed each time it was read, or does not add up";
        Err(GatewayError::new(FaultCode::Partial, what))
    }

    /// Reads the states that rows of cron and hook runs lack: whether they are about to begin, and how
    /// they ended. The list of jobs has it for cron runs, the last message for hook runs.
    fn ask_elsewhere(&mut self, conversation: &mut Conversation) -> Result<(), GatewayError> {
        if !self.rows.iter().any(|row| row.kind == Kind::Cron) {
            return self.ask_for_messages(conversation);
        }
        let mut jobs: HashMap<String, RunState> = HashMap::new();
        let mut offset = 0;
        loop {
            let asked = json!({"includeDisabled": true, "limit": PAGE_JOBS, "offset": offset});
            let page = conversation.ask("cron.list", &asked)?;
            for job in page["jobs"].as_array().into_iter().flatten() {
                if let Some(id) = job["id"].as_str() {
                    jobs.insert(id.to_owned(), RunState::of_job(&job["state"]));
                }
            }
            let next = page["nextOffset"].as_u64().filter(|next| *next > offset);
            match next.filter(|_| page["hasMore"] == true && jobs.len() < MAX_ROWS) {
                Some(next) => offset = next,
                None => break,
            }
        }
        for row in self.rows.iter_mut().filter(|row| row.kind == Kind::Cron) {
            let word = row.key.rsplit(':').next().and_then(|job| jobs.get(job));
            match word {
                Some(word) if row.is_silent() => {
                    self.words.insert(row.key.clone(), word.clone());
                }
                Some(_) => {}
                None => row.kind = Kind::Hook,
            }
        }
        self.ask_for_messages(conversation)
    }

    fn ask_for_messages(&mut self, conversation: &mut Conversation) -> Result<(), GatewayError> {
        let silent = |row: &&Row| row.is_silent() && row.kind != Kind::Cron;
        let keys: Vec<String> = self
            .rows
            .iter()
            .filter(silent)
            .take(MAX_HISTORY_REQUESTS)
            .map(|row| row.key.clone())
            .collect();
        for key in keys {
            let asked = json!({"sessionKey": key, "limit": 1});
            let history = conversation.ask("chat.history", &asked)?;
            self.words.insert(key, RunState::of_history(&history));
        }
        Ok(())
    }

    /// Returns the rows whose session id begins with this text.
    pub(super) fn beginning(&self, prefix: &str) -> &[Row] {
        let from = self.rows.partition_point(|row| row.id.as_str() < prefix);
        let count = self.rows[from..].partition_point(|row| row.id.starts_with(prefix));
        &self.rows[from..from + count]
    }

    /// Returns the row of a session.
    pub(super) fn row(&self, id: &str) -> Option<&Row> {
        self.beginning(id).first().filter(|row| row.id == id)
    }

    /// Returns the parent session of a row, if the gateway still has it.
    pub(super) fn parent(&self, row: &Row) -> Option<&Row> {
        let key = row.spawned_by.as_ref()?;
        self.by_key.get(key).map(|at| &self.rows[*at]).filter(|above| above.id != row.id)
    }

    /// Returns the state of a run from another source.
    pub(super) fn word(&self, row: &Row) -> Option<&RunState> {
        self.words.get(&row.key)
    }
}

/// Reads the list once; `None` if it changed meanwhile.
fn pass(conversation: &mut Conversation) -> Result<Option<Snapshot>, GatewayError> {
    let nonsense = |what: &str| {
        GatewayError::new(
            FaultCode::Protocol,
            format!("the gateway sent an invalid answer: {what}"),
        )
    };
    let mut snapshot = Snapshot::default();
    let mut keys: HashSet<String> = HashSet::new();
    let (mut offset, mut total) = (0, None);
    loop {
        let page = conversation.ask(
            "sessions.list",
            &json!({
                "limit": PAGE_ROWS,
                "offset": offset,
                "archived": "all",
                "includeDerivedTitles": true,
            }),
        )?;
        let rows =
            page["sessions"].as_array().ok_or_else(|| nonsense("a page without sessions"))?;
        let count =
            page["totalCount"].as_u64().ok_or_else(|| nonsense("a page without a total"))?;
        let more = page["hasMore"].as_bool().ok_or_else(|| nonsense("a page without its end"))?;
        if *total.get_or_insert(count) != count {
            return Ok(None);
        }
        for row in rows {
            let key = row["key"].as_str().ok_or_else(|| nonsense("a session without a key"))?;
            if !keys.insert(key.to_owned()) {
                return Ok(None);
            }
            match Row::of(row, key) {
                Ok(row) => snapshot.rows.push(row),
                Err(why) => snapshot.skipped.push(why),
            }
        }
        if keys.len() as u64 > count {
            return Ok(None);
        }
        if !more {
            return Ok((keys.len() as u64 == count).then_some(snapshot));
        }
        if keys.len() > MAX_ROWS {
            return Err(nonsense("its list of sessions does not end"));
        }
        let next = page["nextOffset"].as_u64().filter(|next| *next > offset && !rows.is_empty());
        offset = next.ok_or_else(|| nonsense("its pages do not advance"))?;
    }
}

//! The claims of an adapter: `Served` names the processes that serve a session, `Record` and `Turn` hold the
//! content of the session's own file. `fleet::join` decides the status from both.

use serde::{Deserialize, Serialize};

use crate::kernel::Process;
use crate::model::{
    Evidence, Exit, InternedName, Join, Locator, Outcome, ProcId, Reason, ReasonKind, Status, Time,
    Tokens, maybe_word,
};
use crate::native::file;

/// A state a live source claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The status.
    pub status: Status,
    /// Its finer grain.
    pub reason: Option<Reason>,
}

/// The claim that processes serve a session right now, from the agent's live records, its protocol or the
/// kernel.
#[derive(Clone, Debug)]
pub struct Served {
    /// The session; `None` for an agent process that serves none yet.
    pub id: Option<String>,
    /// The processes, verified to live.
    pub by: Vec<ProcId>,
    /// How certain it is that these processes serve it.
    pub join: Join,
    /// The process serves other sessions too.
    pub hosted: bool,
    /// One of the processes is held by a signal.
    pub paused: bool,
    /// It was started for one prompt: before that has arrived it is starting, not idle.
    pub single_prompt: bool,
    /// It may be without a prompt so far: a record without a turn then means that the session rests. If
    /// this is not set, such a record (deleted, cut, or never written) says nothing about the process.
    pub unprompted: bool,
    /// The state of the session as the live source gives it; `None` where the transcript must decide.
    pub state: Option<State>,
    /// How its last turn ended, as a server says whose sessions have no process here.
    pub outcome: Option<Outcome>,
    /// For a process without a session: it may serve a session of its directory that was not joined to it.
    pub may_serve: bool,
    /// For a process without a session: it may have taken up any session of its directory, however old,
    /// without having written to it. No session of that directory is then known to be over.
    pub may_have_resumed: bool,
    /// The working directory of the session, from the live source.
    pub cwd: Option<String>,
    /// The working directory of the process, used where no source gives that of the session.
    pub stands_in: Option<String>,
    /// The name the live record gives it.
    pub name: Option<String>,
    /// When the session or its process began.
    pub started_at: Option<Time>,
    /// The observations that this claim is made from.
    pub evidence: Vec<Evidence>,
}

impl Served {
    /// Returns the directory of a process that serves no known session.
    #[must_use]
    pub fn directory(&self) -> Option<&str> {
        self.cwd.as_deref().or(self.stands_in.as_deref())
    }

    /// Makes the claim that a process outside our pid namespace or machine serves that session.
    #[must_use]
    pub fn unseen(id: String, why: impl Into<String>) -> Self {
        let reason = Some(Reason::with(ReasonKind::Elsewhere, why));
        Self {
            id: Some(id),
            by: Vec::new(),
            join: Join::Proved,
            hosted: false,
            paused: false,
            single_prompt: false,
            unprompted: false,
            state: Some(State { status: Status::Unknown, reason }),
            outcome: None,
            may_serve: false,
            may_have_resumed: false,
            cwd: None,
            stands_in: None,
            name: None,
            started_at: None,
            evidence: Vec::new(),
        }
    }

    /// Makes the claim of a server about one of its own sessions, which no process of this machine
    /// serves.
    #[must_use]
    pub fn kept(id: String, state: State, outcome: Option<Outcome>) -> Self {
        Self { hosted: true, state: Some(state), outcome, ..Self::unseen(id, "") }
    }

    /// Makes the claim that this process serves that session.
    #[must_use]
    pub fn by(id: Option<String>, process: &Process) -> Self {
        Self {
            id,
            by: vec![process.id.clone()],
            join: Join::Proved,
            hosted: false,
            paused: process.paused,
            single_prompt: false,
            unprompted: false,
            state: None,
            outcome: None,
            may_serve: false,
            may_have_resumed: false,
            cwd: None,
            stands_in: process.cwd.as_ref().map(|p| p.to_string_lossy().into_owned()),
            name: None,
            started_at: process.started_at,
            evidence: Vec::new(),
        }
    }
}

impl Turn {
    /// Says it in a few words.
    #[must_use]
    pub fn says(&self) -> String {
        match self {
            Self::None => "no turn has begun".into(),
            Self::Open { asks: Some(reason), .. } => {
                format!("the last turn waits for an answer ({})", reason.kind.word())
            }
            Self::Open { retrying: Some(why), .. } => {
                format!("the model call is tried again: {why}")
            }
            Self::Open { tool: Some(tool), .. } => format!("the last turn is open in {tool}"),
            Self::Open { .. } => "the last turn is open".into(),
            Self::Finished => "the last turn finished".into(),
            Self::Failed(why) => format!("the last turn failed: {why}"),
            Self::Interrupted => "the last turn was interrupted".into(),
            Self::Over(why) => format!("the last turn is over, how is not known: {why}"),
            Self::Undecided(why) | Self::Unreadable(why) => why.clone(),
        }
    }
}

/// The state of a session's last turn, from its own record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Turn {
    /// There has been none yet.
    #[default]
    None,
    /// It goes on, or its process ended before it could write an end.
    Open {
        /// The tool call that has no result yet.
        tool: Option<String>,
        /// The model call failed and is being retried; the agent's own message.
        retrying: Option<String>,
        /// Only a human can answer the open call: a question, a plan.
        asks: Option<Reason>,
        /// A human may be needed, but only the agent's own terminal says so.
        #[serde(deserialize_with = "maybe_word")]
        doubt: Option<InternedName>,
    },
    /// It was completed.
    Finished,
    /// It ended in an error.
    Failed(String),
    /// A person interrupted it.
    Interrupted,
    /// The turn is over and the record does not say how it ended; the text names the missing fact.
    Over(String),
    /// The record is fine, but within our budget it does not say.
    Undecided(String),
    /// The record could not be read.
    Unreadable(String),
}

/// The content of a session's own record.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Record {
    /// The server of this session answers that it does not exist (any more): it is not listed.
    pub absent: bool,
    /// A second native key, where the agent has one.
    pub native_key: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The model it last used.
    pub model: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// A name given by a person.
    pub name: Option<String>,
    /// The first prompt.
    pub prompt: Option<String>,
    /// When it began.
    pub started_at: Option<Time>,
    /// Its newest entry.
    pub last_activity_at: Option<Time>,
    /// When it ended, where written.
    pub ended_at: Option<Time>,
    /// How its process ended, where written.
    pub exit: Option<Exit>,
    /// The state of the last turn.
    pub turn: Turn,
    /// When the last turn ended, where entries may stand behind its end that belong to no turn.
    #[serde(default)]
    pub turn_ended_at: Option<Time>,
    /// Of a subagent: its open turn is older than the process that serves its parent now.
    #[serde(default)]
    pub left_behind: bool,
    /// The parent session, for a subagent.
    pub parent: Option<String>,
    /// Tokens, at [`Depth::Whole`](super::Depth::Whole) only, and only if all of them were counted.
    pub tokens: Option<Tokens>,
    /// The agent's own complete cost figure, at [`Depth::Whole`](super::Depth::Whole) only.
    pub cost_usd: Option<f64>,
    /// The number of prompts in the session's own file, at [`Depth::Whole`](super::Depth::Whole) only; `None`
    /// where a server or a database keeps the conversation.
    #[serde(skip)]
    pub turns: Option<u64>,
    /// Facts that a person should read.
    pub notes: Vec<String>,
    /// Its home is known only from a process, not from the user's settings.
    #[serde(default)]
    pub foreign: bool,
    /// The observations that this claim is made from.
    pub evidence: Vec<Evidence>,
    /// The agent's own id of the tool call that is open.
    #[serde(default)]
    pub open_call: Option<String>,
    /// The file that decided the state of the last turn, as it was before it was read.
    #[serde(skip)]
    pub stamp: Option<file::Stamp>,
}

impl Record {
    /// Says whether the file of this record is unchanged, so that reading it again gives the same
    /// record.
    #[must_use]
    pub fn is_unchanged(&self, locator: &Locator) -> bool {
        let now = locator.path.as_deref().and_then(file::Stamp::now);
        self.stamp.is_some() && self.stamp == now
    }
}

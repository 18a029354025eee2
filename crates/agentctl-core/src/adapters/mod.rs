//! One file per agent. An adapter **describes** (where its files are, what they say, which process is
//! its own); the core acts. It never spawns, signals, prints or reads the environment by itself.
//!
//! To add an agent: one file here, one line in [`ALL`], one fixture folder. CONTRIBUTING.md walks
//! through it with [`demo`] as the example.

pub mod claude_code;
pub mod codex;
pub mod control;
mod declared;
pub mod demo;
pub mod launchers;
pub mod openclaw;
pub mod opencode;
pub mod pi;
pub mod pi_rust;
pub mod proof;
mod recall;
mod root;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use self::control::Control;
pub use self::declared::{
    CallbackFields, Setting, Settings, Variables, variable_named_by_settings,
};
pub use self::root::{Root, existing_roots, with_homes_of_the_living};
use crate::host::Host;
use crate::kernel::{Brief, Liveness, Process, Table};
use crate::model::{
    Evidence, Exit, Fault, InternedName, Join, Locator, Message, Outcome, ProcId, Reason,
    ReasonKind, Session, Status, Time, Tokens, maybe_word,
};
use crate::native::file;
use crate::talk::Pushing;

/// Every adapter there is. The order is the order of `agentctl adapters`.
pub static ALL: &[&dyn Adapter] = &[
    &claude_code::ClaudeCode,
    &codex::Codex,
    &opencode::OpenCode,
    &pi::Pi,
    &pi_rust::PiRust,
    &openclaw::OpenClaw,
    &demo::Demo,
];

/// One look at the world: what an adapter may use to answer. Everything is handed in.
#[derive(Clone, Debug)]
pub struct Look {
    /// The world.
    pub host: Arc<Host>,
    /// The candidates of all adapters in the process table, taken once per question.
    pub table: Arc<Table>,
    /// When the answer must be there.
    pub deadline: Instant,
    /// When the look was taken.
    pub now: Time,
}

impl Look {
    /// Makes a piece of evidence, dated now.
    #[must_use]
    pub fn evidence(&self, source: impl Into<String>, says: impl Into<String>) -> Evidence {
        Evidence { source: source.into(), says: says.into(), at: self.now }
    }

    /// Returns the values of these variables in the environment of a process of the table. Each process is
    /// asked once in a look, however many homes there are.
    pub fn environ(&self, process: &Process, names: &[&str]) -> io::Result<Vec<Option<String>>> {
        self.table.environs.get(&process.id, names, || self.host.kernel.environ(&process.id, names))
    }

    /// Returns all processes of this user, not only the candidates. They are read once in a look, however
    /// many sessions are compared with them.
    #[must_use]
    pub fn everyone(&self) -> &Table {
        let read = || Arc::new(self.host.kernel.table(self.deadline, |_| true));
        self.table.everyone.get_or_init(read)
    }

    /// Says whether a process of the table has ended since that was read.
    #[must_use]
    pub fn has_ended(&self, process: &Process) -> bool {
        self.host.kernel.liveness(&process.id) == Liveness::Gone
    }
}

/// What was found and what went wrong. Absence means something only if `whole`.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The findings.
    pub rows: Vec<T>,
    /// What failed beside them.
    pub faults: Vec<Fault>,
    /// Nothing that could hold a finding was left unread.
    pub whole: bool,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), faults: Vec::new(), whole: true }
    }
}

impl<T> Found<T> {
    /// Returns one fault and no finding.
    #[must_use]
    pub fn fault(fault: Fault) -> Self {
        Self { rows: Vec::new(), faults: vec![fault], whole: false }
    }
}

/// A state a live source claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The status.
    pub status: Status,
    /// Its finer grain.
    pub reason: Option<Reason>,
}

/// Who serves what right now, as the vendor's live records, its protocol or the kernel say.
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
    /// It may be without a prompt so far: a record without a turn then means that the session rests. Where
    /// this is not set, such a record (deleted, cut, or never written) says nothing about the process.
    pub unprompted: bool,
    /// What the live source says it is doing; `None` where the transcript must decide.
    pub state: Option<State>,
    /// How its last turn ended, as a server says whose sessions have no process here.
    pub outcome: Option<Outcome>,
    /// For a process without a session: it may be serving one of its directory all the same.
    pub may_serve: bool,
    /// For a process without a session: it may have taken up any session of its directory, however old,
    /// without having written to it. No session of that directory is then known to be over.
    pub may_have_resumed: bool,
    /// Where it works, as the live source says.
    pub cwd: Option<String>,
    /// Where its process stands: good enough where nothing else says where it works.
    pub stands_in: Option<String>,
    /// The name the live record gives it.
    pub name: Option<String>,
    /// When the session or its process began.
    pub started_at: Option<Time>,
    /// What this rests on.
    pub evidence: Vec<Evidence>,
}

impl Served {
    /// Returns the directory of a process that serves no known session.
    #[must_use]
    pub fn directory(&self) -> Option<&str> {
        self.cwd.as_deref().or(self.stands_in.as_deref())
    }

    /// Makes the claim that somebody we cannot see serves that session.
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

    /// Makes the claim of a server about one of its own sessions, which no process here serves.
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

/// Where the last turn of a session stands, as its own record says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Turn {
    /// There has been none yet.
    #[default]
    None,
    /// It goes on; or nobody lived to end it.
    Open {
        /// The tool call that has no result yet.
        tool: Option<String>,
        /// The model call failed and is being tried again: what the agent said.
        retrying: Option<String>,
        /// The open call is one that only a human can answer: a question, a plan.
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
    /// It is over, and the record does not say how it ended: what is missing.
    Over(String),
    /// The record is fine, but within our budget it does not say.
    Undecided(String),
    /// The record could not be read.
    Unreadable(String),
}

/// What a session's own record says.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Record {
    /// Its keeper says that there is no such session (any more): it is no row.
    pub absent: bool,
    /// A second native key, where the agent has one.
    pub native_key: Option<String>,
    /// Where it works.
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
    /// Where the last turn stands.
    pub turn: Turn,
    /// When the last turn ended, where entries may stand behind its end that belong to no turn.
    #[serde(default)]
    pub turn_ended_at: Option<Time>,
    /// The parent session, for a subagent.
    pub parent: Option<String>,
    /// Tokens, at [`Depth::Whole`] only, and only if all of them were counted.
    pub tokens: Option<Tokens>,
    /// The agent's own complete cost figure, at [`Depth::Whole`] only.
    pub cost_usd: Option<f64>,
    /// Facts worth a person's eye.
    pub notes: Vec<String>,
    /// The folder it lies in is one that only a process named.
    #[serde(default)]
    pub foreign: bool,
    /// What this rests on.
    pub evidence: Vec<Evidence>,
    /// The agent's own id of the tool call that is open.
    #[serde(default)]
    pub open_call: Option<String>,
    /// The one file that decided where the last turn stands, as it was before it was read.
    #[serde(skip)]
    pub stamp: Option<file::Stamp>,
}

impl Record {
    /// Says whether reading it again would say the same.
    #[must_use]
    pub fn is_unchanged(&self, locator: &Locator) -> bool {
        let now = locator.path.as_deref().and_then(file::Stamp::now);
        self.stamp.is_some() && self.stamp == now
    }
}

/// A conversation that a server keeps: its messages as native lines, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// What was said.
    pub lines: Vec<Vec<u8>>,
    /// What is being said: it will be said again when it is whole.
    pub unfinished: Option<Vec<u8>>,
}

/// How much of a record is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Head and tail: everything but tokens and cost.
    Outline,
    /// Everything.
    Whole,
}

/// One home of one agent, open for one question. Nothing in it outlives the question.
///
/// Methods run on worker threads, may block on files, must bound what they read, and never panic on
/// what they find.
pub trait Store: Sync {
    /// Returns who serves what right now.
    fn live(&self) -> Found<Served>;

    /// Returns the sessions written since then, by name; subagents are left out.
    fn history(&self, since_ms: Option<i64>) -> Found<Locator>;

    /// Looks for a session where one of this whole id must be, listing nothing: a quick first try.
    fn expected(&self, _id: &str) -> Option<Locator> {
        None
    }

    /// Finds sessions whose id begins with this text, by name, over all history.
    fn find(&self, prefix: &str) -> Found<Locator> {
        let mut found = self.history(None);
        found.rows.retain(|locator| locator.id.starts_with(prefix));
        found
    }

    /// Finds sessions of this exact name where an index holds names; opens no transcript.
    fn named(&self, _name: &str) -> Found<Locator> {
        Found::default()
    }

    /// Reads one session's record.
    fn record(&self, locator: &Locator, depth: Depth) -> Record;

    /// Returns the open turn of a subagent, if one of a live session is still at work.
    fn open_child(&self, _locator: &Locator) -> Option<Turn> {
        None
    }

    /// Returns the subagents of a session.
    fn children(&self, _locator: &Locator) -> Found<Locator> {
        Found::default()
    }

    /// Returns a session's conversation where no file holds it; `None` where one does.
    fn conversation(&self, _locator: &Locator) -> Option<Result<Conversation, Fault>> {
        None
    }

    /// Returns the directories and files where a change of this session shows: a hint to look again.
    fn watched(&self, _locator: &Locator) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the directories and files where it shows that a session of this home begins, or goes on
    /// that nobody followed: a hint to look.
    fn beginnings(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the servers that say by themselves when any session of this home changes.
    fn announcing(&self) -> Vec<Pushing> {
        Vec::new()
    }

    /// Returns the server that says by itself when this session changes, where one does.
    fn pushing(&self, _session: &Session) -> Option<Pushing> {
        None
    }
}

/// What an adapter can do, for `agentctl adapters`.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Sees live sessions, whoever started them.
    pub live: bool,
    /// Sees ended sessions.
    pub history: bool,
    /// Sees when a human is needed.
    pub waiting: &'static str,
    /// Knows tokens.
    pub tokens: bool,
    /// Knows cost.
    pub cost: bool,
    /// Sees subagents.
    pub subagents: bool,
}

/// Whether and where an agent is installed.
#[derive(Clone, Debug, Default)]
pub struct Installation {
    /// Its program, when it is on the PATH.
    pub program: Option<PathBuf>,
    /// Its version, when a file beside the program says so.
    pub version: Option<String>,
}

/// One coding agent: where its truth lies. Implementations describe; the core acts.
pub trait Adapter: Sync {
    /// Returns its name on the command line.
    fn name(&self) -> &'static str;

    /// Returns what it can do.
    fn capabilities(&self) -> Capabilities;

    /// Says whether a process deserves a closer look. Called for every process of the user: cheap.
    fn is_candidate(&self, brief: Brief<'_>) -> bool;

    /// Returns where its homes are, or will be once it has run: default, environment, configuration.
    fn homes(&self, _host: &Host) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Says whether a process is this agent's own program, by its program file or script (name and package
    /// layout). Neither a record nor `argv[0]` alone makes it so: both can be written by anybody.
    fn is_own_program(&self, _look: &Look, _process: &Process) -> bool {
        false
    }

    /// Returns the home that a process uses, absolute, as its own environment, directory and open files
    /// say; `None` where that cannot be told.
    fn home_of(&self, _look: &Look, _process: &Process) -> Option<PathBuf> {
        None
    }

    /// Returns the home of a process if that is the agent's own program.
    fn home_of_own(&self, look: &Look, process: &Process) -> Option<PathBuf> {
        if self.is_own_program(look, process) { self.home_of(look, process) } else { None }
    }

    /// Returns its homes that are there, and those its live processes name.
    fn roots(&self, look: &Look) -> Vec<Root>;

    /// Says whether and where it is installed, without running it.
    fn installation(&self, host: &Host) -> Installation;

    /// Opens one home for one question.
    fn store<'a>(&'a self, look: &'a Look, root: &'a Root) -> Box<dyn Store + 'a>;

    /// Turns one native line into messages. A message with nothing but `usage` belongs to the one before.
    fn messages(&self, line: &[u8]) -> Vec<Message>;

    /// Returns the environment variables it reads; every read goes through this list.
    fn variables(&self) -> &'static Variables {
        &Variables::NONE
    }

    /// Returns what its table in the configuration file holds.
    fn settings(&self) -> Settings {
        Settings::None
    }

    /// Says whether the agent is a part of this program: it needs no installation, and a launch that names no
    /// agent never chooses it.
    fn is_built_in(&self) -> bool {
        false
    }

    /// Returns what cannot be told where the kernel does not show file locks, as a sentence for `doctor`.
    fn without_file_locks(&self) -> Option<&'static str> {
        None
    }

    /// Returns the fields of a webhook's `meta` that carry the callback of a launch for this agent.
    fn callback_fields(&self) -> Option<CallbackFields> {
        None
    }

    /// Returns how it is moved; `None` where it can only be looked at.
    fn control(&self) -> Option<&dyn Control> {
        None
    }
}

/// Reads the pid out of a file name like `42.json`. Only the canonical spelling counts: `042.json` and
/// `+42.json` would be further records of the same process.
#[must_use]
pub fn pid_of(name: &str, suffix: &str) -> Option<u32> {
    let digits = name.strip_suffix(suffix)?;
    let pid: u32 = digits.parse().ok()?;
    (pid.to_string() == digits).then_some(pid)
}

/// Makes a fault of this adapter about something in a home.
#[must_use]
pub fn fault(adapter: &'static str, root: &Root, code: &'static str, message: String) -> Fault {
    Fault { adapter, root: Some(root.label()), code, message }
}

/// Makes the fault for a file that was left out.
#[must_use]
pub fn skipped(adapter: &'static str, root: &Root, path: &Path, skip: &file::Skip) -> Fault {
    let shown = path.strip_prefix(&root.path).unwrap_or(path).display().to_string();
    fault(adapter, root, "skipped", format!("{shown} was skipped: {skip}"))
}

/// Makes the fault for a name in a session directory that is no regular file.
#[must_use]
pub fn not_regular(adapter: &'static str, root: &Root, entry: &file::Entry, uid: u32) -> Fault {
    let skip = file::open(&entry.path, uid).err().unwrap_or(file::Skip::Missing);
    skipped(adapter, root, &entry.path, &skip)
}

/// Returns the version that this npm package, or a versioned file name, declares for a program.
#[must_use]
pub fn version_beside(program: &Path, package_name: &str) -> Option<String> {
    let real = std::fs::canonicalize(program).ok()?;
    let folder_version = real.file_name()?.to_str().filter(|n| looks_like_version(n));
    if let Some(version) = folder_version {
        return Some(version.to_owned());
    }
    real.ancestors().skip(1).take(6).find_map(|dir| {
        let text = file::read_small_of_anybody(&dir.join("package.json"), 1 << 20).ok()?;
        let package: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let version = package.get("version")?.as_str()?.to_owned();
        (package.get("name")?.as_str()? == package_name).then_some(version)
    })
}

fn looks_like_version(name: &str) -> bool {
    let mut parts = name.split('.');
    parts.clone().count() >= 3
        && parts.all(|p| p.bytes().next().is_some_and(|b| b.is_ascii_digit()))
}

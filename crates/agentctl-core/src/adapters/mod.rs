//! One file per agent. An adapter **describes** (where the agent's files are, how they are read, which
//! processes are the agent's own); the core acts. An adapter never spawns, signals, prints or reads the
//! environment by itself.
//!
//! To add an agent: one file here, one line in [`ALL`], one fixture folder. CONTRIBUTING.md walks
//! through it with [`demo`] as the example.

pub mod answering;
pub mod asker;
mod cached;
pub mod changes;
mod claims;
pub mod claude_code;
pub mod codex;
pub mod control;
mod declared;
pub mod demo;
pub mod describe_ask;
pub mod launchers;
pub mod openclaw;
pub mod opencode;
pub mod pi;
pub mod pi_rust;
mod prompts;
pub mod proof;
mod root;
mod runtime;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use self::answering::Answering;
use self::changes::{ChangeNote, ChangesTold};
pub use self::claims::{Record, Served, State, Turn};
use self::control::Control;
pub use self::declared::{
    CallbackFields, Setting, Settings, Variables, variable_named_by_settings,
};
pub use self::prompts::PromptCounter;
pub use self::root::{Root, RootPlace, existing_roots, with_homes_of_the_living};
use crate::host::Host;
use crate::kernel::{Brief, Liveness, Process, Table};
use crate::model::{Ask, Evidence, Fault, FaultCode, Locator, Message, Session, Time};
use crate::native::file;
use crate::native::real_path::{Unresolved, real_path};
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

/// Returns the adapter that a person means by this name: its own name or an alias.
#[must_use]
pub fn adapter_called(
    adapters: &[&'static dyn Adapter],
    name: &str,
) -> Option<&'static dyn Adapter> {
    let is_meant =
        |adapter: &&&dyn Adapter| adapter.name() == name || adapter.aliases().contains(&name);
    adapters.iter().find(is_meant).copied()
}

/// Returns the shortest name of the first agent, for examples.
#[must_use]
pub fn example_name() -> &'static str {
    let names =
        ALL.iter().take(1).flat_map(|first| first.aliases().iter().copied().chain([first.name()]));
    names.min_by_key(|name| name.len()).unwrap_or_default()
}

/// One look at the world, for all questions that are answered from it. Adapters use nothing else.
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

    /// Returns the real path of a home that a process names, links resolved; the path as it is where it does
    /// not exist; `None` where it needs too many steps. Each path is resolved once in a look.
    #[must_use]
    pub fn home(&self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.table.homes.get(path) {
            return known;
        }
        let home = match real_path(path) {
            Ok(real) => Some(real),
            Err(Unresolved::TooLong) => None,
            // The directory may be created while we look, so this result is not cached.
            Err(Unresolved::Refused(_)) => return Some(path.to_owned()),
        };
        self.table.homes.keep(path, home.clone());
        home
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

/// Findings and faults. The absence of a finding is a proof only if `whole`.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The findings.
    pub rows: Vec<T>,
    /// The sources that could not be read.
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

/// A conversation that a server keeps: its messages as native lines, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// The finished messages.
    pub lines: Vec<Vec<u8>>,
    /// The message that is still being written; it is repeated once it is finished.
    pub unfinished: Option<Vec<u8>>,
}

/// Facts that a native line holds beside messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineFacts {
    /// The git branch of the session's directory.
    pub branch: Option<String>,
    /// The tokens of the context after the last model call.
    pub context_tokens: Option<u64>,
    /// The most tokens that the model takes.
    pub context_window: Option<u64>,
}

/// How much of a record is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The same as `Outline`; the first prompt may be left out where there is a title.
    Table,
    /// Head and tail: everything but tokens and cost.
    Outline,
    /// Everything.
    Whole,
}

/// One home of one agent, open for one question. Nothing in it outlives the question.
///
/// Methods run on worker threads, may block on files, must limit the bytes they read, and never panic
/// on the content of a file.
pub trait Store: Sync {
    /// Returns the sessions that are served right now, with the processes that serve them.
    fn live(&self) -> Found<Served>;

    /// Returns the sessions written since that time, from file names; subagents are left out.
    fn history(&self, since_ms: Option<i64>) -> Found<Locator>;

    /// Returns the same as [`Store::history`], and shows the id of every session that [`Store::find`] may
    /// return, subagents included. A table shortens its ids against these.
    fn history_seeing(&self, since_ms: Option<i64>, see: &mut dyn FnMut(&str)) -> Found<Locator> {
        for locator in self.find("").rows {
            see(&locator.id);
        }
        self.history(since_ms)
    }

    /// Looks for a session by its complete id at the one place where it must be, without listing a
    /// directory.
    fn expected(&self, _id: &str) -> Option<Locator> {
        None
    }

    /// Finds sessions whose id begins with this text, from file names, over the whole history.
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

    /// Returns the asks of a session that waits for a human, in full. No row means that only its status is
    /// known.
    fn asks(&self, _session: &Session) -> Found<Ask> {
        Found::default()
    }

    /// Returns the open turn of a subagent, if one of a live session is still at work.
    fn open_child(&self, _locator: &Locator) -> Option<Turn> {
        None
    }

    /// Returns the subagents of a session.
    fn children(&self, _locator: &Locator) -> Found<Locator> {
        Found::default()
    }

    /// Returns a session's conversation where only a server has it; `None` where a file has it.
    fn conversation(&self, _locator: &Locator) -> Option<Result<Conversation, Fault>> {
        None
    }

    /// Returns the directories and files that change when this session changes: a hint to look again.
    fn watched(&self, _locator: &Locator) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the directories and files that change when a session of this home begins, or a session
    /// that is not watched continues: a hint to look.
    fn beginnings(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the servers that push a message when any session of this home changes.
    fn announcing(&self) -> Vec<Pushing> {
        Vec::new()
    }

    /// Returns the server that pushes a message when this session changes, if there is one.
    fn pushing(&self, _session: &Session) -> Option<Pushing> {
        None
    }
}

/// The capabilities of an adapter, for `agentctl adapters`.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Sees live sessions, no matter how they were started.
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
    /// How much its records hold about changed files.
    pub changes: ChangesTold,
}

/// Whether and where an agent is installed.
#[derive(Clone, Debug, Default)]
pub struct Installation {
    /// Its program, when it is on the PATH.
    pub program: Option<PathBuf>,
    /// Its version, when a file beside the program says so.
    pub version: Option<String>,
}

/// One coding agent. Implementations describe; the core acts.
pub trait Adapter: Sync {
    /// Returns its name on the command line.
    fn name(&self) -> &'static str;

    /// Returns the other names by which people call it.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns its capabilities.
    fn capabilities(&self) -> Capabilities;

    /// Says whether a process may be this agent. Called for every process of the user, so it must be
    /// cheap.
    fn is_candidate(&self, brief: Brief<'_>) -> bool;

    /// Returns the paths of its homes, existing or not: default, environment, configuration.
    fn homes(&self, _host: &Host) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Says whether a process is this agent's own program, by its program file or script (name and
    /// package layout). A record or `argv[0]` alone is no proof: any program can write both.
    fn is_own_program(&self, _look: &Look, _process: &Process) -> bool {
        false
    }

    /// Says whether a process may be this agent, if only by the name that it gives itself. A process below it
    /// counts as below an agent: it may not answer, and its launches are limited. Nothing acts on a suspect itself.
    fn is_suspect(&self, _process: &Process) -> bool {
        false
    }

    /// Returns the variables of this agent's tools, each with its value, where its sessions name no process. A process
    /// with one of them counts as a tool while a suspect of the agent lives.
    fn tool_variables(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns the absolute path of the home that a process uses, from its environment, directory and
    /// open files; `None` where these do not show it.
    fn home_of(&self, _look: &Look, _process: &Process) -> Option<PathBuf> {
        None
    }

    /// Returns the home of a process if that is the agent's own program.
    fn home_of_own(&self, look: &Look, process: &Process) -> Option<PathBuf> {
        if self.is_own_program(look, process) { self.home_of(look, process) } else { None }
    }

    /// Returns its existing homes and the homes that its live processes name.
    fn roots(&self, look: &Look) -> Vec<Root>;

    /// Says whether and where it is installed, without running it.
    fn installation(&self, host: &Host) -> Installation;

    /// Opens one home for one question.
    fn store<'a>(&'a self, look: &'a Look, root: &'a Root) -> Box<dyn Store + 'a>;

    /// Turns one native line into messages. A message with nothing but `usage` belongs to the one before.
    fn messages(&self, line: &[u8]) -> Vec<Message>;

    /// Returns the facts beside messages that this native line holds.
    fn line_facts(&self, _line: &[u8]) -> LineFacts {
        LineFacts::default()
    }

    /// Returns what this native line says about changed files and shell commands. Called for every line of a
    /// conversation, so it must be cheap for other lines.
    fn changes(&self, _line: &[u8]) -> Vec<ChangeNote> {
        Vec::new()
    }

    /// Returns the environment variables it reads; every read goes through this list.
    fn variables(&self) -> &'static Variables {
        &Variables::NONE
    }

    /// Returns the content of its table in the configuration file.
    fn settings(&self) -> Settings {
        Settings::None
    }

    /// Says whether the agent is a part of this program: it needs no installation, and a launch that names no
    /// agent never chooses it.
    fn is_built_in(&self) -> bool {
        false
    }

    /// Returns the consequence for this agent where the kernel does not show file locks, as a sentence
    /// for `doctor`.
    fn without_file_locks(&self) -> Option<&'static str> {
        None
    }

    /// Returns the fields of a webhook's `meta` that carry the callback of a launch for this agent.
    fn callback_fields(&self) -> Option<CallbackFields> {
        None
    }

    /// Returns the way to answer and to speak to its live sessions; `None` where there is none.
    fn answering(&self) -> Option<&dyn Answering> {
        None
    }

    /// Returns its control; `None` where sessions can only be observed.
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
pub fn fault(adapter: &'static str, root: &Root, code: FaultCode, message: String) -> Fault {
    Fault { adapter, root: Some(root.label()), code, message }
}

/// Makes the fault for a file that was left out.
#[must_use]
pub fn skipped(adapter: &'static str, root: &Root, path: &Path, skip: &file::Skip) -> Fault {
    let shown = path.strip_prefix(root.path()).unwrap_or(path).display().to_string();
    fault(adapter, root, FaultCode::Skipped, format!("{shown} was skipped: {skip}"))
}

/// Makes the fault for a name in a session directory that is no regular file.
#[must_use]
pub fn not_regular(
    adapter: &'static str,
    root: &Root,
    entry: &file::DirectoryEntry,
    uid: u32,
) -> Fault {
    let skip = file::open(&entry.path, uid).err().unwrap_or(file::Skip::Missing);
    skipped(adapter, root, &entry.path, &skip)
}

/// Returns the version that this npm package, or a versioned file name, declares for a program.
#[must_use]
pub fn version_beside(program: &Path, package_name: &str) -> Option<String> {
    let real = real_path(program).ok()?;
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

//! How an agent is moved: what starts it, what its first words mean, how it is asked to stop.
//!
//! An adapter only describes; `launch`, `stop` and `wait` act. An agent that cannot be moved from here
//! has no [`Control`], and says so in `agentctl adapters`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::{Look, Root, RootPlace};
use crate::host::Host;
use crate::model::Session;

/// How much an agent may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permissions {
    /// What the agent itself does when nothing is said.
    #[default]
    Default,
    /// Files of its directory may be changed without asking.
    Edits,
    /// Everything, without asking.
    Bypass,
}

/// What a new process of an agent begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "session")]
pub enum Begin {
    /// A session of its own.
    New,
    /// This session, continued.
    Resume(String),
    /// A new session that knows what this one knew.
    Fork(String),
}

/// What is wanted of an agent. The prompt itself is not here: it comes on stdin, as a regular file.
#[derive(Clone, Debug)]
pub struct Order {
    /// What it begins with.
    pub begin: Begin,
    /// Where it works, links resolved.
    pub cwd: PathBuf,
    /// The model, in the agent's own words.
    pub model: Option<String>,
    /// The session's name.
    pub name: Option<String>,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// Further arguments, as given by the user.
    pub extra: Vec<OsString>,
    /// The home of the session that is continued; `None` for the agent's usual one.
    pub root: Option<RootPlace>,
}

impl Order {
    /// Returns the directory of the session that is continued; `None` for the agent's usual home.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.root.as_ref()?.directory()
    }
}

/// The command that carries an order out.
#[derive(Clone, Debug)]
pub struct Start {
    /// The program file.
    pub program: PathBuf,
    /// Its arguments: never the prompt, never a secret.
    pub args: Vec<OsString>,
    /// Variables set for it.
    pub set: Vec<(String, String)>,
    /// Variables taken from it.
    pub unset: Vec<String>,
    /// The session id, where the agent lets us choose it (or it is known already).
    pub id: Option<String>,
    /// The agent keeps the name itself; otherwise only the run does.
    pub keeps_name: bool,
}

/// A command of the agent's own that must have succeeded before the agent can be started.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// The program file.
    pub program: PathBuf,
    /// Its arguments: never the prompt, never a secret.
    pub args: Vec<OsString>,
    /// What it reads from its stdin.
    pub input: Vec<u8>,
}

/// Why an order cannot be carried out at all.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// One sentence.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Refusal {
    /// Makes a refusal with a hint.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()) }
    }
}

/// What a new process has said so far.
#[derive(Clone, Copy, Debug)]
pub struct FirstWords<'a> {
    /// The beginning of its stdout.
    pub stdout: &'a [u8],
    /// The beginning of its stderr.
    pub stderr: &'a [u8],
}

impl FirstWords<'_> {
    /// Returns the whole lines of stdout as JSON, those that are.
    pub fn json_lines(&self) -> impl Iterator<Item = serde_json::Value> {
        let whole = memchr::memrchr(b'\n', self.stdout).map_or(0, |end| end + 1);
        let lines = self.stdout[..whole].split(|b| *b == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok())
    }
}

/// What the first words mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Nothing yet.
    Wait,
    /// It is up, and this is its real session id.
    Up(String),
    /// This is its session id, but a refusal may follow: worth this much more time for another word.
    Nearly(String, Duration),
    /// It says that it cannot.
    Failed(String),
}

/// How a session is stopped.
#[derive(Debug)]
pub enum Stop {
    /// Its own process is asked by these signals, each with the time it is given; then SIGKILL.
    Signals(&'static [(Signal, Duration)]),
    /// The agent's own command does it: its process would be respawned, or is not its own.
    Run {
        /// The program file.
        program: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
        /// Variables set for it.
        set: Vec<(String, String)>,
    },
    /// The server that hosts it is asked: see [`Control::interrupt`].
    Ask,
    /// It cannot be stopped from here, and why.
    Refuse(String),
}

/// A variable by which an agent marks the processes it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The variable.
    pub name: &'static str,
    /// Its value in everything this session started.
    pub value: String,
}

/// What `agentctl adapters` says about moving an agent.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// A session can be forked.
    pub fork: bool,
    /// What `--permissions edits` means to it.
    pub edits: &'static str,
    /// What `--permissions bypass` means to it.
    pub bypass: &'static str,
    /// How it is stopped, in a few words.
    pub stop: &'static str,
}

/// How one agent is moved. Implementations describe; the core acts.
pub trait Control: Sync {
    /// Returns what it can do.
    fn abilities(&self) -> Abilities;

    /// Returns the command that carries out an order; the prompt will be its stdin.
    fn start(&self, host: &Host, order: &Order) -> Result<Start, Refusal>;

    /// Returns what has to be run before this start, in the same directory and environment.
    fn prepare(&self, _host: &Host, _order: &Order, _start: &Start) -> Vec<Preparation> {
        Vec::new()
    }

    /// Returns how many characters of a prompt it reads; `None` where nothing is known to be too long.
    fn longest_prompt(&self) -> Option<usize> {
        None
    }

    /// Says what the first words of a new process mean that was started for this order.
    fn handshake(&self, host: &Host, order: &Order, words: &FirstWords<'_>) -> Handshake;

    /// Says whether a session that its own live record names has begun in earnest: a refusal is not
    /// to be expected any more.
    fn is_up(&self, _session: &Session) -> bool {
        true
    }

    /// Returns what to do about these last words of a process that failed.
    fn advice(&self, _words: &str) -> Option<&'static str> {
        None
    }

    /// Returns how to stop this session, or this process without one.
    fn stop(&self, look: &Look, root: &Root, session: &Session) -> Stop;

    /// Asks the server that hosts a session to end its turn; returns what it answered.
    fn interrupt(&self, _look: &Look, _root: &Root, _session: &Session) -> Result<String, String> {
        Err("it has no server to ask".into())
    }

    /// Returns how its sessions are moved where they live in a server that is asked for everything; `None`
    /// where they have processes here.
    fn remote(&self) -> Option<&dyn Remote> {
        None
    }

    /// Returns the variables by which what a session started can be told.
    fn marks(&self, _session: &Session) -> Vec<Mark> {
        Vec::new()
    }

    /// Returns the variables this agent sets for what it starts: taken from a launch inside it.
    fn own_variables(&self) -> &'static [&'static str] {
        &[]
    }
}

/// A session that a server began or continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The agent's own session id.
    pub session: String,
    /// The server, by its label.
    pub root: String,
}

/// Why a server did not begin what was wanted.
#[derive(Clone, Debug)]
pub enum Unbegun {
    /// It said no, or it was not asked.
    Refused(Refusal),
    /// It did not answer: whether it began is not known.
    Unclear(String),
}

impl From<Refusal> for Unbegun {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// How sessions are moved that live in a server: no process, no directory and no run of ours. They are
/// stopped by [`Control::interrupt`].
pub trait Remote: Sync {
    /// Has an order carried out with this message; returns once the server says that it has it.
    fn begin(&self, look: &Look, order: &Order, message: &str) -> Result<Begun, Unbegun>;
}

//! How an agent is controlled: the command that starts it, the meaning of its first output, and the way
//! it is asked to stop.
//!
//! An adapter only describes; `launch`, `stop` and `wait` act. An agent that cannot be controlled from
//! here has no [`Control`], and `agentctl adapters` shows that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Look, Root, RootPlace};
use crate::host::Host;
use crate::model::{ProcId, Session};
use crate::talk::Pushing;

/// How much an agent may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Permissions {
    /// The agent's own default.
    #[default]
    Default,
    /// Files of its directory may be changed without asking.
    Edits,
    /// Everything, without asking.
    Bypass,
}

/// The session that a new process of an agent begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "session")]
pub enum Begin {
    /// A session of its own.
    New,
    /// This session, continued.
    Resume(String),
    /// A new session that starts with a copy of this conversation.
    Fork(String),
}

/// An order to an agent: which session, where, with which options. The prompt is not part of it: the
/// agent reads it from stdin, which is a regular file.
#[derive(Clone, Debug)]
pub struct Order {
    /// The session it begins with.
    pub begin: Begin,
    /// The directory in which the agent works, links resolved.
    pub cwd: PathBuf,
    /// The model, in the agent's own words.
    pub model: Option<String>,
    /// The session's name.
    pub name: Option<String>,
    /// The actions it may take without asking.
    pub permissions: Permissions,
    /// Further arguments, as given by the user.
    pub extra: Vec<OsString>,
    /// The home of the session that is continued; `None` for the agent's usual one.
    pub root: Option<RootPlace>,
    /// The agent may ask a human, and waits this long for each answer.
    pub ask: Option<Duration>,
    /// The agent stays when its turn is over, and takes messages.
    pub keep: bool,
}

impl Order {
    /// Returns the order to continue a session without further options.
    #[must_use]
    pub fn resume(id: String, cwd: PathBuf, root: RootPlace) -> Self {
        Self {
            begin: Begin::Resume(id),
            cwd,
            model: None,
            name: None,
            permissions: Permissions::Default,
            extra: Vec::new(),
            root: Some(root),
            ask: None,
            keep: false,
        }
    }

    /// Says whether the agent must be reachable while it works: it may ask a human, or takes messages.
    #[must_use]
    pub fn is_attended(&self) -> bool {
        self.ask.is_some() || self.keep
    }

    /// Returns the id of the session that is continued; empty for a new one.
    #[must_use]
    pub fn session(&self) -> &str {
        match &self.begin {
            Begin::New => "",
            Begin::Resume(id) | Begin::Fork(id) => id,
        }
    }

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
    /// How the agent gets its prompt and later messages.
    pub stdin: StartStdin,
}

/// The standard input of a started agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartStdin {
    /// A regular file with the prompt: the agent reads it to its end.
    #[default]
    Prompt,
    /// A pipe that never ends. It begins with [`Control::first_line`], and takes further lines as long as the
    /// agent lives.
    Pipe,
}

impl Start {
    /// Returns the same command with other arguments: program, home and variables stay.
    #[must_use]
    pub fn with_args(self, args: impl IntoIterator<Item = OsString>) -> Self {
        Self { args: args.into_iter().collect(), ..self }
    }
}

/// A command of the agent's own that must have succeeded before the agent can be started.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// The program file.
    pub program: PathBuf,
    /// Its arguments: never the prompt, never a secret.
    pub args: Vec<OsString>,
    /// The bytes that it reads from its stdin.
    pub input: Vec<u8>,
}

/// Why an order cannot be carried out at all.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// One sentence.
    pub message: String,
    /// A suggestion that would solve the problem.
    pub hint: Option<String>,
}

impl Refusal {
    /// Makes a refusal with a hint.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()) }
    }
}

/// The first output of a new process.
#[derive(Clone, Copy, Debug)]
pub struct FirstWords<'a> {
    /// The beginning of its stdout.
    pub stdout: &'a [u8],
    /// The beginning of its stderr.
    pub stderr: &'a [u8],
}

impl FirstWords<'_> {
    /// Returns the complete lines of stdout that are JSON.
    pub fn json_lines(&self) -> impl Iterator<Item = serde_json::Value> {
        let whole = memchr::memrchr(b'\n', self.stdout).map_or(0, |end| end + 1);
        let lines = self.stdout[..whole].split(|b| *b == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok())
    }
}

/// The meaning of the first output of a new process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Nothing yet.
    Wait,
    /// It is up, and this is its real session id.
    Up(String),
    /// It named its session id, but an error may still follow: wait this much longer for one.
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

/// The abilities of an agent's [`Control`], for `agentctl adapters`.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// A session can be forked.
    pub fork: bool,
    /// The option of the agent that `--permissions edits` stands for.
    pub edits: &'static str,
    /// The option of the agent that `--permissions bypass` stands for.
    pub bypass: &'static str,
    /// How it is stopped, in a few words.
    pub stop: &'static str,
}

/// How one agent is started, resumed and stopped. Implementations describe; the core acts.
pub trait Control: Sync {
    /// Returns its abilities.
    fn abilities(&self) -> Abilities;

    /// Returns the command that carries out an order; the prompt will be its stdin.
    fn start(&self, host: &Host, order: &Order) -> Result<Start, Refusal>;

    /// Returns the command that opens the session of this order in the agent's own interface on a terminal. It is
    /// executed in the place of this program; there is no prompt. `None` where the agent has no such interface.
    fn interactive_resume(&self, _host: &Host, _order: &Order) -> Option<Result<Start, Refusal>> {
        None
    }

    /// Returns the commands to run before this start, in the same directory and environment.
    fn prepare(&self, _host: &Host, _order: &Order, _start: &Start) -> Vec<Preparation> {
        Vec::new()
    }

    /// Returns the first line of the standard input of an agent that is started with a pipe: its prompt, in the
    /// agent's own protocol.
    fn first_line(&self, _order: &Order, prompt: &str) -> Vec<u8> {
        let mut line = prompt.as_bytes().to_vec();
        line.push(b'\n');
        line
    }

    /// Returns the longest prompt that it reads, in characters; `None` where no limit is known.
    fn longest_prompt(&self) -> Option<usize> {
        None
    }

    /// Interprets the first output of a new process that was started for this order.
    fn handshake(&self, host: &Host, order: &Order, words: &FirstWords<'_>) -> Handshake;

    /// Says whether a session that its own live record names is past the point at which the agent still
    /// refuses orders.
    fn is_up(&self, _session: &Session) -> bool {
        true
    }

    /// Returns a hint for the user, from the last output of a process that failed.
    fn advice(&self, _words: &str) -> Option<&'static str> {
        None
    }

    /// Returns how to stop this session, or this process without one.
    fn stop(&self, look: &Look, root: &Root, session: &Session) -> Stop;

    /// Asks a session at rest to leave by itself, before the first signal; says whether it was asked.
    fn ask_to_leave(&self, _look: &Look, _session: &Session) -> bool {
        false
    }

    /// Asks the server that hosts a session to end its turn; returns the server's answer.
    fn interrupt(&self, _look: &Look, _root: &Root, _session: &Session) -> Result<String, String> {
        Err("it has no server to ask".into())
    }

    /// Returns the control of sessions that live in a server; `None` where sessions have processes
    /// here.
    fn remote(&self) -> Option<&dyn Remote> {
        None
    }

    /// Returns the control of a server that carries out the order of one run, where an attended order needs
    /// one; [`Control::start`] then describes that server.
    fn private_server(&self) -> Option<&dyn PrivateServer> {
        None
    }

    /// Returns the variables that mark the processes which a session started.
    fn marks(&self, _session: &Session) -> Vec<Mark> {
        Vec::new()
    }

    /// Returns the variables that this agent sets for its children. A launch from inside the agent
    /// removes them.
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

/// The reason why a server did not begin a session.
#[derive(Clone, Debug)]
pub enum Unbegun {
    /// The server refused, or was never asked.
    Refused(Refusal),
    /// The server did not answer: it may or may not have begun.
    Unclear(String),
}

impl From<Refusal> for Unbegun {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Control of sessions that live in a server: no process, no directory and no run of ours. They are
/// stopped by [`Control::interrupt`].
pub trait Remote: Sync {
    /// Has an order carried out with this message; returns once the server says that it has it.
    fn begin(&self, look: &Look, order: &Order, message: &str) -> Result<Begun, Unbegun>;
}

/// Control of a server that is started for one run. Its process is the process of the run, and nothing else is
/// done in it.
pub trait PrivateServer: Sync {
    /// Has the order carried out by this server; returns the session. `None` while the server does not answer:
    /// then nothing of the order was sent.
    fn begin(
        &self,
        look: &Look,
        server: &ProcId,
        order: &Order,
        message: &str,
    ) -> Result<Option<String>, Unbegun>;

    /// Says whether the server unloads a session that no client is connected for.
    fn needs_hold(&self) -> bool {
        false
    }

    /// Returns the connection that keeps a session loaded; `None` if the server cannot be reached.
    fn hold(&self, _look: &Look, _server: &ProcId, _session: &str) -> Option<Pushing> {
        None
    }
}

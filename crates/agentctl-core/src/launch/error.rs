//! The errors of a launch, each with one sentence for people.

use std::path::PathBuf;
use std::time::Duration;

use super::LaunchOrder;
use crate::adapters::control::Refusal;
use crate::kernel::Cancellation;
use crate::locks::Holder;
use crate::model::{Exit, Fault, Session};

/// The holder of a lock that the kernel does not name. Such a lock may be that of a launch of the same user in
/// another pid namespace, so it is respected.
const UNSEEN_HOLDER: &str = "a process that cannot be seen from here: the process that took it has exited \
                             and left it to another one, or lives in another pid namespace";

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The agent does not support this.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A remote server starts the session, and an option was given that only a local process supports.
    #[error("{agent} runs on a server: {flag} is not supported")]
    Unheeded {
        /// The adapter.
        agent: &'static str,
        /// The option.
        flag: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// The directory does not exist or cannot be entered.
    #[error("{} {why}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The directory is occupied by a session or locked by a person.
    #[error("{} is {}", directory.display(), held_by(holders))]
    Held {
        /// The directory.
        directory: PathBuf,
        /// The occupants.
        holders: Vec<Holder>,
    },
    /// Whether the directory is occupied is unknown.
    #[error("cannot tell whether {} is free: {}", directory.display(), missing(faults))]
    Unsure {
        /// The directory.
        directory: PathBuf,
        /// The sources that failed.
        faults: Vec<Fault>,
    },
    /// A live process serves the session that was to be continued.
    #[error("session {} is live ({}): cannot resume a running session", .0.id.as_deref().unwrap_or("-"), served(.0))]
    Served(Box<Session>),
    /// A live process may serve the session that was to be continued: only directory and start time match.
    #[error("session {} may be running in {}: only its directory and start time match", .0.id.as_deref().unwrap_or("-"), served(.0))]
    MayBeServed(Box<Session>),
    /// The session that was to be continued lies in a home that is not configured.
    #[error("cannot resume session {session}: {why}")]
    Objected {
        /// The session.
        session: String,
        /// The reason.
        why: String,
        /// A hint with an alternative.
        hint: Option<String>,
    },
    /// Whether a process serves the session is unknown.
    #[error("cannot tell whether session {session} is running: {why}")]
    Unclear {
        /// The session.
        session: String,
        /// Why not.
        why: String,
    },
    /// The agent started, but its record does not contain the message.
    #[error(
        "{agent} started, but the record of session {session} does not contain the message: {words}"
    )]
    Unheard {
        /// The adapter.
        agent: &'static str,
        /// The session.
        session: String,
        /// The agent's last output.
        words: String,
        /// A hint for the user.
        advice: Option<&'static str>,
    },
    /// Other launches held the directory's lock until the timeout.
    #[error("{} is locked by {}", directory.display(), by.as_deref().unwrap_or(UNSEEN_HOLDER))]
    Busy {
        /// The directory.
        directory: PathBuf,
        /// The process that holds the lock, where the kernel tells.
        by: Option<String>,
    },
    /// The agent exited with a failure before it told its session.
    #[error("{agent} exited immediately ({}): {words}", how(*exit))]
    Died {
        /// The adapter.
        agent: &'static str,
        /// How it ended.
        exit: Option<Exit>,
        /// The agent's last output.
        words: String,
        /// A hint for the user.
        advice: Option<&'static str>,
    },
    /// The agent reported an error.
    #[error("{agent}: {words}")]
    Failed {
        /// The adapter.
        agent: &'static str,
        /// The agent's error.
        words: String,
        /// A hint for the user.
        advice: Option<&'static str>,
    },
    /// The agent did not tell its session before the deadline and was ended.
    #[error("{agent} did not report a session id within {} ms and was stopped: {words}", limit.as_millis())]
    Silent {
        /// The adapter.
        agent: &'static str,
        /// The timeout.
        limit: Duration,
        /// The agent's output so far.
        words: String,
    },
    /// A signal called the launch off before the agent had told its session; the agent was ended.
    #[error("interrupted: {agent} had not told its session id and was stopped")]
    CalledOff {
        /// The adapter.
        agent: &'static str,
    },
    /// A signal called the launch off before the agent was started.
    #[error("interrupted: {agent} was not started")]
    NotBegun {
        /// The adapter.
        agent: &'static str,
    },
    /// The remote server did not answer: whether the session was started is unknown.
    #[error("{agent}: {why}")]
    Unanswered {
        /// The adapter.
        agent: &'static str,
        /// The reason.
        why: String,
    },
    /// The launch comes from below an agent, and the launched one would be too deep.
    #[error("the agent that launches is at depth {depth}, and the limit of the depth is {limit}")]
    TooDeep {
        /// The depth of the agent above this process.
        depth: u32,
        /// The greatest depth of a launched agent.
        limit: u32,
    },
    /// The launch comes from below an agent that has too many live agents already.
    #[error("{} has launched {alive} agents that live{}, and the limit is {limit}", parent.as_deref().unwrap_or("the agent above this process"), wanted(*more))]
    TooManyChildren {
        /// The agent above this process.
        parent: Option<String>,
        /// How many agents of it live.
        alive: usize,
        /// How many more were to be launched.
        more: usize,
        /// How many may live.
        limit: u32,
    },
    /// Whether the launch keeps to the limits of agents is unknown.
    #[error("cannot tell whether this launch keeps to the depth limit of agents: {why}")]
    UnknownDepth {
        /// The reason.
        why: String,
    },
    /// An operation on our own files or processes failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl LaunchOrder {
    /// Says whether the launch was called off.
    pub(super) fn is_called_off(&self) -> bool {
        self.cancellation.as_ref().is_some_and(Cancellation::is_cancelled)
    }

    /// Fails once the launch of an agent that was started was called off.
    pub(super) fn check_called_off(&self) -> Result<(), LaunchError> {
        if self.is_called_off() {
            return Err(LaunchError::CalledOff { agent: self.adapter.name() });
        }
        Ok(())
    }
}

fn wanted(more: usize) -> String {
    if more > 1 { format!(" and wants {more} more") } else { String::new() }
}

fn held_by(holders: &[Holder]) -> String {
    holders.iter().map(|h| h.what.as_str()).collect::<Vec<_>>().join(", ")
}

fn served(session: &Session) -> String {
    let pids: Vec<String> = session.processes.iter().map(|p| p.id.pid.to_string()).collect();
    let hosted = if session.hosted { ", which other sessions share" } else { "" };
    format!("pid {}{hosted}, {}", pids.join(", "), session.status.word())
}

fn missing(faults: &[Fault]) -> String {
    let said: Vec<String> =
        faults.iter().map(|f| format!("{}: {}", f.adapter, f.message)).collect();
    said.join("; ")
}

fn how(exit: Option<Exit>) -> String {
    match exit {
        Some(Exit { code: Some(code), .. }) => format!("exit {code}"),
        Some(Exit { signal: Some(signal), .. }) => format!("signal {signal}"),
        _ => "its parent was killed".into(),
    }
}

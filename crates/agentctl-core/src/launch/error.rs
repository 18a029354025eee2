//! Why a launch failed: matchable, each with one sentence for people.

use std::path::PathBuf;
use std::time::Duration;

use crate::adapters::control::Refusal;
use crate::locks::Holder;
use crate::model::{Exit, Fault, Session};

/// The holder of a lock that the kernel does not name. Such a lock may be that of a launch of the same user in
/// another pid namespace, so it is respected.
const UNSEEN_HOLDER: &str = "a lock whose holder cannot be seen from here: the process that took it has exited \
                             and left it to another one, or lives in another pid namespace";

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The agent cannot be asked for this.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A server carries it out, and something was asked for that only a process here could heed.
    #[error("{agent} runs on a server: {flag} cannot be heeded")]
    Unheeded {
        /// The adapter.
        agent: &'static str,
        /// What was asked for.
        flag: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// The directory is not there.
    #[error("{} is not a directory: {why}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Somebody works there, or has locked it.
    #[error("{} is {}", directory.display(), held_by(holders))]
    Held {
        /// The directory.
        directory: PathBuf,
        /// By whom.
        holders: Vec<Holder>,
    },
    /// Whether somebody works there could not be told.
    #[error("whether {} is free is unknown: {}", directory.display(), missing(faults))]
    Unsure {
        /// The directory.
        directory: PathBuf,
        /// Who could not be asked.
        faults: Vec<Fault>,
    },
    /// A live process serves the session that was to be continued.
    #[error("session {} is being served: {}", .0.id.as_deref().unwrap_or("-"), served(.0))]
    Served(Box<Session>),
    /// A live process may serve the session that was to be continued: only place and time say so.
    #[error("session {} may be served by {}: only its directory and start time say so", .0.id.as_deref().unwrap_or("-"), served(.0))]
    MayBeServed(Box<Session>),
    /// The session that was to be continued lies where nothing may be acted on.
    #[error("session {session} is not continued: {why}")]
    Objected {
        /// The session.
        session: String,
        /// The reason.
        why: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// Whether anyone serves it could not be told.
    #[error("whether session {session} is being served is unknown: {why}")]
    Unclear {
        /// The session.
        session: String,
        /// Why not.
        why: String,
    },
    /// The agent came up, but its record does not hold the message.
    #[error("{agent} came up, but the message is not in the record of session {session}: {words}")]
    Unheard {
        /// The adapter.
        agent: &'static str,
        /// The session.
        session: String,
        /// What the agent said last.
        words: String,
        /// What to do about it.
        advice: Option<&'static str>,
    },
    /// Others were launching there all the time.
    #[error("{} is being held by {}", directory.display(), by.as_deref().unwrap_or(UNSEEN_HOLDER))]
    Busy {
        /// The directory.
        directory: PathBuf,
        /// By whom, where the kernel tells.
        by: Option<String>,
    },
    /// The agent ended at once, and not well.
    #[error("{agent} ended at once ({}): {words}", how(*exit))]
    Died {
        /// The adapter.
        agent: &'static str,
        /// How it ended.
        exit: Option<Exit>,
        /// What it said last.
        words: String,
        /// What to do about it.
        advice: Option<&'static str>,
    },
    /// The agent said that it cannot.
    #[error("{agent}: {words}")]
    Failed {
        /// The adapter.
        agent: &'static str,
        /// What it said.
        words: String,
        /// What to do about it.
        advice: Option<&'static str>,
    },
    /// The agent did not tell its session in time.
    #[error("{agent} did not tell its session within {} ms and was ended: {words}", limit.as_millis())]
    Silent {
        /// The adapter.
        agent: &'static str,
        /// How long it was given.
        limit: Duration,
        /// What it said so far.
        words: String,
    },
    /// The server that was to carry it out did not answer: whether it did is not known.
    #[error("{agent}: {why}")]
    Unanswered {
        /// The adapter.
        agent: &'static str,
        /// What is known.
        why: String,
    },
    /// Something of ours failed.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
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

//! What a table says of a session. A row is made where the sessions are, here or in the daemon, and drawn
//! where the terminal is.

use std::borrow::Cow;

use agentctl_core::host::Host;
use agentctl_core::model::{ReasonKind, Session, Status, Time};
use serde::{Deserialize, Serialize};

use crate::text::in_one_line;

/// One session, as much of it as a table shows.
#[derive(Debug, Deserialize, Serialize)]
pub struct Row<'a> {
    /// What it is doing.
    pub status: Status,
    /// The adapter that found it.
    pub adapter: Cow<'a, str>,
    /// The agent's own session id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    /// The process that serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The session this one is a subagent of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Cow<'a, str>>,
    /// Its last activity, or when it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Time>,
    /// Where it works, in short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// What it is about.
    pub what: String,
}

impl<'a> Row<'a> {
    /// Makes the row of a session.
    #[must_use]
    pub fn of(host: &Host, session: &'a Session) -> Self {
        Self {
            status: session.status,
            adapter: session.adapter.into(),
            id: session.id.as_deref().map(Cow::from),
            pid: session.pid,
            parent: session.parent.as_deref().map(Cow::from),
            when: session.last_activity_at.or(session.started_at),
            directory: session.cwd.as_deref().map(|cwd| directory(host, cwd)),
            what: what(session),
        }
    }

    /// Makes the rows of these sessions.
    #[must_use]
    pub fn all(host: &Host, sessions: &'a [Session]) -> Vec<Self> {
        sessions.iter().map(|session| Self::of(host, session)).collect()
    }
}

/// The reason first, since it is what a person must act on; then the title.
fn what(session: &Session) -> String {
    let reason = session.reason.as_ref().map(|r| match &r.detail {
        // What a tool does says by itself that it is a tool.
        Some(detail) if r.kind == ReasonKind::Tool || detail.starts_with(r.kind.word()) => {
            in_one_line(detail)
        }
        Some(detail) => format!("{}: {}", r.kind.word(), in_one_line(detail)).into(),
        None => r.kind.word().into(),
    });
    let ended = session.outcome.filter(|_| session.status == Status::Stopped);
    let state = reason.or(ended.map(|outcome| outcome.word().into()));
    let title = session.name.as_ref().or(session.title.as_ref()).map(|t| in_one_line(t));
    match (state, title) {
        (Some(state), Some(title)) => format!("{state} · {title}"),
        (Some(one), None) | (None, Some(one)) => one.into_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// Shortens the home directory to `~`.
#[must_use]
pub fn directory(host: &Host, path: &str) -> String {
    let home = host.home.to_string_lossy();
    let short = match path.strip_prefix(home.as_ref()) {
        Some("") => Cow::Borrowed("~"),
        Some(rest) if rest.starts_with('/') => format!("~{rest}").into(),
        _ => path.into(),
    };
    in_one_line(&short).into_owned()
}

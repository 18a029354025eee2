//! The table of routes. The server is built from it, and so are the tests of its checks.

use std::time::Duration;

use super::assets::ASSETS;
use crate::http::Access;

/// The answer of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A file of the page.
    Asset(usize),
    /// Exchanges a code for a token.
    Pair,
    /// The document of `list --json`.
    Sessions,
    /// The document of `status --json`.
    Session,
    /// The document of `why --json`.
    Why,
    /// A page of a conversation.
    Talk,
    /// The document of `asks --json`.
    Asks,
    /// The document of `changes --json`.
    Changes,
    /// The document of `diff --json`.
    Diff,
    /// The choices of the form for a new session.
    Begin,
    /// Everything that changes, as it changes.
    Stream,
    /// The order of `answer`.
    Answer,
    /// The order of `send`.
    Send,
    /// The order of `stop`.
    Stop,
    /// The order of `launch`.
    Launch,
    /// A new link, for `web --link`.
    Link,
    /// The address and the mode of the server, for a second `web`.
    Server,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct RouteRow {
    /// The path.
    pub path: &'static str,
    /// The method: `GET` or `POST`.
    pub method: &'static str,
    /// The proof that a caller needs.
    pub access: Access,
    /// Its answer.
    pub endpoint: Endpoint,
}

const fn row(
    method: &'static str,
    path: &'static str,
    access: Access,
    endpoint: Endpoint,
) -> RouteRow {
    RouteRow { path, method, access, endpoint }
}

/// The routes of the interface; the files of the page come before them.
const API: &[RouteRow] = &[
    row("POST", "/api/pair", Access::Pairing, Endpoint::Pair),
    row("GET", "/api/sessions", Access::Data, Endpoint::Sessions),
    row("GET", "/api/session", Access::Data, Endpoint::Session),
    row("GET", "/api/why", Access::Data, Endpoint::Why),
    row("GET", "/api/talk", Access::Data, Endpoint::Talk),
    row("GET", "/api/asks", Access::Data, Endpoint::Asks),
    row("GET", "/api/changes", Access::Data, Endpoint::Changes),
    row("GET", "/api/diff", Access::Data, Endpoint::Diff),
    row("GET", "/api/begin", Access::Data, Endpoint::Begin),
    row("GET", "/api/stream", Access::Data, Endpoint::Stream),
    row("POST", "/api/answer", Access::Control, Endpoint::Answer),
    row("POST", "/api/send", Access::Control, Endpoint::Send),
    row("POST", "/api/stop", Access::Control, Endpoint::Stop),
    row("POST", "/api/launch", Access::Control, Endpoint::Launch),
    row("POST", "/api/link", Access::Private, Endpoint::Link),
    row("GET", "/api/server", Access::Private, Endpoint::Server),
];

/// Returns all routes.
#[must_use]
pub fn routes() -> Vec<RouteRow> {
    let assets = ASSETS.iter().enumerate();
    let assets =
        assets.map(|(at, asset)| row("GET", asset.path, Access::Public, Endpoint::Asset(at)));
    assets.chain(API.iter().copied()).collect()
}

impl Endpoint {
    /// Returns how long a connection may last.
    pub(super) fn lifetime(self) -> Duration {
        match self {
            // A page connects again.
            Self::Stream => Duration::from_hours(12),
            // Making a worktree, starting an agent and stopping one can take minutes.
            Self::Answer | Self::Send | Self::Stop | Self::Launch => Duration::from_mins(10),
            _ => Duration::from_mins(1),
        }
    }
}

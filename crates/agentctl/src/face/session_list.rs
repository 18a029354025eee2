//! Lists sessions for every interface: the daemon is asked where it is faster.

use std::time::Instant;

use agentctl_core::ask::Fleet;
use agentctl_core::fleet::{Query, Rows};

use crate::client::{Client, ClientError};

/// A list, and what its reader should know about its source.
#[derive(Debug)]
pub struct SessionList {
    /// The sessions.
    pub rows: Rows,
    /// Why the daemon was not asked, if the user should know.
    pub warning: Option<String>,
}

/// Lists sessions. If all history is wanted, a daemon with the same settings is asked first: it has cached the
/// files that have not changed. Without its valid answer in time, this process looks in the time that is left.
#[must_use]
pub fn session_list(fleet: &Fleet, query: &Query) -> SessionList {
    let began = Instant::now();
    let (rows, warning) = match query.all.then(|| rows_of_daemon(fleet, query)) {
        // The daemon's rows are not packed as a tree.
        Some(Ok(rows)) if query.children => (rows.map(Rows::in_tree), None),
        Some(Ok(rows)) => (rows, None),
        Some(Err(error)) => (None, error.untrusted_warning()),
        None => (None, None),
    };
    let rows = rows.unwrap_or_else(|| {
        let left = fleet.host.deadlines.all.saturating_sub(began.elapsed());
        fleet.with_limit(left).rows(query)
    });
    SessionList { rows, warning }
}

/// Asks the daemon; `None` if there is none with the same settings.
fn rows_of_daemon(fleet: &Fleet, query: &Query) -> Result<Option<Rows>, ClientError> {
    let host = &fleet.host;
    let Some(mut client) = Client::of_the_same_world(host)? else { return Ok(None) };
    client.list(query, host.deadlines.all / 4).map(Some)
}

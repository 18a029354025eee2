//! The choices of a form for a new session: the agents that can be started here, and the directories that were used.

use std::collections::HashSet;

use agentctl_core::adapters::control::Permissions;
use agentctl_core::ask::{AdapterRow, Fleet};
use agentctl_core::fleet::Query;
use agentctl_core::model::Time;
use schemars::JsonSchema;
use serde::Serialize;

use super::{USUAL_HISTORY, beginning, session_list};

/// Most directories that are offered.
const MAX_DIRECTORIES: usize = 30;

/// The choices of a form for a new session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BeginDocument {
    /// Every agent that is supported.
    pub adapters: Vec<BeginAdapter>,
    /// The directories of recent sessions that still exist, most recently used first.
    pub directories: Vec<String>,
    /// The configured permissions. An order of the page that names none has them, but `default` instead of `bypass`.
    pub permissions: Permissions,
    /// Orders are taken.
    pub control: bool,
    /// The home directory of the user.
    pub home: String,
    /// The version of the program.
    pub version: String,
}

/// An agent that may be started.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BeginAdapter {
    /// Its name.
    pub name: String,
    /// A program of it is on the PATH of this process.
    pub installed: bool,
    /// It can be started from here.
    pub can_launch: bool,
    /// It can be started so that it asks a human before it acts.
    pub can_ask: bool,
    /// It can be started so that it stays after its turn and takes messages.
    pub can_keep: bool,
}

/// Returns the choices, as they are for this process: its PATH decides which agents can be started.
#[must_use]
pub fn begin_choices(fleet: &Fleet, permissions: Permissions, control: bool) -> BeginDocument {
    let adapters = fleet.adapters().adapters.iter().map(adapter).collect();
    let since = beginning(fleet.host.now(), USUAL_HISTORY).ok().flatten();
    let query = Query { all: true, since_ms: since.map(Time::millis), ..Query::default() };
    let rows = session_list(fleet, &query).rows;
    let mut used: Vec<(Option<Time>, String)> = rows
        .iter()
        .filter_map(|session| Some((session.last_activity_at, session.cwd.clone()?)))
        .collect();
    used.sort_by(|one, other| other.cmp(one));
    let mut seen = HashSet::new();
    let directories = used
        .into_iter()
        .map(|(_, directory)| directory)
        .filter(|directory| seen.insert(directory.clone()))
        .filter(|directory| std::path::Path::new(directory).is_dir())
        .take(MAX_DIRECTORIES)
        .collect();
    let home = fleet.host.home.to_string_lossy().into_owned();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    BeginDocument { adapters, directories, permissions, control, home, version }
}

fn adapter(row: &AdapterRow) -> BeginAdapter {
    let answering = row.answering.as_ref();
    BeginAdapter {
        name: row.name.clone(),
        installed: row.installed,
        can_launch: row.installed && row.control.as_ref().is_some_and(|control| control.launch),
        can_ask: answering.is_some_and(|answering| answering.no_ask.is_none()),
        can_keep: answering.is_some_and(|answering| answering.no_keep.is_none()),
    }
}

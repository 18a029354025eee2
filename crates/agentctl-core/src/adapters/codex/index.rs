//! The `threads` index in `state_*.sqlite`: what a session is about, without opening its rollout.
//!
//! It only describes; it never says who lives. Where it is missing, damaged or could not be opened
//! without leaving a trace, the rollouts say the same.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

use crate::adapters::Look;
use crate::model::Time;
use crate::native::file;
use crate::native::memo::Basis;
use crate::native::sqlite::{self, Connection, Params, Row as SqlRow, SqlResult};

/// Longest text that is taken from a row.
const TEXT_CHARS: usize = 400;

/// What the index says of one thread.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Row {
    pub(super) cwd: Option<String>,
    pub(super) title: Option<String>,
    pub(super) name: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) model: Option<String>,
    pub(super) started_at: Option<Time>,
    pub(super) parent: Option<String>,
}

/// An open index. It lives as long as one question.
pub(super) struct Index {
    path: PathBuf,
    basis: Option<Basis>,
    connection: Mutex<Connection>,
    select: String,
    all: OnceLock<HashMap<String, Row>>,
}

impl Index {
    /// Opens the newest `state_<n>.sqlite` of a home, if there is a readable one.
    pub(super) fn open(look: &Look, root: &Path) -> Option<Self> {
        let uid = look.host.kernel.uid();
        let path = newest(root, uid)?;
        let basis = look.basis(&path);
        let connection = sqlite::open(&path, uid).ok()?;
        let threads = columns(&connection, "threads");
        if !threads.contains("id") {
            return None;
        }
        let edges = columns(&connection, "thread_spawn_edges").contains("child_thread_id");
        let select = select(&threads, edges);
        Some(Self { path, basis, connection: Mutex::new(connection), select, all: OnceLock::new() })
    }

    /// Reads all rows at once, for questions over all history.
    pub(super) fn load(&self, look: &Look) {
        self.all.get_or_init(|| {
            let rows = look.rows_in(&self.path, self.basis, || self.query("", []));
            rows.unwrap_or_default().into_iter().collect()
        });
    }

    pub(super) fn row(&self, id: &str) -> Option<Row> {
        match self.all.get() {
            Some(all) => all.get(id).cloned(),
            None => self.query("where id = ?1", [id]).ok()?.pop().map(|(_, row)| row),
        }
    }

    pub(super) fn parent(&self, id: &str) -> Option<String> {
        self.all.get()?.get(id)?.parent.clone()
    }

    pub(super) fn named(&self, name: &str) -> Vec<String> {
        let found = self.query("where name = ?1", [name]).unwrap_or_default();
        found.into_iter().map(|(id, _)| id).collect()
    }

    pub(super) fn children(&self, parent: &str) -> Vec<String> {
        let sql = "select child_thread_id from thread_spawn_edges where parent_thread_id = ?1";
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || -> SqlResult<Vec<String>> {
            connection.prepare_cached(sql)?.query_map([parent], |row| row.get(0))?.collect()
        };
        let mut ids = read().unwrap_or_default();
        ids.sort();
        ids
    }

    fn query(&self, clause: &str, params: impl Params) -> SqlResult<Vec<(String, Row)>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(&format!("{} {clause}", self.select))?;
        statement.query_map(params, read)?.collect()
    }
}

/// Columns differ between versions: what is missing is null.
fn select(threads: &HashSet<String>, edges: bool) -> String {
    let column =
        |name: &str| if threads.contains(name) { name.to_owned() } else { "null".to_owned() };
    let text = |name: &str| {
        let shown = format!("substr({name}, 1, {TEXT_CHARS})");
        if threads.contains(name) { shown } else { "null".to_owned() }
    };
    let parent = if edges {
        "(select parent_thread_id from thread_spawn_edges e where e.child_thread_id = threads.id)"
    } else {
        "null"
    };
    format!(
        "select id, {}, {}, {}, {}, {}, {}, {}, {}, {parent} from threads",
        column("cwd"),
        text("title"),
        text("name"),
        text("preview"),
        text("first_user_message"),
        column("model"),
        column("created_at_ms"),
        column("created_at"),
    )
}

fn read(row: &SqlRow<'_>) -> SqlResult<(String, Row)> {
    // A column of another type than expected is a fact we do not have.
    let text =
        |at: usize| row.get::<_, Option<String>>(at).ok().flatten().filter(|t| !t.is_empty());
    let number = |at: usize| row.get::<_, Option<i64>>(at).ok().flatten();
    let started_ms = number(7).or_else(|| number(8).and_then(|s| s.checked_mul(1000)));
    let (name, prompt) = (text(3), text(5).or_else(|| text(4)));
    // Until somebody names it, the title is the prompt again.
    let title = text(2).filter(|title| Some(title) != prompt.as_ref());
    Ok((
        row.get(0)?,
        Row {
            cwd: text(1),
            title: name.clone().or(title),
            name,
            prompt,
            model: text(6),
            started_at: started_ms.and_then(Time::from_millis),
            parent: text(9),
        },
    ))
}

fn newest(root: &Path, uid: u32) -> Option<PathBuf> {
    let number = |e: &file::Entry| {
        e.name.strip_prefix("state_")?.strip_suffix(".sqlite")?.parse::<u32>().ok()
    };
    let entries = file::list(root, uid).ok()?;
    entries.into_iter().filter_map(|e| Some((number(&e)?, e.path))).max().map(|(_, path)| path)
}

fn columns(connection: &Connection, table: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    // A table that is not there has no columns.
    let _missing = connection.pragma(None, "table_info", table, |row| {
        names.insert(row.get::<_, String>(1)?);
        Ok(())
    });
    names
}

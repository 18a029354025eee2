//! The `threads` index in `state_*.sqlite`: describes threads without opening their rollouts.
//!
//! It only describes; it never shows which threads are live. If it is missing, damaged or cannot be
//! opened without leaving a trace, the rollouts hold the same facts.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::adapters::Look;
use crate::kernel::home_limit;
use crate::model::Time;
use crate::native::cache::FileVersion;
use crate::native::file;
use crate::native::sqlite::{self, Connection, Params, Row as SqlRow, SqlResult};

/// Longest text that is taken from a row.
const TEXT_CHARS: usize = 400;
/// Longest path that is taken from a row.
const PATH_CHARS: usize = 4096;
/// Most threads that are read from the index; threads beyond that are described by their rollouts.
const MAX_THREADS: usize = 200_000;
/// Most subagents that are shown below one thread.
const MAX_CHILDREN: usize = 10_000;

/// The index row of one thread.
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
    basis: Option<FileVersion>,
    connection: Mutex<Connection>,
    select: String,
    /// It has the table of parent threads.
    edges: bool,
    /// It has the names that users gave.
    names: bool,
    all: OnceLock<HashMap<String, Row>>,
}

impl Index {
    /// Opens the newest `state_<n>.sqlite` of a home, if there is a readable one.
    pub(super) fn open(look: &Look, root: &Path) -> Option<Self> {
        let uid = look.host.kernel.uid();
        let path = newest(root, uid)?;
        let basis = look.basis(&path);
        // An index that takes long is abandoned early enough for the rollouts to be read instead.
        let left = look.deadline.saturating_duration_since(Instant::now());
        let connection = sqlite::open(&path, uid, Instant::now() + left / 4).ok()?;
        // Anything but an ordinary table (a view, a virtual table) is not read; the rollouts are read
        // instead.
        let threads = sqlite::columns(&connection, "threads").ok()?;
        if !threads.contains("id") {
            return None;
        }
        let edges = sqlite::columns(&connection, "thread_spawn_edges").ok()?;
        let edges = edges.contains("child_thread_id") && edges.contains("parent_thread_id");
        let select = select(&threads, edges);
        let (connection, names) = (Mutex::new(connection), threads.contains("name"));
        Some(Self { path, basis, connection, select, edges, names, all: OnceLock::new() })
    }

    /// Reads all rows at once, for questions over all history.
    pub(super) fn load(&self, look: &Look) {
        self.all.get_or_init(|| {
            let rows = match home_limit::left() {
                Some(left) => self.query("", [], left.min(MAX_THREADS)),
                None => look.rows_in(&self.path, self.basis, || self.query("", [], MAX_THREADS)),
            };
            rows.unwrap_or_default().into_iter().collect()
        });
    }

    pub(super) fn row(&self, id: &str) -> Option<Row> {
        match self.all.get() {
            Some(all) => all.get(id).cloned(),
            None => self.query("where id = ?1", [id], 1).ok()?.pop().map(|(_, row)| row),
        }
    }

    pub(super) fn parent(&self, id: &str) -> Option<String> {
        self.all.get()?.get(id)?.parent.clone()
    }

    pub(super) fn named(&self, name: &str) -> Vec<String> {
        if !self.names {
            return Vec::new();
        }
        let found = self.query("where name = ?1", [name], MAX_CHILDREN).unwrap_or_default();
        found.into_iter().map(|(id, _)| id).collect()
    }

    pub(super) fn children(&self, parent: &str) -> Vec<String> {
        if !self.edges {
            return Vec::new();
        }
        let sql = format!(
            "select child_thread_id from thread_spawn_edges where parent_thread_id = ?1 \
             limit {MAX_CHILDREN}"
        );
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || -> SqlResult<Vec<String>> {
            connection.prepare_cached(&sql)?.query_map([parent], |row| row.get(0))?.collect()
        };
        let mut ids = read().unwrap_or_default();
        ids.sort();
        ids
    }

    fn query(
        &self,
        clause: &str,
        params: impl Params,
        most: usize,
    ) -> SqlResult<Vec<(String, Row)>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = format!("{} {clause} limit {most}", self.select);
        let mut statement = connection.prepare_cached(&sql)?;
        // A row that cannot be read is left out; the others count.
        let rows = statement.query_map(params, |row| Ok(read(row).ok()))?;
        rows.filter_map(Result::transpose).collect()
    }
}

/// Columns differ between versions: a missing column is selected as null.
fn select(threads: &HashSet<String>, edges: bool) -> String {
    let column =
        |name: &str| if threads.contains(name) { name.to_owned() } else { "null".to_owned() };
    let cut = |name: &str, most: usize| {
        let shown = format!("substr({name}, 1, {most})");
        if threads.contains(name) { shown } else { "null".to_owned() }
    };
    let text = |name: &str| cut(name, TEXT_CHARS);
    let parent = if edges {
        "(select substr(parent_thread_id, 1, 128) from thread_spawn_edges e \
         where e.child_thread_id = threads.id limit 1)"
    } else {
        "null"
    };
    format!(
        "select substr(id, 1, 129), {}, {}, {}, {}, {}, {}, {}, {}, {parent} from threads",
        cut("cwd", PATH_CHARS),
        text("title"),
        text("name"),
        text("preview"),
        text("first_user_message"),
        text("model"),
        column("created_at_ms"),
        column("created_at"),
    )
}

fn read(row: &SqlRow<'_>) -> SqlResult<(String, Row)> {
    // A column of another type than expected counts as missing.
    let text =
        |at: usize| row.get::<_, Option<String>>(at).ok().flatten().filter(|t| !t.is_empty());
    let number = |at: usize| row.get::<_, Option<i64>>(at).ok().flatten();
    let started_ms = number(7).or_else(|| number(8).and_then(|s| s.checked_mul(1000)));
    let (name, prompt) = (text(3), text(5).or_else(|| text(4)));
    // Until the user names a thread, its title repeats the prompt.
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
    let number = |e: &file::DirectoryEntry| {
        e.name.strip_prefix("state_")?.strip_suffix(".sqlite")?.parse::<u32>().ok()
    };
    let entries = file::list(root, uid).ok()?;
    entries.into_iter().filter_map(|e| Some((number(&e)?, e.path))).max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {

    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::host::Host;

    fn look() -> Look {
        let host = Host {
            program: "/".into(),
            ..Host::new("/", crate::kernel::Kernel::open().expect("a kernel"), || {
                Time::from_millis(0).expect("a time")
            })
        };
        crate::fleet::look(&crate::fleet::Fleet::new(Arc::new(host), &[]), Duration::from_mins(20))
    }

    /// S4: the number of rows is limited; a row that cannot be read is left out alone.
    #[test]
    fn the_number_of_rows_is_limited() {
        let dir = tempfile::tempdir().expect("dir");
        let writer = Connection::open(dir.path().join("state_1.sqlite")).expect("made");
        let numbers = |most: usize| {
            format!(
                "with recursive n(x) as (select 1 union all select x + 1 from n where x < {most})"
            )
        };
        let (threads, edges) = (numbers(MAX_THREADS + 10), numbers(MAX_CHILDREN + 10));
        let sql = format!(
            "create table threads (id, name text);
             create table thread_spawn_edges (parent_thread_id text, child_thread_id primary key);
             insert into threads values (x'00', 'no id');
             {threads} insert into threads select 'thread-' || x, null from n;
             {edges} insert into thread_spawn_edges select 'thread-1', 'child-' || x from n;"
        );
        writer.execute_batch(&sql).expect("filled");
        drop(writer);
        let look = look();
        let index = Index::open(&look, dir.path()).expect("opened");
        assert_eq!(index.children("thread-1").len(), MAX_CHILDREN);
        index.load(&look);
        assert_eq!(index.all.get().map(HashMap::len), Some(MAX_THREADS - 1));
    }
}

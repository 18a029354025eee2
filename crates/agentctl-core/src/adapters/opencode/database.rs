//! `opencode.db`: every session, message and part since 1.2.
//!
//! Opened for one question, read-only, leaving nothing behind. Sessions are read one by one and none is
//! kept. Columns differ between versions; a missing column is a missing fact.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::entry::{DEFAULT_TITLE, ENTRY_BYTES, Info, Model, Newest, Part, sum, title};
use super::messages::Stored;
use crate::adapters::{Found, Record};
use crate::kernel::home_limit;
use crate::model::{Locator, Time, Tokens, is_session_id};
use crate::native::sqlite::{self, Connection, Params, Row as SqlRow, SqlResult, StoreError};

/// Longest text that is taken from a row.
const TEXT_CHARS: usize = 400;
/// Longest path that is taken from a row.
const PATH_CHARS: usize = 4096;
/// Most sessions that are read.
const MAX_SESSIONS: usize = 200_000;
/// Sessions that are read in one transaction: beginning a new one costs as much as reading one.
const ROWS_PER_TRANSACTION: usize = 64;
/// Most parts of a message that are read.
const MAX_PARTS: usize = 2_000;
/// Most bytes of the parts of a message that are read.
const PARTS_BYTES: usize = 32 << 20;
/// Most messages of a session that are counted.
const MAX_MESSAGES: usize = 1_000_000;
/// Longest conversation that is shown, in bytes.
const CONVERSATION_BYTES: usize = 512 << 20;

/// The slug of sessions that a launch creates before there is a process.
pub(super) const SLUG: &str = "agentctl";

/// A session that was just created.
pub(super) struct Made {
    pub(super) id: String,
    pub(super) folder: String,
    pub(super) at: i64,
}

/// The database's row of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) directory: Option<String>,
    title: Option<String>,
    model: Option<String>,
    prompt: Option<String>,
    created: i64,
    cost: Option<f64>,
    tokens: Option<Tokens>,
    pub(super) newest: Option<Newest>,
}

impl Row {
    /// Returns it as a record; the tokens are the session's own, without its subagents'.
    pub(super) fn record(self) -> Record {
        let newest = self.newest.as_ref();
        let asked = newest.and_then(|n| n.info.as_ref()).and_then(Info::model);
        let refused = newest.and_then(Newest::refused);
        let started_at = Time::from_millis(self.created);
        Record {
            cwd: self.directory,
            model: asked.or(self.model),
            title: self.title,
            prompt: self.prompt,
            started_at,
            last_activity_at: newest.and_then(Newest::touched).or(started_at),
            turn: newest.map(Newest::turn).unwrap_or_default(),
            open_call: newest.and_then(Newest::open_call),
            parent: self.parent,
            tokens: self.tokens,
            cost_usd: self.cost,
            notes: refused.map(|t| format!("a tool call was refused: {t}")).into_iter().collect(),
            ..Record::default()
        }
    }
}

/// An open database. It lives as long as one question.
pub(super) struct Database {
    path: PathBuf,
    uid: u32,
    deadline: Instant,
    connection: Mutex<Connection>,
    select: String,
    by_id: String,
    /// The same as `by_id`, without the first prompt where there is a title.
    by_id_for_table: String,
    /// Connections that no thread uses at the moment: each thread takes one of its own.
    readers: Mutex<Vec<Reader>>,
}

/// Reads sessions one after the other, several in one transaction.
struct Reader {
    connection: Connection,
    /// Sessions that may still be read in the current transaction.
    left: usize,
}

impl Reader {
    fn row(&mut self, sql: &str, id: &str) -> SqlResult<Option<Row>> {
        if self.left == 0 {
            if !self.connection.is_autocommit() {
                self.connection.execute_batch("commit")?;
            }
            self.connection.execute_batch("begin")?;
            self.left = ROWS_PER_TRANSACTION;
        }
        self.left -= 1;
        Ok(query(&self.connection, sql, [id])?.pop())
    }
}

impl Database {
    /// Opens a database; `Missing` also where it holds no sessions yet. No statement outlasts the
    /// deadline.
    pub(super) fn open(path: &Path, uid: u32, deadline: Instant) -> Result<Self, StoreError> {
        let connection = sqlite::open(path, uid, deadline)?;
        let columns = sqlite::columns(&connection, "session")?;
        if !columns.contains("id") {
            // A view or the like under that name is an error, not an empty store.
            return Err(if sqlite::has_name(&connection, "session")? {
                StoreError::NotTables("session")
            } else {
                StoreError::Missing
            });
        }
        for table in ["message", "part"] {
            if sqlite::columns(&connection, table)?.is_empty() {
                return Err(StoreError::NotTables(table));
            }
        }
        let with_prompt = select(&columns, "true");
        let by_id = |select: &str| format!("{select} where s.id = ?1 limit 1");
        Ok(Self {
            path: path.to_owned(),
            uid,
            deadline,
            connection: Mutex::new(connection),
            by_id: by_id(&with_prompt),
            by_id_for_table: by_id(&select(&columns, &has_no_title(&columns))),
            select: with_prompt,
            readers: Mutex::default(),
        })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of its file.
    pub(super) fn name(&self) -> Cow<'_, str> {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy()
    }

    /// Returns the sessions written since that time, subagents left out, and shows the ids of all sessions.
    pub(super) fn history_seeing(
        &self,
        since_ms: Option<i64>,
        see: &mut dyn FnMut(&str),
    ) -> SqlResult<Found<Locator>> {
        // Not every message updates the time of its session.
        let sql = "select id, parent_id is null and (?1 is null \
                   or time_updated >= ?1 or (select m.time_updated from message m \
                   where m.session_id = s.id order by m.time_created desc, m.id desc limit 1) >= ?1) \
                   from session s order by id limit ?2";
        let most = i64::try_from(MAX_SESSIONS).unwrap_or(i64::MAX);
        self.ids_where(sql, (since_ms, most), &mut |id, row| {
            see(id);
            row.get::<_, Option<bool>>(1).is_ok_and(|listed| listed == Some(true))
        })
    }

    /// Returns the sessions of a folder, and the sessions of any folder that were written since that
    /// time.
    pub(super) fn in_or_since(&self, folder: &str, since_ms: i64) -> SqlResult<Found<Locator>> {
        let sql = "select id from session s where parent_id is null and (directory = ?1 \
                   or time_updated >= ?2 or (select m.time_updated from message m \
                   where m.session_id = s.id order by m.time_created desc, m.id desc limit 1) >= ?2) \
                   order by id limit ?3";
        self.ids(sql, (folder, since_ms, i64::try_from(MAX_SESSIONS).unwrap_or(i64::MAX)))
    }

    /// Returns the sessions whose id begins with this text.
    pub(super) fn find(&self, prefix: &str) -> SqlResult<Found<Locator>> {
        let sql = "select id from session where substr(id, 1, length(?1)) = ?1 order by id \
                   limit ?2";
        let exact = "select id from session where id = ?1 limit ?2";
        let most = i64::try_from(MAX_SESSIONS).unwrap_or(i64::MAX);
        let found = self.ids(exact, (prefix, most))?;
        if found.rows.is_empty() { self.ids(sql, (prefix, most)) } else { Ok(found) }
    }

    fn ids(&self, sql: &str, params: impl Params) -> SqlResult<Found<Locator>> {
        self.ids_where(sql, params, &mut |_, _| true)
    }

    /// Returns the sessions whose rows are wanted. The first column of a row is the id.
    fn ids_where(
        &self,
        sql: &str,
        params: impl Params,
        is_wanted: &mut dyn FnMut(&str, &SqlRow<'_>) -> bool,
    ) -> SqlResult<Found<Locator>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Found::default();
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += 1;
            if !home_limit::take() {
                return Err(sqlite::too_big(home_limit::TOO_MANY.into()));
            }
            // A row with an invalid id is left out.
            let id = row.get::<_, String>(0).ok().filter(|id| is_session_id(id));
            if let Some(id) = id.filter(|id| is_wanted(id, row)) {
                found.rows.push(Locator { id, path: Some(self.path.clone()), parent: None });
            }
        }
        found.whole = seen < MAX_SESSIONS;
        Ok(found)
    }

    /// Returns one session, up to one transaction old; for a table, a session with a title has no prompt. Threads
    /// do not wait for each other.
    pub(super) fn row(&self, id: &str, for_table: bool) -> SqlResult<Option<Row>> {
        let kept = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = kept().pop();
        let reader = spare.or_else(|| {
            let connection = sqlite::open(&self.path, self.uid, self.deadline).ok()?;
            Some(Reader { connection, left: 0 })
        });
        let Some(mut reader) = reader else { return self.fresh(id) };
        let sql = if for_table { &self.by_id_for_table } else { &self.by_id };
        let row = reader.row(sql, id)?;
        kept().push(reader);
        Ok(row)
    }

    /// Returns one session in its current state.
    pub(super) fn fresh(&self, id: &str) -> SqlResult<Option<Row>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(query(&connection, &self.by_id, [id])?.pop())
    }

    /// Returns the session at the top of a subagent's chain of parents; the id itself if it has no
    /// parent.
    pub(super) fn top(&self, id: &str) -> String {
        let sql = "select parent_id from session where id = ?1 limit 1";
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = id.to_owned();
        for _ in 0..16 {
            let above = connection
                .prepare_cached(sql)
                .and_then(|mut s| s.query_row([&at], |row| row.get::<_, Option<String>>(0)));
            match above {
                Ok(Some(parent)) if parent != at => at = parent,
                _ => break,
            }
        }
        at
    }

    /// Returns the subagents of a session.
    pub(super) fn children(&self, id: &str) -> SqlResult<Found<Locator>> {
        let sql = "select id from session where parent_id = ?1 order by id limit 10000";
        let mut found = self.ids(sql, [id])?;
        for child in &mut found.rows {
            child.parent = Some(id.to_owned());
        }
        Ok(found)
    }

    /// Returns the sessions created since that time, with their folders, without those that a launch
    /// created.
    pub(super) fn made_since(&self, since_ms: i64) -> SqlResult<Vec<Made>> {
        let sql = "select id, directory, time_created from session where time_created >= ?1 \
                   and parent_id is null and slug <> ?2 limit 1000";
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(sql)?;
        let read =
            |row: &SqlRow<'_>| Ok(Made { id: row.get(0)?, folder: row.get(1)?, at: row.get(2)? });
        statement.query_map((since_ms, SLUG), read)?.collect()
    }

    /// Returns the sessions with an open turn in a directory, written since that time. The process that
    /// serves them is not known.
    pub(super) fn open_since(&self, directory: &str, since_ms: i64) -> SqlResult<Vec<Row>> {
        let clause = "where s.directory = ?1 and s.parent_id is null and m.time_updated >= ?2 \
                      limit 100";
        let sql = format!("{} {clause}", self.select);
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = query(&connection, &sql, (directory, since_ms))?;
        let open = |row: &Row| row.newest.as_ref().is_some_and(Newest::needs_parts);
        Ok(rows.into_iter().filter(open).collect())
    }

    /// Returns the tokens and the cost of a session and all its subagents.
    pub(super) fn spent(&self, id: &str) -> SqlResult<Option<(Tokens, f64)>> {
        let (mut tokens, mut cost) = (Tokens::default(), 0.0);
        let mut pending = vec![id.to_owned()];
        let mut seen = HashSet::new();
        while let Some(id) = pending.pop() {
            if !seen.insert(id.clone()) {
                continue;
            }
            let Some(row) = self.fresh(&id)? else { return Ok(None) };
            let own = match (row.tokens, row.cost) {
                (Some(tokens), Some(cost)) => (tokens, cost),
                // Before 1.18 only the messages have it.
                _ => match self.counted(&id)? {
                    Some(counted) => counted,
                    None => return Ok(None),
                },
            };
            tokens.add(own.0);
            cost += own.1;
            pending.extend(self.children(&id)?.rows.into_iter().map(|l| l.id));
        }
        Ok(Some((tokens, cost)))
    }

    fn counted(&self, id: &str) -> SqlResult<Option<(Tokens, f64)>> {
        let sql = format!(
            "select case when octet_length(data) <= {ENTRY_BYTES} then data end from message \
             where session_id = ?1 limit {MAX_MESSAGES}"
        );
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(&sql)?;
        let texts = statement.query_map([id], |row| row.get::<_, Option<String>>(0))?;
        let mut infos = Vec::new();
        for text in texts {
            let Some(info) = text?.and_then(|t| serde_json::from_str::<Info>(&t).ok()) else {
                return Ok(None);
            };
            // Only the fields that are counted are kept.
            if info.role == "assistant" {
                let (role, tokens, cost) = (info.role, info.tokens, info.cost);
                infos.push(Info { role, cost, tokens, ..Info::default() });
            }
        }
        Ok((infos.len() < MAX_MESSAGES).then(|| sum(infos.iter())))
    }

    /// Returns the messages of a session with their parts, oldest first, as stored text.
    pub(super) fn conversation(&self, id: &str) -> SqlResult<Vec<Stored>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = format!(
            "select id, case when octet_length(data) <= {ENTRY_BYTES} then data else '{{}}' end \
             from message where session_id = ?1 order by time_created, id limit 100000"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut budget = CONVERSATION_BYTES;
        let mut messages: Vec<(String, String)> = Vec::new();
        let mut rows = statement.query([id])?;
        while let Some(row) = rows.next()? {
            let (id, data): (String, String) = (row.get(0)?, row.get(1)?);
            budget = spend(budget, id.len() + data.len())?;
            messages.push((id, data));
        }
        drop(rows);
        let sql = format!(
            "select message_id, id, data from part where session_id = ?1 \
             and octet_length(data) <= {} order by message_id, id limit 1000000",
            8 << 20
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([id])?;
        let mut parts: HashMap<String, Vec<String>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let (message, id, data): (String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            budget = spend(budget, message.len() + id.len() + data.len())?;
            parts.entry(message).or_default().push(with_id(&data, &id));
        }
        let whole = messages.into_iter().map(|(id, data)| {
            let parts = parts.remove(&id).unwrap_or_default();
            let data = with_id(&data, &id);
            (id, data, parts)
        });
        Ok(whole.collect())
    }
}

/// Subtracts from the remaining budget; fails if it is exceeded.
fn spend(budget: usize, bytes: usize) -> SqlResult<usize> {
    budget.checked_sub(bytes).ok_or_else(|| {
        let why = format!("the conversation is larger than {CONVERSATION_BYTES} bytes");
        sqlite::too_big(why)
    })
}

/// Inserts the id, which is a column, into the JSON text of its row.
fn with_id(data: &str, id: &str) -> String {
    match data.strip_prefix('{') {
        Some(rest) if rest.trim_start().starts_with('}') => format!("{{\"id\":\"{id}\"}}"),
        Some(rest) => format!("{{\"id\":\"{id}\",{rest}"),
        None => data.to_owned(),
    }
}

/// Reads sessions, and the parts of those whose newest message is not enough to decide.
fn query(connection: &Connection, sql: &str, params: impl Params) -> SqlResult<Vec<Row>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows: Vec<Row> =
        statement.query_map(params, |row| Ok(read(row)))?.collect::<SqlResult<_>>()?;
    rows.retain(|row| is_session_id(&row.id));
    for newest in rows.iter_mut().filter_map(|row| row.newest.as_mut()) {
        if newest.needs_parts() {
            add_parts(connection, newest)?;
        }
    }
    Ok(rows)
}

fn add_parts(connection: &Connection, newest: &mut Newest) -> SqlResult<()> {
    let sql = format!(
        "select time_updated, case when octet_length(data) <= {ENTRY_BYTES} then data end \
         from part where message_id = ?1 order by id limit {MAX_PARTS}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([&newest.id])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        newest.updated = newest.updated.max(row.get(0).unwrap_or_default());
        let Some(text) = row.get::<_, Option<String>>(1).ok().flatten() else { continue };
        bytes += text.len();
        if bytes > PARTS_BYTES {
            break;
        }
        newest.parts.extend(serde_json::from_str::<Part>(&text));
    }
    Ok(())
}

/// Returns the condition that a session has no title of its own.
fn has_no_title(session: &HashSet<String>) -> String {
    if !session.contains("title") {
        return "true".to_owned();
    }
    let default = format!("substr(s.title, 1, {}) = '{DEFAULT_TITLE}'", DEFAULT_TITLE.len());
    format!("typeof(s.title) <> 'text' or s.title = '' or {default}")
}

/// Selects a session, its newest message, and its first prompt if the condition is true. Columns differ between
/// versions: a missing column is selected as null.
fn select(session: &HashSet<String>, needs_prompt: &str) -> String {
    let column = |name: &str| {
        if session.contains(name) { format!("s.{name}") } else { "null".to_owned() }
    };
    let cut = |name: &str, most: usize| {
        let shown = format!("substr(s.{name}, 1, {most})");
        if session.contains(name) { shown } else { "null".to_owned() }
    };
    let text = |name: &str| cut(name, TEXT_CHARS);
    let numbers = [
        "cost",
        "tokens_input",
        "tokens_output",
        "tokens_reasoning",
        "tokens_cache_read",
        "tokens_cache_write",
    ];
    let numbers = numbers.map(column).join(", ");
    // The first text of the first message; `json_extract` alone fails on text that is not JSON.
    let prompt = format!(
        "case when {needs_prompt} then (select case when json_valid(p.data) then \
          substr(json_extract(p.data, '$.text'), 1, {TEXT_CHARS}) end \
          from part p where p.message_id = (select f.id from message f where f.session_id = s.id \
          order by f.time_created, f.id limit 1) \
          and case when json_valid(p.data) then json_extract(p.data, '$.type') end = 'text' \
          order by p.id limit 1) end"
    );
    format!(
        "select s.id, {}, {}, {}, {}, s.time_created, {numbers}, {prompt}, m.id, m.time_created, \
         m.time_updated, case when octet_length(m.data) <= {ENTRY_BYTES} then m.data end \
         from session s left join message m on m.id = (select n.id from message n \
         where n.session_id = s.id order by n.time_created desc, n.id desc limit 1)",
        column("parent_id"),
        cut("directory", PATH_CHARS),
        text("title"),
        text("model"),
    )
}

fn read(row: &SqlRow<'_>) -> Row {
    // A column of another type than expected counts as missing.
    let text =
        |at: usize| row.get::<_, Option<String>>(at).ok().flatten().filter(|t| !t.is_empty());
    let number = |at: usize| row.get::<_, Option<i64>>(at).ok().flatten();
    let count = |at: usize| number(at).and_then(|n| u64::try_from(n).ok());
    let model = text(4).and_then(|m| serde_json::from_str::<Model>(&m).ok());
    let tokens = || {
        Some(Tokens {
            input: count(7)?,
            output: count(8)?.saturating_add(count(9)?),
            cache_read: count(10)?,
            cache_write: count(11)?,
        })
    };
    let newest = text(13).map(|id| Newest {
        id,
        created: number(14).unwrap_or_default(),
        updated: number(15).unwrap_or_default(),
        info: text(16).and_then(|data| serde_json::from_str(&data).ok()),
        parts: Vec::new(),
    });
    Row {
        id: text(0).unwrap_or_default(),
        parent: text(1),
        directory: text(2),
        title: title(text(3)),
        model: model.map(|m| m.word()),
        created: number(5).unwrap_or_default(),
        cost: row.get::<_, Option<f64>>(6).ok().flatten(),
        tokens: tokens(),
        prompt: text(12),
        newest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Database {
        let uid = rustix::process::geteuid().as_raw();
        let soon = Instant::now() + std::time::Duration::from_mins(5);
        Database::open(path, uid, soon).expect("opened")
    }

    #[test]
    fn a_table_reads_the_prompt_of_a_session_without_a_title_only() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("opencode.db");
        let content = "create table session (id text primary key, parent_id text, title text,
               time_created integer, time_updated integer);
             create table message (id text, session_id text, time_created integer,
               time_updated integer, data text);
             create table part (id text, message_id text, time_updated integer, data text);
             insert into session values ('ses_a', null, 'named', 1, 1),
               ('ses_b', null, 'New session - now', 1, 9), ('ses_c', 'ses_b', 'child', 1, 9),
               ('ses_d', null, null, 1, 9);
             insert into message select 'm' || id, id, 1, 1, '{}' from session;
             insert into part select 'p', id, 1, '{\"type\":\"text\",\"text\":\"do it\"}' from message;";
        Connection::open(&path).and_then(|made| made.execute_batch(content)).expect("made");
        let database = open(&path);
        let has_prompt = |id: &str, for_table: bool| {
            let row = database.row(id, for_table).expect("read").expect("a session");
            row.prompt.as_deref() == Some("do it")
        };
        assert_eq!(["ses_a", "ses_b", "ses_d"].map(|id| has_prompt(id, true)), [false, true, true]);
        assert!(has_prompt("ses_a", false));
        let mut seen = Vec::new();
        let found = database.history_seeing(Some(5), &mut |id| seen.push(id.to_owned()));
        let listed: Vec<_> = found.expect("read").rows.into_iter().map(|l| l.id).collect();
        assert_eq!(
            (listed, seen),
            (ids(["ses_b", "ses_d"]), ids(["ses_a", "ses_b", "ses_c", "ses_d"]))
        );
    }

    fn ids<const N: usize>(ids: [&str; N]) -> Vec<String> {
        ids.map(str::to_owned).to_vec()
    }

    #[test]
    fn batched_reads_are_soon_fresh_and_single_reads_at_once() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("opencode.db");
        let writer = Connection::open(&path).expect("made");
        writer.pragma_update(None, "journal_mode", "WAL").expect("wal");
        let tables = "create table session (id text primary key, title text, time_created integer);
             create table message (id text, session_id text, time_created integer,
               time_updated integer, data text);
             create table part (id text, message_id text, time_updated integer, data text);
             insert into session values ('ses_a', 'old', 1);";
        writer.execute_batch(tables).expect("made");
        let database = open(&path);
        let title = |row: SqlResult<Option<Row>>| row.expect("read").and_then(|r| r.title);
        assert_eq!(title(database.row("ses_a", false)).as_deref(), Some("old"));
        writer.execute_batch("update session set title = 'new'").expect("changed");
        assert_eq!(title(database.fresh("ses_a")).as_deref(), Some("new"));
        let read = (0..ROWS_PER_TRANSACTION).map(|_| title(database.row("ses_a", false)));
        assert_eq!(read.last().flatten().as_deref(), Some("new"));
    }
}

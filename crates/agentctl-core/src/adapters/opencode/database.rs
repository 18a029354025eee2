//! `opencode.db`: every session, message and part since 1.2. One query answers for all of them.
//!
//! Opened for one question, read-only, leaving nothing behind. Columns differ between versions; what is
//! missing is a fact we do not have.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::entry::{ENTRY_BYTES, Info, Model, Newest, Part, sum, title};
use super::messages::Stored;
use crate::adapters::{Found, Record};
use crate::model::{Locator, Time, Tokens, is_session_id};
use crate::native::sqlite::{self, Connection, Params, Row as SqlRow, SqlResult, StoreError};

/// Longest text that is taken from a row.
const TEXT_CHARS: usize = 400;
/// More sessions than that are not read.
const MOST: usize = 200_000;
/// So many sessions are read one by one; then all of them at once.
const FEW: usize = 400;
/// A message with more parts is not read further.
const MOST_PARTS: usize = 2_000;

/// The short name of sessions that a launch makes known before there is a process.
pub(super) const SLUG: &str = "agentctl";

/// A session that somebody has just made.
pub(super) struct Made {
    pub(super) id: String,
    pub(super) folder: String,
    pub(super) at: i64,
}

/// What the database says of one session.
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
    /// Returns what it says as a record; tokens are its own only.
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
    connection: Mutex<Connection>,
    select: String,
    asked: AtomicUsize,
    all: OnceLock<SqlResult<Rows>>,
}

struct Rows {
    /// Each is asked for once, and given away.
    by_id: Mutex<HashMap<String, Row>>,
    children: HashMap<String, Vec<String>>,
}

impl Database {
    /// Opens one; `Missing` also where the file holds no sessions yet.
    pub(super) fn open(path: &Path, uid: u32) -> Result<Self, StoreError> {
        let connection = sqlite::open(path, uid)?;
        let columns = columns(&connection, "session")?;
        if !columns.contains("id") {
            return Err(StoreError::Missing);
        }
        Ok(Self {
            path: path.to_owned(),
            connection: Mutex::new(connection),
            select: select(&columns),
            asked: AtomicUsize::new(0),
            all: OnceLock::new(),
        })
    }

    fn locator(&self, id: String, parent: Option<String>) -> Locator {
        Locator { id, path: Some(self.path.clone()), parent }
    }

    /// Returns the sessions written since then, subagents left out.
    pub(super) fn history(&self, since_ms: Option<i64>) -> SqlResult<Found<Locator>> {
        // A session's own time is not moved by every message.
        let sql = "select id from session s where parent_id is null and (?1 is null \
                   or time_updated >= ?1 or (select m.time_updated from message m \
                   where m.session_id = s.id order by m.time_created desc, m.id desc limit 1) >= ?1) \
                   order by id limit ?2";
        self.ids(sql, (since_ms, i64::try_from(MOST).unwrap_or(i64::MAX)))
    }

    /// Returns the sessions whose id begins so.
    pub(super) fn find(&self, prefix: &str) -> SqlResult<Found<Locator>> {
        let sql = "select id from session where substr(id, 1, length(?1)) = ?1 order by id \
                   limit ?2";
        let exact = "select id from session where id = ?1 limit ?2";
        let most = i64::try_from(MOST).unwrap_or(i64::MAX);
        let found = self.ids(exact, (prefix, most))?;
        if found.rows.is_empty() { self.ids(sql, (prefix, most)) } else { Ok(found) }
    }

    fn ids(&self, sql: &str, params: impl Params) -> SqlResult<Found<Locator>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Found::default();
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += 1;
            // An id that cannot be one is nobody's session.
            if let Some(id) = row.get::<_, String>(0).ok().filter(|id| is_session_id(id)) {
                found.rows.push(self.locator(id, None));
            }
        }
        found.whole = seen < MOST;
        Ok(found)
    }

    /// Returns one session, as it is now or as it was when all were read.
    pub(super) fn row(&self, id: &str) -> SqlResult<Option<Row>> {
        if self.all.get().is_none() && self.asked.fetch_add(1, Ordering::Relaxed) < FEW {
            return self.fresh(id);
        }
        let kept =
            self.all().as_ref().ok().and_then(|all| {
                all.by_id.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
            });
        match kept {
            Some(row) => Ok(Some(row)),
            None => self.fresh(id),
        }
    }

    /// Returns one session as it is now.
    pub(super) fn fresh(&self, id: &str) -> SqlResult<Option<Row>> {
        Ok(self.query("where s.id = ?1", [id])?.pop())
    }

    fn all(&self) -> &SqlResult<Rows> {
        self.all.get_or_init(|| {
            let most = i64::try_from(MOST).unwrap_or(i64::MAX);
            let rows = self.query("order by s.id limit ?1", [most])?;
            let mut children: HashMap<String, Vec<String>> = HashMap::new();
            for row in &rows {
                if let Some(parent) = &row.parent {
                    children.entry(parent.clone()).or_default().push(row.id.clone());
                }
            }
            let by_id: HashMap<_, _> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
            Ok(Rows { by_id: Mutex::new(by_id), children })
        })
    }

    /// Returns the session that a subagent works for in the end; itself where it is none.
    pub(super) fn top(&self, id: &str) -> String {
        let sql = "select parent_id from session where id = ?1";
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
        let ids = match self.all.get() {
            Some(Ok(all)) => all.children.get(id).cloned().unwrap_or_default(),
            _ => {
                let sql = "select id from session where parent_id = ?1 order by id limit 10000";
                self.ids(sql, [id])?.rows.into_iter().map(|l| l.id).collect()
            }
        };
        let rows = ids.into_iter().filter(|id| is_session_id(id));
        let rows = rows.map(|child| self.locator(child, Some(id.to_owned())));
        Ok(Found { rows: rows.collect(), ..Found::default() })
    }

    /// Returns the sessions made since then, with their folders, but for those that a launch made known.
    pub(super) fn made_since(&self, since_ms: i64) -> SqlResult<Vec<Made>> {
        let sql = "select id, directory, time_created from session where time_created >= ?1 \
                   and parent_id is null and slug <> ?2 limit 1000";
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(sql)?;
        let read =
            |row: &SqlRow<'_>| Ok(Made { id: row.get(0)?, folder: row.get(1)?, at: row.get(2)? });
        statement.query_map((since_ms, SLUG), read)?.collect()
    }

    /// Returns the open turns of what runs in a directory since then: who they belong to is not known.
    pub(super) fn open_since(&self, directory: &str, since_ms: i64) -> SqlResult<Vec<Row>> {
        let clause = "where s.directory = ?1 and s.parent_id is null and m.time_updated >= ?2 \
                      limit 100";
        let rows = self.query(clause, (directory, since_ms))?;
        let open = |row: &Row| row.newest.as_ref().is_some_and(Newest::needs_parts);
        Ok(rows.into_iter().filter(open).collect())
    }

    fn query(&self, clause: &str, params: impl Params) -> SqlResult<Vec<Row>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(&format!("{} {clause}", self.select))?;
        let mut rows: Vec<Row> =
            statement.query_map(params, |row| Ok(read(row)))?.collect::<SqlResult<_>>()?;
        rows.retain(|row| is_session_id(&row.id));
        let open: Vec<&str> = rows
            .iter()
            .filter_map(|row| row.newest.as_ref())
            .filter(|newest| newest.needs_parts())
            .map(|newest| newest.id.as_str())
            .collect();
        if open.is_empty() {
            return Ok(rows);
        }
        let mut parts = parts_of(&connection, &open)?;
        for newest in rows.iter_mut().filter_map(|row| row.newest.as_mut()) {
            if let Some((touched, found)) = parts.remove(&newest.id) {
                newest.updated = newest.updated.max(touched);
                newest.parts = found;
            }
        }
        Ok(rows)
    }

    /// Returns the tokens and the cost of a session and all that worked for it.
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
                // Before 1.18 only the messages say it.
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
            "select case when length(data) <= {ENTRY_BYTES} then data end from message \
             where session_id = ?1"
        );
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(&sql)?;
        let texts = statement.query_map([id], |row| row.get::<_, Option<String>>(0))?;
        let mut infos = Vec::new();
        for text in texts {
            let Some(info) = text?.and_then(|t| serde_json::from_str::<Info>(&t).ok()) else {
                return Ok(None);
            };
            infos.push(info);
        }
        Ok(Some(sum(infos.iter())))
    }

    /// Returns the messages of a session with their parts, oldest first, as their own texts.
    pub(super) fn conversation(&self, id: &str) -> SqlResult<Vec<Stored>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = format!(
            "select id, case when length(data) <= {ENTRY_BYTES} then data else '{{}}' end \
             from message where session_id = ?1 order by time_created, id limit 100000"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let messages = statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let messages: Vec<(String, String)> = messages.collect::<SqlResult<_>>()?;
        let sql = format!(
            "select message_id, id, data from part where session_id = ?1 \
             and length(data) <= {} order by message_id, id limit 1000000",
            8 << 20
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([id])?;
        let mut parts: HashMap<String, Vec<String>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let (message, id, data): (String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
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

/// Puts the id, which is a column, into the text that it belongs to.
fn with_id(data: &str, id: &str) -> String {
    match data.strip_prefix('{') {
        Some(rest) if rest.trim_start().starts_with('}') => format!("{{\"id\":\"{id}\"}}"),
        Some(rest) => format!("{{\"id\":\"{id}\",{rest}"),
        None => data.to_owned(),
    }
}

type Parts = HashMap<String, (i64, Vec<Part>)>;

fn parts_of(connection: &Connection, messages: &[&str]) -> SqlResult<Parts> {
    let list = serde_json::to_string(messages).unwrap_or_default();
    let sql = format!(
        "select message_id, time_updated, case when length(data) <= {ENTRY_BYTES} then data end, id \
         from part where message_id in (select value from json_each(?1)) order by message_id, id"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([list])?;
    let mut parts = Parts::new();
    while let Some(row) = rows.next()? {
        let (touched, known) = parts.entry(row.get(0)?).or_default();
        *touched = (*touched).max(row.get(1).unwrap_or_default());
        let text = row.get::<_, Option<String>>(2).ok().flatten();
        let part = text.and_then(|t| serde_json::from_str::<Part>(&t).ok());
        if let Some(part) = part.filter(|_| known.len() < MOST_PARTS) {
            known.push(part);
        }
    }
    Ok(parts)
}

/// Columns differ between versions: what is missing is null.
fn select(session: &HashSet<String>) -> String {
    let column = |name: &str| {
        if session.contains(name) { format!("s.{name}") } else { "null".to_owned() }
    };
    let text = |name: &str| {
        let shown = format!("substr(s.{name}, 1, {TEXT_CHARS})");
        if session.contains(name) { shown } else { "null".to_owned() }
    };
    let numbers = [
        "cost",
        "tokens_input",
        "tokens_output",
        "tokens_reasoning",
        "tokens_cache_read",
        "tokens_cache_write",
    ];
    let numbers = numbers.map(column).join(", ");
    // The first text of the first message; `json_extract` alone fails on what is no JSON.
    let prompt = format!(
        "(select case when json_valid(p.data) then \
          substr(json_extract(p.data, '$.text'), 1, {TEXT_CHARS}) end \
          from part p where p.message_id = (select f.id from message f where f.session_id = s.id \
          order by f.time_created, f.id limit 1) \
          and case when json_valid(p.data) then json_extract(p.data, '$.type') end = 'text' \
          order by p.id limit 1)"
    );
    format!(
        "select s.id, {}, {}, {}, {}, s.time_created, {numbers}, {prompt}, m.id, m.time_created, \
         m.time_updated, case when length(m.data) <= {ENTRY_BYTES} then m.data end \
         from session s left join message m on m.id = (select n.id from message n \
         where n.session_id = s.id order by n.time_created desc, n.id desc limit 1)",
        column("parent_id"),
        column("directory"),
        text("title"),
        text("model"),
    )
}

fn read(row: &SqlRow<'_>) -> Row {
    // A column of another type than expected is a fact we do not have.
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

fn columns(connection: &Connection, table: &str) -> SqlResult<HashSet<String>> {
    let mut names = HashSet::new();
    connection.pragma(None, "table_info", table, |row| {
        names.insert(row.get::<_, String>(1)?);
        Ok(())
    })?;
    Ok(names)
}

//! Opening an agent's `SQLite` database without disturbing a live writer and without creating files.
//!
//! Measured with rusqlite 0.41: `mode=ro` on an unused WAL database creates `-wal` and `-shm` and leaves
//! them; `immutable=1` beside a live writer reads stale data. Therefore: with `-wal` and `-shm` present, a
//! writer is or was active: `mode=ro`. With neither: `immutable=1`, briefly. With `-wal` alone, opening
//! would create `-shm`, so the database is not opened and the caller reads the plain files.
//!
//! The first process that opens a `-shm` left by its writer rebuilds it under a lock, and an agent that
//! starts at that moment would fail on the lock. `readonly_shm` keeps this process from rebuilding and from
//! writing there.
//!
//! The content of the file is untrusted. A connection is defensive, calls no function that the schema
//! names, and every statement is interrupted at the deadline of the question. Callers read ordinary tables
//! only ([`columns`]): with a view or a virtual table the file would decide how much work a statement does.
//! Each statement has a `limit` of its own.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
pub use rusqlite::{Connection, Params, Result as SqlResult, Row};
use rusqlite::{OpenFlags, OptionalExtension};

use super::file;
use super::real_path::real_path;

/// Why a database was not opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database does not exist.
    #[error("there is no database")]
    Missing,
    /// Opening it would create a file in the agent's directory.
    #[error("it has a write-ahead log but no index of it; opening it would write there")]
    WouldWrite,
    /// It is not a regular file of this user.
    #[error("{0}")]
    Skipped(file::Skip),
    /// A view or a virtual table has the name of a table that is read.
    #[error("its `{0}` is not an ordinary table")]
    NotTables(&'static str),
    /// `SQLite` reported an error.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// Largest string, blob or row that is read.
const MAX_VALUE_BYTES: i32 = 64 << 20;
/// Largest number of tables, indices, views and triggers in a schema.
const MAX_SCHEMA_OBJECTS: i32 = 10_000;
/// Largest write-ahead log that is opened. A reader may have to index all of it, and that cannot be
/// interrupted.
const MAX_LOG_BYTES: u64 = 4 << 30;
/// Memory limit of all connections together.
const MAX_HEAP_BYTES: i64 = 256 << 20;
/// Number of virtual machine steps between two checks of the deadline: a few microseconds.
const STEPS_BETWEEN_DEADLINE_CHECKS: i32 = 1_000;

/// Opens a database for reading, without creating files. Every statement is interrupted once the deadline
/// has passed.
pub fn open(path: &Path, uid: u32, deadline: Instant) -> Result<Connection, StoreError> {
    match file::open(path, uid) {
        Ok(_) => {}
        Err(file::Skip::Missing) => return Err(StoreError::Missing),
        Err(skip) => return Err(StoreError::Skipped(skip)),
    }
    // `SQLite` opens these files too, so they must meet the same conditions as the database.
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match file::open(Path::new(&name), uid) {
            Ok(log) if log.size > MAX_LOG_BYTES => {
                Err(StoreError::Skipped(file::Skip::TooLarge(MAX_LOG_BYTES)))
            }
            Ok(_) => Ok(true),
            Err(file::Skip::Missing) => Ok(false),
            Err(skip) => Err(StoreError::Skipped(skip)),
        }
    };
    let mode = match (beside("-wal")?, beside("-shm")?) {
        (true, true) => "mode=ro&readonly_shm=1",
        (true, false) => return Err(StoreError::WouldWrite),
        (false, _) => "immutable=1",
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let path = behind_links(path).map_err(|error| StoreError::Skipped(error.into()))?;
    let mut connection =
        Connection::open_with_flags(format!("file:{}?{mode}", escape(&path)), flags)?;
    restrict(&mut connection, deadline)?;
    connection.busy_timeout(Duration::from_millis(200))?;
    // Without this, a statement is recompiled for every parameter value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Limits the work that untrusted content can cause. Must run before anything of the file is read.
fn restrict(connection: &mut Connection, deadline: Instant) -> SqlResult<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SCHEMA, MAX_SCHEMA_OBJECTS)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.progress_handler(
        STEPS_BETWEEN_DEADLINE_CHECKS,
        Some(move || Instant::now() >= deadline),
    )?;
    // This limit applies to the whole process.
    connection.pragma_update(None, "hard_heap_limit", MAX_HEAP_BYTES)
}

/// Returns the column names of an ordinary table; empty if there is no such table, or if a view or a
/// virtual table has its name.
pub fn columns(connection: &Connection, table: &str) -> SqlResult<HashSet<String>> {
    // A virtual table has no root page. Table names are case-insensitive, so several rows of a damaged
    // schema may match: all of them must be ordinary tables.
    let sql = "select min(type = 'table' and rootpage > 0) from main.sqlite_schema \
               where name = ?1 collate nocase limit 1";
    let ordinary: Option<bool> = connection
        .query_row(sql, [table], |row| row.get::<_, Option<bool>>(0))
        .optional()?
        .flatten();
    let mut names = HashSet::new();
    if ordinary == Some(true) {
        // `table_info` omits generated columns, so they are never read.
        connection.pragma(None, "table_info", table, |row| {
            names.insert(row.get::<_, String>(1)?);
            Ok(())
        })?;
    }
    Ok(names)
}

/// Says whether the schema holds an object of this name, of any type.
pub fn has_name(connection: &Connection, name: &str) -> SqlResult<bool> {
    let sql = "select 1 from main.sqlite_schema where name = ?1 collate nocase limit 1";
    Ok(connection.query_row(sql, [name], |_| Ok(())).optional()?.is_some())
}

/// Returns the error for a result that is larger than the caller's limit.
#[must_use]
pub fn too_big(why: String) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_TOOBIG);
    rusqlite::Error::SqliteFailure(code, Some(why))
}

/// Resolves links in the directories above a database: `SQLite` with `NOFOLLOW` refuses any link on the
/// path, but a home may lie behind one. The database file itself must not be a link.
fn behind_links(path: &Path) -> std::io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => {
            Ok(real_path(folder).map_err(std::io::Error::other)?.join(name))
        }
        _ => Ok(path.to_owned()),
    }
}

fn escape(path: &Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    let mut out = String::new();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.') {
            out.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _infallible = write!(out, "%{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .expect("listed")
            .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn make(path: &Path) -> Connection {
        let writer = Connection::open(path).expect("made");
        writer.pragma_update(None, "journal_mode", "WAL").expect("wal");
        writer.execute_batch("create table t(x); insert into t values(1);").expect("filled");
        writer
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_mins(5)
    }

    fn count(connection: &Connection) -> i64 {
        connection.query_row("select count(*) from t", [], |row| row.get(0)).expect("counted")
    }

    #[test]
    fn a_resting_store_is_read_without_a_trace() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("a b?#%.sqlite");
        drop(make(&path));
        let before = names(dir.path());
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(count(&open(&path, uid, soon()).expect("opened")), 1);
        assert_eq!(names(dir.path()), before);
    }

    #[test]
    fn a_home_may_lie_behind_a_link_and_the_store_itself_may_not() {
        let dir = tempfile::tempdir().expect("dir");
        let uid = rustix::process::geteuid().as_raw();
        let (home, link) = (dir.path().join("home"), dir.path().join("link"));
        std::fs::create_dir(&home).expect("made");
        std::os::unix::fs::symlink(&home, &link).expect("linked");
        drop(make(&home.join("store.sqlite")));
        assert_eq!(count(&open(&link.join("store.sqlite"), uid, soon()).expect("opened")), 1);
        std::os::unix::fs::symlink("store.sqlite", home.join("other.sqlite")).expect("linked");
        let refused = open(&link.join("other.sqlite"), uid, soon());
        assert!(matches!(refused, Err(StoreError::Skipped(_))), "{refused:?}");
    }

    #[test]
    fn a_live_store_is_read_fresh() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("live.sqlite");
        let writer = make(&path);
        let before = names(dir.path());
        let uid = rustix::process::geteuid().as_raw();
        let reader = open(&path, uid, soon()).expect("opened");
        assert_eq!(count(&reader), 1);
        writer.execute_batch("insert into t values(2);").expect("more");
        assert_eq!(count(&reader), 2);
        drop(reader);
        assert_eq!(names(dir.path()), before);
        writer.execute_batch("insert into t values(3);").expect("the writer goes on");
    }

    #[test]
    fn an_index_that_its_writer_left_is_neither_locked_nor_made_anew() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("live.sqlite");
        let writer = make(&path);
        // As after a kill: all three files exist and no process has them open.
        let copy = |suffix: &str| {
            let to = dir.path().join(format!("left.sqlite{suffix}"));
            std::fs::copy(dir.path().join(format!("live.sqlite{suffix}")), &to).expect("copied");
            to
        };
        let (left, _log, index) = (copy(""), copy("-wal"), copy("-shm"));
        // Rebuilding the index would overwrite these bytes.
        let stale = vec![0xA5; 32 << 10];
        std::fs::write(&index, &stale).expect("written");
        let uid = rustix::process::geteuid().as_raw();
        let reader = open(&left, uid, soon()).expect("opened");
        assert_eq!(count(&reader), 1);
        assert!(std::fs::read(&index).expect("there") == stale, "it was written to");
        drop((reader, writer));
    }

    #[test]
    fn a_log_without_its_index_is_left_alone() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("killed.sqlite");
        let writer = make(&path);
        let copy = dir.path().join("copy.sqlite");
        std::fs::copy(&path, &copy).expect("copied");
        std::fs::copy(dir.path().join("killed.sqlite-wal"), dir.path().join("copy.sqlite-wal"))
            .expect("copied");
        drop(writer);
        let before = names(dir.path());
        let uid = rustix::process::geteuid().as_raw();
        assert!(matches!(open(&copy, uid, soon()), Err(StoreError::WouldWrite)));
        assert_eq!(names(dir.path()), before);
    }

    /// S4: a statement ends at the deadline, however long it would take.
    #[test]
    fn a_statement_is_interrupted_at_the_deadline() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("slow.sqlite");
        drop(make(&path));
        let uid = rustix::process::geteuid().as_raw();
        let reader = open(&path, uid, Instant::now() + Duration::from_millis(50)).expect("opened");
        // Far more steps than fit into the timeout of this test.
        let endless = "with recursive n(x) as (select 1 union all select x + 1 from n) \
                       select count(*) from n limit 1";
        let ended = reader.query_row(endless, [], |row| row.get::<_, i64>(0));
        let code = ended.expect_err("interrupted").sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::OperationInterrupted));
    }

    /// S4: only an ordinary table has columns that are read.
    #[test]
    fn only_an_ordinary_table_has_columns() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("kinds.sqlite");
        let writer = make(&path);
        writer
            .execute_batch(
                "create view v as select 1 as x; create virtual table w using fts5(x);
                 create table g(x, y generated always as (x || x) virtual);",
            )
            .expect("made");
        drop(writer);
        let uid = rustix::process::geteuid().as_raw();
        let reader = open(&path, uid, soon()).expect("opened");
        let named = |table: &str| columns(&reader, table).expect("read").len();
        assert_eq!(
            [named("t"), named("T"), named("v"), named("w"), named("none")],
            [1, 1, 0, 0, 0]
        );
        assert_eq!(named("g"), 1, "what a table computes is not read");
    }

    /// S4: the schema may neither call unsafe functions nor change how the file is read.
    #[test]
    fn the_schema_is_not_trusted() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("schema.sqlite");
        drop(make(&path));
        let uid = rustix::process::geteuid().as_raw();
        let reader = open(&path, uid, soon()).expect("opened");
        let is_on = |config| reader.db_config(config).expect("read");
        assert!(is_on(DbConfig::SQLITE_DBCONFIG_DEFENSIVE));
        assert!(!is_on(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA));
        let large = reader.query_row("select length(zeroblob(100000000))", [], |row| row.get(0));
        let large: SqlResult<i64> = large;
        assert!(large.is_err(), "a value larger than the limit was made");
    }
}

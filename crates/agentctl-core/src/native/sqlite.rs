//! Opening an agent's `SQLite` store so that neither a live writer nor its directory notices.
//!
//! Measured traps (rusqlite 0.41): `mode=ro` on a resting WAL database creates `-wal` and `-shm` and
//! leaves them; `immutable=1` beside a live writer reads a stale file. So: `-wal` and `-shm` there, a
//! writer is or was at work: `mode=ro`. Neither there: `immutable=1`, briefly. `-wal` alone: whoever
//! opens it must make a `-shm` first, so we leave it alone and the caller reads the plain files.
//!
//! The first who opens a `-shm` that its writer left behind makes it anew, under a lock that an agent which
//! starts in that moment would run into. With `readonly_shm` we never are that one, and never write there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::OpenFlags;
use rusqlite::config::DbConfig;
pub use rusqlite::{Connection, Params, Result as SqlResult, Row};

use super::file;

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is none.
    #[error("there is no database")]
    Missing,
    /// Opening it would leave a file in the agent's directory.
    #[error("it has a write-ahead log but no index of it; opening it would write there")]
    WouldWrite,
    /// It is not a regular file of this user.
    #[error("{0}")]
    Skipped(file::Skip),
    /// `SQLite` refused it.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// Opens a database for reading, leaving nothing behind.
pub fn open(path: &Path, uid: u32) -> Result<Connection, StoreError> {
    match file::open(path, uid) {
        Ok(_) => {}
        Err(file::Skip::Missing) => return Err(StoreError::Missing),
        Err(skip) => return Err(StoreError::Skipped(skip)),
    }
    // Whatever stands beside it is opened too, so it must be as much ours as the database itself.
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match file::open(Path::new(&name), uid) {
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
    let connection = Connection::open_with_flags(format!("file:{}?{mode}", escape(&path)), flags)?;
    connection.busy_timeout(Duration::from_millis(200))?;
    // Otherwise a statement is compiled anew for every value it is asked with.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Resolves the folders above a database: `SQLite` would refuse it for any link on the way there, and a
/// home may lie behind one. The database itself must be none.
fn behind_links(path: &Path) -> std::io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok(std::fs::canonicalize(folder)?.join(name)),
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
        assert_eq!(count(&open(&path, uid).expect("opened")), 1);
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
        assert_eq!(count(&open(&link.join("store.sqlite"), uid).expect("opened")), 1);
        std::os::unix::fs::symlink("store.sqlite", home.join("other.sqlite")).expect("linked");
        let refused = open(&link.join("other.sqlite"), uid);
        assert!(matches!(refused, Err(StoreError::Skipped(_))), "{refused:?}");
    }

    #[test]
    fn a_live_store_is_read_fresh() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("live.sqlite");
        let writer = make(&path);
        let before = names(dir.path());
        let uid = rustix::process::geteuid().as_raw();
        let reader = open(&path, uid).expect("opened");
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
        // As after a kill: all three files are there, and nobody has them open.
        let copy = |suffix: &str| {
            let to = dir.path().join(format!("left.sqlite{suffix}"));
            std::fs::copy(dir.path().join(format!("live.sqlite{suffix}")), &to).expect("copied");
            to
        };
        let (left, _log, index) = (copy(""), copy("-wal"), copy("-shm"));
        // Whoever makes it anew overwrites this.
        let stale = vec![0xA5; 32 << 10];
        std::fs::write(&index, &stale).expect("written");
        let uid = rustix::process::geteuid().as_raw();
        let reader = open(&left, uid).expect("opened");
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
        assert!(matches!(open(&copy, uid), Err(StoreError::WouldWrite)));
        assert_eq!(names(dir.path()), before);
    }
}

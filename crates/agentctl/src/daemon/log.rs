//! The daemon's log: one JSON object per line, rotated by size.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_core::model::Time;
use serde::Serialize;
use serde_json::Value;

use crate::place::open_log;
use crate::text::push_json;

/// The log is rotated when it is larger than this.
const MAX_LOG_BYTES: u64 = 4 << 20;
/// Number of rotated logs that are kept.
const KEPT_LOGS: u32 = 3;

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Normal operation.
    Info,
    /// A failure that the daemon works around.
    Warn,
    /// A failure.
    Error,
}

#[derive(Serialize)]
struct Line<'a> {
    at: Time,
    level: Level,
    what: &'a str,
    #[serde(flatten)]
    about: &'a Value,
}

/// A log that all threads share.
#[derive(Clone, Debug)]
pub struct Log(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: File,
    size: u64,
    clock: fn() -> Time,
}

impl Log {
    /// Opens or creates the log.
    pub fn open(path: &Path, clock: fn() -> Time) -> io::Result<Self> {
        let file = open_log(path)?;
        let size = file.metadata()?.len();
        Ok(Self(Arc::new(Mutex::new(Inner { path: path.to_owned(), file, size, clock }))))
    }

    /// Writes one line.
    pub fn say(&self, level: Level, what: &str, about: Value) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Line { at: (inner.clock)(), level, what, about: &about };
        let mut text = Vec::new();
        if push_json(&mut text, &line).is_err() {
            return;
        }
        text.push(b'\n');
        // A full disk must not end the daemon.
        let _unwritten = inner.write(&text);
    }

    /// Writes one line with level `info`.
    pub fn info(&self, what: &str, about: Value) {
        self.say(Level::Info, what, about);
    }

    /// Writes one line with level `warn`.
    pub fn warn(&self, what: &str, about: Value) {
        self.say(Level::Warn, what, about);
    }
}

impl Inner {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.size >= MAX_LOG_BYTES {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.size += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..KEPT_LOGS).rev() {
            let _none =
                std::fs::rename(rotated(&self.path, number), rotated(&self.path, number + 1));
        }
        std::fs::rename(&self.path, rotated(&self.path, 1))?;
        self.file = open_log(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

/// Returns the path of a rotated log.
fn rotated(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Time {
        Time::from_millis(0).unwrap()
    }

    #[test]
    fn a_large_log_is_rotated_and_few_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let log = Log::open(&path, clock).unwrap();
        let text = "x".repeat(1 << 20);
        for round in 0..24 {
            log.info("round", serde_json::json!({"round": round, "text": text}));
        }
        let mut names: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["daemon.log", "daemon.log.1", "daemon.log.2", "daemon.log.3"]);
        let last = std::fs::read_to_string(&path).unwrap();
        let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
        assert_eq!((&last["round"], &last["level"]), (&23.into(), &"info".into()));
    }
}

//! `log/opencode.log`: all processes write into it, each line with the `run` of its process.
//!
//! No line has a pid. But the kernel knows the file position of each process, which is the end of the
//! line that it wrote last. The `run` in that line identifies the process; the sessions of that run are
//! the ones it serves.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::kernel::{Kernel, Process};
use crate::model::{Time, is_session_id};
use crate::native::file;

/// Bytes of the log before a process's last line that are read first, and at most.
const WINDOW: u64 = 1 << 20;
const MAX_WINDOW: u64 = 16 << 20;
/// Most logs of single processes that are opened.
const MAX_LOGS: usize = 32;

/// The facts that a process has written to the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogFacts {
    /// Its sessions, with subagents, the last mentioned one at the end.
    pub(super) sessions: Vec<MentionedSession>,
    /// It requested a permission, and no turn has continued since.
    pub(super) asking: Option<String>,
    /// The log contains earlier lines of it that were not read.
    pub(super) cut: bool,
    /// The time of its last line. Later actions are not written yet.
    pub(super) until: Option<Time>,
}

/// A session that a process has mentioned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MentionedSession {
    pub(super) id: String,
    /// A turn of it was begun here, and its end was not written.
    pub(super) at_work: bool,
    /// It was created here, or a turn of it was begun here: an open turn of it does not belong to an
    /// older process.
    pub(super) begun_here: bool,
    /// It was created here, and nothing else was written about it.
    pub(super) only_made: bool,
    /// The model call failed, and there was no retry since.
    pub(super) failed_call: Option<String>,
}

/// The result of reading the log for a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LogReading {
    /// It has written lines.
    Written(LogFacts),
    /// It has written nothing (yet).
    Nothing,
    /// The log or the file position cannot be read.
    Unreadable,
}

impl LogReading {
    pub(super) fn told(&self) -> Option<&LogFacts> {
        match self {
            Self::Written(told) => Some(told),
            _ => None,
        }
    }
}

/// Reads the log lines of a process.
pub(super) fn read(kernel: &Kernel, process: &Process, data: &Path) -> LogReading {
    let shared = match file::open(&data.join("log/opencode.log"), kernel.uid()) {
        Ok(opened) => opened,
        Err(file::Skip::Missing) => return own(kernel, process, data),
        Err(_) => return LogReading::Unreadable,
    };
    match reached(kernel, process, &shared) {
        Err(_) => LogReading::Unreadable,
        // It has several descriptors of the file; unused ones are at the beginning.
        Ok(Some(end)) if end > 0 => heard(&shared.file, end),
        Ok(Some(_)) => LogReading::Nothing,
        Ok(None) => own(kernel, process, data),
    }
}

/// Returns the file position of a process; `None` if it does not have the file open.
fn reached(kernel: &Kernel, process: &Process, file: &file::Opened) -> io::Result<Option<u64>> {
    let (device, inode) = file.identity;
    Ok(kernel.positions(&process.id, device, inode)?.into_iter().max())
}

/// Returns the logs of single processes, the newest first. Before 1.17 each process had a log of its
/// own, named by its start time.
fn own_logs(data: &Path, uid: u32) -> impl Iterator<Item = file::Opened> {
    let is_old = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
    let mut entries = file::list_wanted(&data.join("log"), uid, &is_old).unwrap_or_default();
    entries.sort_by(|a, b| b.name.cmp(&a.name));
    entries.into_iter().take(MAX_LOGS).filter_map(move |entry| file::open(&entry.path, uid).ok())
}

/// Says whether the log of a single process names a session, and none of these processes has that log
/// open: then a process that has ended wrote it.
pub(super) fn is_of_the_ended(kernel: &Kernel, living: &[&Process], data: &Path, id: &str) -> bool {
    let id = memchr::memmem::Finder::new(id.as_bytes());
    let mut naming = own_logs(data, kernel.uid()).filter(|log| id.find(&tail_of(log)).is_some());
    let is_open = |log: &file::Opened| {
        living.iter().any(|process| !matches!(reached(kernel, process, log), Ok(None)))
    };
    naming.any(|log| !is_open(&log))
}

/// Reads the log that belongs to a single process.
fn own(kernel: &Kernel, process: &Process, data: &Path) -> LogReading {
    for opened in own_logs(data, kernel.uid()) {
        if matches!(reached(kernel, process, &opened), Ok(Some(_))) {
            let mut told = LogFacts { cut: opened.size > WINDOW, ..LogFacts::default() };
            for line in tail_of(&opened).split(|b| *b == b'\n') {
                told.take(&Line::parse_old(line));
            }
            return LogReading::Written(told);
        }
    }
    LogReading::Nothing
}

fn heard(log: &File, end: u64) -> LogReading {
    let mut window = WINDOW;
    loop {
        let Some(told) = told(log, end, window) else { return LogReading::Unreadable };
        if !told.cut || !told.sessions.is_empty() || window >= MAX_WINDOW {
            return LogReading::Written(told);
        }
        window *= 4;
    }
}

/// Returns the length of the shared log.
pub(super) fn length(data: &Path, uid: u32) -> u64 {
    file::open(&data.join("log/opencode.log"), uid).map_or(0, |opened| opened.size)
}

/// Returns the end of the shared log up to this length: the lines that were written by then.
pub(super) fn tail(data: &Path, uid: u32, length: u64) -> Vec<u8> {
    match file::open(&data.join("log/opencode.log"), uid) {
        Ok(opened) => part_before(&opened, length.min(opened.size)),
        Err(_) => Vec::new(),
    }
}

fn tail_of(opened: &file::Opened) -> Vec<u8> {
    part_before(opened, opened.size)
}

fn part_before(opened: &file::Opened, end: u64) -> Vec<u8> {
    let begin = end.saturating_sub(WINDOW);
    let mut bytes = vec![0; usize::try_from(end - begin).unwrap_or_default()];
    match opened.file.read_exact_at(&mut bytes, begin) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

fn told(log: &File, end: u64, window: u64) -> Option<LogFacts> {
    let begin = end.saturating_sub(window);
    let mut bytes = vec![0; usize::try_from(end - begin).ok()?];
    log.read_exact_at(&mut bytes, begin).ok()?;
    let text = bytes.strip_suffix(b"\n")?;
    // The first line began before the window and is cut.
    let text = match begin {
        0 => text,
        _ => &text[memchr::memchr(b'\n', text)? + 1..],
    };
    let last = text.rsplit(|b| *b == b'\n').next()?;
    let last = Line::parse(last);
    let mut told = gather(text, &last.run?);
    told.cut = begin > 0;
    told.until = last.timestamp.as_deref().and_then(Time::parse);
    Some(told)
}

fn gather(text: &[u8], run: &str) -> LogFacts {
    let mut told = LogFacts::default();
    let mark = format!(" run={run} ");
    let mark = memchr::memmem::Finder::new(mark.as_bytes());
    let lines = text.split(|b| *b == b'\n').filter(|line| mark.find(line).is_some());
    for line in lines {
        let line = Line::parse(line);
        if line.run.as_deref() == Some(run) {
            told.take(&line);
        }
    }
    told
}

impl LogFacts {
    fn take(&mut self, line: &Line) {
        let message = line.message.as_deref().unwrap_or_default();
        if message == "asking" {
            let what = line.permission.as_deref().unwrap_or("something");
            let patterns = line.patterns.as_deref().and_then(|p| serde_json::from_str(p).ok());
            let patterns: Vec<String> = patterns.unwrap_or_default();
            self.asking = Some(if patterns.is_empty() {
                what.to_owned()
            } else {
                format!("{what}: {}", patterns.join(", "))
            });
            return;
        }
        // Titles are generated by a side call, which is not a turn.
        let aside = line.agent.as_deref() == Some("title");
        let named = match message {
            "created" => line.id.as_deref(),
            _ => line.session.as_deref(),
        };
        let Some(id) = named.filter(|id| is_session_id(id) && !aside) else { return };
        let mut spoken = match self.sessions.iter().position(|s| s.id == id) {
            Some(at) => self.sessions.remove(at),
            None => MentionedSession { id: id.to_owned(), ..MentionedSession::default() },
        };
        spoken.only_made = message == "created";
        spoken.begun_here |= matches!(message, "created" | "loop" | "stream" | "process");
        let failed = line.level.as_deref() == Some("ERROR");
        match message {
            "loop" | "stream" => (spoken.at_work, spoken.failed_call) = (true, None),
            "process" => (spoken.at_work, spoken.failed_call) = (!failed, None),
            "stream error" => spoken.failed_call = Some(line.error.clone().unwrap_or_default()),
            "exiting loop" | "cancel" => (spoken.at_work, spoken.failed_call) = (false, None),
            _ => {}
        }
        if matches!(message, "loop" | "process" | "exiting loop" | "cancel") {
            self.asking = None;
        }
        self.sessions.push(spoken);
    }
}

/// The fields of a line that are used: `key=value`, a value with blanks is quoted as in JSON.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    timestamp: Option<String>,
    level: Option<String>,
    run: Option<String>,
    message: Option<String>,
    session: Option<String>,
    id: Option<String>,
    agent: Option<String>,
    permission: Option<String>,
    patterns: Option<String>,
    error: Option<String>,
}

impl Line {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut line = Self::default();
        let mut rest: &str = &text;
        while let Some((key, after)) = rest.trim_start().split_once('=') {
            let (value, after) = value(after);
            let field = match key {
                "timestamp" => &mut line.timestamp,
                "level" => &mut line.level,
                "run" => &mut line.run,
                "message" => &mut line.message,
                "session.id" => &mut line.session,
                "id" => &mut line.id,
                "agent" => &mut line.agent,
                "permission" => &mut line.permission,
                "patterns" => &mut line.patterns,
                "error.error" => &mut line.error,
                _ => {
                    rest = after;
                    continue;
                }
            };
            // The first field of a name counts: later ones may be part of a user's text.
            field.get_or_insert(value);
            rest = after;
        }
        line
    }
}

impl Line {
    /// Parses `INFO  2026-11-15T14:57:16 +0ms service=session.prompt step=0 sessionID=ses_… loop`: the
    /// last word is the event.
    fn parse_old(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let field = |name: &str| {
            let mut words = text.split(' ');
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
        };
        let created = field("service").as_deref() == Some("session") && text.ends_with(" created");
        let message = match text.rsplit(' ').next() {
            Some("loop") if text.ends_with(" exiting loop") => "exiting loop",
            Some("created") if created => "created",
            Some(word @ ("loop" | "process" | "stream" | "cancel")) => word,
            _ => return Self::default(),
        };
        Self {
            message: Some(message.to_owned()),
            session: field("sessionID"),
            id: field("id"),
            agent: field("agent"),
            ..Self::default()
        }
    }
}

/// Takes one value from the front of a text.
fn value(text: &str) -> (String, &str) {
    if !text.starts_with('"') {
        let end = text.find(' ').unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    }
    let mut escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|(_, b)| {
        let is_end = *b == b'"' && !escaped;
        escaped = *b == b'\\' && !escaped;
        is_end
    });
    let end = end.map_or(text.len(), |(at, _)| at + 1);
    let quoted = &text[..end];
    let plain =
        serde_json::from_str(quoted).unwrap_or_else(|_| quoted.trim_matches('"').to_owned());
    (plain, &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"timestamp=T level=INFO run=aa message="creating instance" directory=/w
timestamp=T level=INFO run=aa message=created id=ses_one slug=x parentID=undefined title="a run=bb message=loop session.id=ses_bad" permission="[{\"permission\":\"question\"}]"
timestamp=T level=INFO run=bb message=loop session.id=ses_two step=0
timestamp=T level=INFO run=aa message=loop session.id=ses_one step=0
timestamp=T level=INFO run=aa message=asking id=per_1 permission=bash patterns="[\"echo hi\"]"
timestamp=T level=INFO run=aa message=stream session.id=ses_one small=true agent=title mode=primary
"#;

    #[test]
    fn only_the_lines_of_a_run_are_its_own() {
        let told = gather(LOG.as_bytes(), "aa");
        assert_eq!(told.sessions.len(), 1);
        assert_eq!((told.sessions[0].id.as_str(), told.sessions[0].at_work), ("ses_one", true));
        assert_eq!(told.asking.as_deref(), Some("bash: echo hi"));
        let other = gather(LOG.as_bytes(), "bb");
        assert_eq!((other.sessions.len(), other.asking), (1, None));
    }

    #[test]
    fn a_turn_that_continues_ends_the_permission_request() {
        let more = format!(
            "{LOG}timestamp=T level=INFO run=aa message=loop session.id=ses_one step=1\n\
            timestamp=T level=ERROR run=aa message=\"stream error\" session.id=ses_one agent=build error.error=\"AI_APICallError: 429\"\n"
        );
        let told = gather(more.as_bytes(), "aa");
        assert_eq!(told.asking, None);
        assert_eq!(told.sessions[0].failed_call.as_deref(), Some("AI_APICallError: 429"));
        let over = format!(
            "{more}timestamp=T level=INFO run=aa message=\"exiting loop\" session.id=ses_one\n"
        );
        let told = gather(over.as_bytes(), "aa");
        assert_eq!((told.sessions[0].at_work, &told.sessions[0].failed_call), (false, &None));
    }

    #[test]
    fn the_old_log_format_gives_the_same_facts() {
        let mut told = LogFacts::default();
        let lines = [
            "INFO  2026-11-15T14:57:16 +8ms service=session id=ses_one slug=x title=a loop created",
            "INFO  2026-11-15T14:57:16 +0ms service=server method=POST path=/session/ses_bad/message request",
            "INFO  2026-11-15T14:57:16 +0ms service=session.prompt step=0 sessionID=ses_two loop",
            "INFO  2026-11-15T14:57:16 +0ms service=llm sessionID=ses_one agent=title mode=primary stream",
            "",
        ];
        for line in lines {
            told.take(&Line::parse_old(line.as_bytes()));
        }
        let names: Vec<(&str, bool)> =
            told.sessions.iter().map(|s| (s.id.as_str(), s.at_work)).collect();
        assert_eq!(names, [("ses_one", false), ("ses_two", true)]);
        let over = "INFO  T +0ms service=session.prompt sessionID=ses_two exiting loop";
        told.take(&Line::parse_old(over.as_bytes()));
        assert!(!told.sessions[1].at_work);
    }

    #[test]
    fn the_line_that_ends_at_a_position_names_the_run() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("log");
        std::fs::write(&path, LOG).expect("written");
        let log = File::open(&path).expect("open");
        let ends: Vec<u64> =
            memchr::memchr_iter(b'\n', LOG.as_bytes()).map(|at| at as u64 + 1).collect();
        let first = |end: u64, window: u64| told(&log, end, window).map(|t| t.sessions);
        let names = |sessions: Vec<MentionedSession>| -> Vec<String> {
            sessions.into_iter().map(|s| s.id).collect()
        };
        assert_eq!(first(ends[0], WINDOW), Some(vec![]));
        assert_eq!(names(first(ends[2], WINDOW).expect("told")), ["ses_two"]);
        assert_eq!(names(first(ends[3], WINDOW).expect("told")), ["ses_one"]);
        // In the middle of a line, or beyond the end, nothing is known.
        assert_eq!(first(ends[2] - 1, WINDOW), None);
        assert_eq!(first(ends[5] + 9, WINDOW), None);
        let cut = told(&log, ends[3], 100).expect("told");
        assert!(cut.cut);
        for end in 0..LOG.len() as u64 {
            for window in [1, 7, 80, 300] {
                let _never_panics = told(&log, end, window);
            }
        }
    }
}

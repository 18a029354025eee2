//! Live sessions: `sessions/<pid>.json`, verified against the kernel, and processes without a record.
//!
//! A record can be forged by every program that may write in the home. It joins a process only after
//! [`prove`]; a record that names a process which does not pass makes its session `unknown`.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::pid_domain::{Domain, domain};
use super::{ClaudeCode, NAME, arguments, asks, dialogs, frames, program};
use crate::adapters::proof::{Unproved, prove};
use crate::adapters::{Found, Look, Root, Served, State, fault, pid_of, skipped};
use crate::kernel::Process;
use crate::kernel::deadline;
use crate::model::{FaultCode, ProcId, Reason, ReasonKind, Status, Time, is_session_id};
use crate::native::file;

/// Largest live record that is read.
const RECORD_BYTES: u64 = 256 << 10;
/// A record is truncated and written again: an empty or torn one is read again after this pause.
const REWRITE_PAUSE: Duration = Duration::from_millis(2);
/// The most pauses in one look at a home, for all its torn records together, before the records count as torn.
const MAX_PAUSES: usize = 19;
/// The most skipped records that get a fault of their own; the others are counted in one fault.
const MAX_FAULTS: usize = 16;
/// The kernel's name of an inotify descriptor. Every version opens one after it has written its record.
const FILE_WATCH: &str = "anon_inode:inotify";
/// The first version that is known to write a key before its record.
const KEYS_SINCE: [u32; 3] = [2, 1, 280];
/// The reason why a process with the agent's name is not proved to be the agent.
const NAMESAKE: &str =
    "only the name of its program file says that it is Claude Code: it has no record and no key";

/// `sessions/<pid>.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LiveRecord {
    pub(super) session_id: String,
    cwd: Option<String>,
    started_at: Option<i64>,
    proc_start: Option<String>,
    pid_domain: Option<String>,
    pub(super) status: Option<String>,
    waiting_for: Option<String>,
    name: Option<String>,
    name_source: Option<String>,
    kind: Option<String>,
    entrypoint: Option<String>,
}

impl LiveRecord {
    /// Says whether the session runs in a terminal, or in the background with the interface of one.
    pub(super) fn has_terminal(&self) -> bool {
        self.entrypoint.as_deref() != Some("sdk-cli")
    }
}

/// Reads all live records of a home and adds the processes that have none.
pub(super) fn read(look: &Look, root: &Root) -> Found<Served> {
    let directory = root.path().join("sessions");
    let entries = match file::list(&directory, look.host.kernel.uid()) {
        Ok(entries) => entries,
        Err(skip) => return Found::fault(skipped(NAME, root, &directory, &skip)),
    };
    let mut living = Living {
        look,
        root,
        found: Found::default(),
        pauses: MAX_PAUSES,
        empty: HashSet::new(),
        torn: HashSet::new(),
        told: HashSet::new(),
    };
    let records = entries.iter().filter_map(|entry| Some((entry, pid_of(&entry.name, ".json")?)));
    living.add_records(records.collect());
    living.bound_faults();
    let key = |name: &str| pid_of(name.strip_suffix(".key")?.split('.').next()?, "");
    let keys: HashSet<u32> = entries.iter().filter_map(|entry| key(&entry.name)).collect();
    living.add_processes_without_record(&keys);
    living.found
}

/// The findings of one look at a home so far.
struct Living<'a> {
    look: &'a Look,
    root: &'a Root,
    found: Found<Served>,
    /// How many pauses are left to wait for torn records.
    pauses: usize,
    /// Processes whose record is empty.
    empty: HashSet<u32>,
    /// Processes whose record was still torn after the last pause.
    torn: HashSet<u32>,
    /// Processes whose record names a session, but does not prove that they serve it.
    told: HashSet<u32>,
}

impl Living<'_> {
    /// Adds these records. Claude Code truncates a record and writes it again: the torn records of living
    /// processes are read again, all of them after the same pause. Other torn records stay as they are.
    fn add_records(&mut self, mut records: Vec<(&file::DirectoryEntry, u32)>) {
        let mut is_first = true;
        while !records.is_empty() {
            let waits = self.pauses > 0 && Instant::now() + REWRITE_PAUSE < self.look.deadline;
            let mut torn = Vec::new();
            for (entry, pid) in records {
                if deadline::has_passed() {
                    return self.out_of_time();
                }
                match parse(self.look, entry) {
                    Ok(Parsed::Torn(_)) if waits && (!is_first || self.may_be_claude(pid)) => {
                        torn.push((entry, pid));
                    }
                    parsed => self.add_parsed(entry, pid, parsed),
                }
            }
            if !torn.is_empty() {
                self.pauses -= 1;
                std::thread::park_timeout(REWRITE_PAUSE);
            }
            (records, is_first) = (torn, false);
        }
    }

    /// Adds the fault that the deadline passed before every record was read.
    fn out_of_time(&mut self) {
        self.found.whole = false;
        let message = "not every live record could be read in time".to_owned();
        self.found.faults.push(fault(NAME, self.root, FaultCode::Timeout, message));
    }

    /// Keeps the first faults of this home and counts the others in one more.
    fn bound_faults(&mut self) {
        let more = self.found.faults.len().saturating_sub(MAX_FAULTS);
        if more > 0 {
            self.found.faults.truncate(MAX_FAULTS);
            let message = format!("{more} more files in sessions were skipped");
            self.found.faults.push(fault(NAME, self.root, FaultCode::Skipped, message));
        }
    }

    fn add_parsed(
        &mut self,
        entry: &file::DirectoryEntry,
        pid: u32,
        parsed: Result<Parsed, file::Skip>,
    ) {
        let source = format!("{NAME}:sessions/{}", entry.name);
        let record = match parsed {
            Ok(Parsed::Record(record)) => *record,
            Ok(Parsed::Missing) => return,
            Ok(Parsed::Torn(None)) => return self.add_empty(pid),
            Ok(Parsed::Torn(Some(error))) => {
                self.torn.insert(pid);
                return self.add_unreadable(entry, pid, &file::Skip::Other(error));
            }
            Err(skip) => return self.add_unreadable(entry, pid, &skip),
        };
        if record.kind.as_deref().is_some_and(|k| k.starts_with("daemon")) {
            return;
        }
        match domain(self.look, record.pid_domain.as_deref()) {
            Domain::Ours | Domain::Unnamed => {}
            Domain::Deserted => return,
            Domain::Elsewhere(why) => {
                let says = "a live record written on another machine or in another container";
                return self.add_unseen(
                    record,
                    (ReasonKind::Elsewhere, why),
                    (source, says.into()),
                );
            }
        }
        match self.writer(&record, pid) {
            Writer::Gone => {}
            Writer::Unproved(kind, why) => {
                let says = format!("a live record of pid {pid}: {why}");
                self.add_unseen(record, (kind, why), (source, says));
            }
            Writer::Proved(process) => self.add_served(record, &process, source),
        }
    }

    /// Adds an unreadable record. Its process may serve any session, so no session is proved to be
    /// unserved.
    fn add_unreadable(&mut self, entry: &file::DirectoryEntry, pid: u32, skip: &file::Skip) {
        self.found.whole &= !self.may_be_claude(pid);
        self.found.faults.push(skipped(NAME, self.root, &entry.path, skip));
    }

    /// Finds the process that wrote a record of our pid namespace, or of none that it names.
    fn writer(&mut self, record: &LiveRecord, pid: u32) -> Writer {
        let process = match self.look.host.kernel.process(pid) {
            Ok(Some(process)) => process,
            Ok(None) => return self.left_behind(record),
            Err(error) => {
                let why = format!("process {pid} could not be read: {error}");
                return Writer::Unproved(ReasonKind::Unreadable, why);
            }
        };
        // The recorded tick tells the writer from another process that inherited its pid.
        match record.proc_start.as_deref().map(str::parse::<u64>) {
            Some(Ok(start)) if process.id.start_ticks == start => {}
            Some(Ok(_)) => return self.left_behind(record),
            _ if !program::is_suspect(&process) => return self.left_behind(record),
            _ => {
                self.told.insert(pid);
                let why = format!("its live record does not say when pid {pid} began");
                return Writer::Unproved(ReasonKind::Ambiguous, why);
            }
        }
        match prove(&ClaudeCode, self.look, self.root, &process) {
            Ok(()) => Writer::Proved(Box::new(process)),
            Err(unproved) => {
                self.told.insert(pid);
                let kind = match unproved {
                    Unproved::Namespace => ReasonKind::Elsewhere,
                    _ => ReasonKind::Ambiguous,
                };
                Writer::Unproved(kind, format!("its live record names pid {pid}, but {unproved}"))
            }
        }
    }

    /// A record whose process is gone was left behind by SIGKILL. A record without a pid domain may
    /// come from another pid namespace, if a Claude Code process lives in one.
    fn left_behind(&self, record: &LiveRecord) -> Writer {
        let mut elsewhere = self.look.table.processes.iter().filter(|p| p.elsewhere);
        match elsewhere.find(|p| program::is_suspect(p)) {
            Some(other) if record.pid_domain.is_none() => {
                let why = format!(
                    "its live record does not name a pid namespace, and pid {} is a Claude Code of another one",
                    other.id.pid
                );
                Writer::Unproved(ReasonKind::Elsewhere, why)
            }
            _ => Writer::Gone,
        }
    }

    fn add_unseen(
        &mut self,
        record: LiveRecord,
        (kind, why): (ReasonKind, String),
        (source, says): (String, String),
    ) {
        let mut served = Served::unseen(record.session_id, "");
        served.state = Some(unknown(kind, why));
        served.cwd = record.cwd;
        served.evidence.push(self.look.evidence(source, says));
        self.found.rows.push(served);
    }

    fn add_served(&mut self, record: LiveRecord, process: &Process, source: String) {
        let mut served = Served::by(Some(record.session_id.clone()), process);
        let mut says = format!("status {}", record.status.as_deref().unwrap_or("not written"));
        if let Some(what) = &record.waiting_for {
            says.push_str(", waitingFor ");
            says.push_str(what);
        }
        served.evidence.push(self.look.evidence(source, says));
        let streams = arguments::takes_a_stream(&process.argv);
        served.single_prompt = record.entrypoint.as_deref() == Some("sdk-cli") && !streams;
        served.state = match self.stale_because(process) {
            Some(why) => Some(unknown(ReasonKind::Unreadable, why)),
            None => record.status.as_deref().map(|s| state(s, record.waiting_for.as_deref())),
        };
        if !record.has_terminal() {
            asks::count_open_asks(self.look, process, &mut served);
        }
        let older = record.pid_domain.is_none();
        if served.state.is_none() && older && arguments::keeps_no_transcript(&process.argv) {
            let why = "it keeps no transcript, and this version does not record a status";
            served.state = Some(unknown(ReasonKind::Unreadable, why));
        }
        if served.state.is_none() {
            // Versions before 2.1.280 write no status without a terminal; later ones within 170 ms.
            served.single_prompt = !streams || !older;
            served.first_prompt =
                !served.single_prompt && frames::awaits_first_turn(self.look, process);
            // A transcript without a turn since this process began: it has not been prompted yet.
            served.unprompted = true;
        }
        served.cwd = record.cwd;
        // A derived name is the name of the directory; only a name that a person or peer gave counts.
        let given = matches!(record.name_source.as_deref(), Some("user" | "peer"));
        served.name = record.name.filter(|_| given);
        served.started_at = record.started_at.and_then(Time::from_millis).or(served.started_at);
        self.found.rows.push(served);
    }

    /// Returns why a record is stale: on a read-only file system it shows an old state.
    fn stale_because(&self, process: &Process) -> Option<String> {
        let sessions = self.root.path().join("sessions");
        let refusal =
            file::refuses_writing(&sessions).filter(|r| *r == file::WriteRefusal::ReadOnly)?;
        let shared = self.look.host.kernel.shares_mounts(&process.id).unwrap_or(true);
        shared.then(|| format!("its live record cannot be written: {refusal}"))
    }

    /// Notes an empty record of a live process: it is about to be written.
    fn add_empty(&mut self, pid: u32) {
        if self.may_be_claude(pid) {
            self.found.whole = false;
            self.empty.insert(pid);
        }
    }

    fn may_be_claude(&self, pid: u32) -> bool {
        let process = self.look.host.kernel.process(pid);
        process.map_or(true, |p| p.is_some_and(|p| program::is_suspect(&p)))
    }

    fn add_processes_without_record(&mut self, keys: &HashSet<u32>) {
        let look = self.look;
        let may_serve =
            |p: &&Process| program::is_suspect(p) && arguments::may_serve_session(&p.argv);
        let launchers = program::launchers(look);
        for process in look.table.processes.iter().filter(may_serve) {
            if self.is_accounted_for(process)
                || look.table.is_mere_fork(process)
                || !uses(look, self.root, process)
                || launchers.contains(&process.id.pid)
            {
                continue;
            }
            // It may have written its record since the directory was listed.
            if !process.elsewhere && self.add_late_record(process) {
                continue;
            }
            if !look.has_ended(process) {
                let unwritten = Unwritten {
                    has_key: keys.contains(&process.id.pid),
                    is_empty: self.empty.contains(&process.id.pid),
                };
                self.found.rows.push(unrecorded(look, self.root, process, &unwritten));
            }
        }
    }

    /// Says whether a record accounts for a process. Records of other pid namespaces cannot be matched
    /// to processes, so one such record accounts for all processes of other namespaces.
    fn is_accounted_for(&self, process: &Process) -> bool {
        let is_elsewhere = |served: &Served| {
            let reason = served.state.as_ref().and_then(|s| s.reason.as_ref());
            served.by.is_empty() && reason.is_some_and(|r| r.kind == ReasonKind::Elsewhere)
        };
        if process.elsewhere {
            return self.found.rows.iter().any(is_elsewhere);
        }
        self.told.contains(&process.id.pid)
            || self.found.rows.iter().any(|s| s.by.contains(&process.id))
    }

    /// Reads a record that was written after the directory was listed; says whether a record accounts
    /// for the process now.
    fn add_late_record(&mut self, process: &Process) -> bool {
        let pid = process.id.pid;
        if self.empty.contains(&pid) || self.torn.contains(&pid) {
            return false;
        }
        let name = format!("{pid}.json");
        let path = self.root.path().join("sessions").join(&name);
        if let Ok(meta) = std::fs::symlink_metadata(&path) {
            let entry = file::DirectoryEntry { name, path, kind: meta.file_type() };
            let faults = self.found.faults.len();
            self.add_records(vec![(&entry, pid)]);
            // Faults of this record were already reported when the directory was read.
            self.found.faults.truncate(faults);
        }
        self.is_accounted_for(process)
    }
}

/// The process that wrote a record.
enum Writer {
    /// It has ended.
    Gone,
    /// A process is there, or may be where it cannot be seen, but it is not proved to be the writer.
    Unproved(ReasonKind, String),
    /// It lives.
    Proved(Box<Process>),
}

enum Parsed {
    Missing,
    /// It is empty, or not whole for this reason.
    Torn(Option<String>),
    Record(Box<LiveRecord>),
}

fn parse(look: &Look, entry: &file::DirectoryEntry) -> Result<Parsed, file::Skip> {
    let bytes = match file::read_small(&entry.path, look.host.kernel.uid(), RECORD_BYTES) {
        Ok(bytes) => bytes,
        Err(file::Skip::Missing) => return Ok(Parsed::Missing),
        Err(skip) => return Err(skip),
    };
    match serde_json::from_slice::<LiveRecord>(&bytes) {
        Ok(record) if is_session_id(&record.session_id) => Ok(Parsed::Record(Box::new(record))),
        Ok(_) => Err(file::Skip::Other("its session id is none".into())),
        Err(_) if bytes.is_empty() => Ok(Parsed::Torn(None)),
        Err(error) => Ok(Parsed::Torn(Some(error.to_string()))),
    }
}

/// Returns the live record of one process; `None` if it has none, or another process wrote it.
pub(super) fn recorded(look: &Look, home: &Path, id: &ProcId) -> Option<LiveRecord> {
    let name = format!("{}.json", id.pid);
    let path = home.join("sessions").join(&name);
    for _ in 0..MAX_PAUSES {
        let bytes = file::read_small(&path, look.host.kernel.uid(), RECORD_BYTES).ok()?;
        if let Ok(record) = serde_json::from_slice::<LiveRecord>(&bytes) {
            let start = record.proc_start.as_deref().and_then(|start| start.parse::<u64>().ok());
            return (start == Some(id.start_ticks)).then_some(record);
        }
        // The record is being written.
        std::thread::park_timeout(REWRITE_PAUSE);
    }
    None
}

fn unknown(kind: ReasonKind, why: impl Into<String>) -> State {
    State { status: Status::Unknown, reason: Some(Reason::with(kind, why)) }
}

fn starting() -> State {
    State { status: Status::Running, reason: Some(Reason::of(ReasonKind::Starting)) }
}

/// Removes the session id of a record that 2.1.150 writes before it has read the session that it
/// resumes: the id is new, and no session ever has it.
pub(super) fn forget_provisional_id(look: &Look, served: &mut Served) {
    let process = served.by.first().and_then(|id| look.host.kernel.process(id.pid).ok()?);
    if process.is_some_and(|process| arguments::resumes(&process.argv)) {
        served.id = None;
        served.may_serve = true;
        served.state = Some(starting());
    }
}

/// Returns the state of a session whose record has no status and that has no transcript yet. A process
/// that takes a stream of prompts is idle until the first one, unless it was started with one.
pub(super) fn before_first_entry(served: &Served) -> State {
    if served.single_prompt || served.first_prompt {
        return starting();
    }
    State { status: Status::Idle, reason: None }
}

fn state(status: &str, waiting_for: Option<&str>) -> State {
    let (status, reason) = match (status, waiting_for) {
        ("busy", _) => (Status::Running, None),
        ("idle", _) => (Status::Idle, None),
        ("shell", _) => {
            let what = Reason::with(ReasonKind::Background, "a background shell is at work");
            (Status::Idle, Some(what))
        }
        ("waiting", what) => (Status::Waiting, Some(waiting(what))),
        (other, _) => {
            let why = format!("its live record says `{other}`, which is not understood");
            return unknown(ReasonKind::Unreadable, why);
        }
    };
    State { status, reason }
}

/// Returns the reason for waiting. Without detail the open tool call in the transcript gives it.
fn waiting(what: Option<&str>) -> Reason {
    match what {
        Some("permission prompt" | "sandbox request" | "worker request") => {
            Reason::of(ReasonKind::Permission)
        }
        Some("input needed") => Reason::of(ReasonKind::Question),
        Some(other) => Reason::with(ReasonKind::Dialog, other),
        None => Reason::of(ReasonKind::Dialog),
    }
}

fn uses(look: &Look, root: &Root, process: &Process) -> bool {
    match super::home::home_of(look, process) {
        Some(home) => home == root.path(),
        None => file::resolve_root(&look.host.home.join(".claude")) == root.path(),
    }
}

/// The traces of a process that has no live record.
struct Unwritten {
    has_key: bool,
    is_empty: bool,
}

/// Makes the claim for a live process without a record: starting, at a first dialog, exiting, or unable
/// to write.
fn unrecorded(look: &Look, root: &Root, process: &Process, unwritten: &Unwritten) -> Served {
    let mut served = Served::by(None, process);
    let has_key = unwritten.has_key;
    let headless = arguments::is_headless(&process.argv);
    let asks = has_key && !headless;
    let blocked = if asks { dialogs::first_dialog(look, root, process) } else { None };
    let pid = process.id.pid;
    let says = match (&blocked, has_key) {
        _ if unwritten.is_empty => {
            format!("the record of pid {pid} is empty: no status written yet")
        }
        (Some(reason), _) => {
            format!("pid {pid} has a key but no record, and {} is outstanding", reason.kind.word())
        }
        (None, true) => format!("pid {pid} has a key but no record yet"),
        (None, false) => format!("pid {pid} has neither key nor record"),
    };
    served.evidence.push(look.evidence(format!("{NAME}:sessions/"), says));
    // A wrapper that only has the agent's name serves no session, also after its agent has ended.
    let is_namesake = !has_key && !unwritten.is_empty && program::is_namesake(process);
    // Without an outstanding dialog it may also be exiting, with its record already removed.
    served.may_serve = blocked.is_none() && !is_namesake;
    served.state = Some(match blocked {
        Some(reason) => State { status: Status::Waiting, reason: Some(reason) },
        None if is_namesake => unknown(ReasonKind::Unreadable, NAMESAKE),
        None => cannot_tell(look, root, process)
            .or_else(|| may_be_asking(look, root, process, has_key))
            .unwrap_or_else(starting),
    });
    served
}

/// Versions before 2.1.280 write no file before their record: while a first dialog is outstanding they
/// may be starting or waiting for its answer.
fn may_be_asking(look: &Look, root: &Root, process: &Process, has_key: bool) -> Option<State> {
    let writes_key = has_key || program::is_since(process, KEYS_SINCE);
    if writes_key || arguments::is_headless(&process.argv) {
        return None;
    }
    let word = dialogs::first_dialog(look, root, process)?.kind.word();
    let why = format!(
        "it has written nothing yet, and {word} is outstanding: starting or waiting for an answer"
    );
    Some(unknown(ReasonKind::Unreadable, why))
}

/// Returns why the missing record does not mean that a process is starting.
fn cannot_tell(look: &Look, root: &Root, process: &Process) -> Option<State> {
    if process.elsewhere {
        return Some(unknown(ReasonKind::Elsewhere, "it lives in another pid namespace"));
    }
    if !look.host.kernel.shares_mounts(&process.id).unwrap_or(false) {
        let why = "it sees other mounts than we do: its home may be another folder";
        return Some(unknown(ReasonKind::Elsewhere, why));
    }
    if program::is_interpreted(process) {
        let why = "this version of Claude Code does not record what it does";
        return Some(unknown(ReasonKind::Unreadable, why));
    }
    if super::home::home_of(look, process).is_none() {
        let why = "its own environment names no home that can be resolved";
        return Some(unknown(ReasonKind::Unreadable, why));
    }
    if let Some(refusal) = file::refuses_writing(&root.path().join("sessions")) {
        let why = format!("it cannot write its live record: {refusal}");
        return Some(unknown(ReasonKind::Unreadable, why));
    }
    if super::home::is_relative(look, process) {
        let why = "its home is a relative path, and it may have changed its directory since";
        return Some(unknown(ReasonKind::Unreadable, why));
    }
    let watches = look.host.kernel.open_files(&process.id, &|path| path == Path::new(FILE_WATCH));
    watches
        .is_ok_and(|watches| !watches.is_empty())
        .then(|| unknown(ReasonKind::Unreadable, "it has started, but its live record is missing"))
}

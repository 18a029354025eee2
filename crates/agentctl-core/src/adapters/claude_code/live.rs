//! Who lives: `sessions/<pid>.json`, verified against the kernel, and processes that have none.

use std::path::Path;

use serde::Deserialize;

use super::NAME;
use crate::adapters::{Found, Look, Root, Served, State, skipped};
use crate::kernel::Process;
use crate::model::{Reason, ReasonKind, Status, Time, is_session_id};
use crate::native::file;

/// Largest live record that is read.
const RECORD_BYTES: u64 = 256 << 10;

/// `sessions/<pid>.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LiveRecord {
    session_id: String,
    cwd: Option<String>,
    started_at: Option<i64>,
    proc_start: Option<String>,
    pid_domain: Option<String>,
    status: Option<String>,
    waiting_for: Option<String>,
    name: Option<String>,
    name_source: Option<String>,
    kind: Option<String>,
    entrypoint: Option<String>,
}

/// Reads all live records of a home and adds the processes that have none.
pub(super) fn read(look: &Look, root: &Root) -> Found<Served> {
    let mut found = Found::default();
    let uid = look.host.kernel.uid();
    let directory = root.path.join("sessions");
    let entries = match file::list(&directory, uid) {
        Ok(entries) => entries,
        Err(skip) => return Found::fault(skipped(NAME, root, &directory, &skip)),
    };
    for entry in &entries {
        let pid = entry.name.strip_suffix(".json").and_then(|p| p.parse().ok());
        if let Some(pid) = pid {
            served(look, root, entry, pid, &mut found);
        }
    }
    let keys: Vec<u32> = entries
        .iter()
        .filter_map(|e| e.name.strip_suffix(".key")?.split('.').next()?.parse().ok())
        .collect();
    for process in look.table.processes.iter().filter(|p| may_be_session(p)) {
        let joined = found.rows.iter().any(|s| s.by.contains(&process.id));
        let mere = look.table.is_mere_fork(process);
        if joined || mere || process.elsewhere || !uses(look, root, process) {
            continue;
        }
        // It may have written its record since the directory was listed.
        let known = found.rows.len();
        late_record(look, root, process, &mut found);
        if found.rows.len() == known && !look.has_ended(process) {
            found.rows.push(unrecorded(look, root, process, keys.contains(&process.id.pid)));
        }
    }
    found
}

fn served(look: &Look, root: &Root, entry: &file::Entry, pid: u32, found: &mut Found<Served>) {
    let source = format!("{NAME}:sessions/{}", entry.name);
    let record = match parse(look, entry) {
        Ok(Some(record)) => record,
        Ok(None) => return,
        Err(skip) => {
            // Whomever its process serves cannot be told: nobody is proved to be served by no one.
            let written_by = look.host.kernel.process(pid);
            found.whole &= !written_by.map_or(true, |p| p.is_some_and(|p| is_claude(&p)));
            return found.faults.push(skipped(NAME, root, &entry.path, &skip));
        }
    };
    if record.kind.as_deref().is_some_and(|k| k.starts_with("daemon")) {
        return;
    }
    match domain(look, record.pid_domain.as_deref()) {
        Domain::Ours => {}
        Domain::Deserted => return,
        Domain::Elsewhere(why) => {
            let mut served = Served::unseen(record.session_id, why);
            served.cwd = record.cwd;
            served.evidence.push(look.evidence(source, "a live record from another pid domain"));
            return found.rows.push(served);
        }
    }
    let process = match look.host.kernel.process(pid) {
        Ok(Some(process)) => process,
        Ok(None) => return, // left behind by SIGKILL
        Err(error) => {
            let why = format!("process {pid} could not be read: {error}");
            return found.rows.push(Served::unseen(record.session_id, why));
        }
    };
    // The recorded tick tells the writer from a stranger that inherited its pid.
    match record.proc_start.as_deref().map(str::parse::<u64>) {
        Some(Ok(start)) if process.id.start_ticks == start => {}
        Some(Ok(_)) => return,
        _ if !is_claude(&process) => return,
        _ => {
            let why = format!("its live record does not say when pid {pid} began");
            return found.rows.push(Served::unseen(record.session_id, why));
        }
    }
    let mut served = Served::by(Some(record.session_id.clone()), &process);
    let mut says = format!("status {}", record.status.as_deref().unwrap_or("not written yet"));
    if let Some(what) = &record.waiting_for {
        says.push_str(", waitingFor ");
        says.push_str(what);
    }
    served.evidence.push(look.evidence(source, says));
    served.state = Some(state(record.status.as_deref(), record.waiting_for.as_deref()));
    let streams = process.argv.iter().any(|a| a.contains("stream-json") && !a.contains("output"))
        && process.argv.iter().any(|a| a.starts_with("--input-format"));
    served.single_prompt = record.entrypoint.as_deref() == Some("sdk-cli") && !streams;
    served.cwd = record.cwd;
    // A derived name is the directory's; only one that somebody gave is a name.
    let given = matches!(record.name_source.as_deref(), Some("user" | "peer"));
    served.name = record.name.filter(|_| given);
    served.started_at = record.started_at.and_then(Time::from_millis).or(served.started_at);
    found.rows.push(served);
}

/// The file is rewritten in place: a torn read is tried again before it is believed.
fn parse(look: &Look, entry: &file::Entry) -> Result<Option<LiveRecord>, file::Skip> {
    let uid = look.host.kernel.uid();
    let mut torn = String::new();
    for _ in 0..5 {
        let bytes = match file::read_small(&entry.path, uid, RECORD_BYTES) {
            Ok(bytes) => bytes,
            Err(file::Skip::Missing) => return Ok(None),
            Err(skip) => return Err(skip),
        };
        match serde_json::from_slice::<LiveRecord>(&bytes) {
            Ok(record) if is_session_id(&record.session_id) => return Ok(Some(record)),
            Ok(_) => return Err(file::Skip::Other("its session id is none".into())),
            Err(error) => torn = error.to_string(),
        }
    }
    Err(file::Skip::Other(torn))
}

enum Domain {
    Ours,
    /// Nobody lives there any more.
    Deserted,
    Elsewhere(String),
}

/// `linux:<machine-id>:pid:[<namespace>]`: a pid means something only in the domain it was written in.
fn domain(look: &Look, text: Option<&str>) -> Domain {
    let kernel = &look.host.kernel;
    let Some(text) = text else { return Domain::Ours };
    let mut parts = text.splitn(3, ':');
    let (_, machine, space) = (parts.next(), parts.next(), parts.next());
    let space = space.and_then(|s| s.strip_prefix("pid:[")?.strip_suffix(']')?.parse::<u64>().ok());
    let same_machine = kernel.machine_id().is_none_or(|own| machine == Some(own));
    match space {
        Some(space) if same_machine && space == kernel.pid_namespace() => Domain::Ours,
        // From the machine's own namespace every process can be seen: an empty namespace is gone.
        Some(space)
            if same_machine
                && kernel.sees_whole_machine()
                && kernel.namespace_is_inhabited(space).is_ok_and(|inhabited| !inhabited) =>
        {
            Domain::Deserted
        }
        Some(_) if same_machine => {
            Domain::Elsewhere("its process lives in another pid namespace".into())
        }
        Some(_) => Domain::Elsewhere("it was recorded on another machine".into()),
        None => Domain::Elsewhere(format!("its pid domain `{text}` is not understood")),
    }
}

fn state(status: Option<&str>, waiting_for: Option<&str>) -> State {
    let (status, reason) = match (status, waiting_for) {
        (None, _) => (Status::Running, Some(Reason::of(ReasonKind::Starting))),
        (Some("busy"), _) => (Status::Running, None),
        (Some("idle"), _) => (Status::Idle, None),
        (Some("shell"), _) => {
            let what = Reason::with(ReasonKind::Background, "a background shell is at work");
            (Status::Idle, Some(what))
        }
        (Some("waiting"), what) => (Status::Waiting, Some(waiting(what))),
        (Some(other), _) => {
            let why = format!("its live record says `{other}`, which is not understood");
            (Status::Unknown, Some(Reason::with(ReasonKind::Unreadable, why)))
        }
    };
    State { status, reason }
}

/// Without detail the open tool call in the transcript says what for.
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

/// Says whether a candidate is the agent's program and not a tool that shares its file.
pub(super) fn is_claude(process: &Process) -> bool {
    let name = process.argv.first().map(|a| Path::new(a).file_name().unwrap_or_default());
    match name.map(std::ffi::OsStr::to_string_lossy).as_deref() {
        // Background processes call themselves `claude bg-spare`.
        Some(name) => {
            let word = name.split(' ').next().unwrap_or_default();
            // Its search tool is the same file under another name; a number is the native install.
            matches!(word, "claude" | "claude.exe")
                || word.starts_with(|c: char| c.is_ascii_digit())
        }
        None => false,
    }
}

/// Leaves out the processes of Claude Code that never serve a session without a record.
fn may_be_session(process: &Process) -> bool {
    #[rustfmt::skip]
    const OTHERS: [&str; 20] = [
        "daemon", "mcp", "update", "upgrade", "doctor", "config", "install", "agents", "stop", "logs",
        "attach", "respawn", "rm", "plugin", "plugins", "setup-token", "auth", "--version", "-v", "--help",
    ];
    // A spare waits for a session to be given to it; the host of a terminal never has one.
    let background = process.argv.iter().any(|a| a == "--bg-spare" || a == "--bg-pty-host");
    is_claude(process)
        && !background
        && !process.argv.get(1).is_some_and(|a| OTHERS.contains(&a.as_str()))
}

fn uses(look: &Look, root: &Root, process: &Process) -> bool {
    match super::home_of(look, process) {
        Some(home) => file::resolve_root(&home) == root.path,
        None => file::resolve_root(&look.host.home.join(".claude")) == root.path,
    }
}

fn late_record(look: &Look, root: &Root, process: &Process, found: &mut Found<Served>) {
    let name = format!("{}.json", process.id.pid);
    let path = root.path.join("sessions").join(&name);
    if let Ok(meta) = std::fs::symlink_metadata(&path) {
        let entry = file::Entry { name, path, kind: meta.file_type() };
        let faults = found.faults.len();
        served(look, root, &entry, process.id.pid, found);
        // What is wrong with it was told when the directory was read.
        found.faults.truncate(faults);
    }
}

/// A live process without a live record: starting, at a first dialog, or on its way out.
fn unrecorded(look: &Look, root: &Root, process: &Process, has_key: bool) -> Served {
    let mut served = Served::by(None, process);
    let headless = process.argv.iter().any(|a| a == "-p" || a == "--print");
    let blocked = if has_key && !headless { first_dialog(look, root, process) } else { None };
    let pid = process.id.pid;
    let says = match (&blocked, has_key) {
        (Some(reason), _) => {
            format!("pid {pid} has a key but no record, and {} is outstanding", reason.kind.word())
        }
        (None, true) => format!("pid {pid} has a key but no record yet"),
        (None, false) => format!("pid {pid} has neither key nor record"),
    };
    served.evidence.push(look.evidence(format!("{NAME}:sessions/"), says));
    // Without an outstanding dialog it may also be on its way out, its record gone already.
    served.may_serve = blocked.is_none();
    served.state = Some(match blocked {
        Some(reason) => State { status: Status::Waiting, reason: Some(reason) },
        None => State { status: Status::Running, reason: Some(Reason::of(ReasonKind::Starting)) },
    });
    served
}

/// What Claude Code's own settings say must be answered before a session can begin.
fn first_dialog(look: &Look, root: &Root, process: &Process) -> Option<Reason> {
    let beside = root.path.parent().map(|p| p.join(".claude.json"));
    let paths = [Some(root.path.join(".claude.json")), beside];
    let path = paths.into_iter().flatten().find(|p| p.exists())?;
    let bytes = file::read_small(&path, look.host.kernel.uid(), 16 << 20).ok()?;
    let settings: Settings = serde_json::from_slice(&bytes).ok()?;
    if !settings.has_completed_onboarding {
        return Some(Reason::of(ReasonKind::Login));
    }
    if settings.knows_not_the_key(look, process) {
        return Some(Reason::with(ReasonKind::Dialog, "use of the API key must be confirmed"));
    }
    let trusted = process.cwd.as_ref()?.ancestors().any(|dir| {
        let project = settings.projects.get(dir.to_string_lossy().as_ref());
        project.is_some_and(|p| p.has_trust_dialog_accepted)
    });
    if !trusted {
        return Some(Reason::of(ReasonKind::Trust));
    }
    let bypasses = process.argv.iter().any(|a| a == "--dangerously-skip-permissions");
    let warned = settings.bypass_permissions_mode_accepted || skips_warning(look, root);
    (bypasses && !warned)
        .then(|| Reason::with(ReasonKind::Dialog, "bypassing permissions must be confirmed"))
}

/// `.claude.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Settings {
    has_completed_onboarding: bool,
    bypass_permissions_mode_accepted: bool,
    custom_api_key_responses: KeyResponses,
    projects: std::collections::HashMap<String, Project>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyResponses {
    approved: Vec<String>,
    rejected: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Project {
    #[serde(default)]
    has_trust_dialog_accepted: bool,
}

impl Settings {
    /// The answer about a key is kept by its last twenty characters.
    fn knows_not_the_key(&self, look: &Look, process: &Process) -> bool {
        let values = look.host.kernel.environ(&process.id, &["ANTHROPIC_API_KEY"]);
        let key = values.ok().and_then(|mut v| v.pop()).flatten().filter(|k| !k.is_empty());
        let Some(key) = key else { return false };
        let tail: String = key.chars().skip(key.chars().count().saturating_sub(20)).collect();
        let answers = &self.custom_api_key_responses;
        !answers.approved.contains(&tail) && !answers.rejected.contains(&tail)
    }
}

fn skips_warning(look: &Look, root: &Root) -> bool {
    let path = root.path.join("settings.json");
    let bytes = file::read_small(&path, look.host.kernel.uid(), 1 << 20).unwrap_or_default();
    let settings: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    settings["skipDangerousModePermissionPrompt"] == true
}

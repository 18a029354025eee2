//! Live sessions: from the environment of a process's tools, from its first output, or from its
//! directory and start time.

use std::collections::HashSet;
use std::path::PathBuf;

use super::lines;
use super::output::{self, GRAIN_MS, LastEvent, Mode};
use super::process::{Surroundings, is_package_command, is_starting, kind_of, launchers};
use super::record::{self, last_activity};
use super::{Kind, PiStore, exclusion, owners};
use crate::adapters::proof::prove;
use crate::adapters::{Found, Look, Root, Served, State, Store, Turn};
use crate::kernel::Process;
use crate::marks;
use crate::model::{Evidence, Join, Reason, ReasonKind, Status, Time, is_session_id};
use crate::native::file;

/// A session that the environment of a live process's tool names.
#[derive(Clone, Debug)]
pub(super) struct NamedByTool {
    /// The process.
    pid: u32,
    /// The pid of the tool.
    by: u32,
    /// The session.
    pub(super) id: String,
    /// Its file.
    pub(super) file: Option<PathBuf>,
}

/// A session file that was written recently.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) path: PathBuf,
}

/// Such a file with the facts that decide which process may have written it.
struct Dated {
    id: String,
    path: PathBuf,
    /// The working directory of its session; `None` where that could not be read.
    directory: Option<String>,
    times: owners::File,
}

impl Dated {
    fn works_in(&self, directory: &str) -> bool {
        self.directory.as_deref().is_none_or(|own| own == directory)
    }
}

/// A process of this home whose session is not certain.
struct Open<'a> {
    process: &'a Process,
    kind: Kind,
    joined: Option<Joined>,
    /// Why it was not joined to the one session that its directory and start time suggest.
    ruled_out: Option<&'static str>,
}

/// The session that is inferred from a process's directory and start time.
struct Joined {
    id: String,
    kind: Kind,
    evidence: Evidence,
    /// Its last turn is over: the process may have opened another session since.
    is_at_rest: bool,
}

impl Open<'_> {
    fn directory(&self) -> Option<String> {
        // In another mount namespace this path may be another directory.
        let place = self.process.cwd.as_ref().filter(|_| !self.process.elsewhere);
        place.map(|cwd| cwd.to_string_lossy().into_owned())
    }

    fn times(&self) -> owners::Process {
        let began_ms = self.process.started_at.map_or(0, Time::millis);
        owners::Process { kind: self.kind, began_ms }
    }
}

/// Returns the live processes of both kinds that use this home.
fn processes<'a>(look: &'a Look, root: &Root) -> Vec<(&'a Process, Kind, Surroundings)> {
    let launchers = launchers(look);
    let all = look.table.processes.iter().filter_map(|process| {
        let kind = kind_of(process)?;
        let surroundings = Surroundings::of(look, process)?;
        let counts = surroundings.belongs_to(root)
            && !is_fork(look, process)
            && !launchers.contains(&process.id.pid)
            && !look.has_ended(process);
        counts.then_some((process, kind, surroundings))
    });
    all.collect()
}

/// Says whether a process is a child that has not called `exec` yet. An agent that was started by
/// another one looks the same except for its environment.
fn is_fork(look: &Look, process: &Process) -> bool {
    if !look.table.is_mere_fork(process) {
        return false;
    }
    let names = ["PI_CODING_AGENT", "PI_SESSION_ID", marks::MARKER];
    let environ = |p: &Process| look.host.kernel.environ(&p.id, &names).ok();
    let parent = look.table.process(process.parent_pid);
    parent.is_some_and(|parent| environ(parent) == environ(process))
}

/// The children of this home's processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Children {
    /// The sessions that their environment names.
    pub(super) told: Vec<NamedByTool>,
    /// The processes that have children.
    parents: HashSet<u32>,
}

/// Reads from the environment of this home's tools which session they work for.
pub(super) fn children(look: &Look, root: &Root) -> Children {
    let mut found = Children::default();
    let agents = processes(look, root);
    if agents.is_empty() {
        return found;
    }
    for child in &look.everyone().processes {
        let parent = agents.iter().find(|(agent, ..)| agent.id.pid == child.parent_pid);
        let Some((agent, _, surroundings)) = parent else { continue };
        found.parents.insert(agent.id.pid);
        let names = ["PI_SESSION_ID", "PI_SESSION_FILE"];
        let Ok(values) = look.host.kernel.environ(&child.id, &names) else { continue };
        let [Some(id), path] = values.as_slice() else { continue };
        // A value that the agent itself inherited comes from the agent that started it.
        if surroundings.inherited.as_ref() == Some(id) || !is_session_id(id) {
            continue;
        }
        let path = path.as_deref().map(PathBuf::from).filter(|path| path.is_absolute());
        found.told.push(NamedByTool {
            pid: agent.id.pid,
            by: child.id.pid,
            id: id.clone(),
            file: path,
        });
    }
    found
}

/// The certain facts about a process.
struct Certain {
    id: String,
    evidence: Evidence,
    /// How it was started, where its output says so.
    mode: Option<Mode>,
    /// A running tool of it names the session.
    in_tool: bool,
}

/// Reads which processes serve which sessions of one home.
pub(super) fn read(store: &PiStore<'_>, found: &mut Found<Served>) {
    let mut open = Vec::new();
    let mut claimed = HashSet::new();
    for (process, kind, _) in processes(store.look, store.root) {
        if is_starting(process) {
            if kind == store.kind && !is_package_command(process) {
                found.rows.push(starting(store.look, process));
            }
            continue;
        }
        let Some(certain) = certain(store, process) else {
            open.push(Open { process, kind, joined: None, ruled_out: None });
            continue;
        };
        claimed.insert(certain.id.clone());
        // A session belongs to the program that began it, whichever of the two serves it now.
        if store.beginner(&certain.id).unwrap_or(kind) == store.kind {
            found.rows.push(served(store, process, kind, certain));
        }
    }
    let Some(since) = open.iter().map(|o| o.times().began_ms - GRAIN_MS).min() else { return };
    let mut directories: Vec<String> = open.iter().filter_map(Open::directory).collect();
    directories.sort();
    directories.dedup();
    let written = store.written(since, &directories, found).into_iter();
    let unclaimed = written.filter(|w| !claimed.contains(&w.id));
    let files: Vec<Dated> = unclaimed.filter_map(|w| dated(store, w)).collect();
    for directory in &directories {
        join_in(store, directory, &mut open, &files);
    }
    for process in &open {
        add(store, process, &open, &files, found);
    }
}

/// Makes the row of a session that its process or a tool of it names.
fn served(store: &PiStore<'_>, process: &Process, kind: Kind, certain: Certain) -> Served {
    let Certain { id, evidence, mode, in_tool } = certain;
    let proved = prove(kind.adapter(), store.look, store.root, process);
    if let Err(unproved) = proved {
        let why = format!("pid {} names it, but {unproved}", process.id.pid);
        let mut served = Served::unseen(id, why);
        served.evidence.push(evidence);
        return served;
    }
    let running = |reason| Some(State { status: Status::Running, reason });
    let mut served = Served::by(Some(id), process);
    let is_single_prompt = matches!(mode, Some(Mode::SinglePrompt { .. }));
    (served.single_prompt, served.unprompted) = (is_single_prompt, is_single_prompt);
    // It works through its one prompt and exits: until then the turn is not over, no matter what
    // another writer wrote last. Older versions write nothing before the first answer.
    if mode == Some(Mode::SinglePrompt { begun: true }) {
        served.state = running(None);
    }
    if mode == Some(Mode::Kept) {
        served.state = kept_state(store, process, served.id.as_deref());
        if served.state.as_ref().is_some_and(|state| state.status == Status::Waiting) {
            let says =
                format!("the last event of pid {} is a dialog of an extension", process.id.pid);
            served.evidence.push(store.look.evidence("kernel:stdout of the process", says));
        }
    }
    // Without a file that shows the state of its turn (`--no-session`, deleted, cut short) it runs the
    // tool that names it.
    if in_tool && !served.id.as_deref().is_some_and(|id| has_turn(store, id)) {
        served.state = running(Some(Reason::of(ReasonKind::Tool)));
    }
    served.evidence.push(evidence);
    served
}

/// Returns the state of a session that was launched to stay, by the last event in its output; `None` where the
/// file of the session decides. Only the output shows that an extension waits for a human. Older versions have no file before the first answer, and do not write there that
/// a failed model call is tried again.
fn kept_state(store: &PiStore<'_>, process: &Process, id: Option<&str>) -> Option<State> {
    let of = |status, reason| Some(State { status, reason });
    let last = output::last_event(store.look, &process.id);
    let is_asking = matches!(last, Some(LastEvent::Asking(_)));
    let path = id.and_then(|id| file_of(store, id));
    let is_doubtful = |path: &PathBuf| record::silent_failure(path, store.uid()).is_some();
    let file_decides =
        id.is_some_and(|id| has_turn(store, id)) && !path.is_some_and(|path| is_doubtful(&path));
    if file_decides && !is_asking {
        return None;
    }
    match last? {
        LastEvent::Working => of(Status::Running, None),
        LastEvent::Retrying => of(Status::Running, Some(Reason::of(ReasonKind::Retrying))),
        LastEvent::AtRest => of(Status::Idle, None),
        LastEvent::Asking(dialog) => of(Status::Waiting, Some(dialog.reason())),
    }
}

/// Returns the output of the process that serves a session and was launched to stay: it shows when that waits for a
/// human.
pub(super) fn kept_output(store: &PiStore<'_>, id: &str) -> Option<PathBuf> {
    let processes = processes(store.look, store.root);
    processes.into_iter().find_map(|(process, ..)| {
        let first = output::first(store.look, process)?;
        let is_it = first.mode == Mode::Kept && first.session == id;
        is_it.then(|| store.look.host.kernel.stdout_path(&process.id).ok())??
    })
}

/// Says whether the file of a session shows the state of its last turn.
fn has_turn(store: &PiStore<'_>, id: &str) -> bool {
    let turn = file_of(store, id).and_then(|path| record::turn(&path, store.uid()));
    turn.is_some_and(|turn| !matches!(turn, Turn::None | Turn::Undecided(_) | Turn::Unreadable(_)))
}

/// Returns the file of a session.
fn file_of(store: &PiStore<'_>, id: &str) -> Option<PathBuf> {
    let mut rows = store.find(id).rows.into_iter();
    rows.find(|locator| locator.id == *id).and_then(|locator| locator.path)
}

/// Marks failed turns as doubtful: versions before 0.8x retry a failed model call without writing that.
/// While the process lives, a failure at the end may be the end of the turn or a pause in it.
pub(super) fn doubt_failures(store: &PiStore<'_>, found: &mut Found<Served>) {
    for served in found.rows.iter_mut().filter(|s| s.state.is_none() && !s.by.is_empty()) {
        let Some(id) = &served.id else { continue };
        let Some(path) = file_of(store, id) else { continue };
        if let Some(why) = record::silent_failure(&path, store.uid()) {
            let why = format!("the model call failed and may be tried again: {why}");
            let reason = Some(Reason::with(ReasonKind::Ambiguous, why));
            served.state = Some(State { status: Status::Unknown, reason });
        }
    }
}

/// Returns the session that the process itself or its tool names.
fn certain(store: &PiStore<'_>, process: &Process) -> Option<Certain> {
    let look = store.look;
    let pid = process.id.pid;
    let mut told = store.children().told.iter().filter(|told| told.pid == pid);
    if let Some(first) = told.next() {
        // Two tools name different sessions: the current one is not known.
        if told.any(|other| other.id != first.id) {
            return None;
        }
        // A tool can set any session for its children. Pi writes the call of a tool into the file of
        // its session, so a file that was not written since the process began is not its session.
        if !may_have_written(store, process, &first.id) {
            return None;
        }
        let source = format!("kernel:environment of pid {}", first.by);
        let says = format!("a tool of pid {pid} was given PI_SESSION_ID={}", first.id);
        let evidence = look.evidence(source, says);
        let id = first.id.clone();
        return Some(Certain { id, evidence, mode: None, in_tool: true });
    }
    let first = output::first(look, process)?;
    let id = first.session;
    let how = if first.launched { ", in the run it was launched for" } else { "" };
    let then = match first.mode {
        Mode::SinglePrompt { begun: true } => "; its turn has begun",
        Mode::SinglePrompt { begun: false } | Mode::Kept => "",
    };
    let says = format!("the first line pid {pid} wrote there names session {id}{how}{then}");
    let evidence = look.evidence("kernel:stdout of the process", says);
    Some(Certain { id, evidence, mode: Some(first.mode), in_tool: false })
}

/// Says whether the file of a session was written since a process began, or does not exist.
fn may_have_written(store: &PiStore<'_>, process: &Process, id: &str) -> bool {
    let Some(path) = file_of(store, id) else { return true };
    let written = file::open(&path, store.uid()).ok().and_then(|opened| opened.written_ms());
    match (written, process.started_at) {
        (Some(written), Some(began)) => written + GRAIN_MS >= began.millis(),
        _ => false,
    }
}

/// Reads when a session began and when it was last written; `None` if its file is gone.
fn dated(store: &PiStore<'_>, written: Written) -> Option<Dated> {
    let Written { id, kind, path } = written;
    // An unreadable file may belong to any process: it is joined to none, and keeps others from being
    // joined.
    let unread = owners::File { kind, began_ms: i64::MAX, last_ms: i64::MAX };
    let header = match lines::header_of(&path, store.uid()) {
        Ok(Some(header)) => header,
        Err(file::Skip::Missing) => return None,
        Ok(None) | Err(_) => return Some(Dated { id, path, directory: None, times: unread }),
    };
    let last = file::open(&path, store.uid()).ok().and_then(|opened| last_activity(&opened).ok());
    let times = match (header.at(), last) {
        (Some(began), Some(last)) => {
            owners::File { kind, began_ms: began.millis(), last_ms: last.unwrap_or(began).millis() }
        }
        _ => unread,
    };
    Some(Dated { id, path, directory: header.cwd, times })
}

/// Joins the processes of one directory to its sessions, where only one assignment fits and nothing
/// rules it out.
fn join_in(store: &PiStore<'_>, directory: &str, open: &mut [Open<'_>], files: &[Dated]) {
    let files: Vec<&Dated> = files.iter().filter(|f| f.works_in(directory)).collect();
    let mut here: Vec<&mut Open<'_>> =
        open.iter_mut().filter(|o| o.directory().as_deref() == Some(directory)).collect();
    let processes: Vec<owners::Process> = here.iter().map(|o| o.times()).collect();
    let times: Vec<owners::File> = files.iter().map(|f| f.times).collect();
    for (process, own) in here.iter_mut().zip(owners::decide(&processes, &times)) {
        let Some(own) = own.map(|own| files[own]) else { continue };
        let pid = process.process.id.pid;
        let began_ms = process.times().began_ms;
        let delay = own.times.began_ms - began_ms;
        let with_process = delay >= -GRAIN_MS;
        let since = (!with_process).then_some(began_ms - GRAIN_MS);
        let trace = record::trace(&own.path, store.uid(), since).unwrap_or_default();
        process.ruled_out = exclusion::reason(facts(store, process.process), &trace);
        if process.ruled_out.is_some() {
            continue;
        }
        let says = if with_process {
            format!("pid {pid} began here {delay} ms before this session did; no other fits")
        } else {
            format!(
                "pid {pid} is the only one here, and this the only session written since it began"
            )
        };
        let evidence = store.look.evidence("kernel:directory and start time", says);
        let is_at_rest = !matches!(trace.turn, Turn::Open { .. });
        let (id, kind) = (own.id.clone(), own.times.kind);
        process.joined = Some(Joined { id, kind, evidence, is_at_rest });
    }
}

/// Reads the kernel's facts that may rule out that a process wrote a session.
fn facts(store: &PiStore<'_>, process: &Process) -> exclusion::Facts {
    let kernel = &store.look.host.kernel;
    exclusion::Facts {
        written_bytes: kernel.written_bytes(&process.id).ok(),
        shown_seconds: kernel.terminal_output_at(&process.id).ok().flatten(),
        has_child: store.children().parents.contains(&process.id.pid),
        now_seconds: store.look.now.millis().div_euclid(1000),
    }
}

/// Adds the row of a process whose session was not certain, or the doubt that it causes for a session.
fn add(
    store: &PiStore<'_>,
    process: &Open<'_>,
    open: &[Open<'_>],
    files: &[Dated],
    found: &mut Found<Served>,
) {
    if let Some(joined) = &process.joined {
        if joined.kind == store.kind {
            let mut served = Served::by(Some(joined.id.clone()), process.process);
            (served.join, served.unprompted) = (Join::Inferred, true);
            served.evidence.push(joined.evidence.clone());
            found.rows.push(served);
        }
        if joined.is_at_rest {
            let why = "it may have opened this session again without writing to it";
            doubt(store, process, (open, files), why, found);
        }
        return;
    }
    if process.kind == store.kind {
        return found.rows.push(unjoined(store.look, process));
    }
    let why = "it shares this store and may be serving this session";
    doubt(store, process, (open, files), why, found);
}

/// Marks the sessions that a process may have written since its start, and that are joined to no
/// process: they may be open in it.
fn doubt(
    store: &PiStore<'_>,
    process: &Open<'_>,
    (open, files): (&[Open<'_>], &[Dated]),
    why: &str,
    found: &mut Found<Served>,
) {
    let is_joined =
        |file: &Dated| open.iter().any(|o| o.joined.as_ref().is_some_and(|j| j.id == file.id));
    let directory = process.directory();
    for file in files {
        let here = directory.as_deref().is_none_or(|directory| file.works_in(directory));
        let ours = file.times.kind == store.kind && !is_joined(file);
        if ours && here && process.times().may_serve(file.times) {
            let (pid, other) = (process.process.id.pid, process.kind.name());
            let mut served = Served::unseen(file.id.clone(), "");
            let why = format!("pid {pid} of {other}: {why}");
            let reason = Some(Reason::with(ReasonKind::Ambiguous, why));
            served.state = Some(State { status: Status::Unknown, reason });
            served.evidence.push(store.look.evidence("kernel:process table", "it may be open"));
            found.rows.push(served);
        }
    }
}

/// Makes the row of a process that runs Pi's script and has not set its title: it serves nothing yet.
fn starting(look: &Look, process: &Process) -> Served {
    let mut served = Served::by(None, process);
    let says = format!("pid {} has not given itself its title yet", process.id.pid);
    served.evidence.push(look.evidence("kernel:process table", says));
    let reason = Some(Reason::of(ReasonKind::Starting));
    served.state = Some(State { status: Status::Running, reason });
    served
}

/// Makes the row of a process whose session is not known: it may serve any unserved session of its
/// directory.
fn unjoined(look: &Look, open: &Open<'_>) -> Served {
    let mut served = Served::by(None, open.process);
    (served.may_serve, served.may_have_resumed) = (true, true);
    let pid = open.process.id.pid;
    let reason = if open.process.elsewhere {
        // Its directories may have other names than ours.
        served.stands_in = None;
        Reason::with(ReasonKind::Elsewhere, "it lives in another pid namespace")
    } else {
        let why = "it has written no session yet: it is starting, at its first turn, or at rest";
        Reason::with(ReasonKind::Ambiguous, why)
    };
    let mut says = format!("pid {pid} lives, and nothing says which session it serves");
    if let Some(why) = open.ruled_out {
        says = format!("{says}; one session began when it did, but {why}");
    }
    served.evidence.push(look.evidence("kernel:process table", says));
    served.state = Some(State { status: Status::Unknown, reason: Some(reason) });
    served
}

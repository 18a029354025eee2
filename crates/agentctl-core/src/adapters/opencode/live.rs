//! Who lives: which session each process serves, by its arguments, by what it wrote into the shared log,
//! by what it answers on its port, by the tool it has started.
//!
//! Folder and time alone join nothing: a process that none of these explains may be serving a session of
//! its folder, and then neither is known.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use super::database::Made;
use super::entry::{Newest, Part};
use super::home::{Home, Role, continues_some, is_opencode, told_session};
use super::log::{self, Heard};
use super::server::{self, Word};
use super::{Backend, NAME};
use crate::adapters::{Found, Look, Root, Served, State, fault};
use crate::kernel::Process;
use crate::model::{Reason, ReasonKind, Status};

/// A start time has a grain of 10 ms, and the clocks differ a little.
const GRAIN_MS: i64 = 20;

/// Permissions whose use shows at once: the tool is done in a moment, or writes that it has begun. Of
/// others nothing tells whether it still asks or is at it.
#[rustfmt::skip]
const SHOWS: [&str; 17] = [
    "bash", "edit", "write", "patch", "apply_patch", "read", "glob", "grep", "list", "task",
    "todowrite", "todoread", "skill", "external_directory", "doom_loop", "plan_enter", "plan_exit",
];

/// What is said where nobody tells whether a permission that was asked for has been given.
pub(super) const DOUBT: &str =
    "its open tool asked for a permission; only its terminal shows whether that was given";

/// Sessions of which that is said.
pub(super) type Doubts = Mutex<HashSet<String>>;

/// Reads who serves what in a home. Where nobody lives the store is not even opened.
pub(super) fn read<'a>(
    look: &Look,
    root: &Root,
    backend: impl FnOnce() -> &'a Backend<'a>,
    doubts: &Doubts,
) -> Found<Served> {
    let mut found = Found::default();
    let ours = |process: &&Process| {
        is_opencode(process)
            && !matches!(Role::of(process), Role::Client | Role::Other)
            && !look.table.is_mere_fork(process)
    };
    let living: Vec<(&Process, Home)> = look
        .table
        .processes
        .iter()
        .filter(ours)
        .filter_map(|process| Some((process, Home::of(look, process)?)))
        .filter(|(process, home)| home.root == root.path && !look.has_ended(process))
        .collect();
    if living.is_empty() {
        return found;
    }
    let backend = backend();
    let mut all = Vec::new();
    for (process, home) in living {
        let heard = log::read(&look.host.kernel, process, &home.data);
        let role = Role::of(process);
        let one = One { look, root, backend, doubts, process, role, heard, home };
        one.claim(&mut found);
        all.push(one);
    }
    unwritten(&all, &mut found);
    found
}

/// The log is written a moment later than the database: a session that no process has written of yet
/// may have been begun by any that has written nothing since.
fn unwritten(all: &[One<'_>], found: &mut Found<Served>) {
    let starts = all.iter().filter_map(|one| Some(one.process.started_at?.millis() - GRAIN_MS));
    let (Some(since), Some(first)) = (starts.min(), all.first()) else { return };
    let claimed: HashSet<&str> = found.rows.iter().filter_map(|s| s.id.as_deref()).collect();
    let mut made = first.backend.made_since(since);
    made.retain(|session| !claimed.contains(session.id.as_str()));
    if made.is_empty() {
        return;
    }
    let uid = first.look.host.kernel.uid();
    let mut folders: Vec<&std::path::Path> =
        all.iter().map(|one| one.home.data.as_path()).collect();
    folders.dedup();
    let logs: Vec<Vec<u8>> = folders.into_iter().map(|data| log::tail(data, uid)).collect();
    let is_written = |id: &str| {
        let id = memchr::memmem::Finder::new(id.as_bytes());
        logs.iter().any(|log| id.find(log).is_some())
    };
    for session in made.iter().filter(|session| !is_written(&session.id)) {
        let Some(one) = all.iter().find(|one| one.may_have_made(session)) else { continue };
        let pid = one.process.id.pid;
        let why = format!("pid {pid} may have begun it, and has not written since");
        let mut served = Served::unseen(session.id.clone(), &why);
        let reason = Some(Reason::with(ReasonKind::Ambiguous, &why));
        served.state = Some(State { status: Status::Unknown, reason });
        served.evidence.push(one.look.evidence(format!("{NAME}:log/opencode.log"), why));
        found.rows.push(served);
    }
}

/// One process under question.
struct One<'a> {
    look: &'a Look,
    root: &'a Root,
    backend: &'a Backend<'a>,
    doubts: &'a Doubts,
    process: &'a Process,
    role: Role,
    heard: Heard,
    home: Home,
}

/// Why a session counts as served.
struct Claim {
    source: String,
    says: String,
    /// The model call failed, and it has not been tried again since.
    failed_call: Option<String>,
}

impl One<'_> {
    fn claim(&self, found: &mut Found<Served>) {
        let mut claims = self.claims();
        let word = self.word(&claims, found);
        for id in word.iter().flat_map(|word| word.at_work.keys()) {
            let top = self.backend.top(id);
            claims.entry(top).or_insert_with(|| Claim {
                source: format!("{NAME}:port"),
                says: format!("pid {} is at work on it", self.process.id.pid),
                failed_call: None,
            });
        }
        if claims.is_empty() && self.role != Role::Server {
            claims.extend(self.by_tool());
        }
        if claims.is_empty() {
            found.rows.extend(self.unjoined());
        }
        for (id, claim) in claims {
            found.rows.push(self.served(id, claim, word.as_ref()));
        }
    }

    /// Says whether this process may have made a session that nobody has written of.
    fn may_have_made(&self, session: &Made) -> bool {
        let here = self.process.cwd.as_deref() == Some(std::path::Path::new(&session.folder));
        let since = self.process.started_at.is_none_or(|t| session.at + GRAIN_MS >= t.millis());
        let written = self.heard.told().and_then(|told| told.until);
        since
            && (here || self.role == Role::Server)
            && !(self.role == Role::Run && told_session(self.process).is_some())
            && written.is_none_or(|until| until.millis() <= session.at)
    }

    /// The sessions of this process, by its arguments and by the log.
    fn claims(&self) -> BTreeMap<String, Claim> {
        let mut claims = BTreeMap::new();
        let pid = self.process.id.pid;
        let argued = told_session(self.process);
        if let (Role::Run, Some(id)) = (self.role, argued) {
            let says = format!("pid {pid} was started to continue it");
            let source = "kernel:arguments".to_owned();
            let spoken =
                self.heard.told().into_iter().flat_map(|t| &t.sessions).find(|s| s.id == id);
            let failed_call = spoken.and_then(|s| s.failed_call.clone());
            claims.insert(id.to_owned(), Claim { source, says, failed_call });
            return claims;
        }
        let spoken = self.heard.told().map_or(&[][..], |told| &told.sessions);
        let newest = spoken.last().map(|last| self.backend.top(&last.id));
        for spoken in spoken {
            let top = self.backend.top(&spoken.id);
            // A terminal stays in the session it was last in; others it left go on only if at work.
            let counts =
                self.role == Role::Server || spoken.at_work || Some(&top) == newest.as_ref();
            if !counts {
                continue;
            }
            let says = format!("pid {pid} wrote of it last (its place in the log names its run)");
            let source = format!("{NAME}:log/opencode.log");
            let claim =
                claims.entry(top.clone()).or_insert(Claim { source, says, failed_call: None });
            if top == spoken.id {
                claim.failed_call.clone_from(&spoken.failed_call);
            }
        }
        if let (true, Role::Terminal, Some(id)) = (claims.is_empty(), self.role, argued) {
            let says = format!("pid {pid} was started to continue it, and wrote of no other");
            let source = "kernel:arguments".to_owned();
            claims.insert(id.to_owned(), Claim { source, says, failed_call: None });
        }
        claims
    }

    /// What the process says on its port, if it has one.
    fn word(&self, claims: &BTreeMap<String, Claim>, found: &mut Found<Served>) -> Option<Word> {
        if self.role == Role::Run {
            return None;
        }
        let server = server::of(self.look, self.process)?;
        let mut folders: Vec<String> =
            claims.keys().filter_map(|id| self.backend.row(id).ok()??.directory).collect();
        if self.heard.told().is_none() && folders.is_empty() {
            // The log tells nothing: it was certainly asked about the folder it stands in.
            folders.extend(self.process.cwd.iter().map(|c| c.to_string_lossy().into_owned()));
        }
        folders.sort();
        folders.dedup();
        match server::ask(self.look, &server, &folders) {
            Ok(word) => Some(word),
            Err(error) => {
                let pid = self.process.id.pid;
                let message = format!("pid {pid} did not say what it waits for: {error}");
                found.faults.push(fault(NAME, self.root, "unreachable", message));
                None
            }
        }
    }

    /// The session whose open command is what this process has started.
    fn by_tool(&self) -> Option<(String, Claim)> {
        if self.heard.told().is_some_and(|told| !told.cut) || !self.has_begun() {
            return None;
        }
        let (start, cwd) = (self.process.started_at?, self.process.cwd.as_ref()?);
        let rows = self.backend.open_since(&cwd.to_string_lossy(), start.millis() - GRAIN_MS);
        let rows: Vec<_> =
            rows.iter().filter_map(|row| Some((row, command_of(row.newest.as_ref()?)?))).collect();
        if rows.is_empty() {
            return None;
        }
        let (pid, tools) = (self.process.id.pid, self.tools());
        let fits = |command: &str| tools.iter().find(|(_, words)| words == command);
        let fitting: Vec<_> = rows.iter().filter_map(|(row, c)| Some((row, fits(c)?.0))).collect();
        // Two that fit are two that may be.
        let [(row, tool)] = fitting.as_slice() else { return None };
        let source = "kernel:process table".to_owned();
        let says = format!("its open command is pid {tool}, which pid {pid} has started");
        Some((row.id.clone(), Claim { source, says, failed_call: None }))
    }

    /// What this process has started: pids and commands.
    fn tools(&self) -> Vec<(u32, String)> {
        let everybody = self.look.host.kernel.table(&|_| true);
        let ours = |p: &&Process| p.parent_pid == self.process.id.pid;
        let below = everybody.processes.iter().filter(ours);
        below.map(|p| (p.id.pid, shell_words(p))).collect()
    }

    fn served(&self, id: String, claim: Claim, word: Option<&Word>) -> Served {
        let known = self.backend.row(&id);
        let blind = known.is_err();
        let row = known.unwrap_or_default();
        let newest = row.as_ref().and_then(|row| row.newest.as_ref());
        let mut served = Served::by(Some(id.clone()), self.process);
        served.hosted = self.role == Role::Server;
        served.single_prompt = self.role == Role::Run;
        served.unprompted = true;
        if self.role != Role::Run {
            // Where a server or a terminal stands says nothing of its sessions' folder.
            (served.stands_in, served.started_at) = (None, None);
        }
        served.evidence.push(self.look.evidence(claim.source, claim.says));
        let folder = row.as_ref().and_then(|row| row.directory.clone());
        let heard = word.filter(|w| folder.as_ref().is_some_and(|f| w.folders.contains(f)));
        if let Some(heard) = heard {
            let state = self.heard(&id, heard);
            let says = match &state.reason {
                Some(reason) => format!("it is {} ({})", state.status.word(), reason.kind.word()),
                None => format!("it is {}", state.status.word()),
            };
            served.evidence.push(self.look.evidence(format!("{NAME}:port"), says));
            served.state = Some(state);
            return served;
        }
        if blind {
            // Its record decides, or says that it cannot be read.
            return served;
        }
        let (state, says) = self.silent(&id, newest, claim.failed_call);
        if let Some(says) = says {
            served.evidence.push(self.look.evidence(format!("{NAME}:log/opencode.log"), says));
        }
        served.state = state;
        served
    }

    /// The state of a session whose process was asked. A subagent's wait is its session's wait.
    fn heard(&self, id: &str, word: &Word) -> State {
        let family = word.at_work.iter().filter(|(at, _)| self.backend.top(at) == id);
        let states: Vec<(&String, &State)> = family.collect();
        let waits = states.iter().find(|(_, s)| s.status == Status::Waiting);
        let own = states.iter().find(|(at, _)| *at == id);
        match waits.or(own).or(states.first()) {
            Some((_, state)) => (*state).clone(),
            None => State { status: Status::Idle, reason: None },
        }
    }

    /// The state of a session whose process could not be asked; `None` where its record decides.
    fn silent(
        &self,
        id: &str,
        newest: Option<&Newest>,
        failed_call: Option<String>,
    ) -> (Option<State>, Option<String>) {
        let start = self.process.started_at.map_or(0, crate::model::Time::millis);
        let of_its_time = |n: &&Newest| n.created + GRAIN_MS >= start;
        let answers = |n: &&Newest| n.info.as_ref().is_none_or(|i| i.role == "assistant");
        let running = |reason| Some(State { status: Status::Running, reason: Some(reason) });
        match (self.role, newest.filter(of_its_time)) {
            // The prompt it was started for is not there yet, or nobody answers it yet.
            (Role::Run, mine) if mine.as_ref().is_none_or(|n| !answers(n)) => {
                return (running(Reason::of(ReasonKind::Starting)), None);
            }
            // An open turn from before its time was left by somebody who died.
            (Role::Terminal | Role::Server, None) => {
                return (Some(State { status: Status::Idle, reason: None }), None);
            }
            _ => {}
        }
        let open = newest.is_some_and(Newest::needs_parts);
        let asking = self.heard.told().and_then(|told| told.asking.clone());
        if let Some(what) = asking.filter(|_| self.role != Role::Run && self.waits(id, newest)) {
            let (permission, _) = what.split_once(':').unwrap_or((&what, ""));
            if SHOWS.contains(&permission) {
                let says = format!("it asks for permission ({what}), and has not gone on since");
                let reason = Some(Reason::with(ReasonKind::Permission, &what));
                return (Some(State { status: Status::Waiting, reason }), Some(says));
            }
            self.doubts.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
        }
        if let Some(why) = failed_call.filter(|_| open) {
            let says = format!("the model call failed: {why}");
            return (running(Reason::with(ReasonKind::Retrying, why)), Some(says));
        }
        (None, None)
    }

    /// A tool of the session, or of one that works for it, has been called and shows no sign of life.
    fn waits(&self, id: &str, newest: Option<&Newest>) -> bool {
        let rows = self.backend.descendants(id);
        let newest = newest.into_iter().chain(rows.iter().filter_map(|row| row.newest.as_ref()));
        let held: Vec<&Part> =
            newest.flat_map(|n| &n.parts).filter(|p| p.has_not_begun()).collect();
        if held.is_empty() {
            return false;
        }
        // A command that has just been allowed runs before it is written down that it does.
        let tools = self.tools();
        let runs = |part: &&Part| part.command().is_some_and(|c| tools.iter().any(|t| t.1 == c));
        !held.iter().all(runs)
    }

    /// Says whether it has opened its database: before that it serves nothing.
    fn has_begun(&self) -> bool {
        let path = super::home::database(&self.root.path);
        super::home::has_open(self.look, self.process, &path)
    }

    /// A process of which nothing says which session it serves.
    fn unjoined(&self) -> Option<Served> {
        let pid = self.process.id.pid;
        let mut served = Served::by(None, self.process);
        let starting = || Some(Reason::of(ReasonKind::Starting));
        let log = format!("{NAME}:log/opencode.log");
        let (status, reason, source, says) = match (&self.heard, self.role) {
            // A server without sessions is no session.
            (Heard::Told(_), Role::Server) => return None,
            (Heard::Nothing, role) if !self.has_begun() => {
                if role == Role::Server {
                    return None;
                }
                let says = format!("pid {pid} has not opened its database yet");
                (Status::Running, starting(), "kernel:open files".to_owned(), says)
            }
            (Heard::Told(told), role) if !told.cut && !continues_some(self.process) => {
                let says = format!("pid {pid} has written of no session");
                match role {
                    Role::Run => (Status::Running, starting(), log, says),
                    _ => (Status::Idle, None, log, says),
                }
            }
            (heard, role) => {
                served.may_serve = true;
                served.hosted = role == Role::Server;
                if role == Role::Server {
                    served.stands_in = None;
                }
                let why = "which session it serves is not known";
                let says = match heard {
                    Heard::Told(_) => format!("pid {pid} has written of no session that we found"),
                    Heard::Nothing => format!("pid {pid} has written nothing"),
                    Heard::Unreadable => format!("what pid {pid} has written cannot be told"),
                };
                (Status::Unknown, Some(Reason::with(ReasonKind::Ambiguous, why)), log, says)
            }
        };
        served.state = Some(State { status, reason });
        served.evidence.push(self.look.evidence(source, says));
        Some(served)
    }
}

/// The shell command a session is in.
fn command_of(newest: &Newest) -> Option<&str> {
    newest.parts.iter().find_map(Part::command)
}

/// What a shell was told, or what it became: it executes its last command itself.
fn shell_words(process: &Process) -> String {
    match process.argv.as_slice() {
        [_, flag, command] if flag == "-c" => command.clone(),
        words => words.join(" "),
    }
}

//! Who lives: which session each process serves, by its arguments, by what it wrote into the shared log,
//! by what it answers on its port, by the tool it has started.
//!
//! Folder and time alone join nothing: a process that none of these explains may be serving a session of
//! its folder, and then neither is known.

mod unjoined;
mod unwritten;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use self::unwritten::LogEnds;
use super::entry::{Newest, Part};
use super::home::{
    Home, Role, continues_some, database, has_open, is_opencode, launchers, told_session,
};
use super::log::{self, Heard, Spoken};
use super::program::{namesake, unseen_home};
use super::server::{self, Word};
use super::{Backend, NAME, OpenCode};
use crate::adapters::proof::{Unproved, prove};
use crate::adapters::{Found, Look, Root, Served, State, Turn, fault};
use crate::kernel::{Process, deadline};
use crate::model::{FaultCode, Reason, ReasonKind, Status};
use crate::talk::TalkError;

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

/// What is said of the session that a terminal wrote of last, where it has written of others before.
pub(super) const SWITCHED: &str = "its terminal has been in another session before and may have gone back there: that shows only once it is prompted";

/// Sessions of which something is noted.
#[derive(Debug, Default)]
pub(super) struct Noted(Mutex<HashSet<String>>);

impl Noted {
    fn add(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    /// Says whether that was noted of a session.
    pub(super) fn holds(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

/// The sessions of which the living do not tell enough.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// A permission was asked for, and nothing shows whether it was given.
    pub(super) asked: Noted,
    /// Their terminal has been in another session, too.
    pub(super) switched: Noted,
}

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
    let launchers = launchers(look);
    let living: Vec<(&Process, Home)> = look
        .table
        .processes
        .iter()
        .filter(ours)
        .filter_map(|process| Some((process, Home::of(look, process).shown()?)))
        .filter(|(process, home)| home.root == root.path() && !look.has_ended(process))
        .filter(|(process, home)| {
            !launchers.contains(&process.id.pid) || has_open(look, process, &database(&home.root))
        })
        .collect();
    let mut proofs = Vec::new();
    for (process, home) in living {
        let proof = prove(&OpenCode, look, root, process);
        if let Err(Unproved::Program { .. }) = &proof {
            found.rows.extend(namesake(look, process, &home));
        } else {
            proofs.push((process, home, proof));
        }
    }
    if proofs.is_empty() {
        return found;
    }
    let backend = backend();
    let logs = LogEnds::of(look, proofs.iter().map(|(_, home, _)| home));
    let mut all = Vec::new();
    for (process, home, proof) in proofs {
        let heard = log::read(&look.host.kernel, process, &home.data);
        let role = Role::of(process);
        all.push(One { look, root, backend, doubts, process, role, heard, home, proof });
    }
    let mut silent = Vec::new();
    for some in all.chunks(AT_ONCE) {
        let words = ask_all(some);
        for (one, (claims, word)) in some.iter().zip(words) {
            if matches!(word, Some(Err(_))) {
                silent.push(one);
            }
            one.claim(claims, word, &mut found);
        }
    }
    for one in silent {
        one.doubt_what_it_may_serve(&mut found);
    }
    unwritten::add_begun(&all, &logs, &mut found);
    found
}

/// So many processes are asked at once.
const AT_ONCE: usize = 32;

/// What a process claims, and what it says on its port where it has one.
type Answer = (BTreeMap<String, Claim>, Option<Result<Word, TalkError>>);

/// Asks these processes at once: one that listens and says nothing costs its own sessions and nobody else's
/// time.
fn ask_all(some: &[One<'_>]) -> Vec<Answer> {
    let answer = |one: &One<'_>| {
        deadline::set(one.look.deadline);
        let claims = one.claims();
        let word = one.word(&claims);
        (claims, word)
    };
    if let [only] = some {
        return vec![answer(only)];
    }
    std::thread::scope(|scope| {
        let asked: Vec<_> = some.iter().map(|one| scope.spawn(move || answer(one))).collect();
        let heard = asked.into_iter().map(std::thread::ScopedJoinHandle::join);
        heard.map(|h| h.unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
    })
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
    /// Whether it is the agent of this home: nothing is joined to it otherwise.
    proof: Result<(), Unproved>,
}

/// Why a session counts as served.
struct Claim {
    source: String,
    says: String,
    /// The model call failed, and it has not been tried again since.
    failed_call: Option<String>,
}

impl One<'_> {
    fn claim(
        &self,
        mut claims: BTreeMap<String, Claim>,
        word: Option<Result<Word, TalkError>>,
        found: &mut Found<Served>,
    ) {
        let answered = matches!(word, Some(Ok(_)));
        let word = word.and_then(|word| self.heard_or_fault(word, found));
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
            found.rows.extend(self.unjoined(answered));
        }
        found.rows.extend(self.left(&claims));
        for (id, claim) in claims {
            found.rows.push(match &self.proof {
                Ok(()) => self.served(id, claim, word.as_ref()),
                Err(unproved) => self.unproved(id, claim, unproved),
            });
        }
    }

    /// A session that a process names which is not proved to be the agent of this home.
    fn unproved(&self, id: String, claim: Claim, unproved: &Unproved) -> Served {
        let why = format!("pid {} names it, but {unproved}", self.process.id.pid);
        let mut served = Served::unseen(id, why);
        served.evidence.push(self.look.evidence(claim.source, claim.says));
        served
    }

    /// The sessions that a terminal has been in before: it may be back in one of them, and nothing tells
    /// that before it is prompted there.
    fn left(&self, claims: &BTreeMap<String, Claim>) -> Vec<Served> {
        if self.role != Role::Terminal {
            return Vec::new();
        }
        let spoken = self.heard.told().into_iter().flat_map(|told| &told.sessions);
        let spoken = spoken.map(|spoken| self.backend.top(&spoken.id));
        let mut ids: Vec<String> =
            spoken.chain(told_session(self.process).map(str::to_owned)).collect();
        ids.sort();
        ids.dedup();
        ids.retain(|id| !claims.contains_key(id) && matches!(self.backend.row(id), Ok(Some(_))));
        if !ids.is_empty() {
            for id in claims.keys() {
                self.doubts.switched.add(id);
            }
        }
        let pid = self.process.id.pid;
        let why = format!("pid {pid} has been in it and may have gone back to it");
        let doubted = |id: String| {
            let mut served = Served::unseen(id, "");
            let reason = Some(Reason::with(ReasonKind::Ambiguous, &why));
            served.state = Some(State { status: Status::Unknown, reason });
            let source = format!("{NAME}:log/opencode.log");
            served.evidence.push(self.look.evidence(source, why.clone()));
            served
        };
        ids.into_iter().map(doubted).collect()
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
    fn word(&self, claims: &BTreeMap<String, Claim>) -> Option<Result<Word, TalkError>> {
        if self.role == Role::Run || self.proof.is_err() {
            return None;
        }
        let server = match server::of(self.look, self.process) {
            Ok(server) => server?,
            Err(error) => return Some(Err(TalkError::Unreachable(error))),
        };
        let mut folders: Vec<String> =
            claims.keys().filter_map(|id| self.backend.row(id).ok()??.directory).collect();
        if self.heard.told().is_none() && folders.is_empty() {
            // The log tells nothing: it was certainly asked about the folder it stands in.
            folders.extend(self.process.cwd.iter().map(|c| c.to_string_lossy().into_owned()));
        }
        folders.sort();
        folders.dedup();
        Some(server::ask(self.look, &server, &folders))
    }

    /// Makes a fault of a server that did not answer.
    fn heard_or_fault(
        &self,
        word: Result<Word, TalkError>,
        found: &mut Found<Served>,
    ) -> Option<Word> {
        match word {
            Ok(word) => Some(word),
            Err(error) => {
                let pid = self.process.id.pid;
                let message =
                    format!("pid {pid} did not say what it serves and waits for: {error}");
                let foreign = matches!(error, TalkError::Stranger(_));
                let code = if foreign { FaultCode::Foreign } else { FaultCode::Unreachable };
                found.faults.push(fault(NAME, self.root, code, message));
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
        let ours = |p: &&Process| p.parent_pid == self.process.id.pid;
        let below = self.look.everyone().processes.iter().filter(ours);
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
        let answers = |n: &Newest| n.info.as_ref().is_none_or(|i| i.role == "assistant");
        let running = |reason| Some(State { status: Status::Running, reason: Some(reason) });
        match (self.role, newest) {
            // The prompt it was started for is not there yet, or nothing answers it yet.
            (Role::Run, newest) if !newest.is_some_and(|n| answers(n) && self.is_own(id, n)) => {
                return (running(Reason::of(ReasonKind::Starting)), None);
            }
            // A terminal makes a session when it is prompted, and writes the prompt down later.
            (Role::Terminal, None) if self.spoken(id).is_some_and(|s| s.only_made) => {
                let why = "its terminal has made it for a prompt that is not in the database yet";
                let reason = Some(Reason::with(ReasonKind::Ambiguous, why));
                return (Some(State { status: Status::Unknown, reason }), Some(why.to_owned()));
            }
            (Role::Terminal | Role::Server, None) => {
                return (Some(State { status: Status::Idle, reason: None }), None);
            }
            (Role::Terminal | Role::Server, Some(newest)) => {
                if let Some(answer) = self.left_open(id, newest) {
                    return answer;
                }
            }
            _ => {}
        }
        let open = newest.is_some_and(Newest::needs_parts);
        let asking = self.heard.told().and_then(|told| told.asking.clone());
        if let Some(what) = asking.filter(|_| self.role != Role::Run && self.waits(id, newest)) {
            let (permission, _) = what.split_once(':').unwrap_or((&what, ""));
            // A process that could not be read may be the tool that was allowed.
            if SHOWS.contains(&permission) && self.look.everyone().gaps.is_empty() {
                let says = format!("it asks for permission ({what}), and has not gone on since");
                let reason = Some(Reason::with(ReasonKind::Permission, &what));
                return (Some(State { status: Status::Waiting, reason }), Some(says));
            }
            self.doubts.asked.add(id);
        }
        if let Some(why) = failed_call.filter(|_| open) {
            let says = format!("the model call failed: {why}");
            return (running(Reason::with(ReasonKind::Retrying, why)), Some(says));
        }
        (None, None)
    }

    fn spoken(&self, id: &str) -> Option<&Spoken> {
        self.heard.told()?.sessions.iter().find(|spoken| spoken.id == id)
    }

    /// Says whether a message is of the time of this process, as its own log says. Where the log says
    /// nothing of the session, the times of the message and of the process are compared.
    fn is_own(&self, id: &str, newest: &Newest) -> bool {
        let start = self.process.started_at.map_or(0, crate::model::Time::millis);
        self.spoken(id).is_some_and(|s| s.begun_here) || newest.created + GRAIN_MS >= start
    }

    /// The state of a session whose open turn may have been left by a process that died; `None` where the
    /// turn is over or this process's own.
    ///
    /// The times of a message and of a process come from two clocks, or from one that was set. So the log
    /// of this very process decides, and a tool that it has started.
    fn left_open(&self, id: &str, newest: &Newest) -> Option<(Option<State>, Option<String>)> {
        if !matches!(newest.turn(), Turn::Open { .. }) {
            return None;
        }
        // The log is written a moment later than the database, so the end of an earlier turn here does not
        // mean that no other has begun.
        if self.spoken(id).is_some_and(|s| s.at_work || s.begun_here) {
            return None;
        }
        let has_tool = self.has_tool();
        if has_tool == Some(true) {
            return None;
        }
        let pid = self.process.id.pid;
        let written = self.heard.told().filter(|told| !told.cut);
        let start = self.process.started_at.map_or(0, crate::model::Time::millis);
        // Both times are those of the agent; before 1.18 its lines have none that is fine enough.
        let later = |told: &log::Told| match told.until {
            Some(until) => newest.created < until.millis(),
            None => newest.created + GRAIN_MS < start,
        };
        if has_tool == Some(false) && written.is_some_and(later) {
            let says =
                format!("pid {pid} has written since, and not that it works on this session");
            return Some((Some(State { status: Status::Idle, reason: None }), Some(says)));
        }
        let why = format!("its last turn is open, and nothing says whether pid {pid} works on it");
        let reason = Some(Reason::with(ReasonKind::Ambiguous, &why));
        Some((Some(State { status: Status::Unknown, reason }), Some(why)))
    }

    /// Says whether this process has started a tool that lives: its tools carry its pid. `None` where not all
    /// processes could be read, or not the environment of a child.
    fn has_tool(&self) -> Option<bool> {
        let kernel = &self.look.host.kernel;
        let pid = self.process.id.pid.to_string();
        let everyone = self.look.everyone();
        let mut is_whole = everyone.gaps.is_empty() && !everyone.late;
        let below = everyone.processes.iter().filter(|p| p.parent_pid == self.process.id.pid);
        for child in below {
            let values = kernel.environ(&child.id, &["OPENCODE_PID", "PATH", "HOME"]);
            match values.unwrap_or_default().as_slice() {
                [Some(value), ..] if *value == pid => return Some(true),
                // A process that has unmapped its environment looks like one that has none.
                values if values.iter().all(Option::is_none) => {
                    is_whole &= self.look.has_ended(child);
                }
                _ => {}
            }
        }
        is_whole.then_some(false)
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
        let path = super::home::database(self.root.path());
        super::home::has_open(self.look, self.process, &path)
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

//! Live sessions: the session of each process, from its arguments, its lines in the shared log, its
//! answers on its port, or the tool it has started.
//!
//! Folder and time alone join nothing: a process without any of these may serve a session of its
//! folder, and then the state of both is unknown.

mod unjoined;
mod unwritten;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use self::unwritten::LogEnds;
use super::entry::{Newest, Part};
use super::home::{
    Home, Role, continues_some, database, has_open, is_opencode, launchers, told_session,
};
use super::log::{self, LogReading, MentionedSession};
use super::program::{namesake, unseen_home};
use super::server::{self, ServerAnswer};
use super::{Backend, NAME, OpenCode};
use crate::adapters::proof::{Unproved, is_server_of_run, prove};
use crate::adapters::{Found, Look, Root, Served, State, Turn, fault};
use crate::kernel::{Process, deadline};
use crate::model::{FaultCode, Reason, ReasonKind, Status};
use crate::talk::TalkError;

/// Tolerance between a start time and other clocks: start times have a grain of 10 ms.
const GRAIN_MS: i64 = 20;

/// Permissions whose use becomes visible at once: the tool ends within a moment, or writes that it has
/// begun. With other permissions, a pending question and a running tool look alike.
#[rustfmt::skip]
const VISIBLE_AT_ONCE: [&str; 17] = [
    "bash", "edit", "write", "patch", "apply_patch", "read", "glob", "grep", "list", "task",
    "todowrite", "todoread", "skill", "external_directory", "doom_loop", "plan_enter", "plan_exit",
];

/// The reason for doubt where nothing shows whether a requested permission was given.
pub(super) const DOUBT: &str =
    "its open tool asked for a permission; only its terminal shows whether that was given";

/// The reason for doubt about the last session of a terminal that has been in other sessions before.
pub(super) const SWITCHED: &str = "its terminal has been in another session before and may have gone back there: that shows only once it is prompted";

/// A set of session ids that threads share.
#[derive(Debug, Default)]
pub(super) struct Noted(Mutex<HashSet<String>>);

impl Noted {
    fn add(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    /// Says whether a session is in the set.
    pub(super) fn holds(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

/// The sessions whose live sources do not decide their state.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// A permission was requested, and nothing shows whether it was given.
    pub(super) asked: Noted,
    /// Their terminal has been in another session, too.
    pub(super) switched: Noted,
}

/// Reads which processes serve which sessions of a home. Without a live process the store is not
/// opened.
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
        all.push(AgentProcess { look, root, backend, doubts, process, role, heard, home, proof });
    }
    let mut silent = Vec::new();
    for some in all.chunks(MAX_PARALLEL) {
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

/// Most processes that are asked in parallel.
const MAX_PARALLEL: usize = 32;

/// The claims of a process, and the answer of its port if it has one.
type Answer = (BTreeMap<String, Claim>, Option<Result<ServerAnswer, TalkError>>);

/// Asks these processes in parallel: a process that listens and does not answer delays only its own
/// sessions.
fn ask_all(some: &[AgentProcess<'_>]) -> Vec<Answer> {
    let answer = |one: &AgentProcess<'_>| {
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

/// One process of a home, with its log lines and its proof.
struct AgentProcess<'a> {
    look: &'a Look,
    root: &'a Root,
    backend: &'a Backend<'a>,
    doubts: &'a Doubts,
    process: &'a Process,
    role: Role,
    heard: LogReading,
    home: Home,
    /// Whether it is the agent of this home; otherwise nothing is joined to it.
    proof: Result<(), Unproved>,
}

/// The reason why a session counts as served.
struct Claim {
    source: String,
    says: String,
    /// The model call failed, and there was no retry since.
    failed_call: Option<String>,
}

impl AgentProcess<'_> {
    fn claim(
        &self,
        mut claims: BTreeMap<String, Claim>,
        word: Option<Result<ServerAnswer, TalkError>>,
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
        // The server of a run is not shared while it serves no other session.
        let is_own = claims.len() == 1 && self.is_server_of_run();
        for (id, claim) in claims {
            let mut row = match &self.proof {
                Ok(()) => self.served(id, claim, word.as_ref()),
                Err(unproved) => self.unproved(id, claim, unproved),
            };
            row.hosted &= !is_own;
            found.rows.push(row);
        }
    }

    /// Makes the claim for a session that is named by a process which is not proved to be the agent of
    /// this home.
    fn unproved(&self, id: String, claim: Claim, unproved: &Unproved) -> Served {
        let why = format!("pid {} names it, but {unproved}", self.process.id.pid);
        let mut served = Served::unseen(id, why);
        served.evidence.push(self.look.evidence(claim.source, claim.says));
        served
    }

    /// Returns the earlier sessions of a terminal: it may be back in one of them, which shows only
    /// after the next prompt.
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

    /// Returns the sessions of this process, from its arguments and the log.
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
            // A terminal stays in its last session; earlier sessions count only if a turn is open.
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

    /// Says whether it is a server that was started for one run.
    fn is_server_of_run(&self) -> bool {
        self.role == Role::Server && is_server_of_run(self.look, self.process)
    }

    /// Asks the process on its port, if it has one.
    fn word(&self, claims: &BTreeMap<String, Claim>) -> Option<Result<ServerAnswer, TalkError>> {
        if self.role == Role::Run || self.proof.is_err() {
            return None;
        }
        let server = match server::of(self.look, self.process) {
            Ok(server) => server?,
            Err(error) => return Some(Err(TalkError::Unreachable(error))),
        };
        let mut folders: Vec<String> =
            claims.keys().filter_map(|id| self.backend.row(id).ok()??.directory).collect();
        if folders.is_empty() && (self.heard.told().is_none() || self.is_server_of_run()) {
            // The log names no session: the folder in which it runs is certainly open there.
            folders.extend(self.process.cwd.iter().map(|c| c.to_string_lossy().into_owned()));
        }
        folders.sort();
        folders.dedup();
        Some(server::ask(self.look, &server, &folders))
    }

    /// Turns the error of a server that did not answer into a fault.
    fn heard_or_fault(
        &self,
        word: Result<ServerAnswer, TalkError>,
        found: &mut Found<Served>,
    ) -> Option<ServerAnswer> {
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

    /// Returns the session whose open command was started by this process.
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
        // Two sessions that fit are ambiguous.
        let [(row, tool)] = fitting.as_slice() else { return None };
        let source = "kernel:process table".to_owned();
        let says = format!("its open command is pid {tool}, which pid {pid} has started");
        Some((row.id.clone(), Claim { source, says, failed_call: None }))
    }

    /// Returns the child processes: pids and commands.
    fn tools(&self) -> Vec<(u32, String)> {
        let ours = |p: &&Process| p.parent_pid == self.process.id.pid;
        let below = self.look.everyone().processes.iter().filter(ours);
        below.map(|p| (p.id.pid, shell_words(p))).collect()
    }

    fn served(&self, id: String, claim: Claim, word: Option<&ServerAnswer>) -> Served {
        let known = self.backend.row(&id);
        let blind = known.is_err();
        let row = known.unwrap_or_default();
        let newest = row.as_ref().and_then(|row| row.newest.as_ref());
        let mut served = Served::by(Some(id.clone()), self.process);
        served.hosted = self.role == Role::Server;
        served.single_prompt = self.role == Role::Run;
        served.unprompted = true;
        if self.role != Role::Run {
            // The directory of a server or a terminal is not the directory of its sessions.
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
            // Its record decides, or is reported as unreadable.
            return served;
        }
        let (state, says) = self.silent(&id, newest, claim.failed_call);
        if let Some(says) = says {
            served.evidence.push(self.look.evidence(format!("{NAME}:log/opencode.log"), says));
        }
        served.state = state;
        served
    }

    /// Returns the state of a session from its server's answer. A waiting subagent makes its session
    /// wait.
    fn heard(&self, id: &str, word: &ServerAnswer) -> State {
        let family = word.at_work.iter().filter(|(at, _)| self.backend.top(at) == id);
        let states: Vec<(&String, &State)> = family.collect();
        let waits = states.iter().find(|(_, s)| s.status == Status::Waiting);
        let own = states.iter().find(|(at, _)| *at == id);
        match waits.or(own).or(states.first()) {
            Some((_, state)) => (*state).clone(),
            None => State { status: Status::Idle, reason: None },
        }
    }

    /// Returns the state of a session whose process could not be asked; `None` where its record
    /// decides.
    fn silent(
        &self,
        id: &str,
        newest: Option<&Newest>,
        failed_call: Option<String>,
    ) -> (Option<State>, Option<String>) {
        let answers = |n: &Newest| n.info.as_ref().is_none_or(|i| i.role == "assistant");
        let running = |reason| Some(State { status: Status::Running, reason: Some(reason) });
        match (self.role, newest) {
            // The prompt it was started for is not written yet, or has no answer yet.
            (Role::Run, newest) if !newest.is_some_and(|n| answers(n) && self.is_own(id, n)) => {
                return (running(Reason::of(ReasonKind::Starting)), None);
            }
            // A terminal creates a session for a prompt, and writes the prompt later.
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
            // A process that could not be read may be the tool that was permitted.
            if VISIBLE_AT_ONCE.contains(&permission) && self.look.everyone().gaps.is_empty() {
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

    fn spoken(&self, id: &str) -> Option<&MentionedSession> {
        self.heard.told()?.sessions.iter().find(|spoken| spoken.id == id)
    }

    /// Says whether a message was written in the lifetime of this process, according to its log. If
    /// the log does not mention the session, the times of the message and of the process are compared.
    fn is_own(&self, id: &str, newest: &Newest) -> bool {
        let start = self.process.started_at.map_or(0, crate::model::Time::millis);
        self.spoken(id).is_some_and(|s| s.begun_here) || newest.created + GRAIN_MS >= start
    }

    /// Returns the state of a session whose open turn may have been left by a process that died; `None`
    /// if the turn is over or belongs to this process.
    ///
    /// The times of a message and of a process come from different clocks, or from a clock that was
    /// set. So the log of this process decides, and a tool that it has started.
    fn left_open(&self, id: &str, newest: &Newest) -> Option<(Option<State>, Option<String>)> {
        if !matches!(newest.turn(), Turn::Open { .. }) {
            return None;
        }
        // The log is written a moment later than the database, so the end of an earlier turn here does
        // not mean that no other turn has begun.
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
        // Both times come from the agent; before 1.18 its log lines have no fine enough time.
        let later = |told: &log::LogFacts| match told.until {
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

    /// Says whether this process has a live tool: its tools carry its pid. `None` if not all processes
    /// could be read, or not the environment of a child.
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
                // A process that has unmapped its environment looks like a process without one.
                values if values.iter().all(Option::is_none) => {
                    is_whole &= self.look.has_ended(child);
                }
                _ => {}
            }
        }
        is_whole.then_some(false)
    }

    /// Says whether a tool of the session or of its subagents was called and shows no sign that it
    /// runs.
    fn waits(&self, id: &str, newest: Option<&Newest>) -> bool {
        let rows = self.backend.descendants(id);
        let newest = newest.into_iter().chain(rows.iter().filter_map(|row| row.newest.as_ref()));
        let held: Vec<&Part> =
            newest.flat_map(|n| &n.parts).filter(|p| p.has_not_begun()).collect();
        if held.is_empty() {
            return false;
        }
        // A command that was just permitted runs before the database says so.
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

/// Returns the shell command that a session runs.
fn command_of(newest: &Newest) -> Option<&str> {
    newest.parts.iter().find_map(Part::command)
}

/// Returns the command of a shell process, or the command that it became: a shell executes its last
/// command itself.
fn shell_words(process: &Process) -> String {
    match process.argv.as_slice() {
        [_, flag, command] if flag == "-c" => command.clone(),
        words => words.join(" "),
    }
}

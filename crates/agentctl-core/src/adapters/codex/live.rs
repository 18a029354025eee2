//! The processes that serve threads: the holder of the `flock` on a thread's lock file, and the process
//! that has the thread's rollout open for writing. Versions up to 0.146 have no locks.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::process::{Role, role};
use super::{
    Codex, CodexStore, NAME, birth_days, id_of, is_codex, is_program_name, locks, server, tools,
};
use crate::adapters::launchers::launchers;
use crate::adapters::proof::{Unproved, is_server_of_run, prove};
use crate::adapters::{Found, Look, Root, Served, State, fault};
use crate::kernel::{OpenFile, Process};
use crate::model::{Evidence, FaultCode, Reason, ReasonKind, Status};

/// A server of a run without a thread that is younger than this is starting.
const SERVER_START_MS: i64 = 60_000;

/// A Codex process that may serve threads of this home, with the rollouts it has open for writing.
pub(super) struct Candidate<'a> {
    pub(super) process: &'a Process,
    /// Whether it is proved to be Codex of this home.
    pub(super) proof: Result<(), Unproved>,
    rollouts: Vec<(String, OpenFile)>,
    /// The index in `rollouts` of the first descriptor of each thread.
    first: HashMap<String, usize>,
    /// Why its open files could not be read.
    unread: Option<String>,
    /// A path means the same file to it as to us.
    shares_mounts: bool,
}

impl Candidate<'_> {
    fn rollout(&self, id: &str) -> Option<&OpenFile> {
        self.first.get(id).map(|at| &self.rollouts[*at].1)
    }
}

/// Reads which processes serve the threads of a home, and asks the servers among them for the status of
/// their threads.
pub(super) fn read(store: &CodexStore<'_>) -> Found<Served> {
    let (look, root) = (store.look, store.root);
    let candidates = candidates(look, root);
    let mut found = Found::default();
    locks::read(look, root, &candidates, &mut found);
    add_openers(store, &candidates, &mut found);
    server::ask(look, root, &hosts(&candidates, &found), &mut found);
    mark_servers_of_runs(look, &candidates, &mut found);
    for served in &mut found.rows {
        judge_record(store, &candidates, served);
    }
    add_threadless(look, &candidates, &mut found);
    report_hidden(look, root, &mut found);
    found
}

/// Looks at every process of this user that runs Codex's program.
fn candidates<'a>(look: &'a Look, root: &Root) -> Vec<Candidate<'a>> {
    let ours = |p: &&Process| is_codex(p) && p.uid == Some(look.host.kernel.uid());
    // Until its `exec`, a forked child has every file of its parent open and serves no thread.
    let is_fork = |p: &&Process| look.table.is_mere_fork(p);
    let processes = look.table.processes.iter().filter(ours).filter(|p| !is_fork(p));
    let candidates = processes.filter_map(|process| {
        let is_rollout = |path: &Path| rollout_id(path).is_some();
        let files = look.host.kernel.open_files(&process.id, &is_rollout);
        if look.has_ended(process) {
            return None;
        }
        let (files, unread) = match files {
            Ok(files) => (files, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        // Pickers, searches and listings read rollouts that they do not serve.
        let written = files.into_iter().filter(|file| file.writable);
        let named = written.filter_map(|file| Some((rollout_id(&file.path)?, file)));
        let proof = prove(&Codex, look, root, process);
        let shares_mounts = look.host.kernel.shares_mounts(&process.id).unwrap_or(true);
        let rollouts: Vec<(String, OpenFile)> = named.collect();
        let mut first = HashMap::new();
        for (at, (id, _)) in rollouts.iter().enumerate() {
            first.entry(id.clone()).or_insert(at);
        }
        Some(Candidate { process, proof, rollouts, first, unread, shares_mounts })
    });
    candidates.collect()
}

/// Reports the processes called Codex whose program file and open files the kernel hides from us, as it does
/// across user namespaces: any thread of the home may be served by one of them.
fn report_hidden(look: &Look, root: &Root, found: &mut Found<Served>) {
    let kernel = &look.host.kernel;
    let hidden = look.table.processes.iter().filter(|process| {
        process.exe.is_none()
            && is_program_name(&process.comm)
            && process.uid == Some(kernel.uid())
            && !matches!(role(process), Role::Other | Role::RemoteTerminal)
    });
    for process in hidden {
        // A process that is ending has no program file and no open files either.
        let Err(error) = kernel.open_files(&process.id, &|_| false) else { continue };
        if look.has_ended(process) {
            continue;
        }
        let pid = process.id.pid;
        let message = format!(
            "pid {pid} is called {}, and its open files cannot be read: {error}",
            process.comm
        );
        found.faults.push(fault(NAME, root, FaultCode::Unreadable, message));
        found.whole = false;
    }
}

fn rollout_id(path: &Path) -> Option<String> {
    id_of(path.file_name()?.to_str()?).map(str::to_owned)
}

/// Makes the claim that a proved process serves this thread.
pub(super) fn served_by(id: &str, process: &Process) -> Served {
    let mut served = Served::by(Some(id.to_owned()), process);
    let role = role(process);
    served.hosted = !matches!(role, Role::Executes | Role::Terminal | Role::RemoteTerminal);
    served.single_prompt = role == Role::Executes;
    if served.hosted {
        // A server runs in the directory of its first client, which is not the directory of its
        // threads.
        (served.stands_in, served.started_at) = (None, None);
    }
    served
}

/// Makes the claim that a Codex process of another pid namespace serves this thread; it must not be
/// signalled. The thread's record gives its state.
pub(super) fn served_elsewhere(id: &str) -> Served {
    let mut served = Served::unseen(id.to_owned(), "");
    (served.state, served.unprompted) = (None, true);
    served
}

/// Adds the threads whose rollout a process has open for writing and that hold no lock of this process.
fn add_openers(store: &CodexStore<'_>, candidates: &[Candidate<'_>], found: &mut Found<Served>) {
    let mut own = OwnRollouts { store, days: HashMap::new() };
    let mut known: HashSet<String> = found.rows.iter().filter_map(|s| s.id.clone()).collect();
    for candidate in candidates {
        let process = candidate.process;
        let pid = process.id.pid;
        let by_it = found.rows.iter().filter(|s| s.by.contains(&process.id));
        let mut known_by_it: HashSet<String> = by_it.filter_map(|s| s.id.clone()).collect();
        for (id, file) in &candidate.rollouts {
            if known_by_it.contains(id) {
                continue;
            }
            let mut served = match &candidate.proof {
                // A process with other mounts may have another file under the same path.
                Ok(()) if candidate.shares_mounts && file.path.starts_with(store.root.path()) => {
                    served_by(id, process)
                }
                Ok(()) if own.contains(id, file) => served_by(id, process),
                Ok(()) => continue,
                Err(_) if known.contains(id) || !own.contains(id, file) => continue,
                Err(Unproved::Namespace) => served_elsewhere(id),
                Err(unproved) => {
                    let why = format!("pid {pid} has its rollout open, but {unproved}");
                    Served::unseen(id.clone(), why)
                }
            };
            let says = format!("pid {pid} has its rollout open for writing");
            served.evidence.push(store.look.evidence("kernel:open files", says));
            if !served.by.is_empty() {
                known_by_it.insert(id.clone());
            }
            known.insert(id.clone());
            found.rows.push(served);
        }
    }
}

/// The rollouts of a home. The folder of a day is listed once for all open files, so a process with
/// thousands of open rollouts does not cost thousands of listings.
struct OwnRollouts<'a> {
    store: &'a CodexStore<'a>,
    days: HashMap<String, HashSet<String>>,
}

impl OwnRollouts<'_> {
    /// Says whether an open file is the rollout of this thread in this home.
    fn contains(&mut self, id: &str, open: &OpenFile) -> bool {
        let store = self.store;
        let mut lies_in = |day: String| {
            let ids = self.days.entry(day).or_insert_with_key(|day| store.ids_of_day(day));
            ids.contains(id)
        };
        birth_days(id).into_iter().any(&mut lies_in) && store.is_own_rollout(id, open)
    }
}

/// Returns the servers that serve a thread of this home.
fn hosts<'a>(candidates: &[Candidate<'a>], found: &Found<Served>) -> Vec<&'a Process> {
    let serves = |process: &&Process| {
        found.rows.iter().any(|served| served.hosted && served.by.contains(&process.id))
    };
    candidates.iter().map(|c| c.process).filter(serves).collect()
}

/// Marks the threads whose server was started for their run and serves no other thread: it is not shared.
fn mark_servers_of_runs(look: &Look, candidates: &[Candidate<'_>], found: &mut Found<Served>) {
    for process in candidates.iter().map(|candidate| candidate.process) {
        let mut served = found.rows.iter_mut().filter(|served| served.by.contains(&process.id));
        if let (Some(only), None) = (served.next(), served.next())
            && only.hosted
            && is_server_of_run(look, process)
        {
            only.hosted = false;
        }
    }
}

/// Decides the state of a served thread whose record is missing, deleted or cut.
fn judge_record(store: &CodexStore<'_>, candidates: &[Candidate<'_>], served: &mut Served) {
    let Some(id) = served.id.clone().filter(|_| served.state.is_none()) else { return };
    let theirs = candidates.iter().filter(|c| served.by.contains(&c.process.id));
    let mut rollouts = theirs.filter_map(|c| c.rollout(&id));
    let damage = match rollouts.find_map(OpenFile::damage) {
        Some(damage) => format!("its rollout {damage} while its process had it open"),
        None if store.lacks_rollout(&id) => "its rollout is not in its home any more".to_owned(),
        None => {
            served.unprompted = true;
            return;
        }
    };
    let says = match tools::at_work(store.look, &served.by, &id) {
        Some(tool) => {
            let says = format!("{damage}; a tool of its process runs: {tool}");
            let reason = Some(Reason::with(ReasonKind::Tool, tool));
            served.state = Some(State { status: Status::Running, reason });
            says
        }
        // It was started for one prompt and exits when that is done.
        None if served.single_prompt => {
            served.state = Some(State { status: Status::Running, reason: None });
            damage
        }
        None => {
            let reason = Some(Reason::with(ReasonKind::Unreadable, damage.clone()));
            served.state = Some(State { status: Status::Unknown, reason });
            damage
        }
    };
    served.evidence.push(store.look.evidence("kernel:open files", says));
}

/// Adds the processes of this home that serve no thread.
fn add_threadless(look: &Look, candidates: &[Candidate<'_>], found: &mut Found<Served>) {
    let ours = || candidates.iter().filter(|c| c.proof.is_ok());
    let servers: Vec<&Process> =
        ours().map(|c| c.process).filter(|p| role(p) == Role::Server).collect();
    let wrappers = wrappers(look, candidates);
    for candidate in ours() {
        let process = candidate.process;
        let joined = found.rows.iter().any(|s| s.by.contains(&process.id));
        if joined || wrappers.contains(&process.id.pid) {
            continue;
        }
        let role = role(process);
        match (role, &candidate.unread) {
            (Role::Other | Role::RemoteTerminal, _) => {}
            (_, Some(error)) => found.rows.push(unreadable(look, process, error)),
            (Role::Executes | Role::Terminal, None) if !candidate.shares_mounts => {
                found.rows.push(hidden_home(look, process));
            }
            (Role::Executes, None) => found.rows.push(starting(look, process)),
            (Role::Terminal, None) if !is_client(look, process, &servers) => {
                found.rows.push(threadless(look, process));
            }
            // The server of a run can be stopped also before its thread begins and after that was unloaded.
            (Role::Server, None) if is_server_of_run(look, process) => {
                found.rows.push(server_without_thread(look, process));
            }
            // A server without threads is no session; a client's thread is listed with its server.
            _ => {}
        }
    }
}

/// Returns the pids of the processes that only wait for the real Codex below them: another program
/// file, in the same kernel session. A Codex below a tool has a kernel session of its own.
fn wrappers(look: &Look, candidates: &[Candidate<'_>]) -> HashSet<u32> {
    let serves = |process: &&Process| {
        matches!(role(process), Role::Executes | Role::Terminal | Role::RemoteTerminal)
    };
    let agents = candidates.iter().map(|c| c.process).filter(serves);
    launchers(look, agents, &|above, agent, _| {
        above.exe != agent.exe && above.session == agent.session
    })
}

/// Says whether a terminal is connected to a server of its home. If the kernel does not show this,
/// any server that listens may be its server.
fn is_client(look: &Look, terminal: &Process, servers: &[&Process]) -> bool {
    let kernel = &look.host.kernel;
    servers.iter().any(|server| {
        let listens = server.argv.iter().any(|word| word.contains("unix://"));
        kernel.is_connected(&terminal.id, &server.id).unwrap_or(listens)
    })
}

/// Makes the row of `codex exec` without a thread: it is starting, or it keeps no record (`--ephemeral`).
fn starting(look: &Look, process: &Process) -> Served {
    let says = format!(
        "pid {} holds no lock and has no rollout open: it is starting, or it is ephemeral",
        process.id.pid
    );
    let seen = look.evidence("kernel:open files", says);
    without_thread(process, seen, Status::Running, Reason::of(ReasonKind::Starting))
}

/// Makes the row of the server of a run that has no thread loaded.
fn server_without_thread(look: &Look, process: &Process) -> Served {
    let says = format!("pid {} is the server of a run and has no thread loaded", process.id.pid);
    let seen = look.evidence("kernel:environment", says);
    let age_ms = process.started_at.map(|start| look.now.millis() - start.millis());
    let mut served = without_thread(process, seen, Status::Idle, Reason::of(ReasonKind::Starting));
    served.state = Some(if age_ms.is_some_and(|age| age < SERVER_START_MS) {
        State { status: Status::Running, reason: Some(Reason::of(ReasonKind::Starting)) }
    } else {
        State { status: Status::Idle, reason: None }
    });
    served
}

/// Makes the row of a terminal without a thread that is connected to no server of its home.
fn threadless(look: &Look, process: &Process) -> Served {
    let says = format!(
        "pid {} holds no lock, has no rollout open and is connected to no server of its home",
        process.id.pid
    );
    let seen = look.evidence("kernel:open files", says);
    let why = "it is starting, asks whether it may trust its directory, has no prompt yet (up to 0.146), \
               or has lost its server";
    without_thread(process, seen, Status::Unknown, Reason::with(ReasonKind::Ambiguous, why))
}

/// Makes the row of a process that sees other mounts and serves no thread of this home: its home may be
/// another folder.
fn hidden_home(look: &Look, process: &Process) -> Served {
    let why = "it lives in another mount namespace, and its home may not be the one that we see";
    let seen = look.evidence("kernel:mount namespace", why);
    without_thread(process, seen, Status::Unknown, Reason::with(ReasonKind::Elsewhere, why))
}

/// Makes the row of a process whose open files cannot be read: it may serve any thread of its home.
fn unreadable(look: &Look, process: &Process, error: &str) -> Served {
    let why = format!("its open files cannot be read: {error}");
    let seen = look.evidence("kernel:open files", why.clone());
    let reason = Reason::with(ReasonKind::Unreadable, why);
    let mut served = without_thread(process, seen, Status::Unknown, reason);
    served.may_serve = true;
    // It may have continued a thread of any age and any directory.
    (served.stands_in, served.started_at) = (None, None);
    served
}

/// Makes the row of a process that serves no known thread.
fn without_thread(process: &Process, seen: Evidence, status: Status, reason: Reason) -> Served {
    let mut served = Served::by(None, process);
    served.evidence.push(seen);
    served.state = Some(State { status, reason: Some(reason) });
    served
}

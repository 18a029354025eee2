//! Asks an app-server about the threads it hosts: only the server knows whether a thread waits for a
//! human.
//!
//! Reading a thread without its turns has no side effect; asking for turns writes files, so it is never
//! done. Without a socket nothing is claimed; a socket that fails is a fault.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::process::{Role, role};
use super::{Codex, NAME, home_of, is_codex};
use crate::adapters::proof::prove;
use crate::adapters::{Found, Look, Root, Served, State, fault};
use crate::kernel::{Kernel, Process};
use crate::model::{FaultCode, ProcId, Reason, ReasonKind, Session, Status};
use crate::talk::{Pushing, RpcSocket, TalkError};

/// Sets the state of each hosted thread to its server's answer.
pub(super) fn ask(look: &Look, root: &Root, hosts: &[&Process], found: &mut Found<Served>) {
    let mut servers = Vec::new();
    let mut rows: Vec<&mut Served> = found.rows.iter_mut().filter(|s| s.hosted).collect();
    for host in hosts {
        let Some(path) = socket_of(look, root, host) else { continue };
        let (served, others): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|s: &&mut Served| s.by.contains(&host.id));
        rows = others;
        let socket = Socket { path, server: host.id.clone() };
        servers.push((host.id.pid, socket, served));
    }
    // All at once: a server that does not answer delays only its own sessions.
    let mut silent = Vec::new();
    while !servers.is_empty() {
        let some: Vec<_> = servers.drain(..servers.len().min(MAX_PARALLEL)).collect();
        silent.extend(std::thread::scope(|scope| {
            let asked: Vec<_> = some
                .into_iter()
                .map(|(pid, socket, mut served)| {
                    (pid, scope.spawn(move || converse(look, &socket, &mut served).err()))
                })
                .collect();
            let heard = asked.into_iter().map(|(pid, thread)| {
                (pid, thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            });
            heard.collect::<Vec<_>>()
        }));
    }
    for (pid, error) in silent.into_iter().filter_map(|(pid, error)| Some((pid, error?))) {
        let message =
            format!("its app-server (pid {pid}) did not say whether anyone is needed: {error}");
        let foreign = matches!(error, TalkError::OtherProcess(_));
        let code = if foreign { FaultCode::Foreign } else { FaultCode::Unreachable };
        found.faults.push(fault(NAME, root, code, message));
    }
}

/// The socket that the arguments of a server name, and the process that must listen there.
pub(super) struct Socket {
    path: PathBuf,
    server: ProcId,
}

impl Socket {
    pub(super) fn new(path: PathBuf, server: ProcId) -> Self {
        Self { path, server }
    }

    /// Returns the name of the server in subscriptions.
    pub(super) fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

/// Most servers that are asked in parallel.
const MAX_PARALLEL: usize = 32;

/// Returns the socket of `--listen unix://PATH`, if it exists; without a path it is the home's own
/// socket.
fn socket_of(look: &Look, root: &Root, host: &Process) -> Option<PathBuf> {
    let path = match host.argv.iter().find_map(|a| a.strip_prefix("unix://"))? {
        "" => root.path().join("app-server-control/app-server-control.sock"),
        path => PathBuf::from(path),
    };
    if path.is_absolute() && std::fs::symlink_metadata(&path).is_ok() {
        return Some(path);
    }
    listening_path(look, host)
}

/// Returns the socket on which a server listens, from the kernel: the name in its arguments is a link that may
/// have been removed.
pub(super) fn listening_path(look: &Look, host: &Process) -> Option<PathBuf> {
    let listens = look.host.kernel.listening_unix(&host.id).ok()?;
    listens.into_iter().find(|path| std::fs::symlink_metadata(path).is_ok())
}

/// Returns the socket of the server that hosts a session.
pub(super) fn socket_of_host(look: &Look, root: &Root, session: &Session) -> Option<Socket> {
    let server = &session.processes.first()?.id;
    let process = look.host.kernel.process(server.pid).ok().flatten()?;
    let is_it = process.id == *server
        && role(&process) == Role::Server
        && prove(&Codex, look, root, &process).is_ok();
    if !is_it {
        return None;
    }
    let path = socket_of(look, root, &process)?;
    Some(Socket { path, server: server.clone() })
}

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A quick status query.
    Query,
    /// A request that takes longer, some of which need an opt-in.
    Act,
}

/// Connects to a server and introduces us.
pub(super) fn hello(look: &Look, to: &Socket, purpose: Purpose) -> Result<RpcSocket, TalkError> {
    let left = look.deadline.saturating_duration_since(Instant::now());
    // A shorter limit than the look's deadline: other servers and the answer itself need time too.
    let patience = look.host.deadlines.live / 8;
    let (acts, limit) = match purpose {
        Purpose::Query => (false, patience),
        Purpose::Act => (true, 12 * patience),
    };
    let mut socket = RpcSocket::connect(&to.path, &look.host.kernel, &to.server, left.min(limit))?;
    introduce(&mut socket, acts)?;
    Ok(socket)
}

/// Connects to a server for a conversation that may take this long, and introduces us.
pub(super) fn visit(look: &Look, to: &Socket, limit: Duration) -> Result<RpcSocket, TalkError> {
    introduced(to, &look.host.kernel, limit)
}

/// Connects to a server and introduces us as a client that uses all its requests.
pub(super) fn introduced(
    to: &Socket,
    kernel: &Kernel,
    limit: Duration,
) -> Result<RpcSocket, TalkError> {
    let mut socket = RpcSocket::connect(&to.path, kernel, &to.server, limit)?;
    introduce(&mut socket, true)?;
    Ok(socket)
}

fn converse(look: &Look, to: &Socket, served: &mut [&mut Served]) -> Result<(), TalkError> {
    let mut socket = hello(look, to, Purpose::Query)?;
    for served in served {
        let Some(id) = served.id.clone() else { continue };
        let reply = match socket.ask("thread/read", &json!({ "threadId": id })) {
            Ok(reply) => reply,
            // The thread was unloaded a moment ago: the next look will not see its lock either.
            Err(TalkError::Refused(_)) => continue,
            Err(error) => return Err(error),
        };
        let thread = &reply["thread"];
        served.cwd = thread["cwd"].as_str().map(str::to_owned);
        served.state = state(&thread["status"]);
        let says = format!("thread status {}", thread["status"]);
        served.evidence.push(look.evidence(format!("{NAME}:app-server thread/read"), says));
    }
    Ok(())
}

/// Sends `initialize`. From then on the server sends a notification when the status of a thread
/// changes.
fn introduce(socket: &mut RpcSocket, experimental: bool) -> Result<(), TalkError> {
    let quiet = ["configWarning", "remoteControl/status/changed", "deprecationNotice"];
    let version = env!("CARGO_PKG_VERSION");
    let hello = json!({
        "clientInfo": { "name": "agentctl", "version": version },
        "capabilities": { "optOutNotificationMethods": quiet, "experimentalApi": experimental },
    });
    socket.ask("initialize", &hello)?;
    socket.notify("initialized")
}

/// Returns the server that hosts a session, if it has a socket for notifications.
pub(super) fn pushing(look: &Look, root: &Root, session: &Session) -> Option<Pushing> {
    let host = look.table.process(session.pid?).filter(|host| role(host) == Role::Server)?;
    listening(look, root, host)
}

/// Returns the servers of a home that have a socket for notifications.
pub(super) fn announcing(look: &Look, root: &Root) -> Vec<Pushing> {
    let theirs = |p: &&Process| {
        is_codex(p)
            && role(p) == Role::Server
            && home_of(look, p).is_some_and(|home| home == root.path())
    };
    let servers = look.table.processes.iter().filter(theirs);
    servers.filter_map(|server| listening(look, root, server)).collect()
}

fn listening(look: &Look, root: &Root, host: &Process) -> Option<Pushing> {
    let socket = socket_of(look, root, host)?;
    let (kernel, id) = (look.host.kernel.clone(), host.id.clone());
    Some(Pushing::new(socket.to_string_lossy().into_owned(), move |limit| {
        let mut server = RpcSocket::connect(&socket, &kernel, &id, limit)?;
        introduce(&mut server, false)?;
        server.listen()
    }))
}

/// Returns the state that the status of a thread means.
pub(super) fn state(status: &Value) -> Option<State> {
    let flagged = |flag: &str| {
        status["activeFlags"].as_array().is_some_and(|flags| flags.iter().any(|f| f == flag))
    };
    let (status, reason) = match status["type"].as_str()? {
        "active" if flagged("waitingOnApproval") => {
            (Status::Waiting, Some(Reason::of(ReasonKind::Permission)))
        }
        "active" if flagged("waitingOnUserInput") => {
            (Status::Waiting, Some(Reason::of(ReasonKind::Question)))
        }
        "active" => (Status::Running, None),
        // After a failed turn the thread stays loaded and waits for the user.
        "idle" | "systemError" => (Status::Idle, None),
        // `notLoaded` and the like are another server's view; the lock proves the opposite.
        _ => return None,
    };
    Some(State { status, reason })
}

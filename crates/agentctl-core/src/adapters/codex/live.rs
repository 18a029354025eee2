//! Who lives: the holder of the `flock` on a thread's lock file, confirmed by its open descriptor.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::{NAME, home_of, is_codex, server};
use crate::adapters::{Found, Look, Root, Served, State, fault, skipped};
use crate::kernel::{FileLock, Process};
use crate::model::{Reason, ReasonKind, Status, is_session_id};
use crate::native::file;

/// Reads who holds the threads of a home, and asks the servers among them what they wait for.
pub(super) fn read(look: &Look, root: &Root) -> Found<Served> {
    let mut found = Found::default();
    let uid = look.host.kernel.uid();
    let directory = root.path.join("thread-writer-locks");
    let entries = match file::list(&directory, uid) {
        Ok(entries) => entries,
        Err(skip) => return Found::fault(skipped(NAME, root, &directory, &skip)),
    };
    let held = match look.host.kernel.file_locks() {
        Ok(locks) => locks,
        Err(error) => {
            let message = format!("who holds its locks cannot be read: {error}");
            return Found::fault(fault(NAME, root, "unreadable", message));
        }
    };
    let mut hosts: HashMap<u32, Process> = HashMap::new();
    for entry in entries {
        let Some(id) = entry.name.strip_suffix(".lock").filter(|id| is_session_id(id)) else {
            continue;
        };
        found.rows.extend(holder(look, id, &entry, &held, &mut hosts));
    }
    server::ask(look, root, &hosts, &mut found);
    let ours = |p: &&Process| {
        is_codex(p)
            && !p.elsewhere
            && home_of(look, p).is_some_and(|h| file::resolve_root(&h) == root.path)
            && !look.has_ended(p)
    };
    let processes: Vec<&Process> = look.table.processes.iter().filter(ours).collect();
    let served_elsewhere = processes.iter().any(|p| is_server(p));
    for process in processes {
        let joined = found.rows.iter().any(|s| s.by.contains(&process.id));
        if joined || look.table.is_mere_fork(process) {
            continue;
        }
        match role(process) {
            Role::Executes => found.rows.push(unlocked(look, process)),
            // With a server about, the terminal's thread lives there and has a row of its own.
            Role::Terminal if !served_elsewhere => found.rows.push(threadless(look, process)),
            _ => {}
        }
    }
    found
}

enum Role {
    /// `codex exec`: one prompt, one thread.
    Executes,
    /// The terminal program.
    Terminal,
    /// Servers, updaters, one-shot helpers.
    Other,
}

fn role(process: &Process) -> Role {
    #[rustfmt::skip]
    const OTHERS: [&str; 17] = [
        "app-server", "login", "logout", "mcp", "mcp-server", "completion", "debug", "apply", "cloud",
        "features", "help", "queue", "sandbox", "plugin", "update", "doctor", "execpolicy",
    ];
    match command(process) {
        Some("exec" | "e") => Role::Executes,
        Some(word) if OTHERS.contains(&word) => Role::Other,
        _ if process.argv.iter().any(|a| a == "--version" || a == "--help") => Role::Other,
        _ => Role::Terminal,
    }
}

pub(super) fn is_server(process: &Process) -> bool {
    command(process) == Some("app-server")
}

/// The first word that is neither an option nor an option's value: the subcommand, or a prompt.
/// `codex -C exec` works in a folder of that name.
fn command(process: &Process) -> Option<&str> {
    #[rustfmt::skip]
    const WITH_VALUE: [&str; 24] = [
        "-c", "--config", "-m", "--model", "-p", "--profile", "-C", "--cd", "-s", "--sandbox", "-a",
        "--ask-for-approval", "-i", "--image", "--enable", "--disable", "--add-dir", "--color",
        "--oss-provider", "--local-provider", "--remote", "-o", "--output-last-message",
        "--output-schema",
    ];
    let mut words = process.argv.iter().skip(1);
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

fn holder(
    look: &Look,
    id: &str,
    entry: &file::Entry,
    held: &[FileLock],
    hosts: &mut HashMap<u32, Process>,
) -> Option<Served> {
    let meta = fs::symlink_metadata(&entry.path).ok().filter(fs::Metadata::is_file)?;
    let source = format!("{NAME}:thread-writer-locks/{}", entry.name);
    let kernel = &look.host.kernel;
    // A shared one is somebody who tries it, as `outside` does.
    let rows = held.iter().filter(|l| l.inode == meta.ino() && l.kind == "FLOCK" && l.exclusive);
    let mut pids: Vec<u32> = rows.filter_map(|lock| lock.pid).collect();
    if pids.is_empty() {
        // The kernel's list may leave out a lock that is held; whoever holds it has the file open.
        let open =
            |p: &&Process| kernel.has_open(p.id.pid, meta.dev(), meta.ino()).unwrap_or(false);
        let codex = look.table.processes.iter().filter(|p| is_codex(p));
        pids.extend(codex.filter(open).map(|p| p.id.pid));
    }
    for pid in pids {
        // The inode alone may be another file system's: the open descriptor settles it.
        match (kernel.process(pid), kernel.has_open(pid, meta.dev(), meta.ino())) {
            (Ok(Some(process)), Ok(true)) => {
                let mut served = Served::by(Some(id.to_owned()), &process);
                served.hosted = is_server(&process);
                served.single_prompt = matches!(role(&process), Role::Executes);
                served.unprompted = true;
                if served.hosted {
                    // A server works where its first client stood: that says nothing of its threads.
                    (served.stands_in, served.started_at) = (None, None);
                    hosts.insert(pid, process);
                }
                served
                    .evidence
                    .push(look.evidence(source, format!("its lock is held by pid {pid}")));
                return Some(served);
            }
            (Err(error), _) | (_, Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                let why = format!("its lock is held by pid {pid}, which cannot be read: {error}");
                return Some(Served::unseen(id.to_owned(), why));
            }
            _ => {}
        }
    }
    outside(look, id, entry, source)
}

/// From a private pid namespace the holders outside it are not shown at all. Only there is the lock
/// itself tried, for an instant and shared.
fn outside(look: &Look, id: &str, entry: &file::Entry, source: String) -> Option<Served> {
    let kernel = &look.host.kernel;
    if kernel.sees_whole_machine() {
        return None;
    }
    let opened = file::open(&entry.path, kernel.uid()).ok()?;
    if opened.file.try_lock_shared().is_ok() {
        return None;
    }
    // Taken by somebody we can see since the list was read: the next look names them.
    let now = kernel.file_locks().unwrap_or_default();
    let visible = now.iter().any(|lock| lock.inode == opened.identity.1 && lock.pid.is_some());
    let (kind, why) = if visible {
        (ReasonKind::Ambiguous, "its lock was taken while we looked; ask again")
    } else {
        (ReasonKind::Elsewhere, "its lock is held by a process outside this pid namespace")
    };
    let mut served = Served::unseen(id.to_owned(), why);
    let reason = Some(Reason::with(kind, why));
    served.state = Some(State { status: Status::Unknown, reason });
    served.evidence.push(look.evidence(source, why));
    Some(served)
}

/// `codex exec` without a lock: it is starting, or it keeps no record (`--ephemeral`).
fn unlocked(look: &Look, process: &Process) -> Served {
    let mut served = Served::by(None, process);
    let says =
        format!("pid {} holds no thread: it is starting, or it is ephemeral", process.id.pid);
    served.evidence.push(look.evidence("kernel:file locks", says));
    let reason = Some(Reason::of(ReasonKind::Starting));
    served.state = Some(State { status: Status::Running, reason });
    served
}

/// A terminal without a thread and without a server: it is starting, or it has lost its server.
fn threadless(look: &Look, process: &Process) -> Served {
    let mut served = Served::by(None, process);
    let says = format!("pid {} holds no thread, and no server of its home lives", process.id.pid);
    served.evidence.push(look.evidence("kernel:file locks", says));
    let reason = Reason::with(ReasonKind::Ambiguous, "starting, or it has lost its server");
    served.state = Some(State { status: Status::Unknown, reason: Some(reason) });
    served
}

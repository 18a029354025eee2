//! Who lives: the holder of the `flock` on a thread's lock file, confirmed by its open descriptor.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::{NAME, home_of, is_codex, server};
use crate::adapters::{Found, Look, Root, Served, State, fault, skipped};
use crate::kernel::{FileLock, Process};
use crate::model::{Status, is_session_id};
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
    for process in look.table.processes.iter().filter(|p| is_codex(p) && !p.elsewhere) {
        let joined = found.rows.iter().any(|s| s.by.contains(&process.id));
        let executes = process.argv.iter().skip(1).any(|a| a == "exec" || a == "e");
        let here = home_of(look, process).is_some_and(|h| file::resolve_root(&h) == root.path);
        if executes && here && !joined {
            found.rows.push(unlocked(look, process));
        }
    }
    found
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
    let rows = held.iter().filter(|lock| lock.inode == meta.ino() && lock.kind == "FLOCK");
    for pid in rows.filter_map(|lock| lock.pid) {
        let kernel = &look.host.kernel;
        // The inode alone may be another file system's: the open descriptor settles it.
        match (kernel.process(pid), kernel.has_open(pid, meta.dev(), meta.ino())) {
            (Ok(Some(process)), Ok(true)) => {
                let mut served = Served::by(Some(id.to_owned()), &process);
                served.hosted = process.argv.iter().any(|a| a == "app-server");
                if served.hosted {
                    // A server works where its first client stood: that says nothing of its threads.
                    (served.cwd, served.started_at) = (None, None);
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
    let why = if visible {
        "its lock was taken while we looked; ask again"
    } else {
        "its lock is held by a process outside this pid namespace"
    };
    let mut served = Served::unseen(id.to_owned(), why);
    served.evidence.push(look.evidence(source, why));
    Some(served)
}

/// `codex exec` without a lock: it is starting, or it keeps no record (`--ephemeral`).
fn unlocked(look: &Look, process: &Process) -> Served {
    let mut served = Served::by(None, process);
    let says =
        format!("pid {} holds no thread: it is starting, or it is ephemeral", process.id.pid);
    served.evidence.push(look.evidence("kernel:file locks", says));
    served.state = Some(State { status: Status::Running, reason: None });
    served
}

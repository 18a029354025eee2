//! The locks of threads: the holder of the `flock` on `thread-writer-locks/<id>.lock`, confirmed by its open
//! descriptor and proved to be Codex of this home.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::{fs, io};

use super::live::{Candidate, served_by, served_elsewhere};
use super::{Codex, NAME, is_codex};
use crate::adapters::proof::{Unproved, prove};
use crate::adapters::{Found, Look, Root, Served, State, fault, skipped};
use crate::kernel::{FileLock, Process};
use crate::model::{FaultCode, Reason, ReasonKind, Status, is_session_id};
use crate::native::file;

/// Adds the threads whose lock is held.
pub(super) fn read(
    look: &Look,
    root: &Root,
    candidates: &[Candidate<'_>],
    found: &mut Found<Served>,
) {
    let directory = root.path().join("thread-writer-locks");
    let entries = match file::list(&directory, look.host.kernel.uid()) {
        Ok(entries) => entries,
        Err(skip) => {
            found.faults.push(skipped(NAME, root, &directory, &skip));
            found.whole = false;
            return;
        }
    };
    if entries.is_empty() {
        return;
    }
    let inodes: HashSet<u64> = entries.iter().filter_map(inode_of).collect();
    let held = match look.host.kernel.file_locks(&|inode| inodes.contains(&inode)) {
        Ok(locks) => locks,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            // Another user may have made the list too long. The processes that have the files open are
            // still known.
            let message = format!("not all locks of the machine could be read: {error}");
            found.faults.push(fault(NAME, root, FaultCode::Timeout, message));
            found.whole = false;
            Vec::new()
        }
        Err(error) => {
            let message = format!("the processes that hold its locks cannot be read: {error}");
            found.faults.push(fault(NAME, root, FaultCode::Unreadable, message));
            found.whole = false;
            return;
        }
    };
    let locks = Locks { look, root, candidates, held, opened: RefCell::default() };
    for entry in entries {
        if let Some(id) = entry.name.strip_suffix(".lock").filter(|id| is_session_id(id)) {
            found.rows.extend(locks.holder(id, &entry));
        }
    }
}

fn inode_of(entry: &file::DirectoryEntry) -> Option<u64> {
    fs::symlink_metadata(&entry.path).ok().map(|meta| meta.ino())
}

/// Device and inode of every file that a process has open, or why they cannot be read.
type OpenInodes = Result<HashSet<(u64, u64)>, (io::ErrorKind, String)>;

struct Locks<'a> {
    look: &'a Look,
    root: &'a Root,
    candidates: &'a [Candidate<'a>],
    held: Vec<FileLock>,
    /// The files that a process has open, read once for all locks.
    opened: RefCell<HashMap<u32, OpenInodes>>,
}

impl Locks<'_> {
    fn holder(&self, id: &str, entry: &file::DirectoryEntry) -> Option<Served> {
        let meta = fs::symlink_metadata(&entry.path).ok().filter(fs::Metadata::is_file)?;
        let source = format!("{NAME}:thread-writer-locks/{}", entry.name);
        let kernel = &self.look.host.kernel;
        for pid in self.pids(&meta) {
            // The inode number alone may belong to another file system; the open descriptor decides.
            match (kernel.process(pid), self.has_open(pid, &meta)) {
                (Ok(Some(process)), Ok(true)) => {
                    let mut served = self.joined(id, &process, meta.nlink());
                    let says = format!("its lock is held by pid {pid}");
                    served.evidence.push(self.look.evidence(source, says));
                    return Some(served);
                }
                (Err(error), _) | (_, Err(error))
                    if error.kind() != std::io::ErrorKind::NotFound =>
                {
                    let why =
                        format!("its lock is held by pid {pid}, which cannot be read: {error}");
                    return Some(Served::unseen(id.to_owned(), why));
                }
                _ => {}
            }
        }
        outside(self.look, id, entry, source)
    }

    /// Returns the processes that may hold the lock on this file.
    fn pids(&self, meta: &fs::Metadata) -> Vec<u32> {
        // A shared lock belongs to a process that only tests the lock, as `outside` does.
        let is_this = |l: &&FileLock| l.inode == meta.ino() && l.kind == "FLOCK" && l.exclusive;
        let pids: Vec<u32> = self.held.iter().filter(is_this).filter_map(|lock| lock.pid).collect();
        if !pids.is_empty() {
            return pids;
        }
        // The kernel's list may miss a lock that is held; its holder has the file open.
        let pids = self.candidates.iter().map(|c| c.process.id.pid);
        pids.filter(|pid| self.has_open(*pid, meta).unwrap_or(false)).collect()
    }

    fn has_open(&self, pid: u32, meta: &fs::Metadata) -> io::Result<bool> {
        let read = || {
            let inodes = self.look.host.kernel.open_inodes(pid);
            inodes.map_err(|error| (error.kind(), error.to_string()))
        };
        let mut opened = self.opened.borrow_mut();
        match opened.entry(pid).or_insert_with(read) {
            Ok(inodes) => Ok(inodes.contains(&(meta.dev(), meta.ino()))),
            Err((kind, why)) => Err(io::Error::new(*kind, format!("its descriptors: {why}"))),
        }
    }

    /// Joins the thread and the holder of its lock, if the holder is proved to be Codex of this home. A
    /// lock file with several names is a hard link to another file, which the holder locked under its
    /// own name.
    fn joined(&self, id: &str, process: &Process, names: u64) -> Served {
        let pid = process.id.pid;
        if names != 1 {
            let why = format!("its lock file has {names} names; pid {pid} locked it under one");
            return Served::unseen(id.to_owned(), why);
        }
        match prove(&Codex, self.look, self.root, process) {
            Ok(()) => served_by(id, process),
            Err(Unproved::Namespace) if is_codex(process) => served_elsewhere(id),
            Err(unproved) => {
                let why = format!("its lock is held by pid {pid}, but {unproved}");
                Served::unseen(id.to_owned(), why)
            }
        }
    }
}

/// Tests a lock whose holder the kernel does not show. Inside a private pid namespace, holders outside
/// it are invisible; only there is the lock itself tried, shared and for an instant.
fn outside(look: &Look, id: &str, entry: &file::DirectoryEntry, source: String) -> Option<Served> {
    let kernel = &look.host.kernel;
    if kernel.sees_whole_machine() {
        return None;
    }
    let opened = file::open(&entry.path, kernel.uid()).ok()?;
    if opened.file.try_lock_shared().is_ok() {
        return None;
    }
    // A visible process took the lock after the list was read: the next look finds it.
    let now = kernel.file_locks(&|inode| inode == opened.identity.1).unwrap_or_default();
    let visible = now.iter().any(|lock| lock.pid.is_some());
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

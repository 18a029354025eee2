//! macOS: the process table through `sysinfo`, exits through kqueue, the same functions as on Linux.
//!
//! There is no pidfd here. A process is identified by pid and start time, and the start time has a
//! grain of one second; pids are given out in a ring of 99,999, so a reuse within one second is not
//! credible. Between the last check and a signal a pid could in theory change its owner: see
//! [`Kernel::signal`]. A fact that this system does not show (the holder of a file lock, the open files
//! of a process) is an error of kind `Unsupported`, never an empty answer.

mod peer;
mod unsupported;

use std::ffi::{OsStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::kqueue::{Event, EventFilter, EventFlags, ProcessEvents, kevent, kqueue};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use sysinfo::{ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};

pub use self::unsupported::{ClientEnd, MountViews, endless_pipe, hold_text};
use super::{Brief, Environ, FileLock, Liveness, Mechanism, Process, Table};
use crate::model::{ProcId, Time};

/// The kernel as this process sees it. Cheap to clone; holds no state about processes.
#[derive(Clone, Debug)]
pub struct Kernel {
    boot_id: String,
    uid: u32,
}

impl Kernel {
    /// Reads the boot id and the user.
    pub fn open() -> io::Result<Self> {
        Ok(Self { boot_id: boot_session()?, uid: rustix::process::geteuid().as_raw() })
    }

    /// Returns the same kernel: there is no pidfs here.
    #[must_use]
    pub fn without_pidfs(self) -> Self {
        self
    }

    /// Returns how processes are identified here.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        Mechanism::StartTime
    }

    /// Returns the id of this boot.
    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Returns 0: there are no pid namespaces here.
    #[must_use]
    pub fn pid_namespace(&self) -> u64 {
        0
    }

    /// Says whether every process of the machine has a pid in the observer's namespace.
    #[must_use]
    pub fn sees_whole_machine(&self) -> bool {
        true
    }

    /// Returns the machine's id, where it has one.
    #[must_use]
    pub fn machine_id(&self) -> Option<&str> {
        None
    }

    /// Returns the user whose processes and files are looked at.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the process that has this pid now, with details; `None` if there is none.
    pub fn process(&self, pid: u32) -> io::Result<Option<Process>> {
        if raw_pid(pid).is_none() {
            return Ok(None);
        }
        let asked = [sysinfo::Pid::from_u32(pid)];
        let system = snapshot(ProcessesToUpdate::Some(&asked), closely())?;
        // A zombie does not even show its name; it counts as absent, like a reaped process.
        system.process(asked[0]).map_or(Ok(None), |seen| self.details(seen))
    }

    fn details(&self, seen: &sysinfo::Process) -> io::Result<Option<Process>> {
        if seen.status() == ProcessStatus::Zombie {
            return Ok(None);
        }
        let start = seen.start_time();
        if start == 0 {
            let why = "macOS does not show when it started";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Some(Process {
            id: ProcId {
                pid: seen.pid().as_u32(),
                start_ticks: start,
                inode: None,
                boot_id: self.boot_id.clone(),
            },
            parent_pid: seen.parent().map_or(0, sysinfo::Pid::as_u32),
            session: seen.session_id().map_or(0, sysinfo::Pid::as_u32),
            comm: seen.name().to_string_lossy().into_owned(),
            paused: seen.status() == ProcessStatus::Stop,
            argv: seen.cmd().iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            exe: seen.exe().map(Path::to_owned),
            cwd: seen.cwd().map(Path::to_owned),
            started_at: i64::try_from(start).ok().and_then(|s| Time::from_millis(s * 1000)),
            elsewhere: false,
            uid: seen.effective_user_id().or(seen.user_id()).map(|uid| **uid),
        }))
    }

    /// Says whether exactly this process lives. A recycled pid, a zombie and another boot are `Gone`.
    #[must_use]
    pub fn liveness(&self, id: &ProcId) -> Liveness {
        if id.boot_id != self.boot_id {
            return Liveness::Gone;
        }
        match self.process(id.pid) {
            Ok(Some(now)) if same_process(&now.id, id) => Liveness::Alive { paused: now.paused },
            Ok(_) => Liveness::Gone,
            Err(error) => Liveness::Unknown(error.to_string()),
        }
    }

    /// Says whether this process is stopped by a signal. Only a reason to look again.
    #[must_use]
    pub fn seems_paused(&self, id: &ProcId) -> bool {
        matches!(self.liveness(id), Liveness::Alive { paused: true })
    }

    /// Reads the process table in two stages: owner first, details only for processes that `wanted`
    /// accepts.
    pub fn table(
        &self,
        _until: Instant,
        wanted: impl Fn(Brief<'_>) -> bool + Send + Sync + 'static,
    ) -> Table {
        let mut table = Table::default();
        let briefly = ProcessRefreshKind::nothing().with_exe(UpdateKind::Always).without_tasks();
        let all = match snapshot(ProcessesToUpdate::All, briefly) {
            Ok(all) => all,
            Err(error) => {
                table.gaps.push(format!("the process table could not be listed: {error}"));
                return table;
            }
        };
        let mut candidates = Vec::new();
        for (pid, seen) in all.processes() {
            // The owner of an exiting process is not shown; reading its details decides.
            let unclear = seen.effective_user_id().is_none();
            let own = seen.effective_user_id().is_some_and(|uid| **uid == self.uid);
            table.seen += usize::from(own);
            let comm = seen.name().to_string_lossy();
            let exe_name = seen.exe().and_then(Path::file_name).map(OsStr::to_string_lossy);
            let exe_name = exe_name.as_deref().unwrap_or_default();
            if (own || unclear) && wanted(Brief { comm: &comm, exe_name }) {
                candidates.push(*pid);
            }
        }
        candidates.sort_unstable();
        for pid in candidates {
            match self.process(pid.as_u32()) {
                Ok(Some(process)) => table.processes.push(process),
                Ok(None) => {}
                Err(error) => table.gaps.push(format!("process {pid} could not be read: {error}")),
            }
        }
        table
    }

    /// Returns the details of the process with this pid if `wanted` accepts it; `None` if it does not,
    /// or if there is no such process.
    pub fn candidate(
        &self,
        pid: u32,
        wanted: &dyn Fn(Brief<'_>) -> bool,
    ) -> io::Result<Option<Process>> {
        let process = self.process(pid)?;
        Ok(process.filter(|process| {
            let program = process.exe.as_deref().and_then(Path::file_name);
            let exe_name = program.map(OsStr::to_string_lossy);
            let exe_name = exe_name.as_deref().unwrap_or_default();
            wanted(Brief { comm: &process.comm, exe_name })
        }))
    }

    /// Lists the processes of this user by their pids, in ascending order.
    pub fn own_pids(&self) -> io::Result<Vec<u32>> {
        let briefly = ProcessRefreshKind::nothing().without_tasks();
        let all = snapshot(ProcessesToUpdate::All, briefly)?;
        let own = all
            .processes()
            .iter()
            .filter(|(_, seen)| seen.effective_user_id().is_some_and(|uid| **uid == self.uid));
        let mut pids: Vec<u32> = own.map(|(pid, _)| pid.as_u32()).collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// Says whether a process sees the same mounts as the observer: macOS has one table of mounts.
    pub fn shares_mounts(&self, _id: &ProcId) -> io::Result<bool> {
        Ok(true)
    }

    /// Says whether that is the machine's own pid namespace: there is no other.
    pub fn namespace_is_inhabited(&self, namespace: u64) -> io::Result<bool> {
        Ok(namespace == self.pid_namespace())
    }

    /// Returns the values of these variables in the environment a process was started with.
    pub fn environ(&self, id: &ProcId, names: &[&str]) -> io::Result<Vec<Option<String>>> {
        let asked = [sysinfo::Pid::from_u32(id.pid)];
        let kind = closely().with_environ(UpdateKind::Always);
        let system = snapshot(ProcessesToUpdate::Some(&asked), kind)?;
        let seen = system.process(asked[0]).ok_or(Errno::SRCH)?;
        if seen.start_time() != id.start_ticks || id.boot_id != self.boot_id {
            return Err(io::Error::other("the pid belongs to another process now"));
        }
        // The system hides the environment of its own programs and of other users by showing none.
        if seen.environ().is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "macOS shows no environment of it",
            ));
        }
        Ok(names.iter().map(|name| environ_value(seen.environ(), name)).collect())
    }

    /// Opens the file that has the name of a process's program now.
    pub fn program_file(&self, id: &ProcId) -> io::Result<std::fs::File> {
        let process = self.process(id.pid)?.filter(|now| now.id == *id);
        let program = process.and_then(|process| process.exe);
        std::fs::File::open(program.ok_or_else(|| io::Error::other("the process has gone"))?)
    }

    /// Returns the details of this user's processes with this working directory, links resolved.
    #[must_use]
    pub fn standing_in(&self, directory: &Path, until: Instant) -> Table {
        let mut table = self.table(until, |_| true);
        table.processes.retain(|p| p.cwd.as_deref() == Some(directory));
        table
    }

    /// Reads these variables like [`Kernel::environ`]. An environment that is not shown counts as
    /// empty: the process may be in `execve`, or macOS hides it.
    pub fn environ_now(&self, id: &ProcId, names: &[&str]) -> io::Result<Environ> {
        match self.environ(id, names) {
            Ok(values) => Ok(Environ::Values(values)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Environ::Empty),
            Err(error) => Err(error),
        }
    }

    /// Opens a handle of exactly this process, as far as macOS can guarantee that; `None` if it is
    /// gone.
    pub fn hold(&self, id: &ProcId) -> io::Result<Option<Held>> {
        match self.liveness(id) {
            Liveness::Alive { .. } => Ok(Some(Held { kernel: self.clone(), id: id.clone() })),
            Liveness::Gone => Ok(None),
            Liveness::Unknown(why) => Err(io::Error::other(why)),
        }
    }

    /// Sends a signal to exactly this process, as far as macOS can guarantee that.
    ///
    /// Returns `false` if it is gone. The start time is compared right before the signal, but there is
    /// no handle to signal through: if the process exits in the microseconds between the two *and* its
    /// pid is given out again in that time, another process gets the signal. With pids in a ring of
    /// 99,999 that needs as many forks in between.
    pub fn signal(&self, id: &ProcId, signal: Signal) -> io::Result<bool> {
        let Some(raw) = raw_pid(id.pid) else { return Ok(false) };
        match self.process(id.pid)? {
            Some(now) if same_process(&now.id, id) => {}
            _ => return Ok(false),
        }
        match kill_process(raw, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns free heap memory to the system: the allocator does that by itself here.
pub fn give_back_memory(_above: u64) {}

/// Limits the malloc arenas: the allocator does that by itself here.
pub fn keep_memory_together() {}

/// Returns the free ends of heaps to the system: the allocator does that by itself here.
pub fn return_free_ends() {}

/// Drops a value on a thread of its own, so that the caller does not wait for it.
pub fn release_later<T: Send + 'static>(value: T) {
    // If no thread can be started, the value is dropped here.
    let _thread = std::thread::Builder::new().spawn(move || drop(value));
}

/// A handle of a process. There is no kernel handle here: each use verifies the process again.
#[derive(Debug)]
pub struct Held {
    kernel: Kernel,
    id: ProcId,
}

impl Held {
    /// Returns its name.
    #[must_use]
    pub fn id(&self) -> &ProcId {
        &self.id
    }

    /// Sends it a signal; `false` when it is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        self.kernel.signal(&self.id, signal)
    }

    /// Says whether it has exited, reaped or not.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        self.kernel.liveness(&self.id) == Liveness::Gone
    }

    /// Blocks until all of these processes have exited or the timeout has passed; says whether they
    /// have exited.
    pub fn wait_for_all(
        held: &[impl std::borrow::Borrow<Self>],
        timeout: Duration,
    ) -> io::Result<bool> {
        let until = std::time::Instant::now() + timeout;
        let mut watch = ExitWatch::default();
        let mut living = 0;
        for one in held.iter().map(std::borrow::Borrow::borrow) {
            living += usize::from(watch.add(&one.kernel, &one.id)?);
        }
        while living > 0 {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            living = living.saturating_sub(watch.wait(Some(left))?.len());
        }
        Ok(true)
    }
}

/// The newest pid that was given out: this system does not show it.
#[derive(Debug)]
pub struct NewestPid(());

impl NewestPid {
    /// Fails: there is no such counter here.
    pub fn open() -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Reads the counter.
    pub fn read(&self) -> io::Result<u32> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// Waits for the exit of processes that need not be our children. A wake-up is a hint to look again.
#[derive(Debug, Default)]
pub struct ExitWatch {
    queue: Option<OwnedFd>,
    held: Vec<ProcId>,
    /// Processes whose pid was watched again before their exit was reported.
    exited: Vec<ProcId>,
}

impl ExitWatch {
    /// Begins to watch a process; returns `false` if it is gone already.
    pub fn add(&mut self, kernel: &Kernel, id: &ProcId) -> io::Result<bool> {
        let Some(raw) = raw_pid(id.pid) else { return Ok(false) };
        if self.held.contains(id) {
            return Ok(matches!(kernel.liveness(id), Liveness::Alive { .. }));
        }
        if self.queue.is_none() {
            self.queue = Some(kqueue()?);
        }
        let Some(queue) = &self.queue else { return Ok(false) };
        // A queue knows a process by its pid alone: a watch of an earlier owner of the pid would hide
        // this one.
        if let Some(at) = self.held.iter().position(|held| held.pid == id.pid) {
            self.exited.push(self.held.swap_remove(at));
            change(queue, raw, EventFlags::DELETE)?;
        }
        match change(queue, raw, EventFlags::ADD | EventFlags::ONESHOT) {
            Ok(()) => {}
            Err(Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        // Watched first, verified second: so the watched process is the verified one.
        if !matches!(kernel.liveness(id), Liveness::Alive { .. }) {
            change(queue, raw, EventFlags::DELETE)?;
            return Ok(false);
        }
        self.held.push(id.clone());
        Ok(true)
    }

    /// Stops watching all other processes. The queue may still report their exits, which are ignored.
    pub fn keep(&mut self, wanted: &dyn Fn(&ProcId) -> bool) {
        self.held.retain(wanted);
    }

    /// Blocks until at least one watched process has exited or the timeout has passed; stops watching
    /// the returned ones.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<ProcId>> {
        self.wait_beside(&[], timeout)
    }

    /// Does the same, and also returns when one of these descriptors is readable.
    pub fn wait_beside(
        &mut self,
        others: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> io::Result<Vec<ProcId>> {
        let mut gone = std::mem::take(&mut self.exited);
        if self.queue.is_none() {
            self.queue = Some(kqueue()?);
        }
        let Some(queue) = &self.queue else { return Ok(gone) };
        // A closed descriptor leaves the queue by itself; a known descriptor is not added twice.
        for other in others {
            let filter = EventFilter::Read(other.as_raw_fd());
            let change = [Event::new(filter, EventFlags::ADD, std::ptr::null_mut())];
            let mut none: [Event; 0] = [];
            // SAFETY: the descriptor is borrowed for longer than this call.
            unsafe { kevent(queue, &change, &mut none[..], Some(Duration::ZERO)) }?;
        }
        let timeout = if gone.is_empty() { timeout } else { Some(Duration::ZERO) };
        let mut events: Vec<Event> = Vec::with_capacity((self.held.len() + others.len()).max(1));
        // SAFETY: the change list is empty; no file descriptor is named.
        match unsafe { kevent(queue, &[], rustix::buffer::spare_capacity(&mut events), timeout) } {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            if let EventFilter::Proc { pid, .. } = event.filter()
                && let Some(at) = self.held.iter().position(|held| raw_pid(held.pid) == Some(pid))
            {
                gone.push(self.held.swap_remove(at));
            }
        }
        Ok(gone)
    }
}

/// Adds or deletes the watch for one process's exit; a watch that has already fired is deleted too.
fn change(queue: &OwnedFd, pid: Pid, flags: EventFlags) -> rustix::io::Result<()> {
    let filter = EventFilter::Proc { pid, flags: ProcessEvents::EXIT };
    let change = [Event::new(filter, flags, std::ptr::null_mut())];
    let mut none: [Event; 0] = [];
    // SAFETY: the event names a process, no file descriptor.
    match unsafe { kevent(queue, &change, &mut none[..], Some(Duration::ZERO)) } {
        Err(Errno::NOENT) if flags.contains(EventFlags::DELETE) => Ok(()),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes a snapshot of these processes. This very process is always included: without it in the answer
/// the listing failed, and absence from it would prove nothing.
fn snapshot(which: ProcessesToUpdate<'_>, kind: ProcessRefreshKind) -> io::Result<System> {
    let own = sysinfo::Pid::from_u32(std::process::id());
    let asked: Vec<sysinfo::Pid>;
    let which = match which {
        ProcessesToUpdate::Some(pids) => {
            asked = pids.iter().copied().chain([own]).collect();
            ProcessesToUpdate::Some(&asked)
        }
        ProcessesToUpdate::All => ProcessesToUpdate::All,
    };
    // `sysinfo` 0.40 returns nothing when the table grows by twenty while it is being copied.
    for _ in 0..3 {
        let mut system = System::new().map_err(told)?;
        let _count = system.refresh_processes_specifics(which, true, kind);
        if system.process(own).is_some() {
            return Ok(system);
        }
    }
    Err(io::Error::other("it shows not even this process"))
}

fn told(error: sysinfo::Error) -> io::Error {
    io::Error::other(error.to_string())
}

fn closely() -> ProcessRefreshKind {
    ProcessRefreshKind::nothing()
        .with_exe(UpdateKind::Always)
        .with_cmd(UpdateKind::Always)
        .with_cwd(UpdateKind::Always)
        .without_tasks()
}

fn raw_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn same_process(now: &ProcId, then: &ProcId) -> bool {
    (now.pid, now.start_ticks, &now.boot_id) == (then.pid, then.start_ticks, &then.boot_id)
}

fn environ_value(environ: &[std::ffi::OsString], name: &str) -> Option<String> {
    environ.iter().find_map(|entry| {
        let value = entry.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

unsafe extern "C" {
    fn sysctlbyname(
        name: *const c_char,
        old: *mut c_void,
        old_len: *mut usize,
        new: *mut c_void,
        new_len: usize,
    ) -> c_int;
}

/// Returns the kernel's name for this boot.
///
/// The boot *time* is not used where this exists: the kernel shifts it whenever the clock is set, and
/// every process of this boot would then seem to belong to another one.
fn boot_session() -> io::Result<String> {
    let mut text = [0u8; 64];
    let mut len = text.len();
    // SAFETY: the name ends in NUL, `len` is the size of `text`, and nothing is set.
    let answer = unsafe {
        sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            text.as_mut_ptr().cast(),
            &raw mut len,
            std::ptr::null_mut(),
            0,
        )
    };
    let uuid = text.get(..len).unwrap_or_default().split(|b| *b == 0).next().unwrap_or_default();
    if answer == 0 && !uuid.is_empty() {
        return Ok(String::from_utf8_lossy(uuid).into_owned());
    }
    let seconds = System::boot_time().map_err(told)?;
    Ok(format!("boot-{seconds}"))
}

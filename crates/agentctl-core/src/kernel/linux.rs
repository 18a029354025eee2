//! Linux: `/proc` read by hand through held directory descriptors, pidfds for identity, liveness, exit.
//!
//! Order matters everywhere: open the pidfd first, read `/proc`, then poll the pidfd again; a process
//! that exited in between is gone and its data is dropped. `kill(pid, 0)` is never used: it succeeds
//! for a zombie.

mod connecting;
mod cwd;
mod descriptors;
mod exit_watch;
mod fast_exit;
mod held;
mod held_text;
mod memory;
mod mounts;
mod newest_pid;
mod other_users;
mod output;
mod peer;
mod serving;
mod stat;
mod stdin_pipe;
mod table;
mod unix_peers;
mod used_files;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stat::{Stat, effective_uid};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, fstatfs, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub use self::connecting::ClientEnd;
pub use self::exit_watch::ExitWatch;
pub use self::fast_exit::release_later;
pub use self::held::Held;
pub use self::held_text::hold_text;
pub use self::memory::{give_back_memory, keep_memory_together, return_free_ends};
pub use self::mounts::MountViews;
pub use self::newest_pid::NewestPid;
pub use self::stdin_pipe::endless_pipe;
use super::{Brief, FileLock, Liveness, Mechanism, Process, Table, deadline};
use crate::model::{ProcId, Time};

const PIDFS_MAGIC: u64 = 0x5049_4446;
/// The inode of the initial pid namespace, fixed by the kernel's headers.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// Longest `/proc` text that is read of one process, in bytes.
const PROC_TEXT_BYTES: u64 = 1 << 20;
/// Buffer for a `/proc/<pid>/stat` line: about 50 numbers behind a name of at most 64 bytes.
const STAT_BYTES: usize = 1024;
/// The list of all file locks may take this fraction of the remaining time (1/n).
const LOCKS_TIME_FRACTION: u32 = 3;
/// A list of file locks that takes longer to read is read only once.
const LOCKS_REREAD_TIMEOUT: Duration = Duration::from_millis(50);

/// The kernel as this process sees it. Cheap to clone; holds no state about processes.
#[derive(Clone, Debug)]
pub struct Kernel {
    mechanism: Mechanism,
    boot_id: String,
    pid_namespace: u64,
    machine_id: Option<String>,
    uid: u32,
    ticks_per_second: u64,
    booted_ms: i64,
}

impl Kernel {
    /// Reads the facts of this boot and namespace, and which mechanism identifies processes here.
    pub fn open() -> io::Result<Self> {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let own = own_pid();
        let mechanism = match pidfd_open(own, PidfdFlags::empty()) {
            Ok(fd) if is_pidfs(&fd) => Mechanism::Pidfs,
            _ => Mechanism::StartTime,
        };
        Ok(Self {
            mechanism,
            boot_id,
            pid_namespace: statat(rustix::fs::CWD, "/proc/self/ns/pid", AtFlags::empty())?.st_ino,
            machine_id: fs::read_to_string("/etc/machine-id").ok().map(|s| s.trim().to_owned()),
            uid: rustix::process::geteuid().as_raw(),
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            booted_ms: booted_ms(),
        })
    }

    /// Returns the same kernel as a machine without pidfs would show it.
    #[must_use]
    pub fn without_pidfs(mut self) -> Self {
        self.mechanism = Mechanism::StartTime;
        self
    }

    /// Returns how processes are identified here.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Returns the id of this boot.
    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Returns the inode of the observer's pid namespace.
    #[must_use]
    pub fn pid_namespace(&self) -> u64 {
        self.pid_namespace
    }

    /// Says whether every process of the machine has a pid in the observer's namespace.
    #[must_use]
    pub fn sees_whole_machine(&self) -> bool {
        self.pid_namespace == INITIAL_PID_NAMESPACE
    }

    /// Returns the machine's id, where it has one.
    #[must_use]
    pub fn machine_id(&self) -> Option<&str> {
        self.machine_id.as_deref()
    }

    /// Returns the user whose processes and files are looked at.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the process that has this pid now, with details; `None` if there is none.
    pub fn process(&self, pid: u32) -> io::Result<Option<Process>> {
        let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let handle = match open_handle(raw) {
            Ok(Some(fd)) => Some(fd),
            Ok(None) => return Ok(None),
            Err(Errno::NOSYS | Errno::PERM) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(directory) = gone_is_none(open_process_directory(pid))? else { return Ok(None) };
        let Some(stat) = gone_is_none(read_at(directory.as_fd(), "stat"))? else { return Ok(None) };
        let Some(stat) = Stat::parse(&stat) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc stat line"));
        };
        // The first thread may be a zombie while others run: only the pidfd stands for all of them.
        if handle.is_none() && stat.has_exited() {
            return Ok(None);
        }
        let details = self.details(pid, &directory, stat, handle.as_ref());
        match handle {
            Some(fd) if has_exited(&fd)? => Ok(None),
            _ => Ok(Some(details)),
        }
    }

    fn details(&self, pid: u32, dir: &OwnedFd, stat: Stat, handle: Option<&OwnedFd>) -> Process {
        // Empty while the process is in `execve`, and if it has unmapped its arguments. This function
        // does not wait; `Kernel::table` does.
        let argv = read_beginning_at(dir.as_fd(), "cmdline").unwrap_or_default();
        let namespace = statat(dir, "ns/pid", AtFlags::empty()).ok().map(|s| s.st_ino);
        Process {
            id: ProcId {
                pid,
                start_ticks: stat.start_ticks,
                inode: handle.and_then(|fd| self.inode_of(fd)),
                boot_id: self.boot_id.clone(),
            },
            parent_pid: stat.parent_pid,
            session: stat.session,
            paused: stat.is_paused(),
            comm: stat.comm,
            argv: argv
                .strip_suffix(b"\0")
                .unwrap_or(&argv)
                .split(|b| *b == 0)
                .map(|arg| String::from_utf8_lossy(arg).into_owned())
                .collect(),
            exe: link_at(dir, "exe"),
            cwd: link_at(dir, "cwd"),
            started_at: self.started_at(stat.start_ticks),
            elsewhere: namespace.is_some_and(|ns| ns != self.pid_namespace),
            uid: read_at(dir.as_fd(), "status").ok().and_then(|status| effective_uid(&status)),
        }
    }

    fn inode_of(&self, fd: &OwnedFd) -> Option<u64> {
        (self.mechanism == Mechanism::Pidfs && is_pidfs(fd))
            .then(|| fstat(fd).ok())
            .flatten()
            .map(|s| s.st_ino)
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

    /// Says whether this process is stopped by a signal, from one read of its stat line. Only a reason to look again:
    /// the pid and the start time are compared, not the inode.
    #[must_use]
    pub fn seems_paused(&self, id: &ProcId) -> bool {
        // Lists ask this every two seconds for the processes of their sessions, so the line is read with one call.
        let mut line = [0; STAT_BYTES];
        let read =
            fs::File::open(format!("/proc/{}/stat", id.pid)).and_then(|mut f| f.read(&mut line));
        let stat = read.ok().and_then(|length| Stat::parse(line.get(..length)?));
        stat.is_some_and(|stat| stat.is_paused() && stat.start_ticks == id.start_ticks)
    }

    /// Returns the details of the process with this pid if `wanted` accepts it; `None` if it does not,
    /// or if there is no such process.
    pub fn candidate(
        &self,
        pid: u32,
        wanted: &dyn Fn(Brief<'_>) -> bool,
    ) -> io::Result<Option<Process>> {
        let Some(directory) = gone_is_none(open_process_directory(pid))? else { return Ok(None) };
        let Some(comm) = gone_is_none(read_at(directory.as_fd(), "comm"))? else { return Ok(None) };
        let comm = String::from_utf8_lossy(comm.strip_suffix(b"\n").unwrap_or(&comm)).into_owned();
        let exe = link_at(&directory, "exe");
        let exe_name = exe.as_deref().and_then(Path::file_name).map(OsStr::to_string_lossy);
        if !wanted(Brief { comm: &comm, exe_name: exe_name.as_deref().unwrap_or_default() }) {
            return Ok(None);
        }
        drop(directory);
        self.process(pid)
    }

    /// Lists the processes of this user by their pids, in ascending order.
    pub fn own_pids(&self) -> io::Result<Vec<u32>> {
        let pids = pids_of(&|owner| owner == self.uid)?;
        if pids.is_empty() {
            return Err(io::Error::other("it shows not even this process"));
        }
        Ok(pids)
    }

    /// Says whether a process sees the same mounts as the observer: only then a path names the same
    /// file for both.
    pub fn shares_mounts(&self, id: &ProcId) -> io::Result<bool> {
        let namespace = |path: String| statat(rustix::fs::CWD, path, AtFlags::empty());
        let theirs = namespace(format!("/proc/{}/ns/mnt", id.pid))?;
        let ours = namespace("/proc/self/ns/mnt".to_owned())?;
        Ok(theirs.st_ino == ours.st_ino)
    }

    /// Says whether any process of this user lives in that pid namespace.
    pub fn namespace_is_inhabited(&self, namespace: u64) -> io::Result<bool> {
        for pid in self.own_pids()? {
            let link = format!("/proc/{pid}/ns/pid");
            match statat(rustix::fs::CWD, link, AtFlags::empty()) {
                Ok(stat) if stat.st_ino == namespace => return Ok(true),
                Ok(_) | Err(Errno::NOENT | Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Lists the file locks the kernel shows in this pid namespace.
    ///
    /// The kernel returns the list page by page and by position, so a lock that is released between two
    /// pages hides another one that is held. A listed lock was held; an unlisted lock may be held too,
    /// so absence proves nothing (1 in 50 looks beside a busy database writer). The union of three
    /// readings makes this rare.
    ///
    /// The locks of all users are listed, and for every page the kernel counts from the first lock:
    /// tens of thousands take seconds. A list that takes long is read once; a list that exceeds its
    /// share of the thread's remaining time is an error.
    pub fn file_locks(&self, wanted: &dyn Fn(u64) -> bool) -> io::Result<Vec<FileLock>> {
        let mut all: HashSet<FileLock> = HashSet::new();
        let (began, left) = (Instant::now(), deadline::left());
        let until = left.map(|left| began + left / LOCKS_TIME_FRACTION);
        for _ in 0..3 {
            each_line_until(fs::File::open("/proc/locks")?, until, |line| {
                all.extend(parse_lock(line).filter(|lock| wanted(lock.inode)));
            })?;
            if began.elapsed() > LOCKS_REREAD_TIMEOUT {
                break;
            }
        }
        Ok(all.into_iter().collect())
    }

    fn started_at(&self, start_ticks: u64) -> Option<Time> {
        let start_ms = i64::try_from(start_ticks * 1000 / self.ticks_per_second.max(1)).ok()?;
        Time::from_millis(self.booted_ms + start_ms)
    }
}

/// Returns the time of boot by the current clock, rounded to the grain of start times, so that every look
/// calculates the same. The shortest reading counts: an interruption between the two clocks would shift it.
fn booted_ms() -> i64 {
    use rustix::time::{ClockId, clock_gettime};
    let nanos = |t: Timespec| i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec);
    let reading = || {
        let before = nanos(clock_gettime(ClockId::Boottime));
        let wall = nanos(clock_gettime(ClockId::Realtime));
        let after = nanos(clock_gettime(ClockId::Boottime));
        (after - before, wall - i128::midpoint(before, after))
    };
    let (_, booted) = (0..8).map(|_| reading()).min().unwrap_or_default();
    i64::try_from((booted + 5_000_000).div_euclid(10_000_000) * 10).unwrap_or_default()
}

/// Lists the processes with a wanted owner, in pid order.
fn pids_of(wanted: &dyn Fn(u32) -> bool) -> io::Result<Vec<u32>> {
    let proc =
        openat(rustix::fs::CWD, "/proc", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut pids = Vec::new();
    for entry in rustix::fs::Dir::read_from(&proc)? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().ok().and_then(|n| n.parse().ok()) else {
            continue;
        };
        // A process whose directory cannot be read has exited since.
        if statat(&proc, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| wanted(stat.st_uid))
        {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    Ok(pids)
}

fn own_pid() -> Pid {
    rustix::process::getpid()
}

fn is_pidfs(fd: &OwnedFd) -> bool {
    fstatfs(fd).is_ok_and(|s| u64::try_from(s.f_type).is_ok_and(|t| t == PIDFS_MAGIC))
}

/// Opens a handle on the process with this pid; `None` when there is none, or only a thread (`ENOENT`
/// since 6.16, `EINVAL` before).
fn open_handle(pid: Pid) -> rustix::io::Result<Option<OwnedFd>> {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Compares two identities: by inode if both have one, else by start time.
fn same_process(now: &ProcId, then: &ProcId) -> bool {
    now.pid == then.pid
        && now.start_ticks == then.start_ticks
        && now.boot_id == then.boot_id
        && match (now.inode, then.inode) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
}

/// Says whether a process has exited: its pidfd is readable from then on, reaped or not.
fn has_exited(fd: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut fds, Some(&Timespec::default())))? > 0)
}

fn open_process_directory(pid: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(rustix::fs::CWD, format!("/proc/{pid}"), flags, Mode::empty())?)
}

fn open_at(directory: BorrowedFd<'_>, name: &str) -> io::Result<fs::File> {
    Ok(openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Reads a text of one process completely. A text longer than [`PROC_TEXT_BYTES`] is an error: a
/// process must not be able to hide the end by appending to it.
fn read_at(directory: BorrowedFd<'_>, name: &str) -> io::Result<Vec<u8>> {
    let bytes = read_beginning_at(directory, name)?;
    if bytes.len() as u64 > PROC_TEXT_BYTES {
        let why = format!("its {name} is longer than {PROC_TEXT_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Reads the beginning of a text of one process.
fn read_beginning_at(directory: BorrowedFd<'_>, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_at(directory, name)?.take(PROC_TEXT_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a table of the kernel line by line, without a limit on its length. It is an error if the
/// deadline of this thread passes before its end.
fn each_line(table: fs::File, line: impl FnMut(&str)) -> io::Result<()> {
    each_line_until(table, deadline::left().map(|left| Instant::now() + left), line)
}

fn each_line_until(
    table: fs::File,
    until: Option<Instant>,
    mut line: impl FnMut(&str),
) -> io::Result<()> {
    let mut table = BufReader::with_capacity(64 << 10, table);
    let mut bytes = Vec::new();
    for count in 0_u32.. {
        if count % 64 == 63 && until.is_some_and(|until| Instant::now() >= until) {
            let late = "there was no time left to read the kernel's table";
            return Err(io::Error::new(io::ErrorKind::TimedOut, late));
        }
        bytes.clear();
        if table.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        line(&String::from_utf8_lossy(&bytes));
    }
    Ok(())
}

/// Says whether a process is in `execve`: it has its new program file, and its arguments and environment are
/// not complete.
fn is_in_execve(pid: u32) -> bool {
    let stat = open_process_directory(pid).and_then(|dir| read_at(dir.as_fd(), "stat"));
    stat.is_ok_and(|stat| is_stat_of_execve(&stat))
}

/// Says whether this stat line shows a process in `execve`.
///
/// `execve` sets the begin of the arguments before it loads the program and its interpreter, which may take
/// long; then it sets the end of the arguments to their begin, later to their end, and does the same with the
/// environment. It sets the address of the code after all of them. Observers that may not see addresses
/// read 1 there.
fn is_stat_of_execve(stat: &[u8]) -> bool {
    address(stat, Address::Code) == Some(0)
}

/// An address in a stat line, with the number of its field.
#[derive(Clone, Copy)]
enum Address {
    /// `startcode`
    Code = 26,
    /// `arg_end`
    ArgumentsEnd = 49,
    /// `env_start`
    Environment = 50,
    /// `env_end`
    EnvironmentEnd = 51,
}

/// Returns that address; 0 means not set yet, or not shown.
fn address(stat: &[u8], address: Address) -> Option<u64> {
    let name = memchr::memrchr(b')', stat)?;
    let rest = std::str::from_utf8(stat.get(name..)?).ok()?;
    // The name is the second field.
    rest.split_ascii_whitespace().nth(address as usize - 2)?.parse().ok()
}

fn link_at(directory: &OwnedFd, name: &str) -> Option<PathBuf> {
    read_link_at(directory, name).ok()
}

fn read_link_at(directory: &OwnedFd, name: &str) -> io::Result<PathBuf> {
    let target = readlinkat(directory, name, Vec::new())?;
    let bytes = target.as_bytes();
    // The kernel marks a replaced program file; the name before the mark is still correct.
    let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Turns the error of a process that vanished meanwhile into `None`.
fn gone_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads lines like `5: FLOCK  ADVISORY  WRITE 2725 fe:00:5751231 0 EOF`; waiters (`->`) hold nothing.
fn parse_lock(line: &str) -> Option<FileLock> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let kind = fields.next().filter(|k| *k != "->")?.to_owned();
    let exclusive = fields.nth(1)? == "WRITE";
    let pid = fields.next()?.parse::<i64>().ok()?;
    let inode = fields.next()?.rsplit(':').next()?.parse().ok()?;
    let pid = u32::try_from(pid).ok().filter(|p| *p != 0);
    Some(FileLock { pid, inode, kind, exclusive })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stat_line_survives_any_bytes_in_the_name(name in proptest::collection::vec(1u8..=255, 0..16)) {
            let mut line = b"42 (".to_vec();
            line.extend(&name);
            line.extend(b") T 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 178140 9 9\n");
            let stat = Stat::parse(&line).expect("parses");
            prop_assert_eq!((stat.state, stat.parent_pid, stat.start_ticks), (b'T', 7, 178_140));
        }

        #[test]
        fn rubbish_never_panics(line in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,200}") {
            let _stat = Stat::parse(&line);
            let _lock = parse_lock(&text);
        }
    }

    #[test]
    fn waiters_and_anonymous_holders_are_no_owners() {
        let text = "5: FLOCK  ADVISORY  WRITE 2725 fe:00:5751231 0 EOF\n\
                    5: -> FLOCK  ADVISORY  WRITE 99 fe:00:5751231 0 EOF\n\
                    6: OFDLCK ADVISORY  READ -1 00:1d:17 0 EOF\n";
        let locks: Vec<FileLock> = text.lines().filter_map(parse_lock).collect();
        assert_eq!(locks.len(), 2);
        assert_eq!((locks[0].pid, locks[0].inode), (Some(2725), 5_751_231));
        assert_eq!((locks[1].pid, locks[1].inode), (None, 17));
    }

    #[test]
    fn this_process_lives_and_is_not_its_own_namesake() {
        let kernel = Kernel::open().expect("a kernel");
        let me = kernel.process(std::process::id()).expect("readable").expect("alive");
        assert_eq!(kernel.liveness(&me.id), Liveness::Alive { paused: false });
        let mut other = me.id.clone();
        other.start_ticks += 1;
        assert_eq!(kernel.liveness(&other), Liveness::Gone);
        if kernel.mechanism() == Mechanism::Pidfs {
            let mut other = me.id;
            other.inode = other.inode.map(|i| i + 1);
            assert_eq!(kernel.liveness(&other), Liveness::Gone);
        }
    }
}

//! Reads many processes within a deadline, even if single processes block the reading.
//!
//! Arguments and environment are read from the memory of the process itself, and the kernel waits for
//! that memory: if a process has mapped a file there from a file system that never answers, the read
//! never returns. So processes are read on a thread that can be abandoned. The processes whose reading
//! hangs are reported as gaps and are not read again while a thread still hangs in them; all others are
//! read. A thread that is runnable does not hang: on a busy machine it only waits for a processor.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Brief, Kernel, Process, Table, gone_is_none, open_process_directory, read_at};

/// Longest wait for all processes of one table that are in `execve`, together.
const EXECVE_WAIT: Duration = Duration::from_millis(100);
/// A read hangs if it takes this fraction of the remaining time (1/n), so that time is left for the
/// other processes.
const HANG_FRACTION: u32 = 8;
/// Shortest duration after which a read counts as hanging: on a busy machine the reading thread may not
/// be scheduled.
const MIN_HANG_TIME: Duration = Duration::from_millis(100);
/// Most hanging threads; beyond that the rest of the table is not read.
const MAX_HANGING: usize = 64;

/// The processes in which a thread of ours hangs.
static HANGING: Mutex<Option<HashSet<u32>>> = Mutex::new(None);

fn hanging<T>(with: impl FnOnce(&mut HashSet<u32>) -> T) -> T {
    let mut hanging = HANGING.lock().unwrap_or_else(PoisonError::into_inner);
    with(hanging.get_or_insert_default())
}

/// The state that a reading thread shares with the waiting one.
struct Reading<F> {
    kernel: Kernel,
    pids: Vec<u32>,
    one: F,
    found: Mutex<Answers>,
    changed: Condvar,
}

#[derive(Default)]
struct Answers {
    processes: Vec<Process>,
    gaps: Vec<String>,
    /// A process could not be read in time.
    late: bool,
    done: bool,
    /// The index of the process that is being read.
    at: usize,
    /// The number of the current reading thread; the others were abandoned.
    thread: usize,
    /// The `stat` file of the current reading thread; `None` until the thread has begun.
    thread_stat: Option<io::Result<File>>,
}

impl Answers {
    /// Says whether the reading thread blocks in the kernel. Without the kernel's word it counts as blocked.
    fn is_blocked(&self) -> bool {
        let Some(opened) = &self.thread_stat else { return false };
        let Ok(file) = opened else { return true };
        let mut stat = [0; 64];
        let Ok(length) = file.read_at(&mut stat, 0) else { return true };
        let text = stat[..length].rsplit(|byte| *byte == b')').next().unwrap_or_default();
        text.trim_ascii_start().first() != Some(&b'R')
    }
}

impl<F: Fn(&Kernel, u32) -> io::Result<Option<Process>> + Send + Sync + 'static> Reading<F> {
    fn found(&self) -> MutexGuard<'_, Answers> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the processes from this index on, until this thread is abandoned.
    fn read_from(&self, first: usize, thread: usize) {
        let stat = File::open("/proc/thread-self/stat");
        {
            let mut found = self.found();
            if found.thread != thread {
                return;
            }
            found.thread_stat = Some(stat);
        }
        for (place, pid) in self.pids.iter().enumerate().skip(first) {
            {
                let mut found = self.found();
                if found.thread != thread {
                    return;
                }
                found.at = place;
            }
            let known = hanging(|pids| pids.contains(pid));
            let read = if known { Ok(None) } else { (self.one)(&self.kernel, *pid) };
            let mut found = self.found();
            if found.thread != thread {
                hanging(|pids| pids.remove(pid));
                return;
            }
            match read {
                _ if known => {
                    found.late = true;
                    found.gaps.push(format!("reading process {pid} hangs"));
                }
                Ok(Some(process)) => found.processes.push(process),
                Ok(None) => {}
                Err(error) => found.gaps.push(format!("process {pid} could not be read: {error}")),
            }
        }
        self.found().done = true;
        self.changed.notify_all();
    }

    fn begin(self: &Arc<Self>, first: usize, thread: usize) -> io::Result<()> {
        let reading = Arc::clone(self);
        let builder = std::thread::Builder::new().name("process table".into());
        builder.spawn(move || reading.read_from(first, thread)).map(|_| ())
    }

    /// Waits until all are read; continues behind a process whose reading hangs, on a new thread.
    fn watch(self: &Arc<Self>, until: Instant) -> io::Result<()> {
        let patience_of = |left: Duration| (left / HANG_FRACTION).max(MIN_HANG_TIME);
        let mut patience = patience_of(until.saturating_duration_since(Instant::now()));
        self.begin(0, 0)?;
        let (mut last, mut since) = (0, Instant::now());
        let mut found = self.found();
        while !found.done {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            if found.at != last {
                (last, since) = (found.at, now);
            }
            let alike = now.duration_since(since);
            if !left.is_zero() && alike < patience {
                let waited =
                    self.changed.wait_timeout(found, left.min(patience.saturating_sub(alike)));
                found = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            if !left.is_zero() && !found.is_blocked() {
                since = now;
                continue;
            }
            let (at, pid) = (found.at, self.pids[found.at]);
            found.thread += 1;
            found.late = true;
            let mut many = false;
            if alike >= patience {
                found.gaps.push(format!("reading process {pid} hangs"));
                many = hanging(|pids| pids.insert(pid) && pids.len() >= MAX_HANGING);
            }
            if left.is_zero() || many {
                let rest = self.pids.len() - at;
                found.gaps.push(format!("{rest} processes could not be read in time"));
                return Ok(());
            }
            if at + 1 == self.pids.len() {
                return Ok(());
            }
            (last, since) = (at + 1, now);
            patience = patience_of(left);
            found.at = last;
            found.thread_stat = None;
            let thread = found.thread;
            drop(found);
            self.begin(last, thread)?;
            found = self.found();
        }
        Ok(())
    }
}

impl Kernel {
    /// Reads the process table in two stages: owner first, details only for processes that `wanted`
    /// accepts. It returns by the deadline; processes that could not be read by then are gaps.
    pub fn table(
        &self,
        until: Instant,
        wanted: impl Fn(Brief<'_>) -> bool + Send + Sync + 'static,
    ) -> Table {
        match self.own_pids() {
            Ok(pids) => self.read_within(until, pids, move |kernel, pid| {
                readable(pid, kernel.candidate(pid, &wanted)?)
            }),
            Err(error) => unlisted(&error),
        }
    }

    /// Reads these processes, each with `one`, on a thread that is abandoned if it hangs.
    pub(super) fn read_within(
        &self,
        until: Instant,
        pids: Vec<u32>,
        one: impl Fn(&Self, u32) -> io::Result<Option<Process>> + Send + Sync + 'static,
    ) -> Table {
        let mut table = Table { seen: pids.len(), ..Table::default() };
        if pids.is_empty() {
            return table;
        }
        let (kernel, found, changed) = (self.clone(), Mutex::default(), Condvar::new());
        let reading = Arc::new(Reading { kernel, pids, one, found, changed });
        if let Err(error) = reading.watch(until) {
            table.gaps.push(format!("no thread could be started to read processes: {error}"));
            table.late = true;
        }
        let mut found = reading.found();
        table.processes = std::mem::take(&mut found.processes);
        table.gaps.append(&mut found.gaps);
        table.late |= found.late;
        drop(found);
        self.wait_for_arguments(until, &mut table);
        table
    }

    /// Reads the processes that are in `execve` again, until they have arguments or the timeout has
    /// passed.
    fn wait_for_arguments(&self, until: Instant, table: &mut Table) {
        let until = until.min(Instant::now() + EXECVE_WAIT);
        let mut forming: Vec<usize> = Vec::new();
        forming
            .extend((0..table.processes.len()).filter(|at| lacks_arguments(&table.processes[*at])));
        while !forming.is_empty() && Instant::now() < until {
            forming.retain(|at| {
                let process = &mut table.processes[*at];
                // Asked before the arguments are read: `execve` may end in between.
                let is_in_execve = super::is_in_execve(process.id.pid);
                match self.process(process.id.pid) {
                    Ok(Some(now)) if now.id == process.id => {
                        *process = now;
                        is_in_execve && lacks_arguments(process)
                    }
                    _ => false,
                }
            });
            if !forming.is_empty() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

/// Makes the table of a `/proc` that cannot be listed.
pub(super) fn unlisted(error: &io::Error) -> Table {
    let gaps = vec![format!("/proc could not be listed: {error}")];
    Table { gaps, late: true, ..Table::default() }
}

/// Says whether a process has a program and no arguments: it is in `execve`, or was when it was read, or has hidden
/// them.
fn lacks_arguments(process: &Process) -> bool {
    process.exe.is_some() && process.argv.iter().all(String::is_empty)
}

/// Also reads the environment once: a later reader has no thread that can be abandoned.
fn readable(pid: u32, process: Option<Process>) -> io::Result<Option<Process>> {
    if process.is_some()
        && let Some(directory) = gone_is_none(open_process_directory(pid))?
    {
        let _closed_or_gone = read_at(directory.as_fd(), "environ");
    }
    Ok(process)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// S5: a process whose reading hangs costs only itself, within the deadline, and is not read again
    /// while the abandoned thread hangs in it.
    #[test]
    fn a_process_whose_reading_hangs_hides_no_other() {
        static OPEN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
        static ENTERED: AtomicUsize = AtomicUsize::new(0);
        const HANGS: u32 = u32::MAX;
        let kernel = Kernel::open().expect("a kernel");
        let me = std::process::id();
        let look = |limit: Duration| {
            kernel.read_within(Instant::now() + limit, vec![HANGS, me], |kernel, pid| {
                if pid == HANGS {
                    ENTERED.fetch_add(1, Ordering::SeqCst);
                    let mut open = OPEN.0.lock().expect("not poisoned");
                    while !*open {
                        open = OPEN.1.wait(open).expect("not poisoned");
                    }
                }
                kernel.process(pid)
            })
        };
        for _ in 0..3 {
            let table = look(Duration::from_secs(8));
            assert_eq!(table.processes.len(), 1, "{:?}", table.gaps);
            assert_eq!(table.processes[0].id.pid, me);
            assert_eq!(table.gaps, [format!("reading process {HANGS} hangs")]);
        }
        assert_eq!(ENTERED.load(Ordering::SeqCst), 1, "it was read again");
        *OPEN.0.lock().expect("not poisoned") = true;
        OPEN.1.notify_all();
        while hanging(|pids| pids.contains(&HANGS)) {
            std::thread::yield_now();
        }
        assert!(look(Duration::from_mins(5)).gaps.is_empty(), "it is read again once it can be");
    }

    /// On a busy machine a thread may be runnable and not be scheduled; that is no reading that hangs.
    #[test]
    fn a_reading_thread_that_is_runnable_does_not_hang() {
        let kernel = Kernel::open().expect("a kernel");
        let me = std::process::id();
        let limit = Duration::from_secs(8);
        let table = kernel.read_within(Instant::now() + limit, vec![me], move |kernel, pid| {
            let until = Instant::now() + limit * 3 / 2 / HANG_FRACTION;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            kernel.process(pid)
        });
        assert_eq!((table.gaps, table.processes.len()), (Vec::new(), 1));
    }

    /// S5: time is left for the other processes, no matter how many hang.
    #[test]
    fn ten_processes_that_hang_leave_time_for_the_others() {
        const HANGING: u32 = 10;
        let kernel = Kernel::open().expect("a kernel");
        let me = std::process::id();
        let first = u32::MAX - 100;
        let pids: Vec<u32> = (first..first + HANGING).chain([me]).collect();
        let limit = Instant::now() + Duration::from_secs(8);
        let table = kernel.read_within(limit, pids, move |kernel, pid| {
            if pid >= first {
                loop {
                    std::thread::park();
                }
            }
            kernel.process(pid)
        });
        assert_eq!(table.processes.len(), 1, "{:?}", table.gaps);
        assert_eq!(table.gaps.len(), HANGING as usize, "{:?}", table.gaps);
        assert!(table.late);
    }

    /// S5: the table ends at its deadline, also where every single process is slow.
    #[test]
    fn the_table_ends_at_its_deadline() {
        let kernel = Kernel::open().expect("a kernel");
        let pids: Vec<u32> = vec![std::process::id(); 1_000_000];
        let table =
            kernel.read_within(Instant::now() + Duration::from_millis(50), pids, |k, pid| {
                std::thread::park_timeout(Duration::from_millis(1));
                k.process(pid)
            });
        assert!(table.gaps.iter().any(|gap| gap.contains("in time")), "{:?}", table.gaps);
    }
}

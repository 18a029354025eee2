//! Starts programs: detached in a kernel session of their own, or attended until they exit; and
//! replaces this process by another program.

use std::ffi::{OsStr, OsString, c_int};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid};

use super::cancellation::Cancellation;
use super::parent_death::{ParentDeath, die_with};
use crate::model::Exit;

/// Time for the last output of a program that has ended, if something else may hold its pipe open.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);

/// The variables of git that name a repository, its index or its objects: `git rev-parse --local-env-vars` of all
/// versions that can be used, and the quarantine of a push. git sets them for aliases and hooks. In another directory
/// they would lead every `git` of a started program to that repository, so no program that is started here inherits
/// them. `GIT_CONFIG_COUNT` is not among them: only a person sets it.
pub const REPOSITORY_VARIABLES: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// The destination of one of the three standard streams.
#[derive(Debug)]
pub enum Stdio {
    /// `/dev/null`.
    Null,
    /// A regular file.
    File(File),
}

/// A program to start. It inherits the environment of this process without [`REPOSITORY_VARIABLES`], with these changes.
#[derive(Debug)]
pub struct Spawn {
    /// The program file.
    pub program: PathBuf,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Variables set for it.
    pub set: Vec<(OsString, OsString)>,
    /// Variables taken from it.
    pub unset: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Standard input.
    pub stdin: Stdio,
    /// Standard output.
    pub stdout: Stdio,
    /// Standard error.
    pub stderr: Stdio,
    /// Further descriptors that the program inherits, under their present numbers. It inherits no
    /// others.
    pub keep: Vec<OwnedFd>,
}

/// The end of an attended program.
#[derive(Debug)]
pub struct Attended {
    /// Code or signal; `None` if it was killed after the timeout.
    pub exit: Option<Exit>,
    /// Its output on both streams, up to the limit.
    pub said: Vec<u8>,
}

impl Spawn {
    /// Starts the program in a new session, detached from the caller's terminal.
    pub fn detached(self) -> io::Result<Child> {
        let mut command = command(&self.program, &self.args, &self.set, &self.unset);
        command.current_dir(&self.cwd);
        command.stdin(stream(self.stdin)).stdout(stream(self.stdout)).stderr(stream(self.stderr));
        let keep = self.keep;
        close_the_rest_on_exec();
        // SAFETY: all calls are async-signal-safe and touch no memory of the parent.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                // A script's `&` makes a process ignore these signals; a detached program must react to
                // them again.
                for number in [Signal::INT, Signal::QUIT] {
                    signal(number.as_raw(), SIG_DFL);
                }
                for fd in &keep {
                    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
                }
                Ok(())
            });
        }
        command.spawn()
    }

    /// Runs the program until it exits, in a process group of its own, and keeps at most `most` bytes
    /// of its output. After the timeout the group is killed. `stdout` and `stderr` are ignored.
    pub fn attended(self, limit: Duration, most: u64) -> io::Result<Attended> {
        self.attended_in_order(limit, most, (&Cancellation::default(), ParentDeath::Outlive))
    }

    /// Does the same for an order that can be called off: the group is ended then. Also says what becomes of the program
    /// if this process is killed.
    pub fn attended_in_order(
        self,
        limit: Duration,
        most: u64,
        (cancellation, parent_death): (&Cancellation, ParentDeath),
    ) -> io::Result<Attended> {
        let (mut said, output) = io::pipe()?;
        let mut command = command(&self.program, &self.args, &self.set, &self.unset);
        command.current_dir(&self.cwd).process_group(0).stdin(stream(self.stdin));
        command.stdout(output.try_clone()?).stderr(output);
        if let Some(parent) = parent_death.parent() {
            // SAFETY: the calls are async-signal-safe and touch no memory of the parent. This thread waits for the end.
            unsafe { command.pre_exec(move || die_with(parent)) };
        }
        let (mut child, watched) = cancellation.start(parent_death, || command.spawn())?;
        // The command holds the write end of the pipe; without it the pipe ends with the program.
        drop(command);
        let group = watched.group();
        let (sender, whole) = channel();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let reader = Arc::clone(&kept);
        std::thread::spawn(move || {
            let mut limited = said.by_ref().take(most);
            let mut part = [0; 8192];
            // Output before a broken pipe counts; the rest is drained, because a full pipe would block
            // the program.
            while let Ok(count @ 1..) = limited.read(&mut part) {
                reader.lock().unwrap_or_else(PoisonError::into_inner).extend(&part[..count]);
            }
            let _unheard = sender.send(());
            let _drained = io::copy(&mut said, &mut io::sink());
        });
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            // Waits without reaping: until it is reaped, no other process can get its pid.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ended = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(group), options));
            let _unheard = sender.send(());
        });
        let in_time = ended.recv_timeout(limit).is_ok();
        drop(watched);
        let exit = if in_time {
            // An error here must not be reported as "not started": the program has run.
            child.wait().ok().map(exit_of)
        } else {
            // Reaped only after the kill, so the group id is still its own.
            let _gone = kill_process_group(group, Signal::KILL);
            std::thread::spawn(move || {
                let _ended = ended.recv();
                let _reaped = child.wait();
            });
            None
        };
        // A process that it left behind may hold the pipe open: the output so far is used then.
        let _open = whole.recv_timeout(OUTPUT_TIMEOUT);
        let said = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Attended { exit, said })
    }
}

/// Starts a program on the terminal of this process, to show what is written to its standard input. The program
/// is run directly, without a shell. It must be a whole path: the system's own search of the PATH also takes programs
/// of the current directory.
pub fn start_reader(
    program: &Path,
    args: &[OsString],
    set: &[(OsString, OsString)],
) -> io::Result<Child> {
    let mut command = command(program, args, set, &[]);
    command.stdin(std::process::Stdio::piped()).spawn()
}

/// The default action of a signal.
const SIG_DFL: usize = 0;
/// The action that ignores a signal.
const SIG_IGN: usize = 1;

unsafe extern "C" {
    fn signal(number: c_int, handler: usize) -> usize;
}

/// Says whether this process ignores a signal, as after `nohup` and in a script's `command &`. To be asked before a
/// handler is installed.
#[must_use]
pub fn is_ignored(number: c_int) -> bool {
    // SAFETY: no handler is involved, only the two fixed actions. The system tells the action only by replacing it.
    unsafe {
        let before = signal(number, SIG_IGN);
        if before != SIG_IGN {
            signal(number, before);
        }
        before == SIG_IGN
    }
}

/// Marks every descriptor but the standard three as close-on-exec. Descriptors that we inherited (a
/// pipe, a lock) would otherwise stay open as long as the started program runs.
fn close_the_rest_on_exec() {
    let entries = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<RawFd>().ok());
    for number in numbers.filter(|n| *n > 2) {
        // SAFETY: the number is only passed to the kernel; a closed one is an error there.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let _closed = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC);
    }
}

/// Replaces this process by another program, with one more variable set and all others as they are. Returns only if
/// that fails.
#[must_use]
#[allow(clippy::disallowed_methods)] // this room starts programs
pub fn become_program(program: &OsStr, args: &[OsString], name: &str, value: &str) -> io::Error {
    Command::new(program).args(args).env(name, value).exec()
}

/// Replaces this process by another program, in this directory, without [`REPOSITORY_VARIABLES`] and with these changes
/// of the environment. It keeps the three standard streams and no other descriptor. Returns only if that fails.
#[must_use]
pub fn become_command(
    program: &Path,
    args: &[OsString],
    changes: &EnvChanges,
    cwd: &Path,
) -> io::Error {
    let mut command = command(program, args, &changes.set, &changes.unset);
    close_the_rest_on_exec();
    command.current_dir(cwd).exec()
}

/// Changes of the environment of a started program.
#[derive(Clone, Debug, Default)]
pub struct EnvChanges {
    /// Variables set.
    pub set: Vec<(OsString, OsString)>,
    /// Variables removed.
    pub unset: Vec<String>,
}

/// Makes this process the subreaper of its descendants, where the system supports that.
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Takes over a descriptor that this process inherited, and marks it as close-on-exec.
///
/// Fails for a number that is not an open descriptor. Must be called once per number, at the start.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: nothing in this process has used the number yet; it was handed over by the parent.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    match rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC) {
        Ok(()) => Ok(fd),
        Err(error) => {
            std::mem::forget(fd);
            Err(error.into())
        }
    }
}

/// Waits for any child to exit, adopted ones included. `None` if there is none left.
pub fn reap() -> io::Result<Option<(u32, Exit)>> {
    match rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::empty())) {
        Ok(Some((pid, status))) => {
            let exit = Exit { code: status.exit_status(), signal: status.terminating_signal() };
            Ok(u32::try_from(pid.as_raw_nonzero().get()).ok().map(|pid| (pid, exit)))
        }
        Ok(None) | Err(rustix::io::Errno::CHILD) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[allow(clippy::disallowed_methods)] // this room starts programs
fn command(
    program: &Path,
    args: &[OsString],
    set: &[(OsString, OsString)],
    unset: &[String],
) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    for name in REPOSITORY_VARIABLES.into_iter().chain(unset.iter().map(String::as_str)) {
        command.env_remove(name);
    }
    for (name, value) in set {
        command.env(name, value);
    }
    command
}

pub(super) fn exit_of(status: ExitStatus) -> Exit {
    Exit { code: status.code(), signal: status.signal() }
}

fn stream(wanted: Stdio) -> std::process::Stdio {
    match wanted {
        Stdio::Null => std::process::Stdio::null(),
        Stdio::File(file) => file.into(),
    }
}

//! Starting programs: in a session of their own with no pipe anyone must feed or drain, or attended to
//! their end; and becoming another program.

use std::ffi::{OsStr, OsString, c_int};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid,
};

use crate::model::Exit;

/// Where one of the three standard streams goes.
#[derive(Debug)]
pub enum Stdio {
    /// `/dev/null`.
    Null,
    /// A regular file.
    File(File),
}

/// What to start, in the environment of this process but for what is said here.
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
    /// Further descriptors the program gets, under the numbers they have here. It gets no others.
    pub keep: Vec<OwnedFd>,
}

/// How an attended program ended.
#[derive(Debug)]
pub struct Attended {
    /// Code or signal; `None` when it was still at it when the time was up, and was killed.
    pub exit: Option<Exit>,
    /// What it said, on both streams, up to the limit.
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
                // A script's `&` has these ignored; a detached program must hear them again.
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

    /// Runs the program to its end, in a process group of its own, and keeps at most `most` bytes of
    /// what it says. When the time is up the group is killed. `stdout` and `stderr` are not looked at.
    pub fn attended(self, limit: Duration, most: u64) -> io::Result<Attended> {
        let (mut said, output) = io::pipe()?;
        let mut command = command(&self.program, &self.args, &self.set, &self.unset);
        command.current_dir(&self.cwd).process_group(0).stdin(stream(self.stdin));
        command.stdout(output.try_clone()?).stderr(output);
        let mut child = command.spawn()?;
        // The command holds the pipe's other end; without it the pipe ends with the program.
        drop(command);
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (sender, words) = channel();
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            // What was said before a broken pipe was said; the rest is drained, or it would block.
            let _said = said.by_ref().take(most).read_to_end(&mut kept);
            let _unheard = sender.send(kept);
            let _drained = io::copy(&mut said, &mut io::sink());
        });
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            // It is looked at and left: until it is reaped nobody else can have its number.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let look = |pid| rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
            let _ended = group.map(look);
            let _unheard = sender.send(());
        });
        let exit = if ended.recv_timeout(limit).is_ok() {
            // An error here must not read as "it was not started": the program has run.
            child.wait().ok().map(exit_of)
        } else {
            // Reaped after the kill only, so the group is still its own.
            let _gone = group.map(|g| kill_process_group(g, Signal::KILL));
            std::thread::spawn(move || {
                let _ended = ended.recv();
                let _reaped = child.wait();
            });
            None
        };
        // Something it left behind may hold the pipe: what was said so far is enough then.
        let said = words.recv_timeout(Duration::from_millis(200)).unwrap_or_default();
        Ok(Attended { exit, said })
    }
}

/// The kernel's default way with a signal.
const SIG_DFL: usize = 0;

unsafe extern "C" {
    fn signal(number: c_int, handler: usize) -> usize;
}

/// Marks every descriptor but the standard three to be closed by `exec`. Those that somebody gave us (a
/// pipe, a lock) would otherwise live as long as whatever is started here.
fn close_the_rest_on_exec() {
    let entries = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<RawFd>().ok());
    for number in numbers.filter(|n| *n > 2) {
        // SAFETY: the number is only named to the kernel; one that is closed by now is an error there.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let _closed = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC);
    }
}

/// Becomes another program, with one more variable set. Returns only when that fails.
#[must_use]
pub fn become_program(program: &OsStr, args: &[OsString], name: &str, value: &str) -> io::Error {
    let set = [(OsString::from(name), OsString::from(value))];
    command(Path::new(program), args, &set, &[]).exec()
}

/// Makes this process the one that orphans below it are given to, where the system can.
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Takes over a descriptor that this process was started with, and marks it to be closed by `exec`.
///
/// Fails for a number that is no open descriptor. To be called once for a number, at the start.
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

/// Waits for a child to end: any child, adopted ones included. `None` when there is none left.
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

#[allow(clippy::disallowed_methods)] // the one place that may
fn command(
    program: &Path,
    args: &[OsString],
    set: &[(OsString, OsString)],
    unset: &[String],
) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    for name in unset {
        command.env_remove(name);
    }
    for (name, value) in set {
        command.env(name, value);
    }
    command
}

fn exit_of(status: ExitStatus) -> Exit {
    Exit { code: status.code(), signal: status.signal() }
}

fn stream(wanted: Stdio) -> std::process::Stdio {
    match wanted {
        Stdio::Null => std::process::Stdio::null(),
        Stdio::File(file) => file.into(),
    }
}

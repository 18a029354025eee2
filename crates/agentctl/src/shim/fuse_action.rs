//! A hidden subcommand: the parent of the command of a fuse.
//!
//! An agent can set a fuse, and the daemon runs its command. So every process of the command has this one above it,
//! also after it has left its parent or emptied its environment, and is recognised as the action of a fuse. It stays
//! until its processes have ended and kills them after the timeout. Agents that the command launched, and a daemon
//! that it started, are left alone: they are meant to stay.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use agentctl_core::hooks::HOOK_TIMEOUT;
use agentctl_core::kernel::{Kernel, Process, Spawn, Stdio, adopt_orphans, inherited, reap};
use agentctl_core::marks;
use agentctl_core::model::Exit;
use rustix::process::Signal;

/// How long killed processes may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two looks for processes that were killed, or have appeared since.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The exit code of a command that did not end in time.
const TIMED_OUT: u8 = 124;

/// `fuse-action <fuse> -- <program> <args…>`: runs the command until all its processes have ended.
pub(super) fn attend(args: &[OsString]) -> io::Result<ExitCode> {
    let [_fuse, separator, program, rest @ ..] = args else { return Err(super::usage()) };
    if separator != "--" {
        return Err(super::usage());
    }
    adopt_orphans()?;
    let kernel = Kernel::open()?;
    let command = start(program, rest).map_err(|error| {
        io::Error::new(error.kind(), format!("{} cannot be run: {error}", program.display()))
    })?;
    let processes = Processes { kernel, ended: reaped() };
    let exit = processes.attend(command, Instant::now() + HOOK_TIMEOUT);
    processes.kill(Instant::now() + KILL_TIMEOUT);
    Ok(exit.map_or_else(
        || {
            let limit = HOOK_TIMEOUT.as_secs();
            let _unread = writeln!(io::stderr(), "agentctl: killed after {limit} seconds");
            ExitCode::from(TIMED_OUT)
        },
        code_of,
    ))
}

/// Starts the command with the standard streams of this process, and closes the own standard input: the writer of
/// the event must notice when the command closes its end.
fn start(program: &OsString, args: &[OsString]) -> io::Result<u32> {
    let spawn = Spawn {
        program: PathBuf::from(program),
        args: args.to_vec(),
        set: Vec::new(),
        unset: Vec::new(),
        cwd: std::env::current_dir()?,
        stdin: Stdio::File(File::from(inherited(0)?)),
        stdout: Stdio::File(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        stderr: Stdio::File(File::from(io::stderr().as_fd().try_clone_to_owned()?)),
        keep: Vec::new(),
    };
    Ok(spawn.detached()?.id())
}

/// Reaps all children on a thread; the channel is closed when none is left.
fn reaped() -> Receiver<(u32, Exit)> {
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        while let Ok(Some(end)) = reap() {
            let _unheard = sender.send(end);
        }
    });
    ended
}

/// The processes of a command.
struct Processes {
    kernel: Kernel,
    ended: Receiver<(u32, Exit)>,
}

impl Processes {
    /// Waits until the command and everything that it left behind have ended. Returns the exit of the command;
    /// `None` if it has not ended in time.
    fn attend(&self, command: u32, until: Instant) -> Option<Exit> {
        let mut exit = None;
        loop {
            match self.ended.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((pid, end)) if pid == command => exit = Some(end),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return exit,
            }
            if exit.is_some() && self.left_behind().is_empty() {
                return exit;
            }
        }
    }

    /// Kills what is left. The children of a killed process become children of this one, so it looks again.
    fn kill(&self, until: Instant) {
        loop {
            let left = self.left_behind();
            if left.is_empty() || until <= Instant::now() {
                return;
            }
            for process in left {
                let _gone = self.kernel.signal(&process.id, Signal::KILL);
            }
            let _end = self.ended.recv_timeout(LOOK_INTERVAL);
        }
    }

    /// Returns the children of this process that are not meant to stay.
    fn left_behind(&self) -> Vec<Process> {
        let this = std::process::id();
        let own = self.kernel.process(this).ok().flatten().and_then(|own| program_of(&own));
        let table = self.kernel.table(Instant::now() + KILL_TIMEOUT, |_| true);
        let children = table.processes.into_iter().filter(|process| process.parent_pid == this);
        children
            .filter(|process| {
                let is_ours = own.is_some() && program_of(process) == own;
                !(is_ours && (marks::is_shim(process) || marks::is_daemon(process)))
            })
            .collect()
    }
}

/// Returns the program file of a process, also after a newer one has replaced it.
fn program_of(process: &Process) -> Option<PathBuf> {
    let path = process.exe.as_deref()?.to_str()?;
    Some(Path::new(path.strip_suffix(" (deleted)").unwrap_or(path)).to_owned())
}

fn code_of(exit: Exit) -> ExitCode {
    let code = exit.code.or(exit.signal.map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

//! Runs a program to its end and keeps its standard output and its standard error apart.
//!
//! The program gets exactly the environment that is given, no terminal and no descriptor of ours, and runs in
//! a kernel session of its own. After the timeout its process group is killed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::cancellation::Cancellation;
use super::spawn::exit_of;
use crate::model::Exit;

/// How much of each end of the standard error is kept.
const STDERR_END_BYTES: usize = 2 << 10;
/// How long to wait for the end of the output after the program has ended. Only a process that it left behind, and
/// that holds its pipe open, takes so long.
const LEFT_OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The fate of a program if this process is killed before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentDeath {
    /// It is killed too. (Linux; elsewhere it goes on.)
    Kill,
    /// It goes on.
    Outlive,
}

/// A program to run to its end.
#[derive(Debug)]
pub struct Captured {
    /// The program file.
    pub program: PathBuf,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its standard input; empty for the null device.
    pub stdin: Vec<u8>,
    /// Its timeout.
    pub limit: Duration,
    /// Ends it if its order is called off.
    pub cancellation: Cancellation,
    /// Limit of the standard output that is kept. The rest is read and dropped.
    pub most_bytes: usize,
    /// Its fate if this process is killed.
    pub parent_death: ParentDeath,
}

/// The end of a program that was run with [`Captured::run`].
#[derive(Debug)]
pub struct CapturedEnd {
    /// Code or signal; `None` if it was killed after the timeout.
    pub exit: Option<Exit>,
    /// Its standard output, up to the limit; `None` if its end was not seen, because a process that the program
    /// left behind holds it open.
    pub stdout: Option<Vec<u8>>,
    /// The standard output was longer than the limit.
    pub cut: bool,
    /// The first and the last 2 KB of its standard error.
    pub stderr: Vec<u8>,
}

impl Captured {
    /// Runs the program to its end, or ends it at the timeout.
    pub fn run(self) -> io::Result<CapturedEnd> {
        let mut command = self.command();
        let (stdout, output) = io::pipe()?;
        let (stderr, errors) = io::pipe()?;
        command.stdout(output).stderr(errors);
        if self.stdin.is_empty() {
            command.stdin(std::process::Stdio::null());
        } else {
            let (input, mut writer) = io::pipe()?;
            command.stdin(input);
            let bytes = self.stdin;
            // A program that does not read its input to the end breaks the pipe, which is no error here.
            std::thread::spawn(move || writer.write_all(&bytes));
        }
        let mut child = command.spawn()?;
        // The command holds the write ends of the pipes; without it they end with the program.
        drop(command);
        let most = self.most_bytes;
        let stdout = in_thread(move || first_bytes(stdout, most));
        let stderr = in_thread(move || both_ends(stderr));
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let watched = group.map(|group| self.cancellation.watch(group));
        // Waits without reaping: until it is reaped, no other process can get its pid.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let look = move |pid| rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
        let ended = in_thread(move || group.map(|pid| look(pid).is_ok()));
        let in_time = ended.recv_timeout(self.limit).is_ok();
        drop(watched);
        if !in_time {
            // Reaped only after the kill, so the group id is still its own.
            let _gone = group.map(|g| kill_process_group(g, Signal::KILL));
            std::thread::spawn(move || child.wait());
            return Ok(CapturedEnd { exit: None, stdout: None, cut: false, stderr: Vec::new() });
        }
        let exit = child.wait().ok().map(exit_of);
        let (stdout, cut) = match stdout.recv_timeout(LEFT_OPEN_TIMEOUT) {
            Ok((stdout, cut)) => (Some(stdout), cut),
            Err(_) => (None, false),
        };
        let stderr = stderr.recv_timeout(LEFT_OPEN_TIMEOUT).unwrap_or_default();
        Ok(CapturedEnd { exit, stdout, cut, stderr })
    }

    #[allow(clippy::disallowed_methods)] // this room starts programs
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env).current_dir(&self.cwd);
        let parent = match self.parent_death {
            ParentDeath::Kill => Some(rustix::process::getpid()),
            ParentDeath::Outlive => None,
        };
        // SAFETY: the calls are async-signal-safe and touch no memory of the parent.
        unsafe {
            command.pre_exec(move || {
                // Without a terminal no program below it can ask for a password.
                rustix::process::setsid()?;
                parent.map_or(Ok(()), die_with)
            });
        }
        command
    }
}

/// Has the kernel kill this process when the thread that started it ends: [`Captured::run`] stays in that thread
/// until the program has ended or was killed.
#[cfg(target_os = "linux")]
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before the call.
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::ErrorKind::Other.into())
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: Pid) -> io::Result<()> {
    Ok(())
}

fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(work()));
    receiver
}

/// Reads up to the limit, and drains the rest: a full pipe would block the program.
fn first_bytes(mut stream: impl Read, most: usize) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    // Output before a broken pipe counts.
    let _read = stream.by_ref().take(most as u64).read_to_end(&mut kept);
    let rest = io::copy(&mut stream, &mut io::sink()).unwrap_or(0);
    (kept, rest > 0)
}

/// Reads to the end, and keeps the first and the last bytes.
fn both_ends(mut stream: impl Read) -> Vec<u8> {
    let mut head = Vec::new();
    let _read = stream.by_ref().take(STDERR_END_BYTES as u64).read_to_end(&mut head);
    let (mut tail, mut dropped) = (Vec::new(), false);
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        tail.extend_from_slice(&buffer[..n]);
        if tail.len() > STDERR_END_BYTES {
            dropped = true;
            tail.drain(..tail.len() - STDERR_END_BYTES);
        }
    }
    if dropped {
        head.extend_from_slice("\n…\n".as_bytes());
    }
    head.extend(tail);
    head
}

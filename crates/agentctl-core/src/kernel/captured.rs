//! Runs a program to its end and keeps its standard output and its standard error apart.
//!
//! The program gets exactly the environment that is given, no terminal and no descriptor of ours, and runs in
//! a kernel session of its own. After the timeout its process group is killed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open};

use super::cancellation::Cancellation;
use super::parent_death::{ParentDeath, die_with};
use super::spawn::exit_of;
use crate::model::Exit;

/// How much of each end of the standard error is kept.
const STDERR_END_BYTES: usize = 2 << 10;
/// How long to wait for the end of the output after the program has ended. Only a process that it left behind, and
/// that holds its pipe open, takes so long.
const LEFT_OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The size of one read.
const READ_BYTES: usize = 16 << 10;

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
        let stdin = if self.stdin.is_empty() {
            command.stdin(std::process::Stdio::null());
            None
        } else {
            let (input, writer) = io::pipe()?;
            command.stdin(input);
            Some(writer)
        };
        let mut exchange = Exchange {
            stdin: stdin.map(non_blocking).transpose()?,
            unwritten: self.stdin,
            stdout: Some(non_blocking(stdout)?),
            kept: Vec::new(),
            most_bytes: self.most_bytes,
            is_cut: false,
            stderr: Some(non_blocking(stderr)?),
            both_ends: BothEnds::default(),
        };
        let started = self.cancellation.start(self.parent_death, || command.spawn());
        let (mut child, watched) = started?;
        // The command holds the write ends of the pipes; without it they end with the program.
        drop(command);
        let group = watched.group();
        let in_time = end_of(group).and_then(|ended| exchange.run(ended, self.limit));
        drop(watched);
        if !matches!(in_time, Ok(true)) {
            // Reaped only after the kill, so the group id is still its own.
            let _gone = kill_process_group(group, Signal::KILL);
            std::thread::spawn(move || child.wait());
            in_time?;
            return Ok(CapturedEnd { exit: None, stdout: None, cut: false, stderr: Vec::new() });
        }
        let exit = child.wait().ok().map(exit_of);
        let Exchange { stdout: left_open, kept, is_cut: cut, both_ends, .. } = exchange;
        let stdout = if left_open.is_none() { Some(kept) } else { None };
        Ok(CapturedEnd { exit, stdout, cut, stderr: both_ends.bytes() })
    }

    #[allow(clippy::disallowed_methods)] // this room starts programs
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env).current_dir(&self.cwd);
        let parent = self.parent_death.parent();
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

/// Returns a descriptor that can be read once this child has ended. The child is not reaped: until then no other process
/// can get its pid.
fn end_of(child: Pid) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    if let Ok(handle) = pidfd_open(child, PidfdFlags::empty()) {
        return Ok(handle);
    }
    let (ended, held) = io::pipe()?;
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ended = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(child), options));
        drop(held);
    });
    Ok(ended.into())
}

fn non_blocking<T: AsFd>(pipe: T) -> io::Result<T> {
    rustix::io::ioctl_fionbio(&pipe, true)?;
    Ok(pipe)
}

/// The pipes of a program that runs.
struct Exchange {
    /// `None` once everything is written, or the program closed it.
    stdin: Option<PipeWriter>,
    unwritten: Vec<u8>,
    /// `None` after its end.
    stdout: Option<PipeReader>,
    kept: Vec<u8>,
    most_bytes: usize,
    /// More than `most_bytes` were read.
    is_cut: bool,
    /// `None` after its end.
    stderr: Option<PipeReader>,
    both_ends: BothEnds,
}

impl Exchange {
    /// Writes and reads until the program has ended and its pipes are closed. Returns false at the timeout.
    fn run(&mut self, ended: OwnedFd, limit: Duration) -> io::Result<bool> {
        let mut ended = Some(ended);
        let mut deadline = Instant::now() + limit;
        while ended.is_some() || self.stdout.is_some() || self.stderr.is_some() {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(ended.is_none());
            }
            let [end, input, output, errors] = self.wait(ended.as_ref(), rest)?;
            if input {
                self.write();
            }
            if output {
                self.read_stdout();
            }
            if errors {
                self.read_stderr();
            }
            if end {
                ended = None;
                deadline = Instant::now() + LEFT_OPEN_TIMEOUT;
            }
        }
        Ok(true)
    }

    /// Waits until something can be done. Returns what is ready: the end, stdin, stdout, stderr.
    fn wait(&self, ended: Option<&OwnedFd>, limit: Duration) -> io::Result<[bool; 4]> {
        let sources = [
            (ended.map(AsFd::as_fd), PollFlags::IN),
            (self.stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT),
            (self.stdout.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (self.stderr.as_ref().map(AsFd::as_fd), PollFlags::IN),
        ];
        let open = || sources.iter().filter_map(|(fd, flags)| Some((fd.as_ref()?, *flags)));
        let mut polled: Vec<PollFd<'_>> =
            open().map(|(fd, flags)| PollFd::new(fd, flags)).collect();
        let limit = Timespec::try_from(limit).ok();
        match poll(&mut polled, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut polled = polled.iter();
        // An error and the other side's end make the next call return at once, so they count as ready.
        let is_ready = |fd: Option<BorrowedFd<'_>>| {
            fd.and_then(|_| polled.next()).is_some_and(|polled| !polled.revents().is_empty())
        };
        Ok(sources.map(|(fd, _)| fd).map(is_ready))
    }

    /// A program that does not read its input to the end breaks the pipe, which is no error here.
    fn write(&mut self) {
        let Some(pipe) = &mut self.stdin else { return };
        match pipe.write(&self.unwritten) {
            Ok(count) if count < self.unwritten.len() => drop(self.unwritten.drain(..count)),
            Err(error) if is_later(&error) => {}
            Ok(_) | Err(_) => self.stdin = None,
        }
    }

    /// Keeps up to the limit and drops the rest: a full pipe would block the program.
    fn read_stdout(&mut self) {
        let (kept, most, is_cut) = (&mut self.kept, self.most_bytes, &mut self.is_cut);
        read(&mut self.stdout, |bytes| {
            let room = most.saturating_sub(kept.len()).min(bytes.len());
            kept.extend_from_slice(&bytes[..room]);
            *is_cut |= room < bytes.len();
        });
    }

    fn read_stderr(&mut self) {
        read(&mut self.stderr, |bytes| self.both_ends.push(bytes));
    }
}

/// Reads once: a program that writes without end must not keep the deadline from being checked. After its end, or an
/// error, there is no pipe any more.
fn read(pipe: &mut Option<PipeReader>, take: impl FnOnce(&[u8])) {
    let Some(stream) = pipe else { return };
    let mut buffer = [0; READ_BYTES];
    match stream.read(&mut buffer) {
        Ok(count @ 1..) => take(&buffer[..count]),
        Err(error) if is_later(&error) => {}
        Ok(0) | Err(_) => *pipe = None,
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The first and the last bytes of a stream.
#[derive(Default)]
struct BothEnds {
    head: Vec<u8>,
    tail: Vec<u8>,
    is_cut: bool,
}

impl BothEnds {
    fn push(&mut self, bytes: &[u8]) {
        let room = STDERR_END_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend_from_slice(&bytes[room..]);
        if self.tail.len() > STDERR_END_BYTES {
            self.is_cut = true;
            self.tail.drain(..self.tail.len() - STDERR_END_BYTES);
        }
    }

    fn bytes(mut self) -> Vec<u8> {
        if self.is_cut {
            self.head.extend_from_slice("\n…\n".as_bytes());
        }
        self.head.extend(self.tail);
        self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, stdin: Vec<u8>, limit: Duration) -> CapturedEnd {
        let captured = Captured {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            cwd: "/".into(),
            stdin,
            limit,
            cancellation: Cancellation::default(),
            most_bytes: 100_000,
            parent_death: ParentDeath::Kill,
        };
        captured.run().expect("started")
    }

    #[test]
    fn input_and_output_larger_than_a_pipe_pass_at_the_same_time() {
        let end = shell("cat; echo told >&2", vec![b'x'; 1 << 20], Duration::from_mins(1));
        assert_eq!(end.exit.and_then(|exit| exit.code), Some(0));
        assert_eq!(end.stdout.map(|stdout| stdout.len()), Some(100_000));
        assert!(end.cut);
        assert_eq!(end.stderr, b"told\n");
    }

    #[test]
    fn a_program_that_does_not_read_its_input_ends_as_usual() {
        let end = shell("exit 3", vec![b'x'; 1 << 20], Duration::from_mins(1));
        assert_eq!(end.exit.and_then(|exit| exit.code), Some(3));
        assert_eq!(end.stdout, Some(Vec::new()));
    }

    #[test]
    fn a_program_that_writes_without_end_is_killed_at_the_timeout() {
        let end = shell("while :; do echo y; done", Vec::new(), Duration::from_millis(200));
        assert_eq!(end.exit, None);
    }

    #[test]
    fn a_program_that_closes_its_output_is_waited_for() {
        let end =
            shell("exec >&- 2>&-; read line; exit 4", b"x\n".to_vec(), Duration::from_mins(1));
        assert_eq!(end.exit.and_then(|exit| exit.code), Some(4));
    }

    #[test]
    fn the_standard_error_keeps_both_ends() {
        let script = "echo first >&2; head -c 100000 /dev/zero | tr '\\0' x >&2; echo last >&2";
        let said = shell(script, Vec::new(), Duration::from_mins(1)).stderr;
        let said = String::from_utf8(said).expect("text");
        assert!(said.starts_with("first\n") && said.ends_with("xlast\n") && said.contains("\n…\n"));
        assert!(said.len() < 3 * STDERR_END_BYTES, "{}", said.len());
    }
}

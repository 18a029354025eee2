//! Shows long output in a pager. Never off a terminal.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Child;

use agentctl_core::host::Host;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Ui;
use crate::text::{clean, clean_drawn};

/// The pager if `PAGER` is not set: it ends at once if the text fits, shows colours, and leaves the text on the
/// screen.
const DEFAULT: [&str; 2] = ["less", "-FRX"];
/// The options of `less` if `LESS` is not set.
const LESS: (&str, &str) = ("LESS", "FRX");

impl Ui {
    /// Writes drawn lines, in a pager if stdout is a terminal with fewer rows.
    pub fn paged(&mut self, host: &Host, lines: &[String]) -> io::Result<()> {
        let is_long = self.terminal && rows().is_some_and(|rows| lines.len() >= rows);
        if let (true, Some(argv)) = (is_long, wanted_pager())
            && self.show_in_pager(host, &argv, lines)?
        {
            return Ok(());
        }
        for line in lines {
            self.line(line)?;
        }
        self.flush()
    }

    /// Runs the pager until it exits; says whether it could be started.
    fn show_in_pager(
        &mut self,
        host: &Host,
        argv: &[String],
        lines: &[String],
    ) -> io::Result<bool> {
        let Some((program, args)) = argv.split_first() else { return Ok(false) };
        self.flush()?;
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let is_set = std::env::var_os(LESS.0).is_some();
        let set: Vec<(OsString, OsString)> =
            if is_set { Vec::new() } else { vec![(LESS.0.into(), LESS.1.into())] };
        // The handlers are installed first: no signal ends this process and leaves the pager on the terminal.
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
        let started = find(host, program)
            .and_then(|path| agentctl_core::kernel::start_reader(&path, &args, &set));
        let mut child = match started {
            Ok(child) => child,
            Err(error) => {
                if argv != DEFAULT {
                    self.warn(&format!("the pager {program} cannot be started: {error}"));
                }
                return Ok(false);
            }
        };
        let stdin = child.stdin.take();
        let ended_by = ended_with_signals(&mut child, signals, || {
            if let Some(stdin) = stdin {
                // The user may leave the pager before the end.
                let _left = self.write_lines(io::BufWriter::new(stdin), lines);
            }
        })?;
        if let Some(signal) = ended_by {
            signal_hook::low_level::emulate_default_handler(signal)?;
        }
        Ok(true)
    }

    fn write_lines(&self, mut out: impl Write, lines: &[String]) -> io::Result<()> {
        for line in lines {
            let line = if self.colour { clean_drawn(line) } else { clean(line) };
            writeln!(out, "{line}")?;
        }
        out.flush()
    }
}

/// Returns the whole path of a pager. A relative path and relative entries of the PATH would name a program of the
/// current directory, which an agent may have written.
fn find(host: &Host, program: &str) -> io::Result<PathBuf> {
    let (found, why) = if program.contains('/') {
        let absolute = Some(PathBuf::from(program)).filter(|path| path.is_absolute());
        (absolute, "it is a relative path")
    } else {
        (host.which(program), "it is not in the PATH")
    };
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, why))
}

/// Feeds a pager and waits until it exits. Ctrl-C belongs to the pager as long as it runs. A signal that ends this
/// process ends the pager first: it would go on reading keys that are meant for the shell. Returns that signal.
fn ended_with_signals(
    child: &mut Child,
    mut signals: Signals,
    feed: impl FnOnce(),
) -> io::Result<Option<i32>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = signals.handle();
    let forwarder = std::thread::spawn(move || {
        let mut ended_by = None;
        for signal in signals.forever().filter(|signal| *signal != SIGINT) {
            ended_by = Some(signal);
            // It is not reaped before this thread has ended, so the pid is still its own.
            let _gone = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        ended_by
    });
    feed();
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let look = |pid| rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
    let _ended = pid.map(look);
    handle.close();
    let ended_by = forwarder.join().unwrap_or_default();
    child.wait()?;
    Ok(ended_by)
}

/// Returns the program and its arguments; `None` if no pager is wanted.
fn wanted_pager() -> Option<Vec<String>> {
    let Some(text) = std::env::var_os("PAGER") else {
        return Some(DEFAULT.map(str::to_owned).to_vec());
    };
    // Split like a shell would, and run without one.
    let argv = shlex::split(text.to_str()?)?;
    (!argv.is_empty() && argv != ["cat"]).then_some(argv)
}

/// Returns the height of the terminal on stdout.
fn rows() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

//! Shows long output in a pager. Never off a terminal.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Ui;
use crate::text::{clean, clean_drawn};

/// The pager if `PAGER` is not set: it ends at once if the text fits, shows colours, and leaves the text on the
/// screen.
const DEFAULT: [&str; 2] = ["less", "-FRX"];
/// The options of `less` if `LESS` is not set.
const LESS: (&str, &str) = ("LESS", "FRX");

impl Ui {
    /// Writes drawn lines, in a pager if stdout is a terminal with fewer rows.
    pub fn paged(&mut self, lines: &[String]) -> io::Result<()> {
        let is_long = self.terminal && rows().is_some_and(|rows| lines.len() >= rows);
        if let (true, Some(argv)) = (is_long, wanted_pager())
            && self.show_in_pager(&argv, lines)?
        {
            return Ok(());
        }
        for line in lines {
            self.line(line)?;
        }
        self.flush()
    }

    /// Runs the pager until it exits; says whether it could be started.
    fn show_in_pager(&mut self, argv: &[String], lines: &[String]) -> io::Result<bool> {
        let Some((program, args)) = argv.split_first() else { return Ok(false) };
        self.flush()?;
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let is_set = std::env::var_os(LESS.0).is_some();
        let set: Vec<(OsString, OsString)> =
            if is_set { Vec::new() } else { vec![(LESS.0.into(), LESS.1.into())] };
        // Ctrl-C belongs to the pager as long as it runs.
        let interrupted = Arc::new(AtomicBool::new(false));
        let handler = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted)?;
        let shown = match agentctl_core::kernel::start_reader(program.as_ref(), &args, &set) {
            Ok(mut child) => {
                if let Some(stdin) = child.stdin.take() {
                    // The user may leave the pager before the end.
                    let _left = self.write_lines(io::BufWriter::new(stdin), lines);
                }
                child.wait().map(|_| true)
            }
            Err(error) => {
                if argv != DEFAULT {
                    self.warn(&format!("the pager {program} cannot be started: {error}"));
                }
                Ok(false)
            }
        };
        signal_hook::low_level::unregister(handler);
        shown
    }

    fn write_lines(&self, mut out: impl Write, lines: &[String]) -> io::Result<()> {
        for line in lines {
            let line = if self.colour { clean_drawn(line) } else { clean(line) };
            writeln!(out, "{line}")?;
        }
        out.flush()
    }
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

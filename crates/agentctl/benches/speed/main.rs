//! Measures every promise about speed, each against a well-known program: `/bin/true`, `cat`.
//!
//! `cargo bench -p agentctl --bench speed` makes homes of 10, 1,000 and 10,000 ended sessions (2.5 GB) and
//! one of 10,000 of all agents (2.5 GB) and one of 100,000 small ones (0.4 GB), kept for the next run, measures in a private pid namespace and
//! prints the table of docs/PERFORMANCE.md. After `--`: `--strict` fails when a promise is missed,
//! `--only WORD` measures the lines that hold the word, `--each` adds a home of 10,000 for single agents
//! (2.5 GB each), `--runs N` sets the number of runs, `--clean` removes the homes. They lie in
//! `AGENTCTL_BENCH_DIR`, or in the system's directory for temporary files.
#![allow(clippy::disallowed_methods, clippy::expect_used)] // a bench starts programs and looks around
#![allow(clippy::print_stdout, clippy::print_stderr)] // its table is its purpose

mod asker;
mod asking;
mod awake;
mod crowd;
mod launching;
mod mcp;
mod measure;
mod mixed;
mod page;
mod pose;
mod promises;
mod table;
mod telling;
mod top;
mod waiting;
mod worktrees;

use std::path::PathBuf;
use std::process::ExitCode;

/// The command-line options.
struct Options {
    strict: bool,
    clean: bool,
    each: bool,
    only: Option<String>,
    runs: usize,
}

impl Options {
    /// Returns `None` if no measurement was requested: `cargo test --all-targets` starts benches too.
    fn from_args() -> Option<Self> {
        let mut options = Self { strict: false, clean: false, each: false, only: None, runs: 15 };
        let (mut args, mut asked) = (std::env::args().skip(1), false);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--bench" => asked = true,
                "--strict" => options.strict = true,
                "--clean" => options.clean = true,
                "--each" => options.each = true,
                "--only" => options.only = args.next(),
                "--runs" => {
                    let count: Option<usize> = args.next().and_then(|n| n.parse().ok());
                    options.runs = count.expect("--runs needs a number").max(1);
                }
                other => {
                    panic!("`{other}` is none of --strict, --clean, --each, --only WORD, --runs N")
                }
            }
        }
        (asked || options.clean).then_some(options)
    }
}

fn main() -> ExitCode {
    if pose::is_asked() {
        pose::hold();
    }
    if let Some(pid) = waiting::is_asked() {
        waiting::plainly(pid);
        return ExitCode::SUCCESS;
    }
    let Some(options) = Options::from_args() else { return ExitCode::SUCCESS };
    let directory = std::env::var_os("AGENTCTL_BENCH_DIR")
        .map_or_else(|| std::env::temp_dir().join("agentctl-bench"), PathBuf::from);
    if options.clean {
        if directory.exists() {
            std::fs::remove_dir_all(&directory).expect("removed");
        }
        return ExitCode::SUCCESS;
    }
    if let Some(status) = testkit::namespaced() {
        return if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let rows = promises::all(&options, &directory);
    let missed = rows.iter().filter(|row| row.kept == Some(false)).count();
    println!("\n{}\n{}", table::markdown(&rows), measure::machine());
    if missed > 0 {
        println!("{missed} MISSED");
    }
    if options.strict && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

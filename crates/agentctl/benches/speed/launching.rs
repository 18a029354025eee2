//! The cost of a launch above the agent's own start, and of the shim beside each agent.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use crate::measure::{Times, ours};

/// The prompt of the agents: nothing that takes time.
const PROMPT: &str = "x [[say:done]]";

/// Measures, in turn, an agent's own start up to its first word, and a launch of it with these options up to its id.
pub(crate) fn compare(home: &Path, options: &[&str], runs: usize) -> Times {
    let (mut theirs, mut launches) = (Vec::new(), Vec::new());
    for _ in 0..=runs {
        theirs.push(own_start(home));
        launches.push(launch(home, options));
    }
    // The first of each warms the page cache and is not counted.
    Times::of(theirs.split_off(1), launches.split_off(1))
}

fn own_start(home: &Path) -> f64 {
    let start = Instant::now();
    let mut agent = ours(home, &["demo-agent", "-p", PROMPT]);
    let mut agent = agent.stdout(Stdio::piped()).spawn().expect("started");
    let mut first = String::new();
    let stdout = agent.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut first).expect("it speaks");
    let took = start.elapsed();
    assert!(first.starts_with("session "), "{first}");
    agent.wait().expect("it ends");
    took.as_secs_f64() * 1000.0
}

fn launch(home: &Path, options: &[&str]) -> f64 {
    let start = Instant::now();
    let mut launch = ours(home, &[&["launch", "demo", "-p", PROMPT], options].concat());
    let launched = launch.stdout(Stdio::piped()).output().expect("started");
    let took = start.elapsed();
    assert!(launched.status.success(), "the launch failed");
    let id = String::from_utf8(launched.stdout).expect("an id");
    // A kept agent stays; the others end by themselves.
    let end = if options.is_empty() {
        ["wait", id.trim(), "--for=stopped"]
    } else {
        ["stop", id.trim(), "--force"]
    };
    assert!(ours(home, &end).output().expect("started").status.success(), "it did not end");
    took.as_secs_f64() * 1000.0
}

/// Returns the kilobytes that the parent of a launched agent keeps to itself.
pub(crate) fn shim_kilobytes(home: &Path) -> u64 {
    let mut launch = ours(home, &["launch", "demo", "-p", "x [[hang]]"]);
    let launched = launch.stdout(Stdio::piped()).output().expect("started");
    let id = String::from_utf8(launched.stdout).expect("an id");
    let processes = std::fs::read_dir("/proc").expect("a process table").flatten();
    let shim = processes.map(|e| e.path()).find(|path| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).nth(1) == Some(b"shim")
    });
    let status = std::fs::read_to_string(shim.expect("a shim").join("status")).expect("a status");
    let anonymous = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).expect("a line");
    let kilobytes = anonymous.trim().trim_end_matches(" kB").parse().expect("a number");
    let stopped = ours(home, &["stop", id.trim()]).status().expect("started");
    assert!(stopped.success(), "it was not stopped");
    kilobytes
}

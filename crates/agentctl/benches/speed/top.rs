//! `agentctl top` on a pseudo-terminal with one live session among 10,000 old ones: first list, key to frame, idle,
//! memory. Idle includes following the conversation of the live session and checking whether it is paused.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::PseudoTerminal;

use crate::asking::Kept;
use crate::measure::{Times, ours, percentile};
use crate::promises::Bench;

/// Duration without a key.
const IDLE: Duration = Duration::from_mins(1);
/// Keys that are pressed one after another.
const KEYS: usize = 500;
/// The size of the terminal.
const SIZE: (u16, u16) = (120, 40);

fn top(home: &Path) -> Command {
    let mut command = ours(home, &["top"]);
    command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env("AGENTCTL_NO_DAEMON", "1");
    command
}

/// Starts `top` and returns it with the time until the row of the live session is drawn. The first frame comes before
/// the first look and has no row.
fn started(home: &Path, agent: &Kept<'_>) -> (PseudoTerminal, Duration) {
    let start = Instant::now();
    let terminal = PseudoTerminal::start(&mut top(home), SIZE.0, SIZE.1);
    until(&terminal, &agent.id[..8]);
    (terminal, start.elapsed())
}

/// Returns once a text was written.
fn until(terminal: &PseudoTerminal, text: &str) {
    while !terminal.output().contains(text) {
        std::thread::yield_now();
    }
}

/// Returns once nothing was written for a while.
fn quiet(terminal: &PseudoTerminal) {
    let mut before = 0;
    while before != terminal.output_length() {
        before = terminal.output_length();
        std::thread::park_timeout(Duration::from_secs(1));
    }
}

/// Returns the time from a key to the first byte of its frame.
fn key(terminal: &mut PseudoTerminal, key: &str) -> Duration {
    let before = terminal.output_length();
    let start = Instant::now();
    terminal.press(key);
    while terminal.output_length() == before {
        std::thread::yield_now();
    }
    start.elapsed()
}

/// Returns milliseconds of CPU and resident bytes of a process.
fn usage(pid: u32) -> (u64, u64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let behind = stat.rsplit_once(')').expect("a name").1;
    let fields = behind.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let resident: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    (ticks * 10, resident * 1024)
}

impl Bench<'_> {
    /// The terminal view.
    pub(crate) fn top(&mut self) {
        const WHAT: &str = "top";
        if !self.wanted(WHAT) {
            return;
        }
        let home = self.largest_home().path.clone();
        let agent = Kept::launch(&home);
        let (mut list, mut first) = (Vec::new(), Vec::new());
        for _ in 0..self.options.runs {
            let start = Instant::now();
            let listed = ours(&home, &["list"]).env("AGENTCTL_NO_DAEMON", "1").status();
            assert!(listed.expect("started").success());
            list.push(start.elapsed().as_secs_f64() * 1e3);
            let (mut terminal, took) = started(&home, &agent);
            first.push(took.as_secs_f64() * 1e3);
            terminal.press("q");
            let _left = terminal.ended();
        }
        let what = format!("{WHAT}: first list");
        self.at_most_above(what, "`list`", Times::of(list, first), 50.0);
        let (mut terminal, _) = started(&home, &agent);
        quiet(&terminal);
        let (_, live) = usage(terminal.pid());
        let before = (usage(terminal.pid()).0, terminal.output_length());
        let start = Instant::now();
        while start.elapsed() < IDLE {
            std::thread::park_timeout(IDLE.saturating_sub(start.elapsed()));
        }
        let busy = usage(terminal.pid()).0 - before.0;
        let drawn = terminal.output_length() - before.1;
        let what = format!("{WHAT}: idle for {} s", IDLE.as_secs());
        let result = format!("{busy} ms of CPU, {drawn} bytes drawn");
        // An age on the screen may change once in this minute.
        self.state(what, result, "at most 20 ms".to_owned(), busy <= 20 && drawn < 2_000);
        terminal.press("H");
        until(&terminal, "stopped");
        quiet(&terminal);
        let keys = ["j", "j", "j", "k", "G", "g"];
        let times: Vec<Duration> =
            (0..KEYS).map(|at| key(&mut terminal, keys[at % keys.len()])).collect();
        let (_, history) = usage(terminal.pid());
        terminal.press("q");
        let _left = terminal.ended();
        let [p50, p99] = [0.5, 0.99].map(|share| percentile(&times, share));
        let what = format!("{WHAT}: key to frame with the history of 10,000 sessions");
        let result = format!("{p50:.1} ms, p99 {p99:.1} ms");
        self.state(what, result, "p99 at most 16 ms".to_owned(), p99 <= 16.0);
        let what = format!("{WHAT}: resident, live and with history");
        let mb = |bytes: u64| format!("{} MB", bytes >> 20);
        let result = format!("{}, then {}", mb(live), mb(history));
        let is_kept = live <= 30 << 20 && history <= 90 << 20;
        self.state(what, result, "at most 30 MB, then 90 MB".to_owned(), is_kept);
    }
}

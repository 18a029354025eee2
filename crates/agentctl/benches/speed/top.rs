//! `agentctl top` on a pseudo-terminal with one live session among 10,000 old ones: first list, key to frame, idle,
//! memory. Idle includes following the conversation of the live session and checking whether it is paused.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::PseudoTerminal;

use crate::asking::Kept;
use crate::measure::{IDLE, Times, idle_cpu_ms, memory_bytes, ours, percentile};
use crate::promises::Bench;

/// Keys that are pressed one after another.
const KEYS: usize = 500;
/// Letters of a filter, and one that no row has: each one looks at every row that is listed.
const LETTERS: [&str; 6] = ["d", "e", "m", "o", " ", "9"];
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

/// Returns the times from the letters of a filter to the end of their frames. The letters are typed and deleted again
/// and again.
fn letters(terminal: &mut PseudoTerminal) -> Vec<Duration> {
    /// The cursor of the line that is typed ends a frame.
    const FRAME_END: &str = "\u{1b}[?25h";
    let letter = |terminal: &mut PseudoTerminal, key: &str| {
        let before = terminal.output_length();
        let start = Instant::now();
        terminal.press(key);
        while !terminal.output_since(before).ends_with(FRAME_END) {
            std::thread::yield_now();
        }
        start.elapsed()
    };
    letter(terminal, "/");
    let keys = LETTERS.into_iter().chain(LETTERS.map(|_| "\u{7f}"));
    let times = keys.cycle().take(KEYS / 12 * 12).map(|key| letter(terminal, key)).collect();
    key(terminal, "\u{1b}");
    times
}

/// Returns the times from prompts that ask until `top` has drawn the row that waits. The pane keeps a settled ask until
/// a key is pressed, so only the first ask would draw the words of its keys.
fn asks_drawn(agent: &Kept<'_>, terminal: &PseudoTerminal, rounds: usize) -> Vec<Duration> {
    let drawn = |round: usize| {
        quiet(terminal);
        let before = terminal.output_length();
        let start = Instant::now();
        agent.say(round, "x [[permit:true]] [[say:y]]");
        while !terminal.output().get(before..).is_some_and(|new| new.contains("waiting")) {
            std::thread::yield_now();
        }
        let took = start.elapsed();
        agent.end_turn();
        took
    };
    (0..rounds).map(drawn).collect()
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
        let live = memory_bytes(terminal.pid(), "VmRSS:");
        let before = terminal.output_length();
        let busy = idle_cpu_ms(terminal.pid());
        let drawn = terminal.output_length() - before;
        let what = format!("{WHAT}: idle for {} s", IDLE.as_secs());
        let result = format!("{busy:.1} ms of CPU, {drawn} bytes drawn");
        // An age on the screen may change once in this minute.
        self.state(what, result, "at most 20 ms".to_owned(), busy <= 20.0 && drawn < 2_000);
        let took = asks_drawn(&agent, &terminal, self.rounds_of_telling() / 4);
        let [p50, p99] = [0.5, 0.99].map(|share| percentile(&took, share));
        let what = format!("{WHAT}: an ask to its frame");
        let result = format!("{p50:.1} ms, p99 {p99:.1} ms");
        self.state(what, result, "p99 at most 300 ms".to_owned(), p99 <= 300.0);
        terminal.press("H");
        until(&terminal, "stopped");
        quiet(&terminal);
        let keys = ["j", "j", "j", "k", "G", "g"];
        let times: Vec<Duration> =
            (0..KEYS).map(|at| key(&mut terminal, keys[at % keys.len()])).collect();
        let letters = letters(&mut terminal);
        let history = memory_bytes(terminal.pid(), "VmRSS:");
        terminal.press("q");
        let _left = terminal.ended();
        for (key, times) in [("key", times), ("letter of a filter", letters)] {
            let [p50, p99] = [0.5, 0.99].map(|share| percentile(&times, share));
            let what = format!("{WHAT}: {key} to frame with the history of 10,000 sessions");
            let result = format!("{p50:.1} ms, p99 {p99:.1} ms");
            self.state(what, result, "p99 at most 16 ms".to_owned(), p99 <= 16.0);
        }
        let what = format!("{WHAT}: resident, live and with history");
        let mb = |bytes: u64| format!("{} MB", bytes >> 20);
        let result = format!("{}, then {}", mb(live), mb(history));
        let is_kept = live <= 30 << 20 && history <= 90 << 20;
        self.state(what, result, "at most 30 MB, then 90 MB".to_owned(), is_kept);
    }
}

//! Running programs and looking at the clock: medians of interleaved runs, peak memory, latency.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program, built with the release profile for this run.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_agentctl");

/// Returns a command in this home, with an environment of its own.
pub(crate) fn command(home: &Path, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_clear().current_dir(home).env("HOME", home);
    command.env("PATH", "/usr/bin:/bin").env("TZ", "UTC").env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Returns our program in this home.
pub(crate) fn ours(home: &Path, args: &[&str]) -> Command {
    command(home, PROGRAM, args)
}

/// Two programs measured in turn: medians in milliseconds, and the medians of the comparisons of
/// neighbouring runs, which a busy machine disturbs less.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) theirs: f64,
    pub(crate) ours: f64,
    pub(crate) ratio: f64,
    pub(crate) difference: f64,
}

impl Times {
    /// Compares times of runs that were neighbours.
    pub(crate) fn of(theirs: Vec<f64>, ours: Vec<f64>) -> Self {
        // The fastest runs are those that other work disturbed least: printed as well, never used for
        // the verdict.
        let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        let (their_least, our_least) = (least(&theirs), least(&ours));
        eprintln!(
            "  fastest: {our_least:.1} / {their_least:.1} ms = {:.2}",
            our_least / their_least
        );
        let pairs = || theirs.iter().zip(&ours);
        let ratio = middle(pairs().map(|(theirs, ours)| ours / theirs).collect());
        let difference = middle(pairs().map(|(theirs, ours)| ours - theirs).collect());
        Self { theirs: middle(theirs), ours: middle(ours), ratio, difference }
    }
}

/// Runs the two in turn, so that other work on the machine affects both.
pub(crate) fn compare(runs: usize, theirs: &mut Command, ours: &mut Command) -> Times {
    // The first of each warms the page cache and is not counted.
    run(theirs);
    run(ours);
    let (mut their_times, mut our_times) = (Vec::new(), Vec::new());
    let (mut their_work, mut our_work) = (0, 0);
    for _ in 0..runs {
        let before = work_of_children();
        their_times.push(milliseconds(run(theirs)));
        let between = work_of_children();
        our_times.push(milliseconds(run(ours)));
        their_work += between - before;
        our_work += work_of_children() - between;
    }
    // The CPU time, which other work on the machine hardly changes.
    let each = |ticks: u64| ticks * 10 / runs as u64;
    eprintln!("  CPU time: {} / {} ms", each(our_work), each(their_work));
    Times::of(their_times, our_times)
}

/// Returns the CPU time of all children that have ended, in hundredths of a second.
fn work_of_children() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("read");
    let (_, behind) = stat.rsplit_once(')').expect("a name");
    let fields = behind.split_whitespace().skip(13).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Runs one program several times, after a first time that is not counted.
pub(crate) fn repeat(runs: usize, command: &mut Command) -> Vec<Duration> {
    run(command);
    (0..runs).map(|_| run(command)).collect()
}

fn run(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let took = start.elapsed();
    assert!(status.success(), "{command:?} ended with {status}");
    took
}

/// Returns the middle one, in milliseconds.
pub(crate) fn median(times: Vec<Duration>) -> f64 {
    middle(times.into_iter().map(milliseconds).collect())
}

/// Returns the time that this share of them does not exceed, in milliseconds.
pub(crate) fn percentile(times: &[Duration], share: f64) -> f64 {
    let mut figures: Vec<f64> = times.iter().copied().map(milliseconds).collect();
    figures.sort_by(f64::total_cmp);
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let place = (figures.len() as f64 * share).ceil() as usize; // a few hundred at most
    figures.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Duration of the measurements of a process to which nothing happens.
pub(crate) const IDLE: Duration = Duration::from_mins(1);

/// Returns the CPU time of a process, in milliseconds, while nothing happens for [`IDLE`].
pub(crate) fn idle_cpu_ms(pid: u32) -> f64 {
    let (start, before) = (Instant::now(), testkit::cpu_time(pid));
    while start.elapsed() < IDLE {
        std::thread::park_timeout(IDLE.saturating_sub(start.elapsed()));
    }
    milliseconds(testkit::cpu_time(pid).saturating_sub(before))
}

/// Returns a line of `/proc/<pid>/status` that is an amount of memory, in bytes.
pub(crate) fn memory_bytes(pid: u32, name: &str) -> u64 {
    memory(pid, name).unwrap_or_else(|| panic!("no line {name} of process {pid}"))
}

fn memory(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// Runs a program to its end and returns its output and its peak resident memory in bytes.
///
/// The high-water mark is read while the program is still writing: it cannot end before its output was
/// taken from the pipe, so the last reading comes after all of its work.
pub(crate) fn peak(command: &mut Command) -> (Vec<u8>, u64) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
    let mut stdout = child.stdout.take().expect("piped");
    let (mut output, mut peak, mut chunk) = (Vec::new(), 0, vec![0; 4096]);
    loop {
        peak = memory(child.id(), "VmHWM:").unwrap_or(0).max(peak);
        let read = stdout.read(&mut chunk).expect("read");
        if read == 0 {
            break;
        }
        output.extend_from_slice(&chunk[..read]);
        chunk.resize(1 << 16, 0);
    }
    assert!(child.wait().expect("ends").success(), "{command:?}");
    (output, peak)
}

/// A program that runs beside the measurement and dies with the value, its files with it.
pub(crate) struct Beside {
    pub(crate) child: Child,
    pub(crate) files: Vec<PathBuf>,
}

impl Beside {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self { child: command.spawn().expect("starts"), files: Vec::new() }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
        for file in &self.files {
            let _removed = std::fs::remove_file(file);
        }
    }
}

/// Appends lines to a file one by one and returns how long the follower took to show each.
pub(crate) fn follow(follower: &mut Command, path: &Path, lines: &[String]) -> Vec<Duration> {
    let mut follower = Beside::start(follower.stdout(Stdio::piped()));
    let mut shown = BufReader::new(follower.child.stdout.take().expect("piped"));
    let mut line = String::new();
    // It shows the existing lines before it waits for more.
    shown.read_line(&mut line).expect("it shows what was there");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("opened");
    let mut took = Vec::new();
    for text in lines {
        // Let the follower fall asleep again: a message is met by a sleeping reader.
        std::thread::park_timeout(Duration::from_millis(30));
        let start = Instant::now();
        file.write_all(text.as_bytes()).expect("written");
        line.clear();
        shown.read_line(&mut line).expect("shown");
        took.push(start.elapsed());
        assert!(!line.is_empty(), "the follower went away");
    }
    took
}

/// Describes the machine of the measurement.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    format!(
        "{cores} cores, Linux {}, load {load} at the end",
        read("/proc/sys/kernel/osrelease").trim()
    )
}

/// Returns the names of all files below a directory.
pub(crate) fn names(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(&next).expect("listed").flatten() {
            if entry.file_type().expect("a type").is_dir() {
                pending.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Returns how many processes there are in this namespace.
pub(crate) fn processes() -> usize {
    let entries = std::fs::read_dir("/proc").expect("listed").flatten();
    entries.filter(|e| e.file_name().to_string_lossy().parse::<u32>().is_ok()).count()
}

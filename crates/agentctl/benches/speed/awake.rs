//! Cost and benefit of a running daemon among 10,000 old sessions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::measure::{
    Beside, IDLE, Times, command, compare, idle_cpu_ms, memory_bytes, ours, percentile,
};
use crate::promises::{Bench, HISTORY, Home};

/// Clients that ask at the same time.
const CROWD: usize = 500;

/// A daemon that serves a home, and ends with the value.
struct Daemon {
    running: Beside,
    home: PathBuf,
}

impl Daemon {
    fn start(home: &Path) -> Self {
        let running = Beside::start(&mut ours(home, &["daemon", "run"]));
        let daemon = Self { running, home: home.to_owned() };
        testkit::eventually("it serves", || {
            let asked = ours(home, &["daemon", "status"]).status().ok()?;
            asked.success().then_some(())
        });
        daemon
    }

    fn resident(&self) -> u64 {
        memory_bytes(self.running.child.id(), "VmRSS:")
    }

    fn high_water(&self) -> u64 {
        memory_bytes(self.running.child.id(), "VmHWM:")
    }

    /// Returns how often each of its threads woke up.
    fn wake_ups(&self) -> BTreeMap<String, u64> {
        let process = format!("/proc/{}", self.running.child.id());
        let tasks = std::fs::read_dir(format!("{process}/task")).expect("it lives").flatten();
        let woken = tasks.filter_map(|task| {
            let status = std::fs::read_to_string(task.path().join("status")).ok()?;
            let switches = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
            let name = task.file_name().to_string_lossy().into_owned();
            Some((name, switches?.trim().parse::<u64>().ok()?))
        });
        woken.collect()
    }

    fn connect(&self) -> BufReader<UnixStream> {
        let socket = self.home.join(".local/state/agentctl/run/agentctl.sock");
        let mut stream = BufReader::new(UnixStream::connect(socket).expect("somebody listens"));
        assert!(ask(&mut stream, "hello", "{\"protocol\":1}"), "it says hello");
        stream
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _stopped = ours(&self.home, &["daemon", "stop"]).status();
        let _clean = std::fs::remove_dir_all(self.home.join(".local"));
    }
}

/// Returns the peak memory of a daemon after this question was asked three times: by then its cache is
/// full.
pub(crate) fn peak_when_asked(home: &Path, args: &[&str]) -> u64 {
    let daemon = Daemon::start(home);
    for _ in 0..3 {
        let answered = ours(home, args).status().expect("it runs");
        assert!(answered.success(), "{args:?}");
    }
    daemon.high_water()
}

/// Asks one question; says whether it was answered.
fn ask(stream: &mut BufReader<UnixStream>, method: &str, params: &str) -> bool {
    let request =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params}}}\n");
    let sent = stream.get_mut().write_all(request.as_bytes()).is_ok();
    let mut line = String::new();
    sent && stream.read_line(&mut line).is_ok() && line.contains("\"result\":")
}

/// All clients ask for the live sessions at the same moment; returns the waiting time of each, and the
/// number of failures.
fn crowd(daemon: &Daemon) -> (Vec<Duration>, usize) {
    let streams: Vec<_> = (0..CROWD).map(|_| daemon.connect()).collect();
    let gate = std::sync::Barrier::new(CROWD);
    let asked: Vec<(Duration, bool)> = std::thread::scope(|scope| {
        let gate = &gate;
        let all: Vec<_> = streams
            .into_iter()
            .map(|mut stream| {
                scope.spawn(move || {
                    gate.wait();
                    let start = Instant::now();
                    let answered = ask(&mut stream, "session.list", "{}");
                    (start.elapsed(), answered)
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().expect("asked")).collect()
    });
    let failed = asked.iter().filter(|(_, answered)| !answered).count();
    (asked.into_iter().map(|(took, _)| took).collect(), failed)
}

/// Looks at every file of a home once, as one process.
fn stat_all(home: &Home) -> std::process::Command {
    command(&home.path, "/usr/bin/find", &[".", "-type", "f", "-printf", "%i %s %T@ %C@\n"])
}

impl Bench<'_> {
    /// All history again and again, many clients, and a minute without requests.
    pub(crate) fn awake(&mut self) {
        const WHAT: &str = "daemon";
        if !self.wanted(WHAT) {
            return;
        }
        let runs = self.options.runs;
        let home = self.largest_home();
        let daemon = Daemon::start(&home.path);
        let before = daemon.resident();
        let json = [&HISTORY[..], &["--json"]].concat();
        let table = compare(runs, &mut stat_all(home), &mut ours(&home.path, &HISTORY));
        let text = compare(runs, &mut stat_all(home), &mut ours(&home.path, &json));
        let after = daemon.resident();
        let alone: Vec<Duration> = {
            let mut stream = daemon.connect();
            let mut once = || {
                let start = Instant::now();
                assert!(ask(&mut stream, "session.list", "{}"), "it answers");
                start.elapsed()
            };
            (0..CROWD).map(|_| once()).collect()
        };
        let (took, failed) = crowd(&daemon);
        // Work for the last answer may still be running.
        let mut seen = daemon.wake_ups();
        testkit::eventually("it rests", || {
            std::thread::park_timeout(Duration::from_millis(500));
            let now = daemon.wake_ups();
            (std::mem::replace(&mut seen, now.clone()) == now).then_some(())
        });
        let busy = idle_cpu_ms(daemon.running.child.id());
        let now = daemon.wake_ups();
        let woken: u64 = now.iter().map(|(task, n)| n - seen.get(task).unwrap_or(&0)).sum();
        drop(daemon);
        self.show_awake(table, text, [before, after]);
        let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|share| percentile(&took, share));
        let alone = percentile(&alone, 0.5);
        let result =
            format!("{p50:.1} ms, p99 {p99:.1} ms, worst {worst:.1} ms, {failed} unanswered");
        let what = format!("{WHAT}: {CROWD} ask what lives at once (one alone: {alone:.1} ms)");
        self.state(what, result, "all answered".to_owned(), failed == 0);
        let what = format!("{WHAT}: idle for {} s", IDLE.as_secs());
        let result = format!("{busy:.1} ms of CPU, {woken} wake-ups");
        self.state(what, result, "0.0 % of a core".to_owned(), busy < 30.0);
    }

    fn show_awake(&mut self, table: Times, text: Times, [before, after]: [u64; 2]) {
        let reference = "`find`, which looks at each file once";
        let what = "daemon: `list -a --since all` again, 10,000 sessions".to_owned();
        self.at_most_ratio(what, reference, table, Some(2.0));
        let what = "daemon: the same with `--json`".to_owned();
        self.at_most_ratio(what, reference, text, None);
        let mb = |bytes: u64| format!("{} MB", bytes >> 20);
        let target = "at most 25 MB, then 60 MB".to_owned();
        let result = format!("{}, then {}", mb(before), mb(after));
        let kept = before <= 25 << 20 && after <= 60 << 20;
        self.state("daemon: resident before and after".to_owned(), result, target, kept);
    }
}

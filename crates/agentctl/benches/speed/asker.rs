//! The asker of a posing Claude Code: its memory, and how soon it ends when its agent does or when the ask was
//! answered in the terminal.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use testkit::eventually;

use crate::measure::{Beside, PROGRAM, ours};
use crate::pose;
use crate::promises::{Bench, Home};
use crate::telling::{Stream, rewrite};

/// The most memory of its own, in kB.
const MOST_KB: u64 = 2048;

/// An asker that has not ended by then never will.
const PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// A posing agent that has asked, and its asker.
struct Asked {
    agent: Beside,
    asker: u32,
    handle: OwnedFd,
}

impl Asked {
    /// Has an agent start its asker; with a terminal the ask is open there too.
    fn new(home: &Home, programs: &Path, terminal: bool) -> Self {
        let mut agent = pose::start(&home.path, &home.manifest, "claude-code", programs);
        if terminal {
            rewrite(&agent.files[0], "waiting");
        }
        let session = &pose::served(&home.manifest, "claude-code").id;
        let input = json!({
            "session_id": session, "hook_event_name": "PermissionRequest", "tool_name": "Bash",
            "tool_input": {"command": "touch x"}, "cwd": home.path,
        });
        let path = programs.join("input.json");
        std::fs::write(&path, input.to_string()).expect("written");
        let runtime = home.path.join(".local/state/agentctl/run");
        let hook = format!(
            "exec '{PROGRAM}' asker '{}' claude-code 600 < '{}' > /dev/null",
            runtime.display(),
            path.display()
        );
        // The asker of the agent before this one may not have ended yet.
        let before = listening(&runtime);
        let orders = agent.child.stdin.as_mut().expect("piped");
        writeln!(orders, "{hook}").expect("told");
        let asker = eventually("the asker listens", || {
            listening(&runtime).into_iter().find(|pid| !before.contains(pid))
        });
        let pid = Pid::from_raw(i32::try_from(asker).expect("a pid")).expect("a pid");
        Self { agent, asker, handle: pidfd_open(pid, PidfdFlags::empty()).expect("it lives") }
    }

    /// Returns the sizes of the asker of these kinds, in kB.
    fn kilobytes(&self, kinds: &[&str]) -> u64 {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.asker));
        let rollup = rollup.expect("it lives");
        let size = |kind: &&str| -> u64 {
            let line = rollup.lines().find_map(|line| line.strip_prefix(*kind)).expect("a line");
            line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
        };
        kinds.iter().map(size).sum()
    }

    /// Returns the time of an answer until the asker has given it to its agent and ended.
    fn answered(self, home: &Home) -> Duration {
        let mut asks = ours(&home.path, &["asks", "-q"]);
        let asks = asks.stdout(Stdio::piped()).output().expect("started");
        let ask = String::from_utf8(asks.stdout).expect("an id").trim().to_owned();
        let mut answer = ours(&home.path, &["answer", &ask, "--allow"]);
        let start = Instant::now();
        let running = answer.stderr(Stdio::piped()).spawn().expect("started");
        let has_ended = self.has_ended();
        let took = start.elapsed();
        let told = running.wait_with_output().expect("ended");
        let words = String::from_utf8_lossy(&told.stderr);
        assert!(has_ended && told.status.success(), "asker {}, `{ask}`: {words}", self.asker);
        took
    }

    /// Waits until the asker has seen its ask open: it looks before it takes a connection, and refuses rubbish.
    fn until_looked(&self, home: &Home) {
        let socket = format!(".local/state/agentctl/run/asks/{}.sock", self.asker);
        let mut stream = UnixStream::connect(home.path.join(socket)).expect("it listens");
        writeln!(stream, "rubbish").expect("sent");
        let mut refusal = String::new();
        BufReader::new(stream).read_line(&mut refusal).expect("a reply");
        assert!(refusal.contains("\"taken\":false"), "{refusal}");
    }

    /// Does something, and returns the time until the asker has ended.
    fn until_gone(mut self, happens: impl FnOnce(&mut Beside)) -> Duration {
        let start = Instant::now();
        happens(&mut self.agent);
        assert!(self.has_ended(), "the asker {} did not end", self.asker);
        start.elapsed()
    }

    /// Waits for the end of the asker, and says whether it came in time.
    fn has_ended(&self) -> bool {
        poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&PATIENCE)) == Ok(1)
    }
}

/// Returns the pids of the askers that listen in this runtime folder.
fn listening(runtime: &Path) -> Vec<u32> {
    let sockets = std::fs::read_dir(runtime.join("asks")).into_iter().flatten().flatten();
    let names = sockets.map(|socket| PathBuf::from(socket.file_name()));
    names.filter_map(|name| name.file_stem()?.to_str()?.parse().ok()).collect()
}

impl Bench<'_> {
    /// The asker of Claude Code.
    pub(crate) fn asker(&mut self) {
        let memory = "asker: memory of its own while it waits".to_owned();
        let death = "asker: from the death of its agent to its end".to_owned();
        let settled = "asker: from an answer in the terminal to its end".to_owned();
        let gone = "asker: from an answer in the terminal to `ask.settled`".to_owned();
        let answered = "asker: `answer` until its agent has the decision".to_owned();
        if ![&memory, &death, &settled, &gone, &answered].iter().any(|what| self.wanted(what)) {
            return;
        }
        let programs = tempfile::tempdir().expect("made");
        let rounds = self.rounds_of_telling().div_ceil(4);
        let home = self.largest_home();
        if self.wanted(&memory) {
            let asked = Asked::new(home, programs.path(), false);
            // Not `Private_Dirty`: that counts pages of a program file that was just built, too.
            let own = asked.kilobytes(&["Anonymous"]);
            let code = asked.kilobytes(&["Rss"]) - own;
            let (result, target) = (
                format!("{own} kB written, {code} kB of its program file"),
                format!("at most {MOST_KB} kB written"),
            );
            self.state(memory, result, target, own <= MOST_KB);
        }
        let home = self.largest_home();
        let deaths: Vec<Duration> = (0..rounds)
            .map(|_| {
                let asked = Asked::new(home, programs.path(), false);
                asked.until_gone(|agent| agent.child.kill().expect("killed"))
            })
            .collect();
        let answers: Vec<Duration> = (0..rounds)
            .map(|_| {
                let asked = Asked::new(home, programs.path(), true);
                asked.until_looked(home);
                asked.until_gone(|agent| rewrite(&agent.files[0], "busy"))
            })
            .collect();
        let session = pose::served(&home.manifest, "claude-code").id.clone();
        let mut stream = Stream::of(&home.path, "ask.opened,ask.settled");
        let rows: Vec<Duration> = (0..rounds)
            .map(|_| {
                let asked = Asked::new(home, programs.path(), true);
                stream.until(&session, "ask.opened");
                stream.quiet();
                let start = Instant::now();
                rewrite(&asked.agent.files[0], "busy");
                stream.until(&session, "ask.settled");
                start.elapsed()
            })
            .collect();
        drop(stream);
        let decisions: Vec<Duration> =
            (0..rounds).map(|_| Asked::new(home, programs.path(), false).answered(home)).collect();
        let reference = format!("none, {rounds} times");
        self.add_tails(gone, reference.clone(), &rows, &rows, Some(300.0));
        self.add_tails(answered, reference.clone(), &decisions, &decisions, Some(500.0));
        self.add_tails(death, reference.clone(), &deaths, &deaths, Some(100.0));
        self.add_tails(settled, reference, &answers, &answers, Some(1000.0));
    }
}

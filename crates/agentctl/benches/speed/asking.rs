//! The inbox with the demo agent, among 10,000 old sessions: from an ask to its event, and the whole command that
//! answers it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::measure::ours;
use crate::promises::Bench;
use crate::telling::Stream;

/// A demo agent that stays and takes messages.
pub(crate) struct Kept<'a> {
    home: &'a Path,
    pub(crate) id: String,
    pid: u64,
}

impl<'a> Kept<'a> {
    pub(crate) fn launch(home: &'a Path) -> Self {
        let mut launch = ours(home, &["launch", "demo", "--keep", "-p", "x [[say:ready]]"]);
        let launched = launch.stdout(Stdio::piped()).output().expect("started");
        let id = String::from_utf8(launched.stdout).expect("an id").trim().to_owned();
        let mut status = ours(home, &["status", &id, "--json"]);
        let status = status.stdout(Stdio::piped()).output().expect("started");
        let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
        Self { home, id, pid: status["pid"].as_u64().expect("a pid") }
    }

    /// Gives it a prompt by its own socket.
    pub(crate) fn say(&self, round: usize, prompt: &str) {
        let socket = self.home.join(format!(".local/share/agentctl-demo/live/{}.sock", self.pid));
        let mut stream = UnixStream::connect(socket).expect("it listens");
        let order = json!({"message": {"id": format!("m{round}"), "text": prompt}});
        writeln!(stream, "{order}").expect("sent");
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).expect("a reply");
        assert!(reply.contains("true"), "{reply}");
    }

    /// Ends its turn and waits until it rests.
    pub(crate) fn end_turn(&self) {
        let ended = ours(self.home, &["stop", "--turn", &self.id]).output().expect("started");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        self.rest();
    }

    /// Waits until it rests.
    pub(crate) fn rest(&self) {
        let mut wait = ours(self.home, &["wait", &self.id, "--for", "idle"]);
        assert!(wait.status().expect("started").success(), "it does not rest");
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let _stopped = ours(self.home, &["stop", &self.id]).status();
    }
}

/// Returns the times from a prompt that asks to `ask.opened`, and those of the command `answer`.
fn measure(home: &Path, rounds: usize) -> (Vec<Duration>, Vec<Duration>) {
    let agent = Kept::launch(home);
    let mut stream = Stream::of(home, "ask.opened,ask.settled,idle");
    let (mut opened, mut answered) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        stream.quiet();
        let start = Instant::now();
        agent.say(round, "x [[permit:true]] [[say:y]]");
        let ask = stream.until(&agent.id, "ask.opened");
        opened.push(start.elapsed());
        let id = ask["ask"]["id"].as_str().expect("an id").to_owned();
        let start = Instant::now();
        let taken = ours(home, &["answer", &id, "--allow"]).output().expect("started");
        answered.push(start.elapsed());
        assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
        stream.until(&agent.id, "session.idle");
    }
    (opened, answered)
}

impl Bench<'_> {
    /// The demo agent asks, and is answered, among 10,000 old sessions.
    pub(crate) fn asking(&mut self) {
        let opened = "inbox, demo: an ask to its event".to_owned();
        let answered = "inbox, demo: the whole of `answer`, until the agent moves".to_owned();
        if !self.wanted(&opened) && !self.wanted(&answered) {
            return;
        }
        let rounds = self.rounds_of_telling() / 2;
        let home = &self.largest_home().path;
        let (to_event, to_move) = measure(home, rounds);
        let own: Vec<Duration> = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                ours(home, &["asks", "-q"]).output().expect("started");
                start.elapsed()
            })
            .collect();
        let _clean = std::fs::remove_dir_all(home.join(".local"));
        let reference = format!("`asks -q`, {rounds} times");
        self.add_tails(opened, reference.clone(), &own, &to_event, Some(250.0));
        self.add_tails(answered, reference, &own, &to_move, Some(150.0));
    }
}

//! The page in the browser, among 10,000 old sessions: from a change to the event on a stream, the memory with 100 open
//! pages, and the cost of an open page while nothing happens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::asking::Kept;
use crate::measure::{ours, percentile};
use crate::promises::Bench;

/// Pages that are open at once.
const PAGES: usize = 100;
/// Duration without any change.
const IDLE: Duration = Duration::from_mins(1);
/// Most memory of the server, in bytes.
const MOST_BYTES: u64 = 60 << 20;
/// Most time from a change to the event, in milliseconds.
const MOST_MS: f64 = 250.0;

/// A server of the page, and the token of a device.
struct Server {
    child: Child,
    port: u16,
    token: String,
}

impl Server {
    fn start(home: &Path) -> Self {
        let mut command = ours(home, &["web", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut link = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut link).expect("a link");
        let (url, code) = link.trim().split_once("/#k=").expect("a link");
        let port = url.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        let mut server = Self { child, port, token: String::new() };
        let body = json!({"code": code}).to_string();
        let head = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let mut stream = server.send("POST /api/pair", &format!("{head}\r\n{body}"));
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let document: Value =
            serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
        document["token"].as_str().expect("a token").clone_into(&mut server.token);
        server
    }

    fn send(&self, line: &str, rest: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a listener");
        let head = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{rest}", self.port);
        stream.write_all(head.as_bytes()).expect("sent");
        stream
    }

    fn get(&self, path: &str) -> BufReader<TcpStream> {
        let rest = format!("Authorization: Bearer {}\r\n\r\n", self.token);
        BufReader::new(self.send(&format!("GET {path}"), &rest))
    }

    fn status(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Returns the ticks that it was at work.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("it lives");
        let behind = stat.rsplit_once(')').expect("a name").1;
        let fields = behind.split_whitespace().skip(11).take(2);
        fields.filter_map(|field| field.parse::<u64>().ok()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Reads a stream until a look shows a session with this status.
fn until(page: &mut BufReader<TcpStream>, id: &str, status: &str) {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(page.read_line(&mut line).expect("an event") > 0, "the stream has ended");
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let data: Value = serde_json::from_str(data).expect("JSON");
        let rows = data["rows"].as_array().into_iter().flatten();
        if rows.into_iter().any(|row| row["id"] == id && row["status"] == status) {
            return;
        }
    }
}

impl Bench<'_> {
    /// The page, with a demo agent that works and rests.
    pub(crate) fn page(&mut self) {
        const WHAT: &str = "page";
        if !self.wanted(WHAT) {
            return;
        }
        let rounds = self.rounds_of_telling() / 2;
        let home = self.largest_home().path.clone();
        let agent = Kept::launch(&home);
        let server = Server::start(&home);
        let mut page = server.get("/api/stream");
        until(&mut page, &agent.id, "idle");
        let mut took = Vec::new();
        for round in 0..rounds {
            let start = Instant::now();
            agent.say(round, "x [[delay:1]] [[say:y]]");
            until(&mut page, &agent.id, "running");
            took.push(start.elapsed());
            until(&mut page, &agent.id, "idle");
        }
        let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|share| percentile(&took, share));
        let result = format!("{p50:.1} ms, p99 {p99:.1} ms, worst {worst:.1} ms");
        let target = format!("p99 at most {MOST_MS:.0} ms");
        self.state(format!("{WHAT}: a change to its event"), result, target, p99 <= MOST_MS);
        let mut pages: Vec<_> = (0..PAGES).map(|_| server.get("/api/stream")).collect();
        for page in &mut pages {
            until(page, &agent.id, "idle");
        }
        let mut history = String::new();
        server.get("/api/sessions?since=all").read_to_string(&mut history).expect("a list");
        let (began, before) = (Instant::now(), server.ticks());
        std::thread::park_timeout(IDLE.saturating_sub(began.elapsed()));
        let (ticks, kilobytes) = (server.ticks() - before, server.status("VmRSS:"));
        let result = format!("{} MB", kilobytes >> 10);
        let what = format!("{WHAT}: resident with {PAGES} pages, after a list of all sessions");
        self.state(what, result, "at most 60 MB".to_owned(), kilobytes << 10 <= MOST_BYTES);
        let what = format!("{WHAT}: idle for {} s with {PAGES} pages", IDLE.as_secs());
        let result = format!("{} ms of CPU", ticks * 10);
        self.state(what, result, "0.0 % of a core".to_owned(), ticks <= 3);
        drop(server);
        drop(agent);
        let _clean = std::fs::remove_dir_all(home.join(".local"));
    }
}

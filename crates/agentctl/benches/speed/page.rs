//! The page in the browser, among 10,000 old sessions: from a change to the event on a stream, the memory with 100 open
//! pages, and the cost of an open page while nothing happens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::asking::Kept;
use crate::measure::{IDLE, idle_cpu_ms, memory_bytes, ours, percentile};
use crate::promises::Bench;

/// Pages that are open at once.
const PAGES: usize = 100;
/// Most memory of the server, in bytes.
const MOST_BYTES: u64 = 60 << 20;
/// Most CPU time of a server with one page to which nothing happens, in milliseconds a minute: 0.0 % of a core.
const MOST_IDLE_MS: f64 = 30.0;
/// Most time of a tap above the command `answer`, in milliseconds.
const MOST_ABOVE_ANSWER_MS: f64 = 300.0;
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
        let mut command = ours(home, &["web", "--listen", "127.0.0.1:0", "--allow-control"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut link = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut link).expect("a link");
        let (url, code) = link.trim().split_once("/#k=").expect("a link");
        let port = url.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        let mut server = Self { child, port, token: String::new() };
        let document = server.post("/api/pair", &json!({"code": code}));
        document["token"].as_str().expect("a token").clone_into(&mut server.token);
        server
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let token = format!("Authorization: Bearer {}\r\n", self.token);
        let token = if self.token.is_empty() { "" } else { &token };
        let head = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        document(self.send(&format!("POST {path}"), &format!("{token}{head}\r\n{body}")))
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
}

/// Reads a reply to its end and returns its document.
fn document(mut reply: impl Read) -> Value {
    let mut text = String::new();
    reply.read_to_string(&mut text).expect("a reply");
    serde_json::from_str(text.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
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
        let bytes = memory_bytes(server.child.id(), "VmRSS:");
        let result = format!("{} MB", bytes >> 20);
        let what = format!("{WHAT}: resident with {PAGES} pages, after a list of all sessions");
        self.state(what, result, "at most 60 MB".to_owned(), bytes <= MOST_BYTES);
        let busy = idle_cpu_ms(server.child.id());
        let what = format!("{WHAT}: CPU time, idle for {} s with {PAGES} pages", IDLE.as_secs());
        self.alone(what, busy);
        drop(pages);
        let busy = idle_cpu_ms(server.child.id());
        let what = format!("{WHAT}: idle for {} s with one page", IDLE.as_secs());
        let result = format!("{busy:.1} ms of CPU");
        self.state(what, result, "0.0 % of a core".to_owned(), busy < MOST_IDLE_MS);
        self.taps(&server, &agent, &home);
        drop(server);
        drop(agent);
        let _clean = std::fs::remove_dir_all(home.join(".local"));
    }

    /// From a tap on Allow to the reply that says that the agent moves, in turn with the command `answer`.
    fn taps(&mut self, server: &Server, agent: &Kept<'_>, home: &Path) {
        let rounds = self.rounds_of_telling() / 4;
        let mut times: [Vec<Duration>; 2] = Default::default();
        for round in 0..2 * rounds {
            agent.say(usize::MAX - round, "x [[permit:true]] [[say:y]]");
            let ask = testkit::eventually("it asks", || {
                let asks = document(server.get("/api/asks"));
                Some(asks["asks"].as_array()?.first()?["id"].as_str()?.to_owned())
            });
            let start = Instant::now();
            if round % 2 == 0 {
                let taken = ours(home, &["answer", &ask, "--allow"]).output().expect("started");
                assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
            } else {
                let reply = server.post("/api/answer", &json!({"ask": ask, "reply": "allow"}));
                assert!(reply["moved"].is_object(), "{reply}");
            }
            times[round % 2].push(start.elapsed());
            agent.rest();
        }
        let [command, taps] = times;
        let what = "page: a tap on Allow until the agent moves".to_owned();
        let most = percentile(&command, 0.99) + MOST_ABOVE_ANSWER_MS;
        self.add_tails(what, "`answer`".to_owned(), &command, &taps, Some(most));
    }
}

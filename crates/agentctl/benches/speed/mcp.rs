//! The MCP server: the time from its start to its tools, a list through it against `agentctl list`, its memory.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::measure::{Beside, IDLE, idle_cpu_ms, median, memory_bytes, ours, repeat};
use crate::promises::Bench;

/// The most time from the start to the list of tools, in milliseconds.
const MOST_START_MS: f64 = 50.0;
/// The most time that a list through the server takes longer than the command, in milliseconds.
const MOST_ABOVE_MS: f64 = 5.0;
/// The most resident memory, in MB.
const MOST_MB: u64 = 25;
/// Calls before the memory is read, and how many of them are under way at once.
const CALLS: usize = 1_000;
const CALLS_AT_ONCE: usize = 100;
/// How long after the last call the memory is read.
const REST: Duration = Duration::from_secs(2);
/// The most CPU time while nothing happens, in milliseconds a minute: 0.0 % of a core.
const MOST_IDLE_MS: f64 = 30.0;

/// A running server.
struct Server {
    process: Beside,
    answers: BufReader<ChildStdout>,
}

impl Server {
    fn start(home: &Path) -> Self {
        let mut command = ours(home, &["mcp"]);
        let mut process = Beside::start(
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()),
        );
        let answers = BufReader::new(process.child.stdout.take().expect("piped"));
        let mut server = Self { process, answers };
        let client = json!({"name": "bench", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        server.ask("initialize", params);
        server
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let input = self.process.child.stdin.as_mut().expect("piped");
        writeln!(input, "{request}").expect("written");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Sends calls of several kinds at once and reads all answers.
    fn mixed(&mut self) {
        for id in 0..CALLS_AT_ONCE {
            let (tool, arguments) = match id % 4 {
                0 => ("list_sessions", json!({})),
                1 => ("list_asks", json!({})),
                2 => ("list_sessions", json!({"limit": 200, "status": ["waiting", "idle"]})),
                _ => ("read_log", json!({"id": "nosuchsession"})),
            };
            let params = json!({"name": tool, "arguments": arguments});
            let call =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            let input = self.process.child.stdin.as_mut().expect("piped");
            writeln!(input, "{call}").expect("written");
        }
        for _ in 0..CALLS_AT_ONCE {
            let mut line = String::new();
            self.answers.read_line(&mut line).expect("an answer");
            assert!(line.contains("\"result\""), "{line}");
        }
    }

    fn list(&mut self) {
        let listed = self.ask("tools/call", json!({"name": "list_sessions", "arguments": {}}));
        assert_eq!(listed["result"]["isError"], false, "{listed}");
    }
}

impl Bench<'_> {
    /// The MCP server.
    pub(crate) fn mcp(&mut self) {
        let start = "mcp: from its start to the list of its tools".to_owned();
        let list = "mcp: `list_sessions`, above `agentctl list`".to_owned();
        let memory = format!(
            "mcp: resident memory at rest after {CALLS} mixed calls, {CALLS_AT_ONCE} at once"
        );
        let idle = format!("mcp: idle for {} s", IDLE.as_secs());
        if ![&start, &list, &memory, &idle].iter().any(|what| self.wanted(what)) {
            return;
        }
        let (runs, home) = (self.options.runs, self.largest_home().path.clone());
        let starts: Vec<Duration> = (0..runs)
            .map(|_| {
                let begun = Instant::now();
                Server::start(&home).ask("tools/list", json!({}));
                begun.elapsed()
            })
            .collect();
        let took = median(starts);
        let target = format!("at most {MOST_START_MS} ms");
        self.state(start, format!("{took:.1} ms"), target, took <= MOST_START_MS);
        let mut server = Server::start(&home);
        let lists: Vec<Duration> = (0..runs)
            .map(|_| {
                let begun = Instant::now();
                server.list();
                begun.elapsed()
            })
            .collect();
        let command = median(repeat(runs, ours(&home, &["list", "--json"]).stdout(Stdio::null())));
        let above = median(lists) - command;
        let result = format!("{above:.1} ms above {command:.1} ms");
        let target = format!("at most {MOST_ABOVE_MS} ms");
        self.state(list, result, target, above <= MOST_ABOVE_MS);
        for _ in 0..CALLS / CALLS_AT_ONCE {
            server.mixed();
        }
        let pid = server.process.child.id();
        std::thread::sleep(REST);
        let resident = memory_bytes(pid, "VmRSS:") >> 20;
        let target = format!("at most {MOST_MB} MB");
        self.state(memory, format!("{resident} MB"), target, resident <= MOST_MB);
        let busy = idle_cpu_ms(pid);
        let result = format!("{busy:.1} ms of CPU");
        self.state(idle, result, "0.0 % of a core".to_owned(), busy < MOST_IDLE_MS);
    }
}

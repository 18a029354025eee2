//! A client of the MCP server for tests: lines of JSON over the pipes of a real process.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use testkit::TestHome;

/// A running server.
pub(crate) struct Mcp {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

/// The request that begins every conversation.
pub(crate) fn initialize(id: u64) -> Value {
    let client = json!({"name": "test", "version": "1"});
    request(
        id,
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
    )
}

/// A request.
pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A call of a tool.
pub(crate) fn tool_call(id: u64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

impl Mcp {
    /// Starts a server without its first request.
    pub(crate) fn raw(home: &TestHome, args: &[&str]) -> Self {
        let mut command = home.command(&[&["mcp"], args].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, input, output, next: 100 }
    }

    /// Starts a server and begins the conversation.
    pub(crate) fn start(home: &TestHome, args: &[&str]) -> Self {
        let mut server = Self::raw(home, args);
        server.send(&initialize(1));
        let welcome = server.message();
        assert_eq!(welcome["result"]["serverInfo"]["name"], "agentctl", "{welcome}");
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    /// Writes one message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Writes bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("written");
    }

    /// Reads one message: every line of the output must be one.
    pub(crate) fn message(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("no protocol: {e}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// Sends a call without waiting for its answer; returns its id.
    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.next += 1;
        self.send(&tool_call(self.next, tool, arguments));
        self.next
    }

    /// Calls a tool and returns its whole result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments);
        let message = self.message();
        assert_eq!(message["id"], id, "{message}");
        message["result"].clone()
    }

    /// Calls a tool and returns its document, which must not be an error.
    pub(crate) fn document(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool and returns its error.
    pub(crate) fn error(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["structuredContent"]["error"].clone()
    }

    /// Returns the tools by name.
    pub(crate) fn tools(&mut self) -> Vec<Value> {
        self.next += 1;
        let list = request(self.next, "tools/list", json!({}));
        self.send(&list);
        self.message()["result"]["tools"].as_array().expect("tools").clone()
    }

    /// Ends the input; returns the messages that were still written and the exit code.
    pub(crate) fn end(mut self) -> (Vec<Value>, Option<i32>) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        let messages = rest.lines().map(|line| serde_json::from_str(line).expect("protocol"));
        let messages = messages.collect();
        (messages, self.child.wait().expect("ended").code())
    }
}

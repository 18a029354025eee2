//! The scripted model server over real sockets on loopback, with a client that shares no code with it.
#![allow(clippy::disallowed_methods, clippy::expect_used)] // it is the outside world

mod answers;
mod manners;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lab::model::{Api, End, Model, Options, Request, Usage};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(2);
/// Far longer than any test may take: a wait for it must be interrupted.
const LONG: &str = "100000";

fn start() -> Model {
    Model::start(Options::default()).expect("a port on loopback")
}

fn connect(model: &Model) -> TcpStream {
    let address = model.url().strip_prefix("http://").expect("an address").to_owned();
    let stream = TcpStream::connect(address).expect("the model listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Returns every event: its name, and its data where that is JSON.
    fn events(&self) -> Vec<(String, Value)> {
        assert!(self.head.contains("content-type: text/event-stream"), "{self:?}");
        let body = self.body.strip_suffix("\n\n").expect("the last event is closed");
        let event = |block: &str| {
            let mut name = String::new();
            let mut data = None;
            for line in block.lines() {
                match line.split_once(": ") {
                    Some(("event", word)) => word.clone_into(&mut name),
                    Some(("data", "[DONE]")) => data = Some(Value::Null),
                    Some(("data", json)) => data = Some(serde_json::from_str(json).expect("JSON")),
                    _ => panic!("neither a name nor data: {line}"),
                }
            }
            (name, data.expect("data"))
        };
        body.split("\n\n").map(event).collect()
    }
}

/// Sends bytes and reads until the server closes.
fn exchange(model: &Model, bytes: &[u8]) -> Reply {
    let mut stream = connect(model);
    stream.write_all(bytes).expect("it reads");
    Reply::of(&rest(&mut stream))
}

fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it closes");
    text
}

fn request(path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = "Host: x\r\nConnection: close\r\nContent-Type: application/json";
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

fn post(model: &Model, path: &str, body: &Value) -> Reply {
    exchange(model, &request(path, body))
}

fn get(model: &Model, path: &str) -> Reply {
    let text = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    exchange(model, text.as_bytes())
}

const ANTHROPIC: &str = "/v1/messages?beta=true";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";

/// A Messages request with this prompt and this many tool results behind it.
fn anthropic(prompt: &str, results: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": prompt})];
    for _ in 0..results {
        messages.push(json!({"role": "assistant", "content": [{"type": "tool_use"}]}));
        let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "out"});
        messages.push(json!({"role": "user", "content": [result]}));
    }
    let schema = json!({"properties": {"command": {"type": "string"}, "description": {}}});
    json!({
        "model": "claude-x", "messages": messages, "metadata": {"user_id": "u_session_s1"},
        "tools": [{"name": "Read"}, {"name": "Bash", "input_schema": schema}],
    })
}

/// A Responses request with this prompt and this many tool results behind it.
fn responses(prompt: &str, results: usize) -> Value {
    let content = json!([{"type": "input_text", "text": prompt}]);
    let mut input = vec![json!({"type": "message", "role": "user", "content": content})];
    for _ in 0..results {
        input.push(json!({"type": "function_call_output", "call_id": "c", "output": "out"}));
    }
    let parameters = json!({"properties": {"cmd": {"type": "string"}}});
    let tool = json!({"type": "function", "name": "exec_command", "parameters": parameters});
    json!({"model": "gpt-x", "input": input, "prompt_cache_key": "k1", "tools": [tool]})
}

/// A chat request with this prompt and this many tool results behind it.
fn chat(prompt: &str, results: usize) -> Value {
    let mut messages = vec![
        json!({"role": "system", "content": "s"}),
        json!({"role": "user", "content": [{"type": "text", "text": prompt}]}),
    ];
    for _ in 0..results {
        messages.push(json!({"role": "tool", "tool_call_id": "c", "content": "out"}));
    }
    let parameters = json!({
        "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
        "required": ["command", "timeout"],
    });
    let tool = json!({"type": "function", "function": {"name": "bash", "parameters": parameters}});
    json!({"model": "chat-x", "messages": messages, "user": "k2", "tools": [tool]})
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

/// Joins the texts of the events of this name at this place.
fn joined(events: &[(String, Value)], name: &str, place: &str) -> String {
    let of = events.iter().filter(|(n, _)| n == name);
    of.filter_map(|(_, data)| data.pointer(place).and_then(Value::as_str)).collect()
}

fn the_only(model: &Model) -> Request {
    let requests = model.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    requests[0].clone()
}

fn ended(requests: &[Request]) -> bool {
    requests.iter().all(|request| request.end != End::Open)
}

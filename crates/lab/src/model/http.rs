//! Just enough HTTP/1.1 for agents' clients: bodies with a length or in chunks, keep-alive, events.
//!
//! Streams of events end with the connection, so that a cut looks like a broken proxy.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use serde_json::Value;
use uuid::Uuid;

/// Longest body that is read: agents send a few megabytes at most.
const MAX_BODY_BYTES: usize = 64 << 20;
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 128;
/// Longest size line of a chunk: a few digits, with room for extensions.
const MAX_CHUNK_LINE_BYTES: usize = 1 << 10;

/// One request, read to its end.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) method: String,
    /// Without its query.
    pub(super) path: String,
    pub(super) body: Vec<u8>,
    pub(super) keep_alive: bool,
}

/// Why no request could be read.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The bytes are not a request: the answer has this status and text.
    Bad(u16, String),
    /// The connection is of no more use.
    Lost,
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

fn bad(why: impl ToString) -> Trouble {
    Trouble::Bad(400, why.to_string())
}

fn too_large() -> Trouble {
    Trouble::Bad(413, "the body is too large".to_owned())
}

/// The head of a request.
struct Head {
    method: String,
    path: String,
    keep_alive: bool,
    body: Framing,
    expects_continue: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// A client's connection, and the bytes that it has sent ahead.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    ahead: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, ahead: Vec::new() }
    }

    /// Reads the next request; `None` when the client has closed after the last one.
    pub(super) fn receive(&mut self) -> Result<Option<Incoming>, Trouble> {
        let head = loop {
            if let Some((head, length)) = parse_head(&self.ahead)? {
                self.ahead.drain(..length);
                break head;
            }
            if self.ahead.len() > MAX_HEAD_BYTES {
                return Err(Trouble::Bad(431, "the head is too large".to_owned()));
            }
            if self.fill()? == 0 {
                let finished = self.ahead.is_empty();
                return if finished { Ok(None) } else { Err(bad("the head ends early")) };
            }
        };
        if matches!(head.body, Framing::Length(length) if length > MAX_BODY_BYTES) {
            return Err(too_large());
        }
        if head.expects_continue && self.ahead.is_empty() {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let body = match head.body {
            Framing::Length(length) => self.take(length)?,
            Framing::Chunked => self.chunks()?,
        };
        let Head { method, path, keep_alive, .. } = head;
        Ok(Some(Incoming { method, path, body, keep_alive }))
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut block = [0; 16 << 10];
        loop {
            match self.stream.read(&mut block) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
                Ok(count) => {
                    self.ahead.extend_from_slice(&block[..count]);
                    return Ok(count);
                }
            }
        }
    }

    /// Takes exactly this many bytes.
    fn take(&mut self, length: usize) -> Result<Vec<u8>, Trouble> {
        while self.ahead.len() < length {
            if self.fill()? == 0 {
                return Err(bad("the body ends early"));
            }
        }
        let rest = self.ahead.split_off(length);
        Ok(std::mem::replace(&mut self.ahead, rest))
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Trouble> {
        let mut body = Vec::new();
        loop {
            let size = self.chunk_size()?;
            if size == 0 {
                break;
            }
            if size > MAX_BODY_BYTES - body.len() {
                return Err(too_large());
            }
            body.append(&mut self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(bad("a chunk is longer than it says"));
            }
        }
        // Trailers: lines up to an empty one, which are not used.
        while self.line()? != b"\r\n" {}
        Ok(body)
    }

    fn chunk_size(&mut self) -> Result<usize, Trouble> {
        let line = self.line()?;
        match httparse::parse_chunk_size(&line) {
            Ok(httparse::Status::Complete((_, size))) => {
                usize::try_from(size).map_err(|_| too_large())
            }
            _ => Err(bad("a chunk has no size")),
        }
    }

    /// Takes a line with its end.
    fn line(&mut self) -> Result<Vec<u8>, Trouble> {
        loop {
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                return self.take(end + 1);
            }
            if self.ahead.len() > MAX_CHUNK_LINE_BYTES {
                return Err(bad("a line between chunks is too long"));
            }
            if self.fill()? == 0 {
                return Err(bad("the body ends early"));
            }
        }
    }

    /// Answers with a JSON document, whole.
    pub(super) fn send_json(&mut self, answer: &Json<'_>) -> io::Result<()> {
        let (mut text, body) = answer.text();
        if answer.method != "HEAD" {
            text.push_str(&body);
        }
        self.stream.write_all(text.as_bytes())
    }

    /// Promises a whole JSON document and sends half of it.
    pub(super) fn send_half(&mut self, answer: &Json<'_>) -> io::Result<()> {
        let (text, body) = answer.text();
        self.stream.write_all(text.as_bytes())?;
        self.stream.write_all(&body.as_bytes()[..body.len() / 2])
    }

    /// Begins an answer of events; it ends with the connection.
    pub(super) fn begin_events(&mut self) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
             request-id: {}\r\nConnection: close\r\n\r\n",
            id("req_")
        );
        self.stream.write_all(head.as_bytes())
    }

    pub(super) fn send_event(&mut self, name: Option<&str>, data: &str) -> io::Result<()> {
        let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        self.stream.write_all(format!("{name}data: {data}\n\n").as_bytes())
    }

    /// Waits until the client closes, or the connection is shut down; further input is discarded.
    pub(super) fn wait_for_close(&mut self) {
        drop(io::copy(&mut self.stream, &mut io::sink()));
    }

    /// Closes our side and lets the client finish: closing the connection at once would discard the
    /// answer for a client that is still sending.
    pub(super) fn close_gently(&mut self) {
        drop(self.stream.shutdown(Shutdown::Write));
        self.wait_for_close();
    }
}

/// An answer that is one JSON document.
#[derive(Debug)]
pub(super) struct Json<'a> {
    /// Of the request: a HEAD is answered without the document.
    pub(super) method: &'a str,
    pub(super) status: u16,
    pub(super) body: &'a Value,
    pub(super) keep_alive: bool,
}

impl Json<'_> {
    /// Returns the head and the body.
    fn text(&self) -> (String, String) {
        let body = self.body.to_string();
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nrequest-id: {}\r\n\
             Content-Length: {}\r\n",
            self.status,
            reason(self.status),
            id("req_"),
            body.len()
        );
        if self.status == 429 {
            head.push_str("retry-after: 1\r\n");
        }
        if !self.keep_alive {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        (head, body)
    }
}

/// Makes an identifier such as the real services give.
pub(super) fn id(prefix: &str) -> String {
    let hex = Uuid::new_v4().simple().to_string();
    format!("{prefix}{}", &hex[..24])
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Scripted",
    }
}

/// Reads a head and says how long it is; `None` while it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Trouble> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(bytes).map_err(bad)? else {
        return Ok(None);
    };
    let (mut size, mut chunked, mut expects_continue) = (None, false, false);
    let mut keep_alive = request.version == Some(1);
    for header in request.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" => {
                // Digits only: `parse` alone would take `+5`.
                let digits = value.bytes().all(|byte| byte.is_ascii_digit());
                let length = value.parse::<usize>().ok().filter(|_| digits);
                let length = length.ok_or_else(|| bad("the length of the body is no number"))?;
                if size.is_some_and(|earlier| earlier != length) {
                    return Err(bad("the body has two lengths"));
                }
                size = Some(length);
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => chunked = true,
            "transfer-encoding" => return Err(bad("the body is encoded for transfer")),
            "content-encoding" if !value.eq_ignore_ascii_case("identity") => {
                return Err(Trouble::Bad(415, format!("the body is encoded: {value}")));
            }
            "connection" if value.eq_ignore_ascii_case("close") => keep_alive = false,
            "expect" => expects_continue = value.eq_ignore_ascii_case("100-continue"),
            _ => {}
        }
    }
    let body = match (chunked, size) {
        (true, Some(_)) => return Err(bad("the body has a length and chunks")),
        (true, None) => Framing::Chunked,
        (false, size) => Framing::Length(size.unwrap_or(0)),
    };
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    let head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        keep_alive,
        body,
        expects_continue,
    };
    Ok(Some((head, length)))
}

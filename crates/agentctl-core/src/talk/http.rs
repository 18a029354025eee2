//! One plain HTTP request to a server on the loopback.
//!
//! Limited in time and size. No other address is used and no redirect is followed, so that a password
//! reaches only the process that it belongs to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{TalkError, base64, check_listener};
use crate::kernel::Kernel;

/// Largest answer that is accepted.
const MAX_HTTP_ANSWER_BYTES: usize = 8 << 20;

/// A server on the loopback, and the login for it.
#[derive(Clone)]
pub struct Http {
    /// Its address.
    pub at: SocketAddr,
    /// User and password, if it requires them.
    pub login: Option<(String, String)>,
    /// Finds the user that serves the connection, before the password is sent.
    pub kernel: Kernel,
}

impl Http {
    /// Sends a GET request.
    pub fn get(&self, path: &str, limit: Duration) -> Result<Value, TalkError> {
        self.ask("GET", path, None, limit)
    }

    /// Sends a POST request without a body.
    pub fn post(&self, path: &str, limit: Duration) -> Result<Value, TalkError> {
        self.ask("POST", path, None, limit)
    }

    /// Sends a POST request with a JSON body.
    pub fn post_json(&self, path: &str, body: &Value, limit: Duration) -> Result<Value, TalkError> {
        self.ask("POST", path, Some(body), limit)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        limit: Duration,
    ) -> Result<Value, TalkError> {
        let until = Instant::now() + limit;
        if !self.at.ip().is_loopback() {
            return Err(TalkError::Protocol("it does not listen on the loopback".into()));
        }
        if path.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(TalkError::Protocol("the path cannot be asked for".into()));
        }
        let mut stream =
            TcpStream::connect_timeout(&self.at, limit).map_err(TalkError::Unreachable)?;
        if self.login.is_some() {
            check_listener(&self.kernel, &stream)?;
        }
        let login = self.login.as_ref().map(|(user, password)| {
            let both = base64::encode(format!("{user}:{password}").as_bytes());
            format!("Authorization: Basic {both}\r\n")
        });
        let content = body.map(Value::to_string).unwrap_or_default();
        let length = match (method, body) {
            (_, Some(_)) => {
                format!("Content-Type: application/json\r\nContent-Length: {}\r\n", content.len())
            }
            ("POST", None) => "Content-Length: 0\r\n".to_owned(),
            _ => String::new(),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{}{length}Accept: application/json\r\n\
             Connection: close\r\n\r\n{content}",
            self.at,
            login.unwrap_or_default()
        );
        stream.set_write_timeout(Some(left(until)?)).map_err(TalkError::Unreachable)?;
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let answer = read(&mut stream, until)?;
        answer_body(&answer)
    }
}

fn left(until: Instant) -> Result<Duration, TalkError> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(TalkError::Late) } else { Ok(left) }
}

fn failed(error: std::io::Error) -> TalkError {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => TalkError::Late,
        _ => TalkError::Unreachable(error),
    }
}

/// Reads until the answer is complete or the connection is closed.
fn read(stream: &mut TcpStream, until: Instant) -> Result<Vec<u8>, TalkError> {
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        stream.set_read_timeout(Some(left(until)?)).map_err(TalkError::Unreachable)?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(answer),
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        }
        if answer.len() > MAX_HTTP_ANSWER_BYTES {
            return Err(TalkError::Protocol("its answer is too large".into()));
        }
        // Stop once the answer is complete: the server may keep the connection open.
        if whole(&answer) {
            return Ok(answer);
        }
    }
}

/// The head of an answer, and the offset of its body.
struct Head<'a> {
    status: u16,
    fields: Vec<(&'a str, &'a str)>,
    end: usize,
}

impl Head<'_> {
    fn of(answer: &[u8]) -> Option<Head<'_>> {
        let end = memchr::memmem::find(answer, b"\r\n\r\n")? + 4;
        let text = std::str::from_utf8(&answer[..end]).ok()?;
        let mut lines = text.lines();
        let first = lines.next()?.strip_prefix("HTTP/1.")?;
        let status = first.split_ascii_whitespace().nth(1)?.parse().ok()?;
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.trim(), value.trim())).collect();
        Some(Head { status, fields, end })
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    fn is_chunked(&self) -> bool {
        self.field("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"))
    }
}

fn whole(answer: &[u8]) -> bool {
    let Some(head) = Head::of(answer) else { return false };
    let body = &answer[head.end..];
    if head.is_chunked() {
        return unchunked(body).is_some();
    }
    let length = head.field("content-length").and_then(|v| v.parse::<usize>().ok());
    length.is_some_and(|length| body.len() >= length)
}

fn answer_body(answer: &[u8]) -> Result<Value, TalkError> {
    let nonsense = |why: &str| TalkError::Protocol(why.to_owned());
    let head = Head::of(answer).ok_or_else(|| nonsense("it is no HTTP answer"))?;
    let body = &answer[head.end..];
    let length = head.field("content-length").and_then(|v| v.parse::<usize>().ok());
    let body = match length {
        _ if head.is_chunked() => {
            unchunked(body).ok_or_else(|| nonsense("its answer was cut off"))?
        }
        Some(length) => {
            body.get(..length).ok_or_else(|| nonsense("its answer was cut off"))?.to_vec()
        }
        None => body.to_vec(),
    };
    match head.status {
        200..=299 if body.is_empty() => Ok(Value::Null),
        200..=299 => serde_json::from_slice(&body).map_err(|e| TalkError::Protocol(e.to_string())),
        401 | 403 => Err(TalkError::Refused("it wants another password".into())),
        404 => Err(TalkError::NotFound),
        status => Err(TalkError::Refused(format!("HTTP {status}"))),
    }
}

/// Joins the chunks of a body; `None` if the last is missing.
fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = memchr::memmem::find(rest, b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        let chunk = rest.get(line + 2..)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunk.get(..size)?);
        rest = chunk.get(size.checked_add(2)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Starts a server that reads one request and answers with these bytes; its thread returns the request.
    fn answering(bytes: &'static [u8]) -> (Http, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let at = listener.local_addr().expect("an address");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accepted");
            let mut asked = Vec::new();
            let mut buffer = [0; 1024];
            while !is_whole_request(&asked) {
                let count = stream.read(&mut buffer).expect("read");
                asked.extend_from_slice(&buffer[..count]);
            }
            stream.write_all(bytes).expect("written");
            String::from_utf8_lossy(&asked).into_owned()
        });
        (Http { at, login: None, kernel: kernel() }, server)
    }

    /// Says whether the head and as much of the body as it announces were read.
    fn is_whole_request(asked: &[u8]) -> bool {
        let text = String::from_utf8_lossy(asked);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0)
    }

    fn kernel() -> Kernel {
        Kernel::open().expect("a kernel")
    }

    const SHORT: Duration = Duration::from_secs(20);

    #[test]
    fn an_answer_of_any_form_is_read() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}";
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4;x=y\r\n\":1}\r\n0\r\n\r\n";
        let open = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":1}";
        for bytes in [&plain[..], chunked, open] {
            let (mut http, server) = answering(bytes);
            http.login = Some(("opencode".into(), "p".into()));
            assert_eq!(http.get("/x?directory=%2Fa", SHORT).expect("answered")["a"], 1);
            let asked = server.join().expect("served");
            assert!(asked.starts_with("GET /x?directory=%2Fa HTTP/1.1\r\n"), "{asked}");
            assert!(asked.contains("Authorization: Basic b3BlbmNvZGU6cA==\r\n"), "{asked}");
        }
    }

    #[test]
    fn a_body_is_sent_as_json_and_an_unknown_resource_is_told_apart() {
        let (http, server) = answering(b"HTTP/1.1 204 No Content\r\n\r\n");
        let body = serde_json::json!({ "reply": "once" });
        assert_eq!(http.post_json("/x", &body, SHORT).expect("taken"), Value::Null);
        let asked = server.join().expect("served");
        assert!(
            asked.contains("Content-Type: application/json\r\nContent-Length: 16\r\n"),
            "{asked}"
        );
        let (http, server) = answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}");
        let refused = http.post_json("/x", &body, SHORT);
        assert!(matches!(refused, Err(TalkError::NotFound)), "{refused:?}");
        server.join().expect("served");
    }

    #[test]
    fn a_refusal_a_redirect_and_nonsense_are_no_answers() {
        let says = |bytes: &'static [u8]| {
            let (http, server) = answering(bytes);
            let said = http.post("/x", SHORT).expect_err("refused").to_string();
            server.join().expect("served");
            said
        };
        assert!(says(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n").contains("password"));
        let moved =
            b"HTTP/1.1 302 Found\r\nLocation: http://example.org/\r\nContent-Length: 0\r\n\r\n";
        assert!(says(moved).contains("302"));
        assert!(says(b"SSH-2.0-OpenSSH_9\r\n\r\n").contains("no HTTP"));
        assert!(says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{").contains("cut off"));
        assert!(says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{").contains("invalid answer"));
    }

    #[test]
    fn a_mute_server_times_out_and_only_the_loopback_is_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let at = listener.local_addr().expect("an address");
        let mute = Http { at, login: None, kernel: kernel() };
        let late = mute.get("/", Duration::from_millis(50));
        assert!(matches!(late, Err(TalkError::Late)), "{late:?}");
        let far = Http { at: "192.0.2.1:80".parse().expect("an address"), ..mute.clone() };
        assert!(matches!(far.get("/", SHORT), Err(TalkError::Protocol(_))));
        let smuggled = mute.get("/ HTTP/1.1\r\nX: y", SHORT);
        assert!(matches!(smuggled, Err(TalkError::Protocol(_))), "{smuggled:?}");
    }

    /// S6: a password is not sent to a listener of another user. Only root can create one here; an ordinary
    /// user checks that its own listener is asked.
    #[test]
    fn a_password_is_sent_to_no_other_user() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let at = listener.local_addr().expect("an address");
        let other = rustix::fs::Uid::from_raw(4242);
        let login = Some(("opencode".into(), "hush".into()));
        let server = Http { at, login, kernel: kernel() };
        if rustix::fs::fchown(&listener, Some(other), None).is_err() {
            let asked = server.get("/", Duration::from_millis(50));
            assert!(matches!(asked, Err(TalkError::Late)), "{asked:?}");
            return;
        }
        let refused = server.get("/", SHORT);
        assert!(matches!(refused, Err(TalkError::Stranger(Some(4242)))), "{refused:?}");
        let (mut stream, _) = listener.accept().expect("accepted");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("read");
        assert!(heard.is_empty(), "{heard:?}");
    }
}

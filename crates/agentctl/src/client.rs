//! The client of the daemon's socket.
//!
//! Every command can answer by itself; it asks the daemon where that is faster, or for events. The daemon is
//! asked only if it has the same fingerprint: same home, configuration and program. Connections and answers
//! have timeouts, and lines a maximum length.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use agentctl_core::adapters::ALL;
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::host::{BASE_DIRECTORIES, Gateway, Host, Secret};
use agentctl_core::kernel::Process;
use agentctl_core::marks;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::place::{ConnectError, Place};
use crate::protocol::{Encoding, Hello, PROTOCOL, PackedList, Refusal, Request, Welcome};
use crate::ui::Ui;

/// A command that can answer by itself waits for `hello` this fraction of `[deadline] live`: 200 ms by default.
const HELLO_FRACTION: u32 = 10;
/// Timeout for `hello` where a command needs the daemon.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of an answer. The packed list of 100,000 small sessions has a fraction of it.
const MAX_ANSWER_BYTES: usize = 128 << 20;
/// Maximum number of rows in an answer: a row needs more memory than its bytes.
const MAX_ROWS: usize = 1_000_000;
/// Pause before reconnecting after the daemon closed the connection before its `hello`: it may be ending.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

/// Returns a hash of everything that decides the answers of this process: program, home, user, settings,
/// variables. A daemon with another hash could answer differently.
#[must_use]
pub fn fingerprint(host: &Host) -> String {
    let mut text = ring::digest::Context::new(&ring::digest::SHA256);
    let mut add = |part: &str| {
        text.update(&(part.len() as u64).to_le_bytes());
        text.update(part.as_bytes());
    };
    add(env!("CARGO_PKG_VERSION"));
    add(&identity(&host.program));
    add(&host.home.to_string_lossy());
    add(&identity(&host.home));
    add(&format!(
        "{} {} {}",
        host.kernel.boot_id(),
        host.kernel.pid_namespace(),
        host.kernel.uid()
    ));
    add(&format!("{:?} {:?} {:?}", host.deadlines, host.roots, host.settings));
    for gateway in host.gateways.values().flatten() {
        add(&gateway_text(host, gateway));
    }
    let declared = ALL.iter().flat_map(|adapter| adapter.variables().answers);
    let deciding: BTreeSet<&str> = BASE_DIRECTORIES.iter().chain(declared).copied().collect();
    for name in deciding {
        let Some(value) = host.env.get(name) else { continue };
        add(&format!("{name}={value}"));
        // A relative path depends on the working directory.
        if !value.starts_with('/') {
            add(&host.cwd.to_string_lossy());
        }
    }
    format!("{:?}", text.finish())
}

/// Returns the identity of a file: equal for two paths of one unchanged file.
fn identity(path: &std::path::Path) -> String {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => format!("{} {}", meta.dev(), meta.ino()),
        Ok(meta) => format!(
            "{} {} {} {}.{}",
            meta.dev(),
            meta.ino(),
            meta.size(),
            meta.mtime(),
            meta.mtime_nsec()
        ),
        Err(error) => error.kind().to_string(),
    }
}

fn gateway_text(host: &Host, gateway: &Gateway) -> String {
    let token = match &gateway.token {
        Some(Secret::Text(text)) => text.clone(),
        Some(Secret::Variable(name)) => format!("{name}={:?}", host.var(name)),
        Some(Secret::File(path)) => path.display().to_string(),
        None => String::new(),
    };
    let flags = (gateway.insecure, gateway.admin, &gateway.ca_file, &gateway.name);
    format!("{} {flags:?} {token}", gateway.url)
}

/// Why there is no answer from the daemon.
#[derive(Debug)]
pub enum ClientError {
    /// No daemon runs.
    NotRunning,
    /// The listener may not be a daemon of this user; it is treated as no daemon.
    Untrusted(String),
    /// Timeout: a daemon listens and does not answer.
    TimedOut,
    /// The daemon's connections are all in use.
    Busy,
    /// The daemon speaks another protocol version.
    OtherVersion(String),
    /// The daemon answered with an error.
    Refused(Refusal),
    /// The connection broke.
    Connection(io::Error),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRunning => write!(f, "no daemon runs"),
            Self::Untrusted(why) => {
                write!(f, "no daemon is asked: {why}, so what listens there is not believed")
            }
            Self::TimedOut => write!(f, "the daemon does not answer"),
            Self::Busy => write!(f, "the daemon is busy: all its connections are in use"),
            Self::OtherVersion(why) => write!(f, "the daemon is of another version: {why}"),
            Self::Refused(refusal) => write!(f, "the daemon refused: {}", refusal.message),
            Self::Connection(error) => write!(f, "the daemon could not be asked: {error}"),
        }
    }
}

impl ClientError {
    /// Warns if a listener is there that is not believed to be this user's daemon.
    pub fn warn_if_untrusted(&self, ui: &mut Ui) {
        if matches!(self, Self::Untrusted(_)) {
            ui.warn(&self.to_string());
        }
    }
}

impl From<ConnectError> for ClientError {
    fn from(why: ConnectError) -> Self {
        match why {
            ConnectError::NoListener => Self::NotRunning,
            ConnectError::Untrusted(why) => Self::Untrusted(why),
            ConnectError::TimedOut => Self::TimedOut,
        }
    }
}

/// The process that listens on the socket, found through the kernel, so also if it does not answer.
#[derive(Debug)]
pub enum Server {
    /// No listener, or its process is unknown.
    Unknown,
    /// The daemon.
    Daemon(Box<Process>),
    /// A process that is not the daemon.
    Other(u32),
}

/// Returns the process that listens on the socket.
#[must_use]
pub fn server(host: &Host, place: &Place) -> Server {
    let Ok(stream) = place.connect(Instant::now() + host.deadlines.live / HELLO_FRACTION) else {
        return Server::Unknown;
    };
    let Ok(Some(process)) = host.kernel.peer(&stream) else { return Server::Unknown };
    // The pid may have been reused: also check the arguments, and the program or the open lock file.
    let says_so = matches!(
        process.argv.as_slice(), [_, room, word, ..] if room == "daemon" && word == "run"
    );
    let is_ours = process.exe.as_deref() == Some(host.program.as_path());
    if says_so && (is_ours || place.is_held_open(host, process.id.pid)) {
        Server::Daemon(Box::new(process))
    } else {
        Server::Other(process.id.pid)
    }
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    /// The daemon's answer to `hello`.
    pub welcome: Welcome,
}

#[derive(Debug)]
struct Wire {
    stream: BufReader<UnixStream>,
    next: u64,
}

/// A request in its frame.
#[derive(Serialize)]
struct OutgoingCall<'a> {
    jsonrpc: &'static str,
    id: u64,
    #[serde(flatten)]
    request: &'a Request,
}

#[derive(Deserialize)]
struct Reply<T> {
    // Otherwise a result that is `null` would count as missing.
    #[serde(default = "Option::default")]
    result: Option<T>,
    #[serde(default)]
    error: Option<Refusal>,
}

/// Parses an answer.
fn answer<T: DeserializeOwned>(line: &[u8]) -> Result<T, ClientError> {
    let reply: Reply<T> = serde_json::from_slice(line).map_err(invalid)?;
    match (reply.result, reply.error) {
        (_, Some(refusal)) => Err(ClientError::Refused(refusal)),
        (Some(result), None) => Ok(result),
        (None, None) => Err(invalid("it answered neither yes nor no")),
    }
}

impl Client {
    /// Connects and sends `hello`. Both together have one timeout.
    pub fn connect(place: &Place, limit: Duration) -> Result<Self, ClientError> {
        let until = Instant::now() + limit;
        let hello = Request::Hello(Hello { protocol: PROTOCOL, encoding: Encoding::Postcard });
        loop {
            let stream = place.connect(until)?;
            let mut wire = Wire { stream: BufReader::with_capacity(1 << 16, stream), next: 0 };
            let left = until.saturating_duration_since(Instant::now());
            match wire.call(&hello, left) {
                Ok(welcome) => return Ok(Self { wire, welcome }),
                Err(ClientError::Refused(refusal)) if refusal.code == Refusal::BUSY => {
                    return Err(ClientError::Busy);
                }
                Err(ClientError::Refused(refusal)) => {
                    return Err(ClientError::OtherVersion(refusal.message));
                }
                // Either the daemon was ending, and a new connection finds none; or it is full.
                Err(ClientError::Connection(error)) if is_closed_by_peer(&error) => {
                    if Instant::now() >= until {
                        return Err(ClientError::Busy);
                    }
                    std::thread::park_timeout(RECONNECT_PAUSE);
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Connects to a daemon with our fingerprint, if there is one. Fails only if the socket is not trusted.
    pub fn of_the_same_world(host: &Host) -> Result<Option<Self>, ClientError> {
        if host.var(marks::NO_DAEMON).is_some() {
            return Ok(None);
        }
        match Self::connect(&Place::of(host), host.deadlines.live / HELLO_FRACTION) {
            Ok(client) if client.welcome.fingerprint == fingerprint(host) => Ok(Some(client)),
            Err(ClientError::Untrusted(why)) => Err(ClientError::Untrusted(why)),
            _ => Ok(None),
        }
    }

    /// Sends a request and parses the answer.
    pub fn call<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        limit: Duration,
    ) -> Result<T, ClientError> {
        self.wire.call(request, limit)
    }

    /// Lists sessions. The rows come packed, as the daemon has them.
    pub fn list(&mut self, query: &Query, limit: Duration) -> Result<Rows, ClientError> {
        if self.welcome.encoding != Encoding::Postcard {
            return Err(invalid("it does not send packed lists"));
        }
        let until = Instant::now() + limit;
        let request = Request::SessionList(query.clone());
        let PackedList { faults, frames } = self.wire.call(&request, limit)?;
        let mut rows = Rows::of(&[]);
        rows.faults = faults;
        let mut allowed = MAX_ANSWER_BYTES;
        for _ in 0..frames {
            let frame = self.wire.frame(until, allowed)?;
            allowed -= frame.len();
            rows.add_encoded(&frame, MAX_ROWS).map_err(invalid)?;
        }
        Ok(rows)
    }

    /// Returns a handle with which the connection can be ended from another thread.
    pub fn handle(&self) -> io::Result<UnixStream> {
        self.wire.stream.get_ref().try_clone()
    }

    /// Reads the next notification; without a limit it waits for ever.
    pub fn line(&mut self, limit: Option<Duration>) -> Result<Vec<u8>, ClientError> {
        self.wire.line(limit.map(|limit| Instant::now() + limit))
    }
}

impl Wire {
    fn call<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        limit: Duration,
    ) -> Result<T, ClientError> {
        answer(&self.ask(request, limit)?)
    }

    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Vec<u8>, ClientError> {
        let until = Instant::now() + limit;
        self.next += 1;
        let call = OutgoingCall { jsonrpc: "2.0", id: self.next, request };
        let call = serde_json::to_string(&call).map_err(invalid)?;
        let stream = self.stream.get_mut();
        // A timeout of zero is an error.
        let limit = limit.max(Duration::from_millis(1));
        stream.set_write_timeout(Some(limit)).map_err(ClientError::Connection)?;
        let sent = stream.write_all(format!("{call}\n").as_bytes());
        // Also read after a failed write: the daemon may have sent a reason before it closed.
        match (self.line(Some(until)), sent) {
            (Ok(line), _) => Ok(line),
            (Err(_), Err(error)) => Err(timeout_or_error(error)),
            (Err(error), Ok(())) => Err(error),
        }
    }

    /// Reads one frame: its length in four bytes, the lowest first, and that many bytes.
    fn frame(&mut self, until: Instant, allowed: usize) -> Result<Vec<u8>, ClientError> {
        let length = self.exactly(4, until)?;
        let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
        match usize::try_from(length) {
            Ok(length) if length <= allowed => self.exactly(length, until),
            _ => Err(too_long()),
        }
    }

    /// Reads this many bytes. Memory is taken as they arrive.
    fn exactly(&mut self, length: usize, until: Instant) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let buffer = self.fill(Some(until))?;
            let used = buffer.len().min(length - bytes.len());
            bytes.extend_from_slice(&buffer[..used]);
            self.stream.consume(used);
        }
        Ok(bytes)
    }

    /// Returns bytes that have arrived, at least one; waits for it until this moment, or for ever.
    fn fill(&mut self, until: Option<Instant>) -> Result<&[u8], ClientError> {
        while self.stream.buffer().is_empty() {
            let left = until.map(|u| u.saturating_duration_since(Instant::now()));
            if left.is_some_and(|l| l.is_zero()) {
                return Err(ClientError::TimedOut);
            }
            self.stream.get_mut().set_read_timeout(left).map_err(ClientError::Connection)?;
            match self.stream.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(timeout_or_error(error)),
                Ok([]) => return Err(ClientError::Connection(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
            }
        }
        Ok(self.stream.buffer())
    }

    fn line(&mut self, until: Option<Instant>) -> Result<Vec<u8>, ClientError> {
        let mut line = Vec::new();
        loop {
            let buffer = self.fill(until)?;
            let end = memchr::memchr(b'\n', buffer);
            let used = end.map_or(buffer.len(), |at| at + 1);
            line.extend_from_slice(&buffer[..end.unwrap_or(used)]);
            self.stream.consume(used);
            if line.len() > MAX_ANSWER_BYTES {
                return Err(too_long());
            }
            if end.is_some() {
                return Ok(line);
            }
        }
    }
}

fn is_closed_by_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Maps a timeout to `TimedOut`, any other error to `Connection`.
fn timeout_or_error(error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::TimedOut,
        _ => ClientError::Connection(error),
    }
}

fn too_long() -> ClientError {
    invalid(format!("its answer is longer than {MAX_ANSWER_BYTES} bytes or {MAX_ROWS} rows"))
}

fn invalid(why: impl ToString) -> ClientError {
    ClientError::Connection(io::Error::other(why.to_string()))
}

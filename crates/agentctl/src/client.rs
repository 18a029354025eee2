//! The client of the daemon's socket.
//!
//! Every command can answer by itself; it asks the daemon where that is faster, or for events. The daemon is
//! asked only if it has the same fingerprint: same home, configuration and program. Connections and answers
//! have timeouts, and lines a maximum length.

pub mod start;
mod wire;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use agentctl_core::adapters::ALL;
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::host::{BASE_DIRECTORIES, Gateway, Host, Secret};
use agentctl_core::kernel::Process;
use agentctl_core::marks;
use serde::de::DeserializeOwned;

use self::wire::Wire;
use crate::place::{ConnectError, Place};
use crate::protocol::{
    Encoding, Hello, Notification, PROTOCOL, PackedList, Refusal, Request, Welcome,
};

/// A command that can answer by itself waits for `hello` this fraction of `[deadline] live`: 200 ms by default.
const HELLO_FRACTION: u32 = 10;
/// Timeout for `hello` where a command needs the daemon.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of an answer. The packed list of 100,000 small sessions has a fraction of it.
const MAX_ANSWER_BYTES: usize = 128 << 20;
/// Maximum number of rows in an answer: a row needs more memory than its bytes.
const MAX_ROWS: usize = 1_000_000;
/// Pause before reconnecting after the daemon closed the connection before its `hello`: it may be ending.
const HELLO_RETRY_PAUSE: Duration = Duration::from_millis(20);

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
    let rights = (gateway.insecure, gateway.admin, gateway.approvals);
    let flags = (rights, &gateway.ca_file, &gateway.name);
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
    /// The answer is not one of this program's daemon.
    Invalid(String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRunning => write!(f, "the daemon is not running"),
            Self::Untrusted(why) => {
                write!(f, "the daemon is not asked: {why}, so its socket is not trusted")
            }
            Self::TimedOut => write!(f, "the daemon does not answer"),
            Self::Busy => write!(f, "the daemon is busy: all its connections are in use"),
            Self::OtherVersion(why) => write!(f, "the daemon is of another version: {why}"),
            Self::Refused(refusal) => write!(f, "the daemon refused: {}", refusal.message),
            Self::Connection(error) => write!(f, "the daemon could not be asked: {error}"),
            Self::Invalid(why) => write!(f, "the daemon could not be asked: {why}"),
        }
    }
}

impl ClientError {
    /// Returns the warning for a listener that is not believed to be this user's daemon. Without a listener there
    /// is none.
    #[must_use]
    pub fn untrusted_warning(&self) -> Option<String> {
        matches!(self, Self::Untrusted(_)).then(|| self.to_string())
    }

    /// Says whether the daemon closed the connection: it may have ended, and the next one may answer.
    #[must_use]
    pub fn is_closed_by_peer(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        let closed = |kind| matches!(kind, BrokenPipe | ConnectionReset | UnexpectedEof);
        matches!(self, Self::Connection(error) if closed(error.kind()))
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
    let says_so = marks::is_daemon(&process);
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

impl Client {
    /// Connects and sends `hello`. Both together have one timeout.
    pub fn connect(place: &Place, limit: Duration) -> Result<Self, ClientError> {
        let until = Instant::now() + limit;
        let hello = Request::Hello(Hello { protocol: PROTOCOL, encoding: Encoding::Postcard });
        loop {
            let stream = place.connect(until)?;
            let mut wire = Wire::new(stream);
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
                Err(error) if error.is_closed_by_peer() => {
                    if Instant::now() >= until {
                        return Err(ClientError::Busy);
                    }
                    std::thread::park_timeout(HELLO_RETRY_PAUSE);
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
        self.wire.handle()
    }

    /// Waits for the next notification, without a limit.
    pub fn notification(&mut self) -> Result<Notification, ClientError> {
        serde_json::from_slice(&self.wire.line(None)?).map_err(invalid)
    }

    /// Waits until the daemon closes the connection; says whether it did in this time.
    pub fn is_closed_within(&mut self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        matches!(self.wire.line(Some(until)), Err(ClientError::Connection(_)))
    }
}

fn too_long() -> ClientError {
    invalid(format!("its answer is longer than {MAX_ANSWER_BYTES} bytes or {MAX_ROWS} rows"))
}

fn invalid(why: impl ToString) -> ClientError {
    ClientError::Invalid(why.to_string())
}

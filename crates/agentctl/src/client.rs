//! Is there a daemon, does it see what we see, and what does it say.
//!
//! A command answers by itself; it asks the daemon only for what that makes faster, or what only somebody
//! awake can tell. A daemon that looks at another world (another home, another configuration, another
//! program) is not asked: the fingerprint of what a question looks at must be the same.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use agentctl_core::host::{Gateway, Host, Secret};
use agentctl_core::model::ProcId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::daemon::Place;
use crate::daemon::protocol::{Hello, PROTOCOL, Refusal, Welcome};

/// A daemon that does not say hello within this part of what an answer may take is not asked what we can
/// answer ourselves: a fifth of a second, where nobody has configured another limit.
const QUICK: u32 = 10;
/// So long is waited for a daemon that only it can be asked.
pub const PATIENT: Duration = Duration::from_secs(5);
/// The variables that say where agents keep their things begin so.
#[rustfmt::skip]
const PREFIXES: [&str; 9] = [
    "CLAUDE_CONFIG", "CODEX_HOME", "OPENCODE_", "OPENCLAW_", "PI_",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME",
];

/// Returns the fingerprint of what a question asked here looks at.
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
    for (name, value) in &host.env {
        if PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            add(&format!("{name}={value}"));
            // What is no whole path may mean another place from elsewhere.
            if !value.starts_with('/') {
                add(&host.cwd.to_string_lossy());
            }
        }
    }
    format!("{:?}", text.finish())
}

/// Two paths that are one file, unchanged, have the same identity.
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

/// Why the daemon gave no answer.
#[derive(Debug)]
pub enum Silence {
    /// Nobody serves.
    Nobody,
    /// Somebody serves and does not answer in time.
    Mute,
    /// It speaks another protocol.
    Foreign(String),
    /// It refused.
    Refused(Refusal),
    /// The connection broke.
    Broken(io::Error),
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nobody => write!(f, "no daemon runs"),
            Self::Mute => write!(f, "the daemon does not answer"),
            Self::Foreign(why) => write!(f, "the daemon is of another version: {why}"),
            Self::Refused(refusal) => write!(f, "the daemon refused: {}", refusal.message),
            Self::Broken(error) => write!(f, "the daemon could not be asked: {error}"),
        }
    }
}

/// Returns the process that listens on the socket, as the kernel says: also one that does not answer.
#[cfg(target_os = "linux")]
#[must_use]
pub fn server(host: &Host, place: &Place) -> Option<ProcId> {
    let stream = place.connect().ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok()?;
    (peer.uid.as_raw() == host.kernel.uid()).then_some(())?;
    host.kernel.process(pid).ok()?.map(|process| process.id)
}

/// Elsewhere nobody but itself says who listens.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn server(host: &Host, place: &Place) -> Option<ProcId> {
    let pid = Client::connect(place, host.deadlines.live / QUICK).ok()?.welcome.pid;
    host.kernel.process(pid).ok()?.map(|process| process.id)
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    /// What it said of itself.
    pub welcome: Welcome,
}

#[derive(Debug)]
struct Wire {
    stream: BufReader<UnixStream>,
    next: u64,
}

#[derive(Deserialize)]
struct Reply<T> {
    // Without this a type that may be null would seem to be missing.
    #[serde(default = "Option::default")]
    result: Option<T>,
    #[serde(default)]
    error: Option<Refusal>,
}

/// Reads an answer; what it says may be borrowed from it.
pub fn answer<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Silence> {
    let reply: Reply<T> = serde_json::from_slice(line).map_err(broken)?;
    match (reply.result, reply.error) {
        (_, Some(refusal)) => Err(Silence::Refused(refusal)),
        (Some(result), None) => Ok(result),
        (None, None) => Err(broken("it answered neither yes nor no")),
    }
}

impl Client {
    /// Connects, and says hello; that must be answered in time.
    pub fn connect(place: &Place, limit: Duration) -> Result<Self, Silence> {
        let stream = place.connect().map_err(|_| Silence::Nobody)?;
        let mut wire = Wire { stream: BufReader::with_capacity(1 << 16, stream), next: 0 };
        match wire.call("hello", &Hello { protocol: PROTOCOL }, limit) {
            Ok(welcome) => Ok(Self { wire, welcome }),
            Err(Silence::Refused(refusal)) => Err(Silence::Foreign(refusal.message)),
            // It went away while we came.
            Err(Silence::Broken(_)) => Err(Silence::Nobody),
            Err(other) => Err(other),
        }
    }

    /// Connects to a daemon that sees what we see, if there is one and it may be asked.
    #[must_use]
    pub fn of_the_same_world(host: &Host) -> Option<Self> {
        if host.var("AGENTCTL_NO_DAEMON").is_some() {
            return None;
        }
        let client = Self::connect(&Place::of(host), host.deadlines.live / QUICK).ok()?;
        (client.welcome.fingerprint == fingerprint(host)).then_some(client)
    }

    /// Asks one question.
    pub fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<T, Silence> {
        self.wire.call(method, params, limit)
    }

    /// Asks one question, and returns the answer as it came: see [`answer`].
    pub fn ask(
        &mut self,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<Vec<u8>, Silence> {
        self.wire.ask(method, params, limit)
    }

    /// Returns a handle with which the connection can be ended from another thread.
    pub fn handle(&self) -> io::Result<UnixStream> {
        self.wire.stream.get_ref().try_clone()
    }

    /// Reads what it says by itself; without a limit it waits for ever.
    pub fn line(&mut self, limit: Option<Duration>) -> Result<Vec<u8>, Silence> {
        self.wire.line(limit.map(|limit| Instant::now() + limit))
    }
}

impl Wire {
    fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<T, Silence> {
        answer(&self.ask(method, params, limit)?)
    }

    fn ask(
        &mut self,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<Vec<u8>, Silence> {
        let until = Instant::now() + limit;
        self.next += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        let stream = self.stream.get_mut();
        stream.set_write_timeout(Some(limit)).map_err(Silence::Broken)?;
        stream.write_all(format!("{request}\n").as_bytes()).map_err(late)?;
        self.line(Some(until))
    }

    fn line(&mut self, until: Option<Instant>) -> Result<Vec<u8>, Silence> {
        let mut line = Vec::new();
        loop {
            let left = until.map(|u| u.saturating_duration_since(Instant::now()));
            if left.is_some_and(|l| l.is_zero()) {
                return Err(Silence::Mute);
            }
            self.stream.get_mut().set_read_timeout(left).map_err(Silence::Broken)?;
            let buffer = match self.stream.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer.map_err(late)?,
            };
            if buffer.is_empty() {
                return Err(Silence::Broken(io::ErrorKind::UnexpectedEof.into()));
            }
            let end = memchr::memchr(b'\n', buffer);
            let used = end.map_or(buffer.len(), |at| at + 1);
            line.extend_from_slice(&buffer[..end.unwrap_or(used)]);
            self.stream.consume(used);
            if end.is_some() {
                return Ok(line);
            }
        }
    }
}

/// A time that is up is silence, anything else a broken connection.
fn late(error: io::Error) -> Silence {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Silence::Mute,
        _ => Silence::Broken(error),
    }
}

fn broken(why: impl ToString) -> Silence {
    Silence::Broken(io::Error::other(why.to_string()))
}

//! Is there a daemon, does it see what we see, and what does it say.
//!
//! A command answers by itself; it asks the daemon only for what that makes faster, or what only somebody
//! awake can tell. A daemon that looks at another world (another home, another configuration, another
//! program) is not asked: the fingerprint of what a question looks at must be the same. Everything is
//! bounded: the time of a connection and of an answer, and the length of a line.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use agentctl_core::adapters::ALL;
use agentctl_core::host::{BASE_DIRECTORIES, Gateway, Host, Secret};
use agentctl_core::kernel::Process;
use agentctl_core::marks;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::place::{Place, Unconnected};
use crate::protocol::{Hello, PROTOCOL, Refusal, Request, Welcome};
use crate::ui::Ui;

/// A daemon that does not say hello within this part of what an answer may take is not asked what we can
/// answer ourselves: a fifth of a second, where nobody has configured another limit.
const QUICK: u32 = 10;
/// So long is waited for a daemon that only it can be asked.
pub const PATIENT: Duration = Duration::from_secs(5);
/// A longer line is not read: the document of 100,000 small sessions has 95 MB.
const LINE_BYTES: usize = 128 << 20;
/// A daemon that hung up before it said a word is tried again after this long: it may have been ending.
const HUNG_UP_PAUSE: Duration = Duration::from_millis(20);

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
    /// Whoever serves cannot be believed to be a daemon of this user: it counts as none.
    Untrusted(String),
    /// Somebody serves and does not answer in time.
    Mute,
    /// All its connections are in use.
    Busy,
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
            Self::Untrusted(why) => {
                write!(f, "no daemon is asked: {why}, so what listens there is not believed")
            }
            Self::Mute => write!(f, "the daemon does not answer"),
            Self::Busy => write!(f, "the daemon is busy: all its connections are in use"),
            Self::Foreign(why) => write!(f, "the daemon is of another version: {why}"),
            Self::Refused(refusal) => write!(f, "the daemon refused: {}", refusal.message),
            Self::Broken(error) => write!(f, "the daemon could not be asked: {error}"),
        }
    }
}

impl Silence {
    /// Warns if a listener is there that is not believed to be this user's daemon.
    pub fn warn_if_untrusted(&self, ui: &mut Ui) {
        if matches!(self, Self::Untrusted(_)) {
            ui.warn(&self.to_string());
        }
    }
}

impl From<Unconnected> for Silence {
    fn from(why: Unconnected) -> Self {
        match why {
            Unconnected::Nobody => Self::Nobody,
            Unconnected::Untrusted(why) => Self::Untrusted(why),
            Unconnected::Late => Self::Mute,
        }
    }
}

/// What listens on the socket, as the kernel says: also one that does not answer.
#[derive(Debug)]
pub enum Server {
    /// Nothing, or nothing that can be named.
    Unknown,
    /// The daemon.
    Daemon(Box<Process>),
    /// A process that is not the daemon.
    Other(u32),
}

/// Returns what listens on the socket.
#[must_use]
pub fn server(host: &Host, place: &Place) -> Server {
    let Ok(stream) = place.connect(Instant::now() + host.deadlines.live / QUICK) else {
        return Server::Unknown;
    };
    let Ok(Some(process)) = host.kernel.peer(&stream) else { return Server::Unknown };
    // A pid that was given away can belong to anything: it must look like the daemon and hold what it holds.
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
    /// What it said of itself.
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
        let until = Instant::now() + limit;
        loop {
            let stream = place.connect(until)?;
            let mut wire = Wire { stream: BufReader::with_capacity(1 << 16, stream), next: 0 };
            let left = until.saturating_duration_since(Instant::now());
            match wire.call(&Request::Hello(Hello { protocol: PROTOCOL }), left) {
                Ok(welcome) => return Ok(Self { wire, welcome }),
                Err(Silence::Refused(refusal)) if refusal.code == Refusal::BUSY => {
                    return Err(Silence::Busy);
                }
                Err(Silence::Refused(refusal)) => return Err(Silence::Foreign(refusal.message)),
                // It went away while we came, and nobody will be there; or it is there and turns us away.
                Err(Silence::Broken(error)) if is_hang_up(&error) => {
                    if Instant::now() >= until {
                        return Err(Silence::Busy);
                    }
                    std::thread::park_timeout(HUNG_UP_PAUSE);
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Connects to a daemon that sees what we see, if there is one and it may be asked. Fails only where
    /// whoever serves is not believed.
    pub fn of_the_same_world(host: &Host) -> Result<Option<Self>, Silence> {
        if host.var(marks::NO_DAEMON).is_some() {
            return Ok(None);
        }
        match Self::connect(&Place::of(host), host.deadlines.live / QUICK) {
            Ok(client) if client.welcome.fingerprint == fingerprint(host) => Ok(Some(client)),
            Err(Silence::Untrusted(why)) => Err(Silence::Untrusted(why)),
            _ => Ok(None),
        }
    }

    /// Asks one question.
    pub fn call<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        limit: Duration,
    ) -> Result<T, Silence> {
        self.wire.call(request, limit)
    }

    /// Asks one question, and returns the answer as it came: see [`answer`].
    pub fn ask(&mut self, request: &Request, limit: Duration) -> Result<Vec<u8>, Silence> {
        self.wire.ask(request, limit)
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
        request: &Request,
        limit: Duration,
    ) -> Result<T, Silence> {
        answer(&self.ask(request, limit)?)
    }

    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Vec<u8>, Silence> {
        let until = Instant::now() + limit;
        self.next += 1;
        let call = OutgoingCall { jsonrpc: "2.0", id: self.next, request };
        let call = serde_json::to_string(&call).map_err(broken)?;
        let stream = self.stream.get_mut();
        // No time at all would mean no limit.
        let limit = limit.max(Duration::from_millis(1));
        stream.set_write_timeout(Some(limit)).map_err(Silence::Broken)?;
        let sent = stream.write_all(format!("{call}\n").as_bytes());
        // One that has hung up may have said why.
        match (self.line(Some(until)), sent) {
            (Ok(line), _) => Ok(line),
            (Err(_), Err(error)) => Err(late(error)),
            (Err(silence), Ok(())) => Err(silence),
        }
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
            if line.len() > LINE_BYTES {
                return Err(broken(format!("its answer is longer than {LINE_BYTES} bytes")));
            }
            if end.is_some() {
                return Ok(line);
            }
        }
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
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

//! A hidden subcommand: the asker, which an agent starts as a hook when it needs a permission.
//!
//! It holds the ask in a sealed memory file, takes one answer on a socket of its own, writes the decision to its
//! standard output, and only then says that the answer was taken. It ends without output, which is no decision,
//! when its agent ends, when it is told to, or when the ask was settled elsewhere. Handled before arguments are
//! parsed; it needs little memory until somebody answers.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use agentctl_core::adapters::asker::{
    ASKER_COMM, ASKS_FOLDER, AskHook, AskerOrder, AskerReply, HELD_ASK, HeldAsk, HookState,
    HookedAsk, MAX_INPUT_BYTES, ask_id,
};
use agentctl_core::adapters::{ALL, Look};
use agentctl_core::ask::Fleet;
use agentctl_core::host::Host;
use agentctl_core::kernel::{ExitWatch, Kernel, Process, Table, hold_text};
use agentctl_core::marks::ASKER;
use agentctl_core::native::private;
use agentctl_core::talk::{SocketPath, connect_unix};
use signal_hook::consts::{SIGHUP, SIGTERM};

/// Time for the agent to write the input of the hook.
const INPUT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for one connection to send its answer.
const ORDER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time to find out whether anything listens on the socket of another asker.
const CLEAN_TIMEOUT: Duration = Duration::from_millis(50);
/// Time to open the socket while its folder is removed.
const BIND_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before the socket is opened again.
const BIND_INTERVAL: Duration = Duration::from_millis(1);
/// Longest answer.
const MAX_ORDER_BYTES: usize = 64 << 10;
/// Time between two looks at an ask that may be settled elsewhere.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// An agent that was never seen to wait for this long has settled the ask before the first look.
const OPENING_TIME: Duration = Duration::from_secs(5);
/// Most reading of a proof from files of the agent.
const PROOF_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the asker, if the arguments name it.
#[must_use]
pub fn dispatch() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()?.to_str()? != ASKER {
        return None;
    }
    let args: Vec<OsString> = args.collect();
    Some(match run(&args) {
        // No output is no decision: the agent goes on as if no hook were there.
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _unread = writeln!(io::stderr(), "agentctl: {error}");
            ExitCode::FAILURE
        }
    })
}

/// `asker <runtime folder> <adapter> <seconds>`.
fn run(args: &[OsString]) -> io::Result<()> {
    let usage = || io::Error::new(io::ErrorKind::InvalidInput, "asker: for agentctl itself");
    let [runtime, adapter, seconds] = args else { return Err(usage()) };
    let adapter = ALL.iter().find(|known| adapter.to_str() == Some(known.name()));
    let adapter = adapter.ok_or_else(usage)?;
    let hook = adapter.answering().and_then(|answering| answering.ask_hook());
    let hook = hook.ok_or_else(usage)?;
    let seconds = seconds.to_str().and_then(|seconds| seconds.parse::<i64>().ok());
    let Some(input) = read_input() else { return Ok(()) };
    let kernel = Kernel::open()?;
    let Some(process) = kernel.process(std::process::id())? else { return Ok(()) };
    let host = Arc::new(Host::new("/", kernel, crate::config::clock));
    let Some(ask) = hook.open(&look(&host), &process, &input) else { return Ok(()) };
    let opening = Opening { host, hook, adapter: adapter.name(), process, ask };
    opening.hold(Path::new(runtime), seconds)?.serve()
}

/// Reads the input of the hook; `None` if it is too long or does not end in time.
fn read_input() -> Option<Vec<u8>> {
    let (sender, read) = channel();
    std::thread::spawn(move || {
        let mut input = Vec::new();
        let result = io::stdin().take(MAX_INPUT_BYTES + 1).read_to_end(&mut input);
        let _late = sender.send(result.map(|_| input));
    });
    let input = read.recv_timeout(INPUT_TIMEOUT).ok()?.ok()?;
    (input.len() as u64 <= MAX_INPUT_BYTES).then_some(input)
}

/// A look without the process table: only the agent of this asker is looked at.
fn look(host: &Arc<Host>) -> Look {
    Look {
        host: Arc::clone(host),
        table: Arc::new(Table::default()),
        deadline: Instant::now() + PROOF_TIMEOUT,
        now: host.now(),
    }
}

/// An ask of a proved agent that is not held yet.
struct Opening {
    host: Arc<Host>,
    hook: &'static dyn AskHook,
    adapter: &'static str,
    process: Process,
    ask: HookedAsk,
}

impl Opening {
    /// Puts the ask where other processes find it, and opens the socket.
    fn hold(self, runtime: &Path, seconds: Option<i64>) -> io::Result<Holding> {
        let signals = Signals::listen()?;
        let folder = runtime.join(ASKS_FOLDER);
        let socket = folder.join(format!("{}.sock", self.process.id.pid));
        let now = self.host.now().millis();
        let held = HeldAsk {
            adapter: self.adapter.to_owned(),
            agent_pid: self.ask.agent.pid,
            agent_start_ticks: self.ask.agent.start_ticks,
            session_id: self.ask.session_id.clone(),
            since_ms: now,
            until_ms: seconds.and_then(|seconds| now.checked_add(seconds.checked_mul(1000)?)),
            socket: socket.clone(),
            input: self.ask.input.clone(),
        };
        let bytes = serde_json::to_vec(&held)?;
        let id = ask_id(&self.process.id, &bytes);
        // Without it only a program file of that name is found; the ask is held all the same.
        let _unnamed = std::fs::write("/proc/self/comm", ASKER_COMM);
        let memory = hold_text(HELD_ASK, &bytes)?;
        remove_dead_sockets(&self.host.kernel, &folder);
        // The socket comes last: its appearance tells observers to look.
        let listener = bind(&folder, &socket)?;
        Ok(Holding { opening: self, id, socket, listener, signals, _memory: memory })
    }
}

/// An ask that waits for its answer.
struct Holding {
    opening: Opening,
    id: String,
    socket: PathBuf,
    listener: UnixListener,
    signals: Signals,
    /// Other processes read the ask as long as this is open.
    _memory: std::os::fd::OwnedFd,
}

impl Drop for Holding {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.socket);
    }
}

impl Holding {
    /// Serves until the answer is given, or the ask is over.
    fn serve(mut self) -> io::Result<()> {
        let mut agent = ExitWatch::default();
        if !agent.add(&self.opening.host.kernel, &self.opening.ask.agent)? {
            return Ok(());
        }
        let interval = self.opening.ask.has_other_ways.then_some(LOOK_INTERVAL);
        let mut elsewhere = Elsewhere::new();
        loop {
            if interval.is_some() && elsewhere.has_settled(&self.opening) {
                return Ok(());
            }
            let signals = [self.signals.end.as_fd(), self.signals.bind.as_fd()];
            let ready = [self.listener.as_fd(), signals[0], signals[1]];
            if !agent.wait_beside(&ready, interval)?.is_empty() {
                return Ok(());
            }
            match self.signals.take() {
                Some(Told::End) => return Ok(()),
                Some(Told::BindAnew) => self.bind_anew(),
                None => {}
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.take_answer(&stream) {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens the socket again. If that fails, the ask stays, and the next answerer sends the signal again.
    fn bind_anew(&mut self) {
        let folder = self.socket.parent().unwrap_or_else(|| Path::new("/")).to_owned();
        match bind(&folder, &self.socket) {
            Ok(listener) => self.listener = listener,
            Err(error) => drop(writeln!(io::stderr(), "agentctl: {error}")),
        }
    }

    /// Takes one answer; says whether the ask is over. A caller that hangs up or sends rubbish changes nothing.
    fn take_answer(&mut self, stream: &UnixStream) -> bool {
        let (reply, over) = match self.decide(stream) {
            Ok(()) => (AskerReply { taken: true, why: None }, true),
            Err(Refused { why, over }) => (AskerReply { taken: false, why: Some(why) }, over),
        };
        let line = serde_json::to_vec(&reply).map(|mut line| {
            line.push(b'\n');
            line
        });
        if let Ok(line) = line {
            let mut stream = stream;
            let _unheard = stream.write_all(&line);
        }
        over
    }

    /// Gives one answer to the agent. Returns only after the agent can read it.
    fn decide(&mut self, stream: &UnixStream) -> Result<(), Refused> {
        let order = self.read_order(stream)?;
        if order.ask != self.id {
            return Err(Refused::because("this is another ask"));
        }
        let Opening { hook, ask, .. } = &self.opening;
        let decision = hook.decision(&ask.input, &order.reply).map_err(Refused::because)?;
        self.check_caller(stream)?;
        // The check takes a moment: the agent may have settled it meanwhile.
        match self.signals.take() {
            Some(Told::End) => return Err(Refused::over("the ask is over")),
            Some(Told::BindAnew) => self.bind_anew(),
            None => {}
        }
        let Opening { host, hook, ask, .. } = &self.opening;
        if ask.has_other_ways && hook.state(&look(host), ask) == HookState::NotOpen {
            return Err(Refused::because("it was settled elsewhere"));
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&decision).and_then(|()| stdout.flush());
        written.map_err(|_| Refused::over("the agent does not wait for it any more"))
    }

    fn read_order(&self, stream: &UnixStream) -> Result<AskerOrder, Refused> {
        let uid = Kernel::peer_uid(stream).map_err(|error| Refused::because(error.to_string()))?;
        if uid != self.opening.host.kernel.uid() {
            return Err(Refused::because("another user cannot answer"));
        }
        let line = read_line(stream).map_err(|error| Refused::because(error.to_string()))?;
        serde_json::from_slice::<AskerOrder>(&line)
            .map_err(|error| Refused::because(format!("no answer: {error}")))
    }

    /// Checks that the process at the other end does not run below an agent.
    fn check_caller(&self, stream: &UnixStream) -> Result<(), Refused> {
        let unseen = || Refused::because("the answering process cannot be seen");
        let kernel = &self.opening.host.kernel;
        let peer = kernel.peer(stream).ok().flatten().ok_or_else(unseen)?;
        let host = crate::config::host().map_err(|failure| {
            Refused::because(format!("the caller cannot be checked: {failure}"))
        })?;
        let fleet = Fleet::new(host, ALL);
        let mut answerer = fleet.answerer(peer.id.pid);
        // A process that has connected can hand the connection on to another one. If the kernel does not list
        // Unix sockets, the process that connected decides alone.
        for pid in kernel.holders_of_peer(stream).map_err(|_| unseen())? {
            if pid != peer.id.pid {
                answerer.add(fleet.answerer(pid));
            }
        }
        // The same process still has the pid, so what was seen is about it.
        let now = kernel.process(peer.id.pid).ok().flatten();
        if now.is_none_or(|now| now.id != peer.id) {
            return Err(unseen());
        }
        let session = Some(self.opening.ask.session_id.as_str());
        if answerer.may_not_answer_id(&fleet, self.opening.adapter, session) {
            return Err(Refused::because("the answering process runs below an agent"));
        }
        Ok(())
    }
}

/// Why an answer is not taken.
struct Refused {
    why: String,
    /// No other answer can be taken either.
    over: bool,
}

impl Refused {
    fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), over: false }
    }

    fn over(why: &str) -> Self {
        Self { why: why.to_owned(), over: true }
    }
}

/// Looks whether an ask was settled without us, in the terminal of the agent for example.
struct Elsewhere {
    began: Instant,
    was_open: bool,
    is_doubtful: bool,
}

impl Elsewhere {
    fn new() -> Self {
        Self { began: Instant::now(), was_open: false, is_doubtful: false }
    }

    /// Says whether the ask is settled. One look is not enough: the record is rewritten at any time.
    fn has_settled(&mut self, opening: &Opening) -> bool {
        match opening.hook.state(&look(&opening.host), &opening.ask) {
            HookState::Open => (self.was_open, self.is_doubtful) = (true, false),
            HookState::Unknown => self.is_doubtful = false,
            HookState::NotOpen if self.was_open || self.began.elapsed() > OPENING_TIME => {
                return std::mem::replace(&mut self.is_doubtful, true);
            }
            HookState::NotOpen => {}
        }
        false
    }
}

/// An order that a signal gives the asker.
#[derive(Clone, Copy)]
enum Told {
    End,
    BindAnew,
}

/// The signals of the asker, as bytes on sockets that can be waited for.
struct Signals {
    end: UnixStream,
    bind: UnixStream,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let listen = |signal| -> io::Result<UnixStream> {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, theirs)?;
            Ok(ours)
        };
        Ok(Self { end: listen(SIGTERM)?, bind: listen(SIGHUP)? })
    }

    /// Returns the most urgent signal that came since the last call.
    fn take(&self) -> Option<Told> {
        let came = |mut signal: &UnixStream| signal.read(&mut [0; 64]).is_ok_and(|count| count > 0);
        match (came(&self.end), came(&self.bind)) {
            (true, _) => Some(Told::End),
            (false, true) => Some(Told::BindAnew),
            (false, false) => None,
        }
    }
}

/// Opens the socket, in a folder of this user alone. The folder may be removed while it is made.
fn bind(folder: &Path, socket: &Path) -> io::Result<UnixListener> {
    let until = Instant::now() + BIND_TIMEOUT;
    // A directory that vanishes while it is created is reported as either.
    let is_removal = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists);
    loop {
        match try_bind(folder, socket) {
            Err(error) if is_removal(error.kind()) && Instant::now() < until => {
                std::thread::park_timeout(BIND_INTERVAL);
            }
            result => return result,
        }
    }
}

fn try_bind(folder: &Path, socket: &Path) -> io::Result<UnixListener> {
    private::directory(folder)?;
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(SocketPath::new(socket)?.path())?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Removes the sockets of askers that were killed. A pid that is free here may be in use in another pid namespace, so
/// nothing must listen on the socket either.
fn remove_dead_sockets(kernel: &Kernel, folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let pid = name.and_then(|name| name.strip_suffix(".sock")?.parse().ok());
        let is_free = pid.is_some_and(|pid| matches!(kernel.process(pid), Ok(None)));
        let is_refused = |why: io::Error| why.kind() == io::ErrorKind::ConnectionRefused;
        if is_free && connect_unix(&path, CLEAN_TIMEOUT).is_err_and(is_refused) {
            // A socket that stays does no harm.
            let _left = std::fs::remove_file(&path);
        }
    }
}

/// Reads one line, however slowly it comes, within the time of one answer.
fn read_line(mut stream: &UnixStream) -> io::Result<Vec<u8>> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(ORDER_TIMEOUT))?;
    let until = Instant::now() + ORDER_TIMEOUT;
    let mut line = Vec::new();
    let mut part = [0; 4096];
    while !line.contains(&b'\n') {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || line.len() > MAX_ORDER_BYTES {
            return Err(io::Error::other("the answer is too long, or did not come in time"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => line.extend_from_slice(&part[..count]),
        }
    }
    Ok(line)
}

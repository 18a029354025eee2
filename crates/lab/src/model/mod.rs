//! The scripted model server: real agents talk to it instead of to a vendor.
//!
//! It speaks Anthropic Messages, `OpenAI` Responses and chat completions on loopback, whole and as
//! events. Its behaviour is written in the prompt (`script.rs` lists the directives), so a scenario
//! knows the expected conversation beforehand, and the real one afterwards, from [`Model::requests`].

mod anthropic;
mod chat;
mod exchange;
mod http;
mod record;
mod responses;
mod script;
mod tools;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use exchange::After;
use http::{Connection, Json, Trouble};
use record::now_ms;
pub use record::{Api, End, Request, Usage};
use script::Failure;

/// How long to let things settle when no connection can be taken, for want of descriptors say.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0 for any free one.
    pub port: u16,
    /// Where to append one line of JSON per request, when it has ended or begins to hang.
    pub log: Option<PathBuf>,
    /// Tokens in and out to report in every answer, instead of a guess from the sizes.
    pub usage: Option<(u64, u64)>,
}

/// A running server. Dropping it closes every connection, hanging ones too, and waits for its threads.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    room: Arc<Room>,
    /// Closed to wake the thread that waits for connections.
    bell: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Model {
    /// Listens on 127.0.0.1.
    pub fn start(options: Options) -> io::Result<Self> {
        let log = options.log.map(|path| OpenOptions::new().create(true).append(true).open(path));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        // A client may be gone again between the poll and the accept; that must not block.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (bell, rung) = UnixStream::pair()?;
        let room = Arc::new(Room {
            usage: options.usage,
            log: log.transpose()?,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&room);
        let thread = thread::Builder::new()
            .name("model".to_owned())
            .spawn(move || accept(&theirs, &listener, &rung))?;
        Ok(Self { address, room, bell: Some(bell), thread: Some(thread) })
    }

    /// Returns `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns every request so far, in the order they were read.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.room.state().requests.clone()
    }

    /// Waits until the requests are as wanted, and says whether they are. Do not ask for
    /// [`Model::requests`] in the condition: it is judged under the same lock.
    pub fn wait_for(&self, timeout: Duration, done: impl Fn(&[Request]) -> bool) -> bool {
        let state = self.room.state();
        let waited = self
            .room
            .changed
            .wait_timeout_while(state, timeout, |state| !done(&state.requests))
            .unwrap_or_else(PoisonError::into_inner);
        !waited.1.timed_out()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.room.stop();
        drop(self.bell.take());
        if let Some(thread) = self.thread.take() {
            // It only fails when a connection's thread panicked, and that has been printed.
            drop(thread.join());
        }
    }
}

/// The state that the threads of a server share.
#[derive(Debug)]
struct Room {
    usage: Option<(u64, u64)>,
    log: Option<File>,
    state: Mutex<State>,
    /// Rung at every change of a request, and at the end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    requests: Vec<Request>,
    /// The requests that are in the log, by number.
    logged: HashSet<usize>,
    /// How often a scripted error was given, by prompt.
    failures: HashMap<String, u32>,
    /// Every open connection, to be closed at the end.
    connections: HashMap<u64, TcpStream>,
    opened: u64,
}

impl Room {
    fn state(&self) -> MutexGuard<'_, State> {
        // A caller's condition may panic under the lock; the data is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request's record and returns its number.
    fn begin(&self, request: Request) -> usize {
        let mut state = self.state();
        state.requests.push(request);
        self.changed.notify_all();
        state.requests.len() - 1
    }

    fn update(&self, number: usize, change: impl FnOnce(&mut Request)) {
        if let Some(request) = self.state().requests.get_mut(number) {
            change(request);
        }
        self.changed.notify_all();
    }

    /// Ends a request's record, unless it has ended already, and logs it.
    fn finish(&self, number: usize, end: End) {
        let mut state = self.state();
        let stopped = state.stopped;
        let Some(request) = state.requests.get_mut(number).filter(|r| r.end == End::Open) else {
            return;
        };
        // A connection that we closed looks to its thread as if the client had.
        request.end = if stopped && end == End::Gone { End::Stopped } else { end };
        request.ended_ms = Some(now_ms());
        drop(state);
        self.changed.notify_all();
        self.log(number);
    }

    /// Appends a request to the log, unless it is there already.
    fn log(&self, number: usize) {
        let mut state = self.state();
        if !state.logged.insert(number) {
            return;
        }
        let (Some(mut log), Some(request)) = (self.log.as_ref(), state.requests.get(number)) else {
            return;
        };
        if let Ok(mut line) = serde_json::to_string(request) {
            line.push('\n');
            // Under the lock, so that lines stay whole. A full disk must not change the answers.
            drop(log.write_all(line.as_bytes()));
        }
    }

    /// Returns the error status of a request after this many tools, and counts it.
    fn fails(&self, prompt: &str, done: usize, failure: Option<Failure>) -> Option<u16> {
        let Failure { status, times, .. } = failure.filter(|f| done >= f.after)?;
        let Some(times) = times else { return Some(status) };
        let mut state = self.state();
        let count = state.failures.entry(prompt.to_owned()).or_default();
        if *count >= times {
            return None;
        }
        *count += 1;
        Some(status)
    }

    /// Waits, and says whether the server was stopped.
    fn pause(&self, time: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.state(), time, |state| !state.stopped)
            .unwrap_or_else(PoisonError::into_inner);
        waited.0.stopped
    }

    /// Takes note of a connection; `None` when the server has stopped or the connection is unusable.
    fn enter(&self, stream: &TcpStream) -> Option<u64> {
        let ours = stream.try_clone().ok()?;
        let mut state = self.state();
        if state.stopped {
            return None;
        }
        state.opened += 1;
        let key = state.opened;
        state.connections.insert(key, ours);
        Some(key)
    }

    /// Forgets a connection and closes it.
    fn leave(&self, key: u64) {
        if let Some(stream) = self.state().connections.remove(&key) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        for stream in state.connections.values() {
            drop(stream.shutdown(Shutdown::Both));
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Takes connections until the bell is closed, then waits for their threads.
fn accept(room: &Room, listener: &TcpListener, bell: &UnixStream) {
    thread::scope(|scope| {
        loop {
            let mut wanted =
                [PollFd::new(listener, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
            let polled = poll(&mut wanted, None);
            if !wanted[1].revents().is_empty() {
                return;
            }
            let taken = match listener.accept() {
                Ok((stream, _)) => thread::Builder::new()
                    .name("model connection".to_owned())
                    .spawn_scoped(scope, move || converse(room, stream))
                    .is_ok(),
                Err(e) => e.kind() == io::ErrorKind::WouldBlock && polled.is_ok(),
            };
            if !taken && room.pause(ACCEPT_RETRY_PAUSE) {
                return;
            }
        }
    });
}

/// Answers the requests of one connection, one after the other.
fn converse(room: &Room, stream: TcpStream) {
    // Not inherited on Linux, but on other systems; events must leave as they are written.
    if stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true)).is_err() {
        return;
    }
    let Some(key) = room.enter(&stream) else { return };
    let mut connection = Connection::new(stream);
    loop {
        match connection.receive() {
            Ok(Some(incoming)) => {
                if exchange::serve(room, &mut connection, &incoming) == After::Close {
                    break;
                }
            }
            Err(Trouble::Bad(status, why)) => {
                reject(room, &mut connection, status, &why);
                break;
            }
            Ok(None) | Err(Trouble::Lost) => break,
        }
    }
    room.leave(key);
}

/// Answers an invalid request; the start of the next one is unknown, so the connection ends.
fn reject(room: &Room, connection: &mut Connection, status: u16, why: &str) {
    let number = room.begin(Request::begun(Api::Other, "", ""));
    room.update(number, |record| record.status = status);
    let body = anthropic::error("invalid_request_error", why);
    let answer = Json { method: "", status, body: &body, keep_alive: false };
    let sent = connection.send_json(&answer);
    room.finish(number, if sent.is_ok() { End::Answered } else { End::Gone });
    connection.close_gently();
}

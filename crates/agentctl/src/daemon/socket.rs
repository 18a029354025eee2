//! The daemon's Unix socket: access control, frames, connection limits and timeouts.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentctl_core::fleet::Rows;
use agentctl_core::kernel::give_back_memory;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::answers::{Answer, Body, MAX_FREE_MEMORY_BYTES, asks, raw};
use super::{Hub, News, lists};
use crate::protocol::{
    Call, Encoding, Ending, JSONRPC, MAX_REQUEST_BYTES, Notification, OutgoingReply, PROTOCOL,
    Refusal, Request, SubscribeParams, Subscribed, Welcome, reply_around,
};
use crate::text::json_line;

/// Maximum number of connections, if the limit of open files allows it. At the limit, a new connection replaces
/// the connection that has been idle for longest.
const MAX_CONNECTIONS: usize = 1024;
/// Timeout of `hello` after a client has connected.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the rest of a request after its first byte.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection without a request for this long is closed, unless it has subscribed to events.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum size of a short request. Longer requests need a permit: see [`MAX_LONG_REQUESTS`].
const SHORT_REQUEST_BYTES: usize = 4 << 10;
/// Maximum number of long requests that are read at once. A connection that sends one more is closed.
const MAX_LONG_REQUESTS: usize = 16;
/// Timeout of a write: a connection whose client reads nothing for this long is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// After a list of this many rows, memory is given back to the system.
const GIVE_BACK_MEMORY_ROWS: usize = 1024;
/// Most rows that are encoded without another thread: waking one costs more than the work.
const MAX_ROWS_WITHOUT_THREAD: usize = 64;
/// Pause after a failed accept.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until told to stop.
pub(super) async fn serve(listener: UnixListener, hub: Arc<Hub>) {
    let seats = Arc::new(Seats::new(max_connections()));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors: retry after the pause, because a connection may have been closed by then.
                hub.log.warn("accept", json!({"error": error.to_string()}));
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            }
        };
        if !stream.peer_cred().is_ok_and(|peer| peer.uid() == hub.host.kernel.uid()) {
            continue;
        }
        let Some(seat) = seats.take() else {
            turn_away(&stream);
            continue;
        };
        let (hub, left) = (Arc::clone(&hub), Arc::clone(&seat.occupied));
        tokio::spawn(async move {
            // Errors of a connection are ignored: its client sees them too.
            tokio::select! {
                _broken = Connection::new(stream, hub, seat).run() => {}
                () = left.given_away.notified() => {}
            }
        });
    }
}

/// Returns the maximum number of connections: at most half of the limit of open files, because answering
/// questions opens files too.
fn max_connections() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    MAX_CONNECTIONS.min(files / 2).max(1)
}

/// Sends the refusal `BUSY` if that is possible without blocking.
fn turn_away(stream: &UnixStream) {
    let refusal = Refusal::new(Refusal::BUSY, "all connections are in use");
    let reply = OutgoingReply::<()>::new(&Value::Null, Err(refusal));
    let Ok(line) = serde_json::to_string(&reply) else { return };
    let _unheard = stream.try_write(format!("{line}\n").as_bytes());
}

/// The open connections, up to a maximum number.
struct Seats {
    most: usize,
    taken: Mutex<Vec<Arc<Occupied>>>,
    /// The permits for long requests.
    long: Arc<Semaphore>,
}

/// The state of one open connection.
struct Occupied {
    /// When the connection became idle; `None` while a request is answered or events are sent.
    idle_since: Mutex<Option<Instant>>,
    given_away: Notify,
}

/// The entry of a connection in [`Seats`], removed when the value is dropped.
struct Seat {
    occupied: Arc<Occupied>,
    seats: Arc<Seats>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seats {
    fn new(most: usize) -> Self {
        let long = Arc::new(Semaphore::new(MAX_LONG_REQUESTS));
        Self { most, taken: Mutex::default(), long }
    }

    /// Adds a connection. At the limit it closes the connection that has been idle for longest; returns `None` if
    /// none is idle.
    fn take(self: &Arc<Self>) -> Option<Seat> {
        let mut taken = lock(&self.taken);
        if taken.len() >= self.most {
            let idle = |at: usize| lock(&taken[at].idle_since).map(|since| (since, at));
            let (_, at) = (0..taken.len()).filter_map(idle).min()?;
            taken.swap_remove(at).given_away.notify_one();
        }
        let idle_since = Mutex::new(Some(Instant::now()));
        let occupied = Arc::new(Occupied { idle_since, given_away: Notify::new() });
        taken.push(Arc::clone(&occupied));
        Some(Seat { occupied, seats: Arc::clone(self) })
    }
}

impl Seat {
    fn set_idle(&self, since: Option<Instant>) {
        *lock(&self.occupied.idle_since) = since;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.seats.taken).retain(|other| !Arc::ptr_eq(other, &self.occupied));
    }
}

/// The permit for one long request. When it is dropped, free memory is returned to the system.
struct LongRequest(
    #[expect(dead_code, reason = "held until the request is read")] OwnedSemaphorePermit,
);

impl Drop for LongRequest {
    fn drop(&mut self) {
        drop(tokio::task::spawn_blocking(|| give_back_memory(MAX_FREE_MEMORY_BYTES)));
    }
}

/// One read from a connection.
enum Frame {
    /// One line.
    Line(Vec<u8>),
    /// A line over the limit; the rest of it was discarded.
    TooLong,
    /// End of the stream.
    End,
}

struct Connection {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    hub: Arc<Hub>,
    seat: Seat,
    /// The encoding of lists, as agreed on by `hello`.
    encoding: Encoding,
}

impl Connection {
    fn new(stream: UnixStream, hub: Arc<Hub>, seat: Seat) -> Self {
        let (read, write) = stream.into_split();
        let read = BufReader::with_capacity(SHORT_REQUEST_BYTES, read);
        Self { read, write, hub, seat, encoding: Encoding::default() }
    }

    async fn run(mut self) -> io::Result<()> {
        let hello = timeout(HELLO_TIMEOUT, self.hello()).await;
        if !hello.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
            return Ok(());
        }
        while let Some(call) = self.call().await? {
            self.seat.set_idle(None);
            let request = Request::of(&call);
            let ends = matches!(request, Ok(Request::DaemonShutdown(_)));
            let answer = match request {
                Ok(Request::EventsSubscribe(wanted)) => {
                    return self.subscribe(call.id, wanted).await;
                }
                Ok(request) => self.answer(request).await,
                Err(refusal) => Err(refusal),
            };
            if let Some(id) = call.id {
                self.reply(&id, answer).await?;
            }
            if ends {
                self.hub.end();
                // Keep the connection open until the process has ended: the client waits for that end.
                std::future::pending::<()>().await;
            }
            self.seat.set_idle(Some(Instant::now()));
        }
        Ok(())
    }

    /// Reads and answers `hello`. Returns whether the connection continues.
    async fn hello(&mut self) -> io::Result<bool> {
        let Some(call) = self.call().await? else { return Ok(false) };
        let id = call.id.clone().unwrap_or_default();
        let hello = match Request::of(&call) {
            Ok(Request::Hello(hello)) => hello,
            Err(refusal) if call.is_hello() => {
                self.reply(&id, Err(refusal)).await?;
                return Ok(false);
            }
            _ => {
                let refusal = Refusal::new(Refusal::HELLO, "say `hello` first");
                self.reply(&id, Err(refusal)).await?;
                return Ok(false);
            }
        };
        if hello.protocol != PROTOCOL {
            let text = format!("this daemon speaks protocol {PROTOCOL}, not {}", hello.protocol);
            self.reply(&id, Err(Refusal::new(Refusal::HELLO, text))).await?;
            return Ok(false);
        }
        self.encoding = hello.encoding;
        let welcome = Welcome { encoding: hello.encoding, ..self.hub.welcome.clone() };
        self.reply(&id, raw(&welcome)).await?;
        Ok(true)
    }

    /// Returns the next call; a frame that is no call is refused here.
    async fn call(&mut self) -> io::Result<Option<Call>> {
        loop {
            let refusal = match self.frame().await? {
                Frame::End => return Ok(None),
                Frame::TooLong => Refusal::new(
                    Refusal::INVALID,
                    format!("a request may have {MAX_REQUEST_BYTES} bytes"),
                ),
                Frame::Line(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Frame::Line(line) => match serde_json::from_slice::<Call>(&line) {
                    Ok(call) if call.jsonrpc == JSONRPC => return Ok(Some(call)),
                    Ok(_) => Refusal::new(Refusal::INVALID, "`jsonrpc` is not `2.0`"),
                    Err(error) if error.is_data() => {
                        Refusal::new(Refusal::INVALID, error.to_string())
                    }
                    Err(error) => Refusal::new(Refusal::PARSE, error.to_string()),
                },
            };
            self.reply(&Value::Null, Err(refusal)).await?;
        }
    }

    async fn frame(&mut self) -> io::Result<Frame> {
        let begun = timeout(IDLE_TIMEOUT, self.read.fill_buf()).await;
        begun.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let line = timeout(REQUEST_TIMEOUT, self.line()).await;
        line.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    async fn line(&mut self) -> io::Result<Frame> {
        let mut line = Vec::new();
        self.more(&mut line, SHORT_REQUEST_BYTES).await?;
        let _right = if line.len() > SHORT_REQUEST_BYTES && line.last() != Some(&b'\n') {
            let right = Arc::clone(&self.seat.seats.long).try_acquire_owned();
            let right = right.map_err(|_| io::Error::from(io::ErrorKind::QuotaExceeded))?;
            self.more(&mut line, MAX_REQUEST_BYTES).await?;
            Some(LongRequest(right))
        } else {
            None
        };
        match line.last() {
            None => Ok(Frame::End),
            Some(b'\n') => {
                line.pop();
                Ok(Frame::Line(line))
            }
            Some(_) if line.len() > MAX_REQUEST_BYTES => {
                drop(line);
                self.skip_line().await?;
                Ok(Frame::TooLong)
            }
            // The stream ended within a line.
            Some(_) => Ok(Frame::Line(line)),
        }
    }

    /// Reads until the end of the line, at most one byte more than `most`.
    async fn more(&mut self, line: &mut Vec<u8>, most: usize) -> io::Result<()> {
        let left = (most + 1).saturating_sub(line.len()) as u64;
        (&mut self.read).take(left).read_until(b'\n', line).await.map(|_| ())
    }

    async fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let (found, used) = {
                let buffer = self.read.fill_buf().await?;
                match buffer.iter().position(|b| *b == b'\n') {
                    Some(at) => (true, at + 1),
                    None => (buffer.is_empty(), buffer.len()),
                }
            };
            self.read.consume(used);
            if found {
                return Ok(());
            }
        }
    }

    async fn answer(&self, request: Request) -> Answer {
        let answers = &self.hub.answers;
        match request {
            Request::SessionList(params) => answers.list(params).await,
            Request::AskList(params) => answers.blocking(move |fleet| asks(fleet, params)).await,
            Request::DaemonStatus(_) => self.hub.status().await,
            Request::DaemonShutdown(_) => raw(&Ending { pid: std::process::id() }),
            Request::Hello(_) | Request::EventsSubscribe(_) => {
                let message = "`hello` is said once, and events are subscribed to only once";
                Err(Refusal::new(Refusal::INVALID, message))
            }
        }
    }

    /// Sends every event from now on, until the client closes the connection.
    async fn subscribe(mut self, id: Option<Value>, wanted: SubscribeParams) -> io::Result<()> {
        let id = id.unwrap_or_default();
        let mut events = self.hub.watch_thread.sinks.events.subscribe();
        self.hub.watch_thread.first_snapshot().await;
        self.reply(&id, raw(&Subscribed { subscribed: true })).await?;
        loop {
            let mut gone = [0_u8; 64];
            let line = tokio::select! {
                event = events.recv() => match event {
                    Ok(News { event, line }) if wanted.admits(&event) => line,
                    Ok(_) => continue,
                    // The client was too slow and has lost events: send their number.
                    Err(RecvError::Lagged(count)) => Notification::Lost { count }.line()?.into(),
                    Err(RecvError::Closed) => return Ok(()),
                },
                // Further requests are ignored; the end of the stream is not.
                read = self.read.read(&mut gone) => match read? {
                    0 => return Ok(()),
                    _ => continue,
                },
            };
            self.write(line.as_bytes()).await?;
        }
    }

    async fn reply(&mut self, id: &Value, answer: Answer) -> io::Result<()> {
        let rows = match answer {
            Ok(Body::List(rows)) => rows,
            Ok(Body::Document(document)) => {
                return self.write_line(&OutgoingReply::new(id, Ok(document))).await;
            }
            Err(refusal) => {
                return self.write_line(&OutgoingReply::<()>::new(id, Err(refusal))).await;
            }
        };
        match self.encoding {
            Encoding::Json => {
                let (before, after) = reply_around(id)?;
                self.write(before.as_bytes()).await?;
                self.write_parts(&rows, lists::json).await?;
                self.write(format!("{after}\n").as_bytes()).await?;
            }
            Encoding::Postcard => {
                let list = lists::packed_head(&rows);
                self.write_line(&OutgoingReply::new(id, Ok(list))).await?;
                self.write_parts(&rows, lists::packed_frame).await?;
            }
        }
        if rows.len() >= GIVE_BACK_MEMORY_ROWS {
            drop(rows);
            drop(tokio::task::spawn_blocking(|| give_back_memory(MAX_FREE_MEMORY_BYTES)));
        }
        Ok(())
    }

    async fn write_line(&mut self, message: &impl serde::Serialize) -> io::Result<()> {
        let line = format!("{}\n", json_line(message)?);
        self.write(line.as_bytes()).await
    }

    /// Writes a list part by part. A long part is encoded on a thread that may block; a slow client holds none.
    async fn write_parts(
        &mut self,
        rows: &Arc<Rows>,
        encode: fn(&Rows, Range<usize>) -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        for part in lists::parts(rows) {
            let bytes = if part.len() <= MAX_ROWS_WITHOUT_THREAD {
                encode(rows, part)
            } else {
                let rows = Arc::clone(rows);
                tokio::task::spawn_blocking(move || encode(&rows, part)).await?
            };
            // Part of the answer is sent already, so an error can only be shown by closing the connection.
            self.write(&bytes?).await?;
        }
        Ok(())
    }

    async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = timeout(WRITE_TIMEOUT, self.write.write(bytes)).await;
            match written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => bytes = &bytes[count..],
            }
        }
        Ok(())
    }
}

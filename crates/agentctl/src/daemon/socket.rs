//! The socket: who may ask, in which frames, and how far a slow reader may fall behind.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentctl_core::kernel::give_back_memory;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::answers::{Answer, MEMORY_ENOUGH, raw};
use super::lists::Text;
use super::{Hub, News};
use crate::protocol::{
    Call, Ending, PROTOCOL, REQUEST_MOST, Refusal, Request, SubscribeParams, Subscribed,
};

/// So many connections at once, where the system allows that many open files; a new one takes the place of the
/// one that has been idle for longest.
const CONNECTIONS_MOST: usize = 1024;
/// Whoever connects says hello within this time.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// Whoever has begun a request ends it within this time.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Whoever asks nothing for this long is hung up on, unless it listens to events.
const IDLE_LIMIT: Duration = Duration::from_mins(1);
/// A request of more bytes is long: few are.
const SHORT_REQUEST: usize = 4 << 10;
/// So many long requests are read at once; with more, whoever sends one is hung up on.
const LONG_REQUESTS_MOST: usize = 16;
/// Whoever takes nothing for this long is hung up on.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// So long is a pause when no descriptor is to be had.
const BREATH: Duration = Duration::from_millis(100);

/// Accepts connections until told to stop.
pub(super) async fn serve(listener: UnixListener, hub: Arc<Hub>) {
    let seats = Arc::new(Seats::new(connections_most()));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors: whoever is connected may finish and give one back.
                hub.log.warn("accept", json!({"error": error.to_string()}));
                tokio::time::sleep(BREATH).await;
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
            // A connection that breaks is the peer's to know; one whose place is given away ends here.
            tokio::select! {
                _broken = Connection::new(stream, hub, seat).run() => {}
                () = left.given_away.notified() => {}
            }
        });
    }
}

/// Half of the files that this process may have open are for connections: the rest is for the answers.
fn connections_most() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    CONNECTIONS_MOST.min(files / 2).max(1)
}

/// Says that there is no room, as far as that can be said without waiting.
fn turn_away(stream: &UnixStream) {
    let error = Refusal::new(Refusal::BUSY, "all connections are in use");
    let line = json!({"jsonrpc": "2.0", "id": null, "error": error});
    let _unheard = stream.try_write(format!("{line}\n").as_bytes());
}

/// The places for connections.
struct Seats {
    most: usize,
    taken: Mutex<Vec<Arc<Occupied>>>,
    /// The right to send a long request.
    long: Arc<Semaphore>,
}

/// A place among the connections.
struct Occupied {
    /// Since when nothing is asked; `None` while a question is answered or events are told.
    idle_since: Mutex<Option<Instant>>,
    given_away: Notify,
}

/// A place that is held.
struct Seat {
    occupied: Arc<Occupied>,
    seats: Arc<Seats>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seats {
    fn new(most: usize) -> Self {
        let long = Arc::new(Semaphore::new(LONG_REQUESTS_MOST));
        Self { most, taken: Mutex::default(), long }
    }

    /// Takes a place: a free one, or that of the connection that has been idle for longest.
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

/// The right to send a long request. What it needed is given back to the system afterwards.
struct LongRequest(
    #[expect(dead_code, reason = "held until the request is read")] OwnedSemaphorePermit,
);

impl Drop for LongRequest {
    fn drop(&mut self) {
        drop(tokio::task::spawn_blocking(|| give_back_memory(MEMORY_ENOUGH)));
    }
}

/// What came in on a connection.
enum Frame {
    /// One line.
    Line(Vec<u8>),
    /// A line that is too long; the rest of it was thrown away.
    TooLong,
    /// Nothing more will come.
    End,
}

struct Connection {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    hub: Arc<Hub>,
    seat: Seat,
}

impl Connection {
    fn new(stream: UnixStream, hub: Arc<Hub>, seat: Seat) -> Self {
        let (read, write) = stream.into_split();
        Self { read: BufReader::with_capacity(SHORT_REQUEST, read), write, hub, seat }
    }

    async fn run(mut self) -> io::Result<()> {
        let hello = timeout(HELLO_LIMIT, self.hello()).await;
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
                // Held until the process has gone: its end is what the other side waits for.
                std::future::pending::<()>().await;
            }
            self.seat.set_idle(Some(Instant::now()));
        }
        Ok(())
    }

    /// Hears `hello`; says whether to go on.
    async fn hello(&mut self) -> io::Result<bool> {
        let Some(call) = self.call().await? else { return Ok(false) };
        let id = call.id.clone().unwrap_or_default();
        let hello = match Request::of(&call) {
            Ok(Request::Hello(hello)) => hello,
            Err(refusal) if call.method == "hello" => {
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
        let welcome = raw(&self.hub.welcome);
        self.reply(&id, welcome).await?;
        Ok(true)
    }

    /// Returns the next call; a frame that is no call is refused here.
    async fn call(&mut self) -> io::Result<Option<Call>> {
        loop {
            let refusal = match self.frame().await? {
                Frame::End => return Ok(None),
                Frame::TooLong => Refusal::new(
                    Refusal::INVALID,
                    format!("a request may have {REQUEST_MOST} bytes"),
                ),
                Frame::Line(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Frame::Line(line) => match serde_json::from_slice::<Call>(&line) {
                    Ok(call) if call.jsonrpc == "2.0" => return Ok(Some(call)),
                    Ok(_) => Refusal::new(Refusal::INVALID, "`jsonrpc` is not `2.0`"),
                    Err(error) if error.is_data() => {
                        Refusal::new(Refusal::INVALID, error.to_string())
                    }
                    Err(error) => Refusal::new(Refusal::PARSE, error.to_string()),
                },
            };
            self.reply(&serde_json::Value::Null, Err(refusal)).await?;
        }
    }

    async fn frame(&mut self) -> io::Result<Frame> {
        let begun = timeout(IDLE_LIMIT, self.read.fill_buf()).await;
        begun.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let line = timeout(REQUEST_LIMIT, self.line()).await;
        line.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    async fn line(&mut self) -> io::Result<Frame> {
        let mut line = Vec::new();
        self.more(&mut line, SHORT_REQUEST).await?;
        let _right = if line.len() > SHORT_REQUEST && line.last() != Some(&b'\n') {
            let right = Arc::clone(&self.seat.seats.long).try_acquire_owned();
            let right = right.map_err(|_| io::Error::from(io::ErrorKind::QuotaExceeded))?;
            self.more(&mut line, REQUEST_MOST).await?;
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
            Some(_) if line.len() > REQUEST_MOST => {
                drop(line);
                self.skip_line().await?;
                Ok(Frame::TooLong)
            }
            // Half a line and then the end.
            Some(_) => Ok(Frame::Line(line)),
        }
    }

    /// Reads on until the line ends or has one byte more than this.
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
            Request::SessionStatus(one) => answers.status(one).await,
            Request::SessionWhy(one) => answers.why(one).await,
            Request::SessionLogs(params) => answers.logs(params).await,
            Request::LockList(_) => answers.blocking(|fleet| raw(&fleet.locks())).await,
            Request::FuseList(_) => answers.blocking(|fleet| raw(&fleet.fuses())).await,
            Request::RunList(_) => answers.runs().await,
            Request::AdapterList(_) => answers.blocking(|fleet| raw(&fleet.adapters())).await,
            Request::MachineDoctor(_) => answers.doctor(self.hub.watch_thread.trouble()).await,
            Request::DaemonStatus(_) => self.hub.status().await,
            Request::DaemonShutdown(_) => raw(&Ending { pid: std::process::id() }),
            Request::Hello(_) | Request::EventsSubscribe(_) => {
                let message = "`hello` is said once, and events are subscribed to only once";
                Err(Refusal::new(Refusal::INVALID, message))
            }
        }
    }

    /// Tells every edge from now on, until the other side hangs up.
    async fn subscribe(
        mut self,
        id: Option<serde_json::Value>,
        wanted: SubscribeParams,
    ) -> io::Result<()> {
        let id = id.unwrap_or_default();
        let mut events = self.hub.watch_thread.sinks.events.subscribe();
        self.hub.watch_thread.first_snapshot().await;
        self.reply(&id, raw(&Subscribed { subscribed: true })).await?;
        loop {
            let mut gone = [0_u8; 64];
            let line = tokio::select! {
                event = events.recv() => match event {
                    Ok(News { event, line }) if wanted.admits(event.kind, event.adapter) => line,
                    Ok(_) => continue,
                    // It fell behind, and is told so.
                    Err(RecvError::Lagged(count)) => lost(count),
                    Err(RecvError::Closed) => return Ok(()),
                },
                // Whatever is said now is not listened to; the end of it is.
                read = self.read.read(&mut gone) => match read? {
                    0 => return Ok(()),
                    _ => continue,
                },
            };
            self.write(&[line.as_bytes()]).await?;
        }
    }

    async fn reply(&mut self, id: &serde_json::Value, answer: Answer) -> io::Result<()> {
        let id = id.to_string();
        match answer {
            Ok(result) => {
                let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":");
                match &*result {
                    Text::Whole(text) => {
                        self.write(&[head.as_bytes(), text.as_bytes(), b"}\n"]).await?;
                    }
                    Text::Pieces(_) => {
                        self.write(&[head.as_bytes()]).await?;
                        self.write_pieces(&result).await?;
                        self.write(&[b"}\n"]).await?;
                    }
                }
                if result.is_large() {
                    drop(result);
                    drop(tokio::task::spawn_blocking(|| give_back_memory(MEMORY_ENOUGH)));
                }
                Ok(())
            }
            Err(refusal) => {
                let error = serde_json::to_string(&refusal)?;
                let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n");
                self.write(&[line.as_bytes()]).await
            }
        }
    }

    /// Writes a long text piece by piece, each made when the one before it was taken.
    async fn write_pieces(&mut self, text: &Arc<Text>) -> io::Result<()> {
        for number in 0.. {
            let text = Arc::clone(text);
            let piece = tokio::task::spawn_blocking(move || {
                text.piece(number).map(|piece| piece.map(std::borrow::Cow::into_owned))
            });
            // The line has begun: only an end of the connection can tell that it will not be whole.
            let Some(piece) = piece.await? else { break };
            self.write(&[&piece?]).await?;
        }
        Ok(())
    }

    async fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let written = timeout(WRITE_LIMIT, self.write.write(rest)).await;
                match written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    count => rest = &rest[count..],
                }
            }
        }
        Ok(())
    }
}

fn lost(count: u64) -> Arc<str> {
    let line = json!({"jsonrpc": "2.0", "method": "lost", "params": {"count": count}});
    format!("{line}\n").into()
}

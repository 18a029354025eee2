//! A scripted gateway on loopback, healthy or not: slow, flapping, lying or dead.
//!
//! It sends the frames that were recorded from the real one. Blocking, one thread per connection; it
//! ends when its value is dropped.

mod approvals;
mod pairing;
mod runs;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

pub use self::approvals::Approvals;
pub use self::pairing::{DEVICE_TOKEN, Demand, Devices};

/// The secret it wants.
pub const TOKEN: &str = "test-token-0123456789abcdef";

/// How it behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// As it should.
    #[default]
    Well,
    /// Takes the connection and says nothing, not even the upgrade.
    Mute,
    /// Upgrades, then says nothing.
    NoChallenge,
    /// Lets one in and never answers a question.
    NoAnswer,
    /// Says everything one byte at a time, with this many milliseconds between.
    Drip(u64),
    /// Answers the first question with a frame that claims to be 100 MB.
    HugeFrame,
    /// Answers with text that is not JSON.
    Rubbish,
    /// Answers with JSON of the wrong shape.
    Shapeless,
    /// Closes the connection after this many pages of a list.
    CutAfter(usize),
    /// Hangs up before it says anything.
    HangUp,
    /// Gives the same page for ever.
    SamePage,
    /// Gives a new page for ever.
    EndlessPages,
    /// Says that there is more and not where.
    NoNextPage,
    /// Reports this many times that it is still starting.
    Starting(usize),
    /// Answers the upgrade with a redirect to this port.
    Redirect(u16),
    /// Speaks another protocol.
    OldProtocol,
    /// Lets one in without any right.
    NoScopes,
    /// Refuses to list.
    NoList,
    /// Lists all but every other row, and says that this is all.
    HalfTheTruth,
    /// Moves a row to the front between two pages.
    Restless,
    /// Loses its first row between two pages, once.
    Shrinking,
    /// Begins with something else than a challenge.
    Chatty,
}

/// The state of the gateway.
#[derive(Debug, Default)]
pub struct World {
    /// How it behaves.
    pub manner: Manner,
    /// The rows of its list.
    pub rows: Vec<Value>,
    /// Sessions it has and does not list, by key.
    pub hidden: Vec<Value>,
    /// The conversations, by session key.
    pub histories: BTreeMap<String, Value>,
    /// Its jobs.
    pub jobs: Vec<Value>,
    /// Rows of one page at most; 0 for as many as are asked for.
    pub page: usize,
    /// Every request: method and parameters.
    pub asked: Vec<(String, Value)>,
    /// A run is its beginner's: only that device or an administrator may end it.
    pub abort_needs_admin: bool,
    /// Which device began the last run of a session, by its key.
    owners: BTreeMap<String, Value>,
    /// The answers by idempotency key.
    made: BTreeMap<String, Value>,
    /// The devices it knows.
    pub devices: Devices,
    /// The requests for approval.
    pub approvals: Approvals,
    /// It answers an abort and nothing after it.
    pub mute_after_abort: bool,
    /// An abort is taken and changes nothing.
    pub abort_is_idle_talk: bool,
    /// Closes the connection this many times after taking a message, before answering.
    pub lost_answers: usize,
    /// How many connected.
    pub connections: usize,
    /// The subscribers.
    listeners: Vec<TcpStream>,
}

/// A gateway; it ends with the value.
pub struct Gateway {
    /// Its port on 127.0.0.1.
    pub port: u16,
    world: Arc<Mutex<World>>,
    over: Arc<AtomicBool>,
}

impl Gateway {
    /// Starts one.
    #[must_use]
    pub fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a port"), Arc::default())
    }

    /// Starts a new one on the port of one that has ended, with the same state.
    #[must_use]
    pub fn again(&self) -> Self {
        let listener = crate::eventually("the port is free again", || {
            TcpListener::bind(("127.0.0.1", self.port)).ok()
        });
        Self::on(listener, Arc::clone(&self.world))
    }

    fn on(listener: TcpListener, world: Arc<Mutex<World>>) -> Self {
        let port = listener.local_addr().expect("an address").port();
        let over = Arc::new(AtomicBool::new(false));
        let (theirs, ending) = (Arc::clone(&world), Arc::clone(&over));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ending.load(Ordering::SeqCst) {
                    return;
                }
                let (world, over) = (Arc::clone(&theirs), Arc::clone(&ending));
                std::thread::spawn(move || serve(stream, &world, &over));
            }
        });
        Self { port, world, over }
    }

    /// Returns its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// Returns its state, to read or to change.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Behaves like this from now on.
    pub fn behaves(&self, manner: Manner) {
        self.world().manner = manner;
    }

    /// Sends this to all subscribers.
    pub fn push(&self, event: &Value) {
        let text = event.to_string();
        let length = u8::try_from(text.len()).expect("short");
        assert!(length < 126, "one short frame");
        for listener in &mut self.world().listeners {
            let frame = [&[0x81, length], text.as_bytes()].concat();
            let _gone = listener.write_all(&frame);
        }
    }

    /// Closes the connections of all subscribers.
    pub fn hang_up(&self) {
        for listener in self.world().listeners.drain(..) {
            let _gone = listener.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Ends it: its port is closed.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        for listener in self.world().listeners.drain(..) {
            let _gone = listener.shutdown(std::net::Shutdown::Both);
        }
        // The listener is woken by one last connection, and goes.
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
        crate::eventually("it is gone", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_err().then_some(())
        });
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn world(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the other side goes away, or the gateway ends.
fn hold(stream: &TcpStream, over: &AtomicBool) {
    let _timed = stream.set_read_timeout(Some(Duration::from_millis(50)));
    let mut buffer = [0; 256];
    while !over.load(Ordering::SeqCst) {
        match (&mut &*stream).read(&mut buffer) {
            Ok(0) => return,
            Err(e)
                if !matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                return;
            }
            _ => {}
        }
    }
}

/// A stream that writes one byte at a time.
struct Slow {
    stream: TcpStream,
    pause: Option<Duration>,
}

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Slow {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        let Some(pause) = self.pause else { return self.stream.write(buffer) };
        std::thread::park_timeout(pause);
        self.stream.write(&buffer[..buffer.len().min(1)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

fn serve(mut stream: TcpStream, shared: &Mutex<World>, over: &AtomicBool) {
    let manner = {
        let mut world = world(shared);
        world.connections += 1;
        world.manner
    };
    let pause = match manner {
        Manner::Mute => return hold(&stream, over),
        Manner::HangUp => return,
        Manner::Redirect(port) => {
            let mut asked = [0; 4096];
            let _read = stream.read(&mut asked);
            let answer = format!(
                "HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:{port}/\r\nContent-Length: 0\r\n\r\n"
            );
            let _said = stream.write_all(answer.as_bytes());
            return;
        }
        Manner::Drip(ms) => Some(Duration::from_millis(ms)),
        _ => None,
    };
    let _faster = stream.set_nodelay(true);
    let Ok(mut socket) = tungstenite::accept(Slow { stream, pause }) else { return };
    if manner == Manner::NoChallenge {
        return hold(&socket.get_ref().stream, over);
    }
    let payload = json!({"nonce": pairing::NONCE, "ts": pairing::SIGNED_AT});
    let event = if manner == Manner::Chatty { "tick" } else { "connect.challenge" };
    let challenge = json!({"type": "event", "event": event, "payload": payload});
    if socket.send(Message::text(challenge.to_string())).is_err() {
        return;
    }
    let mut connection = Connection::default();
    while let Ok(Message::Text(text)) = socket.read() {
        let Ok(request) = serde_json::from_str::<Value>(&text) else { return };
        if !answer(&mut socket, &request, shared, &mut connection, over) {
            return;
        }
    }
}

fn reply(socket: &mut WebSocket<Slow>, request: &Value, payload: Value) -> bool {
    let frame = json!({"type": "res", "id": request["id"], "ok": true, "payload": payload});
    socket.send(Message::text(frame.to_string())).is_ok()
}

fn refuse(socket: &mut WebSocket<Slow>, request: &Value, error: Value) -> bool {
    let frame = json!({"type": "res", "id": request["id"], "ok": false, "error": error});
    socket.send(Message::text(frame.to_string())).is_ok()
}

/// What is known of one connection.
#[derive(Default)]
struct Connection {
    /// Pages of a list that it was given.
    pages: usize,
    /// The parameters of its `connect`.
    client: Value,
}

/// Answers one request; says whether the connection continues.
fn answer(
    socket: &mut WebSocket<Slow>,
    request: &Value,
    shared: &Mutex<World>,
    connection: &mut Connection,
    over: &AtomicBool,
) -> bool {
    let method = request["method"].as_str().unwrap_or_default().to_owned();
    let params = &request["params"];
    let manner = {
        let mut world = world(shared);
        world.asked.push((method.clone(), params.clone()));
        world.manner
    };
    // Other events and late answers to other requests come in between.
    let noise = json!({"type": "event", "event": "tick", "payload": {"ts": -1}, "seq": 1});
    let late =
        json!({"type": "res", "id": "somebody else's", "ok": true, "payload": {"sessions": []}});
    for frame in [noise, late] {
        if socket.send(Message::text(frame.to_string())).is_err() {
            return false;
        }
    }
    if method == "connect" {
        connection.client = params.clone();
        return connect(socket, request, shared, manner);
    }
    match manner {
        Manner::NoAnswer => {
            hold(&socket.get_ref().stream, over);
            return false;
        }
        Manner::HugeFrame => {
            // A text frame of 100 MB, of which only the beginning ever comes.
            let mut head = vec![0x81, 127];
            head.extend(100_000_000_u64.to_be_bytes());
            head.extend([b'x'; 1024]);
            let _said = socket.get_mut().stream.write_all(&head);
            hold(&socket.get_ref().stream, over);
            return false;
        }
        Manner::Rubbish => return socket.send(Message::text("{\"type\":\"res\",")).is_ok(),
        Manner::Shapeless => return reply(socket, request, json!([1, 2, 3])),
        _ => {}
    }
    let mut world = world(shared);
    let answer = match method.as_str() {
        "sessions.list" => match page(&mut world, params, connection.pages) {
            Some(page) => {
                connection.pages += 1;
                Ok(page)
            }
            None if manner == Manner::NoList => {
                Err(json!({"code": "UNAVAILABLE", "message": "not now"}))
            }
            None => return false,
        },
        "sessions.subscribe" => {
            world.listeners.extend(socket.get_ref().stream.try_clone());
            Ok(json!({"subscribed": true}))
        }
        "sessions.create" | "sessions.send" => {
            let answer = if method == "sessions.create" {
                runs::created(&mut world, params)
            } else {
                runs::sent(&mut world, params)
            };
            if world.lost_answers > 0 {
                world.lost_answers -= 1;
                return false;
            }
            answer.map_err(|why| json!({"code": "INVALID_REQUEST", "message": why}))
        }
        "sessions.abort" => runs::aborted(&mut world, params),
        "exec.approval.list" | "approval.resolve" => {
            let World { approvals, owners, .. } = &mut *world;
            let answer = approvals.answer(&method, params, &connection.client, owners);
            if method == "approval.resolve" && std::mem::take(&mut approvals.lost_answer) {
                return false;
            }
            answer
        }
        _ => looked_up(&world, &method, params),
    };
    drop(world);
    match answer {
        Ok(payload) => reply(socket, request, payload),
        Err(error) => refuse(socket, request, error),
    }
}

/// Answers a request that only reads.
fn looked_up(world: &World, method: &str, params: &Value) -> Result<Value, Value> {
    let mut all = world.rows.iter().chain(&world.hidden);
    match method {
        "sessions.resolve" => {
            let found = all.find(|row| row["sessionId"] == params["sessionId"]);
            Ok(found.map_or(json!({"ok": false}), |row| json!({"ok": true, "key": row["key"]})))
        }
        "sessions.describe" => {
            Ok(json!({ "session": all.find(|row| row["key"] == params["key"]) }))
        }
        "chat.history" => {
            let key = params["sessionKey"].as_str().unwrap_or_default();
            let history = world.histories.get(key).cloned();
            Ok(said(history.unwrap_or(json!({"messages": []})), params))
        }
        "cron.list" => Ok(json!({"jobs": world.jobs, "hasMore": false})),
        _ => Err(json!({"code": "FORBIDDEN", "message": "missing scope: operator.admin"})),
    }
}

fn connect(
    socket: &mut WebSocket<Slow>,
    request: &Value,
    shared: &Mutex<World>,
    manner: Manner,
) -> bool {
    let params = &request["params"];
    let error =
        |code: &str| json!({"code": "INVALID_REQUEST", "message": "no", "details": {"code": code}});
    if manner == Manner::OldProtocol || params["maxProtocol"] != 4 {
        let mut error = error("PROTOCOL_MISMATCH");
        error["details"]["expectedProtocol"] = 5.into();
        refuse(socket, request, error);
        return false;
    }
    if let Manner::Starting(times) = manner {
        let left = times.saturating_sub(1);
        world(shared).manner = if left == 0 { Manner::Well } else { Manner::Starting(left) };
        let error = json!({"code": "UNAVAILABLE", "message": "starting", "retryable": true, "retryAfterMs": 20});
        refuse(socket, request, error);
        return false;
    }
    let known =
        [&params["auth"]["token"], &params["auth"]["password"]].into_iter().any(|s| s == TOKEN);
    if !known {
        let missing = params.get("auth").is_none();
        let code = if missing { "AUTH_TOKEN_MISSING" } else { "AUTH_TOKEN_MISMATCH" };
        refuse(socket, request, error(code));
        return false;
    }
    let admitted = world(shared).devices.admit(params);
    let scopes = match admitted {
        Ok(_) if manner == Manner::NoScopes => json!([]),
        Ok(scopes) => scopes,
        Err(error) => {
            refuse(socket, request, error);
            return false;
        }
    };
    let token = params.get("device").map(|_| DEVICE_TOKEN);
    let hello = json!({
        "type": "hello-ok", "protocol": 4,
        "server": {"version": "2026.9.6", "bootId": "b"},
        "auth": {"method": "token", "role": "operator", "scopes": scopes, "deviceToken": token},
    });
    reply(socket, request, hello)
}

/// One page of the list; `None` where it goes wrong.
fn page(world: &mut World, params: &Value, given: usize) -> Option<Value> {
    let asked = usize::try_from(params["limit"].as_u64().unwrap_or(100)).unwrap_or(100);
    let offset = usize::try_from(params["offset"].as_u64().unwrap_or(0)).unwrap_or(0);
    let size = if world.page == 0 { asked } else { asked.min(world.page) };
    match world.manner {
        Manner::CutAfter(pages) if given >= pages => return None,
        Manner::NoList => return None,
        Manner::SamePage => {
            let rows: Vec<&Value> = world.rows.iter().take(size).collect();
            return Some(
                json!({"sessions": rows, "totalCount": 1_000_000, "hasMore": true, "nextOffset": offset + size}),
            );
        }
        Manner::EndlessPages => {
            let row = |n: usize| json!({"key": format!("agent:x:{n}"), "sessionId": format!("{n:032}"), "hasActiveRun": false});
            let rows: Vec<Value> = (offset..offset + size.max(1)).map(row).collect();
            return Some(
                json!({"sessions": rows, "totalCount": u32::MAX, "hasMore": true, "nextOffset": offset + size.max(1)}),
            );
        }
        Manner::NoNextPage => {
            let rows: Vec<&Value> = world.rows.iter().take(1).collect();
            return Some(
                json!({"sessions": rows, "totalCount": 5, "hasMore": true, "nextOffset": null}),
            );
        }
        Manner::HalfTheTruth => {
            let rows: Vec<&Value> = world.rows.iter().step_by(2).collect();
            return Some(
                json!({"sessions": rows, "totalCount": world.rows.len(), "hasMore": false, "nextOffset": null}),
            );
        }
        Manner::Shrinking if offset > 0 => {
            world.rows.remove(0);
            world.manner = Manner::Well;
        }
        Manner::Restless if offset > 0 => {
            if let Some(row) = world.rows.pop() {
                world.rows.insert(0, row);
            }
        }
        _ => {}
    }
    let rows: Vec<&Value> = world.rows.iter().skip(offset).take(size).collect();
    let end = offset + rows.len();
    let more = end < world.rows.len();
    Some(json!({
        "sessions": rows, "totalCount": world.rows.len(), "hasMore": more,
        "nextOffset": more.then_some(end),
    }))
}

/// The newest messages of a history, as many as are asked for.
fn said(mut history: Value, params: &Value) -> Value {
    let all = history["messages"].as_array().cloned().unwrap_or_default();
    let limit = usize::try_from(params["limit"].as_u64().unwrap_or(1000)).unwrap_or(1000);
    let offset = usize::try_from(params["offset"].as_u64().unwrap_or(0)).unwrap_or(0);
    let end = all.len().saturating_sub(offset);
    let start = end.saturating_sub(limit);
    history["messages"] = all[start..end].to_vec().into();
    history["hasMore"] = (start > 0).into();
    history["nextOffset"] = json!((start > 0).then_some(offset + (end - start)));
    history
}

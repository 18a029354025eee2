//! A scripted receiver of webhooks on loopback, healthy or not, which records its requests.
//!
//! Blocking, one thread per connection; it ends when its value is dropped.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// How it treats one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Answers with this status.
    Status(u16),
    /// Answers with this status and one more header line.
    With(u16, String),
    /// Reads it and says nothing until the other side goes.
    Hang,
    /// Says its status one byte at a time, and never ends.
    Drip,
    /// Takes it, and begins a body that never ends.
    Endless,
    /// Answers with headers that never end.
    EndlessHeaders,
    /// Answers with text that is not HTTP.
    Rubbish,
    /// Reads it and hangs up.
    HangUp,
    /// Hangs up without reading.
    Deaf,
}

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method and path: `POST /hook`.
    pub line: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns a header, if it is there.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

#[derive(Default)]
struct World {
    script: VecDeque<Manner>,
    usual: Option<Manner>,
    requests: Vec<Request>,
    connections: usize,
}

/// A receiver; it ends with the value.
pub struct Receiver {
    /// Its port on 127.0.0.1.
    pub port: u16,
    world: Arc<Mutex<World>>,
    over: Arc<AtomicBool>,
}

impl Receiver {
    /// Starts a receiver that accepts everything, after it has treated the first requests in these
    /// manners.
    #[must_use]
    pub fn start(script: impl IntoIterator<Item = Manner>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let script = script.into_iter().collect();
        let world = Arc::new(Mutex::new(World { script, ..World::default() }));
        let over = Arc::new(AtomicBool::new(false));
        let (shared, ended) = (Arc::clone(&world), Arc::clone(&over));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let world = Arc::clone(&shared);
                std::thread::spawn(move || {
                    // A client that disconnects ends its connection, not the test.
                    let _gone = serve(stream, &world);
                });
            }
        });
        Self { port, world, over }
    }

    /// Starts a receiver that treats every request in one manner.
    #[must_use]
    pub fn always(manner: Manner) -> Self {
        let receiver = Self::start([]);
        receiver.from_now_on(manner);
        receiver
    }

    /// Changes how it treats requests from now on.
    pub fn from_now_on(&self, manner: Manner) {
        world(&self.world).usual = Some(manner);
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        world(&self.world).requests.clone()
    }

    /// Returns the number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        world(&self.world).connections
    }

    /// Waits until it has this many requests, and returns them.
    #[must_use]
    pub fn until(&self, count: usize) -> Vec<Request> {
        crate::eventually("the receiver has its requests", || {
            Some(self.requests()).filter(|requests| requests.len() >= count)
        })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn world(of: &Mutex<World>) -> MutexGuard<'_, World> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(stream: TcpStream, shared: &Mutex<World>) -> std::io::Result<()> {
    let manner = {
        let mut world = world(shared);
        world.connections += 1;
        let usual = world.usual.clone().unwrap_or(Manner::Status(204));
        world.script.pop_front().unwrap_or(usual)
    };
    if manner == Manner::Deaf {
        return stream.shutdown(Shutdown::Both);
    }
    let request = read(&stream)?;
    world(shared).requests.push(request);
    answer(stream, manner)
}

fn read(stream: &TcpStream) -> std::io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Request { line, headers, body })
}

fn answer(mut stream: TcpStream, manner: Manner) -> std::io::Result<()> {
    match manner {
        Manner::Status(status) => {
            write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")
        }
        Manner::With(status, header) => {
            write!(stream, "HTTP/1.1 {status} X\r\n{header}\r\nContent-Length: 0\r\n\r\n")
        }
        Manner::Hang => std::io::copy(&mut stream, &mut std::io::sink()).map(|_| ()),
        Manner::Drip => {
            for byte in b"HTTP/1.1 200 OK\r\nX: ".iter().chain(std::iter::repeat(&b'y')) {
                stream.write_all(&[*byte])?;
                std::thread::park_timeout(std::time::Duration::from_millis(5));
            }
            Ok(())
        }
        Manner::Endless => {
            write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 4096])?;
            }
        }
        Manner::EndlessHeaders => {
            write!(stream, "HTTP/1.1 200 OK\r\n")?;
            loop {
                stream
                    .write_all(b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n")?;
            }
        }
        Manner::Rubbish => stream.write_all(b"\x00\x01 not at all\r\n\r\n"),
        Manner::HangUp | Manner::Deaf => stream.shutdown(Shutdown::Both),
    }
}

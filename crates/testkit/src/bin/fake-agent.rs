//! A process that behaves like an agent where the kernel is concerned. Its arguments are its script:
//!
//! - `write PATH TEXT`: writes a file; `{pid}`, `{start}`, `{ns}`, `{machine}`, `{boot}` stand for its own
//! - `append PATH TEXT`: adds a line to a file
//! - `keep PATH TEXT`: adds a line to a file and holds it
//! - `answer FOLDER`: accepts HTTP on the loopback; `GET /a/b` is answered with the file `a.b`, and the
//!   request is added to the file `asked`
//! - `serve-rpc SOCKET FILE`: accepts connections on a Unix socket; each line of JSON-RPC is answered with the
//!   result that FILE, a JSON object, has for its method; the bytes `list_bytes` follow the answer to
//!   `session.list`
//! - `bequeath SOCKET`: listens on a Unix socket and leaves the listener to a `sleep` that it starts
//! - `lock PATH`: opens a file and holds an exclusive `flock` on it
//! - `open PATH`: opens a file for reading and writing and holds it
//! - `crowd KIND COUNT FOLDER`: opens this many descriptors and holds them: of rollouts in this folder, or
//!   (`same`) of one file
//! - `read PATH`: opens a file for reading and holds it
//! - `watch`: opens a watch of files (inotify) and holds it
//! - `listen PATH`: accepts connections on a Unix socket and holds them
//! - `relay PATH`: listens on a Unix socket and passes each connection on to the socket `PATH.behind`
//! - `connect PATH`: connects to a Unix socket and holds the connection
//! - `tell PATH LINE FILE`: sends a line to a Unix socket and writes the reply into a file
//! - `remove PATH`: removes a file
//! - `say TEXT`: prints the text, then continues
//! - `exit CODE`: ends
//! - `env NAME VALUE`: sets a variable for its children
//! - `start SCRIPT`: starts a shell with this script as a child and continues
//! - `fork`: forks a child that keeps every open file and never becomes another program; it dies with its
//!   parent
//! - `stay`: will stay when its stdin is closed, too
//! - `reaper`: becomes the subreaper of its descendants
//! - `hide`: unmaps its own arguments before it prints that it is ready, so that they cannot be read;
//!   then it stays until it is killed
//! - `be-gateway PATH`: is a gateway; its address is written to this file with the suffix `.url`, and
//!   at the end all requests to the file itself
//! - `mute`: listens on the loopback and never accepts
//! - `deaf PATH`: listens on a Unix socket and never accepts, and has filled its queue
//!
//! At the end it prints `ready <pid>` and stays until its stdin is closed or it is killed.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]
#![allow(unsafe_code)] // `hide` takes away memory of its own; `fork` stops a child before its `exec`

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitCode, Stdio};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut held: Vec<File> = Vec::new();
    let mut env: Vec<(String, String)> = Vec::new();
    let (mut stays, mut hides) = (false, false);
    let mut gateway = None;
    while let Some(verb) = args.next() {
        let mut word = || fill(&args.next().expect("an argument"));
        match verb.as_str() {
            "write" => {
                let path = with_parent(word());
                std::fs::write(path, word()).expect("written");
            }
            "append" => {
                let path = word();
                let mut file =
                    OpenOptions::new().append(true).create(true).open(path).expect("open");
                writeln!(file, "{}", word()).expect("appended");
            }
            "keep" => {
                let path = with_parent(word());
                let mut file =
                    OpenOptions::new().append(true).create(true).open(path).expect("open");
                writeln!(file, "{}", word()).expect("added");
                held.push(file);
            }
            "answer" => answer(word().into()),
            "serve-rpc" => serve(&word(), &word()),
            "bequeath" => {
                let listener = UnixListener::bind(word()).expect("bound");
                let mut heir = Command::new("sleep");
                heir.arg("600").stdin(std::os::fd::OwnedFd::from(listener)).stdout(Stdio::null());
                drop(heir.spawn().expect("started"));
            }
            "lock" => {
                let path = with_parent(word());
                let file = OpenOptions::new().create(true).append(true).open(path).expect("open");
                file.lock().expect("locked");
                held.push(file);
            }
            "open" => {
                let file = OpenOptions::new().read(true).append(true).open(word());
                held.push(file.expect("open"));
            }
            "crowd" => held.extend(crowd(&word(), &word(), &word())),
            "read" => held.push(File::open(word()).expect("open")),
            "watch" => held.push(watch()),
            "listen" => listen(&word()),
            "relay" => relay(&word()),
            "connect" => held.push(connected(&word())),
            "tell" => tell(&word(), &word(), &word()),
            "remove" => std::fs::remove_file(word()).expect("removed"),
            "say" => println!("{}", word()),
            "env" => env.push((word(), word())),
            "start" => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(word()).envs(env.iter().cloned());
                // It does not inherit stdout: a reader of our output must not wait for its end.
                shell.stdin(Stdio::null()).stdout(Stdio::null());
                drop(shell.spawn().expect("started"));
            }
            "fork" => fork(),
            "stay" => stays = true,
            "hide" => hides = true,
            "be-gateway" => {
                let (path, started) = (word(), testkit::gateway::Gateway::start());
                std::fs::write(format!("{path}.url"), started.url()).expect("written");
                gateway = Some((path, started));
            }
            "mute" => {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
                held.push(File::from(std::os::fd::OwnedFd::from(listener)));
            }
            "deaf" => held.extend(deaf(&word())),
            "reaper" => {
                let me = Some(rustix::process::getpid());
                rustix::process::set_child_subreaper(me).expect("a reaper");
            }
            "exit" => return ExitCode::from(word().parse::<u8>().expect("a code")),
            // An argument an agent would take for itself: `app-server`, `-p`, …
            _ => {}
        }
    }
    if hides {
        hide();
    }
    println!("ready {}", std::process::id());
    std::io::stdout().flush().expect("heard");
    if stays {
        loop {
            std::thread::park();
        }
    }
    let mut rest = Vec::new();
    let _closed = std::io::stdin().read_to_end(&mut rest);
    drop(held);
    if let Some((path, gateway)) = gateway {
        let asked = serde_json::to_string(&gateway.world().asked).expect("JSON");
        std::fs::write(path, asked).expect("written");
    }
    ExitCode::SUCCESS
}

/// Connects to a socket.
fn connected(path: &str) -> File {
    let stream = UnixStream::connect(path).expect("connected");
    File::from(std::os::fd::OwnedFd::from(stream))
}

/// Sends a line to a socket and keeps the reply in a file, which appears whole.
fn tell(socket: &str, line: &str, file: &str) {
    let mut stream = UnixStream::connect(socket).expect("connected");
    writeln!(stream, "{line}").expect("sent");
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).expect("replied");
    std::fs::write(format!("{file}.part"), reply).expect("written");
    std::fs::rename(format!("{file}.part"), file).expect("renamed");
}

/// Opens a watch of files, as agents do for their settings.
fn watch() -> File {
    let watch = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::empty());
    File::from(watch.expect("a watch"))
}

/// Listens and never accepts; connects to itself until its queue is full.
fn deaf(path: &str) -> Vec<File> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket = |flags| {
        let kind = SocketType::STREAM;
        rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket")
    };
    let address = SocketAddrUnix::new(path).expect("an address");
    let listener = socket(SocketFlags::empty());
    rustix::net::bind(&listener, &address).expect("bound");
    rustix::net::listen(&listener, 0).expect("listens");
    let mut held = vec![File::from(listener)];
    loop {
        let client = socket(SocketFlags::NONBLOCK);
        if rustix::net::connect(&client, &address).is_err() {
            return held;
        }
        held.push(File::from(client));
    }
}

/// Takes away the memory in which its arguments lie, and stays. The first thread's own stack may lie in the
/// same page, so it never runs again.
fn hide() -> ! {
    unsafe extern "C" {
        fn munmap(address: *mut std::ffi::c_void, length: usize) -> i32;
    }
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a stat line");
    let fields = stat.rsplit(") ").next().expect("fields");
    let place = |field: usize| {
        fields.split(' ').nth(field - 3).and_then(|f| f.parse::<usize>().ok()).expect("a place")
    };
    let (from, to) = (place(48) & !4095, (place(49) + 4095) & !4095);
    std::thread::spawn(move || {
        // SAFETY: nothing of this program reads its arguments any more, and the first thread sleeps for ever.
        let gone = unsafe { munmap(std::ptr::without_provenance_mut(from), to - from) };
        assert_eq!(gone, 0, "not unmapped");
        println!("ready {}", std::process::id());
        std::io::stdout().flush().expect("heard");
        loop {
            std::thread::park();
        }
    });
    loop {
        std::thread::park();
    }
}

/// Forks a child that stays between `fork` and `exec`, and returns when it is there.
fn fork() {
    use std::os::unix::process::CommandExt;
    let (mut heard, mut says) = std::io::pipe().expect("a pipe");
    let (mut never, never_written) = std::io::pipe().expect("a pipe");
    let mut command = Command::new("true");
    let stay = move || {
        // The child has a copy of the other end, so that this pipe is never closed.
        let _open = &never_written;
        let death = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(death)?;
        says.write_all(b"x")?;
        never.read(&mut [0]).map(drop)
    };
    // SAFETY: the child makes system calls only and allocates nothing.
    unsafe { command.pre_exec(stay) };
    // `spawn` returns after `exec`, which never happens. The child dies with the thread that forked it.
    std::thread::spawn(move || drop(command.spawn()));
    heard.read_exact(&mut [0]).expect("the child is there");
}

/// Makes the directory of a file.
fn with_parent(path: String) -> String {
    let parent = std::path::Path::new(&path).parent().expect("a parent");
    std::fs::create_dir_all(parent).expect("made");
    path
}

/// Opens this many descriptors: `rollouts` of its own in this folder, `same` file, `flocks` on deleted files,
/// or `listeners` on the addresses `127.FOLDER.0.1` and up.
fn crowd(kind: &str, many: &str, folder: &str) -> Vec<File> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("raised");
    let many: u32 = many.parse().expect("a number");
    if kind == "listeners" {
        return listeners(many, folder.parse().expect("a number"));
    }
    let open = |n: u32| {
        let path = match kind {
            "same" => "/dev/null".to_owned(),
            _ => format!(
                "{folder}/rollout-2026-11-15T07-44-24-{n:08x}-2222-4333-8444-555555555555.jsonl"
            ),
        };
        let file = OpenOptions::new().append(true).create(kind != "same").open(&path);
        let file = file.expect("open");
        if kind == "flocks" {
            file.lock().expect("locked");
            std::fs::remove_file(path).expect("removed");
        }
        file
    };
    (0..many).map(open).collect()
}

/// Listens on many addresses of the loopback, on one port.
fn listeners(many: u32, network: u8) -> Vec<File> {
    let mut port = 0;
    let bind = |n: u32| {
        let [_, _, third, fourth] = (n + 1).to_be_bytes();
        let address = std::net::Ipv4Addr::new(127, network, third, fourth);
        let listener = std::net::TcpListener::bind((address, port)).expect("bound");
        port = listener.local_addr().expect("an address").port();
        File::from(std::os::fd::OwnedFd::from(listener))
    };
    (0..many).map(bind).collect()
}

/// Accepts connections and says nothing, for as long as this process lives.
fn listen(path: &str) {
    let listener = std::os::unix::net::UnixListener::bind(path).expect("bound");
    std::thread::spawn(move || {
        let held: Vec<_> = listener.incoming().flatten().collect();
        drop(held);
    });
}

/// Serves a socket with the answers of the test, which listens behind it.
fn relay(path: &str) {
    let behind = format!("{path}.behind");
    let listener = UnixListener::bind(path).expect("bound");
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = UnixStream::connect(&behind) else { continue };
            let ends = near.try_clone().and_then(|near| Ok((near, far.try_clone()?)));
            let (near_again, far_again) = ends.expect("cloned");
            std::thread::spawn(move || pass_on(near, far));
            std::thread::spawn(move || pass_on(far_again, near_again));
        }
    });
}

/// Copies one direction of a connection, and then its end.
fn pass_on(mut from: UnixStream, mut to: UnixStream) {
    let _broken = std::io::copy(&mut from, &mut to);
    for end in [from, to] {
        let _gone = end.shutdown(std::net::Shutdown::Both);
    }
}

/// Answers HTTP requests as long as this process lives.
fn answer(folder: std::path::PathBuf) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = Vec::new();
            let mut buffer = [0; 4096];
            while !asked.windows(4).any(|w| w == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(count) if count > 0 => asked.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let asked = String::from_utf8_lossy(&asked).into_owned();
            let path = asked.split_whitespace().nth(1).unwrap_or("/").to_owned();
            let name = path.split('?').next().unwrap_or_default().trim_matches('/');
            let mut log = OpenOptions::new()
                .append(true)
                .create(true)
                .open(folder.join("asked"))
                .expect("open");
            writeln!(log, "{}", asked.replace("\r\n", "|")).expect("added");
            let name = name.replace('/', ".");
            // An answer that is given only once.
            let once = folder.join(format!("{name}.once"));
            let body = std::fs::read_to_string(&once).inspect(|_| {
                std::fs::remove_file(&once).expect("removed");
            });
            let body = body.or_else(|_| std::fs::read_to_string(folder.join(name)));
            let (status, body) = match body {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", "{}".to_owned()),
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
            let _gone = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
}

/// Answers JSON-RPC on a Unix socket that every user may connect to, for as long as this process lives.
fn serve(socket: &str, file: &str) {
    let results = std::fs::read_to_string(file).expect("results");
    let results: serde_json::Value = serde_json::from_str(&results).expect("a JSON object");
    let _old = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).expect("bound");
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o777)).expect("set");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let results = results.clone();
            std::thread::spawn(move || answer_lines(&stream, &results));
        }
    });
}

fn answer_lines(mut stream: &UnixStream, results: &serde_json::Value) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let request: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let method = request["method"].as_str().unwrap_or_default();
        // Written with raw characters, as an attacker would: `to_string` escapes none but C0.
        let reply = serde_json::json!({
            "jsonrpc": "2.0", "id": request["id"], "result": results[method],
        });
        if writeln!(stream, "{reply}").is_err() {
            return;
        }
        if let ("session.list", Some(bytes)) = (method, results["list_bytes"].as_array()) {
            let bytes = bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok());
            let _gone = stream.write_all(&bytes.collect::<Vec<u8>>());
        }
        for event in results["events"]
            .as_array()
            .filter(|_| method == "events.subscribe")
            .into_iter()
            .flatten()
        {
            let told = serde_json::json!({"jsonrpc": "2.0", "method": "event", "params": event});
            let _gone = writeln!(stream, "{told}");
        }
    }
}

fn fill(text: &str) -> String {
    let line = std::fs::read_to_string("/proc/self/stat").expect("a stat line");
    let start = line.rsplit(") ").next().and_then(|s| s.split(' ').nth(19)).expect("a start time");
    let ns = std::fs::read_link("/proc/self/ns/pid").expect("a namespace");
    let ns = ns.to_string_lossy().replace("pid:[", "").replace(']', "");
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    text.replace("{pid}", &std::process::id().to_string())
        .replace("{start}", start)
        .replace("{ns}", &ns)
        .replace("{machine}", machine.trim())
        .replace("{boot}", boot.trim())
}

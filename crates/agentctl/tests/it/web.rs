//! `agentctl web`: every route refuses what it must, pairing, addresses and settings. Real server, raw HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use agentctl::web::{Access, MAX_BODY_BYTES, MAX_PAIRING_BODY_BYTES, POLICY, RouteRow, routes};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{PseudoTerminal, TestHome, eventually, sandboxed};

use crate::{configure, home};

/// Timeout of a request, far longer than any request takes.
const PATIENCE: Duration = Duration::from_mins(1);
const KEY: &str = ".local/state/agentctl/web.key";
const SOCKET: &str = ".local/state/agentctl/run/web.sock";

/// A running server.
pub(crate) struct Web {
    child: Child,
    pub(crate) port: u16,
    /// The code of the link that it printed.
    pub(crate) code: String,
}

impl Web {
    /// Starts a server on a port that the kernel chooses.
    pub(crate) fn start(home: &TestHome, flags: &[&str]) -> Self {
        Self::start_at(home, "127.0.0.1:0", flags)
    }

    pub(crate) fn start_at(home: &TestHome, listen: &str, flags: &[&str]) -> Self {
        let mut args = vec!["web", "--listen", listen];
        args.extend(flags);
        Self::of(home.command(&args).stdout(Stdio::piped()).spawn().expect("started"))
    }

    /// Takes a server that was started; waits for its link.
    fn of(mut child: Child) -> Self {
        let mut link = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut link).expect("a line");
        let (url, code) = link.trim().split_once("/#k=").expect("a link");
        let port = url.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0);
        Self { child, port, code: code.to_owned() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// Sends a request with the usual `Host`, these headers and this body.
    pub(crate) fn ask(&self, line: &str, headers: &str, body: &str) -> Answer {
        let (port, length) = (self.port, body.len());
        let request = format!(
            "{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        self.exchange(&request)
    }

    fn exchange(&self, request: &str) -> Answer {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a listener");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        exchange(stream, request)
    }

    /// Exchanges a code for a token.
    pub(crate) fn pair(&self, code: &str) -> Answer {
        let body = json!({"code": code}).to_string();
        self.ask("POST /api/pair", "Content-Type: application/json\r\n", &body)
    }

    /// Returns the token of a new device.
    pub(crate) fn token(&self) -> String {
        let paired = self.pair(&self.code);
        assert_eq!(paired.code, 200, "{}", paired.body);
        paired.json()["token"].as_str().expect("a token").to_owned()
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), &format!("Authorization: Bearer {token}\r\n"), "")
    }

    pub(crate) fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        let headers =
            format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        self.ask(&format!("POST {path}"), &headers, &body.to_string())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.kill();
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    fn error(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) fn exchange(mut stream: impl Read + Write, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).expect("sent");
    let (mut bytes, mut chunk) = (Vec::new(), [0; 8192]);
    // A refused request may be reset after its answer, because the rest of its body is not read.
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..count]);
        let head = String::from_utf8_lossy(&bytes);
        // The answer of the stream has no end.
        if head.split_once("\r\n\r\n").is_some_and(|(head, _)| head.contains("event-stream")) {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let code = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a code");
    Answer { code, head: head.to_lowercase(), body: body.to_owned() }
}

/// Sends a request with an empty document to the private socket.
pub(crate) fn ask_privately(home: &TestHome, line: &str) -> Answer {
    let stream = UnixStream::connect(home.path().join(SOCKET)).expect("a listener");
    let json = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    exchange(stream, &format!("{line} HTTP/1.1\r\nHost: localhost\r\n{json}"))
}

/// Returns the headers of a request that a route accepts, as names and values.
pub(crate) fn accepted(port: u16, token: &str, route: RouteRow) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("Host", format!("127.0.0.1:{port}")),
        ("Origin", format!("http://127.0.0.1:{port}")),
        ("Sec-Fetch-Site", "same-origin".to_owned()),
        ("Authorization", format!("Bearer {token}")),
    ];
    if route.method == "POST" {
        headers.push(("Content-Type", "application/json".to_owned()));
    }
    headers
}

pub(crate) fn request(method: &str, path: &str, headers: &[(&'static str, String)]) -> String {
    let lines: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let lines = lines.concat();
    // A body that no order accepts: nothing may happen.
    format!("{method} {path} HTTP/1.1\r\nContent-Length: 2\r\n{lines}\r\n{{}}")
}

/// Returns the headers with one of them replaced, or left out.
fn with(
    headers: &[(&'static str, String)],
    name: &str,
    value: Option<&str>,
) -> Vec<(&'static str, String)> {
    let mut all = headers.to_vec();
    match value {
        Some(value) => {
            all.iter_mut().filter(|(n, _)| *n == name).for_each(|(_, v)| value.clone_into(v));
        }
        None => all.retain(|(n, _)| *n != name),
    }
    all
}

/// Returns what browsers say about requests of other web pages: site, mode and destination.
fn navigations() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut all = Vec::new();
    for site in ["cross-site", "same-site"] {
        for mode in ["navigate", "no-cors", "cors", "same-origin"] {
            for dest in ["document", "iframe", "embed", "script", "empty"] {
                all.push((site, mode, dest));
            }
        }
    }
    all
}

/// A header of a request.
type Header = (&'static str, String);

/// Plays the requests of other web pages: a link opens a file of the page, and everything else is refused.
fn only_a_link_opens_the_page(
    route: RouteRow,
    good: &[Header],
    code: &dyn Fn(&str, &[Header]) -> u16,
) {
    let (method, path) = (route.method, route.path);
    for (site, mode, dest) in navigations() {
        let mut headers = with(good, "Sec-Fetch-Site", Some(site));
        headers.extend([("Sec-Fetch-Mode", mode.into()), ("Sec-Fetch-Dest", dest.into())]);
        // A link on another web page opens the page, which holds no data, and nothing else.
        let is_link = (mode, dest) == ("navigate", "document");
        let opens = is_link && route.access == Access::Public;
        let expected = if opens { 200 } else { 403 };
        let without = with(&headers, "Origin", None);
        assert_eq!(code(method, &without), expected, "{path}: {site} {mode} {dest}");
        let foreign = with(&headers, "Origin", Some("http://evil.example"));
        assert_eq!(code(method, &foreign), 403, "{path}: {site} {mode} {dest}");
        let other = if method == "GET" { "POST" } else { "GET" };
        assert_eq!(code(other, &without), 403, "{other} {path}: {site} {mode} {dest}");
    }
}

/// Every route with every wrong `Host`, `Origin`, `Sec-Fetch-Site`, token, method and type, generated from the table.
#[test]
fn every_route_refuses_every_wrong_request() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &["--allow-control"]);
        let (port, token) = (web.port, web.token());
        let table = routes();
        assert!(table.len() > 14, "the table is the server's own");
        for route in table.iter().copied() {
            let (method, path) = (route.method, route.path);
            let good = accepted(port, &token, route);
            let code = |method: &str, headers: &[(&'static str, String)]| {
                let answer = web.exchange(&request(method, path, headers));
                for never in ["set-cookie", "access-control", "location:"] {
                    assert!(!answer.head.contains(never), "{method} {path}: {}", answer.head);
                }
                assert!(answer.head.contains(&POLICY.to_lowercase()), "{}", answer.head);
                for always in [
                    "x-content-type-options: nosniff",
                    "referrer-policy: no-referrer",
                    "cross-origin-opener-policy: same-origin",
                    "cross-origin-resource-policy: same-origin",
                ] {
                    assert!(answer.head.contains(always), "{method} {path}: {}", answer.head);
                }
                assert!(!answer.body.contains(&token), "{method} {path}");
                answer.code
            };
            let is_private = route.access == Access::Private;
            let usual = code(method, &good);
            let may_be = match route.access {
                Access::Private => usual == 404,
                Access::Public => usual == 200,
                // The query or the body is incomplete.
                _ => matches!(usual, 200 | 400),
            };
            assert!(may_be, "{method} {path}: {usual}");
            for host in [
                None,
                Some("evil.example"),
                Some("127.0.0.1"),
                Some("127.0.0.1:1"),
                Some("127.0.0.1.evil.example"),
                Some(""),
            ] {
                let host = code(method, &with(&good, "Host", host));
                assert!(matches!(host, 400 | 403), "{method} {path}: {host}");
            }
            let mut twice = good.clone();
            twice.push(("Host", format!("127.0.0.1:{port}")));
            assert!(matches!(code(method, &twice), 400 | 403), "{method} {path}: two hosts");
            for origin in [
                "null",
                "http://evil.example",
                "http://127.0.0.1:1",
                &format!("https://127.0.0.1:{port}"),
                &format!("http://127.0.0.1:{port}.evil.example"),
            ] {
                let refused = code(method, &with(&good, "Origin", Some(origin)));
                assert_eq!(refused, 403, "{method} {path}: {origin}");
            }
            assert_eq!(code(method, &with(&good, "Origin", None)), usual, "{path}: no origin");
            for site in ["cross-site", "same-site", "other"] {
                let refused = code(method, &with(&good, "Sec-Fetch-Site", Some(site)));
                assert_eq!(refused, 403, "{method} {path}: {site}");
            }
            assert_eq!(code(method, &with(&good, "Sec-Fetch-Site", Some("none"))), usual);
            only_a_link_opens_the_page(route, &good, &code);
            let needs_token = matches!(route.access, Access::Data | Access::Control);
            let is_free = !path.starts_with("/api/") || path == "/api/pair" || is_private;
            assert_eq!(needs_token, !is_free, "{path}");
            let unknown = if needs_token { 401 } else { usual };
            assert_eq!(code(method, &with(&good, "Authorization", None)), unknown, "{path}");
            let basic = with(&good, "Authorization", Some("Basic eDp5"));
            assert_eq!(code(method, &basic), unknown, "{path}");
            let (most, last) = token.split_at(token.len() - 1);
            let wrong = format!("Bearer {most}{}", if last == "0" { "1" } else { "0" });
            let wrong = with(&good, "Authorization", Some(&wrong));
            assert_eq!(code(method, &wrong), unknown, "{path}: a wrong token");
            for other in ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "PATCH"] {
                if other != method {
                    let expected = if is_private { 404 } else { 405 };
                    assert_eq!(code(other, &good), expected, "{other} {path}");
                }
            }
            if method == "POST" && !is_private {
                for kind in ["text/plain", "application/x-www-form-urlencoded", "", "json"] {
                    let refused = code(method, &with(&good, "Content-Type", Some(kind)));
                    assert_eq!(refused, 415, "{path}: {kind}");
                }
                assert_eq!(code(method, &with(&good, "Content-Type", None)), 415, "{path}");
                let charset = with(&good, "Content-Type", Some("application/json; charset=utf-8"));
                assert_eq!(code(method, &charset), usual, "{path}");
            }
        }
    });
}

#[test]
fn wrong_tokens_are_refused_and_rate_limited() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &[]);
        let token = web.token();
        let (claim, tag) = token.rsplit_once('.').expect("a tag");
        let parts: Vec<&str> = claim.split('.').collect();
        assert_eq!((parts[0], parts.len(), tag.len()), ("v1", 3, 64), "the form of a token");
        let later = format!("v1.{}.{}.{tag}", parts[1], u64::MAX >> 2);
        let other = format!("v1.0000000000000000.{}.{tag}", parts[2]);
        let cut = &token[..token.len() - 1];
        let long = format!("{token}0");
        for wrong in ["", "x", "v1", "v1...", claim, cut, &long, &later, &other] {
            assert_eq!(web.get(wrong, "/api/asks").code, 401, "{wrong}");
        }
        assert_eq!(web.get("x", &format!("/api/asks?token={token}")).code, 401, "in no address");
        // On a busy machine the limit may be refilled between two requests. Five codes alone do not reach it.
        let is_shared = (0..5).any(|_| {
            eventually("the rate limit applies", || {
                (web.get("guess", "/api/asks").code == 429).then_some(())
            });
            web.pair("guess").code == 429
        });
        assert!(is_shared, "codes and tokens share the limit");
        assert_eq!(web.get(&token, "/api/asks").code, 200, "the right one is not limited");
    });
}

#[test]
fn a_link_is_good_once_and_a_token_survives_a_restart() {
    sandboxed(|| {
        let home = home();
        let mut web = Web::start(&home, &[]);
        let paired = web.pair(&web.code);
        assert_eq!(paired.code, 200, "{}", paired.body);
        let document = paired.json();
        let token = document["token"].as_str().expect("a token").to_owned();
        assert_eq!(document["control"], false);
        assert!(document["until"].is_string() && document["version"].is_string());
        let again = web.pair(&web.code);
        assert_eq!((again.code, again.error()), (401, "code".to_owned()), "{}", again.body);
        let second = home.run(&["web", "--link"]);
        assert_eq!(second.code, Some(0), "{}", second.stderr);
        let (url, code) = second.stdout.trim().split_once("/#k=").expect("a link");
        assert_eq!(url, format!("http://127.0.0.1:{}", web.port));
        assert_eq!(web.pair(code).code, 200);
        let running = home.run(&["web", "--allow-control"]);
        assert_eq!(running.code, Some(5), "{}", running.stderr);
        for words in [format!("{url}, without control"), format!("`kill {}`", web.pid())] {
            assert!(running.stderr.contains(&words), "{}", running.stderr);
        }
        for args in [
            &["web", "--link", "--allow-control"] as &[&str],
            &["web", "--link", "--listen", "127.0.0.1:0"],
            &["web", "--link", "install"],
            &["web", "--qr", "install"],
            &["web", "--allow-control", "uninstall"],
        ] {
            let refused = home.run(args);
            assert_eq!((refused.code, &*refused.stdout), (Some(2), ""), "{args:?}");
        }
        let argv = std::fs::read(format!("/proc/{}/cmdline", web.child.id())).expect("readable");
        assert!(!String::from_utf8_lossy(&argv).contains(&web.code));
        let mode = |file: &str| {
            std::fs::metadata(home.path().join(file)).expect("there").permissions().mode() & 0o777
        };
        assert_eq!((mode(KEY), mode(SOCKET)), (0o600, 0o600));
        web.kill();
        assert_eq!(home.run(&["web", "--link"]).code, Some(1), "none runs");
        let mut web = Web::start(&home, &[]);
        assert_eq!(web.get(&token, "/api/asks").code, 200, "the token survives");
        std::fs::remove_file(home.path().join(KEY)).expect("removed");
        assert_eq!(web.get(&token, "/api/asks").code, 401, "every device is out");
        assert_eq!(web.get(&web.token(), "/api/asks").code, 200, "a new key was made");
        web.kill();
    });
}

#[test]
fn a_key_that_others_can_read_is_replaced() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &[]);
        let token = web.token();
        assert_eq!(web.get(&token, "/api/asks").code, 200);
        let key = home.path().join(KEY);
        let before = std::fs::read_to_string(&key).expect("a key");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).expect("set");
        assert_eq!(web.get(&token, "/api/asks").code, 401, "as after a restart");
        let mode = std::fs::metadata(&key).expect("a key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_ne!(std::fs::read_to_string(&key).expect("a key"), before);
    });
}

#[test]
fn only_a_page_over_https_keeps_its_token() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &["--name", "box.example.ts.net"]);
        let pair = |code: &str, origin: &str| {
            let headers = format!("Origin: {origin}\r\nContent-Type: application/json\r\n");
            let body = json!({"code": code, "keep": true}).to_string();
            let paired = web.ask("POST /api/pair", &headers, &body).json();
            let until = paired["until"].as_str().expect("a time").to_owned();
            until.parse::<jiff::Timestamp>().expect("a time").as_second()
        };
        let now = jiff::Timestamp::now().as_second();
        let here = pair(&web.code, &format!("http://127.0.0.1:{}", web.port));
        assert!(here - now < 13 * 3600, "12 hours");
        let link = home.run(&["web", "--link"]).stdout;
        let https = link.lines().nth(1).expect("a link for the proxy");
        let code = https.strip_prefix("https://box.example.ts.net/#k=").expect("its name");
        let kept = pair(code, "https://box.example.ts.net");
        assert!(kept - now > 29 * 24 * 3600, "30 days");
        let host = |name: &str| {
            let line = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
            web.exchange(&line).code
        };
        assert_eq!((host("box.example.ts.net"), host("other.example.ts.net")), (200, 403));
    });
}

#[test]
fn bodies_are_limited() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        for (path, field, most, read) in [
            ("/api/pair", "code", MAX_PAIRING_BODY_BYTES, 401),
            ("/api/stop", "id", MAX_BODY_BYTES, 404),
        ] {
            let too_large = most + 1;
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n",
                web.port
            );
            let announced = format!("{head}Content-Length: {too_large}\r\n\r\n");
            assert_eq!(web.exchange(&announced).code, 413, "{path}");
            let chunk = "x".repeat(too_large);
            let chunked = format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{too_large:x}\r\n{chunk}\r\n0\r\n\r\n"
            );
            assert_eq!(web.exchange(&chunked).code, 413, "{path}");
            let large = json!({field: "x".repeat(most - 100)});
            assert_eq!(web.post(&token, path, &large).code, read, "{path}: it is read");
        }
    });
}

#[test]
fn the_private_socket_needs_no_token() {
    sandboxed(|| {
        let home = home();
        let _web = Web::start(&home, &[]);
        let ask = |line: &str| ask_privately(&home, line);
        assert_eq!(ask("GET /api/sessions").code, 200);
        assert!(ask("POST /api/link").json()["links"][0].is_string());
        assert_eq!(ask("POST /api/stop").error(), "control_off");
    });
}

#[test]
fn addresses_beyond_this_machine_need_a_word() {
    sandboxed(|| {
        let home = home();
        let refused = home.run(&["web", "--listen", "0.0.0.0:0"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.contains("clear text"), "{}", refused.stderr);
        for wrong in ["x", "127.0.0.1", "unix:relative", "localhost:99999999"] {
            assert_eq!(home.run(&["web", "--listen", wrong]).code, Some(2), "{wrong}");
        }
        for wrong in ["https://box.example", "a:b"] {
            let refused = home.run(&["web", "--name", wrong]);
            assert_eq!(refused.code, Some(2), "{wrong}");
            assert!(refused.stderr.contains("without https://"), "{}", refused.stderr);
        }
        let mut command = home.command(&["web", "--listen", "0.0.0.0:0", "--insecure"]);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut web = Web::of(piped.spawn().expect("started"));
        assert_eq!(web.get(&web.token(), "/api/asks").code, 200);
        let drawn = home.run(&["web", "--link", "--qr"]);
        assert!(drawn.stderr.contains("a phone cannot open this link"), "{}", drawn.stderr);
        web.kill();
        let mut said = String::new();
        let mut stderr = web.child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut said).expect("read");
        let warning = format!("0.0.0.0:{}: the token and all", web.port);
        assert!(said.contains(&warning) && said.contains("--name HOST"), "{said}");
        drop(web);
        let path = home.path().join("page.sock");
        let listen = format!("unix:{}", path.display());
        let web = Web::start_at(&home, &listen, &["--name", "box.example"]);
        let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let ask = |host: &str| {
            let stream = UnixStream::connect(&path).expect("a listener");
            exchange(stream, &format!("GET /api/asks HTTP/1.1\r\nHost: {host}\r\n\r\n")).code
        };
        assert_eq!((ask("box.example"), ask("evil.example")), (401, 403), "the token is needed");
        drop(web);
    });
}

#[test]
fn a_terminal_is_told_whether_the_page_acts_and_how_it_ends() {
    sandboxed(|| {
        let home = home();
        let shows = ["web", "--listen", "127.0.0.1:0"];
        let acts = ["web", "--listen", "127.0.0.1:0", "--allow-control"];
        for (args, words) in [(&shows[..], "the page only shows"), (&acts, "the page also acts")] {
            let terminal = PseudoTerminal::start(&mut home.command(args), 120, 30);
            eventually("the sentence", || {
                let said = terminal.output();
                (said.contains("/#k=") && said.contains(words) && said.contains("Ctrl-C ends it"))
                    .then_some(())
            });
            let pid = Pid::from_raw(i32::try_from(terminal.pid()).expect("a pid"));
            kill_process(pid.expect("a pid"), Signal::INT).expect("signalled");
            let _said = terminal.ended();
        }
    });
}

#[test]
fn settings_are_read_from_the_configuration() {
    sandboxed(|| {
        let home = home();
        configure(
            &home,
            &[],
            "[web]\nlisten = \"127.0.0.1:0\"\ncontrol = true\nhosts = [\"a.example\"]\n",
        );
        let mut command = home.command(&["web"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let out = child.stdout.take().expect("a pipe");
        let links: Vec<String> =
            BufReader::new(out).lines().take(2).map(|line| line.expect("a line")).collect();
        let port = links[0].split_once("/#").and_then(|(url, _)| url.rsplit_once(':'));
        let port = port.and_then(|(_, port)| port.parse().ok()).expect("a port");
        let code = links[1].strip_prefix("https://a.example/#k=").expect("a link").to_owned();
        let web = Web { child, port, code };
        assert_eq!(web.pair(&web.code).json()["control"], true);
        let server = |home: &TestHome| {
            let document = home.run(&["doctor", "--json"]).json();
            let checks = document["checks"].as_array().expect("checks").clone();
            let found = checks.into_iter().find(|check| check["area"] == "web");
            found.expect("a check")["state"].as_str().expect("a state").to_owned()
        };
        assert_eq!(server(&home), "ok");
        let drawn = home.run(&["web", "--link", "--qr"]).stdout;
        assert!(drawn.contains("█▀") || drawn.contains("▄█"), "{drawn}");
        drop(web);
        assert_eq!(server(&home), "absent");
        configure(&home, &[], "[web]\nlisten = \"nowhere\"\nhosts = [\"https://a\"]\n");
        let refused = home.run(&["web"]);
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert_eq!(refused.stderr.matches("`nowhere`").count(), 1, "{}", refused.stderr);
        let found = home.run(&["config", "check"]);
        assert_eq!(found.code, Some(1));
        let found = format!("{}{}", found.stdout, found.stderr);
        assert!(found.contains("web.listen") && found.contains("web.hosts"), "{found}");
        assert_eq!(home.run(&["list"]).code, Some(0), "other commands work");
        let printed = home.run(&["web", "--allow-control", "install", "--print"]);
        assert_eq!(printed.code, Some(1), "a service would not serve");
        configure(&home, &[], "");
        let unit =
            home.run(&["web", "--allow-control", "--name", "a.example", "install", "--print"]);
        assert_eq!(unit.code, Some(0), "{}", unit.stderr);
        let command = "web --service --allow-control --name a.example\n";
        assert!(unit.stdout.contains(command), "{}", unit.stdout);
        assert!(unit.stdout.contains("KillMode=process\n"), "{}", unit.stdout);
    });
}

//! Links to the page, and the question for one to the server that runs.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use agentctl_core::host::Host;
use agentctl_core::model::Time;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind};
use crate::place::{ConnectError, Place};

/// Time limit for the answer of the server.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of its answer.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Links that hold the same code: it is good once.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Links {
    /// The links: on this machine first, then by the names of proxies.
    pub links: Vec<String>,
    /// They are good until then.
    pub until: Time,
}

impl Links {
    pub(super) fn new((url, hosts): (Option<&str>, &[String]), code: &str, until: Time) -> Self {
        let here = url.map(|url| format!("{url}/#k={code}"));
        let proxied = hosts.iter().map(|name| format!("https://{name}/#k={code}"));
        let mut links: Vec<String> = here.into_iter().chain(proxied).collect();
        if links.is_empty() {
            links.push(format!("/#k={code}"));
        }
        Self { links, until }
    }

    /// Returns the link for another device: by the name of a proxy, if there is one.
    #[must_use]
    pub fn for_other_device(&self) -> &str {
        self.links.last().map_or("", String::as_str)
    }
}

impl Links {
    /// Says whether no other device can open a link.
    #[must_use]
    pub fn is_for_this_machine(&self) -> bool {
        let address = self.for_other_device().strip_prefix("http://");
        let address = address.and_then(|rest| rest.split('/').next());
        address.and_then(|name| name.parse().ok()).is_some_and(|a: SocketAddr| a.ip().is_loopback())
    }
}

/// Returns the address of the page for a browser on this machine.
pub(super) fn url_of(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        let here = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port());
        return format!("http://{here}");
    }
    format!("http://{address}")
}

/// The server that runs.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RunningServer {
    /// Its address.
    pub address: String,
    /// It takes orders.
    pub control: bool,
    /// Its process.
    pub pid: u32,
}

/// Asks the server that runs for new links.
pub fn ask(host: &Host) -> Result<Links, Failure> {
    request(host, "POST /api/link")
}

/// Asks the server that runs for its address and mode.
pub fn running(host: &Host) -> Result<RunningServer, Failure> {
    request(host, "GET /api/server")
}

/// Sends a request to the private socket of the server that runs.
fn request<T: DeserializeOwned>(host: &Host, line: &str) -> Result<T, Failure> {
    let connected = Place::of_web(host).connect(Instant::now() + TIMEOUT);
    let mut stream = connected.map_err(|error| match error {
        ConnectError::NoListener => Failure::new(Kind::Failed, "no server of the page is running")
            .hint("`agentctl web` starts one and prints a link"),
        ConnectError::Untrusted(why) => Failure::new(Kind::Failed, why),
        ConnectError::TimedOut => Failure::new(Kind::Unanswered, "the server does not answer"),
    })?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 2";
    stream.write_all(format!("{line} HTTP/1.1\r\n{head}\r\n\r\n{{}}").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    if let Ok(document) = serde_json::from_str(body) {
        return Ok(document);
    }
    let said: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let words = |key: &str| said["error"][key].as_str().map(crate::text::one_line);
    let failure = Failure::new(Kind::Refused, words("message").unwrap_or_default());
    Err(words("hint").into_iter().fold(failure, Failure::hint))
}

/// Returns a QR code of a link in half blocks, dark on light as cameras expect it. Empty if the link is too long.
#[must_use]
pub fn qr(link: &str) -> String {
    let Ok(code) = qrcode::QrCode::new(link.as_bytes()) else { return String::new() };
    let width = code.width();
    // Four light modules around it belong to the code.
    let is_dark = |x: usize, y: usize| {
        let inside = (4..width + 4).contains(&x) && (4..width + 4).contains(&y);
        inside && code[(x - 4, y - 4)] == qrcode::Color::Dark
    };
    let mut text = String::new();
    for y in (0..width + 8).step_by(2) {
        for x in 0..width + 8 {
            // Terminals are mostly dark: a light module is drawn.
            text.push(match (is_dark(x, y), is_dark(x, y + 1)) {
                (true, true) => ' ',
                (true, false) => '▄',
                (false, true) => '▀',
                (false, false) => '█',
            });
        }
        text.push('\n');
    }
    text
}

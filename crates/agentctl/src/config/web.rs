//! The table `[web]`: the settings of the page in the browser.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use agentctl_core::host::Host;
use serde::Deserialize;

use super::finding::Problem;

/// The default address of the page.
pub(super) const WEB_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9210);
/// How an address that begins so names a Unix socket.
const UNIX_PREFIX: &str = "unix:";

/// `[web]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WebTable {
    listen: Option<String>,
    control: Option<bool>,
    hosts: Vec<String>,
    proxy_users: Vec<String>,
}

/// The address that the page is served on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of a Unix socket, for a proxy.
    Unix(PathBuf),
}

impl WebAddress {
    /// Reads an address: `127.0.0.1:9210` or `unix:PATH`.
    pub fn parse(host: &Host, text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX_PREFIX) {
            let path = host.expanded(Path::new(path));
            if path.is_absolute() {
                return Ok(Self::Unix(path));
            }
            return Err(format!("`{text}` does not name an absolute path"));
        }
        let address = text.parse().map(Self::Tcp);
        address.map_err(|_| format!("`{text}` is neither an address with a port nor unix:PATH"))
    }
}

impl std::fmt::Display for WebAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

/// The settings of the page in the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSettings {
    /// The address.
    pub listen: WebAddress,
    /// Orders are taken: answers, messages, stops and launches.
    pub control: bool,
    /// The names of https proxies in front of it.
    pub hosts: Vec<String>,
    /// The other users, by name or number, whose processes may connect: proxies.
    pub proxy_users: Vec<String>,
}

impl Default for WebSettings {
    fn default() -> Self {
        let listen = WebAddress::Tcp(WEB_LISTEN);
        Self { listen, control: false, hosts: Vec::new(), proxy_users: Vec::new() }
    }
}

/// Checks the name of a proxy.
pub fn check_web_host(name: &str) -> Result<(), String> {
    let is_name = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b));
    if is_name { Ok(()) } else { Err(format!("`{name}` is not the name of a host")) }
}

/// Reads the settings. A setting that cannot be used has its default then.
pub(super) fn web(host: &Host, table: WebTable, problems: &mut Vec<Problem>) -> WebSettings {
    let mut settings = WebSettings::default();
    let mut wrong = |key: &str, what: String, hint: &str| {
        problems.push(Problem::new(format!("web.{key}"), what).hint(hint));
    };
    match table.listen.as_deref().map(|text| WebAddress::parse(host, text)) {
        Some(Ok(listen)) => settings.listen = listen,
        Some(Err(why)) => wrong("listen", why, "write it like 127.0.0.1:9210 or unix:/run/page"),
        None => {}
    }
    for name in table.hosts {
        match check_web_host(&name) {
            Ok(()) => settings.hosts.push(name),
            Err(why) => wrong("hosts", why, "write it like box.example.ts.net, without https://"),
        }
    }
    settings.control = table.control.unwrap_or_default();
    settings.proxy_users = table.proxy_users;
    settings
}

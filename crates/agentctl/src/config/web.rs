//! The table `[web]`: the settings of the page in the browser.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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

/// How the name of a proxy is written.
const WEB_HOST_HINT: &str = "write it like box.example.ts.net, without https://";

/// Checks the name of a proxy: a host, with a port where it is not the usual one. A failure is a sentence and a hint.
pub fn check_web_host(name: &str) -> Result<(), (String, &'static str)> {
    if is_web_host(name) {
        Ok(())
    } else {
        Err((format!("`{name}` is not the name of a host"), WEB_HOST_HINT))
    }
}

fn is_web_host(name: &str) -> bool {
    let is_digits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    let is_port = |port: &str| is_digits(port) && port.parse::<u16>().is_ok_and(|port| port > 0);
    if let Some((address, port)) = name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let has_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().is_ok() && has_port;
    }
    let (host, port) = name.split_once(':').map_or((name, None), |(host, port)| (host, Some(port)));
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    host.split('.').all(is_label) && port.is_none_or(is_port)
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
            Err((why, hint)) => wrong("hosts", why, hint),
        }
    }
    settings.control = table.control.unwrap_or_default();
    settings.proxy_users = table.proxy_users;
    settings
}

#[cfg(test)]
mod tests {
    use super::is_web_host;

    #[test]
    fn the_name_of_a_proxy_is_a_host_and_perhaps_a_port() {
        for name in
            ["box", "box.example.ts.net", "box.example:8443", "192.0.2.1", "[::1]", "[::1]:8443"]
        {
            assert!(is_web_host(name), "{name}");
        }
        for name in [
            "",
            "a:b",
            "https://box.example",
            "box.example/",
            "box.example:",
            "box.example:0",
            "box.example:70000",
            "box.example:+1",
            ".example",
            "a..b",
            "::1",
            "[::1",
            "[x]",
            "[::1]8443",
            "böx",
        ] {
            assert!(!is_web_host(name), "{name}");
        }
    }
}

//! The names by which a server may be addressed. A web page can let its own domain name resolve to this
//! machine (DNS rebinding); its requests then carry that name in `Host` and are refused.

use std::net::SocketAddr;

/// The accepted values of `Host`, and of `Origin` after its scheme.
pub(crate) struct OwnNames {
    names: Vec<String>,
    /// The names of proxies that speak https for this server.
    https: Vec<String>,
    /// Set when the server does not listen on loopback: every IP address with this port is accepted, because
    /// DNS rebinding needs a domain name.
    any_address_with_port: Option<u16>,
}

impl OwnNames {
    /// Returns the names of a server that listens on `address`: loopback, the address itself, and the
    /// configured names, which include their port.
    pub(crate) fn new(address: SocketAddr, configured: &[String]) -> Self {
        let port = address.port();
        let mut names = configured.to_vec();
        names.extend(["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}")));
        names.push(address.to_string());
        let any_address_with_port = (!address.ip().is_loopback()).then_some(port);
        Self { names, https: Vec::new(), any_address_with_port }
    }

    /// Returns the names of a server that only proxies reach.
    pub(crate) fn of_proxies(https: &[String]) -> Self {
        let names = vec!["localhost".to_owned()];
        Self { names, https: https.to_vec(), any_address_with_port: None }
    }

    /// Adds names of proxies that speak https for this server.
    pub(crate) fn with_https(self, https: &[String]) -> Self {
        Self { https: https.to_vec(), ..self }
    }

    /// Says whether `name`, with its port, is one of them.
    pub(super) fn contain(&self, name: &str) -> bool {
        self.has_plain(name) || self.has_https(name)
    }

    /// Says whether a web page of this origin is the server's own.
    pub(super) fn has_origin(&self, origin: &str) -> bool {
        let plain = origin.strip_prefix("http://").is_some_and(|name| self.has_plain(name));
        plain || origin.strip_prefix("https://").is_some_and(|name| self.has_https(name))
    }

    fn has_plain(&self, name: &str) -> bool {
        let is_address = |port: u16| name.parse().is_ok_and(|a: SocketAddr| a.port() == port);
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
            || self.any_address_with_port.is_some_and(is_address)
    }

    fn has_https(&self, name: &str) -> bool {
        self.https.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

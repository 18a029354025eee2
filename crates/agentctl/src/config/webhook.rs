//! A webhook endpoint. Its whole URL is never shown: with many services the path is a secret.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use agentctl_core::events::{Event, EventKind};
use agentctl_core::host::Secret;
use agentctl_core::talk::base64;
use ureq::http::Uri;

use super::reach::{Reach, reach};

/// The prefix of a secret whose rest is the key in base64.
const BASE64_PREFIX: &str = "whsec_";

/// A webhook endpoint.
#[derive(Clone)]
pub struct WebhookEndpoint {
    /// The configured name, or else scheme, host and port.
    pub name: String,
    /// The secret that signs events; `None`: events are not signed.
    pub secret: Option<Secret>,
    /// Adds signatures of the body alone, for receivers that know no other. Such a message can be replayed.
    pub body_signatures: bool,
    /// The wanted kinds of events; empty for all.
    pub kinds: Vec<EventKind>,
    /// The wanted adapters; empty for all, including events without an adapter.
    pub adapters: Vec<String>,
    /// Whether loopback and private networks are allowed.
    pub allow_private: bool,
    /// The timeout of one try.
    pub timeout: Duration,
    /// The file of certificate authorities; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    pub(crate) url: Uri,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) secure: bool,
}

impl WebhookEndpoint {
    /// Parses a URL. The error does not contain it, because it may hold a secret.
    pub fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| "it is not a URL")?;
        let (secure, usual) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            _ => return Err("it does not begin with https:// or http://".into()),
        };
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        if authority.contains('@') {
            return Err("it must not hold a user or a password".into());
        }
        if url.contains('#') {
            return Err("it must not hold a fragment".into());
        }
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let port = match authority.get(host.len()..).unwrap_or_default() {
            "" => usual,
            given => given
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .filter(|port| *port > 0)
                .ok_or("its port is no number")?,
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if bare.is_empty() {
            return Err("its host is missing".into());
        }
        let scheme = if secure { "https" } else { "http" };
        let shown = if port == usual { String::new() } else { format!(":{port}") };
        Ok(Self {
            name: format!("{scheme}://{host}{shown}"),
            secret: None,
            body_signatures: false,
            kinds: Vec::new(),
            adapters: Vec::new(),
            allow_private: false,
            timeout: Duration::from_secs(10),
            ca_file: None,
            url: uri,
            host: bare,
            port,
            secure,
        })
    }

    /// Returns the whole URL, which may be a secret.
    pub(crate) fn url(&self) -> &Uri {
        &self.url
    }

    /// Says whether another endpoint has the same URL.
    #[must_use]
    pub fn is_at(&self, other: &Self) -> bool {
        self.url == other.url
    }

    /// Says why no event can be sent to this endpoint, as far as that is known without a name lookup.
    #[must_use]
    pub fn never(&self) -> Option<String> {
        if !self.secure && !self.allow_private {
            return Some("plain http is for private addresses, with allow_private = true".into());
        }
        let here = self.host == "localhost" || self.host.ends_with(".localhost");
        let named: Option<IpAddr> = if here { "127.0.0.1".parse() } else { self.host.parse() }.ok();
        named.and_then(|address| self.refusal(address))
    }

    /// Says why no event may be sent to an address.
    pub(crate) fn refusal(&self, address: IpAddr) -> Option<String> {
        let address = address.to_canonical();
        match reach(address) {
            Reach::Never => Some(format!("{address} is an address that nothing is sent to")),
            Reach::Private if !self.allow_private => {
                Some(format!("{address} is a private address, and allow_private is not set"))
            }
            Reach::Public if !self.secure => {
                Some(format!("{address} is a public address, and plain http is kept from those"))
            }
            Reach::Private | Reach::Public => None,
        }
    }

    /// Says whether the endpoint wants an event.
    #[must_use]
    pub fn wants(&self, event: &Event) -> bool {
        let named = |adapter: &str| self.adapters.iter().any(|a| a == adapter);
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && (self.adapters.is_empty() || event.adapter.is_some_and(named))
    }
}

impl std::fmt::Debug for WebhookEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookEndpoint").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Checks that a secret is usable as a key.
pub(super) fn check_secret(secret: &str) -> Result<(), String> {
    if secret.is_empty() { Err("it is empty".into()) } else { secret_key(secret).map(|_| ()) }
}

/// Returns the key of a secret.
pub(crate) fn secret_key(secret: &str) -> Result<Vec<u8>, String> {
    match secret.strip_prefix(BASE64_PREFIX) {
        Some(rest) => base64::decode(rest).filter(|key| !key.is_empty()).ok_or_else(|| {
            format!("its secret begins with {BASE64_PREFIX} and does not go on in base64")
        }),
        None => Ok(secret.as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_only_its_origin_is_shown() {
        for (url, name, host, port) in [
            ("https://Hook.Example/x/SECRET?k=SECRET", "https://hook.example", "hook.example", 443),
            ("http://[::1]:9/SECRET", "http://[::1]:9", "::1", 9),
            ("https://a:8443", "https://a:8443", "a", 8443),
        ] {
            let endpoint = WebhookEndpoint::parse(url).expect("read");
            assert_eq!((endpoint.name.as_str(), endpoint.host.as_str()), (name, host));
            assert_eq!(endpoint.port, port);
            assert!(!format!("{endpoint:?}").contains("SECRET"));
        }
        for url in [
            "",
            "hook.example",
            "/x",
            "ftp://a/",
            "https://",
            "https://user@a/",
            "https://u:p@a/",
            "https://a:99999/",
            "https://a:/",
            "https://a:0/",
            "https://a:x/",
            "https://a b/",
            "https://a/#x",
            "https://:1/",
            "http://a\r\nX: y/",
            "https://[::1/",
        ] {
            let error = WebhookEndpoint::parse(url).expect_err(url);
            assert!(url.len() < 2 || !error.contains(url), "{error}");
        }
    }

    #[test]
    fn unreachable_addresses_are_refused_without_a_name_lookup() {
        let never = |url: &str, allow_private| {
            let endpoint = WebhookEndpoint::parse(url).expect("read");
            WebhookEndpoint { allow_private, ..endpoint }.never().is_some()
        };
        for url in [
            "https://127.0.0.1",
            "https://localhost",
            "https://a.localhost",
            "https://[::1]",
            "https://[::ffff:127.0.0.1]",
            "https://10.1.1.1",
            "https://[fd12::1]",
        ] {
            assert!(never(url, false) && !never(url, true), "{url}");
        }
        for url in ["http://127.0.0.1", "http://hook.lan"] {
            assert!(never(url, false) && !never(url, true), "{url}");
        }
        for url in
            ["https://169.254.169.254", "https://0.0.0.0", "http://8.8.8.8", "https://[fe80::1]"]
        {
            assert!(never(url, false) && never(url, true), "{url}");
        }
        assert!(!never("https://hook.example", false));
    }

    #[test]
    fn a_marked_secret_must_be_base64() {
        for wrong in ["", "whsec_", "whsec_not base64!", "whsec_Zg==="] {
            assert!(check_secret(wrong).is_err(), "{wrong}");
        }
        for right in ["x", "whsec", "whsec_Zg==", "not base64!"] {
            assert!(check_secret(right).is_ok(), "{right}");
        }
    }
}

//! A webhook endpoint. Its whole URL is never shown: with many services the path is a secret.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use agentctl_core::ask::MAX_URL_BYTES;
use agentctl_core::events::{Event, EventKind};
use agentctl_core::fuses::Action;
use agentctl_core::host::Secret;
use agentctl_core::talk::base64;
use ureq::http::Uri;

use super::reach::{Reach, reach};
use crate::failure::{Failure, Kind};

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
        let bare = normalised(&host)?;
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
            return Some(
                "plain http is allowed for private addresses only, with allow_private = true"
                    .into(),
            );
        }
        let here = self.host == "localhost" || self.host.ends_with(".localhost");
        // The host is normalised: a number in any spelling is an address here.
        let named: Option<IpAddr> = if here { "127.0.0.1".parse() } else { self.host.parse() }.ok();
        named.and_then(|address| self.refusal(address))
    }

    /// Says why no event may be sent to an address.
    pub(crate) fn refusal(&self, address: IpAddr) -> Option<String> {
        let address = address.to_canonical();
        match reach(address) {
            Reach::Never => {
                Some(format!("{address} is a reserved address, to which no event is sent"))
            }
            Reach::Private if !self.allow_private => {
                Some(format!("{address} is a private address, and allow_private is not set"))
            }
            Reach::Public if !self.secure => Some(format!(
                "{address} is a public address: plain http is allowed for private ones only"
            )),
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

/// Checks that the action of a fuse can send an event to its address, as far as that is known without a
/// connection. The addresses of `configured` were checked with the configuration.
pub fn check_address(configured: &[WebhookEndpoint], action: &Action) -> Result<(), Failure> {
    let Action::Webhook { url } = action else { return Ok(()) };
    let wrong = |why: String| Failure::new(Kind::Usage, format!("--on-expire: the address: {why}"));
    let unreadable = |why| wrong(why).hint("write it like https://example.org/path");
    if url.len() > MAX_URL_BYTES {
        return Err(unreadable(format!("it is longer than {MAX_URL_BYTES} bytes")));
    }
    let endpoint = WebhookEndpoint::parse(url).map_err(unreadable)?;
    match endpoint.never() {
        Some(why) if !configured.iter().any(|known| known.is_at(&endpoint)) => Err(wrong(why).hint(
            "a [[webhooks]] with this url and allow_private = true admits this machine and private networks",
        )),
        _ => Ok(()),
    }
}

impl std::fmt::Debug for WebhookEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookEndpoint").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns a host without brackets and final dot, an IPv4 address in any spelling as four decimal numbers.
fn normalised(host: &str) -> Result<String, String> {
    if host.contains('%') {
        return Err("its host contains a percent sign, which is not supported".into());
    }
    if let Some(inner) = host.strip_prefix('[') {
        let address = inner.strip_suffix(']').and_then(|text| text.parse::<Ipv6Addr>().ok());
        return Ok(address.ok_or("its host is no IPv6 address")?.to_string());
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.is_empty() {
        return Err("its host is missing".into());
    }
    match ipv4(name) {
        Some(address) => Ok(address?.to_string()),
        None => Ok(name.to_owned()),
    }
}

/// Reads an IPv4 address as browsers and `inet_aton` do: one to four numbers, decimal, octal (`0…`) or
/// hexadecimal (`0x…`), the last of which fills all bytes that are left. `None` for a name.
fn ipv4(name: &str) -> Option<Result<Ipv4Addr, String>> {
    let parts: Vec<&str> = name.split('.').collect();
    let last = parts.last()?;
    let is_number = last.bytes().all(|b| b.is_ascii_digit()) || number(last).is_some();
    (is_number && !last.is_empty()).then(|| {
        address(&parts).ok_or_else(|| "its host ends in a number and is no IPv4 address".into())
    })
}

fn address(parts: &[&str]) -> Option<Ipv4Addr> {
    let numbers: Vec<u32> = parts.iter().map(|part| number(part)).collect::<Option<_>>()?;
    let (last, bytes) = numbers.split_last()?;
    let left = u32::try_from(4_usize.checked_sub(bytes.len())?).ok().filter(|left| *left > 0)?;
    if left < 4 && last >> (8 * left) != 0 {
        return None;
    }
    let mut bits = *last;
    for (byte, shift) in bytes.iter().zip([24, 16, 8]) {
        bits |= u32::from(u8::try_from(*byte).ok()?) << shift;
    }
    Some(Ipv4Addr::from_bits(bits))
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some("") => Some(0),
        Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(&text[1..], 8).ok(),
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
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
            "https://[fe80::1%25lo]/",
            "https://%6cocalhost/",
            "https://[localhost]/",
            "https://./",
            "https://1.2.3.4.5/",
            "https://256.1.1.1/",
            "https://4294967296/",
            "https://08.1/",
            "https://hook.09/",
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
            "https://127.1",
            "https://2130706433",
            "https://0x7f.1",
            "https://0X7F.0x1",
            "https://0177.0.0.1",
            "https://127.0.0.1.",
            "https://LOCALHOST.",
            "https://A.LocalHost.",
            "https://10.256",
        ] {
            assert!(never(url, false) && !never(url, true), "{url}");
        }
        for url in ["http://127.0.0.1", "http://hook.lan"] {
            assert!(never(url, false) && !never(url, true), "{url}");
        }
        for url in [
            "https://169.254.169.254",
            "https://0.0.0.0",
            "http://8.8.8.8",
            "https://[fe80::1]",
            "https://0",
            "https://0x",
            "https://0xa9fea9fe",
            "https://169.254.43518",
        ] {
            assert!(never(url, false) && never(url, true), "{url}");
        }
        for url in [
            "https://hook.example",
            "https://hook.example.",
            "https://1.example",
            "https://8.8.2056",
        ] {
            assert!(!never(url, false), "{url}");
        }
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

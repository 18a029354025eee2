//! What `[notify]` and `[metrics]` configure, with their defaults.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use agentctl_core::events::EventKind;
use agentctl_core::host::Secret;

/// How long a notification program may run.
const NOTIFY_LIMIT: Duration = Duration::from_secs(10);
/// Where metrics are served by default.
pub(super) const METRICS_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9200);
/// The least number of characters of a configured token.
const TOKEN_LEAST: usize = 16;

/// What is shown, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifySettings {
    /// The argv; `None` for the desktop's own.
    pub command: Option<Vec<String>>,
    /// The kinds of edges.
    pub on: Vec<EventKind>,
    /// How long a program may take.
    pub limit: Duration,
}

impl Default for NotifySettings {
    fn default() -> Self {
        let on = vec![EventKind::Waiting, EventKind::Stopped, EventKind::Error];
        Self { command: None, on, limit: NOTIFY_LIMIT }
    }
}

/// What is configured.
#[derive(Debug)]
pub struct MetricsSettings {
    /// Where.
    pub listen: SocketAddr,
    /// The secret that whoever asks must know; one is made where none is given.
    pub token: Option<Secret>,
    /// Further names it may be called by, with their port.
    pub hosts: Vec<String>,
}

/// Says what is wrong with a token, if anything is.
pub(crate) fn check_token(token: &str) -> Result<(), String> {
    if token.len() < TOKEN_LEAST {
        return Err(format!("it has fewer than {TOKEN_LEAST} characters"));
    }
    if !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("it holds something else than visible ASCII characters".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_token;

    #[test]
    fn a_token_is_long_and_plain() {
        assert!(check_token("0123456789abcdef").is_ok());
        for bad in ["", "short", "0123456789 abcdef", "0123456789abcdef\n", "pässwörter-sind-kurz"]
        {
            assert!(check_token(bad).is_err(), "{bad:?}");
        }
    }
}

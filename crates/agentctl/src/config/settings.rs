//! The settings of `[notify]` and `[metrics]`, with their defaults.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use agentctl_core::events::EventKind;
use agentctl_core::host::Secret;

/// Timeout of a notification program.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);
/// The default address of the metrics.
pub(super) const METRICS_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9200);
/// Minimum number of characters of a configured token.
const MIN_TOKEN_CHARS: usize = 16;

/// The settings of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifySettings {
    /// The command as argv; `None` for the default of the desktop.
    pub command: Option<Vec<String>>,
    /// Whether the usual program of the desktop is run where no command is configured.
    pub desktop: bool,
    /// Whether the clients of the user's tmux server are told.
    pub tmux: bool,
    /// The device file of a terminal that is written to.
    pub tty: Option<PathBuf>,
    /// Whether commands that hold a terminal notify it (`events`, `list --watch`).
    pub terminal: bool,
    /// The kinds of events that are shown.
    pub on: Vec<EventKind>,
    /// The timeout of the command.
    pub limit: Duration,
}

/// The program that shows notifications on the desktop.
pub(crate) const DESKTOP_PROGRAM: &str =
    if cfg!(target_os = "macos") { "osascript" } else { "notify-send" };

impl NotifySettings {
    /// Returns the program that shows notifications; `None` if they are shown without a program.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        match &self.command {
            Some(command) => command.first().map(String::as_str),
            None => self.desktop.then_some(DESKTOP_PROGRAM),
        }
    }

    /// Says whether a daemon shows notifications. Commands notify their own terminal without it.
    #[must_use]
    pub fn need_daemon(&self) -> bool {
        self.program().is_some() || self.tmux || self.tty.is_some()
    }
}

impl Default for NotifySettings {
    fn default() -> Self {
        let on = vec![EventKind::Waiting, EventKind::Stopped, EventKind::Error];
        Self {
            command: None,
            desktop: true,
            tmux: false,
            tty: None,
            terminal: false,
            on,
            limit: NOTIFY_TIMEOUT,
        }
    }
}

/// The settings of the metrics server.
#[derive(Debug)]
pub struct MetricsSettings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The bearer token; `None` to generate one.
    pub token: Option<Secret>,
    /// Further accepted `Host` names, with their port.
    pub hosts: Vec<String>,
}

/// Checks the length and the characters of a token.
pub(crate) fn check_token(token: &str) -> Result<(), String> {
    if token.len() < MIN_TOKEN_CHARS {
        return Err(format!("it has fewer than {MIN_TOKEN_CHARS} characters"));
    }
    if !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("it contains characters other than visible ASCII".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_token;

    #[test]
    fn a_token_has_a_minimum_length_and_is_ascii() {
        assert!(check_token("0123456789abcdef").is_ok());
        for bad in ["", "short", "0123456789 abcdef", "0123456789abcdef\n", "pässwörter-sind-kurz"]
        {
            assert!(check_token(bad).is_err(), "{bad:?}");
        }
    }
}

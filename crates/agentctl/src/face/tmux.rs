//! Commands to the user's tmux server: the pane of a terminal, and messages to its clients.
//!
//! Panes, windows and sessions are named by tmux's own ids (`%1`, `@1`, `$1`), which no agent can choose. A text
//! in a message is escaped, because tmux runs `#(command)` in it.

use std::path::Path;
use std::time::Duration;

use agentctl_core::hooks::Call;
use agentctl_core::host::Host;

use crate::text::{fit, one_line};

/// Timeout of a tmux command.
const TMUX_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a message is shown, in milliseconds.
const MESSAGE_MS: &str = "5000";
/// Maximum width of a message.
const MESSAGE_COLUMNS: usize = 200;

/// A pane of the tmux server, with its window and session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmuxPane {
    /// The id of the pane.
    pub pane: String,
    /// The id of its window.
    pub window: String,
    /// The id of its session.
    pub session: String,
}

impl TmuxPane {
    /// Returns the arguments that select the pane, and show its session to the calling client or to a new one.
    #[must_use]
    pub fn select_args(&self, inside_tmux: bool) -> Vec<String> {
        let last = if inside_tmux { "switch-client" } else { "attach-session" };
        let args = [
            "select-window",
            "-t",
            &self.window,
            ";",
            "select-pane",
            "-t",
            &self.pane,
            ";",
            last,
            "-t",
            &self.session,
        ];
        args.map(str::to_owned).to_vec()
    }
}

/// Returns the pane with this terminal; `None` if the tmux server has none, or no server runs.
pub fn tmux_pane_of(host: &Host, tty: &Path) -> Result<Option<TmuxPane>, String> {
    if host.which("tmux").is_none() {
        return Ok(None);
    }
    let format = "#{pane_tty} #{pane_id} #{window_id} #{session_id}";
    let Ok(panes) = tmux(host, &["list-panes", "-a", "-F", format]) else { return Ok(None) };
    Ok(panes.lines().find_map(|line| pane_in(line, tty)))
}

fn pane_in(line: &str, tty: &Path) -> Option<TmuxPane> {
    let mut words = line.split(' ');
    if Path::new(words.next()?) != tty {
        return None;
    }
    let mut id = |sign: char| {
        let word = words.next().filter(|word| word.strip_prefix(sign).is_some_and(is_number))?;
        Some(word.to_owned())
    };
    let (pane, window, session) = (id('%')?, id('@')?, id('$')?);
    Some(TmuxPane { pane, window, session })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Shows a text to every client of the tmux server; returns how many there are.
pub fn tmux_message(host: &Host, text: &str) -> Result<usize, String> {
    let clients = tmux(host, &["list-clients", "-F", "#{client_name}"])?;
    let clients: Vec<&str> = clients.lines().filter(|name| !name.is_empty()).collect();
    let text = escaped(&fit(&one_line(text), MESSAGE_COLUMNS));
    for client in &clients {
        let message = ["display-message", "-c", client, "-d", MESSAGE_MS, &text];
        // `-d` is new in tmux 3.2.
        tmux(host, &message).or_else(|_| tmux(host, &["display-message", "-c", client, &text]))?;
    }
    Ok(clients.len())
}

/// Escapes a text that tmux expands: `#` starts formats and shell commands, `%` starts parts of the time. A
/// message that begins with a dash would be an option.
fn escaped(text: &str) -> String {
    let text = text.replace('#', "##").replace('%', "%%");
    if text.starts_with('-') { format!(" {text}") } else { text }
}

/// Runs tmux and returns its output.
fn tmux(host: &Host, args: &[&str]) -> Result<String, String> {
    let argv: Vec<String> =
        std::iter::once("tmux").chain(args.iter().copied()).map(str::to_owned).collect();
    let call = Call {
        argv: &argv,
        variables: Vec::new(),
        cwd: &host.home,
        stdin: None,
        limit: TMUX_TIMEOUT,
    };
    let ended = call.run(host)?;
    let said = String::from_utf8_lossy(&ended.said).into_owned();
    match ended.exit {
        Some(exit) if exit.code == Some(0) => Ok(said),
        Some(_) => Err(format!("tmux {}: {}", args[0], one_line(said.trim()))),
        None => Err(format!("tmux {} did not end in {} s", args[0], TMUX_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pane_is_found_by_its_terminal_and_only_with_ids() {
        let tty = Path::new("/dev/pts/3");
        let pane = pane_in("/dev/pts/3 %7 @2 $1", tty).expect("a pane");
        assert_eq!((&*pane.pane, &*pane.window, &*pane.session), ("%7", "@2", "$1"));
        for other in [
            "/dev/pts/30 %7 @2 $1",
            "/dev/pts/3 %x @2 $1",
            "/dev/pts/3 %7 @2",
            "",
            "/dev/pts/3 % @2 $1",
        ] {
            assert_eq!(pane_in(other, tty), None, "{other}");
        }
    }

    #[test]
    fn tmux_expands_nothing_in_a_message() {
        assert_eq!(escaped("fix #(reboot) #{pid} 5%H"), "fix ##(reboot) ##{pid} 5%%H");
        assert_eq!(escaped("-F x"), " -F x");
    }
}

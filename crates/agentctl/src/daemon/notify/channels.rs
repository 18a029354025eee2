//! The channels of a notification: a program, the clients of tmux, a terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agentctl_core::hooks::Call;
use agentctl_core::host::Host;
use agentctl_core::marks::hook;
use agentctl_core::native::private;
use rustix::fs::OFlags;

use super::Notice;
use crate::config::{DESKTOP_PROGRAM, NotifySettings};
use crate::face::{NotificationText, TerminalSequence, tmux_message};
use crate::text;

/// Maximum width of a program's output in a message.
const MAX_COLUMNS: usize = 120;

/// One way to show a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The usual program of the desktop.
    Desktop,
    /// The configured command.
    Command(Vec<String>),
    /// The status line of every client of the user's tmux server.
    Tmux,
    /// The terminal with this device file.
    Tty(PathBuf),
}

impl Channel {
    /// Returns the configured channels.
    #[must_use]
    pub fn all(settings: &NotifySettings) -> Vec<Self> {
        let program = match &settings.command {
            Some(command) => Some(Self::Command(command.clone())),
            None => settings.desktop.then_some(Self::Desktop),
        };
        let tmux = settings.tmux.then_some(Self::Tmux);
        let tty = settings.tty.clone().map(Self::Tty);
        program.into_iter().chain(tmux).chain(tty).collect()
    }

    /// Returns its name: the key in `[notify]`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Command(_) => "command",
            Self::Tmux => "tmux",
            Self::Tty(_) => "tty",
        }
    }

    /// Shows a notification; returns what happened in a few words.
    pub fn show(
        &self,
        host: &Host,
        settings: &NotifySettings,
        notice: &Notice,
    ) -> Result<String, String> {
        match self {
            Self::Desktop => run(host, settings, (&desktop(&notice.text), notice)),
            Self::Command(command) => run(host, settings, (command, notice)),
            Self::Tmux => {
                let clients = tmux_message(host, &notice.text.one_line())?;
                match clients {
                    0 => Err("no client is attached to the tmux server".into()),
                    1 => Ok("shown to 1 client".into()),
                    _ => Ok(format!("shown to {clients} clients")),
                }
            }
            Self::Tty(path) => {
                write_to_terminal(path, host.kernel.uid(), &notice.text)?;
                Ok(format!("written to {}", path.display()))
            }
        }
    }
}

fn run(
    host: &Host,
    settings: &NotifySettings,
    (command, notice): (&[String], &Notice),
) -> Result<String, String> {
    let name = command.first().ok_or("its command is empty")?;
    let limit = settings.limit;
    let call = Call {
        argv: command,
        variables: variables(notice),
        cwd: &host.home,
        stdin: event_file(host, notice).ok(),
        limit,
    };
    let attended = call.run(host)?;
    let said = String::from_utf8_lossy(&attended.said);
    let said = text::fit(&text::one_line(&said), MAX_COLUMNS);
    let said = if said.is_empty() { said } else { format!(": {said}") };
    match attended.exit {
        None => Err(format!("{name} was ended after {} s", limit.as_secs())),
        Some(exit) if exit.code == Some(0) => Ok(format!("{name} exited with 0")),
        Some(exit) => match exit.code {
            Some(code) => Err(format!("{name} exited with {code}{said}")),
            None => Err(format!("{name} was ended by a signal{said}")),
        },
    }
}

/// Returns the event as an unlinked file, for the program's stdin.
fn event_file(host: &Host, notice: &Notice) -> io::Result<File> {
    let state = host.state();
    private::directory(&state)?;
    let path = state.join(format!("notify-{}.json", uuid::Uuid::new_v4()));
    let mut file = private::file(&path)?;
    let reader = File::open(&path);
    std::fs::remove_file(&path)?;
    file.write_all(&notice.body)?;
    reader
}

/// Returns the default command. The title starts with an adapter name, so it cannot be taken for an option.
fn desktop(notice: &NotificationText) -> Vec<String> {
    let argv: Vec<&str> = if cfg!(target_os = "macos") {
        let show = "display notification (item 2 of argv) with title (item 1 of argv)";
        vec![DESKTOP_PROGRAM, "-e", "on run argv", "-e", show, "-e", "end run"]
    } else {
        vec![DESKTOP_PROGRAM, "--app-name=agentctl", "--"]
    };
    // Notification servers on Linux interpret some HTML tags.
    let text = if cfg!(target_os = "macos") {
        notice.text.clone()
    } else {
        notice.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    };
    let argv = argv.into_iter().map(str::to_owned);
    argv.chain([notice.title.clone(), text]).collect()
}

fn variables(notice: &Notice) -> Vec<(&'static str, String)> {
    let event = notice.event.as_deref();
    let session = event.and_then(|event| event.session.as_ref());
    let safe = |t: Option<&str>| t.unwrap_or_default().to_owned();
    vec![
        (hook::EVENT, safe(event.map(|event| event.kind.word()))),
        (hook::EVENT_ID, safe(event.map(|event| event.id.as_str()))),
        (hook::ADAPTER, safe(event.and_then(|event| event.adapter))),
        (hook::SESSION_ID, safe(event.and_then(|event| event.session_id.as_deref()))),
        (hook::CWD, safe(session.and_then(|s| s.cwd.as_deref()))),
        (hook::STATUS, safe(session.map(|s| s.status.word()))),
        (hook::TITLE, notice.text.title.clone()),
        (hook::TEXT, notice.text.text.clone()),
    ]
}

/// The device number of `/dev/ptmx` on Linux.
const PTMX: (u32, u32) = (5, 2);

/// Writes a notification to a terminal. The terminal must belong to this user: otherwise its owner would see the
/// text, or could have replaced the file. The open neither waits for the terminal nor makes it our own.
fn write_to_terminal(path: &Path, uid: u32, text: &NotificationText) -> Result<(), String> {
    let named = |why: String| format!("{}: {why}", path.display());
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path);
    let mut terminal = opened.map_err(|error| named(error.to_string()))?;
    let meta = terminal.metadata().map_err(|error| named(error.to_string()))?;
    if !meta.file_type().is_char_device() || !rustix::termios::isatty(&terminal) {
        return Err(named("it is not a terminal".into()));
    }
    // A new pseudo-terminal is made by opening it: no window shows what is written there.
    let device = rustix::fs::fstat(&terminal).map_err(|error| named(error.to_string()))?.st_rdev;
    let is_controller = (rustix::fs::major(device), rustix::fs::minor(device)) == PTMX;
    if cfg!(target_os = "linux") && is_controller {
        return Err(named("it makes new terminals and is none itself".into()));
    }
    if meta.uid() != uid {
        return Err(named("it belongs to another user".into()));
    }
    let bytes = TerminalSequence::Osc9.bytes(text);
    match terminal.write(&bytes) {
        Ok(written) if written == bytes.len() => Ok(()),
        Ok(_) => Err(named("it takes no more output".into())),
        Err(error) => Err(named(error.to_string())),
    }
}

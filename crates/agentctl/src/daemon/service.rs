//! The files for service managers: they restart the daemon, and stopping it kills no agent.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_core::host::Host;
use agentctl_core::kernel::{Spawn, Stdio};
use agentctl_core::marks;

/// The name of the unit.
pub const UNIT: &str = "agentctl.service";
/// The label of the agent under launchd.
pub const LABEL: &str = "io.agentctl.daemon";
/// Timeout for a command of the service manager.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of bytes kept of the output of such a command.
const MAX_OUTPUT_BYTES: u64 = 4096;

/// The service manager of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// systemd's user manager.
    Systemd,
    /// launchd.
    Launchd,
}

impl Manager {
    /// Returns the service manager of this operating system.
    #[must_use]
    pub fn here() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }

    /// Returns the path of the service file.
    #[must_use]
    pub fn file(self, host: &Host) -> PathBuf {
        match self {
            Self::Systemd => host.xdg("XDG_CONFIG_HOME", ".config").join("systemd/user").join(UNIT),
            Self::Launchd => host.home.join("Library/LaunchAgents").join(format!("{LABEL}.plist")),
        }
    }

    /// Returns the contents of the service file.
    #[must_use]
    pub fn text(self, host: &Host) -> String {
        match self {
            Self::Systemd => unit(&host.program),
            Self::Launchd => plist(&host.program, &host.state().join("daemon.log")),
        }
    }

    /// Returns the commands that enable and start the service.
    #[must_use]
    pub fn enable(self, host: &Host) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => vec![
                words(&["systemctl", "--user", "daemon-reload"]),
                words(&["systemctl", "--user", "enable", "--now", UNIT]),
            ],
            Self::Launchd => vec![vec![
                "launchctl".into(),
                "bootstrap".into(),
                format!("gui/{}", host.kernel.uid()),
                self.file(host).to_string_lossy().into_owned(),
            ]],
        }
    }

    /// Returns the commands that stop and disable the service.
    #[must_use]
    pub fn disable(self, host: &Host) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => vec![words(&["systemctl", "--user", "disable", "--now", UNIT])],
            Self::Launchd => vec![vec![
                "launchctl".into(),
                "bootout".into(),
                format!("gui/{}/{LABEL}", host.kernel.uid()),
            ]],
        }
    }

    /// Returns the command that starts or stops the service.
    #[must_use]
    pub fn act(self, host: &Host, verb: &str) -> Vec<String> {
        let target = format!("gui/{}/{LABEL}", host.kernel.uid());
        match (self, verb) {
            (Self::Systemd, verb) => words(&["systemctl", "--user", verb, UNIT]),
            (Self::Launchd, "stop") => words(&["launchctl", "kill", "SIGTERM", &target]),
            (Self::Launchd, _) => words(&["launchctl", "kickstart", &target]),
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Returns the unit file. `KillMode=process`: processes that a fuse or a hook started survive a stop.
fn unit(program: &Path) -> String {
    let program = quoted(&program.to_string_lossy());
    format!(
        "\
[Unit]
Description=agentctl daemon: events, webhooks, fuses and metrics for coding agents

[Service]
Type=notify
NotifyAccess=main
ExecStart={program} daemon run
Environment={daemon}=1
KillMode=process
SendSIGKILL=no
OOMPolicy=continue
Restart=always
RestartSec=1

[Install]
WantedBy=default.target
",
        daemon = marks::DAEMON
    )
}

/// Quotes a word for a unit file.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' | '$' => out.extend([c, c]),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

fn plist(program: &Path, log: &Path) -> String {
    let text = |path: &Path| {
        let text = path.to_string_lossy();
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    };
    format!(
        "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<plist version=\"1.0\">
<dict>
  <key>Label</key><string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array><string>{program}</string><string>daemon</string><string>run</string></array>
  <key>EnvironmentVariables</key><dict><key>{daemon}</key><string>1</string></dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><true/>
  <key>AbandonProcessGroup</key><true/>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
",
        program = text(program),
        log = text(log),
        daemon = marks::DAEMON
    )
}

/// Runs a command of the service manager.
pub fn command(host: &Host, words: &[String]) -> Result<(), String> {
    let Some((program, args)) = words.split_first() else { return Ok(()) };
    let line = words.join(" ");
    let Some(path) = host.which(program) else {
        return Err(format!("there is no `{program}` here"));
    };
    let spawn = Spawn {
        program: path,
        args: args.iter().map(Into::into).collect(),
        set: Vec::new(),
        unset: Vec::new(),
        cwd: PathBuf::from("/"),
        stdin: Stdio::Null,
        stdout: Stdio::Null,
        stderr: Stdio::Null,
        keep: Vec::new(),
    };
    let ended = spawn
        .attended(COMMAND_TIMEOUT, MAX_OUTPUT_BYTES)
        .map_err(|e: io::Error| format!("`{line}`: {e}"))?;
    match ended.exit {
        Some(exit) if exit.code == Some(0) => Ok(()),
        Some(_) => {
            let said = String::from_utf8_lossy(&ended.said);
            let said = said.trim().lines().next().unwrap_or("it failed").to_owned();
            Err(format!("`{line}`: {said}"))
        }
        None => Err(format!("`{line}` did not end within {} s", COMMAND_TIMEOUT.as_secs())),
    }
}

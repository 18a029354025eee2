//! The files for service managers: they restart the daemon and the web server, and stopping one kills no agent.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_core::host::Host;
use agentctl_core::kernel::{Spawn, Stdio};
use agentctl_core::marks;

/// Timeout for a command of the service manager.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of bytes kept of the output of such a command.
const MAX_OUTPUT_BYTES: u64 = 4096;

/// The service manager of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    /// systemd's user manager.
    Systemd,
    /// launchd.
    Launchd,
}

/// A service of this program, with its file for the service manager of this machine.
#[derive(Clone, Debug)]
pub struct ServiceFile {
    manager: Manager,
    /// The name of the unit.
    unit: &'static str,
    /// The label of the agent under launchd.
    label: &'static str,
    description: &'static str,
    /// How systemd learns that it is ready.
    start_type: &'static str,
    args: Vec<String>,
    /// The variables of its environment.
    environment: Vec<(&'static str, &'static str)>,
    /// The file that launchd writes its stderr to.
    log: &'static str,
}

/// Returns the service of the daemon.
#[must_use]
pub fn daemon() -> ServiceFile {
    ServiceFile {
        manager: Manager::here(),
        unit: "agentctl.service",
        label: "io.agentctl.daemon",
        description: "agentctl daemon: events, webhooks, fuses and metrics for coding agents",
        start_type: "Type=notify\nNotifyAccess=main",
        args: words(&["daemon", "run"]),
        environment: vec![(marks::DAEMON, "1")],
        log: "daemon.log",
    }
}

/// Returns the service of the page in the browser, with these flags.
#[must_use]
pub fn web(flags: Vec<String>) -> ServiceFile {
    let mut args = words(&["web", "--service"]);
    args.extend(flags);
    ServiceFile {
        manager: Manager::here(),
        unit: "agentctl-web.service",
        label: "io.agentctl.web",
        description: "agentctl web: a page for the browser about coding agents",
        start_type: "Type=exec",
        args,
        environment: Vec::new(),
        log: "web.log",
    }
}

impl Manager {
    fn here() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }
}

impl ServiceFile {
    /// Returns the path of the service file.
    #[must_use]
    pub fn file(&self, host: &Host) -> PathBuf {
        match self.manager {
            Manager::Systemd => {
                host.xdg("XDG_CONFIG_HOME", ".config").join("systemd/user").join(self.unit)
            }
            Manager::Launchd => {
                host.home.join("Library/LaunchAgents").join(format!("{}.plist", self.label))
            }
        }
    }

    /// Returns the contents of the service file.
    #[must_use]
    pub fn text(&self, host: &Host) -> String {
        match self.manager {
            Manager::Systemd => self.unit_text(&host.program),
            Manager::Launchd => self.plist(&host.program, &host.state().join(self.log)),
        }
    }

    /// Returns the commands that enable and start the service.
    #[must_use]
    pub fn enable(&self, host: &Host) -> Vec<Vec<String>> {
        match self.manager {
            Manager::Systemd => vec![
                words(&["systemctl", "--user", "daemon-reload"]),
                words(&["systemctl", "--user", "enable", "--now", self.unit]),
            ],
            Manager::Launchd => vec![vec![
                "launchctl".into(),
                "bootstrap".into(),
                format!("gui/{}", host.kernel.uid()),
                self.file(host).to_string_lossy().into_owned(),
            ]],
        }
    }

    /// Returns the commands that stop and disable the service.
    #[must_use]
    pub fn disable(&self, host: &Host) -> Vec<Vec<String>> {
        match self.manager {
            Manager::Systemd => {
                vec![words(&["systemctl", "--user", "disable", "--now", self.unit])]
            }
            Manager::Launchd => vec![vec![
                "launchctl".into(),
                "bootout".into(),
                format!("gui/{}/{}", host.kernel.uid(), self.label),
            ]],
        }
    }

    /// Returns the command that starts or stops the service.
    #[must_use]
    pub fn act(&self, host: &Host, verb: &str) -> Vec<String> {
        let target = format!("gui/{}/{}", host.kernel.uid(), self.label);
        match (self.manager, verb) {
            (Manager::Systemd, verb) => words(&["systemctl", "--user", verb, self.unit]),
            (Manager::Launchd, "stop") => words(&["launchctl", "kill", "SIGTERM", &target]),
            (Manager::Launchd, _) => words(&["launchctl", "kickstart", &target]),
        }
    }

    /// Returns the unit file. `KillMode=process`: processes that it started survive a stop.
    fn unit_text(&self, program: &Path) -> String {
        let program = quoted(&program.to_string_lossy());
        let words: Vec<String> = self.args.iter().map(|word| bare_or_quoted(word)).collect();
        let command = words.join(" ");
        let variables = self.environment.iter();
        let environment = variables.fold(String::new(), |text, (name, value)| {
            format!("{text}Environment={name}={value}\n")
        });
        let (description, start_type) = (self.description, self.start_type);
        format!(
            "\
[Unit]
Description={description}

[Service]
{start_type}
ExecStart={program} {command}
{environment}KillMode=process
SendSIGKILL=no
OOMPolicy=continue
Restart=always
RestartSec=1

[Install]
WantedBy=default.target
"
        )
    }

    fn plist(&self, program: &Path, log: &Path) -> String {
        let program = program.to_string_lossy();
        let words = std::iter::once(program.as_ref()).chain(self.args.iter().map(String::as_str));
        let words = words
            .fold(String::new(), |text, word| format!("{text}<string>{}</string>", escaped(word)));
        let variables = self.environment.iter();
        let variables = variables.fold(String::new(), |text, (name, value)| {
            format!("{text}<key>{name}</key><string>{value}</string>")
        });
        let (label, log) = (self.label, escaped(&log.to_string_lossy()));
        format!(
            "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<plist version=\"1.0\">
<dict>
  <key>Label</key><string>{label}</string>
  <key>ProgramArguments</key>
  <array>{words}</array>
  <key>EnvironmentVariables</key><dict>{variables}</dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><true/>
  <key>AbandonProcessGroup</key><true/>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Quotes a word for a unit file, unless it needs no quotes.
fn bare_or_quoted(word: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/".contains(&b);
    if word.bytes().all(is_plain) { word.to_owned() } else { quoted(word) }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
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

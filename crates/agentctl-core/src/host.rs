//! The inputs of the core: home directory, environment, extra agent homes, clock, kernel, limits.
//!
//! Nothing in the core reads its surroundings by itself; the code that builds a `Host` decides what the
//! core sees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::kernel::Kernel;
use crate::model::Time;
use crate::native::cache::FileCache;
use crate::native::file;

/// The variables that [`Host::xdg`] reads. They decide the content of answers.
pub const BASE_DIRECTORIES: [&str; 4] =
    ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/// The daemon's socket in [`Host::runtime`].
pub const DAEMON_SOCKET: &str = "agentctl.sock";
/// The file in [`Host::state`] that the daemon keeps locked. It holds the path of the daemon's socket.
pub const DAEMON_LOCK: &str = "daemon.lock";

/// Timeouts of whole questions.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Questions about live sessions.
    pub live: Duration,
    /// Questions over all history.
    pub all: Duration,
    /// The first output of a launched agent.
    pub launch: Duration,
    /// One conversation with a remote server.
    pub gateway: Duration,
}

/// The limits of launches from below an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchLimits {
    /// How deep agents may be below the first one.
    pub depth: u32,
    /// How many agents that one agent launched may live at once.
    pub children: u32,
}

impl Default for LaunchLimits {
    fn default() -> Self {
        Self { depth: 2, children: 8 }
    }
}

/// A remote server from the configuration.
#[derive(Clone, Default)]
pub struct Gateway {
    /// Its display name.
    pub name: Option<String>,
    /// Its address: a WebSocket URL.
    pub url: String,
    /// Its secret, which is sent to no other server.
    pub token: Option<Secret>,
    /// Plain text is allowed although the server is on another machine.
    pub insecure: bool,
    /// Allow stopping runs that other clients started. Requests the administrator scope, for that only.
    pub admin: bool,
    /// See and answer approvals of commands. Requests the scope for approvals, and makes commands wait for one.
    pub approvals: bool,
    /// The CA file for its certificate; `None` for the system's.
    pub ca_file: Option<PathBuf>,
}

/// The source of a secret, read when it is needed.
#[derive(Clone)]
pub enum Secret {
    /// The secret itself.
    Text(String),
    /// A variable that holds it.
    Variable(String),
    /// A file of this user that holds it.
    File(PathBuf),
}

/// Largest file that a secret is read from.
const MAX_SECRET_FILE_BYTES: u64 = 64 << 10;

impl Secret {
    /// Reads the secret; the error says why it is unavailable.
    pub fn read(&self, host: &Host) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Variable(name) => host
                .var(name)
                .map(str::to_owned)
                .ok_or_else(|| format!("environment variable {name} is not set")),
            Self::File(path) => {
                let bytes = file::read_small(path, host.kernel.uid(), MAX_SECRET_FILE_BYTES)
                    .map_err(|skip| format!("{} cannot be read: {skip}", path.display()))?;
                let text = String::from_utf8_lossy(&bytes).trim().to_owned();
                if text.is_empty() { Err(format!("{} is empty", path.display())) } else { Ok(text) }
            }
        }
    }
}

/// Keeps secrets out of logs and panic messages.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Keeps the server's secret out of logs and panic messages.
impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            live: Duration::from_secs(2),
            all: Duration::from_secs(10),
            launch: Duration::from_secs(10),
            gateway: Duration::from_secs(5),
        }
    }
}

/// Everything that a question may read.
#[derive(Clone, Debug)]
pub struct Host {
    /// The user's home directory.
    pub home: PathBuf,
    /// The working directory of the caller.
    pub cwd: PathBuf,
    /// The path of this program.
    pub program: PathBuf,
    /// The environment of the caller.
    pub env: BTreeMap<String, String>,
    /// Extra agent homes from the configuration, by adapter name.
    pub roots: BTreeMap<String, Vec<PathBuf>>,
    /// Settings of adapters from the configuration.
    pub settings: BTreeMap<String, BTreeMap<String, String>>,
    /// Remote servers from the configuration, by adapter name.
    pub gateways: BTreeMap<String, Vec<Gateway>>,
    /// The kernel this user's processes run on.
    pub kernel: Kernel,
    /// The clock.
    pub clock: fn() -> Time,
    /// Timeouts of whole questions.
    pub deadlines: Deadlines,
    /// An agent may answer the asks of sessions that are neither its own nor above it.
    pub agents_may_answer_others: bool,
    /// When the configuration file was last changed.
    pub configuration_changed_at: Option<Time>,
    /// The limits of launches from below an agent.
    pub launch_limits: LaunchLimits,
    /// Cache of file contents, in long-running processes only.
    pub file_cache: Option<Arc<FileCache>>,
}

impl Host {
    /// Returns a host with this home, kernel and clock: no environment, no configuration, the default timeouts,
    /// and the home as working directory.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>, kernel: Kernel, clock: fn() -> Time) -> Self {
        let home = home.into();
        Self {
            cwd: home.clone(),
            home,
            program: PathBuf::from("agentctl"),
            env: BTreeMap::new(),
            roots: BTreeMap::new(),
            settings: BTreeMap::new(),
            gateways: BTreeMap::new(),
            kernel,
            clock,
            deadlines: Deadlines::default(),
            agents_may_answer_others: false,
            configuration_changed_at: None,
            launch_limits: LaunchLimits::default(),
            file_cache: None,
        }
    }

    /// Returns a variable of the environment, if it is set and not empty.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// Returns a path with the home directory in place of a leading `~`.
    #[must_use]
    pub fn expanded(&self, path: &Path) -> PathBuf {
        path.strip_prefix("~").map_or_else(|_| path.to_owned(), |rest| self.home.join(rest))
    }

    /// Returns the time now.
    #[must_use]
    pub fn now(&self) -> Time {
        (self.clock)()
    }

    /// Returns an XDG base directory: the variable when absolute, else the default below home.
    #[must_use]
    pub fn xdg(&self, variable: &str, default: &str) -> PathBuf {
        debug_assert!(BASE_DIRECTORIES.contains(&variable), "{variable} is no base directory");
        match self.var(variable).map(Path::new) {
            Some(path) if path.is_absolute() => path.to_owned(),
            _ => self.home.join(default),
        }
    }

    /// Returns the folder of the user's settings and credentials.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.xdg("XDG_CONFIG_HOME", ".config").join("agentctl")
    }

    /// Returns the folder of runs, manual locks and fuses. Nothing in it says what is alive.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.xdg("XDG_STATE_HOME", ".local/state").join("agentctl")
    }

    /// Fails if the home directory does not exist: nothing is created in its place.
    pub fn check_home(&self) -> std::io::Result<()> {
        if self.home.is_dir() {
            return Ok(());
        }
        let text = format!("the home directory {} does not exist", self.home.display());
        Err(std::io::Error::other(text))
    }

    /// Returns the folder of the daemon's socket.
    #[must_use]
    pub fn runtime(&self) -> PathBuf {
        let given = self.var("XDG_RUNTIME_DIR").map(Path::new).filter(|path| path.is_absolute());
        given.map_or_else(|| self.state().join("run"), |folder| folder.join("agentctl"))
    }

    /// Returns a setting of an adapter from the configuration, if it is given.
    #[must_use]
    pub fn setting(&self, adapter: &str, key: &str) -> Option<&str> {
        self.settings.get(adapter)?.get(key).map(String::as_str)
    }

    /// Returns the first executable file of this name on the user's PATH.
    #[must_use]
    pub fn which(&self, program: &str) -> Option<PathBuf> {
        self.programs(program).next()
    }

    /// Returns the executable files of this name on the user's PATH, in its order. The only search of the
    /// PATH: a relative entry would name another program in each directory, so it is passed over.
    pub fn programs<'a>(&'a self, program: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        use std::os::unix::fs::PermissionsExt;
        let entries = self.var("PATH").unwrap_or_default().split(':');
        entries.filter(|entry| entry.starts_with('/')).filter_map(move |entry| {
            let path = Path::new(entry).join(program);
            let meta = std::fs::metadata(&path).ok()?;
            (meta.is_file() && meta.permissions().mode() & 0o111 != 0).then_some(path)
        })
    }
}

//! The world as handed in: home, environment, extra homes, clock, kernel, limits.
//!
//! Nothing in the core looks around by itself; whoever builds a `Host` decides what is seen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::kernel::Kernel;
use crate::model::Time;
use crate::native::cache::FileCache;
use crate::native::file;

/// The variables that [`Host::xdg`] may be asked for. They decide what an answer contains.
pub const BASE_DIRECTORIES: [&str; 4] =
    ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/// How long a whole question may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Questions about what lives.
    pub live: Duration,
    /// Questions over all history.
    pub all: Duration,
    /// A launched agent's first words.
    pub launch: Duration,
    /// One conversation with a server on a network.
    pub gateway: Duration,
}

/// A server on a network, as the configuration names it.
#[derive(Clone, Default)]
pub struct Gateway {
    /// What people call it.
    pub name: Option<String>,
    /// Its address: a WebSocket URL.
    pub url: String,
    /// The secret that is meant for it, and for nobody else.
    pub token: Option<Secret>,
    /// It may be spoken to in plain text although it is on another machine.
    pub insecure: bool,
    /// Runs that others began may be ended: asks for the right to administrate, for that and no more.
    pub admin: bool,
    /// The authorities its certificate is checked against; `None` for the system's.
    pub ca_file: Option<PathBuf>,
}

/// Where a secret is found when it is needed.
#[derive(Clone)]
pub enum Secret {
    /// Here.
    Text(String),
    /// In this variable.
    Variable(String),
    /// In this file, which belongs to this user.
    File(PathBuf),
}

/// The largest file a secret is read from.
const SECRET_BYTES: u64 = 64 << 10;

impl Secret {
    /// Reads it; says why when it cannot be had.
    pub fn read(&self, host: &Host) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Variable(name) => {
                host.var(name).map(str::to_owned).ok_or_else(|| format!("{name} is not set"))
            }
            Self::File(path) => {
                let bytes = file::read_small(path, host.kernel.uid(), SECRET_BYTES)
                    .map_err(|skip| format!("{} cannot be read: {skip}", path.display()))?;
                let text = String::from_utf8_lossy(&bytes).trim().to_owned();
                if text.is_empty() { Err(format!("{} is empty", path.display())) } else { Ok(text) }
            }
        }
    }
}

/// A secret stands in no log and in no panic.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Nor does a server's.
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

/// Everything a question may look at.
#[derive(Clone, Debug)]
pub struct Host {
    /// The user's home directory.
    pub home: PathBuf,
    /// Where the question was asked.
    pub cwd: PathBuf,
    /// This very program.
    pub program: PathBuf,
    /// The environment, as given to us.
    pub env: BTreeMap<String, String>,
    /// Extra agent homes from the configuration, by adapter name.
    pub roots: BTreeMap<String, Vec<PathBuf>>,
    /// Settings of single adapters from the configuration.
    pub settings: BTreeMap<String, BTreeMap<String, String>>,
    /// Servers on a network from the configuration, by adapter name.
    pub gateways: BTreeMap<String, Vec<Gateway>>,
    /// The kernel this user's processes run on.
    pub kernel: Kernel,
    /// The clock.
    pub clock: fn() -> Time,
    /// Limits on whole questions.
    pub deadlines: Deadlines,
    /// What somebody who stays awake remembers of files.
    pub file_cache: Option<Arc<FileCache>>,
}

impl Host {
    /// Returns a variable of the environment, if it is set and not empty.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|v| !v.is_empty())
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

    /// Returns where a person's own settings and credentials are kept.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.xdg("XDG_CONFIG_HOME", ".config").join("agentctl")
    }

    /// Returns where runs, manual locks and the like are kept: nothing that says what lives.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.xdg("XDG_STATE_HOME", ".local/state").join("agentctl")
    }

    /// Returns a setting of an adapter from the configuration, if it is given.
    #[must_use]
    pub fn setting(&self, adapter: &str, key: &str) -> Option<&str> {
        self.settings.get(adapter)?.get(key).map(String::as_str)
    }

    /// Returns the first executable file of this name on the user's PATH.
    #[must_use]
    pub fn which(&self, program: &str) -> Option<PathBuf> {
        use std::os::unix::fs::PermissionsExt;
        // A relative entry would mean another program in each directory.
        self.var("PATH")?.split(':').filter(|dir| dir.starts_with('/')).find_map(|dir| {
            let path = Path::new(dir).join(program);
            let meta = std::fs::metadata(&path).ok()?;
            (meta.is_file() && meta.permissions().mode() & 0o111 != 0).then_some(path)
        })
    }
}

//! Configuration: defaults, then the file, then the environment, then flags.
//!
//! An unknown key or a bad value is an error that names file, line and key.

mod adapter_tables;
mod daemon;
mod reach;
mod settings;
mod webhook;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::adapters::control::Permissions;
use agentctl_core::adapters::{self};
pub use agentctl_core::ask::LaunchDefaults as Defaults;
use agentctl_core::ask::{Fleet, LaunchHooks};
use agentctl_core::host::{Host, Secret};
use agentctl_core::kernel::Kernel;
use agentctl_core::marks;
use agentctl_core::model::Time;
use agentctl_core::native::file;
use agentctl_core::trust::{self, Strict};
use serde::Deserialize;

use self::adapter_tables::AdapterTables;
pub(crate) use self::settings::check_token;
pub use self::settings::{MetricsSettings, NotifySettings};
pub(crate) use self::webhook::secret_key;
pub use self::webhook::{WebhookEndpoint, check_address};
use crate::failure::{Failure, Kind};

/// The configuration file without the tables of adapters. [`AdapterTables`] refuses unknown keys.
#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    adapter: Option<String>,
    model: Option<String>,
    permissions: Option<Permissions>,
    roots: BTreeMap<String, Vec<PathBuf>>,
    deadline: Deadline,
    runs: RunsTable,
    hooks: LaunchHooks,
    #[serde(skip)]
    adapters: AdapterTables,
    webhooks: Vec<daemon::WebhookTable>,
    notify: Option<daemon::NotifyTable>,
    metrics: Option<daemon::MetricsTable>,
}

/// A text that may be a secret. Errors about the file do not contain it.
struct Hidden(String);

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self(text)),
            _ => Err(serde::de::Error::custom("a text in quotes belongs here")),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RunsTable {
    keep: Option<Span>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Deadline {
    live: Option<Span>,
    all: Option<Span>,
    launch: Option<Span>,
    gateway: Option<Span>,
}

/// A duration as typed: `30s`, `10m`, `2h`, `7d`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    /// Returns the duration in milliseconds.
    #[must_use]
    pub fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a span; write it like 30s, 10m, 2h or 7d");
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = text[..digits].parse().map_err(|_| wrong())?;
        let unit_ms = match &text[digits..] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(wrong()),
        };
        count.checked_mul(unit_ms).map(|ms| Self(Duration::from_millis(ms))).ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The result of reading the environment and the configuration file.
#[derive(Debug)]
pub struct Loaded {
    /// The host.
    pub host: Arc<Host>,
    /// The defaults of `launch`.
    pub defaults: Defaults,
    /// The webhook endpoints.
    pub webhooks: Vec<WebhookEndpoint>,
    /// The settings of notifications; `None` without `[notify]`.
    pub notify: Option<NotifySettings>,
    /// The settings of metrics; `None` without `[metrics]`.
    pub metrics: Option<MetricsSettings>,
    /// Sentences about unsafe file permissions.
    pub warnings: Vec<String>,
    /// Why the commands in the configuration are not run: another user could have written the file.
    pub unsafe_commands: Option<String>,
}

impl Loaded {
    /// Returns the receiver of questions: this host and all adapters.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        Fleet::new(Arc::clone(&self.host), adapters::ALL)
    }

    /// Fails if the commands in the configuration are not run.
    pub fn check_commands(&self) -> Result<(), Failure> {
        match &self.unsafe_commands {
            Some(why) => Err(Failure::new(Kind::Failed, why.clone()).hint(UNSAFE_HINT)),
            None => Ok(()),
        }
    }
}

/// Builds the host from the environment and the configuration file.
pub fn host() -> Result<Arc<Host>, Failure> {
    load_all().map(|loaded| loaded.host)
}

/// Stands for a current directory that was deleted: a path that does not exist.
const NO_CWD: &str = "/the current directory, which is no more";

/// Builds the host, and returns everything else that is configured.
pub fn load_all() -> Result<Loaded, Failure> {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    let home =
        env.get("HOME").filter(|h| h.starts_with('/')).map(PathBuf::from).ok_or_else(|| {
            Failure::new(Kind::Failed, "HOME is not set to an absolute path")
                .hint("agents keep their files below it; set it to your home directory")
        })?;
    let kernel = Kernel::open().map_err(|e| {
        Failure::new(Kind::Failed, format!("the process table cannot be read: {e}"))
            .hint("agentctl needs /proc mounted")
    })?;
    let mut host = Host {
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("agentctl")),
        // Do not fall back to an existing directory: `.` would mean the wrong one.
        cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(NO_CWD)),
        env,
        ..Host::new(home, kernel, clock)
    };
    let path = path(&host);
    let mut file = read(&path, host.var(marks::CONFIG).is_some())?.unwrap_or_default();
    let mut warnings = readable_secrets(&host, &file, &path);
    let unsafe_commands = unsafe_commands(&host, &file, &path);
    if let Some(why) = &unsafe_commands {
        file.hooks = LaunchHooks::default();
        file.notify.iter_mut().for_each(daemon::NotifyTable::drop_command);
        warnings.push(format!("{why}; {UNSAFE_HINT}"));
    }
    let (webhooks, notify) = (std::mem::take(&mut file.webhooks), file.notify.take());
    let metrics = file.metrics.take();
    let defaults = apply(&mut host, file, &path)?;
    let webhooks = daemon::webhooks(&host, webhooks, &path)?;
    let notify = notify.map(|table| daemon::notify(table, &path)).transpose()?;
    let metrics = metrics.map(|table| daemon::metrics(&host, table, &path)).transpose()?;
    let host = Arc::new(host);
    Ok(Loaded { host, defaults, webhooks, notify, metrics, warnings, unsafe_commands })
}

/// Returns the path of the configuration file.
#[must_use]
pub fn path(host: &Host) -> PathBuf {
    let default = || host.config().join("config.toml");
    host.var(marks::CONFIG).map_or_else(default, PathBuf::from)
}

/// Returns the time now.
#[allow(clippy::disallowed_methods)] // the one clock
#[must_use]
pub fn clock() -> Time {
    Time(jiff::Timestamp::now())
}

/// Maximum size of the configuration file.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

fn read(path: &Path, must_exist: bool) -> Result<Option<File>, Failure> {
    if path == Path::new("/dev/null") {
        return Ok(None);
    }
    let unread = |why: String| {
        Failure::new(Kind::Failed, format!("{} cannot be read: {why}", path.display()))
            .hint("AGENTCTL_CONFIG names this file; unset it to use the default")
    };
    let text = match file::read_small_of_anybody(path, MAX_CONFIG_BYTES) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| unread("it is not UTF-8".into()))?,
        Err(file::Skip::Missing) if !must_exist => return Ok(None),
        Err(skip) => return Err(unread(skip.to_string())),
    };
    let parsed = toml::from_str(&text).and_then(|adapters| {
        let file: File = toml::from_str(&text)?;
        Ok(Some(File { adapters, ..file }))
    });
    parsed.map_err(|error| {
        let line = error.span().map_or(1, |s| text[..s.start].matches('\n').count() + 1);
        let message = error.message().replace('\n', " ");
        Failure::new(Kind::Failed, format!("{} line {line}: {message}", path.display()))
            .hint(format!("keys: adapter, model, permissions, [roots], [deadline], [runs], [hooks], {}, [[webhooks]], [notify], [metrics]; the README lists them", adapter_tables::headings()))
    })
}

/// The hint for a configuration whose commands are not run.
const UNSAFE_HINT: &str =
    "make the file and the folders above it your own, and writable by you alone";

/// Checks that no other user can write or replace a configuration file that names commands. Returns why its
/// commands are not run.
fn unsafe_commands(host: &Host, file: &File, path: &Path) -> Option<String> {
    let commands = [&file.hooks.on_create, &file.hooks.on_complete];
    let notifies = file.notify.as_ref().is_some_and(daemon::NotifyTable::names_a_command);
    if commands.iter().all(|command| command.is_none()) && !notifies {
        return None;
    }
    let why = trust::file(&host.cwd.join(path), host.kernel.uid(), Strict::No).err()?;
    Some(format!("{why}, so the commands that {} names are not run", path.display()))
}

/// Returns a warning for each file with a secret that other users can read.
fn readable_secrets(host: &Host, file: &File, path: &Path) -> Vec<String> {
    let gateways = file.adapters.secret_places();
    let webhooks = file.webhooks.iter().map(daemon::WebhookTable::secret_places);
    let metrics = file.metrics.iter().map(daemon::MetricsTable::secret_places);
    let (mut inside, mut warnings) = (false, Vec::new());
    for (here, file) in gateways.chain(webhooks).chain(metrics) {
        inside |= here;
        let file = file.map(|file| expand(host, file.clone()));
        if let Some(file) = file.filter(|file| trust::is_readable_by_others(file)) {
            let text = format!("{} can be read by others and holds a secret", file.display());
            warnings.push(format!("{text}; `chmod 600` closes it"));
        }
    }
    if inside && trust::is_readable_by_others(&host.cwd.join(path)) {
        let text = format!("{} holds a secret and can be read by others", path.display());
        warnings.push(format!("{text}; `chmod 600` closes it"));
    }
    warnings.dedup();
    warnings
}

fn apply(host: &mut Host, file: File, path: &Path) -> Result<Defaults, Failure> {
    let known = || adapters::ALL.iter().map(|a| a.name());
    let named = file.roots.keys().map(|name| ("roots.", name));
    for (key, name) in named.chain(file.adapter.iter().map(|name| ("adapter = ", name))) {
        if !known().any(|adapter| adapter == name) {
            let message = format!("{}: {key}{name}: there is no such adapter", path.display());
            let list = known().collect::<Vec<_>>().join(", ");
            return Err(Failure::new(Kind::Failed, message).hint(format!("adapters: {list}")));
        }
    }
    for (key, hook) in
        [("on_create", &file.hooks.on_create), ("on_complete", &file.hooks.on_complete)]
    {
        let program = hook.as_ref().and_then(|h| h.first()).map_or("", String::as_str);
        if relative(program) {
            let message =
                format!("{}: hooks.{key}: `{program}` is a relative path", path.display());
            return Err(Failure::new(Kind::Failed, message).hint("write the whole path"));
        }
    }
    host.roots = file
        .roots
        .into_iter()
        .map(|(name, paths)| (name, paths.into_iter().map(|p| expand(host, p)).collect()))
        .collect();
    file.adapters.apply(host, path)?;
    let deadlines = &mut host.deadlines;
    for (place, given) in [
        (&mut deadlines.live, file.deadline.live),
        (&mut deadlines.all, file.deadline.all),
        (&mut deadlines.launch, file.deadline.launch),
        (&mut deadlines.gateway, file.deadline.gateway),
    ] {
        if let Some(Span(span)) = given {
            *place = span;
        }
    }
    let usual = Defaults::default();
    Ok(Defaults {
        adapter: file.adapter,
        model: file.model,
        permissions: file.permissions.unwrap_or(usual.permissions),
        hooks: file.hooks,
        keep: file.runs.keep.map_or(usual.keep, |Span(span)| span),
    })
}

/// Replaces a leading `~` by the home directory.
fn expand(host: &Host, path: PathBuf) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => host.home.join(rest),
        Err(_) => path,
    }
}

/// Returns the secret: a text, a variable or a file. Fails if more than one is given.
fn secret(
    host: &Host,
    (text, variable, file): (Option<Hidden>, Option<String>, Option<PathBuf>),
) -> Result<Option<Secret>, ()> {
    let text = text.map(|text| Secret::Text(text.0));
    let file = file.map(|file| Secret::File(expand(host, file)));
    let mut given = text.into_iter().chain(variable.map(Secret::Variable)).chain(file);
    let first = given.next();
    if given.next().is_some() { Err(()) } else { Ok(first) }
}

/// Says whether a program is a relative path, whose meaning depends on the working directory.
fn relative(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::adapter_tables::{KEYS_AFTER, KEYS_BEFORE};
    use super::*;

    #[test]
    fn every_known_key_is_read() {
        for key in KEYS_BEFORE.into_iter().chain(KEYS_AFTER) {
            // No key takes a date; a key that is not read would be ignored.
            let read = toml::from_str::<File>(&format!("{key} = 1979-05-27"));
            assert!(read.is_err(), "{key} is known and not read");
        }
    }
}

//! Configuration: defaults, then the file, then the environment, then flags.
//!
//! An unknown key or a bad value is an error that names file, line and key; nothing is guessed.

mod daemon;
mod reach;
mod settings;
mod webhook;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::adapters::control::{Control, Permissions};
use agentctl_core::adapters::{self};
use agentctl_core::host::{Deadlines, Gateway, Host, Secret};
use agentctl_core::kernel::Kernel;
use agentctl_core::marks;
use agentctl_core::model::Time;
use agentctl_core::native::file;
use agentctl_core::talk::Endpoint;
use agentctl_core::trust::{self, Strict};
use serde::Deserialize;

pub(crate) use self::settings::check_token;
pub use self::settings::{MetricsSettings, NotifySettings};
pub use self::webhook::WebhookEndpoint;
pub(crate) use self::webhook::secret_key;
use crate::failure::{Failure, Kind};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    adapter: Option<String>,
    model: Option<String>,
    permissions: Option<Permissions>,
    roots: BTreeMap<String, Vec<PathBuf>>,
    deadline: Deadline,
    runs: RunsTable,
    hooks: Hooks,
    #[serde(rename = "claude-code")]
    claude_code: BTreeMap<String, String>,
    openclaw: OpenClawTable,
    webhooks: Vec<daemon::WebhookTable>,
    notify: Option<daemon::NotifyTable>,
    metrics: Option<daemon::MetricsTable>,
}

/// A text that may be a secret: no message about the file repeats it.
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
struct OpenClawTable {
    gateways: Vec<GatewayTable>,
}

/// A server on a network; its token stands here, in a variable or in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GatewayTable {
    url: String,
    name: Option<String>,
    token: Option<Hidden>,
    token_env: Option<String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    admin: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RunsTable {
    keep: Option<Span>,
}

/// What is run when a session begins or ends, as argv.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// When it has begun.
    pub on_create: Option<Vec<String>>,
    /// When its agent has ended.
    pub on_complete: Option<Vec<String>>,
}

/// What a launch does when nothing is said.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// The agent.
    pub adapter: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// What is run when a session begins or ends.
    pub hooks: Hooks,
    /// How long ended runs are kept.
    pub keep: Duration,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            adapter: None,
            model: None,
            permissions: Permissions::Default,
            hooks: Hooks::default(),
            keep: Duration::from_hours(7 * 24),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Deadline {
    live: Option<Span>,
    all: Option<Span>,
    launch: Option<Span>,
    gateway: Option<Span>,
}

/// A span as typed: `30s`, `10m`, `2h`, `7d`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

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

/// All that environment and configuration file say.
#[derive(Debug)]
pub struct Loaded {
    /// The world.
    pub host: Arc<Host>,
    /// What a launch does when nothing is said.
    pub defaults: Defaults,
    /// Where events are sent.
    pub webhooks: Vec<WebhookEndpoint>,
    /// What notifications are shown, if any are wished.
    pub notify: Option<NotifySettings>,
    /// Where metrics are served, if they are wished.
    pub metrics: Option<MetricsSettings>,
    /// What is not as safe as it should be, a sentence each.
    pub warnings: Vec<String>,
    /// Why the commands that the configuration names are not run, where another user could have written it.
    pub unsafe_commands: Option<String>,
}

impl Loaded {
    /// Fails where the commands that the configuration names are not run.
    pub fn check_commands(&self) -> Result<(), Failure> {
        match &self.unsafe_commands {
            Some(why) => Err(Failure::new(Kind::Failed, why.clone()).hint(UNSAFE_HINT)),
            None => Ok(()),
        }
    }
}

/// Builds the world from the environment and the configuration file.
pub fn host() -> Result<Arc<Host>, Failure> {
    load_all().map(|loaded| loaded.host)
}

/// Stands for the current directory where it was removed: a path at which nothing is.
const NO_CWD: &str = "/the current directory, which is no more";

/// Builds the world, and returns beside it everything else that is configured.
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
        // Never another one in its stead: what is meant by `.` is then nowhere.
        cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(NO_CWD)),
        home,
        env,
        roots: BTreeMap::new(),
        settings: BTreeMap::new(),
        gateways: BTreeMap::new(),
        kernel,
        clock,
        deadlines: Deadlines::default(),
        memo: None,
    };
    let path = path(&host);
    let mut file = read(&path, host.var(marks::CONFIG).is_some())?.unwrap_or_default();
    let mut warnings = readable_secrets(&host, &file, &path);
    let unsafe_commands = unsafe_commands(&host, &file, &path);
    if let Some(why) = &unsafe_commands {
        file.hooks = Hooks::default();
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

/// Returns where the configuration file is.
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

/// The largest configuration file that is read.
const CONFIG_BYTES: u64 = 1 << 20;

fn read(path: &Path, must_exist: bool) -> Result<Option<File>, Failure> {
    if path == Path::new("/dev/null") {
        return Ok(None);
    }
    let unread = |why: String| {
        Failure::new(Kind::Failed, format!("{} cannot be read: {why}", path.display()))
            .hint("AGENTCTL_CONFIG names this file; unset it to use the default")
    };
    let text = match file::read_small_of_anybody(path, CONFIG_BYTES) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| unread("it is not UTF-8".into()))?,
        Err(file::Skip::Missing) if !must_exist => return Ok(None),
        Err(skip) => return Err(unread(skip.to_string())),
    };
    toml::from_str(&text).map(Some).map_err(|error| {
        let line = error.span().map_or(1, |s| text[..s.start].matches('\n').count() + 1);
        let message = error.message().replace('\n', " ");
        Failure::new(Kind::Failed, format!("{} line {line}: {message}", path.display()))
            .hint("keys: adapter, model, permissions, [roots], [deadline], [runs], [hooks], [claude-code], [[openclaw.gateways]], [[webhooks]], [notify], [metrics]; the README lists them")
    })
}

/// What to do about a configuration whose commands are not run.
const UNSAFE_HINT: &str =
    "make the file and the folders above it your own, and writable by you alone";

/// A file that names commands decides what is run: others must not be able to write or replace it. Returns
/// why its commands are not run.
fn unsafe_commands(host: &Host, file: &File, path: &Path) -> Option<String> {
    let commands = [&file.hooks.on_create, &file.hooks.on_complete];
    let notifies = file.notify.as_ref().is_some_and(daemon::NotifyTable::names_a_command);
    if commands.iter().all(|command| command.is_none()) && !notifies {
        return None;
    }
    let why = trust::file(&host.cwd.join(path), host.kernel.uid(), Strict::No).err()?;
    Some(format!("{why}, so the commands that {} names are not run", path.display()))
}

/// Says which files hold a secret and can be read by others.
fn readable_secrets(host: &Host, file: &File, path: &Path) -> Vec<String> {
    let gateways = file.openclaw.gateways.iter();
    let gateways = gateways.map(|table| (table.token.is_some(), table.token_file.as_ref()));
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
    settings(host, "claude-code", file.claude_code, path)?;
    host.roots = file
        .roots
        .into_iter()
        .map(|(name, paths)| (name, paths.into_iter().map(|p| expand(host, p)).collect()))
        .collect();
    let gateways = file.openclaw.gateways.into_iter().map(|table| gateway(host, table, path));
    let gateways: Vec<Gateway> = gateways.collect::<Result<_, _>>()?;
    host.gateways.insert("openclaw".to_owned(), gateways);
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

/// `~` stands for the home directory.
fn expand(host: &Host, path: PathBuf) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => host.home.join(rest),
        Err(_) => path,
    }
}

/// Returns the secret that is given here, in a variable or in a file; more than one is too many.
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

/// Says whether a program would be looked for in whatever directory it is run in.
fn relative(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

/// Reads one server on a network: an address without a secret in it, and one secret at most.
fn gateway(host: &Host, table: GatewayTable, path: &Path) -> Result<Gateway, Failure> {
    let wrong = |what: String| {
        let message = format!("{}: openclaw.gateways: {what}", path.display());
        Failure::new(Kind::Failed, message)
    };
    if let Err(why) = Endpoint::parse(&table.url) {
        // Not shown: what is wrong with it may be that a secret stands in it.
        return Err(wrong(format!("a url is not usable: {why}"))
            .hint("write it like wss://gateway.example or ws://127.0.0.1:18789"));
    }
    let token = secret(host, (table.token, table.token_env, table.token_file)).map_err(|()| {
        wrong("a gateway has more than one token".into())
            .hint("give one of token, token_env and token_file")
    })?;
    Ok(Gateway {
        name: table.name,
        url: table.url,
        token,
        insecure: table.insecure,
        admin: table.admin,
        ca_file: table.ca_file.map(|file| expand(host, file)),
    })
}

/// Takes over an adapter's own settings, each one it knows.
fn settings(
    host: &mut Host,
    adapter: &str,
    given: BTreeMap<String, String>,
    path: &Path,
) -> Result<(), Failure> {
    let known = adapters::ALL.iter().find(|a| a.name() == adapter).and_then(|a| a.control());
    let known = known.map_or(&[][..], Control::settings);
    for (key, value) in &given {
        let wrong = |what: String| {
            Failure::new(Kind::Failed, format!("{}: {adapter}.{key}: {what}", path.display()))
        };
        let Some(setting) = known.iter().find(|s| s.key == key) else {
            let keys: Vec<_> = known.iter().map(|s| s.key).collect();
            return Err(
                wrong("there is no such key".into()).hint(format!("keys: {}", keys.join(", ")))
            );
        };
        if !setting.values.contains(&value.as_str()) {
            let values = setting.values.join(" or ");
            return Err(wrong(format!("`{value}` is not one of its values"))
                .hint(format!("write {values}")));
        }
    }
    host.settings.insert(adapter.to_owned(), given);
    Ok(())
}

//! Configuration: defaults, then the file, then the environment, then flags.
//!
//! An unknown key or a bad value is a finding that names file, line and key. The setting has its default then,
//! and all others stay in force: only a command that would act on the broken setting refuses to work.

mod adapter_tables;
mod change_time;
mod daemon;
mod document;
mod finding;
mod keys;
mod reach;
mod settings;
mod show;
mod web;
mod webhook;
mod worktree;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::adapters::control::Permissions;
use agentctl_core::adapters::{self};
pub use agentctl_core::ask::LaunchDefaults as Defaults;
use agentctl_core::ask::{
    ConfigFinding, ConfiguredWebhook, DaemonState, DoctorContext, Fleet, LaunchHooks, WebContext,
};
use agentctl_core::host::{Host, Secret};
use agentctl_core::kernel::Kernel;
use agentctl_core::marks;
use agentctl_core::model::{Fault, Time};
use agentctl_core::native::file;
use agentctl_core::trust::{self, Distrust, Strict};
use serde::Deserialize;

use self::adapter_tables::AdapterTables;
use self::change_time::changed_at;
use self::document::Document;
pub use self::finding::Finding;
use self::finding::Problem;
pub use self::keys::{Key, KeyType, Part, keys};
pub(crate) use self::settings::{DESKTOP_PROGRAM, check_token};
pub use self::settings::{MetricsSettings, NotifySettings};
pub use self::show::{ConfigDocument, ConfigSetting, SettingSource};
pub use self::web::{WebAddress, WebSettings, check_web_host};
pub(crate) use self::webhook::secret_key;
pub use self::webhook::{WebhookEndpoint, check_address};
use crate::failure::{Failure, Kind};

/// The configuration file without the tables of adapters.
#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    adapter: Option<String>,
    model: Option<String>,
    permissions: Option<Permissions>,
    ask: Option<Span>,
    answers: AnswersTable,
    limits: LimitsTable,
    roots: BTreeMap<String, Vec<PathBuf>>,
    deadline: Deadline,
    runs: RunsTable,
    hooks: LaunchHooks,
    worktree: worktree::WorktreeTable,
    #[serde(skip)]
    adapters: AdapterTables,
    webhooks: Vec<daemon::WebhookTable>,
    notify: Option<daemon::NotifyTable>,
    metrics: Option<daemon::MetricsTable>,
    web: web::WebTable,
}

/// A text that may be a secret. Errors about the file do not contain it.
struct Hidden(String);

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self(text)),
            _ => Err(serde::de::Error::custom("expected a text in quotes")),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AnswersTable {
    agents: Option<AnsweringAgents>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsTable {
    depth: Option<u32>,
    children: Option<u32>,
}

/// The asks that agents may answer.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum AnsweringAgents {
    /// None.
    Never,
    /// Those of sessions that are neither their own nor above them.
    Others,
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

impl Span {
    /// Reads a span that is longer than zero.
    pub fn positive(text: &str) -> Result<Self, String> {
        let span: Self = text.parse()?;
        if span.0.is_zero() {
            Err("the time must be longer than zero".to_owned())
        } else {
            Ok(span)
        }
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
    /// The settings of the page in the browser.
    pub web: WebSettings,
    /// Sentences about unsafe file permissions.
    pub warnings: Vec<String>,
    /// The settings of the file that could not be used.
    pub findings: Vec<Finding>,
    /// The file, its keys and their lines, for `config show`.
    document: Document,
}

impl Loaded {
    /// Returns the receiver of questions: this host and all adapters.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        Fleet::new(Arc::clone(&self.host), adapters::ALL)
    }

    /// Returns what `doctor` needs to know about the settings, with the state of the daemon and of the page.
    #[must_use]
    pub fn doctor_context(&self, (daemon, web): (DaemonState, WebContext)) -> DoctorContext {
        let finding =
            |found: &Finding| ConfigFinding { what: found.to_string(), hint: found.hint.clone() };
        let webhook = |endpoint: &WebhookEndpoint| ConfiguredWebhook {
            name: endpoint.name.clone(),
            secret: endpoint.secret.clone(),
        };
        let (notify, metrics) = (self.notify.as_ref(), self.metrics.as_ref());
        DoctorContext {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: path(&self.host),
            findings: self.findings.iter().map(finding).collect(),
            webhooks: self.webhooks.iter().map(webhook).collect(),
            metrics_token: metrics.and_then(|settings| settings.token.clone()),
            notify_program: notify.and_then(NotifySettings::program).map(str::to_owned),
            notify_tmux: notify.is_some_and(|settings| settings.tmux),
            notify_tty: notify.and_then(|settings| settings.tty.clone()),
            needs_daemon: !self.webhooks.is_empty()
                || notify.is_some_and(NotifySettings::need_daemon)
                || metrics.is_some(),
            daemon,
            web,
            has_screen: None,
        }
    }

    /// Returns a warning for each webhook whose secret is not there.
    #[must_use]
    pub fn missing_secrets(&self) -> Vec<String> {
        let missing = |endpoint: &WebhookEndpoint| {
            let why = endpoint.secret.as_ref()?.read(&self.host).err()?;
            Some(format!("webhook {}: {why}: no event is sent to it", endpoint.name))
        };
        self.webhooks.iter().filter_map(missing).collect()
    }

    /// Fails if a launch would act on a broken setting: everything but the settings of servers.
    pub fn check_launch(&self) -> Result<(), Failure> {
        self.check(|part| !matches!(part, Part::Daemon | Part::Web))
    }

    /// Returns the permissions of an order whose giver may be no person: those that it names, else the configured
    /// ones (`None`), but never all of them.
    #[must_use]
    pub fn permissions_from_afar(&self, wanted: Option<Permissions>) -> Option<Permissions> {
        match wanted.unwrap_or(self.defaults.permissions) {
            Permissions::Bypass => Some(Permissions::Default),
            _ => wanted,
        }
    }

    /// Fails if a test of notifications would act on a broken setting. With one, the daemon shows none either.
    pub fn check_notify(&self) -> Result<(), Failure> {
        self.check_findings(|found| found.part == Part::Any || found.is_in("notify"))
    }

    /// Fails if a webhook cannot be told from others, because a setting of webhooks is broken.
    pub fn check_webhooks(&self) -> Result<(), Failure> {
        self.check_findings(|found| found.part == Part::Any || found.is_in("webhooks"))
    }

    /// Fails if the page in the browser would act on a broken setting of its own, or look in the wrong places.
    pub fn check_web(&self) -> Result<(), Failure> {
        self.check(|part| matches!(part, Part::Web | Part::Sources | Part::Any))
    }

    /// Fails if a daemon would act on a broken setting: everything but the settings of launches, runs and the
    /// page in the browser.
    pub fn check_daemon(&self) -> Result<(), Failure> {
        self.check(|part| !matches!(part, Part::Launch | Part::Runs | Part::Web))
    }

    /// Fails if a daemon would look in the wrong places. Broken settings of its own do not keep it from serving:
    /// see [`Self::leave_out_broken`].
    pub fn check_sources(&self) -> Result<(), Failure> {
        self.check(|part| matches!(part, Part::Sources | Part::Any))
    }

    /// Leaves out the tables of the daemon that have a finding: half of `[metrics]` or `[notify]` could mean
    /// something else than the whole. Returns a fault for each finding.
    pub fn leave_out_broken(&mut self) -> Vec<Fault> {
        let found: Vec<&Finding> =
            self.findings.iter().filter(|found| found.part == Part::Daemon).collect();
        if found.iter().any(|finding| finding.is_in("notify")) {
            self.notify = None;
        }
        if found.iter().any(|finding| finding.is_in("metrics")) {
            self.metrics = None;
        }
        let fault = |finding: &&Finding| Fault {
            message: format!("{finding}: left out by the daemon until it is corrected"),
            ..finding.fault()
        };
        found.iter().map(fault).collect()
    }

    fn check(&self, matters: impl Fn(Part) -> bool) -> Result<(), Failure> {
        self.check_findings(|finding| matters(finding.part))
    }

    /// Fails with the first finding that matters.
    fn check_findings(&self, matters: impl Fn(&Finding) -> bool) -> Result<(), Failure> {
        let mut found = self.findings.iter().filter(|finding| matters(finding));
        let Some(first) = found.next() else { return Ok(()) };
        let failure = first.failure();
        Err(match found.count() {
            0 => failure,
            more => failure.hint(format!("{more} more: see `agentctl config check`")),
        })
    }

    /// Returns a fault for each setting because of which a home or a server may be missing from an answer.
    #[must_use]
    pub fn source_faults(&self) -> Vec<Fault> {
        let found = self.findings.iter().filter(|finding| finding.hides_sources());
        found.map(Finding::fault).collect()
    }

    /// Says whether a home or a server may be missing from every answer, or a deadline differ, because the
    /// setting could not be read.
    #[must_use]
    pub fn sources_may_be_missing(&self) -> bool {
        self.findings.iter().any(Finding::hides_sources)
    }
}

/// Builds the host from the environment and the configuration file.
pub fn host() -> Result<Arc<Host>, Failure> {
    load_all().map(|loaded| loaded.host)
}

/// Stands for a current directory that was deleted: a path that does not exist.
const NO_CWD: &str = "/the current directory, which no longer exists";

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
    let mut document = read(&host, &path);
    host.configuration_changed_at = changed_at(&path, &host.home);
    let mut file = parsed(&mut document);
    let warnings = readable_secrets(&host, &file, &path);
    let mut problems = Vec::new();
    let webhooks = daemon::webhooks(&host, std::mem::take(&mut file.webhooks), &mut problems);
    let notify = file.notify.take().map(daemon::notify).transpose();
    let notify = notify.map_err(|problem| problems.push(problem)).unwrap_or_default();
    let metrics = file.metrics.take().map(|table| daemon::metrics(&host, table)).transpose();
    let metrics = metrics.map_err(|problem| problems.push(problem)).unwrap_or_default();
    let web = web::web(&host, std::mem::take(&mut file.web), &mut problems);
    let mut defaults = apply(&mut host, file, &mut problems);
    for problem in problems {
        let part = Part::of(problem.key.trim_start_matches('['));
        document.add(problem, part);
    }
    if document.findings.iter().any(|f| matches!(f.part, Part::Runs | Part::Any)) {
        // How long runs are to be kept is unknown: none is removed.
        defaults.keep = Duration::MAX;
    }
    let mut findings = document.findings.clone();
    // In the order of the file; the sort keeps the order within a line.
    findings.sort_by_key(|finding| finding.line);
    let host = Arc::new(host);
    Ok(Loaded { host, defaults, webhooks, notify, metrics, web, warnings, findings, document })
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

/// The hint for a configuration file that another user could have written.
const UNTRUSTED_HINT: &str = "no setting of this file is used; make the file and the folders above it yours (chown), writable only by you";
/// Maximum size of the configuration file.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Reads the configuration file. A missing file is no finding, unless the environment names it. No setting is taken
/// from a file that another user could have written.
fn read(host: &Host, path: &Path) -> Document {
    if path == Path::new("/dev/null") {
        return Document::missing(path);
    }
    let named = host.var(marks::CONFIG).is_some();
    let unread = |why: String| {
        let hint = if named {
            format!("{} names this file; unset it to use the default", marks::CONFIG)
        } else {
            "no setting of this file is used".to_owned()
        };
        let problem = Problem::new("", format!("it cannot be read: {why}"));
        Document::unreadable(path, problem.hint(hint))
    };
    match trust::file(&host.cwd.join(path), host.kernel.uid(), Strict::No) {
        // Reading it says why it cannot be read.
        Ok(_) | Err(Distrust::Io { .. }) => {}
        // It names commands, permissions, homes and servers: another user must not choose them.
        Err(why) => {
            let problem = Problem::new("", format!("it is not trusted: {why}"));
            return Document::unreadable(path, problem.hint(UNTRUSTED_HINT));
        }
    }
    match file::read_small_of_anybody(path, MAX_CONFIG_BYTES) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Document::parse(path, &text),
            Err(_) => unread("it is not UTF-8".into()),
        },
        Err(file::Skip::Missing) if !named => Document::missing(path),
        Err(skip) => unread(skip.to_string()),
    }
}

/// Returns the settings of a checked document. An error that the check did not notice is a finding about the file.
fn parsed(document: &mut Document) -> File {
    let adapters = document.table.clone().try_into::<AdapterTables>();
    let file = document.table.clone().try_into::<File>();
    match (adapters, file) {
        (Ok(adapters), Ok(file)) => File { adapters, ..file },
        (Err(error), _) | (_, Err(error)) => {
            let what = error.message().replace('\n', " ");
            document.add(Problem::new("", what), Part::Any);
            File::default()
        }
    }
}

/// Returns a warning for each file with a secret that other users can read.
fn readable_secrets(host: &Host, file: &File, path: &Path) -> Vec<String> {
    let gateways = file.adapters.secret_places();
    let webhooks = file.webhooks.iter().map(daemon::WebhookTable::secret_places);
    let metrics = file.metrics.iter().map(daemon::MetricsTable::secret_places);
    let (mut inside, mut warnings) = (false, Vec::new());
    for (here, file) in gateways.chain(webhooks).chain(metrics) {
        inside |= here;
        let file = file.map(|file| host.expanded(file));
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

/// Stores the settings of launches and sources.
fn apply(host: &mut Host, mut file: File, problems: &mut Vec<Problem>) -> Defaults {
    let hooks =
        [("on_create", &mut file.hooks.on_create), ("on_complete", &mut file.hooks.on_complete)];
    for (key, hook) in hooks {
        let program = hook.as_ref().and_then(|h| h.first()).map_or("", String::as_str);
        if relative(program) {
            let what = format!("`{program}` is a relative path");
            let problem = Problem::new(format!("hooks.{key}"), what);
            problems.push(problem.hint("write the whole path"));
            *hook = None;
        }
    }
    if file.ask.is_some_and(|Span(span)| span.is_zero()) {
        problems.push(Problem::new("ask", "the time must be longer than zero".to_owned()));
        file.ask = None;
    }
    host.roots = file
        .roots
        .into_iter()
        .map(|(name, paths)| (name, paths.into_iter().map(|p| host.expanded(&p)).collect()))
        .collect();
    file.adapters.apply(host, problems);
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
    host.agents_may_answer_others = file.answers.agents == Some(AnsweringAgents::Others);
    let limits = &mut host.launch_limits;
    limits.depth = file.limits.depth.unwrap_or(limits.depth);
    limits.children = file.limits.children.unwrap_or(limits.children);
    let worktree = worktree::settings(host, file.worktree, problems);
    worktree::tell(host, &worktree);
    let usual = Defaults::default();
    Defaults {
        ask: file.ask.map_or(usual.ask, |Span(span)| span),
        adapter: file.adapter,
        model: file.model,
        permissions: file.permissions.unwrap_or(usual.permissions),
        hooks: file.hooks,
        keep: file.runs.keep.map_or(usual.keep, |Span(span)| span),
        worktree,
    }
}

/// Returns the secret: a text, a variable or a file. Fails if more than one is given.
fn secret(
    host: &Host,
    (text, variable, file): (Option<Hidden>, Option<String>, Option<PathBuf>),
) -> Result<Option<Secret>, ()> {
    let text = text.map(|text| Secret::Text(text.0));
    let file = file.map(|file| Secret::File(host.expanded(&file)));
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
    use super::*;

    /// A key that is listed and not read would be ignored without a word; one that is read and not listed is
    /// refused as unknown.
    #[test]
    fn every_listed_key_is_read() {
        for key in keys() {
            let name = key.name.replace("[]", "");
            if key.kind == KeyType::Count {
                continue;
            }
            // No other key takes a number.
            let text = match key.name.split_once("[].") {
                Some((list, "url")) => format!("[[{list}]]\nurl = 5\n"),
                Some((list, field)) => format!("[[{list}]]\nurl = \"https://a\"\n{field} = 5\n"),
                None => format!("{name} = 5"),
            };
            let table: toml::Table = toml::from_str(&text).expect("valid TOML");
            let errors =
                [table.clone().try_into::<File>().err(), table.try_into::<AdapterTables>().err()];
            let said: Vec<String> = errors.into_iter().flatten().map(|e| e.to_string()).collect();
            let read = !said.is_empty() && !said.iter().any(|why| why.contains("unknown field"));
            assert!(read, "{} is listed and not read: {said:?}", key.name);
        }
    }
}

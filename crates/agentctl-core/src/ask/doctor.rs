//! The question `doctor`: checks of the kernel's mechanisms, the daemon, the configuration and each agent.

mod configured;
mod interfaces;
mod shells;
mod web;

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use crate::adapters::{Adapter, Found, Look};
use crate::fleet::{each_adapter, look, roots_of};
use crate::git::{Git, OLDEST_VERSION};
use crate::host::{Host, Secret};
use crate::kernel::{self, Mechanism};
use crate::model::{Fault, SCHEMA_VERSION};
use crate::native::watch::Watch;
use crate::runs::{Run, Runs};
use crate::text::{byte_size, counted, with_tilde};

pub use self::shells::{COMPLETION_SHELLS, CompletionShell};

/// The answer to `doctor --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DoctorDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// One row per check.
    pub checks: Vec<Check>,
    /// The sources of the agents' homes that could not be asked.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// One check of `doctor`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Check {
    /// `kernel`, `events`, `daemon`, `web`, `mcp`, `top`, `control`, `config`, `shell`, or an adapter's name.
    pub area: String,
    /// The object of the check.
    pub name: String,
    /// The result.
    pub state: CheckState,
    /// The finding.
    pub detail: String,
    /// A hint for the user.
    pub hint: Option<String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// In order.
    Ok,
    /// Works with restrictions.
    Degraded,
    /// Not present, which is not an error.
    Absent,
    /// Could not be read.
    Failed,
}

/// The facts that only the program around this library knows.
#[derive(Clone, Debug)]
pub struct DoctorContext {
    /// The version of the program.
    pub version: String,
    /// The configuration file, whether it exists or not.
    pub configuration: PathBuf,
    /// The settings of the file that cannot be used.
    pub findings: Vec<ConfigFinding>,
    /// The configured webhooks.
    pub webhooks: Vec<ConfiguredWebhook>,
    /// The token of the metrics; `None` if it is generated or there are no metrics.
    pub metrics_token: Option<Secret>,
    /// The program that shows notifications; `None` if they are not configured.
    pub notify_program: Option<String>,
    /// Notifications are shown by tmux.
    pub notify_tmux: bool,
    /// The device file of the terminal that notifications are written to.
    pub notify_tty: Option<PathBuf>,
    /// Webhooks, notifications or metrics are configured, and only a daemon serves them.
    pub needs_daemon: bool,
    /// The state of the daemon.
    pub daemon: DaemonState,
    /// The page in the browser.
    pub web: WebContext,
    /// The streams of this command are a terminal with a screen; `None` if it was not asked for one.
    pub has_screen: Option<bool>,
}

/// The facts about the page in the browser.
#[derive(Clone, Debug, Default)]
pub struct WebContext {
    /// A server of the page runs.
    pub is_running: bool,
    /// Why its socket is not trusted.
    pub trouble: Option<String>,
    /// The users of proxies that no user of this machine has.
    pub unknown_users: Vec<String>,
    /// The address that is configured can be reached from other machines.
    pub is_exposed: bool,
}

/// A setting that cannot be used.
#[derive(Clone, Debug)]
pub struct ConfigFinding {
    /// The file, the line, the key and the reason.
    pub what: String,
    /// A hint for the user.
    pub hint: Option<String>,
}

/// A configured webhook.
#[derive(Clone, Debug)]
pub struct ConfiguredWebhook {
    /// Its name.
    pub name: String,
    /// The secret that signs its events.
    pub secret: Option<Secret>,
}

/// The state of the daemon, as far as a client can tell.
#[derive(Clone, Debug)]
pub enum DaemonState {
    /// No daemon runs, or it may not be asked.
    Absent,
    /// A daemon serves.
    Serves {
        /// The version of its program.
        version: String,
        /// Why it does not notice changes by itself.
        trouble: Option<String>,
    },
    /// A daemon runs and gives no answer, for this reason.
    Silent(String),
}

impl Fleet {
    /// Checks that the homes, secrets, programs and terminals that the settings name can be used.
    #[must_use]
    pub fn configuration_checks(&self, context: &DoctorContext) -> Vec<Check> {
        let mut checks = configured::roots(&self.host);
        checks.extend(configured::webhooks(&self.host, context));
        checks.extend(configured::tokens(&self.host, context));
        checks.extend(configured::notify(&self.host, context));
        checks
    }

    /// Examines this machine.
    #[must_use]
    pub fn doctor(&self, context: &DoctorContext) -> DoctorDocument {
        let look = look(self, self.host.deadlines.all);
        let mut checks = mechanisms(self, &look);
        checks.extend(configured::limits(kernel::limits()));
        checks.push(git(&self.host));
        checks.push(changes(self, &context.daemon));
        checks.push(configured::daemon(context));
        checks.extend(web::checks(&context.web));
        checks.push(interfaces::mcp(&self.host));
        checks.extend(context.has_screen.map(interfaces::top));
        checks.extend(control(&self.host));
        checks.extend(configured::file(&self.host, context));
        checks.extend(self.configuration_checks(context));
        checks.extend(shells::completions(&self.host));
        let mut faults = Vec::new();
        for &adapter in self.adapters {
            checks.extend(agent(self, adapter, &mut faults));
        }
        DoctorDocument { schema_version: SCHEMA_VERSION, checks, faults }
    }
}

impl Check {
    fn new(
        area: &str,
        name: impl Into<String>,
        state: CheckState,
        detail: impl Into<String>,
    ) -> Self {
        let (area, name, detail) = (area.to_owned(), name.into(), detail.into());
        Self { area, name, state, detail, hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

fn mechanisms(fleet: &Fleet, look: &Look) -> Vec<Check> {
    let (host, kernel) = (&fleet.host, &fleet.host.kernel);
    let identity = match kernel.mechanism() {
        Mechanism::Pidfs => Check::new(
            "kernel",
            "process identity",
            CheckState::Ok,
            "pidfs inode: a recycled pid is always detected",
        ),
        Mechanism::StartTime => Check::new(
            "kernel",
            "process identity",
            CheckState::Degraded,
            "start time only, in 10 ms steps",
        )
        .hint("Linux 6.9 and later offer pidfs, which is exact"),
    };
    let namespace = if kernel.sees_whole_machine() {
        Check::new(
            "kernel",
            "pid namespace",
            CheckState::Ok,
            "the machine's own: every process is visible",
        )
    } else {
        let detail = format!(
            "private ({}): agents outside it cannot be seen; sessions whose record or lock names one are unknown",
            kernel.pid_namespace()
        );
        Check::new("kernel", "pid namespace", CheckState::Degraded, detail)
    };
    let table = match look.table.gaps.first() {
        None => {
            let detail = format!(
                "{} processes of this user, {} of agents",
                look.table.seen,
                look.table.processes.len()
            );
            Check::new("kernel", "process table", CheckState::Ok, detail)
        }
        Some(gap) => Check::new("kernel", "process table", CheckState::Failed, gap.clone())
            .hint("absence cannot be proved: ended sessions are shown as unknown"),
    };
    let locks = match kernel.file_locks(&|_| true) {
        Ok(locks) => Check::new(
            "kernel",
            "file locks",
            CheckState::Ok,
            format!("/proc/locks, {} held", locks.len()),
        ),
        Err(error) => {
            let consequences: Vec<_> =
                fleet.adapters.iter().filter_map(|a| a.without_file_locks()).collect();
            Check::new("kernel", "file locks", CheckState::Failed, error.to_string())
                .hint(consequences.join("; "))
        }
    };
    let events = match Watch::directories([host.home.as_path()]) {
        Ok(watch) => {
            drop(watch);
            Check::new("kernel", "file events", CheckState::Ok, "available")
        }
        Err(error) => Check::new("kernel", "file events", CheckState::Degraded, error.to_string())
            .hint("`logs -f` and `wait` look once a second instead, `events` every two"),
    };
    vec![identity, namespace, table, locks, events]
}

/// Checks that git is there and new enough. Only worktrees and `diff` need it.
fn git(host: &Host) -> Check {
    let check = |state, detail: String| Check::new("git", "version", state, detail);
    let git = match Git::find_any(host) {
        Ok(git) => git,
        Err(error) => {
            return check(CheckState::Degraded, error.to_string())
                .hint("`launch --worktree`, `diff` and `worktree` need it");
        }
    };
    let detail = format!("{} ({})", git.version_text(), git.program().display());
    if git.version() >= OLDEST_VERSION {
        return check(CheckState::Ok, detail);
    }
    check(CheckState::Degraded, detail)
        .hint(format!("`launch --worktree`, `diff` and `worktree` need {OLDEST_VERSION} or later"))
}

/// Checks how soon changes are noticed: by the daemon, or by a watcher of this process if no daemon runs.
fn changes(fleet: &Fleet, daemon: &DaemonState) -> Check {
    let check = |state, detail: String| Check::new("events", "changes", state, detail);
    let (observer, trouble) = match daemon {
        DaemonState::Serves { trouble, .. } => ("the daemon", trouble.clone()),
        DaemonState::Absent => match fleet.watcher() {
            Ok(mut watcher) => {
                watcher.look();
                ("`events`", watcher.trouble().map(str::to_owned))
            }
            Err(error) => return check(CheckState::Failed, error.to_string()),
        },
        DaemonState::Silent(why) => return check(CheckState::Failed, why.clone()),
    };
    match trouble {
        None => check(CheckState::Ok, format!("{observer} is notified of them by the kernel")),
        Some(why) => check(CheckState::Degraded, format!("{observer} may see them late: {why}"))
            .hint("it looks every two seconds instead; deaths of processes are seen at once"),
    }
}

/// Checks the mechanisms that launch and stop use.
fn control(host: &Host) -> Vec<Check> {
    let stop = if cfg!(target_os = "linux") {
        let detail = "signals are sent through pidfds; orphaned processes of a launched agent stay below its shim";
        Check::new("control", "stop", CheckState::Ok, detail)
    } else {
        let detail =
            "no pidfds and no subreaper here: daemons of a launched agent are listed, not stopped";
        Check::new("control", "stop", CheckState::Degraded, detail)
    };
    let runs = Runs::of(host);
    let kept = match runs.all() {
        Ok(all) => {
            let bytes: u64 = all.iter().map(Run::bytes).sum();
            let folder = with_tilde(&host.home, &host.state().join("runs").to_string_lossy());
            let detail = format!("{} kept, {} in {folder}", all.len(), byte_size(bytes));
            Check::new("control", "runs", CheckState::Ok, detail)
        }
        Err(error) => Check::new("control", "runs", CheckState::Failed, error.to_string())
            .hint("agentctl keeps the files of launches there; make it a folder that you own"),
    };
    vec![stop, kept]
}

/// Maximum number of homes per agent that are checked.
const MAX_HOMES: usize = 16;

fn agent(fleet: &Fleet, adapter: &'static dyn Adapter, faults: &mut Vec<Fault>) -> Vec<Check> {
    let host = &fleet.host;
    let name = adapter.name();
    let mut checks = Vec::new();
    let installation = adapter.installation(host);
    checks.push(match &installation.program {
        Some(program) => {
            let version = installation.version.as_deref().unwrap_or("version not known");
            let place = with_tilde(&host.home, &program.to_string_lossy());
            Check::new(name, "program", CheckState::Ok, format!("{version}, {place}"))
        }
        None => Check::new(name, "program", CheckState::Absent, "not on the PATH"),
    });
    let found = roots_of(fleet, name, host.deadlines.live);
    if let Some(fault) = found.faults.first() {
        checks.push(Check::new(name, "home", CheckState::Failed, fault.message.clone()));
        faults.extend(found.faults);
        return checks;
    }
    // Each home is checked separately, so a large number of homes would take too long.
    let mut roots = found.rows;
    let many = roots.len();
    roots.truncate(MAX_HOMES);
    if many > roots.len() {
        let detail = format!("{many} homes; the first {MAX_HOMES} are shown");
        checks.push(Check::new(name, "home", CheckState::Degraded, detail));
    }
    if roots.is_empty() {
        checks.push(Check::new(
            name,
            "home",
            CheckState::Absent,
            "none found: it has never run here",
        ));
    }
    for root in roots {
        let label = with_tilde(&host.home, &root.label());
        // One home after the other, each on a thread that may be abandoned.
        let answer = count(fleet, adapter, root.label());
        faults.extend(answer.1.iter().cloned());
        checks.push(match (answer.0, answer.1.first()) {
            (Some((live, all)), None) => Check::new(
                name,
                format!("home {label}"),
                CheckState::Ok,
                format!("{live} live, {} in all", counted(all, "session")),
            ),
            (_, Some(fault)) => {
                Check::new(name, format!("home {label}"), CheckState::Failed, fault.message.clone())
            }
            (None, None) => {
                Check::new(name, format!("home {label}"), CheckState::Failed, "it did not answer")
            }
        });
    }
    checks
}

/// Counts the live sessions and all sessions of one home.
fn count(
    fleet: &Fleet,
    adapter: &'static dyn Adapter,
    root: String,
) -> (Option<(usize, usize)>, Vec<Fault>) {
    let limit = fleet.host.deadlines.all.max(Duration::from_millis(1));
    let found = each_adapter(fleet, limit, move |asked, look| {
        let mut counts = Found::default();
        if asked.name() != adapter.name() {
            return counts;
        }
        for root in asked.roots(look).iter().filter(|r| r.label() == root) {
            let store = asked.store(look, root);
            let (live, all) = (store.live(), store.history(None));
            let served = live.rows.iter().filter(|s| s.id.is_some()).count();
            counts.rows.push((served, all.rows.len()));
            counts.faults.extend(live.faults);
            counts.faults.extend(all.faults);
        }
        counts
    });
    (found.rows.first().copied(), found.faults)
}

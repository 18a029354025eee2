//! `agentctl doctor`: what was found on this machine, which mechanisms are in force, what is missing.

use std::sync::Arc;
use std::time::Duration;

use agentctl_core::adapters::{ALL, Adapter, Look};
use agentctl_core::ask::Fleet;
use agentctl_core::events::Watcher;
use agentctl_core::fleet;
use agentctl_core::host::Host;
use agentctl_core::kernel::Mechanism;
use agentctl_core::marks;
use agentctl_core::model::{Fault, SCHEMA_VERSION};
use agentctl_core::native::watch::Watch;
use agentctl_core::runs::{Run, Runs};
use anstyle::{AnsiColor, Style};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::runs::size;
use crate::client::{Client, PATIENT, Silence};
use crate::daemon::status::DaemonStatus;
use crate::failure::Outcome;
use crate::place::Place;
use crate::rows;
use crate::text::one_line;
use crate::ui::Ui;

/// Show what was found on this machine and what is missing
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The answer to `doctor --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Report {
    schema_version: u32,
    /// One row per thing looked at.
    checks: Vec<Check>,
}

#[derive(Serialize, JsonSchema)]
struct Check {
    /// `kernel`, `events`, `control`, `config`, or an adapter's name.
    area: &'static str,
    /// What was looked at.
    name: String,
    /// How it stands.
    state: CheckState,
    /// What was found.
    detail: String,
    /// What to do about it.
    hint: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    /// As it should be.
    Ok,
    /// Works, with less.
    Degraded,
    /// Not there; nothing is wrong.
    Absent,
    /// Could not be read.
    Failed,
}

impl Check {
    fn new(
        area: &'static str,
        name: impl Into<String>,
        state: CheckState,
        detail: impl Into<String>,
    ) -> Self {
        Self { area, name: name.into(), state, detail: detail.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

pub(super) fn cmd_doctor(ui: &mut Ui, fleet: &Fleet, args: &DoctorArgs) -> Outcome {
    let host = &fleet.host;
    let look = fleet::look(host, ALL, host.deadlines.all);
    let mut checks = kernel(host, &look);
    checks.push(changes(host));
    checks.extend(control(host));
    checks.push(configuration(host));
    let mut faults = Vec::new();
    for &adapter in ALL {
        checks.extend(agent(adapter, host, &mut faults));
    }
    if args.json {
        ui.json(&Report { schema_version: SCHEMA_VERSION, checks })?;
    } else {
        show(ui, &checks)?;
    }
    Ok(super::answered(ui, &faults))
}

fn kernel(host: &Host, look: &Look) -> Vec<Check> {
    let kernel = &host.kernel;
    let identity = match kernel.mechanism() {
        Mechanism::Pidfs => Check::new(
            "kernel",
            "process identity",
            CheckState::Ok,
            "pidfs inode: a recycled pid is always told apart",
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
            "private ({}): agents outside it cannot be seen; where a record or lock names one it is unknown",
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
    let locks = match kernel.file_locks() {
        Ok(locks) => Check::new(
            "kernel",
            "file locks",
            CheckState::Ok,
            format!("/proc/locks, {} held", locks.len()),
        ),
        Err(error) => {
            let consequences: Vec<_> = ALL.iter().filter_map(|a| a.without_file_locks()).collect();
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

/// How soon changes are seen: by the daemon, or by whoever would look in its stead.
fn changes(host: &Arc<Host>) -> Check {
    let check = |state, detail: String| Check::new("events", "changes", state, detail);
    let asked = match host.var(marks::NO_DAEMON) {
        Some(_) => Err(Silence::Nobody),
        None => Client::connect(&Place::of(host), PATIENT),
    };
    let asked = asked.and_then(|mut client| {
        client.call::<DaemonStatus>("daemon.status", &serde_json::json!({}), PATIENT)
    });
    let (who, trouble) = match asked {
        Ok(status) => ("the daemon", status.trouble),
        Err(Silence::Nobody) => match Watcher::new(Arc::clone(host), ALL) {
            Ok(mut watcher) => {
                watcher.look();
                ("`events`", watcher.trouble().map(str::to_owned))
            }
            Err(error) => return check(CheckState::Failed, error.to_string()),
        },
        Err(silence) => return check(CheckState::Failed, silence.to_string()),
    };
    match trouble {
        None => check(CheckState::Ok, format!("{who} is told of them by the system")),
        Some(why) => check(CheckState::Degraded, format!("{who} may see them late: {why}"))
            .hint("it looks every two seconds instead; deaths of processes are seen at once"),
    }
}

/// What launching and stopping rest on here.
fn control(host: &Host) -> Vec<Check> {
    let stop = if cfg!(target_os = "linux") {
        let detail =
            "signals go through handles; what a launched agent orphans stays below its shim";
        Check::new("control", "stop", CheckState::Ok, detail)
    } else {
        let detail =
            "no handles and no sub-reaper here: daemons of a launched agent are only named";
        Check::new("control", "stop", CheckState::Degraded, detail)
    };
    let runs = Runs::of(host);
    let kept = match runs.all() {
        Ok(all) => {
            let bytes: u64 = all.iter().map(Run::bytes).sum();
            let folder = rows::directory(host, &host.state().join("runs").to_string_lossy());
            let detail = format!("{} kept, {} in {folder}", all.len(), size(bytes));
            Check::new("control", "runs", CheckState::Ok, detail)
        }
        Err(error) => Check::new("control", "runs", CheckState::Failed, error.to_string())
            .hint("agentctl keeps what launches leave behind there; make it a folder of yours"),
    };
    vec![stop, kept]
}

fn configuration(host: &Host) -> Check {
    let path = crate::config::path(host);
    let shown = rows::directory(host, &path.to_string_lossy());
    if path.exists() {
        Check::new("config", "file", CheckState::Ok, shown)
    } else {
        Check::new("config", "file", CheckState::Absent, format!("{shown} (defaults are used)"))
    }
}

/// More homes of one agent are not asked.
const HOMES_MOST: usize = 16;

fn agent(adapter: &'static dyn Adapter, host: &Arc<Host>, faults: &mut Vec<Fault>) -> Vec<Check> {
    let name = adapter.name();
    let mut checks = Vec::new();
    let installation = adapter.installation(host);
    checks.push(match &installation.program {
        Some(program) => {
            let version = installation.version.as_deref().unwrap_or("version not known");
            let place = rows::directory(host, &program.to_string_lossy());
            Check::new(name, "program", CheckState::Ok, format!("{version}, {place}"))
        }
        None => Check::new(name, "program", CheckState::Absent, "not on the PATH"),
    });
    let found = fleet::roots_of(host, ALL, name, host.deadlines.live);
    if let Some(fault) = found.faults.first() {
        checks.push(Check::new(name, "home", CheckState::Failed, fault.message.clone()));
        faults.extend(found.faults);
        return checks;
    }
    // Each home is asked by itself: a crowd of them would take for ever.
    let mut roots = found.rows;
    let many = roots.len();
    roots.truncate(HOMES_MOST);
    if many > roots.len() {
        let detail = format!("{many} homes; the first {HOMES_MOST} are shown");
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
        let label = rows::directory(host, &root.label());
        // One home after the other, each on a thread that may be abandoned.
        let answer = ask(adapter, host, root.label());
        faults.extend(answer.1.iter().cloned());
        checks.push(match (answer.0, answer.1.first()) {
            (Some((live, all)), None) => Check::new(
                name,
                format!("home {label}"),
                CheckState::Ok,
                format!("{live} live, {all} sessions in all"),
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

fn ask(
    adapter: &'static dyn Adapter,
    host: &Arc<Host>,
    root: String,
) -> (Option<(usize, usize)>, Vec<Fault>) {
    let limit = host.deadlines.all.max(Duration::from_millis(1));
    let found = fleet::each_adapter(host, ALL, limit, move |asked, look| {
        let mut counts = agentctl_core::adapters::Found::default();
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

fn show(ui: &mut Ui, checks: &[Check]) -> std::io::Result<()> {
    let mut area = "";
    for check in checks {
        if check.area != area {
            if !area.is_empty() {
                ui.line("")?;
            }
            area = check.area;
            ui.line(&ui.paint(Style::new().bold(), area))?;
        }
        let (mark, style) = match check.state {
            CheckState::Ok => ("ok      ", AnsiColor::Green.on_default()),
            CheckState::Degraded => ("degraded", AnsiColor::Yellow.on_default()),
            CheckState::Absent => ("absent  ", Style::new().dimmed()),
            CheckState::Failed => ("failed  ", AnsiColor::Red.on_default()),
        };
        ui.line(&format!(
            "  {}  {}: {}",
            ui.paint(style, mark),
            one_line(&check.name),
            one_line(&check.detail)
        ))?;
        if let Some(hint) = &check.hint {
            ui.line(&format!("            {hint}"))?;
        }
    }
    ui.flush()
}

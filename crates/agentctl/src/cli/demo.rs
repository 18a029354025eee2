//! `agentctl demo`: a guided try-out with the built-in agent. No account, no key, no network.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentctl_core::adapters::demo;
use agentctl_core::ask::{AsksRequest, Fleet};
use agentctl_core::fleet::{Query, rows_of, shortened};
use agentctl_core::host::Host;
use agentctl_core::kernel::{ExitWatch, Spawn, Stdio};
use agentctl_core::model::{Locator, ProcId, Session, Status, Target};
use agentctl_core::names::{self, Subject};
use agentctl_core::native::watch::Watch;
use clap::Args;
use rustix::process::Signal;

use crate::failure::{Failure, Kind, Outcome};
use crate::session_table;
use crate::ui::Ui;

/// Start a few demo agents to try agentctl with
///
/// No account, key or network is needed. Each agent is a real process in a scratch directory, in another state:
/// working, running a tool, waiting for an answer, idle, finished, failed. Each is named like its directory. They
/// end by themselves after ten minutes.
#[derive(Args)]
pub(super) struct DemoArgs {
    /// Stop the demo agents and remove their files, nothing else
    #[arg(long)]
    clean: bool,
}

/// The name of this command.
pub(super) const COMMAND: &str = "demo";

/// Time limit for the agents to begin, and to end.
const DEMO_TIMEOUT: Duration = Duration::from_secs(30);

/// A demo agent.
struct DemoAgent {
    /// The name of its directory and of its session.
    name: &'static str,
    prompt: &'static str,
    /// It stays when its turn is over.
    stays: bool,
    /// Says whether its session is in its intended state, with every record written that belongs to it.
    is_settled: fn(&Session) -> bool,
}

const AGENTS: [DemoAgent; 6] = [
    DemoAgent {
        name: "shop",
        prompt: "Add a discount code to the checkout [[say:Reading the cart module first.]] [[delay:600]]",
        stays: false,
        is_settled: |s| s.status == Status::Running && s.tokens.is_some_and(|t| t.output > 0),
    },
    DemoAgent {
        name: "api",
        prompt: "Run the test suite [[tool:echo running 214 tests; exec sleep 600]] [[say:All green.]]",
        stays: false,
        is_settled: |s| s.reason.is_some() && s.tokens.is_some_and(|t| t.output > 0),
    },
    DemoAgent {
        name: "site",
        prompt: "Rename the brand everywhere [[ask:Also in the archived posts?]] [[say:Renamed.]]",
        stays: false,
        is_settled: |s| s.status == Status::Waiting,
    },
    DemoAgent {
        name: "notes",
        prompt: "Summarise yesterday's notes [[say:Three open points, all yours.]] ",
        stays: true,
        is_settled: |s| s.status == Status::Idle,
    },
    DemoAgent {
        name: "infra",
        prompt: "Check the backup script [[tool:ls]] [[say:It is sound.]]",
        stays: false,
        is_settled: |s| !s.status.is_live(),
    },
    DemoAgent {
        name: "mail",
        prompt: "Send the newsletter [[error:the mail server refused the login]]",
        stays: false,
        is_settled: |s| !s.status.is_live(),
    },
];

pub(super) fn cmd_demo(ui: &mut Ui, fleet: &Fleet, args: &DemoArgs) -> Outcome {
    let host = &fleet.host;
    if args.clean {
        return clean(ui, fleet);
    }
    let scratch = scratch(host);
    if ours(fleet, &scratch).iter().any(|s| s.status.is_live()) {
        ui.note("the demo is already running:");
    } else {
        host.check_home()?;
        let failed = |error| {
            let message = format!("the demo cannot write to {}: {error}", scratch.display());
            Failure::new(Kind::Failed, message)
        };
        write_scratch(&scratch).map_err(failed)?;
        start(fleet, &scratch)?;
        name_by_directory(fleet, &ours(fleet, &scratch));
    }
    let sessions = ours(fleet, &scratch);
    ui.drawn(&session_table::drawn(ui.canvas(), host, &rows_of(fleet, &sessions)))?;
    ui.flush()?;
    let find = |status| sessions.iter().find(|s| s.status == status);
    let short_id = |session: Option<&Session>| {
        let id = session.and_then(|s| s.id.as_deref()).unwrap_or("ID");
        shortened(fleet, &[id]).concat()
    };
    let word = |session: Option<&Session>| {
        session.and_then(|s| s.name.clone()).unwrap_or_else(|| short_id(session))
    };
    let (waiting, running) = (word(find(Status::Waiting)), word(find(Status::Running)));
    let asked = fleet.asks(&AsksRequest { adapter: Some("demo".into()), ..AsksRequest::default() });
    let asked = asked.ok().and_then(|document| document.asks.into_iter().next());
    let ask = asked.map_or_else(|| "ASK".to_owned(), |ask| ask.short_id().to_owned());
    let answer = format!("answer {ask} --text yes");
    ui.note("");
    ui.note("these are real processes, which end by themselves after 10 minutes; try:");
    for (command, what) in [
        ("top".to_owned(), "see and answer them on a screen"),
        ("list --all".to_owned(), "live and ended sessions"),
        (format!("why {waiting}"), "the evidence behind a status"),
        (format!("logs -f {running}"), "follow its conversation"),
        (answer, "answer its question"),
        (format!("stop {running}"), "stop it and all its processes"),
        ("launch demo -p 'Say hi [[say:hi]]'".to_owned(), "start one of your own"),
        ("demo --clean".to_owned(), "stop them and remove their files"),
    ] {
        ui.note(&format!("  agentctl {command:<36}{what}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn scratch(host: &Host) -> PathBuf {
    let home = demo::home(host);
    fs::canonicalize(&home).unwrap_or(home).join("scratch")
}

/// Returns the demo's own sessions: those with a working directory in the scratch directory.
fn ours(fleet: &Fleet, scratch: &Path) -> Vec<Session> {
    let query = Query { all: true, adapter: Some("demo".into()), ..Query::default() };
    let mut sessions = fleet.list(&query).sessions;
    sessions.retain(|s| s.cwd.as_deref().is_some_and(|c| Path::new(c).starts_with(scratch)));
    sessions
}

/// Names each session like its directory, so that the commands of the README can be typed as they are. A name that
/// another live session has stays with that session.
fn name_by_directory(fleet: &Fleet, sessions: &[Session]) {
    for session in sessions {
        let directory = session.cwd.as_deref().and_then(|cwd| cwd.rsplit('/').next());
        if let (Some(id), Some(directory)) = (&session.id, directory) {
            let _refused = fleet.name(&format!("demo:{id}"), Some(directory));
        }
    }
}

/// Creates the directories of the demo agents and their prompts.
fn write_scratch(scratch: &Path) -> std::io::Result<()> {
    for DemoAgent { name, prompt, .. } in AGENTS {
        let cwd = scratch.join(name);
        fs::create_dir_all(&cwd)?;
        fs::write(cwd.join("README"), format!("{name}: a scratch directory of `agentctl demo`\n"))?;
        fs::write(cwd.join(".prompt"), prompt)?;
    }
    Ok(())
}

/// Starts the agents one after another. Each one is in its intended state before the next begins, so that they are
/// always listed in the same order.
fn start(fleet: &Fleet, scratch: &Path) -> Result<(), Failure> {
    let host = &fleet.host;
    crate::demo::make_home(host)?;
    let home = demo::home(host);
    let (live, sessions) = (home.join("live"), home.join("sessions"));
    let watch = Watch::directories([live.as_path(), sessions.as_path()]);
    let until = Instant::now() + DEMO_TIMEOUT;
    for agent in AGENTS {
        let id = spawn(host, &agent, scratch.join(agent.name))?;
        while !is_settled(fleet, &agent, &id) && Instant::now() < until {
            if let Ok(watch) = &watch {
                let _hint = watch.wait(Duration::from_millis(200));
            }
        }
    }
    Ok(())
}

/// Starts an agent and returns the id of its session.
fn spawn(host: &Host, agent: &DemoAgent, cwd: PathBuf) -> Result<String, Failure> {
    let prompt_file = cwd.join(".prompt");
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(cwd.join(".log"))?;
    let id = uuid::Uuid::new_v4().to_string();
    let mut args = vec![demo::SUBCOMMAND, "--prompt", "-", "--session-id", &id, "--at-most", "600"];
    if agent.stays {
        args.push("--stay");
    }
    let spawn = Spawn {
        program: host.program.clone(),
        args: args.into_iter().map(Into::into).collect(),
        set: Vec::new(),
        unset: Vec::new(),
        cwd,
        stdin: Stdio::File(fs::File::open(&prompt_file)?),
        stdout: Stdio::File(log.try_clone()?),
        stderr: Stdio::File(log),
        keep: Vec::new(),
    };
    spawn.detached().map_err(|e| {
        Failure::new(Kind::Failed, format!("the demo agent cannot be started: {e}"))
    })?;
    Ok(id)
}

fn is_settled(fleet: &Fleet, agent: &DemoAgent, id: &str) -> bool {
    let Ok(found) = fleet.target(&format!("demo:{id}")) else { return false };
    fleet.inspect(&found.target).session.as_ref().is_some_and(agent.is_settled)
}

fn clean(ui: &mut Ui, fleet: &Fleet) -> Outcome {
    let host = &fleet.host;
    let scratch = scratch(host);
    let sessions = ours(fleet, &scratch);
    let processes: Vec<ProcId> = sessions.iter().flat_map(Session::process_ids).collect();
    let mut watch = ExitWatch::default();
    let mut waiting = 0;
    for process in &processes {
        // Watched before the signal, so that the exit cannot be missed.
        waiting += usize::from(watch.add(&host.kernel, process)?);
        host.kernel.signal(process, Signal::TERM)?;
    }
    let until = Instant::now() + DEMO_TIMEOUT;
    while waiting > 0 && Instant::now() < until {
        waiting -= watch.wait(Some(until.saturating_duration_since(Instant::now())))?.len();
    }
    if waiting > 0 {
        return Err(Failure::new(
            Kind::Failed,
            format!("{waiting} demo agents did not end within {} s", DEMO_TIMEOUT.as_secs()),
        )
        .hint("run `agentctl demo --clean` again"));
    }
    let mut removed = 0;
    let mut subjects = Vec::new();
    for session in &sessions {
        let (Some(id), root) = (&session.id, session.root.clone()) else { continue };
        let locator = Locator { id: id.clone(), path: None, parent: None };
        let target = Target { adapter: "demo", root, session: Some(locator), pid: None };
        if let Ok(transcript) = fleet.transcript(&target)
            && let Some(path) = transcript.path()
        {
            fs::remove_file(path)?;
            subjects.extend(Subject::of(&target));
            removed += 1;
        }
    }
    // Names without a record mean no session; the demo is removed all the same.
    let _kept = names::forget(host, &subjects);
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
        ui.note(&format!(
            "stopped {} agents, removed {removed} demo sessions and the scratch directory",
            processes.len()
        ));
    } else {
        ui.note("there is no demo to remove");
    }
    Ok(ExitCode::SUCCESS)
}

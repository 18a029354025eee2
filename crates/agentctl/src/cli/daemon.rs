//! `agentctl daemon`: starts, stops and shows the background process for events, webhooks, fuses and
//! metrics.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::os::fd::RawFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::host::Host;
use agentctl_core::kernel::{self, Liveness};
use agentctl_core::model::ProcId;
use agentctl_core::native::watch::Watch;
use clap::{Args, Subcommand};

use crate::client::{self, Client, ClientError, HELLO_TIMEOUT, Server};
use crate::config::Loaded;
use crate::daemon;
use crate::daemon::service;
use crate::face::{age, daemon_change_line};
use crate::failure::{Failure, Kind, Outcome};
use crate::place::Place;
use crate::protocol::{DaemonChange, DaemonResult, DaemonStatus, Ending, NoParams, Request};
use crate::text::one_line;
use crate::ui::Ui;

/// Time limit for a daemon to end after a shutdown request.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a status with fresh counts.
const STATUS_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval at which a log is followed if its directory cannot be watched.
const FOLLOW_PACE: Duration = Duration::from_secs(1);

/// Start, stop and inspect the background daemon
///
/// The daemon sends webhooks and notifications, fires fuses and serves metrics and `events`. All other commands
/// work the same without it. `events` and `fuse set` start it when needed.
#[derive(Args)]
pub(super) struct DaemonArgs {
    #[command(subcommand)]
    command: DaemonCommand,
}

#[derive(Subcommand)]
enum DaemonCommand {
    /// Run the daemon in the foreground
    ///
    /// Runs until it is interrupted. For service managers; `daemon start` runs it in the background.
    Run {
        /// File descriptor that is written to once the daemon is ready
        #[arg(long, hide = true, value_name = "FD")]
        ready: Option<RawFd>,
    },
    /// Start the daemon in the background
    ///
    /// Does nothing if it is running.
    Start {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Stop the daemon
    ///
    /// Agents keep running.
    Stop {
        /// Kill the daemon if it does not answer
        #[arg(long)]
        force: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show whether the daemon runs, and its state
    ///
    /// Sessions, locks and fuses it sees, deliveries of webhooks and notifications, socket and log file.
    Status {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Stop the daemon and start it again
    Restart {
        /// Kill the daemon if it does not answer
        #[arg(long)]
        force: bool,
    },
    /// Show the log of the daemon, one JSON object per line
    Logs {
        /// Number of lines
        #[arg(short = 'n', long, default_value_t = 50, value_name = "LINES")]
        lines: usize,
        /// Follow: print new lines as they are written
        #[arg(short, long)]
        follow: bool,
    },
    /// Install the daemon as a service of your user (systemd, launchd)
    Install {
        /// Print the service file instead of installing it
        #[arg(long)]
        print: bool,
    },
    /// Remove the service
    Uninstall,
}

impl DaemonArgs {
    /// Says whether it changes something.
    pub(super) fn is_order(&self) -> bool {
        use DaemonCommand::{Logs, Run, Status};
        !matches!(self.command, Run { .. } | Status { .. } | Logs { .. })
    }
}

pub(super) fn cmd_daemon(ui: &mut Ui, loaded: Loaded, args: &DaemonArgs) -> Outcome {
    let host = &Arc::clone(&loaded.host);
    let place = Place::of(host);
    let is_background = matches!(args.command, DaemonCommand::Run { ready: Some(_) });
    let starts = matches!(
        args.command,
        DaemonCommand::Run { .. }
            | DaemonCommand::Start { .. }
            | DaemonCommand::Restart { .. }
            | DaemonCommand::Install { .. }
    );
    if !is_background {
        // A person who gives this order can correct the file. `run` serves without the broken settings.
        if starts && !matches!(args.command, DaemonCommand::Run { .. }) {
            loaded.check_daemon()?;
        }
        super::warn_of_settings(ui, &loaded);
        for warning in loaded.missing_secrets().iter().filter(|_| starts) {
            ui.warn(warning);
        }
    }
    match &args.command {
        DaemonCommand::Run { ready } => run(ui, loaded, &place, *ready),
        DaemonCommand::Start { json } => {
            let change = start(ui, &loaded)?;
            report(ui, &change, *json)
        }
        DaemonCommand::Stop { force, json } => {
            let change = stop(ui, host, &place, *force)?;
            report(ui, &change, *json)
        }
        DaemonCommand::Status { json } => status(ui, host, &place, *json),
        DaemonCommand::Restart { force } => {
            let stopped = stop(ui, host, &place, *force)?;
            report(ui, &stopped, false)?;
            let started = start(ui, &loaded)?;
            report(ui, &started, false)
        }
        DaemonCommand::Logs { lines, follow } => logs(ui, &place, *lines, *follow),
        DaemonCommand::Install { print } => install(ui, host, *print),
        DaemonCommand::Uninstall => super::service::uninstall(ui, host, &service::daemon()),
    }
}

fn run(ui: &mut Ui, loaded: Loaded, place: &Place, ready: Option<RawFd>) -> Outcome {
    let failed = |error: std::io::Error| Failure::new(Kind::Failed, error.to_string());
    let ready = ready.map(kernel::inherited).transpose().map_err(failed)?.map(File::from);
    if let Err(failure) = loaded.check_sources() {
        daemon::report_refusal(ready, failure.message());
        return Err(failure);
    }
    let Some(right) = place.take().map_err(failed)? else {
        return Err(Failure::new(Kind::Refused, "the daemon is already running")
            .hint("`agentctl daemon status` shows it"));
    };
    let alone = ready.is_none();
    let serving = |trouble: Option<String>| {
        if alone {
            ui.note(&format!("serving on {}", place.socket().display()));
            warn_of_metrics(ui, trouble);
        }
    };
    daemon::run(loaded, place, &Arc::new(right), ready, serving).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn report(ui: &mut Ui, change: &DaemonChange, json: bool) -> Outcome {
    if json {
        ui.json(change)?;
    } else {
        ui.note(&daemon_change_line(change));
    }
    Ok(ExitCode::SUCCESS)
}

fn start(ui: &mut Ui, loaded: &Loaded) -> Result<DaemonChange, Failure> {
    let host = &loaded.host;
    let manager = service::daemon();
    let mut managed = false;
    if manager.file(host).is_file() && Client::connect(&Place::of(host), HELLO_TIMEOUT).is_err() {
        match service::command(host, &manager.act(host, "start")) {
            Ok(()) => managed = true,
            Err(why) => ui.warn(&format!("{why}; starting it without")),
        }
    }
    let (mut client, fresh) = client::start::ensure(host)?;
    let change = |result| DaemonChange::new(result, Some(client.welcome.pid));
    let change = match (managed, fresh) {
        (true, false) => change(DaemonResult::Started).by_service_manager(),
        (_, true) => change(DaemonResult::Started),
        (false, false) => change(DaemonResult::AlreadyRunning),
    };
    if loaded.metrics.is_some() {
        let asked = client.call(&Request::DaemonStatus(NoParams {}), STATUS_TIMEOUT);
        let trouble = match asked {
            Ok(DaemonStatus { metrics: Some(metrics), .. }) => metrics.trouble,
            Ok(_) => Some(
                "the running daemon was started without them: `agentctl daemon restart`".into(),
            ),
            Err(error) => Some(error.to_string()),
        };
        warn_of_metrics(ui, trouble);
    }
    Ok(change)
}

fn warn_of_metrics(ui: &mut Ui, trouble: Option<String>) {
    if let Some(trouble) = trouble {
        ui.warn(&format!("metrics are not served: {trouble}"));
    }
}

fn stop(
    ui: &mut Ui,
    host: &Arc<Host>,
    place: &Place,
    force: bool,
) -> Result<DaemonChange, Failure> {
    let manager = service::daemon();
    let before = client::server(host, place);
    if manager.file(host).is_file() && host.which("systemctl").is_some() {
        // Otherwise the service manager would restart it at once.
        if let Err(why) = service::command(host, &manager.act(host, "stop")) {
            ui.warn(&why);
        }
    }
    let server = client::server(host, place);
    match Client::connect(place, HELLO_TIMEOUT) {
        Err(error @ (ClientError::NotRunning | ClientError::Untrusted(_))) => {
            if let Some(warning) = error.untrusted_warning() {
                ui.warn(&warning);
            }
            return Ok(match before {
                Server::Daemon(process) => {
                    DaemonChange::new(DaemonResult::Stopped, Some(process.id.pid))
                        .by_service_manager()
                }
                Server::Unknown | Server::Other(_) => {
                    DaemonChange::new(DaemonResult::NotRunning, None)
                }
            });
        }
        Ok(mut client) => {
            let told: Result<Ending, _> =
                client.call(&Request::DaemonShutdown(NoParams {}), STOP_TIMEOUT);
            // The connection ends a moment before the process, which holds the daemon's lock until
            // then.
            let hung_up = told.is_ok() && client.is_closed_within(STOP_TIMEOUT);
            let gone = match &server {
                Server::Daemon(process) => has_gone(host, &process.id),
                Server::Unknown | Server::Other(_) => true,
            };
            if hung_up && gone {
                return Ok(DaemonChange::new(DaemonResult::Stopped, Some(client.welcome.pid)));
            }
        }
        Err(_) => {}
    }
    match server {
        Server::Daemon(process) if force => kill(host, &process.id),
        Server::Other(pid) => Err(Failure::new(
            Kind::Failed,
            format!(
                "pid {pid} listens on {} and is not an agentctl daemon",
                place.socket().display()
            ),
        )
        .hint("it was not stopped; stop it yourself, then `agentctl daemon start`")),
        Server::Unknown if force => Err(Failure::new(
            Kind::Failed,
            "the daemon does not answer, and its process is unknown",
        )
        .hint("nothing was killed; stop the process that holds the socket, then `agentctl daemon start`")),
        Server::Daemon(_) | Server::Unknown => {
            Err(Failure::new(Kind::Failed, "the daemon does not answer")
                .hint("`--force` kills it; no agent is touched"))
        }
    }
}

/// Kills a daemon that does not exit by itself.
fn kill(host: &Host, process: &ProcId) -> Result<DaemonChange, Failure> {
    let killed = host.kernel.signal(process, rustix::process::Signal::KILL);
    if killed.is_err() || !has_gone(host, process) {
        let message = format!("pid {} could not be killed", process.pid);
        return Err(Failure::new(Kind::Failed, message));
    }
    Ok(DaemonChange::new(DaemonResult::Killed, Some(process.pid)))
}

/// Waits for the exit of a process, up to the limit; says whether it has exited.
fn has_gone(host: &Host, process: &ProcId) -> bool {
    let mut watch = kernel::ExitWatch::default();
    if matches!(watch.add(&host.kernel, process), Ok(true)) {
        let _ended = watch.wait(Some(STOP_TIMEOUT));
    }
    host.kernel.liveness(process) == Liveness::Gone
}

fn status(ui: &mut Ui, host: &Arc<Host>, place: &Place, json: bool) -> Outcome {
    let asked = Client::connect(place, HELLO_TIMEOUT).and_then(|mut client| {
        let status = client.call(&Request::DaemonStatus(NoParams {}), STATUS_TIMEOUT);
        Ok((status?, client.welcome.fingerprint == client::fingerprint(host)))
    });
    let status = match asked {
        Ok((mut status, same)) => {
            let status: &mut DaemonStatus = &mut status;
            status.same_world = Some(same);
            status.clone()
        }
        Err(error @ (ClientError::NotRunning | ClientError::Untrusted(_))) => {
            if let Some(warning) = error.untrusted_warning() {
                ui.warn(&warning);
            }
            let (socket, log) = (place.socket(), place.log());
            DaemonStatus::absent(socket.display().to_string(), log.display().to_string())
        }
        Err(error) => return Err(client::start::unasked(&error)),
    };
    if json {
        ui.json(&status)?;
    } else {
        for line in lines(host, &status) {
            ui.line(&line)?;
        }
    }
    if !status.running {
        return Ok(ExitCode::from(Kind::Failed.exit_code()));
    }
    Ok(super::answered(ui, &status.faults))
}

/// Returns the lines of `daemon status` for people. Every text of the daemon is cleaned and put on one
/// line.
fn lines(host: &Host, status: &DaemonStatus) -> Vec<String> {
    let (Some(pid), Some(since)) = (status.pid, status.since) else {
        return vec!["not running; `events` and fuses start it when they need it".into()];
    };
    let version = one_line(status.version.as_deref().unwrap_or("-"));
    let mut lines =
        vec![format!("running   pid {pid}, for {}, version {version}", age(host.now(), since))];
    let counts = status.sessions.iter().flatten();
    let counts: Vec<String> =
        counts.map(|(word, count)| format!("{count} {}", one_line(word))).collect();
    let counts = if counts.is_empty() { "none alive".to_owned() } else { counts.join(", ") };
    lines.push(format!("sessions  {counts}"));
    let number = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |n| n.to_string());
    lines.push(format!(
        "locks     {}, fuses {}, listening {}",
        number(status.locks),
        number(status.fuses),
        number(status.subscribers)
    ));
    lines.push(format!("socket    {}", one_line(&status.socket)));
    lines.push(format!("log       {}", one_line(&status.log)));
    if let Some(metrics) = &status.metrics {
        lines.push(match &metrics.trouble {
            Some(trouble) => format!("metrics   not served: {}", one_line(trouble)),
            None => {
                format!("metrics   {}, token: {}", one_line(&metrics.url), one_line(&metrics.token))
            }
        });
    }
    if let Some(notify) = &status.notify {
        let last = notify.last_error.as_ref().map(|why| format!("; last: {}", one_line(why)));
        lines.push(format!(
            "notify    {} shown, {} failed, {} dropped{}",
            notify.shown,
            notify.failed,
            notify.dropped,
            last.unwrap_or_default()
        ));
    }
    for hook in &status.webhooks {
        let last = hook.last_error.as_deref().filter(|_| hook.last_error_at > hook.last_success_at);
        let last = last.map(|why| format!("; {}", one_line(why))).unwrap_or_default();
        lines.push(format!(
            "webhook   {}: {} delivered, {} queued, {} failed, {} dropped{last}",
            one_line(&hook.name),
            hook.delivered,
            hook.queued,
            hook.failed,
            hook.dropped
        ));
    }
    if let Some(trouble) = &status.trouble {
        lines.push(format!("trouble   {}", one_line(trouble)));
    }
    if status.same_world == Some(false) {
        lines.push(
            "settings  its homes, settings or program differ from those of this command: `agentctl daemon restart`"
                .into(),
        );
    }
    lines
}

fn logs(ui: &mut Ui, place: &Place, lines: usize, follow: bool) -> Outcome {
    let Some(mut file) = place.open_log()? else {
        return Err(Failure::new(Kind::Failed, "there is no log: no daemon has run yet")
            .hint("`agentctl daemon start` starts one"));
    };
    let mut last = std::collections::VecDeque::new();
    for line in BufReader::new(&file).lines() {
        if last.len() == lines {
            last.pop_front();
        }
        last.push_back(line?);
    }
    for line in last.iter().take(lines) {
        ui.line(&crate::text::clean(line))?;
    }
    ui.flush()?;
    if !follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        file = more(ui, place, file)?;
        ui.flush()?;
    }
}

/// Shows the lines that were added, after waiting for them.
fn more(ui: &mut Ui, place: &Place, mut file: File) -> Result<File, Failure> {
    use std::os::unix::fs::MetadataExt;
    let path = &place.log();
    let watch = Watch::directories(path.parent());
    let at = file.stream_position()?;
    // The log may have been rotated.
    let there = std::fs::metadata(path);
    let replaced = there.is_ok_and(|there| file.metadata().is_ok_and(|m| m.ino() != there.ino()));
    if file.metadata()?.len() <= at {
        if replaced {
            return Ok(place.open_log()?.unwrap_or(file));
        }
        match watch {
            Ok(watch) => drop(watch.wait(FOLLOW_PACE)),
            Err(_) => std::thread::park_timeout(FOLLOW_PACE),
        }
        return Ok(file);
    }
    let mut reader = BufReader::new(&file);
    let mut line = String::new();
    let mut read = at;
    while reader.read_line(&mut line)? > 0 && line.ends_with('\n') {
        ui.line(&crate::text::clean(line.trim_end()))?;
        read += line.len() as u64;
        line.clear();
    }
    file.seek(SeekFrom::Start(read))?;
    Ok(file)
}

fn install(ui: &mut Ui, host: &Arc<Host>, print: bool) -> Outcome {
    let service = service::daemon();
    if print {
        return super::service::print(ui, host, &service);
    }
    super::service::write(host, &service)?;
    // A daemon that runs without the service manager would block the new one.
    if Client::connect(&Place::of(host), HELLO_TIMEOUT).is_ok() {
        stop_quietly(host);
    }
    super::service::enable(ui, host, &service, "`agentctl daemon start`")
}

fn stop_quietly(host: &Arc<Host>) {
    if let Ok(mut client) = Client::connect(&Place::of(host), HELLO_TIMEOUT) {
        let _told: Result<Ending, _> =
            client.call(&Request::DaemonShutdown(NoParams {}), STOP_TIMEOUT);
        let _ended = client.is_closed_within(STOP_TIMEOUT);
    }
}

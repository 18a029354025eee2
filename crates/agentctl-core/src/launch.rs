//! Launching an agent: lock the directory, start a shim, let the shim start the agent, and learn the
//! session id from the agent's first output.
//!
//! Returns only after the agent has reported its session id; if it does not, everything that was started is
//! ended. If the launcher or the shim is killed on the way, the agent either continues or was never
//! started: it has a kernel session of its own, its prompt is a file and so is its output. No agent is
//! named here.

mod arrival;
mod brakes;
pub mod context;
mod continuing;
mod error;
mod first_output;
pub mod matrix;
mod prepare;
mod private_server;
mod remote;
pub mod slots;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::arrival::Arrival;
use self::brakes::Braked;
pub(crate) use self::brakes::check as check_brakes;
pub use self::continuing::check_continuable;
use self::continuing::{in_known_home, unserved};
pub use self::error::LaunchError;
use self::first_output::FirstOutputWait;
pub use self::private_server::attend_server;
use crate::adapters::Adapter;
use crate::adapters::control::{Begin, Control, Order, Refusal, Start};
use crate::fleet::{Adapters, Fleet};
use crate::host::Host;
use crate::kernel::{Cancellation, Spawn, Stdio};
use crate::locks::{self, Holder, Occupancy};
use crate::marks::{self, AGENT_ENV, LAUNCHED_BY, MARKER, SHIM};
use crate::model::{Callback, Fault, ProcId, Target};
use crate::native::private;
use crate::runs::{Attendance, Run, Runs, ServerStay, Spec};
use crate::stop;

/// Longest message to an existing session. A line of a record is read up to 8 MiB, and JSON escapes may
/// double the size of a message in it.
const MAX_MESSAGE_BYTES: usize = 3 << 20;
/// Timeout for the directory's lock with `force`; after it the launch continues without the lock.
const FORCED_LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The changes of the agent's environment, as passed to the shim.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct AgentEnv {
    /// Variables set.
    pub set: Vec<(String, String)>,
    /// Variables removed.
    pub unset: Vec<String>,
}

/// A request to launch an agent.
pub struct LaunchOrder {
    /// The agent.
    pub adapter: &'static dyn Adapter,
    /// The directory, model, permissions and kind of start.
    pub order: Order,
    /// The prompt.
    pub prompt: Vec<u8>,
    /// The group it belongs to.
    pub group: Option<String>,
    /// Variables set for the agent.
    pub env: Vec<(String, String)>,
    /// The hook that is run after the agent has ended.
    pub on_complete: Option<Vec<String>>,
    /// The receiver of the launch's end.
    pub callback: Option<Callback>,
    /// The commit that the agent's work is compared with, if it works in a worktree that was made for it.
    pub base: Option<String>,
    /// Whether the agent asks and stays, for the record of the run.
    pub attendance: Attendance,
    /// Launch even if the directory is occupied.
    pub force: bool,
    /// The session that is continued or forked.
    pub from: Option<Target>,
    /// Calls the launch off until the agent has told its session id; `None` if it cannot be called off.
    pub cancellation: Option<Cancellation>,
}

/// A session that was started.
#[derive(Debug)]
pub struct StartedLaunch {
    /// The run; `None` when a remote server started the session, which leaves no run on this machine.
    pub run: Option<Run>,
    /// The agent's own session id.
    pub session: String,
    /// The agent's process; `None` if the shim died before it could record it.
    pub process: Option<ProcId>,
    /// Occupants of the directory that did not prevent the launch, because they are ancestors of this
    /// process.
    pub exempt: Vec<Holder>,
    /// The sources that failed during the launch.
    pub faults: Vec<Fault>,
}

fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> LaunchError {
    move |source| LaunchError::Io { what, source }
}

/// Starts an agent and returns once it has told its session id.
pub fn launch(fleet: &Fleet, mut launch: LaunchOrder) -> Result<StartedLaunch, LaunchError> {
    let agent = launch.adapter.name();
    let control = launch.adapter.control().ok_or_else(|| {
        Refusal::new(format!("{agent} cannot be launched from here"), "see `agentctl adapters`")
    })?;
    if launch.from.is_some() && launch.prompt.len() > MAX_MESSAGE_BYTES {
        let why = "the message is too long to be found again in the session's record";
        return Err(Refusal::new(why, "put long text in a file and name the file").into());
    }
    check_prompt(launch.adapter, &launch.prompt)?;
    if let Some(from) = &launch.from {
        in_known_home(fleet, from)?;
    }
    let braked = brakes::of_this_process(fleet)?;
    if let Some(remote) = control.remote() {
        return remote::launch(fleet, remote, &launch);
    }
    fleet.host.check_home().map_err(io("nothing was launched"))?;
    launch.order.cwd = directory(&launch.order.cwd)?;
    let start = control.start(&fleet.host, &launch.order)?;
    let entries = enter(&fleet.host, &launch)?;
    let (exempt, faults) = check(fleet, &launch)?;
    let arrival = launch.from.as_ref().filter(|_| !matches!(launch.order.begin, Begin::New));
    let arrival = arrival.map(|from| match launch.order.begin {
        Begin::Resume(_) => Arrival::expected(fleet, from),
        _ => Arrival::unwritten(),
    });
    let mark = braked.as_ref().map(|braked| braked.mark.to_string());
    let spec = Spec { launched_by: mark.clone(), ..spec(&fleet.host, &launch, &start) };
    if spec.server.is_some() {
        let made = private::directory(&fleet.host.runtime());
        made.map_err(io("the folder of the server's socket cannot be made"))?;
    }
    let counted = braked.as_ref().map(|braked: &Braked| braked.enter(&fleet.host)).transpose()?;
    let runs = Runs::of(&fleet.host);
    let (run, _launching) =
        runs.create(&spec, &launch.prompt).map_err(io("the run's folder cannot be created"))?;
    let outer = around_us(fleet.adapters);
    let starting = Starting { launch: &launch, control, start: &start, outer, mark };
    prepare::run(&fleet.host, &starting, &run)?;
    if launch.is_called_off() {
        let _left = run.remove();
        return Err(LaunchError::NotBegun { agent: launch.adapter.name() });
    }
    let shim = spawn_shim(&fleet.host, &run, &starting, entries)
        .map_err(io("the agent's parent cannot be started"))?;
    let mut waiting = FirstOutputWait { fleet, run: &run, shim, control, launch: &launch };
    if let Some(Err(error)) = braked.as_ref().map(|braked| braked.check_children(&fleet.host, 0)) {
        // Launches that use another runtime directory hold another lock.
        waiting.until_exec();
        stop::end_run(fleet, &run.id);
        return Err(error);
    }
    // The shim runs: the next launch counts it.
    drop(counted);
    let server = control.private_server().filter(|_| launch.order.is_attended());
    let up = match server {
        Some(server) => waiting.for_server(server),
        None => waiting.for_session_id(),
    };
    let up = up.and_then(|(session, process)| {
        run.write_session(&session).map_err(io("the run's session cannot be written"))?;
        if let Some(arrival) = arrival {
            waiting.for_arrival(arrival, &session)?;
        }
        Ok((session, process))
    });
    match up {
        Ok((session, process)) => {
            Ok(StartedLaunch { run: Some(run), session, process, exempt, faults })
        }
        Err(error) => {
            // End every process of the launch; the agent's output stays in the run's folder.
            waiting.until_exec();
            stop::end_run(fleet, &run.id);
            Err(error)
        }
    }
}

/// Checks that the agent reads all of a prompt.
pub(crate) fn check_prompt(adapter: &dyn Adapter, prompt: &[u8]) -> Result<(), LaunchError> {
    let Some(most) = adapter.control().and_then(Control::longest_prompt) else { return Ok(()) };
    let characters = String::from_utf8_lossy(prompt).chars().count();
    if characters <= most {
        return Ok(());
    }
    let why = format!("the prompt has {characters} characters; {} reads {most}", adapter.name());
    let hint = "put long text in a file and name the file in the prompt";
    Err(Refusal::new(why, hint).into())
}

/// Takes the locks of a launch: that of its directory, and for a resume also the one that serializes all
/// resumes.
fn enter(host: &Host, launch: &LaunchOrder) -> Result<Vec<OwnedFd>, LaunchError> {
    let cwd = &launch.order.cwd;
    let failed = |error| match error {
        locks::EnterError::Busy => {
            LaunchError::Busy { directory: cwd.clone(), by: locks::who_is_in(host, cwd) }
        }
        locks::EnterError::Io(source) => {
            LaunchError::Io { what: "the lock of the directory cannot be taken", source }
        }
    };
    let mut entries = Vec::new();
    if matches!(launch.order.begin, Begin::Resume(_)) {
        let entry = locks::enter_resuming(host, host.deadlines.launch).map_err(failed)?;
        entries.extend(entry.into_fds());
    }
    let limit = if launch.force { FORCED_LOCK_TIMEOUT } else { host.deadlines.launch };
    match locks::enter(host, cwd, limit) {
        Ok(entry) => entries.extend(entry.into_fds()),
        // With `force` the launch continues without the lock, for whatever reason it is missing.
        Err(_) if launch.force => {}
        Err(error) => return Err(failed(error)),
    }
    Ok(entries)
}

/// Returns the canonical path of an existing directory.
pub(crate) fn directory(path: &Path) -> Result<PathBuf, LaunchError> {
    let missing = |why: &str| {
        let why = format!("is not a directory: {why}");
        LaunchError::Directory { path: path.to_owned(), why }
    };
    let real = std::fs::canonicalize(path).map_err(|e| unusable(path, &e))?;
    if !real.is_dir() {
        return Err(missing("it is a file"));
    }
    if real.to_str().is_none() {
        return Err(missing("its name is not UTF-8"));
    }
    // A directory that cannot be entered is an error here, not in the agent.
    std::fs::metadata(real.join(".")).map_err(|e| unusable(path, &e))?;
    Ok(real)
}

/// Says why a directory cannot be used: one that exists and may not be entered is still a directory.
fn unusable(path: &Path, error: &std::io::Error) -> LaunchError {
    let why = match error.kind() {
        std::io::ErrorKind::PermissionDenied => format!("cannot be entered: {error}"),
        _ => format!("is not a directory: {error}"),
    };
    LaunchError::Directory { path: path.to_owned(), why }
}

/// Checks that the directory is free. The directory's lock is held, so no other launch can occupy it
/// meanwhile.
fn check(fleet: &Fleet, launch: &LaunchOrder) -> Result<(Vec<Holder>, Vec<Fault>), LaunchError> {
    if let (Begin::Resume(id), Some(from)) = (&launch.order.begin, &launch.from) {
        unserved(fleet, (id, from), launch.force)?;
    }
    if launch.force {
        return Ok((Vec::new(), Vec::new()));
    }
    let directory = &launch.order.cwd;
    let mut found = locks::occupancy(fleet, directory);
    if let Begin::Fork(from) = &launch.order.begin {
        // A fork of a running session is meant to work beside it.
        found.holders.retain(|h| h.session.as_ref() != Some(from));
    }
    check_occupancy(directory, found)
}

/// Checks that the directory was free at this moment. A launch checks again under the directory's lock.
pub(crate) fn check_free(fleet: &Fleet, directory: &Path) -> Result<(), LaunchError> {
    check_occupancy(directory, locks::occupancy(fleet, directory)).map(drop)
}

/// Returns the occupants that do not prevent a launch, and the faults.
fn check_occupancy(
    directory: &Path,
    found: Occupancy,
) -> Result<(Vec<Holder>, Vec<Fault>), LaunchError> {
    let directory = directory.to_owned();
    if !found.holders.is_empty() {
        return Err(LaunchError::Held { directory, holders: found.holders });
    }
    if !found.unsure.is_empty() {
        return Err(LaunchError::Unsure { directory, faults: found.unsure });
    }
    Ok((found.exempt, found.faults))
}

fn spec(host: &Host, launch: &LaunchOrder, start: &Start) -> Spec {
    let order = &launch.order;
    Spec {
        run: uuid::Uuid::now_v7().to_string(),
        adapter: launch.adapter.name().to_owned(),
        begin: order.begin.clone(),
        session: start.id.clone(),
        cwd: order.cwd.clone(),
        model: order.model.clone(),
        name: order.name.clone(),
        group: launch.group.clone(),
        permissions: order.permissions,
        env: launch.env.iter().map(|(name, _)| name.clone()).collect(),
        on_complete: launch.on_complete.clone(),
        callback: launch.callback.clone(),
        base: launch.base.clone(),
        server: server_stay(launch),
        attendance: launch.attendance,
        launched_by: None,
        announce: true,
        at: host.now(),
    }
}

/// Returns how long the server of this launch stays; `None` if the agent itself carries the order out.
fn server_stay(launch: &LaunchOrder) -> Option<ServerStay> {
    let order = &launch.order;
    launch.adapter.control()?.private_server().filter(|_| order.is_attended())?;
    Some(if order.keep { ServerStay::Kept } else { ServerStay::UntilIdle })
}

/// A launch with the command that starts the agent.
struct Starting<'a> {
    launch: &'a LaunchOrder,
    control: &'a dyn Control,
    start: &'a Start,
    /// Variables of the agent that this program runs inside of: see [`around_us`].
    outer: Vec<String>,
    /// The mark of a launch from below an agent.
    mark: Option<String>,
}

impl Starting<'_> {
    /// Returns the variables that are added to the agent's environment.
    fn set(&self) -> Vec<(OsString, OsString)> {
        let set = self.start.set.iter().chain(&self.launch.env);
        set.map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Returns the variables that are removed from the agent's environment.
    fn unset(&self) -> Vec<String> {
        self.outer.iter().chain(&self.start.unset).cloned().collect()
    }
}

/// Returns the variables that agents set for their tools. They are removed from the environment of a
/// started agent, so that it is not taken for a tool of the agent that runs this command.
#[must_use]
pub fn around_us(adapters: Adapters) -> Vec<String> {
    let controls = adapters.iter().filter_map(|a| a.control());
    let theirs = controls.flat_map(Control::own_variables).map(ToString::to_string);
    [MARKER, LAUNCHED_BY].map(str::to_owned).into_iter().chain(theirs).collect()
}

/// Starts the shim, the agent's parent. It inherits the locks and passes them on to the agent's starter.
fn spawn_shim(
    host: &Host,
    run: &Run,
    starting: &Starting<'_>,
    mutexes: Vec<OwnedFd>,
) -> std::io::Result<Child> {
    let Starting { launch, start, .. } = *starting;
    let numbers: Vec<String> = mutexes.iter().map(|fd| fd.as_raw_fd().to_string()).collect();
    let mut args: Vec<OsString> = vec![
        SHIM.into(),
        run.directory.clone().into(),
        numbers.join(",").into(),
        start.program.clone().into(),
    ];
    args.extend(start.args.iter().cloned());
    // The mark stands last: no variable of the request replaces it.
    let mark = starting.mark.clone().map(|mark| (LAUNCHED_BY.to_owned(), mark));
    let env = AgentEnv {
        set: start.set.iter().chain(&launch.env).chain(&mark).cloned().collect(),
        unset: start.unset.clone(),
    };
    let mut set: Vec<(OsString, OsString)> =
        vec![(AGENT_ENV.into(), serde_json::to_string(&env)?.into())];
    set.extend(mark.map(|(name, value)| (name.into(), value.into())));
    // The shim runs in another directory, so a relative path is made absolute.
    let config = host.var(marks::CONFIG).map(|path| host.cwd.join(path));
    set.extend(config.map(|path| (marks::CONFIG.into(), path.into_os_string())));
    Spawn {
        program: host.program.clone(),
        args,
        set,
        unset: starting.outer.clone(),
        cwd: launch.order.cwd.clone(),
        stdin: Stdio::Null,
        stdout: Stdio::Null,
        stderr: Stdio::Null,
        keep: mutexes,
    }
    .detached()
}

/// Opens a run's output file for its agent, for appending.
pub fn output(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_may_not_be_entered_is_not_called_a_file() {
        let said = |kind: std::io::ErrorKind| unusable(Path::new("/d"), &kind.into()).to_string();
        let denied = said(std::io::ErrorKind::PermissionDenied);
        assert!(denied.starts_with("/d cannot be entered: "), "{denied}");
        assert!(!denied.contains("is not a directory"), "{denied}");
        let missing = said(std::io::ErrorKind::NotFound);
        assert!(missing.starts_with("/d is not a directory: "), "{missing}");
    }
}

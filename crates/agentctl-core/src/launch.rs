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
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::arrival::Arrival;
use self::brakes::Braked;
pub(crate) use self::brakes::check as check_brakes;
pub use self::continuing::check_continuable;
use self::continuing::{in_known_home, unserved};
pub use self::error::LaunchError;
pub use self::private_server::attend_server;
use crate::adapters::Adapter;
use crate::adapters::control::{Begin, Control, FirstWords, Handshake, Order, Refusal, Start};
use crate::fleet::{self, Adapters, Fleet, Query};
use crate::host::Host;
use crate::kernel::{Spawn, Stdio};
use crate::locks::{self, Holder};
use crate::marks::{self, AGENT_ENV, LAUNCHED_BY, MARKER, SHIM};
use crate::model::{Callback, Exit, Fault, Locator, ProcId, Target, is_session_id};
use crate::native::private;
use crate::runs::{self, FIRST_OUTPUT_BYTES, Run, Runs, ServerStay, Spec};
use crate::stop;

/// Longest message to an existing session. A line of a record is read up to 8 MiB, and JSON escapes may
/// double the size of a message in it.
const MAX_MESSAGE_BYTES: usize = 3 << 20;
/// Timeout for the directory's lock with `force`; after it the launch continues without the lock.
const FORCED_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for the exec of the agent while a failed launch is cleaned up.
const EXEC_TIMEOUT: Duration = Duration::from_secs(30);
/// After this time without output, the agent's live records are searched for its session too.
const SILENCE_BEFORE_LOOKUP: Duration = Duration::from_secs(1);
/// Further time for the output of an agent that has a live record but has printed nothing.
const REGISTERED_GRACE: Duration = Duration::from_secs(3);
/// Longest extra time to wait for a refusal after the agent told its session id. A later failure shows in
/// the session's status.
const LONGEST_REFUSAL_GRACE: Duration = Duration::from_secs(5);
/// Longest excerpt of the agent's last output in a message.
const LAST_OUTPUT_CHARS: usize = 400;

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
    /// Launch even if the directory is occupied.
    pub force: bool,
    /// The session that is continued or forked.
    pub from: Option<Target>,
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
    if let Some(most) = control.longest_prompt() {
        let characters = String::from_utf8_lossy(&launch.prompt).chars().count();
        if characters > most {
            let why = format!("the prompt has {characters} characters; {agent} reads {most}");
            let hint = "put long text in a file and name the file in the prompt";
            return Err(Refusal::new(why, hint).into());
        }
    }
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
    let directory = launch.order.cwd.clone();
    let mut found = locks::occupancy(fleet, &directory);
    if let Begin::Fork(from) = &launch.order.begin {
        // A fork of a running session is meant to work beside it.
        found.holders.retain(|h| h.session.as_ref() != Some(from));
    }
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

/// The agent has ended; its exit is unknown if the shim died first.
struct AgentEnd(Option<Exit>);

/// A launcher that waits for its agent's first output.
struct FirstOutputWait<'a> {
    fleet: &'a Fleet,
    run: &'a Run,
    shim: Child,
    control: &'a dyn Control,
    launch: &'a LaunchOrder,
}

impl FirstOutputWait<'_> {
    fn for_session_id(&mut self) -> Result<(String, Option<ProcId>), LaunchError> {
        let limit = self.fleet.host.deadlines.launch;
        let began = Instant::now();
        let until = began + limit;
        // The session id, when it was told, and how long to wait for a refusal after that.
        let mut nearly: Option<(String, Instant, Duration)> = None;
        loop {
            // Check for its end before reading its output, so that after an end the output is complete.
            let over = self.over();
            let first = self.first_output();
            let words = FirstWords { stdout: &first.0, stderr: &first.1 };
            match self.control.handshake(&self.fleet.host, &self.launch.order, &words) {
                Handshake::Up(id) if is_session_id(&id) => return Ok((id, self.process())),
                Handshake::Failed(words) => {
                    let agent = self.launch.adapter.name();
                    let advice = self.control.advice(&words);
                    return Err(LaunchError::Failed { agent, words, advice });
                }
                Handshake::Nearly(id, grace) if is_session_id(&id) => {
                    // A different grace period starts anew.
                    let since = match nearly {
                        Some((_, since, before)) if before == grace => since,
                        _ => Instant::now(),
                    };
                    nearly = Some((id, since, grace));
                }
                _ => {}
            }
            if let Some(AgentEnd(exit)) = over {
                // The agent has told its session id and finished its work already.
                if let (Some((id, ..)), Some(Exit { code: Some(0), .. })) = (&nearly, exit) {
                    return Ok((id.clone(), self.process()));
                }
                return Err(self.died(exit, &first));
            }
            let now = Instant::now();
            if nearly.is_none()
                && now > began + SILENCE_BEFORE_LOOKUP
                && let Some(id) = self.registered()
            {
                nearly = Some((id, now, REGISTERED_GRACE));
            }
            if let Some((id, since, grace)) = &nearly
                && now >= *since + refusal_grace(*since - began, *grace)
            {
                return Ok((id.clone(), self.process()));
            }
            if now >= until {
                let words = last_output(&first.0, &first.1);
                let agent = self.launch.adapter.name();
                return Err(LaunchError::Silent { agent, limit, words });
            }
            let next = nearly.as_ref().map_or(until, |(_, since, grace)| {
                until.min(*since + refusal_grace(*since - began, *grace))
            });
            short_pause(began, next.saturating_duration_since(now));
        }
    }

    /// Returns the session of the agent's process by its live record. Some agents write that long before
    /// their first output.
    fn registered(&self) -> Option<String> {
        let process = self.process()?;
        let adapter = Some(self.launch.adapter.name().to_owned());
        let query = Query { adapter, ..Query::default() };
        let living = fleet::list(self.fleet, &query).sessions;
        let found = living.into_iter().find(|s| s.is_served_by(&process))?;
        found.id.clone().filter(|_| self.control.is_up(&found))
    }

    /// Waits until the session's record contains the message.
    fn for_arrival(&mut self, arrival: Arrival, session: &str) -> Result<(), LaunchError> {
        let Some(from) = &self.launch.from else { return Ok(()) };
        let message = String::from_utf8_lossy(&self.launch.prompt).into_owned();
        let mut target = from.clone();
        if target.session.as_ref().is_none_or(|l| l.id != session) {
            target.session = Some(Locator { id: session.to_owned(), path: None, parent: None });
        }
        let fleet = self.fleet;
        if arrival.wait(fleet, &target, &message, || self.over().is_some()) {
            return Ok(());
        }
        let (stdout, stderr) = self.first_output();
        let words = last_output(&stdout, &stderr);
        let advice = self.control.advice(&words);
        let (agent, session) = (self.launch.adapter.name(), session.to_owned());
        Err(LaunchError::Unheard { agent, session, words, advice })
    }

    fn first_output(&self) -> (Vec<u8>, Vec<u8>) {
        let read = |path: PathBuf| runs::beginning(&path, FIRST_OUTPUT_BYTES);
        (read(self.run.stdout()), read(self.run.stderr()))
    }

    fn process(&self) -> Option<ProcId> {
        self.run.started().map(|s| s.process)
    }

    /// Returns how the agent ended, if it has: as the shim recorded it, or unknown if neither the shim nor
    /// the agent is alive.
    fn over(&mut self) -> Option<AgentEnd> {
        if let Some(ended) = self.run.ended() {
            return Some(AgentEnd(Some(ended.exit)));
        }
        let shim_is_gone = matches!(self.shim.try_wait(), Ok(Some(_)));
        if !shim_is_gone {
            return None;
        }
        // The shim may have written it between the two checks.
        if let Some(ended) = self.run.ended() {
            return Some(AgentEnd(Some(ended.exit)));
        }
        // The starter process may have outlived the shim. It holds the directory's lock until it execs the
        // agent, so if the lock is free, no starter is left.
        let entry = locks::enter(&self.fleet.host, &self.launch.order.cwd, Duration::ZERO);
        if matches!(entry, Err(locks::EnterError::Busy)) {
            return None;
        }
        let lives = runs::agents(&self.fleet.host).any(|(_, marker)| marker.run == self.run.id);
        (!lives).then_some(AgentEnd(None))
    }

    /// Before the cleanup of a failed launch, waits until the child has exec'd the agent and carries the
    /// run's marker, or is certain never to. A child that execs after the cleanup would survive it.
    fn until_exec(&mut self) {
        let began = Instant::now();
        let marked = || runs::agents(&self.fleet.host).any(|(_, marker)| marker.run == self.run.id);
        while !marked() && self.over().is_none() && began.elapsed() < EXEC_TIMEOUT {
            short_pause(began, EXEC_TIMEOUT);
        }
    }

    fn died(&self, exit: Option<Exit>, first: &(Vec<u8>, Vec<u8>)) -> LaunchError {
        let words = last_output(&first.0, &first.1);
        let advice = self.control.advice(&words);
        LaunchError::Died { agent: self.launch.adapter.name(), exit, words, advice }
    }
}

/// Returns how long to wait for a refusal after the agent told its id. On a busy machine the first output
/// took longer, and so will the next.
fn refusal_grace(took: Duration, grace: Duration) -> Duration {
    grace.max((took / 4).min(LONGEST_REFUSAL_GRACE))
}

/// Sleeps for a moment. Polling two files costs microseconds; removing a file watch would cost more than
/// the agent's own start.
fn short_pause(began: Instant, left: Duration) {
    let pace = if began.elapsed() < SILENCE_BEFORE_LOOKUP { 1 } else { 10 };
    std::thread::park_timeout(left.min(Duration::from_millis(pace)));
}

/// Returns the agent's last output on one line: from stderr, or else from stdout.
fn last_output(stdout: &[u8], stderr: &[u8]) -> String {
    let said = [stderr, stdout].into_iter().map(String::from_utf8_lossy);
    let Some(said) = said.into_iter().find(|s| !s.trim().is_empty()) else {
        return "no output".into();
    };
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" · ");
    crate::model::shorten(&last, LAST_OUTPUT_CHARS)
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
    fn a_slow_agent_gets_a_longer_grace() {
        let (ms, grace) = (Duration::from_millis, Duration::from_millis(500));
        assert_eq!(refusal_grace(ms(900), grace), grace, "an ordinary start changes nothing");
        assert_eq!(refusal_grace(ms(8_000), grace), ms(2_000));
        assert_eq!(refusal_grace(ms(60_000), grace), LONGEST_REFUSAL_GRACE);
        assert_eq!(
            refusal_grace(ms(60_000), 2 * LONGEST_REFUSAL_GRACE),
            2 * LONGEST_REFUSAL_GRACE,
            "never less"
        );
    }

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

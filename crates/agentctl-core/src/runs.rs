//! The folder of each launch: `runs/<run-id>/` with its spec, the agent's output and how it ended.
//!
//! A run never says whether a process is alive, and no status comes from here. `spec.json` is what was
//! asked for, `started.json` which processes were started, `session.json` which session the agent told us,
//! `exit.json` how the shim saw it end, `ended-by.json` which order of ours ended it. Deleting the folder loses only these facts of the launch. Every
//! file is written to a temporary name and renamed; only this user can read it. The launcher holds a lock
//! on the folder until it has written the session.

mod hook_report;

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::hook_report::{HookMoment, HookReport};
use crate::adapters::control::{Begin, Permissions};
use crate::host::Host;
use crate::kernel::{Kernel, Liveness, Process};
use crate::marks::{self, LaunchMark, Marker};
use crate::model::{Callback, EndedBy, Exit, LaunchedBy, ProcId, Session, Time, is_session_id};
use crate::native::file::{Skip, read_small};
use crate::native::private;

/// Limit of the agent's first output that is read.
pub const FIRST_OUTPUT_BYTES: u64 = 1 << 20;

/// Returns the live agents that were launched from here, each with its marker. Any process can write a
/// marker into its own environment, so if the run's folder names its agent process, only that process
/// counts.
pub fn agents(host: &Host) -> impl Iterator<Item = (Process, Marker)> {
    let table = host.kernel.table(Instant::now() + host.deadlines.all, |_| true);
    // One deadline for all processes, so that several that never finish an exec do not add up.
    let until = marks::forming_deadline();
    let marker = move |p: Process| marks::marker_until(host, &p, until).map(|m| (p, m));
    let runs = Runs::of(host);
    table.processes.into_iter().filter_map(marker).filter(move |(process, marker)| {
        let started = || runs.run(&marker.run).started();
        marker.names(&process.id) && started().is_none_or(|s| s.process == process.id)
    })
}

/// The request of a launch (`spec.json`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The run's id.
    pub run: String,
    /// The adapter.
    pub adapter: String,
    /// New, resumed or forked.
    pub begin: Begin,
    /// The session id, if it was known before the agent started.
    pub session: Option<String>,
    /// The agent's directory.
    pub cwd: PathBuf,
    /// The model asked for.
    pub model: Option<String>,
    /// The name given.
    pub name: Option<String>,
    /// The group given.
    pub group: Option<String>,
    /// The permissions that it was given.
    pub permissions: Permissions,
    /// The names of the variables that were set; their values are not stored, since they may be secrets.
    pub env: Vec<String>,
    /// The hook that is run after the agent has ended.
    pub on_complete: Option<Vec<String>>,
    /// The receiver of the launch's end.
    #[serde(default)]
    pub callback: Option<Callback>,
    /// The commit that the agent's work is compared with, if a worktree was made for it.
    #[serde(default)]
    pub base: Option<String>,
    /// The order is carried out by a server that was started for this run, which stays this long.
    #[serde(default)]
    pub server: Option<ServerStay>,
    /// Whether it asks and stays. Missing (neither) in older runs.
    #[serde(default)]
    pub attendance: Attendance,
    /// The mark of a launch from below an agent: see [`marks::LaunchMark`].
    #[serde(default)]
    pub launched_by: Option<String>,
    /// A daemon announces the end of this run, late if necessary. Missing (false) in runs older than the
    /// daemon: their ends are never announced.
    #[serde(default)]
    pub announce: bool,
    /// When it was launched.
    pub at: Time,
}

impl Spec {
    /// Returns the agent that ordered the launch, if it came from below one.
    #[must_use]
    pub fn launcher(&self) -> Option<LaunchedBy> {
        let mark = LaunchMark::parse(self.launched_by.as_deref()?)?;
        let (adapter, id) = mark.session.unzip();
        Some(LaunchedBy { adapter, id, depth: mark.depth })
    }
}

/// Whether an agent asks a human and stays when its turn is over, as it was ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attendance {
    /// It may ask, and waits this long for each answer.
    pub ask_ms: Option<u64>,
    /// It stays.
    pub keep: bool,
    /// It is ended when it was idle for this long.
    pub keep_idle_ms: Option<u64>,
}

/// How long the server of a run stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerStay {
    /// Until the turn of its session is over.
    UntilIdle,
    /// Until it is stopped.
    Kept,
}

/// The processes of a run (`started.json`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Started {
    /// The agent's process.
    pub process: ProcId,
    /// Its parent, the shim.
    pub shim: Option<ProcId>,
    /// The pid namespace of these pids.
    pub pid_namespace: u64,
    /// The machine of these pids.
    pub machine: Option<String>,
    /// The time.
    pub at: Time,
}

impl Started {
    /// Says whether these processes belong to this pid namespace and machine.
    #[must_use]
    pub fn is_here(&self, kernel: &Kernel) -> bool {
        self.pid_namespace == kernel.pid_namespace()
            && (self.machine.is_none() || self.machine.as_deref() == kernel.machine_id())
    }
}

/// The session that the agent told us (`session.json`).
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SessionFile {
    session: String,
}

/// How the shim saw the agent end (`exit.json`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunEnd {
    /// Exit code or signal.
    #[serde(flatten)]
    pub exit: Exit,
    /// The time.
    pub at: Time,
}

/// An order of ours to end a run (`ended-by.json`), written before the first signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOrder {
    /// A stop or a fuse.
    pub by: EndedBy,
    /// The time of the order.
    pub at: Time,
}

/// The runs folder of this user.
#[derive(Clone, Debug)]
pub struct Runs {
    directory: PathBuf,
    uid: u32,
}

/// The lock of a launcher on its run's folder. The kernel releases it when the launcher exits, however it
/// exits.
#[derive(Debug)]
pub struct Launching {
    _held: Option<File>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Its folder.
    pub directory: PathBuf,
    uid: u32,
}

impl Runs {
    /// Returns the runs folder of this user.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        Self { directory: host.state().join("runs"), uid: host.kernel.uid() }
    }

    /// Creates the folder of a new run with its spec and prompt. The launcher keeps the second value until
    /// the session is written: see [`Run::is_being_launched`].
    pub fn create(&self, spec: &Spec, prompt: &[u8]) -> io::Result<(Run, Launching)> {
        private::directory(&self.directory)?;
        let run = self.run(&spec.run);
        DirBuilder::new().mode(0o700).create(&run.directory)?;
        // Readers skip a run without a spec, so the lock is free here. On a file system without locks a
        // quick end is announced late, which must not prevent the launch.
        let hold = File::open(&run.directory).ok();
        let launching = Launching { _held: hold.filter(|file| file.try_lock().is_ok()) };
        let written = run
            .write("spec.json", spec)
            .and_then(|()| private::file(&run.prompt())?.write_all(prompt));
        if let Err(error) = written {
            // Do not leave an incomplete run.
            let _left = run.remove();
            return Err(error);
        }
        Ok((run, launching))
    }

    /// Returns the run of this id.
    #[must_use]
    pub fn run(&self, id: &str) -> Run {
        Run { id: id.to_owned(), directory: self.directory.join(id), uid: self.uid }
    }

    /// Returns all runs, newest first.
    pub fn all(&self) -> io::Result<Vec<Run>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|n| is_session_id(n)).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names.iter().map(|name| self.run(name)).collect())
    }

    /// Removes the runs that ended longer ago than `keep`.
    pub fn evict(&self, host: &Host, keep: Duration) -> io::Result<()> {
        let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let before = host.now().millis().saturating_sub(keep_ms);
        for run in self.all()? {
            let old = run.over(host).is_some_and(|at| at.millis() < before);
            if old && !run.is_attended(host) {
                run.remove()?;
            }
        }
        Ok(())
    }
}

impl Run {
    /// Opens the run in this folder.
    #[must_use]
    pub fn at(directory: &Path, uid: u32) -> Option<Self> {
        let id = directory.file_name()?.to_str().filter(|n| is_session_id(n))?.to_owned();
        Some(Self { id, directory: directory.to_owned(), uid })
    }

    /// Returns the file that holds the prompt.
    #[must_use]
    pub fn prompt(&self) -> PathBuf {
        self.directory.join("prompt")
    }

    /// Returns the file that holds the first line of an agent whose standard input is a pipe. It is there only
    /// until the agent is started.
    #[must_use]
    pub fn first_line(&self) -> PathBuf {
        self.directory.join("first-line")
    }

    /// Returns the file of the agent's stdout.
    #[must_use]
    pub fn stdout(&self) -> PathBuf {
        self.directory.join("stdout")
    }

    /// Returns the file of the agent's stderr.
    #[must_use]
    pub fn stderr(&self) -> PathBuf {
        self.directory.join("stderr")
    }

    /// Returns the request of the launch.
    #[must_use]
    pub fn spec(&self) -> Option<Spec> {
        self.read("spec.json")
    }

    /// Returns the processes of the run, once they were started.
    #[must_use]
    pub fn started(&self) -> Option<Started> {
        self.read("started.json")
    }

    /// Returns the session, once the agent has told it.
    #[must_use]
    pub fn session(&self) -> Option<String> {
        self.read("session.json").map(|file: SessionFile| file.session).filter(|s| is_session_id(s))
    }

    /// Says whether its launcher may still write the session. A quick agent can end before that, so
    /// `exit.json` may exist without `session.json`.
    #[must_use]
    pub fn is_being_launched(&self) -> bool {
        let folder = File::open(&self.directory);
        folder.is_ok_and(|f| matches!(f.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Returns how the agent ended, once the shim has recorded it.
    #[must_use]
    pub fn ended(&self) -> Option<RunEnd> {
        self.read("exit.json")
    }

    /// Returns the order of ours that ended the run: one from before its end.
    #[must_use]
    pub fn end_order(&self) -> Option<EndOrder> {
        let ended = self.ended();
        let order: EndOrder = self.read("ended-by.json")?;
        ended.is_none_or(|ended| order.at <= ended.at).then_some(order)
    }

    /// Writes an order of ours to end the run, unless it has ended already.
    pub fn write_end_order(&self, order: &EndOrder) -> io::Result<()> {
        if self.ended().is_some() {
            return Ok(());
        }
        self.write("ended-by.json", order)
    }

    /// Removes the order to end the run, which lives on.
    pub fn withdraw_end_order(&self) -> io::Result<()> {
        match fs::remove_file(self.directory.join("ended-by.json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the processes of the run.
    pub fn write_started(&self, started: &Started) -> io::Result<()> {
        self.write("started.json", started)
    }

    /// Writes the session that the agent told us.
    pub fn write_session(&self, session: &str) -> io::Result<()> {
        self.write("session.json", &SessionFile { session: session.to_owned() })
    }

    /// Writes how the agent ended.
    pub fn write_ended(&self, ended: &RunEnd) -> io::Result<()> {
        self.write("exit.json", ended)
    }

    /// Records that the end of the run was announced to all receivers.
    pub fn announce(&self) -> io::Result<()> {
        private::file(&self.directory.join("announced")).map(drop)
    }

    /// Says whether the end of the run was announced to all receivers.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        fs::symlink_metadata(self.directory.join("announced")).is_ok()
    }

    /// Returns how a hook of this run ended, once it has.
    #[must_use]
    pub fn report(&self, moment: HookMoment) -> Option<HookReport> {
        self.read(&format!("{}.json", moment.word()))
    }

    /// Writes how a hook ended.
    pub fn write_report(&self, moment: HookMoment, report: &HookReport) -> io::Result<()> {
        self.write(&format!("{}.json", moment.word()), report)
    }

    /// Returns when the run ended: as the shim recorded it, or when its folder was last changed if the
    /// process is gone without a record. `None` while the agent may be alive, also if the record of its processes
    /// cannot be read.
    #[must_use]
    pub fn over(&self, host: &Host) -> Option<Time> {
        if let Some(ended) = self.ended() {
            return Some(ended.at);
        }
        let started: Option<Started> = self.look("started.json").ok()?;
        match started {
            // A process of another pid namespace or machine may still be alive.
            Some(started) => (started.is_here(&host.kernel)
                && host.kernel.liveness(&started.process) == Liveness::Gone)
                .then(|| self.touched().unwrap_or(started.at)),
            // The launcher was killed before its agent started, or is still launching; after an hour it
            // counts as killed.
            None => {
                let at = self.touched()?;
                (host.now().millis() - at.millis() > 3_600_000).then_some(at)
            }
        }
    }

    /// Says whether its folder does not exist any more. A folder that cannot be looked at exists.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let folder = fs::symlink_metadata(&self.directory);
        folder.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Says whether the process that was started for it serves this session, or is a script above the process that
    /// does. The newest launch of a session need not serve it: a person may have continued it since.
    #[must_use]
    pub fn serves(&self, host: &Host, session: &Session) -> bool {
        let Some(started) = self.started().filter(|started| started.is_here(&host.kernel)) else {
            return false;
        };
        let is_below = |serving: &ProcId| {
            let process = host.kernel.process(serving.pid).ok().flatten();
            process.filter(|process| process.id == *serving).is_some_and(|process| {
                host.kernel.ancestors(&process).any(|above| above.id == started.process)
            })
        };
        session.is_served_by(&started.process) || session.process_ids().iter().any(is_below)
    }

    /// Says whether its shim is alive and has still something to record: the end of the agent, or of its last hook.
    /// A shim that only stays above orphans has not.
    #[must_use]
    pub fn is_attended(&self, host: &Host) -> bool {
        let is_complete = self.ended().is_some() && !self.lacks_report();
        !is_complete
            && self.started().is_some_and(|started| {
                let shim = started.shim.as_ref().map(|shim| host.kernel.liveness(shim));
                !started.is_here(&host.kernel) || shim.is_some_and(|lives| lives != Liveness::Gone)
            })
    }

    /// Says whether a hook runs at its end, and has not been recorded.
    fn lacks_report(&self) -> bool {
        let has_hook = self.spec().is_some_and(|spec| spec.on_complete.is_some());
        has_hook && self.report(HookMoment::Complete).is_none()
    }

    /// Says whether its agent has ended: the run says so, or its process is gone. The shim may stay above orphans.
    #[must_use]
    pub fn agent_has_ended(&self, host: &Host) -> bool {
        let is_gone = |started: Started| host.kernel.liveness(&started.process) == Liveness::Gone;
        self.ended().is_some() || self.started().is_some_and(is_gone)
    }

    /// Returns the size of its files in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum()
    }

    /// Removes the run's folder.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn touched(&self) -> Option<Time> {
        let modified = fs::symlink_metadata(&self.directory).ok()?.modified().ok()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        Time::from_millis(i64::try_from(since.as_millis()).ok()?)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.look(name).ok().flatten()
    }

    /// Reads a file; `None` if it does not exist, or is incomplete after a power cut.
    fn look<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Skip> {
        match read_small(&self.directory.join(name), self.uid, 1 << 20) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(Skip::Missing) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Writes a file atomically, without a flush: a power cut that could lose the file ends the agent it
    /// describes as well, and an incomplete file is not read.
    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let place = self.directory.join(name);
        let beside = self.directory.join(format!(".{name}.{}", std::process::id()));
        let mut file = private::file(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(value)?)?;
        file.write_all(b"\n")?;
        fs::rename(&beside, &place)
    }
}

/// Returns the first `most` bytes of a file; empty when it does not exist.
#[must_use]
pub fn beginning(path: &Path, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // Keep the bytes that were read before an error.
        let _said = file.take(most).read_to_end(&mut bytes);
    }
    bytes
}

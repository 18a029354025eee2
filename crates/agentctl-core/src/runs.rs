//! What a launch leaves behind: `runs/<run-id>/` with its spec, the agent's output and how it ended.
//!
//! None of it says whether anything lives: a status never comes from here. `spec.json` is what was
//! asked for, `started.json` which process that became, `session.json` which session it told us,
//! `exit.json` how its parent saw it end. Wipe the folder and only these launch-only facts are gone.
//! Every file is written beside its place, flushed, and moved there; nothing is readable by others.
//! The launcher holds a lock on the folder while it has not said which session it became.

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
use crate::marks::{self, Marker};
use crate::model::{Callback, Exit, ProcId, Time, is_session_id};
use crate::native::private;

/// So much of what an agent says first is looked at.
pub const FIRST_BYTES: u64 = 1 << 20;

/// Returns the live agents that were launched from here, each with its marker. Any process may write such
/// a text about itself: where the run's folder names its agent, only that process is it.
pub fn agents(host: &Host) -> impl Iterator<Item = (Process, Marker)> {
    let table = host.kernel.table(Instant::now() + host.deadlines.all, |_| true);
    // One limit for all processes: those that never become another program must not add up.
    let until = marks::forming_deadline();
    let marker = move |p: Process| marks::marker_until(host, &p, until).map(|m| (p, m));
    let runs = Runs::of(host);
    table.processes.into_iter().filter_map(marker).filter(move |(process, marker)| {
        let started = || runs.run(&marker.run).started();
        marker.names(&process.id) && started().is_none_or(|s| s.process == process.id)
    })
}

/// What was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The run's id.
    pub run: String,
    /// The adapter.
    pub adapter: String,
    /// What it began with.
    pub begin: Begin,
    /// The session id, where it was known before the agent said a word.
    pub session: Option<String>,
    /// Where it works.
    pub cwd: PathBuf,
    /// The model asked for.
    pub model: Option<String>,
    /// The name given.
    pub name: Option<String>,
    /// The group given.
    pub group: Option<String>,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// The names of variables set for it; their values are nobody's business.
    pub env: Vec<String>,
    /// What is run when it has ended.
    pub on_complete: Option<Vec<String>>,
    /// Whom the launcher wants to be told.
    #[serde(default)]
    pub callback: Option<Callback>,
    /// A daemon announces its end, late if need be. Runs from before there was one lack the word: nobody
    /// wants to hear of them now.
    #[serde(default)]
    pub announce: bool,
    /// When it was launched.
    pub at: Time,
}

/// Which process the agent became.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Started {
    /// The agent's process.
    pub process: ProcId,
    /// Its parent, the shim.
    pub shim: Option<ProcId>,
    /// The pid namespace in which these names mean anything.
    pub pid_namespace: u64,
    /// The machine on which they do.
    pub machine: Option<String>,
    /// When.
    pub at: Time,
}

impl Started {
    /// Says whether these processes can be looked for from here.
    #[must_use]
    pub fn is_here(&self, kernel: &Kernel) -> bool {
        self.pid_namespace == kernel.pid_namespace()
            && (self.machine.is_none() || self.machine.as_deref() == kernel.machine_id())
    }
}

/// Which session the agent told us.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    session: String,
}

/// How its parent saw it end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunEnd {
    /// Code or signal.
    #[serde(flatten)]
    pub exit: Exit,
    /// When.
    pub at: Time,
}

/// All runs of this user.
#[derive(Clone, Debug)]
pub struct Runs {
    directory: PathBuf,
    uid: u32,
}

/// A launcher that is at it: a lock on the run's folder, which ends with the launcher, however that ends.
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
    /// Returns where this user's runs are kept.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        Self { directory: host.state().join("runs"), uid: host.kernel.uid() }
    }

    /// Makes the folder of a new run, with its spec and prompt in it. Whoever launches it holds the second
    /// value until it is written which session it became: see [`Run::is_being_launched`].
    pub fn create(&self, spec: &Spec, prompt: &[u8]) -> io::Result<(Run, Launching)> {
        private::directory(&self.directory)?;
        let run = self.run(&spec.run);
        DirBuilder::new().mode(0o700).create(&run.directory)?;
        // Nobody looks at a run without a spec, so nobody is in our way here. Where there are no locks a
        // quick end is told late; that is no reason not to launch.
        let hold = File::open(&run.directory).ok();
        let launching = Launching { _held: hold.filter(|file| file.try_lock().is_ok()) };
        let written = run
            .write("spec.json", spec)
            .and_then(|()| private::file(&run.prompt())?.write_all(prompt));
        if let Err(error) = written {
            // Half a run is none.
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

    /// Returns all runs that are kept, newest first.
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

    /// Removes the runs that ended longer ago than this.
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

    /// Returns the file the agent's stdout goes to.
    #[must_use]
    pub fn stdout(&self) -> PathBuf {
        self.directory.join("stdout")
    }

    /// Returns the file the agent's stderr goes to.
    #[must_use]
    pub fn stderr(&self) -> PathBuf {
        self.directory.join("stderr")
    }

    /// Returns what was asked for.
    #[must_use]
    pub fn spec(&self) -> Option<Spec> {
        self.read("spec.json")
    }

    /// Returns which process the agent became, once it has.
    #[must_use]
    pub fn started(&self) -> Option<Started> {
        self.read("started.json")
    }

    /// Returns the session the agent told us, once it has.
    #[must_use]
    pub fn session(&self) -> Option<String> {
        self.read("session.json").map(|told: Told| told.session).filter(|s| is_session_id(s))
    }

    /// Says whether its launcher may still write which session it became. A quick agent has ended before
    /// that: its parent's word may be there when the launcher's is not.
    #[must_use]
    pub fn is_being_launched(&self) -> bool {
        let folder = File::open(&self.directory);
        folder.is_ok_and(|f| matches!(f.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Returns how its parent saw it end, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<RunEnd> {
        self.read("exit.json")
    }

    /// Writes which process the agent became.
    pub fn write_started(&self, started: &Started) -> io::Result<()> {
        self.write("started.json", started)
    }

    /// Writes which session the agent told us.
    pub fn write_session(&self, session: &str) -> io::Result<()> {
        self.write("session.json", &Told { session: session.to_owned() })
    }

    /// Writes how the agent ended.
    pub fn write_ended(&self, ended: &RunEnd) -> io::Result<()> {
        self.write("exit.json", ended)
    }

    /// Notes that everybody who must hear of its end has.
    pub fn announce(&self) -> io::Result<()> {
        private::file(&self.directory.join("announced")).map(drop)
    }

    /// Says whether everybody who must hear of its end has.
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

    /// Returns when it was over: ended as its parent saw it, or its process gone without a word. `None`
    /// while it may still be at work.
    #[must_use]
    pub fn over(&self, host: &Host) -> Option<Time> {
        if let Some(ended) = self.ended() {
            return Some(ended.at);
        }
        match self.started() {
            // Where it cannot be looked for it may still be at work.
            Some(started) => (started.is_here(&host.kernel)
                && host.kernel.liveness(&started.process) == Liveness::Gone)
                .then(|| self.touched().unwrap_or(started.at)),
            // A launcher that was killed before its agent began; or one that is at it right now.
            None => {
                let at = self.touched()?;
                (host.now().millis() - at.millis() > 3_600_000).then_some(at)
            }
        }
    }

    /// Says whether its shim is still at something: a hook, most likely.
    #[must_use]
    pub fn is_attended(&self, host: &Host) -> bool {
        self.started().is_some_and(|started| {
            let shim = started.shim.as_ref().map(|shim| host.kernel.liveness(shim));
            !started.is_here(&host.kernel) || shim.is_some_and(|lives| lives != Liveness::Gone)
        })
    }

    /// Returns how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum()
    }

    /// Removes it.
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
        let bytes = crate::native::file::read_small(&self.directory.join(name), self.uid, 1 << 20);
        serde_json::from_slice(&bytes.ok()?).ok()
    }

    /// Moves the text into its place. It is not forced to the disk: a power cut that could lose it
    /// ends the agent it speaks of as well, and what is not whole is not read.
    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let place = self.directory.join(name);
        let beside = self.directory.join(format!(".{name}.{}", std::process::id()));
        let mut file = private::file(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(value)?)?;
        file.write_all(b"\n")?;
        fs::rename(&beside, &place)
    }
}

/// Returns the beginning of a file, at most this much; empty when there is none.
#[must_use]
pub fn beginning(path: &Path, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // What could be read before an error was said.
        let _said = file.take(most).read_to_end(&mut bytes);
    }
    bytes
}

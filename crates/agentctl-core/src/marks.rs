//! The marks that this program leaves on processes: names of environment variables and of hidden
//! subcommands, and the marker of a run.
//!
//! Each name is written here once. Rooms that set a mark and rooms that look for it share the constant.
//! Knows neither runs nor adapters; never decides what a mark proves.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::host::Host;
use crate::kernel::{Environ, Process};
use crate::model::{ProcId, is_session_id};

/// The variable that names a run in the environment of its agent.
pub const MARKER: &str = "AGENTCTL_RUN";
/// The variable that says which agent launched this one, and how deep it is. The environment of the shim and of the
/// agent have it if the launch came from below an agent.
pub const LAUNCHED_BY: &str = "AGENTCTL_LAUNCHED_BY";
/// The variable in which the shim receives what only the agent's environment may contain. It is written
/// into no file and no argument, and hooks do not receive it.
pub const AGENT_ENV: &str = "AGENTCTL_AGENT_ENV";
/// The variable that a daemon is started with.
pub const DAEMON: &str = "AGENTCTL_DAEMON";
/// The variable that names the configuration file.
pub const CONFIG: &str = "AGENTCTL_CONFIG";
/// The variable that keeps a command from asking a daemon or starting one.
pub const NO_DAEMON: &str = "AGENTCTL_NO_DAEMON";
/// A tool of the demo agent names the pid of its agent with it.
pub const DEMO_PID: &str = "AGENTCTL_DEMO_PID";

/// The hidden subcommand that is the parent of one agent.
pub const SHIM: &str = "shim";
/// The hidden subcommand that marks itself and becomes the agent.
pub const STARTER: &str = "exec-agent";

/// The hidden subcommand that is the parent of the command of a fuse.
pub const FUSE_ACTION: &str = "fuse-action";

/// The hidden subcommand that an agent runs as a hook: it holds one ask until somebody answers.
pub const ASKER: &str = "asker";

/// The variables that a hook, the action of a fuse or a notification program receives.
pub mod hook {
    /// The moment of the hook that is run.
    pub const HOOK: &str = "AGENTCTL_HOOK";
    /// The run.
    pub const RUN_ID: &str = "AGENTCTL_RUN_ID";
    /// The session.
    pub const SESSION_ID: &str = "AGENTCTL_SESSION_ID";
    /// The session's directory.
    pub const CWD: &str = "AGENTCTL_CWD";
    /// The session's adapter.
    pub const ADAPTER: &str = "AGENTCTL_ADAPTER";
    /// The git branch of the session's directory.
    pub const BRANCH: &str = "AGENTCTL_BRANCH";
    /// The group of the launch.
    pub const GROUP: &str = "AGENTCTL_GROUP";
    /// The model.
    pub const MODEL: &str = "AGENTCTL_MODEL";
    /// The session that asked for the launch.
    pub const CALLBACK_SESSION: &str = "AGENTCTL_CALLBACK_SESSION";
    /// The agent that asked for the launch.
    pub const CALLBACK_AGENT: &str = "AGENTCTL_CALLBACK_AGENT";
    /// The session's status.
    pub const STATUS: &str = "AGENTCTL_STATUS";
    /// The session's outcome.
    pub const OUTCOME: &str = "AGENTCTL_OUTCOME";
    /// The agent's exit code; 128 plus the signal if a signal ended it.
    pub const EXIT_CODE: &str = "AGENTCTL_EXIT_CODE";
    /// The signal that ended the agent.
    pub const SIGNAL: &str = "AGENTCTL_SIGNAL";
    /// How long the agent ran.
    pub const DURATION_SECONDS: &str = "AGENTCTL_DURATION_SECONDS";
    /// Input tokens.
    pub const TOKENS_INPUT: &str = "AGENTCTL_TOKENS_INPUT";
    /// Output tokens.
    pub const TOKENS_OUTPUT: &str = "AGENTCTL_TOKENS_OUTPUT";
    /// Tokens read from the model's cache.
    pub const TOKENS_CACHE_READ: &str = "AGENTCTL_TOKENS_CACHE_READ";
    /// Tokens written to the model's cache.
    pub const TOKENS_CACHE_WRITE: &str = "AGENTCTL_TOKENS_CACHE_WRITE";
    /// The event's type.
    pub const EVENT: &str = "AGENTCTL_EVENT";
    /// The event's id.
    pub const EVENT_ID: &str = "AGENTCTL_EVENT_ID";
    /// The title of a notification.
    pub const TITLE: &str = "AGENTCTL_TITLE";
    /// The text of a notification.
    pub const TEXT: &str = "AGENTCTL_TEXT";
    /// The fuse.
    pub const FUSE_ID: &str = "AGENTCTL_FUSE_ID";
    /// The limit of the fuse that was reached.
    pub const FUSE_CAUSE: &str = "AGENTCTL_FUSE_CAUSE";
    /// The fuse's label.
    pub const FUSE_LABEL: &str = "AGENTCTL_FUSE_LABEL";
    /// The fuse's directory.
    pub const FUSE_DIRECTORY: &str = "AGENTCTL_FUSE_DIRECTORY";
    /// The fuse's session.
    pub const FUSE_SESSION: &str = "AGENTCTL_FUSE_SESSION";
    /// The adapter of the fuse's session.
    pub const FUSE_ADAPTER: &str = "AGENTCTL_FUSE_ADAPTER";
    /// When the fuse was set.
    pub const FUSE_SET_AT: &str = "AGENTCTL_FUSE_SET_AT";
    /// When the fuse expired.
    pub const FUSE_EXPIRED_AT: &str = "AGENTCTL_FUSE_EXPIRED_AT";
}

/// The variables that the setup program of a worktree receives beside the branch and the group.
pub mod setup {
    /// The directory of the new worktree.
    pub const WORKTREE: &str = "AGENTCTL_WORKTREE";
    /// The main working tree of its repository.
    pub const MAIN: &str = "AGENTCTL_MAIN";
    /// The number of the worktree among those of its launch, from 0.
    pub const SLOT: &str = "AGENTCTL_SLOT";
}

/// How long to retry reading the environment of a process in the middle of an exec, which shows none.
const EXEC_TIMEOUT: Duration = Duration::from_secs(2);

/// The value of [`MARKER`]: the run, and the process that it was written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The run.
    pub run: String,
    /// The pid of the agent that it was written for.
    pub pid: u32,
    /// The start time of that process.
    pub start_ticks: u64,
}

impl Marker {
    /// Parses the value.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("v1:")?.split(':');
        let run = parts.next().filter(|r| is_session_id(r))?.to_owned();
        let (pid, start_ticks) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Self { run, pid, start_ticks })
    }

    /// Says whether it was written for this process; other processes have inherited it.
    #[must_use]
    pub fn names(&self, process: &ProcId) -> bool {
        self.pid == process.pid && self.start_ticks == process.start_ticks
    }
}

impl std::fmt::Display for Marker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v1:{}:{}:{}", self.run, self.pid, self.start_ticks)
    }
}

/// The value of [`LAUNCHED_BY`]: the depth of the launched agent, and the agent that launched it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchMark {
    /// How many agents are above it.
    pub depth: u32,
    /// The greatest depth and number of children that counted for this launch. No launch below has greater ones.
    pub limits: (u32, u32),
    /// The adapter and the id of the parent's session, if they were known.
    pub session: Option<(String, String)>,
    /// The pid and the start time of the parent's process; `None` for a launch by a fuse.
    pub process: Option<(u32, u64)>,
}

impl LaunchMark {
    /// Parses the value.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.strip_prefix("v1:")?.split(':').collect();
        let [depth, most_depth, most_children, adapter, id, pid, ticks] = parts.as_slice() else {
            return None;
        };
        let session = match (*adapter, *id) {
            ("", "") => None,
            (adapter, id) if is_session_id(adapter) && is_session_id(id) => {
                Some((adapter.to_owned(), id.to_owned()))
            }
            _ => return None,
        };
        let process = match (*pid, *ticks) {
            ("", "") => None,
            (pid, ticks) => Some((pid.parse().ok()?, ticks.parse().ok()?)),
        };
        let limits = (most_depth.parse().ok()?, most_children.parse().ok()?);
        Some(Self { depth: depth.parse().ok()?, limits, session, process })
    }

    /// Says whether both launches came from the same agent.
    #[must_use]
    pub fn has_parent_of(&self, other: &Self) -> bool {
        match (&self.session, &other.session) {
            (Some(ours), Some(theirs)) => ours == theirs,
            // The session of one of them was not known: the process decides.
            _ => self.process == other.process,
        }
    }
}

impl std::fmt::Display for LaunchMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (adapter, id) =
            self.session.as_ref().map_or(("", ""), |(adapter, id)| (adapter.as_str(), id.as_str()));
        let (depth, children) = self.limits;
        write!(f, "v1:{}:{depth}:{children}:{adapter}:{id}:", self.depth)?;
        match self.process {
            Some((pid, ticks)) => write!(f, "{pid}:{ticks}"),
            None => f.write_str(":"),
        }
    }
}

/// Returns the run that a command line `agentctl shim …/runs/<run> …` names. A command line is no proof.
pub(crate) fn shim_of(process: &Process) -> Option<&str> {
    let [_, word, folder, ..] = process.argv.as_slice() else { return None };
    let folder = Path::new(folder).is_absolute().then_some(Path::new(folder))?;
    let kept = folder.parent()?.file_name()?;
    let run = folder.file_name()?.to_str().filter(|r| is_session_id(r))?;
    (word == SHIM && kept == "runs").then_some(run)
}

/// Says whether a command line is that of the shim of a run. A command line is no proof.
#[must_use]
pub fn is_shim(process: &Process) -> bool {
    shim_of(process).is_some()
}

/// Says whether a command line is that of the parent of a fuse's command. A command line is no proof.
pub(crate) fn is_fuse_action(process: &Process) -> bool {
    matches!(process.argv.as_slice(), [_, word, _, separator, ..] if word == FUSE_ACTION && separator == "--")
}

/// Says whether a command line is that of the daemon. A command line is no proof.
#[must_use]
pub fn is_daemon(process: &Process) -> bool {
    matches!(process.argv.as_slice(), [_, room, word, ..] if room == "daemon" && word == "run")
}

/// Returns the marker in a process's environment, if it has one and it can be read.
#[must_use]
pub fn marker_of(host: &Host, process: &Process) -> Option<Marker> {
    marker_until(host, process, forming_deadline())
}

/// Returns the marker in a process's environment; an exec in progress is waited for until the deadline.
pub(crate) fn marker_until(host: &Host, process: &Process, until: Instant) -> Option<Marker> {
    loop {
        match host.kernel.environ_now(&process.id, &[MARKER]).ok()? {
            Environ::Values(values) => return Marker::parse(values.first()?.as_deref()?),
            // An exec is in progress, for example of a script's interpreter, and the environment is empty
            // until it ends.
            Environ::Forming if process.exe.is_some() && Instant::now() < until => {
                std::thread::park_timeout(Duration::from_micros(200));
            }
            _ => return None,
        }
    }
}

/// Returns the deadline for processes in the middle of an exec, from now.
pub(crate) fn forming_deadline() -> Instant {
    Instant::now() + EXEC_TIMEOUT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_mark_is_read_as_it_was_written_and_rubbish_is_none() {
        let session = Some(("demo".to_owned(), "0199-ab".to_owned()));
        for (session, process) in [
            (session.clone(), Some((42, 17))),
            (session.clone(), None),
            (None, Some((42, 17))),
            (None, None),
        ] {
            let mark = LaunchMark { depth: 2, limits: (2, 8), session, process };
            assert_eq!(LaunchMark::parse(&mark.to_string()), Some(mark));
        }
        for rubbish in [
            "",
            "2",
            "v1:2",
            "v1:1:2:8:demo:a:1",
            "v1:x:2:8::::",
            "v1:-1:2:8::::",
            "v1:1:2:8:demo::1:2",
            "v1:1:2:8:a:../b:1:2",
            "v1:1:2:8:a:b:1:2:3",
        ] {
            assert_eq!(LaunchMark::parse(rubbish), None, "{rubbish}");
        }
    }

    #[test]
    fn children_of_one_session_have_one_parent_even_if_its_process_changed() {
        let mark = |id: Option<&str>, pid: u32| LaunchMark {
            depth: 1,
            limits: (2, 8),
            session: id.map(|id| ("demo".to_owned(), id.to_owned())),
            process: Some((pid, 1)),
        };
        assert!(mark(Some("a"), 1).has_parent_of(&mark(Some("a"), 2)));
        assert!(!mark(Some("a"), 1).has_parent_of(&mark(Some("b"), 1)));
        assert!(mark(None, 1).has_parent_of(&mark(Some("b"), 1)), "one of them was not known");
        assert!(!mark(None, 1).has_parent_of(&mark(None, 2)));
    }

    #[test]
    fn a_marker_is_read_as_it_was_written_and_rubbish_is_none() {
        let marker = Marker { run: "0199-ab".into(), pid: 42, start_ticks: 17 };
        assert_eq!(Marker::parse(&marker.to_string()), Some(marker));
        for rubbish in ["", "v1:", "v1:a:1", "v1:a:x:2", "v2:a:1:2", "v1:a:1:2:3", "v1:../a:1:2"] {
            assert_eq!(Marker::parse(rubbish), None, "{rubbish}");
        }
    }
}

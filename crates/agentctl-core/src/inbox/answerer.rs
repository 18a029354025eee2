//! The process that answers, and whether it runs below an agent.
//!
//! An agent must not approve its own work, so an answer from below an agent is refused. The kernel is asked about
//! the caller: its ancestors, the shim of a run, and the marks that agents leave in the environment of the
//! processes they start. A mark counts only while the agent that it names is alive.

mod seen;

use schemars::JsonSchema;
use seen::Seen;
use serde::{Deserialize, Serialize};

use crate::fleet::{self, Fleet, Query};
use crate::kernel::{Liveness, Process};
use crate::marks::{self, Marker};
use crate::model::{InternedName, Session, Target, Time, word};

/// Tolerance of the comparison between the time of a file and the start of an agent. The kernel stamps a file with the
/// time of its last tick, which is too early, and counts start times in ticks. Without the tolerance an agent that writes
/// the configuration in its first milliseconds could seem to begin after that.
const CLOCK_TOLERANCE_MS: i64 = 50;
/// The variables that name the configuration file.
const CONFIGURATION_VARIABLES: [&str; 3] = [marks::CONFIG, "XDG_CONFIG_HOME", "HOME"];

/// An agent above the answering process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct AnswererAbove {
    /// The process of the agent, its shim, or the process that carries its mark.
    pub pid: u32,
    /// The adapter and the session, where they are known.
    pub session: Option<AnswererSession>,
    /// How it is linked to the answering process.
    pub link: AnswererLink,
}

/// The session of an agent above the answering process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct AnswererSession {
    /// Its adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The agent's own session id.
    pub id: String,
}

/// How an agent is linked to the answering process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswererLink {
    /// An ancestor is an agent, or calls itself one.
    Agent,
    /// An ancestor is the shim of a run.
    Shim,
    /// It carries the mark of a run whose agent lives.
    RunMark,
    /// It carries the mark that a live agent leaves on its processes.
    AgentMark,
    /// The daemon runs it as the action of a fuse, which agents can set too.
    FuseAction,
    /// It carries the mark of a run whose agent has ended: see [`Answerer::left_behind`].
    EndedRunMark,
    /// An ancestor is the shim of a run whose agent has ended: see [`Answerer::left_behind`].
    EndedRunShim,
    /// It launched an agent above, or the agent that launched that one, and so on. It is no ancestor: a launched
    /// agent is detached.
    Launcher,
    /// It did so and has ended: another process may have its pid.
    EndedLauncher,
}

/// The process that answers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Answerer {
    /// Its pid.
    pub pid: u32,
    /// The agents that it runs below, nearest first.
    pub above: Vec<AnswererAbove>,
    /// The processes of its line that a launched agent left behind when it ended. They give no order: what an agent has
    /// started may act for it after its end. The shell in which a person has run an agent has no such mark.
    #[serde(default)]
    pub left_behind: Vec<AnswererAbove>,
    /// When the oldest of the agents above and of their launchers began: the earlier of its process and its session.
    /// `None` if one of these times is not known.
    #[serde(default)]
    pub oldest_agent_began: Option<Time>,
    /// The kernel did not show its ancestors, for this reason.
    pub unseen: Option<String>,
}

impl AnswererLink {
    /// Says whether the agent is an ancestor, itself or by its shim.
    pub(crate) fn is_ancestor(self) -> bool {
        matches!(self, Self::Agent | Self::Shim)
    }
}

impl Answerer {
    /// Examines this process.
    #[must_use]
    pub fn this_process(fleet: &Fleet) -> Self {
        Self::of(fleet, std::process::id())
    }

    /// Examines a process of this machine.
    #[must_use]
    pub fn of(fleet: &Fleet, pid: u32) -> Self {
        let kernel = &fleet.host.kernel;
        let unseen = |why: String| Self {
            pid,
            above: Vec::new(),
            left_behind: Vec::new(),
            oldest_agent_began: None,
            unseen: Some(why),
        };
        let process = match kernel.process(pid) {
            Ok(Some(process)) => process,
            Ok(None) => return unseen(format!("process {pid} has ended")),
            Err(error) => return unseen(error.to_string()),
        };
        let line = match kernel.line(&process) {
            Ok(line) => line,
            Err(error) => return unseen(error.to_string()),
        };
        let seen = Seen {
            fleet,
            sessions: live_sessions(fleet),
            look: fleet::look(fleet, fleet.host.deadlines.live),
        };
        let mut above = Vec::new();
        for (at, process) in line.iter().enumerate() {
            let mut links = seen.sessions_served_by(process);
            links.extend(seen.behind_shim(process));
            // This program is no agent; a process that connects to it may be one.
            if links.is_empty() && (at > 0 || pid != std::process::id()) {
                links.extend(seen.program(process));
            }
            links.extend(seen.marked(process));
            links.extend(seen.tool_of_gateway(process));
            links.extend(seen.fuse_action(process));
            for link in links {
                if !above.contains(&link) {
                    above.push(link);
                }
            }
        }
        if !above.is_empty() {
            above.extend(seen.launchers(&above));
        }
        let left_behind = line.iter().flat_map(|process| seen.left_behind(process)).collect();
        let oldest_agent_began = seen.oldest_began(&above);
        Self { pid, above, left_behind, oldest_agent_began, unseen: None }
    }

    /// Says whether nothing links this process to an agent, living or ended, and its ancestors could be examined.
    #[must_use]
    pub fn is_person(&self) -> bool {
        self.above.is_empty() && self.left_behind.is_empty() && self.unseen.is_none()
    }

    /// Adds another process that has the same connection: an answer may come from either.
    pub fn add(&mut self, other: Self) {
        // Without an agent above there is no time that could be unknown.
        self.oldest_agent_began = match (self.above.is_empty(), other.above.is_empty()) {
            (_, true) => self.oldest_agent_began,
            (true, false) => other.oldest_agent_began,
            (false, false) => {
                let both = self.oldest_agent_began.zip(other.oldest_agent_began);
                both.map(|(one, another)| one.min(another))
            }
        };
        self.above.extend(other.above);
        self.left_behind.extend(other.left_behind);
        self.unseen = self.unseen.take().or(other.unseen);
    }

    /// Returns the links to the nearest agent above this process: several if it serves several sessions. A mark
    /// in the environment may be of an agent further above, so it counts only where no agent is an ancestor.
    #[must_use]
    pub fn nearest_agent(&self) -> Vec<&AnswererAbove> {
        let ancestor = self.above.iter().find(|above| above.link.is_ancestor());
        let nearest = ancestor.or_else(|| self.above.first());
        let Some(nearest) = nearest else { return Vec::new() };
        let same = |above: &&AnswererAbove| above.pid == nearest.pid && above.link == nearest.link;
        self.above.iter().filter(same).collect()
    }

    /// Says whether this process is known to run below a session or process.
    #[must_use]
    pub fn is_below(&self, target: &Target) -> bool {
        self.above.iter().any(|above| match (&target.session, &above.session) {
            (Some(locator), Some(above)) => {
                let is_it = above.id == locator.id || Some(&above.id) == locator.parent.as_ref();
                above.adapter == target.adapter && is_it
            }
            (Some(_), None) => false,
            (None, _) => target.pid == Some(above.pid),
        })
    }

    /// Says whether this process runs below a session or process, or may do so: its ancestors or the session of
    /// one of them are not known.
    #[must_use]
    pub fn may_be_below(&self, target: &Target) -> bool {
        self.unseen.is_some()
            || self.above.iter().any(|above| above.session.is_none())
            || self.is_below(target)
    }

    /// Says whether this process may not answer the asks of a session.
    #[must_use]
    pub fn may_not_answer(&self, fleet: &Fleet, session: &Session) -> bool {
        self.may_not_answer_id(fleet, session.adapter, session.id.as_deref())
    }

    /// Says whether this process may not answer the asks of the session of this id.
    #[must_use]
    pub fn may_not_answer_id(&self, fleet: &Fleet, adapter: &str, id: Option<&str>) -> bool {
        if self.unseen.is_some() || !self.left_behind.is_empty() {
            return true;
        }
        if self.above.is_empty() {
            return false;
        }
        let Some(id) = id else { return true };
        let is_ours = |above: &AnswererAbove| match &above.session {
            Some(above) => above.adapter == adapter && above.id == id,
            // The session of this agent is not known: it may be the one that asks.
            None => true,
        };
        let others = self.may_answer_others(fleet) && self.launchers_share_configuration(fleet);
        !others || self.above.iter().any(is_ours)
    }

    /// Says whether the configuration of the agents above lets this process answer for agents that are neither its own
    /// nor above it.
    #[must_use]
    pub fn may_answer_others(&self, fleet: &Fleet) -> bool {
        fleet.host.agents_may_answer_others
            && self.shares_configuration(fleet)
            && self.began_after_configuration(fleet)
    }

    /// Says whether every agent above, and every agent that launched one, began after the last change of the
    /// configuration file: an agent could have written it.
    pub(crate) fn began_after_configuration(&self, fleet: &Fleet) -> bool {
        let times = fleet.host.configuration_changed_at.zip(self.oldest_agent_began);
        times
            .is_some_and(|(changed, began)| changed.millis() + CLOCK_TOLERANCE_MS <= began.millis())
    }

    /// Says whether the agents above the answering process were started with the configuration file that this
    /// process has read. A process below an agent can name another file in its own environment.
    pub(crate) fn shares_configuration(&self, fleet: &Fleet) -> bool {
        let has_ancestor = self.above.iter().any(|above| above.link.is_ancestor());
        has_ancestor && self.share(fleet, AnswererLink::is_ancestor)
    }

    /// Says the same of the agents that launched the agents above: an agent can launch another one with a
    /// configuration file of its own choice. A launcher that has ended proves nothing.
    #[must_use]
    pub fn launchers_share_configuration(&self, fleet: &Fleet) -> bool {
        self.above.iter().all(|above| above.link != AnswererLink::EndedLauncher)
            && self.share(fleet, |link| link == AnswererLink::Launcher)
    }

    fn share(&self, fleet: &Fleet, counts: impl Fn(AnswererLink) -> bool) -> bool {
        let kernel = &fleet.host.kernel;
        let named = |pid: u32| {
            let process = kernel.process(pid).ok().flatten()?;
            kernel.environ(&process.id, &CONFIGURATION_VARIABLES).ok()
        };
        let ours = named(std::process::id());
        let mut agents = self.above.iter().filter(|above| counts(above.link));
        ours.is_some() && agents.all(|agent| named(agent.pid) == ours)
    }
}

/// Returns the live sessions, also those that rest in a server.
fn live_sessions(fleet: &Fleet) -> Vec<Session> {
    let query = Query { resting: true, ..Query::default() };
    fleet::list(fleet, &query).sessions
}

fn link(process: &Process, session: Option<AnswererSession>, link: AnswererLink) -> AnswererAbove {
    AnswererAbove { pid: process.id.pid, session, link }
}

fn lives(fleet: &Fleet, marker: &Marker) -> bool {
    let process = fleet.host.kernel.process(marker.pid).ok().flatten();
    process.is_some_and(|process| {
        marker.names(&process.id) && fleet.host.kernel.liveness(&process.id) != Liveness::Gone
    })
}

fn names(marker: &Marker, session: &Session) -> bool {
    session.processes.iter().any(|serving| marker.names(&serving.id))
}

fn key(session: &Session) -> Option<AnswererSession> {
    session.id.clone().map(|id| AnswererSession { adapter: session.adapter, id })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test starts a process with marks")]
mod tests {
    use std::process::{Child, Command};
    use std::sync::Arc;

    use super::*;
    use crate::adapters::ALL;
    use crate::fleet::blank_session;
    use crate::host::Host;
    use crate::kernel::Kernel;
    use crate::marks::{LAUNCHED_BY, LaunchMark, MARKER};
    use crate::model::{Join, ServingProcess};

    struct Sleeping(Child);

    impl Drop for Sleeping {
        fn drop(&mut self) {
            let _ended = self.0.kill();
            let _reaped = self.0.wait();
        }
    }

    fn fleet() -> Fleet {
        let kernel = Kernel::open().expect("a kernel");
        let clock = || Time::from_millis(0).expect("a time");
        Fleet::new(Arc::new(Host::new("/nowhere", kernel, clock)), ALL)
    }

    fn session(adapter: &'static str, id: &str, process: &Process) -> Session {
        let mut session = blank_session(adapter, "/nowhere".into());
        session.id = Some(id.to_owned());
        session.pid = Some(process.id.pid);
        session.processes = vec![ServingProcess { id: process.id.clone(), join: Join::Proved }];
        session
    }

    fn seen(fleet: &Fleet, sessions: Vec<Session>) -> Seen<'_> {
        Seen { fleet, sessions, look: fleet::look(fleet, fleet.host.deadlines.live) }
    }

    fn ids(links: &[AnswererAbove]) -> Vec<&str> {
        links.iter().filter_map(|link| Some(link.session.as_ref()?.id.as_str())).collect()
    }

    #[test]
    fn every_session_of_a_server_is_above_its_children() {
        let fleet = fleet();
        let us = fleet.host.kernel.process(std::process::id()).expect("readable").expect("alive");
        let sessions = ["1", "2"].map(|id| session("opencode", id, &us)).to_vec();
        let seen = seen(&fleet, sessions);
        assert_eq!(ids(&seen.sessions_served_by(&us)), ["1", "2"]);
    }

    /// Starts a process with this launch mark.
    fn launched(fleet: &Fleet, mark: &LaunchMark) -> (Sleeping, AnswererAbove) {
        let mut command = Command::new("sleep");
        command.arg("600").env(LAUNCHED_BY, mark.to_string());
        let child = Sleeping(command.spawn().expect("started"));
        let process = fleet.host.kernel.process(child.0.id()).expect("readable").expect("alive");
        let above = link(&process, None, AnswererLink::Agent);
        (child, above)
    }

    #[test]
    fn a_launcher_without_a_session_in_the_mark_is_every_session_that_it_serves() {
        let fleet = fleet();
        let us = fleet.host.kernel.process(std::process::id()).expect("readable").expect("alive");
        let process = Some((us.id.pid, us.id.start_ticks));
        let mark = LaunchMark { depth: 1, limits: (2, 8), session: None, process };
        let (_child, above) = launched(&fleet, &mark);
        let sessions = ["1", "2"].map(|id| session("opencode", id, &us)).to_vec();
        let launchers = seen(&fleet, sessions).launchers(&[above]);
        assert_eq!(ids(&launchers), ["1", "2"]);
    }

    #[test]
    fn a_launcher_of_which_no_session_is_known_may_be_any_agent() {
        let fleet = fleet();
        let us = fleet.host.kernel.process(std::process::id()).expect("readable").expect("alive");
        for process in [None, Some((us.id.pid, us.id.start_ticks)), Some((us.id.pid, 1))] {
            let mark = LaunchMark { depth: 1, limits: (2, 8), session: None, process };
            let (_child, above) = launched(&fleet, &mark);
            let launchers = seen(&fleet, Vec::new()).launchers(&[above]);
            let sessions: Vec<_> = launchers.iter().map(|link| link.session.as_ref()).collect();
            assert_eq!(sessions, [None], "{process:?}");
        }
    }

    /// Another process can get the pid of a launcher that has ended.
    #[test]
    fn a_process_with_the_pid_of_an_ended_launcher_shares_no_configuration() {
        let fleet = fleet();
        let us = fleet.host.kernel.process(std::process::id()).expect("readable").expect("alive");
        for (start_ticks, expected) in [(us.id.start_ticks, true), (us.id.start_ticks + 1, false)] {
            let session = Some(("demo".to_owned(), "1".to_owned()));
            let process = Some((us.id.pid, start_ticks));
            let mark = LaunchMark { depth: 1, limits: (2, 8), session, process };
            let (_child, agent) = launched(&fleet, &mark);
            let above = seen(&fleet, Vec::new()).launchers(&[agent]);
            assert_eq!(ids(&above), ["1"]);
            let (left_behind, oldest_agent_began) = (Vec::new(), None);
            let caller = Answerer { pid: 1, above, left_behind, oldest_agent_began, unseen: None };
            assert_eq!(caller.launchers_share_configuration(&fleet), expected);
        }
    }

    #[test]
    fn every_mark_of_a_process_counts() {
        let fleet = fleet();
        let kernel = &fleet.host.kernel;
        let us = kernel.process(std::process::id()).expect("readable").expect("alive");
        let run = uuid::Uuid::new_v4().to_string();
        let marker = Marker { run, pid: us.id.pid, start_ticks: us.id.start_ticks };
        let outer = session("demo", "outer", &us);
        let inner = session("claude-code", "inner", &us);
        let control = fleet.adapter("claude-code").and_then(|adapter| adapter.control());
        let marks = control.expect("it can be controlled").marks(&inner);
        let mut command = Command::new("sleep");
        command.arg("600").env(MARKER, marker.to_string());
        command.envs(marks.iter().map(|mark| (mark.name, &mark.value)));
        let child = Sleeping(command.spawn().expect("started"));
        let child = kernel.process(child.0.id()).expect("readable").map(|process| (process, child));
        let (process, _child) = child.expect("alive");
        let seen = seen(&fleet, vec![outer, inner]);
        assert_eq!(ids(&seen.marked(&process)), ["outer", "inner"]);
    }

    /// The process that connects to the page may be an agent itself; a command line is this program.
    #[test]
    fn a_caller_that_calls_itself_an_agent_is_one() {
        let fleet = fleet();
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("openclaw-gateway");
        std::os::unix::fs::symlink("/usr/bin/sleep", &program).expect("linked");
        let child = Sleeping(Command::new(&program).arg("600").spawn().expect("started"));
        let caller = Answerer::of(&fleet, child.0.id());
        assert_eq!(caller.above[0].pid, child.0.id(), "{caller:?}");
    }
}

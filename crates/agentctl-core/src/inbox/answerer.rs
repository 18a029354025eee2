//! The process that answers, and whether it runs below an agent.
//!
//! An agent must not approve its own work, so an answer from below an agent is refused. The kernel is asked about
//! the caller: its ancestors, the shim of a run, and the marks that agents leave in the environment of the
//! processes they start. A mark counts only while the agent that it names is alive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::adapters::Look;
use crate::fleet::{self, Fleet, Query};
use crate::kernel::{Liveness, Process};
use crate::marks::{self, LAUNCHED_BY, LaunchMark, MARKER, Marker, hook};
use crate::model::{InternedName, Session, Target, Time, word};
use crate::runs::Runs;

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
            // This program is no agent; what connects to it may be one.
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

/// The live sessions and processes at the moment of an answer.
struct Seen<'a> {
    fleet: &'a Fleet,
    sessions: Vec<Session>,
    look: Look,
}

impl Seen<'_> {
    /// The sessions that a process serves: a server has several.
    fn sessions_served_by(&self, process: &Process) -> Vec<AnswererAbove> {
        let served = self.sessions.iter().filter(|session| session.is_served_by(&process.id));
        served.map(|session| link(process, key(session), AnswererLink::Agent)).collect()
    }

    /// The sessions of the run whose shim this is; the recorded one if none lives. The shim adopts every orphan of its
    /// agent, so it is above a process that left the agent's tree.
    fn behind_shim(&self, process: &Process) -> Vec<AnswererAbove> {
        let Some(run) = marks::shim_of(process) else { return Vec::new() };
        let of_run = self.sessions.iter().filter(|session| session.run.as_deref() == Some(run));
        let mut links: Vec<AnswererAbove> =
            of_run.map(|session| link(process, key(session), AnswererLink::Shim)).collect();
        if links.is_empty() {
            // The agent has ended, and its shim stays above its orphans: the run knows the session.
            links.push(link(process, self.recorded(run), AnswererLink::Shim));
        }
        links
    }

    /// The program of an agent of which no session names the process: it could not be listed, or it is on a gateway.
    fn program(&self, process: &Process) -> Vec<AnswererAbove> {
        let mut adapters = self.fleet.adapters.iter();
        let adapter = adapters.find(|adapter| {
            adapter.is_suspect(process) || adapter.is_own_program(&self.look, process)
        });
        let links = adapter.map(|a| self.without_process(a.name(), process, AnswererLink::Agent));
        links.unwrap_or_default()
    }

    /// The tools of agents whose sessions name no process, by the variables that such an agent sets.
    fn tool_of_gateway(&self, process: &Process) -> Vec<AnswererAbove> {
        let mut links = Vec::new();
        for adapter in self.fleet.adapters {
            let has = |(name, value): &(&str, &str)| {
                self.variable(process, name).is_some_and(|found| found == *value)
            };
            let may_live = || {
                let everyone = self.look.everyone();
                // A table with gaps proves no absence.
                !everyone.gaps.is_empty()
                    || everyone.processes.iter().any(|process| adapter.is_suspect(process))
            };
            if adapter.tool_variables().iter().any(has) && may_live() {
                let mark = AnswererLink::AgentMark;
                links.extend(self.without_process(adapter.name(), process, mark));
            }
        }
        links
    }

    /// Returns a link to each live session of an adapter for which no process is known: any of them may be the one
    /// above. A link without a session if there is none.
    fn without_process(
        &self,
        adapter: &str,
        process: &Process,
        kind: AnswererLink,
    ) -> Vec<AnswererAbove> {
        let of_adapter = self.sessions.iter().filter(|session| session.adapter == adapter);
        let unnamed = of_adapter.filter(|session| session.hosted && session.processes.is_empty());
        let mut links: Vec<_> = unnamed.map(|session| link(process, key(session), kind)).collect();
        if links.is_empty() {
            links.push(link(process, None, kind));
        }
        links
    }

    /// The marks of living agents in the environment of a process: it may carry those of several.
    fn marked(&self, process: &Process) -> Vec<AnswererAbove> {
        let mut links = Vec::new();
        if let Some(marker) = self.variable(process, MARKER).and_then(|text| Marker::parse(&text))
            && lives(self.fleet, &marker)
        {
            let session = self.sessions.iter().find(|session| names(&marker, session));
            links.push(link(process, session.and_then(key), AnswererLink::RunMark));
        }
        for session in &self.sessions {
            let adapter = self.fleet.adapter(session.adapter);
            let control = adapter.and_then(|adapter| adapter.control());
            let marks = control.map(|control| control.marks(session)).unwrap_or_default();
            if marks
                .iter()
                .any(|mark| self.variable(process, mark.name) == Some(mark.value.clone()))
            {
                links.push(link(process, key(session), AnswererLink::AgentMark));
            }
        }
        links
    }

    /// The links to runs whose agents have ended: the mark of a run, and the shim that stays above its orphans. An
    /// orphan can empty its environment; it cannot leave the shim.
    fn left_behind(&self, process: &Process) -> Vec<AnswererAbove> {
        let mut links = Vec::new();
        let marker = self.variable(process, MARKER).and_then(|text| Marker::parse(&text));
        if let Some(marker) = marker.filter(|marker| !lives(self.fleet, marker)) {
            links.push(link(process, self.recorded(&marker.run), AnswererLink::EndedRunMark));
        }
        let host = &self.fleet.host;
        let run =
            marks::shim_of(process).filter(|run| Runs::of(host).run(run).agent_has_ended(host));
        links.extend(run.map(|run| link(process, self.recorded(run), AnswererLink::EndedRunShim)));
        links
    }

    /// Returns when the oldest of these agents began. A launched agent begins when its session does: a session that is
    /// resumed may have changed the configuration in an earlier run.
    fn oldest_began(&self, above: &[AnswererAbove]) -> Option<Time> {
        let counts = |link: AnswererLink| link.is_ancestor() || link == AnswererLink::Launcher;
        let mut oldest: Option<Time> = None;
        for above in above.iter().filter(|above| counts(above.link)) {
            let process = self.fleet.host.kernel.process(above.pid).ok().flatten();
            let process = process?;
            let is_it = |session: &&Session| key(session) == above.session;
            let session = above.session.as_ref().and(self.sessions.iter().find(is_it));
            let of_session = session.and_then(|session| session.started_at);
            let began = process.started_at?.min(of_session.unwrap_or(process.started_at?));
            oldest = Some(oldest.map_or(began, |oldest| oldest.min(began)));
        }
        oldest
    }

    /// The parent of a fuse's command, which adopts every orphan of the command; or its variables.
    fn fuse_action(&self, process: &Process) -> Option<AnswererAbove> {
        let is_marked = || self.variable(process, hook::FUSE_ID).is_some_and(|id| !id.is_empty());
        (marks::is_fuse_action(process) || is_marked())
            .then(|| link(process, None, AnswererLink::FuseAction))
    }

    /// Returns the agents that launched the agents above, as the environment of each agent names its launcher. A
    /// launcher whose session is not known may be any agent.
    fn launchers(&self, above: &[AnswererAbove]) -> Vec<AnswererAbove> {
        const MAX_LAUNCHERS: usize = 32;
        let kernel = &self.fleet.host.kernel;
        let mut found: Vec<AnswererAbove> = Vec::new();
        let mut pids: Vec<u32> = above.iter().map(|above| above.pid).collect();
        while let Some(pid) = pids.pop().filter(|_| found.len() < MAX_LAUNCHERS) {
            let Some(process) = kernel.process(pid).ok().flatten() else { continue };
            let mark = self.variable(&process, LAUNCHED_BY);
            let Some(mark) = mark.as_deref().and_then(LaunchMark::parse) else { continue };
            // A process that has ended, or another one with its pid, names no further launcher.
            let (pid, ticks) = mark.process.unwrap_or_default();
            let launcher = kernel.process(pid).ok().flatten();
            let launcher = launcher.filter(|launcher| launcher.id.start_ticks == ticks);
            let link = match launcher {
                Some(_) => AnswererLink::Launcher,
                None => AnswererLink::EndedLauncher,
            };
            let links = self
                .launcher_sessions(&mark, launcher.as_ref())
                .into_iter()
                .map(|session| AnswererAbove { pid, session, link });
            let new: Vec<_> = links.filter(|link| !found.contains(link)).collect();
            if launcher.is_some() && !new.is_empty() {
                pids.push(pid);
            }
            found.extend(new);
        }
        found
    }

    /// Returns the sessions of a launcher: the one that its mark names, or those that its process serves now.
    fn launcher_sessions(
        &self,
        mark: &LaunchMark,
        launcher: Option<&Process>,
    ) -> Vec<Option<AnswererSession>> {
        if let Some((adapter, id)) = &mark.session {
            let adapter = self.fleet.adapter(adapter);
            return vec![
                adapter.map(|adapter| AnswererSession { adapter: adapter.name(), id: id.clone() }),
            ];
        }
        let served = launcher.map(|launcher| self.sessions_served_by(launcher)).unwrap_or_default();
        let sessions: Vec<_> = served.into_iter().map(|link| link.session).collect();
        if sessions.is_empty() { vec![None] } else { sessions }
    }

    /// The session of a run, as the run records it.
    fn recorded(&self, run: &str) -> Option<AnswererSession> {
        let (adapter, id) = fleet::recorded_session(self.fleet, run)?;
        Some(AnswererSession { adapter, id })
    }

    fn variable(&self, process: &Process, name: &str) -> Option<String> {
        let values = self.fleet.host.kernel.environ(&process.id, &[name]).ok()?;
        values.into_iter().next().flatten()
    }
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
mod tests;

//! The links between a process and the agents that live at the moment of an answer.

use super::{AnswererAbove, AnswererLink, AnswererSession, key, link, lives, names};
use crate::adapters::Look;
use crate::fleet::{self, Fleet};
use crate::kernel::Process;
use crate::marks::{self, LAUNCHED_BY, LaunchMark, MARKER, Marker, hook};
use crate::model::{Session, Time};
use crate::runs::Runs;

/// The live sessions and processes at the moment of an answer.
pub(super) struct Seen<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) sessions: Vec<Session>,
    pub(super) look: Look,
}

impl Seen<'_> {
    /// The sessions that a process serves: a server has several.
    pub(super) fn sessions_served_by(&self, process: &Process) -> Vec<AnswererAbove> {
        let served = self.sessions.iter().filter(|session| session.is_served_by(&process.id));
        served.map(|session| link(process, key(session), AnswererLink::Agent)).collect()
    }

    /// The sessions of the run whose shim this is; the recorded one if none lives. The shim adopts every orphan of its
    /// agent, so it is above a process that left the agent's tree.
    pub(super) fn behind_shim(&self, process: &Process) -> Vec<AnswererAbove> {
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
    pub(super) fn program(&self, process: &Process) -> Vec<AnswererAbove> {
        let mut adapters = self.fleet.adapters.iter();
        let adapter = adapters.find(|adapter| {
            adapter.is_suspect(process) || adapter.is_own_program(&self.look, process)
        });
        let links = adapter.map(|a| self.without_process(a.name(), process, AnswererLink::Agent));
        links.unwrap_or_default()
    }

    /// The tools of agents whose sessions name no process, by the variables that such an agent sets.
    pub(super) fn tool_of_gateway(&self, process: &Process) -> Vec<AnswererAbove> {
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
    pub(super) fn without_process(
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
    pub(super) fn marked(&self, process: &Process) -> Vec<AnswererAbove> {
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
    pub(super) fn left_behind(&self, process: &Process) -> Vec<AnswererAbove> {
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
    pub(super) fn oldest_began(&self, above: &[AnswererAbove]) -> Option<Time> {
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
    pub(super) fn fuse_action(&self, process: &Process) -> Option<AnswererAbove> {
        let is_marked = || self.variable(process, hook::FUSE_ID).is_some_and(|id| !id.is_empty());
        (marks::is_fuse_action(process) || is_marked())
            .then(|| link(process, None, AnswererLink::FuseAction))
    }

    /// Returns the agents that launched the agents above, as the environment of each agent names its launcher. A
    /// launcher whose session is not known may be any agent.
    pub(super) fn launchers(&self, above: &[AnswererAbove]) -> Vec<AnswererAbove> {
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
    pub(super) fn launcher_sessions(
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
    pub(super) fn recorded(&self, run: &str) -> Option<AnswererSession> {
        let (adapter, id) = fleet::recorded_session(self.fleet, run)?;
        Some(AnswererSession { adapter, id })
    }

    pub(super) fn variable(&self, process: &Process, name: &str) -> Option<String> {
        let values = self.fleet.host.kernel.environ(&process.id, &[name]).ok()?;
        values.into_iter().next().flatten()
    }
}

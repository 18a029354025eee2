//! Decides which processes belong to a session, and which are only linked to it by a marker.
//!
//! Descent decides: all ancestors up to the agent or its shim are alive, or the process is in a kernel
//! session that a descendant opened. A marker in an environment or a command line adds no process: a
//! process that only a marker links is reported and not ended. Nor does a marker spare a descendant:
//! another run's processes are spared only if that run's folder names them, and hooks only because the
//! kernel session of the shim proves that the shim started them.

use std::collections::HashMap;
use std::path::Path;

use super::process_scan::{
    self, ProcessTable, ScannedProcess, ancestors, bears, borne, is_reaper, parent, shim_of,
};
use super::run_folders::is_this_program;
use super::tree::{Membership, Spared, Tree};
use crate::kernel::{Brief, Liveness};
use crate::marks::MARKER;
use crate::model::ProcId;

impl Tree<'_> {
    /// Finds the run's shim and the enclosing and nested sessions in this scan, before any process is
    /// decided.
    pub(super) fn place(&mut self, table: &ProcessTable) {
        self.find_shims(table);
        let mut own: Vec<&ScannedProcess> =
            self.roots.agents.iter().filter_map(|a| table.get(&a.pid)).collect();
        // The shim has the same ancestors and marks as the agent, which may have ended since.
        own.extend(self.shims.iter().filter_map(|s| table.get(&s.pid)));
        for seen in &own {
            self.above_agents.extend(ancestors(table, seen).map(|s| s.process.id.clone()));
        }
        for at in 0..self.roots.others.len() {
            let other = &self.roots.others[at];
            let around = other.processes.iter().any(|p| self.above_agents.contains(p))
                || own.iter().any(|seen| bears(seen, &other.marks, &other.processes, table));
            let inside = other.processes.iter().any(|p| {
                let served = table.get(&p.pid).filter(|s| s.process.id == *p);
                served.is_some_and(|s| ancestors(table, s).any(|a| self.is_own(&a.process.id)))
            });
            let other = &mut self.roots.others[at];
            other.around_us |= around;
            other.inside_us |= inside;
        }
        let line = table.get(&std::process::id()).map(|us| ancestors(table, us));
        let line: Vec<&ProcId> = line.into_iter().flatten().map(|s| &s.process.id).collect();
        if line.iter().any(|id| self.roots.agents.contains(id)) {
            self.above_us = line.iter().map(|id| id.pid).collect();
        }
    }

    /// Finds the shims of earlier runs of the session, which stay above the orphans of their ended agents.
    fn find_earlier_runs(&mut self, table: &ProcessTable) {
        let Some((adapter, id)) = self.roots.session.clone() else { return };
        for seen in table.values().filter(|seen| !seen.is_outsider()) {
            let shim = &seen.process.id;
            let Some(run) = shim_of(&seen.process).filter(|run| !self.roots.is_own_run(run)) else {
                continue;
            };
            let is_shim = self.folders.is_shim(run, shim);
            let agent = self.folders.ended_agent(run, (adapter, &id)).filter(|_| is_shim);
            if let Some(agent) = agent {
                self.roots.earlier_runs.push(run.to_owned());
                self.roots.marked.push(agent);
                self.shims.push(shim.clone());
            }
        }
    }

    /// Finds the run's shim: the process that the run's folder names; or, if the folder is gone, an
    /// ancestor of the agent that runs this program with that run in its arguments.
    fn find_shims(&mut self, table: &ProcessTable) {
        self.find_earlier_runs(table);
        let Some(run) = self.roots.run.clone() else { return };
        let agents = self.roots.agents.iter().filter_map(|a| table.get(&a.pid));
        let above: Vec<&ProcId> =
            agents.flat_map(|a| ancestors(table, a)).map(|s| &s.process.id).collect();
        for seen in table.values().filter(|s| !s.is_outsider()) {
            let id = &seen.process.id;
            let proved = self.folders.is_shim(&run, id)
                || (shim_of(&seen.process) == Some(run.as_str())
                    && is_this_program(self.host, &seen.process)
                    && above.contains(&id));
            if proved && !self.shims.contains(id) {
                self.shims.push(id.clone());
            }
        }
    }

    fn is_own(&self, id: &ProcId) -> bool {
        self.roots.agents.contains(id) || self.shims.contains(id) || self.is_member(id)
    }

    /// Decides the relation of every process of a scan.
    pub(super) fn decide_all(&self, table: &ProcessTable) -> HashMap<u32, Membership> {
        let mut verdicts = HashMap::new();
        for pid in table.keys() {
            self.decide(*pid, table, &mut verdicts, 0);
        }
        verdicts
    }

    fn decide(
        &self,
        pid: u32,
        table: &ProcessTable,
        memo: &mut HashMap<u32, Membership>,
        depth: usize,
    ) -> Membership {
        if let Some(known) = memo.get(&pid) {
            return *known;
        }
        let Some(seen) = table.get(&pid).filter(|_| depth < 4096) else {
            return Membership::Stranger;
        };
        let verdict = self.by_itself(seen).unwrap_or_else(|| {
            let above =
                parent(table, seen).map(|p| self.decide(p.process.id.pid, table, memo, depth + 1));
            self.by_descent(seen, above.unwrap_or(Membership::Stranger), table)
        });
        memo.insert(pid, verdict);
        verdict
    }

    /// Returns the relation of a process that does not depend on its parent.
    fn by_itself(&self, seen: &ScannedProcess) -> Option<Membership> {
        let id = &seen.process.id;
        if id.pid == std::process::id() {
            return Some(Membership::Spared(Spared::Us));
        }
        if self.roots.agents.contains(id) {
            return Some(Membership::Agent);
        }
        if self.roots.servers.contains(id) {
            return Some(Membership::Spared(Spared::Server));
        }
        if let Some(at) = self.roots.others.iter().position(|o| o.processes.contains(id)) {
            return Some(Membership::Spared(Spared::Session(at)));
        }
        if self.shims.contains(id) {
            return Some(Membership::Shim);
        }
        if seen.daemon {
            return Some(Membership::Spared(Spared::Daemon));
        }
        if self.is_hook(seen) {
            return Some(Membership::Spared(Spared::Hook));
        }
        if self.is_of_another_run(seen) {
            // This session was started inside that run, so orphans below its shim may belong to this
            // session.
            let around = self.above_agents.contains(id);
            return Some(if around {
                Membership::Stranger
            } else {
                Membership::Spared(Spared::Run)
            });
        }
        let exe = seen.process.exe.as_deref().and_then(Path::file_name).unwrap_or_default();
        let exe_name = exe.to_string_lossy();
        let brief = Brief { comm: &seen.process.comm, exe_name: &exe_name };
        if self.roots.doubtful.iter().any(|a| a.is_candidate(brief)) {
            return Some(Membership::Spared(Spared::Doubt));
        }
        self.member_verdict(id)
    }

    /// Says whether the folder of another run names this process as its shim or its agent.
    fn is_of_another_run(&self, seen: &ScannedProcess) -> bool {
        let id = &seen.process.id;
        let marker = seen.marker.as_ref().filter(|m| m.names(id)).map(|m| m.run.as_str());
        let claimed = [shim_of(&seen.process), marker].into_iter().flatten();
        let mut others = claimed.filter(|run| !self.roots.is_own_run(run));
        others.any(|run| self.folders.names(run, id))
    }

    /// Says whether the run's shim started this process itself. The shim has a kernel session of its own
    /// and gives its agent another one; a process cannot join a session that it was not born in.
    fn is_hook(&self, seen: &ScannedProcess) -> bool {
        let id = &seen.process.id;
        self.hooks.contains(id)
            || self.shims.iter().any(|shim| {
                seen.process.session == shim.pid && id.start_ticks >= shim.start_ticks && id != shim
            })
    }

    fn by_descent(
        &self,
        seen: &ScannedProcess,
        above: Membership,
        table: &ProcessTable,
    ) -> Membership {
        let nested =
            || self.nested_of(seen, table).map(|at| Membership::Spared(Spared::Session(at)));
        match above {
            Membership::Agent | Membership::Intact => Membership::Intact,
            Membership::Shim | Membership::Loose => nested().unwrap_or(Membership::Loose),
            Membership::Spared(Spared::Server) if self.is_marked_below_server(seen, table) => {
                nested().unwrap_or(Membership::Loose)
            }
            // The shell that exec'd this command may have started processes before.
            Membership::Spared(Spared::Us) if self.is_around_us() => Membership::Intact,
            Membership::Spared(why) => Membership::Spared(why),
            Membership::Stranger | Membership::Linked(_) | Membership::Claimed
                if self.is_of_our_kernel_session(seen, table) =>
            {
                nested().unwrap_or(Membership::Loose)
            }
            Membership::Stranger | Membership::Linked(_) | Membership::Claimed => {
                self.by_text(seen, table)
            }
        }
    }

    /// Says whether a process is in a kernel session that a process of this session opened; only
    /// descendants are.
    fn is_of_our_kernel_session(&self, seen: &ScannedProcess, table: &ProcessTable) -> bool {
        self.leaders.iter().any(|leader| {
            // The kernel does not reuse the number of a session while a process is in it.
            seen.process.session == leader.pid
                && seen.process.id.start_ticks >= leader.start_ticks
                && table.get(&leader.pid).is_none_or(|now| now.process.id == *leader)
        })
    }

    /// Decides the relation of a process without descent from the session.
    fn by_text(&self, seen: &ScannedProcess, table: &ProcessTable) -> Membership {
        if seen.foreign || self.above_agents.contains(&seen.process.id) {
            return Membership::Stranger;
        }
        if self.roots.by_force && self.is_wholly_marked(seen) {
            return Membership::Claimed;
        }
        let of_run = seen.marker.as_ref().is_some_and(|m| self.roots.is_own_run(&m.run));
        let variable = if of_run {
            Some(MARKER)
        } else {
            borne(seen, &self.roots.marks, &self.roots.agents, table)
                .filter(|_| self.other_of(seen, table).is_none())
        };
        variable.map_or(Membership::Stranger, Membership::Linked)
    }

    /// Says whether the marker names this session's agent by pid and start time, and the process belongs to
    /// this user and started after the agent. An agent's own marks hold no start time.
    fn is_wholly_marked(&self, seen: &ScannedProcess) -> bool {
        let Some(marker) = &seen.marker else { return false };
        let began = seen.process.id.start_ticks;
        !seen.is_outsider()
            && self.roots.is_own_run(&marker.run)
            && self.roots.marked.iter().any(|agent| {
                marker.names(agent) && began >= agent.start_ticks && seen.process.id != *agent
            })
    }

    /// Says whether a process below a shared server carries this session's mark. The server starts the
    /// tools of all its sessions and gives each the mark of its session. If the server itself carries the
    /// mark, it inherited it, and the mark proves nothing.
    fn is_marked_below_server(&self, seen: &ScannedProcess, table: &ProcessTable) -> bool {
        let bare = |server: &ProcId| {
            table.get(&server.pid).is_some_and(|s| !bears(s, &self.roots.marks, &[], table))
        };
        self.roots.servers.iter().all(bare) && bears(seen, &self.roots.marks, &[], table)
    }

    /// Returns the other live session whose mark a process carries.
    pub(super) fn other_of(&self, seen: &ScannedProcess, table: &ProcessTable) -> Option<usize> {
        self.roots
            .others
            .iter()
            .position(|o| !o.around_us && bears(seen, &o.marks, &o.processes, table))
    }

    /// Returns the nested session whose mark a process carries. Only a nested session can have started a
    /// descendant, so the mark of any other session is no reason to spare it.
    fn nested_of(&self, seen: &ScannedProcess, table: &ProcessTable) -> Option<usize> {
        self.roots
            .others
            .iter()
            .position(|o| o.inside_us && !o.around_us && bears(seen, &o.marks, &o.processes, table))
    }

    /// Says why processes that left the agent may live on unseen: the run's shim died before the agent, and
    /// processes live that may be orphans of the agent.
    pub(super) fn lost_shim(&self) -> Option<String> {
        let run = self.roots.run.as_deref()?;
        let shim = self.folders.lost_shim(run)?;
        let began = self.folders.started(run)?.process;
        let why = "died before the agent: processes which left the agent cannot be seen";
        self.may_have_orphans(&began).then(|| format!("its shim (pid {}) {why}", shim.pid))
    }

    /// Says whether a process lives that may be an orphan of the agent, which began then. The kernel gives the
    /// orphans of an agent without a shim to an ancestor of the agent or to pid 1: an orphan is a child of one
    /// of these and not older than the agent. Another session counts too: the agent may have launched it.
    fn may_have_orphans(&self, began: &ProcId) -> bool {
        let scan = process_scan::scan(self.host, &self.names);
        let (table, kernel) = (&scan.by_pid, &self.host.kernel);
        let memo = self.decide_all(table);
        let may_be_orphan = |seen: &ScannedProcess| {
            let id = &seen.process.id;
            let above = parent(table, seen);
            let is_known = matches!(
                memo.get(&id.pid),
                Some(Membership::Spared(Spared::Us | Spared::Daemon | Spared::Hook))
            );
            id.start_ticks >= began.start_ticks
                && (is_reaper(seen.process.parent_pid, above)
                    || above.is_none_or(|above| self.above_agents.contains(&above.process.id)))
                && !is_known
                && kernel.liveness(id) != Liveness::Gone
        };
        !scan.gaps.is_empty() || table.values().any(may_be_orphan)
    }
}

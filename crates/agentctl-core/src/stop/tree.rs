//! Which processes a session has started: by descent, by kernel session, by what their environment says.
//!
//! A process is taken for the session's own only on evidence that nobody else can have: an unbroken line
//! of parents up to the agent, the run's shim above it, the text of the run, the agent's own mark, a
//! kernel session one of its processes has opened. What serves another session, belongs to another run
//! or carries this very command is spared, with everything below it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::seen::{self, Seen, ancestors, bears, is_reaper, parent, shim_of};
use super::{Ended, How, Left, Survivor};
use crate::adapters::Adapter;
use crate::adapters::control::Mark;
use crate::fleet::Adapters;
use crate::host::Host;
use crate::kernel::{Brief, Held, Liveness, Process};
use crate::model::{ProcId, Session, shorten};
use rustix::process::Signal;

/// Another live session, whose processes are nobody's but its own.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) adapter: &'static str,
    pub(super) id: Option<String>,
    pub(super) processes: Vec<ProcId>,
    pub(super) marks: Vec<Mark>,
    /// Ours runs inside it: its marks on our processes are inherited and say nothing.
    pub(super) around_us: bool,
}

impl Other {
    pub(super) fn of(adapters: Adapters, session: Session) -> Self {
        let control = adapters.iter().find(|a| a.name() == session.adapter);
        let marks = control.and_then(|a| a.control()).map(|c| c.marks(&session));
        Self {
            adapter: session.adapter,
            marks: marks.unwrap_or_default(),
            processes: session.process_ids(),
            id: session.id,
            around_us: false,
        }
    }
}

/// What the search starts from.
#[derive(Default)]
pub(super) struct Roots {
    /// The session's own processes, to be ended.
    pub(super) agents: Vec<ProcId>,
    /// Shared servers that host it, never to be touched.
    pub(super) servers: Vec<ProcId>,
    /// The run that launched it.
    pub(super) run: Option<String>,
    /// The run whose text its processes carry: its own, or one it was started inside.
    pub(super) text: Option<String>,
    /// The agent's own marks on what it starts.
    pub(super) marks: Vec<Mark>,
    /// Everybody else.
    pub(super) others: Vec<Other>,
    /// Adapters that could not say what lives: whatever looks like theirs is spared.
    pub(super) doubtful: Vec<&'static dyn Adapter>,
}

/// One process of the session beside the agent itself.
#[derive(Debug)]
struct Member {
    process: Process,
    held: Held,
    /// An unbroken line of parents leads to the agent.
    intact: bool,
    how: How,
    trouble: Option<String>,
    /// Not even a kill may be sent to it.
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Agent,
    Shim,
    Intact,
    Loose,
    Spared(Spared),
    Stranger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spared {
    /// This very command.
    Us,
    /// It serves another session: its place in the list.
    Session(usize),
    /// The server that hosts the session.
    Server,
    /// Another run's.
    Run,
    /// A hook at work, or the daemon: neither is a guest that its carrier is spared for.
    Hook,
    /// It looks like an agent whose adapter did not answer.
    Doubt,
}

/// The processes of one session, as far as they are known.
pub(super) struct Tree<'a> {
    host: &'a Host,
    roots: Roots,
    names: Vec<&'static str>,
    members: Vec<Member>,
    /// Kernel sessions that processes of ours have opened.
    leaders: Vec<ProcId>,
    pub(super) ended: Vec<Ended>,
    /// Nested sessions that were left alone.
    pub(super) left: BTreeMap<u32, Left>,
    /// What carries somebody else and was therefore left alone.
    carriers: HashMap<ProcId, Survivor>,
    unheld: HashMap<ProcId, Survivor>,
    /// What the last look could not see.
    pub(super) gaps: Vec<String>,
    /// The run's shim lives: what the agent has orphaned is below it.
    pub(super) has_shim: bool,
    /// The processes between the agent and this very command, if it runs inside the session.
    above_us: HashSet<u32>,
    /// The processes above the agent: whatever they are, it has not started them.
    above_agents: HashSet<ProcId>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(host: &'a Host, roots: Roots) -> Self {
        let marks = roots.marks.iter().chain(roots.others.iter().flat_map(|o| &o.marks));
        let mut names: Vec<&'static str> = marks.map(|m| m.name).collect();
        names.sort_unstable();
        names.dedup();
        let mut tree = Self {
            host,
            roots,
            names,
            members: Vec::new(),
            leaders: Vec::new(),
            ended: Vec::new(),
            left: BTreeMap::new(),
            carriers: HashMap::new(),
            unheld: HashMap::new(),
            gaps: Vec::new(),
            has_shim: false,
            above_us: HashSet::new(),
            above_agents: HashSet::new(),
        };
        let everybody = seen::look(host, &tree.names);
        tree.place(&everybody.by_pid);
        tree
    }

    /// Finds out which other sessions ours runs inside of.
    fn place(&mut self, table: &HashMap<u32, Seen>) {
        let mut agents: Vec<&Seen> =
            self.roots.agents.iter().filter_map(|a| table.get(&a.pid)).collect();
        // What the shim was started with, so was the agent that may have ended since.
        let run = self.roots.run.as_deref();
        let shim = |s: &&Seen| run.is_some() && !s.outsider && shim_of(&s.process) == run;
        agents.extend(table.values().filter(shim));
        let mut above: HashSet<ProcId> = HashSet::new();
        for agent in &agents {
            above.extend(ancestors(table, agent).map(|s| s.process.id.clone()));
        }
        let around: Vec<bool> = self
            .roots
            .others
            .iter()
            .map(|other| {
                other.processes.iter().any(|p| above.contains(p))
                    || agents.iter().any(|seen| bears(seen, &other.marks, &other.processes, table))
            })
            .collect();
        for (other, around) in self.roots.others.iter_mut().zip(around) {
            other.around_us = around;
        }
        self.above_agents = above;
        let line = table.get(&std::process::id()).map(|us| ancestors(table, us));
        let line: Vec<&ProcId> = line.into_iter().flatten().map(|s| &s.process.id).collect();
        if line.iter().any(|id| self.roots.agents.contains(id)) {
            self.above_us = line.iter().map(|id| id.pid).collect();
        }
    }

    /// Looks once more and takes hold of everything new; returns how many that were.
    pub(super) fn grow(&mut self) -> usize {
        let everybody = seen::look(self.host, &self.names);
        let table = everybody.by_pid;
        self.gaps = everybody.gaps;
        let mut verdicts: HashMap<u32, Verdict> = HashMap::new();
        let mut pids: Vec<u32> = table.keys().copied().collect();
        pids.sort_unstable();
        for pid in &pids {
            self.decide(*pid, &table, &mut verdicts, 0);
        }
        self.has_shim |= verdicts.values().any(|v| *v == Verdict::Shim);
        self.leave_carriers(&table, &mut verdicts);
        self.name_the_nested(&table, &verdicts);
        let mut fresh = 0;
        for pid in &pids {
            let Some(seen) = table.get(pid) else { continue };
            let verdict = verdicts.get(pid).copied().unwrap_or(Verdict::Stranger);
            if verdict == Verdict::Agent {
                self.note_leader(&seen.process);
            }
            if !matches!(verdict, Verdict::Intact | Verdict::Loose)
                || self.members.iter().any(|m| m.process.id == seen.process.id)
            {
                continue;
            }
            match self.host.kernel.hold(&seen.process.id) {
                Ok(Some(held)) => {
                    fresh += 1;
                    self.unheld.remove(&seen.process.id);
                    self.note_leader(&seen.process);
                    let (process, intact) = (seen.process.clone(), verdict == Verdict::Intact);
                    let how = How::Itself;
                    self.members.push(Member {
                        process,
                        held,
                        intact,
                        how,
                        trouble: None,
                        refused: false,
                    });
                }
                Ok(None) => {}
                Err(error) => {
                    let why = format!("it could not be taken hold of: {error}");
                    self.unheld.insert(seen.process.id.clone(), survivor(&seen.process, why));
                }
            }
        }
        fresh
    }

    fn note_leader(&mut self, process: &Process) {
        if process.session == process.id.pid && !self.leaders.contains(&process.id) {
            self.leaders.push(process.id.clone());
        }
    }

    fn decide(
        &self,
        pid: u32,
        table: &HashMap<u32, Seen>,
        memo: &mut HashMap<u32, Verdict>,
        depth: usize,
    ) -> Verdict {
        if let Some(known) = memo.get(&pid) {
            return *known;
        }
        let Some(seen) = table.get(&pid).filter(|_| depth < 4096) else {
            return Verdict::Stranger;
        };
        let verdict = self.by_itself(seen).unwrap_or_else(|| {
            let above =
                parent(table, seen).map(|p| self.decide(p.process.id.pid, table, memo, depth + 1));
            self.by_descent(seen, above.unwrap_or(Verdict::Stranger), table)
        });
        memo.insert(pid, verdict);
        verdict
    }

    /// What a process is whoever its parent may be.
    fn by_itself(&self, seen: &Seen) -> Option<Verdict> {
        let id = &seen.process.id;
        if id.pid == std::process::id() {
            return Some(Verdict::Spared(Spared::Us));
        }
        if self.roots.agents.contains(id) {
            return Some(Verdict::Agent);
        }
        if self.roots.servers.contains(id) {
            return Some(Verdict::Spared(Spared::Server));
        }
        if let Some(at) = self.roots.others.iter().position(|o| o.processes.contains(id)) {
            return Some(Verdict::Spared(Spared::Session(at)));
        }
        if let Some(run) = shim_of(&seen.process) {
            return Some(match run {
                run if self.roots.run.as_deref() == Some(run) && !seen.outsider => Verdict::Shim,
                // Ours was started by hand inside that run: what is orphaned there may be ours.
                run if self.roots.text.as_deref() == Some(run) => Verdict::Stranger,
                _ => Verdict::Spared(Spared::Run),
            });
        }
        if seen.daemon || (seen.hook_of.is_some() && seen.hook_of == self.roots.run) {
            return Some(Verdict::Spared(Spared::Hook));
        }
        if seen.run.is_some() && seen.run != self.roots.text {
            return Some(Verdict::Spared(Spared::Run));
        }
        let exe = seen.process.exe.as_deref().and_then(Path::file_name).unwrap_or_default();
        let exe_name = exe.to_string_lossy();
        let brief = Brief { comm: &seen.process.comm, exe_name: &exe_name };
        if self.roots.doubtful.iter().any(|a| a.is_candidate(brief)) {
            return Some(Verdict::Spared(Spared::Doubt));
        }
        let known = self.members.iter().find(|m| m.process.id == *id);
        known.map(|m| if m.intact { Verdict::Intact } else { Verdict::Loose })
    }

    fn by_descent(&self, seen: &Seen, above: Verdict, table: &HashMap<u32, Seen>) -> Verdict {
        let elsewhere =
            || self.other_of(seen, table).map(|at| Verdict::Spared(Spared::Session(at)));
        match above {
            Verdict::Agent | Verdict::Intact => Verdict::Intact,
            Verdict::Shim | Verdict::Loose => elsewhere().unwrap_or(Verdict::Loose),
            Verdict::Spared(Spared::Server) if self.is_marked_below_server(seen, table) => {
                elsewhere().unwrap_or(Verdict::Loose)
            }
            // A shell that became this command had started something before.
            Verdict::Spared(Spared::Us) if self.is_around_us() => Verdict::Intact,
            Verdict::Spared(why) => Verdict::Spared(why),
            Verdict::Stranger if self.is_evident(seen, table) => {
                elsewhere().unwrap_or(Verdict::Loose)
            }
            Verdict::Stranger => Verdict::Stranger,
        }
    }

    /// Says whether a process shows by itself that the session has started it. An outsider's words do
    /// not: anybody may write them, and in another pid namespace another agent may serve the session.
    fn is_evident(&self, seen: &Seen, table: &HashMap<u32, Seen>) -> bool {
        let by_run = self.roots.run.is_some() && seen.run == self.roots.run;
        let by_words = by_run || bears(seen, &self.roots.marks, &self.roots.agents, table);
        (by_words && !seen.outsider)
            || self.leaders.iter().any(|leader| {
                // The number of a session is not given to anybody else while it has a process.
                seen.process.session == leader.pid
                    && seen.process.id.start_ticks >= leader.start_ticks
                    && table.get(&leader.pid).is_none_or(|now| now.process.id == *leader)
            })
    }

    /// A server starts the tools of all its sessions, and gives each the mark of its own. What the
    /// server itself carries it was started with: that says nothing.
    fn is_marked_below_server(&self, seen: &Seen, table: &HashMap<u32, Seen>) -> bool {
        let bare = |server: &ProcId| {
            table.get(&server.pid).is_some_and(|s| !bears(s, &self.roots.marks, &[], table))
        };
        self.roots.servers.iter().all(bare) && bears(seen, &self.roots.marks, &[], table)
    }

    /// Returns the other live session that has started a process, where its mark says so.
    fn other_of(&self, seen: &Seen, table: &HashMap<u32, Seen>) -> Option<usize> {
        let others = self.roots.others.iter();
        others
            .enumerate()
            .find(|(_, o)| !o.around_us && bears(seen, &o.marks, &o.processes, table))
            .map(|(at, _)| at)
    }

    /// What is ours by a mark only and carries somebody else (a terminal multiplexer, say) is left
    /// alone, with all that is in it.
    fn leave_carriers(&mut self, table: &HashMap<u32, Seen>, verdicts: &mut HashMap<u32, Verdict>) {
        let guests: Vec<(&Seen, Spared)> = table
            .values()
            .filter_map(|seen| match verdicts.get(&seen.process.id.pid) {
                Some(Verdict::Spared(why)) if *why != Spared::Hook => Some((seen, *why)),
                _ => None,
            })
            .collect();
        let mut carriers: BTreeMap<u32, Spared> = BTreeMap::new();
        for (guest, why) in guests {
            let line = ancestors(table, guest)
                .take_while(|s| verdicts.get(&s.process.id.pid) == Some(&Verdict::Loose));
            if let Some(top) = line.last() {
                carriers.insert(top.process.id.pid, why);
            }
        }
        for (pid, why) in &carriers {
            let Some(top) = table.get(pid) else { continue };
            let reason = match why {
                Spared::Us => "this command runs below it; not ended",
                _ => "another session runs below it; not ended",
            };
            let named = survivor(&top.process, reason.to_owned());
            self.carriers.insert(top.process.id.clone(), named);
        }
        if carriers.is_empty() {
            return;
        }
        let below: Vec<(u32, Spared)> = table
            .values()
            .filter(|s| verdicts.get(&s.process.id.pid) == Some(&Verdict::Loose))
            .filter_map(|seen| {
                let line = std::iter::once(seen).chain(ancestors(table, seen));
                let mut line = line;
                line.find_map(|s| carriers.get(&s.process.id.pid))
                    .map(|w| (seen.process.id.pid, *w))
            })
            .collect();
        for (pid, why) in below {
            verdicts.insert(pid, Verdict::Spared(why));
            self.members.retain(|m| m.process.id.pid != pid);
        }
    }

    /// Remembers the sessions that run inside this one and are left alone.
    fn name_the_nested(&mut self, table: &HashMap<u32, Seen>, verdicts: &HashMap<u32, Verdict>) {
        for seen in table.values() {
            let pid = seen.process.id.pid;
            let Some(Verdict::Spared(Spared::Session(at))) = verdicts.get(&pid) else { continue };
            let Some(other) = self.roots.others.get(*at) else { continue };
            let inside = ancestors(table, seen).any(|s| {
                let above = verdicts.get(&s.process.id.pid);
                matches!(above, Some(Verdict::Agent | Verdict::Intact | Verdict::Loose))
            });
            if inside && other.processes.contains(&seen.process.id) {
                let left = Left { pid, adapter: other.adapter, session: other.id.clone() };
                self.left.insert(pid, left);
            }
        }
    }

    /// Says whether this very command was started by the session.
    pub(super) fn is_around_us(&self) -> bool {
        !self.above_us.is_empty()
    }

    /// Ends all but the processes that this command runs below, as long as there is time.
    pub(super) fn end_beside_us(&mut self, grace: std::time::Duration) {
        let above = std::mem::take(&mut self.above_us);
        let members = std::mem::take(&mut self.members);
        let (ours, beside): (Vec<Member>, Vec<Member>) =
            members.into_iter().partition(|m| above.contains(&m.process.id.pid));
        self.members = beside;
        self.signal_all(Signal::TERM, How::Asked);
        if !self.wait(grace) {
            self.signal_all(Signal::KILL, How::Killed);
            self.wait(grace);
        }
        self.members.extend(ours);
        self.above_us = above;
    }

    /// Says whether nothing of it lives any more.
    pub(super) fn is_gone(&mut self) -> bool {
        self.bury();
        self.members.is_empty()
    }

    /// Says whether nothing of it lives any more that could still be ended from here.
    pub(super) fn is_spent(&mut self) -> bool {
        self.bury();
        self.members.iter().all(|m| m.refused)
    }

    /// Sends a signal to all of them, each through its own handle.
    pub(super) fn signal_all(&mut self, signal: Signal, how: How) {
        for member in &mut self.members {
            match member.held.signal(signal) {
                Ok(true) => member.how = how,
                Ok(false) => {}
                Err(error) => {
                    member.refused |= signal == Signal::KILL;
                    member.trouble = Some(format!("it could not be signalled: {error}"));
                }
            }
            // One that a signal holds must be let go to hear another.
            let paused = Liveness::Alive { paused: true };
            if signal == Signal::TERM && self.host.kernel.liveness(member.held.id()) == paused {
                let _gone = member.held.signal(Signal::CONT);
            }
        }
    }

    /// Keeps all of them from starting anything, until they are killed.
    pub(super) fn freeze(&mut self) {
        for member in &self.members {
            let _gone = member.held.signal(Signal::STOP);
        }
    }

    /// Waits until all have ended, or the time is up.
    pub(super) fn wait(&mut self, limit: std::time::Duration) -> bool {
        let held: Vec<&Held> =
            self.members.iter().filter(|m| !m.refused).map(|m| &m.held).collect();
        // What cannot be waited for is looked at again all the same.
        let _unsure = Held::wait_for_all(&held, limit);
        self.is_gone()
    }

    /// Moves those that have ended to the report; their handles are given back.
    fn bury(&mut self) {
        let (gone, living): (Vec<Member>, Vec<Member>) =
            std::mem::take(&mut self.members).into_iter().partition(|m| m.held.has_exited());
        self.members = living;
        self.ended.extend(gone.into_iter().map(|m| Ended {
            pid: m.process.id.pid,
            command: command(&m.process),
            how: m.how,
        }));
    }

    /// Names everything of it that lives on.
    pub(super) fn survivors(&mut self) -> Vec<Survivor> {
        self.bury();
        // Whoever cannot be read any more may live as well.
        let kernel = &self.host.kernel;
        let named = self.carriers.iter().chain(&self.unheld);
        let living = named.filter(|(id, _)| kernel.liveness(id) != Liveness::Gone);
        let mut all: Vec<Survivor> = living.map(|(_, survivor)| survivor.clone()).collect();
        all.extend(self.members.iter().map(|m| {
            let why = m.trouble.clone().unwrap_or_else(|| "it does not end".into());
            survivor(&m.process, why)
        }));
        all
    }

    /// Names orphans that this session may have started and nothing proves it: of its directory, younger
    /// than its agent, and nobody's.
    pub(super) fn suspects(&self, cwd: Option<&str>, since_ticks: u64) -> Vec<Survivor> {
        let Some(cwd) = cwd.map(Path::new).filter(|c| c.is_absolute()) else { return Vec::new() };
        let wide = cwd == Path::new("/") || cwd == self.host.home;
        let table = seen::look(self.host, &self.names).by_pid;
        let mut memo = HashMap::new();
        let mut pids: Vec<u32> = table.keys().copied().collect();
        pids.sort_unstable();
        for pid in &pids {
            self.decide(*pid, &table, &mut memo, 0);
        }
        // What carries this command or another session is a person's terminal, not a forgotten tool.
        let spared = table
            .values()
            .filter(|s| matches!(memo.get(&s.process.id.pid), Some(Verdict::Spared(_))));
        let carriers: HashSet<u32> =
            spared.flat_map(|s| ancestors(&table, s)).map(|s| s.process.id.pid).collect();
        let suspicious = pids.into_iter().filter_map(|pid| {
            let seen = table.get(&pid)?;
            let stands = seen.process.cwd.as_deref()?;
            let there = stands == cwd || (!wide && stands.starts_with(cwd));
            let young = seen.process.id.start_ticks >= since_ticks;
            let nobodys = memo.get(&pid) == Some(&Verdict::Stranger)
                && !carriers.contains(&pid)
                && !self.above_agents.contains(&seen.process.id)
                && self.other_of(seen, &table).is_none()
                && seen.hook_of.is_none();
            let orphan = is_reaper(seen.process.parent_pid, table.get(&seen.process.parent_pid));
            (there && young && orphan && nobodys)
                .then(|| survivor(&seen.process, "may have been started by it; not ended".into()))
        });
        suspicious.collect()
    }
}

fn survivor(process: &Process, why: String) -> Survivor {
    Survivor { pid: process.id.pid, command: command(process), why }
}

/// Returns a process's command line, shortened.
pub(super) fn command(process: &Process) -> String {
    let line = process.argv.join(" ");
    if line.trim().is_empty() { process.comm.clone() } else { shorten(&line, 120) }
}

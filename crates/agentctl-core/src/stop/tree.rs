//! The processes of one session: held, signalled, waited for, and reported. Which ones they are is
//! decided in `belonging`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::process_scan::{self, ScannedProcess, ancestors, is_reaper, parent};
use super::run_folders::RunFolders;
use super::{EndedProcess, How, Left, Survivor};
use crate::adapters::Adapter;
use crate::adapters::control::Mark;
use crate::fleet::Adapters;
use crate::host::Host;
use crate::kernel::{Held, Liveness, Process};
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
    /// It runs inside ours, below the agent or its shim.
    pub(super) inside_us: bool,
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
            inside_us: false,
        }
    }

    /// Names it as a person would: `claude-code 2a658488-…`.
    fn name(&self) -> String {
        format!("{} {}", self.adapter, self.id.as_deref().unwrap_or("without a session yet"))
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
    /// The processes that the text of that run may name: its agent, living or ended.
    pub(super) marked: Vec<ProcId>,
    /// Processes that the whole text of the run links to its agent are ended too.
    pub(super) by_force: bool,
    /// The agent's own marks on what it starts.
    pub(super) marks: Vec<Mark>,
    /// ProcessScan else.
    pub(super) others: Vec<Other>,
    /// Adapters that could not say what lives: whatever looks like theirs is spared.
    pub(super) doubtful: Vec<&'static dyn Adapter>,
}

/// One process of the session beside the agent itself.
#[derive(Debug)]
struct Member {
    process: Process,
    held: Held,
    /// Why it is ended.
    verdict: Membership,
    how: How,
    trouble: Option<String>,
    /// Not even a kill may be sent to it.
    refused: bool,
}

/// What one process is to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    Agent,
    Shim,
    /// An unbroken line of parents leads to the agent.
    Intact,
    /// It is below the shim, or in a kernel session that one of ours has opened.
    Loose,
    /// The whole text of the run names the agent, and it was asked to end such processes.
    Claimed,
    /// Only this variable links it to the session.
    Linked(&'static str),
    Spared(Spared),
    Stranger,
}

impl Membership {
    /// Says whether the process is to be ended.
    fn is_ours(self) -> bool {
        matches!(self, Self::Intact | Self::Loose | Self::Claimed)
    }

    /// Says whether a descendant of the process has been started by the session.
    fn is_line(self) -> bool {
        matches!(self, Self::Agent | Self::Shim | Self::Intact | Self::Loose)
    }
}

/// Why a process is not ended although it may stand below one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spared {
    /// This very command.
    Us,
    /// It serves another session, or was started by it: the session's place in the list.
    Session(usize),
    /// The server that hosts the session.
    Server,
    /// The shim or the agent of another run.
    Run,
    /// A hook of the run: the shim has started it.
    Hook,
    /// This user's daemon.
    Daemon,
    /// It looks like an agent whose adapter did not answer.
    Doubt,
}

/// The processes of one session, as far as they are known.
pub(super) struct Tree<'a> {
    pub(super) host: &'a Host,
    pub(super) roots: Roots,
    pub(super) folders: RunFolders<'a>,
    names: Vec<&'static str>,
    members: Vec<Member>,
    /// Kernel sessions that processes of ours have opened.
    pub(super) leaders: Vec<ProcId>,
    /// The run's shim, proved to be it.
    pub(super) shims: Vec<ProcId>,
    /// Hooks of the run and what they have started.
    pub(super) hooks: HashSet<ProcId>,
    pub(super) ended: Vec<EndedProcess>,
    /// Nested sessions that were left alone.
    pub(super) left: BTreeMap<u32, Left>,
    /// Processes that carry another session or this command and are therefore left alone.
    carriers: HashMap<ProcId, Survivor>,
    /// Processes below the agent or its shim that were left alone.
    spared: HashMap<ProcId, Survivor>,
    /// Processes that only a text links to the session.
    linked: HashMap<ProcId, Survivor>,
    unheld: HashMap<ProcId, Survivor>,
    /// What the last look could not see.
    pub(super) gaps: Vec<String>,
    /// The run's shim lives: what the agent has orphaned is below it.
    pub(super) has_shim: bool,
    /// The processes between the agent and this very command, if it runs inside the session.
    pub(super) above_us: HashSet<u32>,
    /// The processes above the agent: whatever they are, it has not started them.
    pub(super) above_agents: HashSet<ProcId>,
    /// All processes of the last look before the first signal.
    before: HashSet<ProcId>,
    /// A signal may have been sent, or the agent asked to end.
    has_begun: bool,
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
            folders: RunFolders::of(host),
            names,
            members: Vec::new(),
            leaders: Vec::new(),
            shims: Vec::new(),
            hooks: HashSet::new(),
            ended: Vec::new(),
            left: BTreeMap::new(),
            carriers: HashMap::new(),
            spared: HashMap::new(),
            linked: HashMap::new(),
            unheld: HashMap::new(),
            gaps: Vec::new(),
            has_shim: false,
            above_us: HashSet::new(),
            above_agents: HashSet::new(),
            before: HashSet::new(),
            has_begun: false,
        };
        // Which sessions are around this one must be known before any parent can have ended.
        let scan = process_scan::scan(host, &tree.names);
        tree.place(&scan.by_pid);
        tree
    }

    /// Looks once more and takes hold of everything new; returns how many that were.
    pub(super) fn grow(&mut self) -> usize {
        let scan = process_scan::scan(self.host, &self.names);
        let table = scan.by_pid;
        self.gaps = scan.gaps;
        if !self.has_begun {
            self.before = table.values().map(|seen| seen.process.id.clone()).collect();
        }
        self.place(&table);
        let mut verdicts = self.decide_all(&table);
        let mut pids: Vec<u32> = table.keys().copied().collect();
        pids.sort_unstable();
        self.has_shim |= !self.shims.is_empty();
        self.leave_carriers(&table, &mut verdicts);
        self.name_the_nested(&table, &verdicts);
        self.name_the_spared(&table, &verdicts);
        self.name_the_linked(&table, &verdicts);
        let mut fresh = 0;
        for pid in &pids {
            let Some(seen) = table.get(pid) else { continue };
            let verdict = verdicts.get(pid).copied().unwrap_or(Membership::Stranger);
            if verdict == Membership::Agent {
                self.note_leader(&seen.process);
            }
            if verdict == Membership::Spared(Spared::Hook) {
                self.hooks.insert(seen.process.id.clone());
            }
            if !verdict.is_ours() || self.is_member(&seen.process.id) {
                continue;
            }
            match self.host.kernel.hold(&seen.process.id) {
                Ok(Some(held)) => {
                    fresh += 1;
                    self.unheld.remove(&seen.process.id);
                    // What a text claims opens no line of its own.
                    if verdict != Membership::Claimed {
                        self.note_leader(&seen.process);
                    }
                    let how = How::Itself;
                    self.members.push(Member {
                        process: seen.process.clone(),
                        held,
                        verdict,
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

    /// Notes that the first signal follows: a process that no look has shown yet is born after it.
    pub(super) fn begin_to_end(&mut self) {
        self.has_begun = true;
    }

    /// Says which processes cannot be seen if the run's shim has died before its agent.
    pub(super) fn lost_shim(&self) -> Option<String> {
        let shim = self.folders.lost_shim(self.roots.run.as_deref()?)?;
        Some(format!(
            "its shim (pid {}) died before the agent: processes which left the agent cannot be seen",
            shim.pid
        ))
    }

    pub(super) fn is_member(&self, id: &ProcId) -> bool {
        self.members.iter().any(|m| m.process.id == *id)
    }

    /// What a process of ours was found to be in an earlier pass.
    pub(super) fn member_verdict(&self, id: &ProcId) -> Option<Membership> {
        self.members.iter().find(|m| m.process.id == *id).map(|m| m.verdict)
    }

    fn note_leader(&mut self, process: &Process) {
        if process.session == process.id.pid && !self.leaders.contains(&process.id) {
            self.leaders.push(process.id.clone());
        }
    }

    /// A process whose line to the agent is broken and which carries another session or this command (a
    /// terminal multiplexer, say) is left alone, with all that is in it, and named.
    fn leave_carriers(
        &mut self,
        table: &HashMap<u32, ScannedProcess>,
        verdicts: &mut HashMap<u32, Membership>,
    ) {
        let guests: Vec<(&ScannedProcess, Spared)> = table
            .values()
            .filter_map(|seen| match verdicts.get(&seen.process.id.pid) {
                Some(Membership::Spared(Spared::Hook | Spared::Daemon)) => None,
                Some(Membership::Spared(why)) => Some((seen, *why)),
                _ => None,
            })
            .collect();
        let mut carriers: BTreeMap<u32, Spared> = BTreeMap::new();
        for (guest, why) in guests {
            let is_loose = |s: &&ScannedProcess| {
                let verdict = verdicts.get(&s.process.id.pid);
                matches!(verdict, Some(Membership::Loose | Membership::Claimed))
            };
            let line = ancestors(table, guest).take_while(is_loose);
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
            .filter(|s| {
                let verdict = verdicts.get(&s.process.id.pid);
                matches!(verdict, Some(Membership::Loose | Membership::Claimed))
            })
            .filter_map(|seen| {
                let mut line = std::iter::once(seen).chain(ancestors(table, seen));
                line.find_map(|s| carriers.get(&s.process.id.pid))
                    .map(|w| (seen.process.id.pid, *w))
            })
            .collect();
        for (pid, why) in below {
            verdicts.insert(pid, Membership::Spared(why));
            self.members.retain(|m| m.process.id.pid != pid);
        }
    }

    /// Remembers the sessions that run inside this one and are left alone.
    fn name_the_nested(
        &mut self,
        table: &HashMap<u32, ScannedProcess>,
        verdicts: &HashMap<u32, Membership>,
    ) {
        for seen in table.values() {
            let pid = seen.process.id.pid;
            let Some(Membership::Spared(Spared::Session(at))) = verdicts.get(&pid) else {
                continue;
            };
            let Some(other) = self.roots.others.get(*at) else { continue };
            let inside = ancestors(table, seen).any(|s| is_line(verdicts, s));
            if inside && other.processes.contains(&seen.process.id) {
                let left = Left { pid, adapter: other.adapter, session: other.id.clone() };
                let who = other.name();
                let why = format!("serves {who}, a session of its own; not ended");
                self.spared.insert(seen.process.id.clone(), survivor(&seen.process, why));
                self.left.insert(pid, left);
            }
        }
    }

    /// Remembers the topmost processes below the agent or its shim that are left alone and serve no
    /// session themselves: nothing is spared in silence.
    fn name_the_spared(
        &mut self,
        table: &HashMap<u32, ScannedProcess>,
        verdicts: &HashMap<u32, Membership>,
    ) {
        for seen in table.values() {
            let id = &seen.process.id;
            let Some(Membership::Spared(why)) = verdicts.get(&id.pid) else { continue };
            let topmost = parent(table, seen).is_some_and(|above| is_line(verdicts, above));
            if !topmost || self.spared.contains_key(id) || self.carriers.contains_key(id) {
                continue;
            }
            let why = match why {
                Spared::Us | Spared::Server | Spared::Hook | Spared::Daemon => continue,
                // A session of that run is named instead of its shim.
                Spared::Run if self.carries_the_nested(seen, table) => continue,
                Spared::Run => "belongs to another run; not ended".to_owned(),
                Spared::Doubt => {
                    "may serve a session: its adapter did not answer; not ended".into()
                }
                Spared::Session(at) => {
                    let other = self.roots.others.get(*at).map(Other::name).unwrap_or_default();
                    format!("carries the mark of {other}; not ended")
                }
            };
            self.spared.insert(id.clone(), survivor(&seen.process, why));
        }
    }

    fn carries_the_nested(
        &self,
        seen: &ScannedProcess,
        table: &HashMap<u32, ScannedProcess>,
    ) -> bool {
        self.left
            .keys()
            .filter_map(|pid| table.get(pid))
            .any(|nested| ancestors(table, nested).any(|above| above.process.id == seen.process.id))
    }

    /// Remembers the topmost processes that only a text links to the session.
    fn name_the_linked(
        &mut self,
        table: &HashMap<u32, ScannedProcess>,
        verdicts: &HashMap<u32, Membership>,
    ) {
        let linked = |s: &ScannedProcess| match verdicts.get(&s.process.id.pid) {
            Some(Membership::Linked(variable)) => Some(*variable),
            _ => None,
        };
        self.linked.clear();
        for seen in table.values() {
            let Some(variable) = linked(seen) else { continue };
            if ancestors(table, seen).any(|above| linked(above).is_some()) {
                continue;
            }
            let why = format!("only {variable} in its environment links it; not ended");
            self.linked.insert(seen.process.id.clone(), survivor(&seen.process, why));
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
        self.has_begun = true;
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
        self.ended.extend(gone.into_iter().map(|m| EndedProcess {
            pid: m.process.id.pid,
            command: command(&m.process),
            how: m.how,
        }));
    }

    /// Names everything of it that lives on.
    pub(super) fn survivors(&mut self) -> Vec<Survivor> {
        self.bury();
        // A process that cannot be read any more may live as well.
        let kernel = &self.host.kernel;
        let named = self.carriers.iter().chain(&self.spared).chain(&self.linked);
        let named = named.chain(&self.unheld);
        let living = named.filter(|(id, _)| kernel.liveness(id) != Liveness::Gone);
        let mut all: Vec<Survivor> = living.map(|(_, survivor)| survivor.clone()).collect();
        all.extend(self.members.iter().map(|m| {
            let why = m.trouble.clone().unwrap_or_else(|| "it does not end".into());
            survivor(&m.process, why)
        }));
        all
    }

    /// Names orphans that this session may have started and nothing proves it: those that stand in its
    /// directory and are younger than its agent, and those that were born after the first signal, wherever
    /// they stand. A process that is told to end can start another one and leave it without a parent.
    pub(super) fn suspects(&self, cwd: Option<&str>, since_ticks: Option<u64>) -> Vec<Survivor> {
        let cwd = cwd.map(Path::new).filter(|c| c.is_absolute());
        let table = process_scan::scan(self.host, &self.names).by_pid;
        let memo = self.decide_all(&table);
        let mut pids: Vec<u32> = table.keys().copied().collect();
        pids.sort_unstable();
        // What carries this command or another session is a person's terminal, not a forgotten tool.
        let spared = table
            .values()
            .filter(|s| matches!(memo.get(&s.process.id.pid), Some(Membership::Spared(_))));
        let carriers: HashSet<u32> =
            spared.flat_map(|s| ancestors(&table, s)).map(|s| s.process.id.pid).collect();
        let suspicious = pids.into_iter().filter_map(|pid| {
            let seen = table.get(&pid)?;
            let is_young = since_ticks.is_some_and(|t| seen.process.id.start_ticks >= t);
            let is_there = cwd.is_some_and(|cwd| self.stands_in(&seen.process, cwd));
            let nobodys = memo.get(&pid) == Some(&Membership::Stranger)
                && !carriers.contains(&pid)
                && !self.above_agents.contains(&seen.process.id)
                && self.other_of(seen, &table).is_none();
            let orphan = is_reaper(seen.process.parent_pid, table.get(&seen.process.parent_pid));
            let why = if is_young && is_there {
                "may have been started by it; not ended"
            } else if self.is_born_after_the_first_signal(seen) {
                "was started while it was being stopped, maybe by it; not ended"
            } else {
                return None;
            };
            (orphan && nobodys).then(|| survivor(&seen.process, why.into()))
        });
        suspicious.collect()
    }

    fn stands_in(&self, process: &Process, cwd: &Path) -> bool {
        let is_wide = cwd == Path::new("/") || cwd == self.host.home;
        let stands = process.cwd.as_deref();
        stands.is_some_and(|stands| stands == cwd || (!is_wide && stands.starts_with(cwd)))
    }

    fn is_born_after_the_first_signal(&self, seen: &ScannedProcess) -> bool {
        let id = &seen.process.id;
        self.has_begun
            && !seen.foreign
            && !self.before.contains(id)
            && self.host.kernel.liveness(id) != Liveness::Gone
    }
}

fn is_line(verdicts: &HashMap<u32, Membership>, seen: &ScannedProcess) -> bool {
    verdicts.get(&seen.process.id.pid).is_some_and(|verdict| verdict.is_line())
}

pub(super) fn survivor(process: &Process, why: String) -> Survivor {
    Survivor { id: process.id.clone(), pid: process.id.pid, command: command(process), why }
}

/// Returns a process's command line, shortened.
pub(super) fn command(process: &Process) -> String {
    let line = process.argv.join(" ");
    if line.trim().is_empty() { process.comm.clone() } else { shorten(&line, 120) }
}

//! The processes of one session: hold, signal, wait, report. `belonging` decides which processes belong to
//! it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::process_scan::{self, ProcessTable, ScannedProcess, ancestors, is_reaper, parent};
use super::run_folders::RunFolders;
use super::{EndedProcess, How, Left, Survivor};
use crate::adapters::Adapter;
use crate::adapters::control::Mark;
use crate::fleet::Adapters;
use crate::host::Host;
use crate::kernel::{Held, Liveness, Process};
use crate::model::{ProcId, Session, shorten};
use rustix::process::Signal;

/// Another live session. Its processes must not be ended.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) adapter: &'static str,
    pub(super) id: Option<String>,
    pub(super) processes: Vec<ProcId>,
    pub(super) marks: Vec<Mark>,
    /// The session being stopped runs inside this one, so its processes inherit these marks and the marks
    /// prove nothing.
    pub(super) around_us: bool,
    /// This session runs inside the one being stopped, below its agent or shim.
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

    /// Returns its name for messages: `claude-code 2a658488-…`.
    fn name(&self) -> String {
        format!("{} {}", self.adapter, self.id.as_deref().unwrap_or("without a session yet"))
    }
}

/// The starting point of the search for the session's processes.
#[derive(Default)]
pub(super) struct Roots {
    /// The session's own processes, which are ended.
    pub(super) agents: Vec<ProcId>,
    /// Shared servers that host the session and are never signalled.
    pub(super) servers: Vec<ProcId>,
    /// The run that launched the session.
    pub(super) run: Option<String>,
    /// The adapter and the id of the session, by which the folders of its earlier runs name it; `None` in a home that
    /// only processes name.
    pub(super) session: Option<(&'static str, String)>,
    /// Earlier runs of the session: their agents have ended, and their shims stay above the orphans.
    pub(super) earlier_runs: Vec<String>,
    /// The processes that a marker of one of these runs may name: its agent, alive or ended.
    pub(super) marked: Vec<ProcId>,
    /// End also the processes that only a complete marker of the run links to its agent (`--force`).
    pub(super) by_force: bool,
    /// The agent's own marks on the processes that it starts.
    pub(super) marks: Vec<Mark>,
    /// The other live sessions.
    pub(super) others: Vec<Other>,
    /// Adapters that failed to list their sessions: processes that look like their agents are not ended.
    pub(super) doubtful: Vec<&'static dyn Adapter>,
}

impl Roots {
    /// Says whether a run is one of this session.
    pub(super) fn is_own_run(&self, run: &str) -> bool {
        self.run.as_deref() == Some(run) || self.earlier_runs.iter().any(|earlier| earlier == run)
    }
}

/// One process that the session started.
#[derive(Debug)]
struct Member {
    process: Process,
    held: Held,
    /// Why the process belongs to the session.
    verdict: Membership,
    how: How,
    trouble: Option<String>,
    /// SIGKILL was refused, so waiting for it is useless.
    refused: bool,
}

/// The relation of one process to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    Agent,
    Shim,
    /// All its ancestors up to the agent are alive.
    Intact,
    /// A descendant of the shim, or a process in a kernel session that a process of the session opened.
    Loose,
    /// Linked by a complete marker only, and `--force` was given.
    Claimed,
    /// Linked by this variable only; not ended.
    Linked(&'static str),
    Spared(Spared),
    Stranger,
}

impl Membership {
    /// Says whether the process is ended.
    fn is_ours(self) -> bool {
        matches!(self, Self::Intact | Self::Loose | Self::Claimed)
    }

    /// Says whether the descendants of the process were started by the session.
    fn is_line(self) -> bool {
        matches!(self, Self::Agent | Self::Shim | Self::Intact | Self::Loose)
    }
}

/// Why a process is not ended although it may descend from one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spared {
    /// The running `agentctl stop` itself.
    Us,
    /// A process that serves another session or was started by it: the index of that session.
    Session(usize),
    /// A shared server that hosts the session.
    Server,
    /// The shim or the agent of another run.
    Run,
    /// A hook of the run, started by the shim.
    Hook,
    /// This user's daemon.
    Daemon,
    /// A possible agent process of an adapter that did not answer.
    Doubt,
}

/// The known processes of one session.
pub(super) struct Tree<'a> {
    pub(super) host: &'a Host,
    pub(super) roots: Roots,
    pub(super) folders: RunFolders<'a>,
    pub(super) names: Vec<&'static str>,
    members: Vec<Member>,
    /// Leaders of kernel sessions that processes of this session opened.
    pub(super) leaders: Vec<ProcId>,
    /// The run's shim, proved by its folder or by descent.
    pub(super) shims: Vec<ProcId>,
    /// Hooks of the run and the processes that they started.
    pub(super) hooks: HashSet<ProcId>,
    pub(super) ended: Vec<EndedProcess>,
    /// Sessions inside this one, which are not stopped, by pid.
    pub(super) left: BTreeMap<u32, Left>,
    /// Ancestors of another session or of this command, which are therefore not ended.
    carriers: HashMap<ProcId, Survivor>,
    /// Descendants of the agent or its shim that are not ended.
    spared: HashMap<ProcId, Survivor>,
    /// Processes that only an environment variable links to the session.
    linked: HashMap<ProcId, Survivor>,
    unheld: HashMap<ProcId, Survivor>,
    /// Why the last scan was incomplete.
    pub(super) gaps: Vec<String>,
    /// The run's shim is alive, so orphans of the agent are its children.
    pub(super) has_shim: bool,
    /// The pids of the processes above this command, if it runs inside the session.
    pub(super) above_us: HashSet<u32>,
    /// The ancestors of the agent, which it cannot have started.
    pub(super) above_agents: HashSet<ProcId>,
    /// All processes of the last scan before the first signal.
    before: HashSet<ProcId>,
    /// The first signal or request to end may have been sent.
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
        // Finds the enclosing sessions now: after the first signal, parents may be gone and the descent
        // with them.
        let scan = process_scan::scan(host, &tree.names);
        tree.place(&scan.by_pid);
        tree
    }

    /// Scans again and holds every new process of the session; returns their number.
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
                    // Descent from a process that only a marker links proves nothing.
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
                    let why = format!("it could not be opened: {error}");
                    self.unheld.insert(seen.process.id.clone(), survivor(&seen.process, why));
                }
            }
        }
        fresh
    }

    /// Notes that the first signal follows: a process that no scan has shown yet started after it.
    pub(super) fn begin_to_end(&mut self) {
        self.has_begun = true;
    }

    pub(super) fn is_member(&self, id: &ProcId) -> bool {
        self.members.iter().any(|m| m.process.id == *id)
    }

    /// Returns the relation that an earlier scan found for a held process.
    pub(super) fn member_verdict(&self, id: &ProcId) -> Option<Membership> {
        self.members.iter().find(|m| m.process.id == *id).map(|m| m.verdict)
    }

    fn note_leader(&mut self, process: &Process) {
        if process.session == process.id.pid && !self.leaders.contains(&process.id) {
            self.leaders.push(process.id.clone());
        }
    }

    /// Spares processes without intact descent from the agent that have another session or this command
    /// below them (a terminal multiplexer, for example). They are reported, with everything below them left
    /// alone.
    fn leave_carriers(&mut self, table: &ProcessTable, verdicts: &mut HashMap<u32, Membership>) {
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

    /// Records the sessions inside this one, which are not stopped.
    fn name_the_nested(&mut self, table: &ProcessTable, verdicts: &HashMap<u32, Membership>) {
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

    /// Records the topmost descendants of the agent or its shim that are not ended and serve no session, so
    /// that the report names all of them.
    fn name_the_spared(&mut self, table: &ProcessTable, verdicts: &HashMap<u32, Membership>) {
        for seen in table.values() {
            let id = &seen.process.id;
            let Some(Membership::Spared(why)) = verdicts.get(&id.pid) else { continue };
            let topmost = parent(table, seen).is_some_and(|above| is_line(verdicts, above));
            if !topmost || self.spared.contains_key(id) || self.carriers.contains_key(id) {
                continue;
            }
            let why = match why {
                Spared::Us | Spared::Server | Spared::Hook | Spared::Daemon => continue,
                // The session of that run is reported instead of its shim.
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

    fn carries_the_nested(&self, seen: &ScannedProcess, table: &ProcessTable) -> bool {
        self.left
            .keys()
            .filter_map(|pid| table.get(pid))
            .any(|nested| ancestors(table, nested).any(|above| above.process.id == seen.process.id))
    }

    /// Records the topmost processes that only an environment variable links to the session.
    fn name_the_linked(&mut self, table: &ProcessTable, verdicts: &HashMap<u32, Membership>) {
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

    /// Says whether this command runs inside the session.
    pub(super) fn is_around_us(&self) -> bool {
        !self.above_us.is_empty()
    }

    /// Ends all processes except the ancestors of this command, within the time given.
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

    /// Says whether all its processes have ended.
    pub(super) fn is_gone(&mut self) -> bool {
        self.collect_ended();
        self.members.is_empty()
    }

    /// Says whether all its processes have ended that can be signalled.
    pub(super) fn is_spent(&mut self) -> bool {
        self.collect_ended();
        self.members.iter().all(|m| m.refused)
    }

    /// Sends a signal to all its processes, through their handles.
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
            // A stopped process (SIGSTOP) handles the signal only after SIGCONT.
            let paused = Liveness::Alive { paused: true };
            if signal == Signal::TERM && self.host.kernel.liveness(member.held.id()) == paused {
                let _gone = member.held.signal(Signal::CONT);
            }
        }
    }

    /// Stops all its processes (SIGSTOP), so that they start no others until they are killed.
    pub(super) fn freeze(&mut self) {
        for member in &self.members {
            let _gone = member.held.signal(Signal::STOP);
        }
    }

    /// Waits until all its processes have ended, or the timeout; says which.
    pub(super) fn wait(&mut self, limit: std::time::Duration) -> bool {
        let held: Vec<&Held> =
            self.members.iter().filter(|m| !m.refused).map(|m| &m.held).collect();
        // After an error the processes are still checked once.
        let _unsure = Held::wait_for_all(&held, limit);
        self.is_gone()
    }

    /// Moves ended processes to the report and closes their handles.
    fn collect_ended(&mut self) {
        let (gone, living): (Vec<Member>, Vec<Member>) =
            std::mem::take(&mut self.members).into_iter().partition(|m| m.held.has_exited());
        self.members = living;
        self.ended.extend(gone.into_iter().map(|m| EndedProcess {
            pid: m.process.id.pid,
            command: command(&m.process),
            how: m.how,
        }));
    }

    /// Returns all processes of the session that are still alive.
    pub(super) fn survivors(&mut self) -> Vec<Survivor> {
        self.collect_ended();
        // A process that cannot be read any more may live as well.
        let kernel = &self.host.kernel;
        let named = self.carriers.iter().chain(&self.spared).chain(&self.linked);
        let named = named.chain(&self.unheld);
        let living = named.filter(|(id, _)| kernel.liveness(id) != Liveness::Gone);
        let mut all: Vec<Survivor> = living.map(|(_, survivor)| survivor.clone()).collect();
        all.extend(self.members.iter().map(|m| {
            let why = m.trouble.clone().unwrap_or_else(|| "it does not exit".into());
            survivor(&m.process, why)
        }));
        all
    }

    /// Returns orphans that this session may have started without a proof: those in its directory that are
    /// younger than its agent, and those that started after the first signal, in any directory. A process
    /// that is told to end can start another one and leave it without a parent.
    pub(super) fn suspects(&self, cwd: Option<&str>, since_ticks: Option<u64>) -> Vec<Survivor> {
        let cwd = cwd.map(Path::new).filter(|c| c.is_absolute());
        let table = process_scan::scan(self.host, &self.names).by_pid;
        let memo = self.decide_all(&table);
        let mut pids: Vec<u32> = table.keys().copied().collect();
        pids.sort_unstable();
        // An ancestor of this command or of another session is a user's terminal, not a leftover tool.
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

//! Ending a session: ask, wait, kill, sweep what it started, and look again before saying so.
//!
//! Every process is held by a verified handle before the first signal is sent, so that a pid which
//! changes hands meanwhile is never reached. A session in a shared server is ended by asking that server;
//! the server itself is never signalled. No agent is named here.

mod ask;
mod belonging;
mod daemon;
mod failed_launch;
mod process_scan;
mod remote;
mod report;
mod run_folders;
mod tree;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::adapters::control::{Control, Mark, Stop};
use crate::adapters::{Adapter, Root};
use crate::fleet::{self, Adapters, Query};
use crate::host::Host;
use crate::kernel::{Held, Liveness, Process};
use crate::marks::{Marker, marker_of};
use crate::model::{Fault, Join, ProcId, ServingProcess, Session, Status, Target};
use crate::orders::{self, Objection};
pub use failed_launch::{FailedLaunchReport, end_run};
pub use report::{EndedProcess, How, Left, Report, StopVerdict, Survivor};
use run_folders::RunFolders;
use tree::{Other, Roots, Tree};

/// How long all of it may take beyond the agent's own politeness.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the agent's tools get between being asked and being killed.
const GRACE: Duration = Duration::from_secs(1);
/// How long a killed process is waited for.
const DEATH: Duration = Duration::from_secs(2);
/// The pace at which a server's answer is looked for.
const PACE: Duration = Duration::from_millis(20);

/// The fault of a signal that could not be sent.
const SIGNAL: &str = "signal";

/// How a session is to be stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Kill at once.
    pub force: bool,
    /// How long all of it may take.
    pub timeout: Option<Duration>,
}

/// Stops one session, or one agent process without a session.
#[must_use]
pub fn stop(host: &Arc<Host>, adapters: Adapters, target: &Target, options: Options) -> Report {
    let inspected = fleet::inspect(host, adapters, target);
    let Some(session) = inspected.session.clone() else {
        let verdict = if inspected.faults.is_empty() {
            StopVerdict::Already
        } else {
            StopVerdict::Unknown("not every source could be asked".into())
        };
        return Report::bare(verdict, inspected);
    };
    let Some(adapter) = adapters.iter().find(|a| a.name() == session.adapter).copied() else {
        let why = format!("there is no adapter {}", session.adapter);
        return Report::bare(StopVerdict::Refused(why, None), inspected);
    };
    let Some(control) = adapter.control() else {
        let why = format!("{} can only be looked at from here", adapter.name());
        return Report::bare(StopVerdict::Refused(why, None), inspected);
    };
    if control.remote().is_some() {
        return remote::stop(host, adapters, target, (adapter, control), inspected, options);
    }
    if let Some(verdict) = hindrance(&session) {
        return Report::bare(verdict, inspected);
    }
    let mut stopping = Stopping {
        host,
        adapters,
        target,
        options,
        adapter,
        control,
        deadline: Instant::now() + options.timeout.unwrap_or(PATIENCE),
        faults: inspected.faults,
        ended: Vec::new(),
        survivors: Vec::new(),
        left: Vec::new(),
        unseen: None,
        lost_shim: None,
        is_known_home: false,
    };
    let (verdict, after) = stopping.run(&session);
    stopping.faults.sort();
    stopping.faults.dedup();
    Report {
        verdict,
        before: Some(session),
        after,
        ended: stopping.ended,
        survivors: stopping.survivors,
        left: stopping.left,
        notes: Vec::new(),
        lost_shim: stopping.lost_shim,
        faults: stopping.faults,
    }
}

/// What stands in the way before anything is looked at closely.
fn hindrance(session: &Session) -> Option<StopVerdict> {
    let live = session.status.is_live();
    if let Some(parent) = session.parent.as_ref().filter(|_| live) {
        let why = format!("it is a subagent and lives in the process of its parent, {parent}");
        return Some(StopVerdict::Refused(why, Some(format!("stop {parent} instead"))));
    }
    if session.status == Status::Unknown && session.processes.is_empty() {
        let why = session.reason.as_ref().and_then(|r| r.detail.clone());
        return Some(StopVerdict::Unknown(why.unwrap_or_else(|| "no source says".into())));
    }
    None
}

/// One session on its way out.
struct Stopping<'a> {
    host: &'a Arc<Host>,
    adapters: Adapters,
    target: &'a Target,
    options: Options,
    adapter: &'static dyn Adapter,
    control: &'a dyn Control,
    deadline: Instant,
    faults: Vec<Fault>,
    ended: Vec<EndedProcess>,
    survivors: Vec<Survivor>,
    left: Vec<Left>,
    /// What the last look at the processes could not see.
    unseen: Option<String>,
    /// The shim of the run has died before its agent: processes that left the agent have another parent.
    lost_shim: Option<String>,
    /// The user's own settings name the home of the session.
    is_known_home: bool,
}

/// The agent's own processes, held.
struct Agents {
    held: Vec<Held>,
    shown: Vec<Process>,
}

impl Stopping<'_> {
    fn run(&mut self, session: &Session) -> (StopVerdict, Option<Session>) {
        let mut session = session.clone();
        let was_live = session.status.is_live();
        // A session may be served anew while it is being stopped: then that is stopped too.
        for _ in 0..3 {
            let acted = if session.status.is_live() {
                self.end(&session)
            } else {
                self.sweep_after(&session)
            };
            if let Err(verdict) = acted {
                return (verdict, self.look_again());
            }
            if let Some(verdict) = self.process_alone(&session) {
                return (verdict, self.look_again());
            }
            let seen = fleet::inspect(self.host, self.adapters, self.target);
            let seen_faults = seen.faults;
            self.faults.extend(seen_faults.iter().cloned());
            let Some(now) = seen.session else {
                // Nobody knows it; or nobody could say so.
                let silent = seen_faults.iter().find(|f| f.adapter == self.adapter.name());
                return match silent {
                    Some(fault) => (StopVerdict::Unknown(fault.message.clone()), None),
                    None => (self.done(was_live), None),
                };
            };
            match now.status {
                Status::Stopped | Status::Error => return (self.done(was_live), Some(now)),
                _ if session.hosted && now.hosted => {
                    return (StopVerdict::Rests(now.pid.unwrap_or_default()), Some(now));
                }
                Status::Unknown if now.processes.is_empty() => {
                    let why = now.reason.as_ref().and_then(|r| r.detail.clone());
                    let why = format!(
                        "its process has ended, yet whether it is served is not known: {}",
                        why.unwrap_or_default()
                    );
                    return (StopVerdict::Unknown(why), Some(now));
                }
                _ if self.left() == Duration::ZERO => {
                    return (StopVerdict::Failed("it lives on".into()), Some(now));
                }
                _ => session = now,
            }
        }
        (StopVerdict::Failed("it is served again each time it is stopped".into()), Some(session))
    }

    /// Nobody serves it any more; what it had started must have been seen as well.
    fn done(&self, was_live: bool) -> StopVerdict {
        match &self.unseen {
            Some(gap) if was_live => StopVerdict::Unknown(format!(
                "its agent has ended, yet not all it may have started could be seen: {gap}"
            )),
            _ if was_live => StopVerdict::Stopped,
            _ => StopVerdict::Already,
        }
    }

    /// Says what became of a process that was ended by its pid, whichever session it served.
    fn process_alone(&self, session: &Session) -> Option<StopVerdict> {
        if !self.is_process_alone(session) {
            return None;
        }
        let process = session.processes.iter().find(|p| self.target.pid == Some(p.id.pid))?;
        Some(match self.host.kernel.liveness(&process.id) {
            Liveness::Gone => self.done(true),
            Liveness::Alive { .. } => StopVerdict::Failed("it lives on".into()),
            Liveness::Unknown(why) => StopVerdict::Unknown(why),
        })
    }

    fn look_again(&mut self) -> Option<Session> {
        fleet::inspect(self.host, self.adapters, self.target).session
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Ends what serves the session, and everything it has started.
    fn end(&mut self, session: &Session) -> Result<(), StopVerdict> {
        let others = self.others(session);
        if let Some(other) = others.iter().find(|o| shares(o, session)).filter(|_| !session.hosted)
            && !self.options.force
        {
            let who = other.id.as_deref().unwrap_or("another session");
            let why = format!("its process serves {} {who} too", other.adapter);
            return Err(StopVerdict::Refused(why, Some("--force ends both".into())));
        }
        self.by_inference(session)?;
        let look = fleet::look(self.host, self.adapters, self.host.deadlines.all);
        let root = self.home()?;
        let plan = self.control.stop(&look, &root, session);
        match &plan {
            Stop::Run { .. } if !root.is_known() => {
                return Err(Objection::foreign_home(self.adapter.name(), &root).into());
            }
            // In such a home only a process that names it is asked.
            Stop::Ask if !root.is_known() && !is_served_by_those_that_name(&root, session) => {
                return Err(Objection::foreign_home(self.adapter.name(), &root).into());
            }
            Stop::Refuse(why) => return Err(StopVerdict::Refused(why.clone(), None)),
            _ => {}
        }
        if let Stop::Signals(ladder) = plan {
            if session.hosted {
                let why = "its process serves other sessions and is never signalled";
                return Err(StopVerdict::Refused(why.into(), None));
            }
            if self.options.timeout.is_none() {
                self.deadline += ladder.iter().map(|(_, time)| *time).sum();
            }
        }
        let asks = matches!(plan, Stop::Ask);
        let mut agents = self.hold(session)?;
        // They cannot become other processes any more: what is proved of them now stays true.
        let held: Vec<ProcId> = agents.held.iter().map(|h| h.id().clone()).collect();
        orders::verify(self.host, self.adapters, self.target, &held)?;
        if asks {
            agents = Agents { held: Vec::new(), shown: Vec::new() };
        }
        let mut tree = Tree::new(self.host, self.roots(session, &agents, others));
        // All that lives now is held before the first signal.
        while tree.grow() > 0 && !self.left().is_zero() {}
        let since = agents.held.iter().map(|h| h.id().start_ticks).min();
        if tree.is_around_us() {
            // An agent that is asked to end ends its tools, and this command is one: do the rest first.
            tree.end_beside_us(GRACE.min(self.left() / 4));
        }
        tree.begin_to_end();
        match plan {
            Stop::Signals(ladder) => self.signal(&agents, ladder, &mut tree),
            Stop::Run { program, args, set } => {
                self.ask_program(&agents, &ask::AgentCommand { program, args, set })?;
            }
            Stop::Ask => self.ask_server(&look, &root, session)?,
            Stop::Refuse(_) => {}
        }
        self.bury(agents);
        self.sweep(tree, session, since);
        Ok(())
    }

    /// Returns the home of the session as it stands now.
    fn home(&mut self) -> Result<Root, Objection> {
        let root = orders::home(self.host, self.adapters, self.target)?;
        self.is_known_home = root.is_known();
        Ok(root)
    }

    /// Refuses to act on a join by directory and start time. The typed pid of such a process means the
    /// process, not the session.
    fn by_inference(&self, session: &Session) -> Result<(), StopVerdict> {
        let inferred = |p: &&ServingProcess| p.join == Join::Inferred;
        match session.processes.iter().find(inferred) {
            Some(process) if !self.is_process_alone(session) => {
                Err(orders::inferred(process.id.pid).into())
            }
            _ => Ok(()),
        }
    }

    /// Says whether a person typed the pid of a process that is not proved to serve the session: then that
    /// process alone is ended.
    fn is_process_alone(&self, session: &Session) -> bool {
        session
            .processes
            .iter()
            .any(|p| p.join == Join::Inferred && self.target.pid == Some(p.id.pid))
    }

    /// Takes hold of the agent's own processes.
    fn hold(&self, session: &Session) -> Result<Agents, StopVerdict> {
        let mut agents = Agents { held: Vec::new(), shown: Vec::new() };
        let alone = self.is_process_alone(session).then_some(self.target.pid).flatten();
        let serving = session.processes.iter().map(|serving| &serving.id);
        for id in serving.filter(|id| alone.is_none_or(|pid| pid == id.pid)) {
            let held = self.host.kernel.hold(id).map_err(|error| {
                StopVerdict::Failed(format!("pid {} could not be taken hold of: {error}", id.pid))
            })?;
            let Some(held) = held else { continue };
            if let Ok(Some(process)) = self.host.kernel.process(id.pid) {
                agents.shown.push(process);
                agents.held.push(held);
            }
        }
        Ok(agents)
    }

    /// Everybody else who lives.
    fn others(&mut self, session: &Session) -> Vec<Other> {
        let query = Query { resting: true, ..Query::default() };
        let listing = fleet::list(self.host, self.adapters, &query);
        self.faults.extend(listing.faults);
        let same = |s: &Session| {
            s.adapter == session.adapter
                && s.root == session.root
                && s.id == session.id
                && (s.id.is_some() || s.pid == session.pid)
        };
        let others = listing.sessions.into_iter().filter(|s| !same(s));
        others.map(|other| Other::of(self.adapters, other)).collect()
    }

    fn roots(&self, session: &Session, agents: &Agents, others: Vec<Other>) -> Roots {
        let ids: Vec<ProcId> = agents.held.iter().map(|h| h.id().clone()).collect();
        let markers: Vec<Marker> =
            agents.shown.iter().filter_map(|p| marker_of(self.host, p)).collect();
        let run = self.own_run(session, agents, &markers, &others);
        let folders = RunFolders::of(self.host);
        let started = run.as_deref().and_then(|run| folders.started(run));
        let marked = ids.iter().cloned().chain(started.map(|s| s.process)).collect();
        // One process is shared knowingly then: it is ended, whoever else it serves.
        let mut others = others;
        for other in &mut others {
            other.processes.retain(|p| !ids.contains(p));
        }
        Roots {
            servers: if ids.is_empty() { session.process_ids() } else { Vec::new() },
            agents: ids,
            run,
            marked,
            by_force: self.options.force,
            marks: self.marks(session),
            others,
            doubtful: doubtful(self.adapters, &self.faults),
        }
    }

    fn marks(&self, session: &Session) -> Vec<Mark> {
        self.control.marks(session)
    }

    /// Returns the run that launched this very session. The text alone does not say so: an agent started
    /// by hand inside a launched one carries that one's, and an agent may write any text. Where the run's
    /// folder names its agent, only that process is it.
    fn own_run(
        &self,
        session: &Session,
        agents: &Agents,
        markers: &[Marker],
        others: &[Other],
    ) -> Option<String> {
        let folders = RunFolders::of(self.host);
        let named = markers.iter().find(|m| {
            let mut held = agents.held.iter().map(Held::id);
            held.any(|id| m.names(id) && folders.may_be_agent(&m.run, id))
        });
        if let Some(marker) = named {
            return Some(marker.run.clone());
        }
        // The process that was marked may be a wrapper with the agent below it.
        let wrapped = markers.iter().find(|marker| {
            let wrapper = self.host.kernel.process(marker.pid).ok().flatten();
            wrapper.filter(|w| marker.names(&w.id)).is_some_and(|w| {
                folders.may_be_agent(&marker.run, &w.id)
                    && !others.iter().any(|o| o.processes.contains(&w.id))
                    && agents.shown.iter().any(|agent| descends(self.host, agent, &w.id))
            })
        });
        if let Some(marker) = wrapped {
            return Some(marker.run.clone());
        }
        // A run knows its session by its id, and another home may hold a session of the same id.
        session.run.clone().filter(|_| self.is_known_home)
    }

    /// Asks by signals, one after the other, then kills.
    fn signal(&mut self, agents: &Agents, ladder: &[(Signal, Duration)], tree: &mut Tree<'_>) {
        let mut how = How::Asked;
        if !self.options.force {
            for (signal, patience) in ladder {
                for held in &agents.held {
                    self.send(held, *signal);
                }
                // What is left must be enough to kill and to sweep.
                let reserve = GRACE.min(self.left() / 2);
                let patience = (*patience).min(self.left().saturating_sub(reserve));
                if Held::wait_for_all(&agents.held, patience).unwrap_or(false) {
                    break;
                }
            }
        }
        let living: Vec<&Held> = agents.held.iter().filter(|h| !h.has_exited()).collect();
        if !living.is_empty() {
            how = How::Killed;
            if self.options.force {
                tree.signal_all(Signal::KILL, How::Killed);
            }
            for held in &living {
                self.send(held, Signal::KILL);
            }
            // Whether it has died is told by the next look.
            let _dead = Held::wait_for_all(&living, DEATH);
        }
        for process in &agents.shown {
            let dead = agents.held.iter().any(|h| h.id() == &process.id && h.has_exited());
            let killed = living.iter().any(|h| h.id() == &process.id);
            let how = if killed { how } else { How::Asked };
            if dead {
                let command = tree::command(process);
                self.ended.push(EndedProcess { pid: process.id.pid, command, how });
            }
        }
    }

    fn send(&mut self, held: &Held, signal: Signal) {
        let paused = self.host.kernel.liveness(held.id()) == Liveness::Alive { paused: true };
        match held.signal(signal) {
            // One that a signal holds must be let go to hear another.
            Ok(true) if paused => drop(held.signal(Signal::CONT)),
            Ok(_) => {}
            Err(error) => {
                let message = format!("pid {} could not be signalled: {error}", held.id().pid);
                let adapter = self.adapter.name();
                self.faults.push(Fault { adapter, root: None, code: SIGNAL, message });
            }
        }
    }

    fn bury(&mut self, agents: Agents) {
        for (held, process) in agents.held.iter().zip(&agents.shown) {
            if !held.has_exited() {
                self.survivors.push(tree::survivor(process, "it does not end".into()));
            }
        }
    }

    /// Sweeps what a session that nobody serves has left behind, where its marks prove it.
    fn sweep_after(&mut self, session: &Session) -> Result<(), StopVerdict> {
        let others = self.others(session);
        let none = Agents { held: Vec::new(), shown: Vec::new() };
        let look = fleet::look(self.host, self.adapters, self.host.deadlines.live);
        let root = self.home()?;
        // One that is about to be served again is kept from it.
        if let Stop::Run { program, args, set } = self.control.stop(&look, &root, session) {
            if !root.is_known() {
                return Err(Objection::foreign_home(self.adapter.name(), &root).into());
            }
            self.ask_program(&none, &ask::AgentCommand { program, args, set })?;
        }
        let mut tree = Tree::new(self.host, self.roots(session, &none, others));
        while tree.grow() > 0 && !self.left().is_zero() {}
        self.sweep(tree, session, None);
        Ok(())
    }

    /// Ends everything the session has started: asked first, then killed, until a look finds nothing.
    fn sweep(&mut self, mut tree: Tree<'_>, session: &Session, since: Option<u64>) {
        tree.grow();
        if !tree.is_gone() && !self.options.force {
            tree.signal_all(Signal::TERM, How::Asked);
            tree.wait(GRACE.min(self.left()));
        }
        let mut killed = false;
        loop {
            let fresh = tree.grow();
            if (tree.is_spent() && fresh == 0) || (killed && self.left().is_zero()) {
                break;
            }
            killed = true;
            // What is held still starts nothing new: look until nothing new is found, then kill.
            tree.freeze();
            while tree.grow() > 0 && !self.left().is_zero() {
                tree.freeze();
            }
            tree.signal_all(Signal::KILL, How::Killed);
            tree.wait(DEATH.min(self.left().max(GRACE / 4)));
        }
        self.unseen = tree.gaps.pop();
        self.survivors.extend(tree.survivors());
        self.lost_shim = tree.lost_shim().or(self.lost_shim.take());
        if !tree.has_shim || self.lost_shim.is_some() {
            self.survivors.extend(tree.suspects(session.cwd.as_deref(), since));
        }
        self.survivors.sort_by_key(|s| s.pid);
        self.survivors.dedup_by_key(|s| s.pid);
        self.ended.append(&mut tree.ended);
        self.left.extend(std::mem::take(&mut tree.left).into_values());
    }
}

/// Returns the adapters with a fault of their own, not of one of their homes: all their sessions may be
/// missing.
fn doubtful(adapters: Adapters, faults: &[Fault]) -> Vec<&'static dyn Adapter> {
    let lost = faults.iter().filter(|f| f.root.is_none() && f.code != SIGNAL);
    let lost: Vec<&str> = lost.map(|f| f.adapter).collect();
    adapters.iter().filter(|a| lost.contains(&a.name())).copied().collect()
}

fn shares(other: &Other, session: &Session) -> bool {
    other.processes.iter().any(|p| session.is_served_by(p))
}

/// Says whether all processes of a session are among those that name its home.
fn is_served_by_those_that_name(root: &Root, session: &Session) -> bool {
    let names = |serving: &ServingProcess| root.named_by.contains(&serving.id);
    !session.processes.is_empty() && session.processes.iter().all(names)
}

/// Says whether a process descends from another process.
fn descends(host: &Host, process: &Process, from: &ProcId) -> bool {
    host.kernel.ancestors(process).any(|above| above.id == *from)
}

//! Stopping a session: ask its agent to end, wait, kill, end the processes it started, and look again
//! before reporting success.
//!
//! Every process is held by a verified handle (pidfd) before the first signal is sent, so that a recycled
//! pid is never signalled. A session in a shared server is stopped by asking that server; the server itself
//! is never signalled. No agent is named here.

mod ask;
mod belonging;
mod daemon;
mod doubt;
mod end_order;
mod failed_launch;
mod process_scan;
mod remote;
mod report;
mod run_folders;
mod tree;

use std::time::{Duration, Instant};

use rustix::process::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::adapters::control::{Control, Stop};
use crate::adapters::{Adapter, Root};
use crate::fleet::{self, Adapters, Fleet, Query};
use crate::host::Host;
use crate::kernel::{Held, Liveness, Process};
use crate::marks::{Marker, marker_of};
use crate::model::{
    EndedBy, EndedByKind, Fault, FaultCode, HomeScope, Join, ProcId, ServingProcess, Session,
    Status, Target,
};
use crate::orders::{self, Objection};
use crate::runs::Run;
pub use failed_launch::{FailedLaunchReport, end_run};
pub use report::{EndedProcess, How, Left, Report, StopFailureCode, StopVerdict, Survivor};
use run_folders::RunFolders;
use tree::{Other, Roots, Tree};

/// Default timeout of a stop, in addition to the time that the agent's own signals are given.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between SIGTERM and SIGKILL for the processes that the agent started.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// Timeout for the exit of a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two looks while a server is ending a turn.
const SERVER_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Options of a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopOptions {
    /// Kill without asking first.
    pub force: bool,
    /// Timeout of the whole stop of one session, in milliseconds.
    pub timeout_ms: Option<u64>,
}

impl StopOptions {
    fn timeout(self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

/// Stops one session, or one agent process without a session. A launched agent's run records who ordered it.
#[must_use]
pub fn stop(fleet: &Fleet, target: &Target, options: StopOptions) -> Report {
    let detail = Some("agentctl stop".to_owned());
    stop_for(fleet, target, options, &EndedBy { kind: EndedByKind::Stop, detail })
}

/// Stops one session, or one agent process without a session, on this order.
#[must_use]
pub fn stop_for(
    fleet: &Fleet,
    target: &Target,
    options: StopOptions,
    ordered_by: &EndedBy,
) -> Report {
    let inspected = fleet::inspect(fleet, target);
    let Some(session) = inspected.session.clone() else {
        let verdict = if inspected.faults.is_empty() {
            StopVerdict::Already
        } else {
            StopVerdict::Unknown("not every source could be asked".into())
        };
        return Report::bare(verdict, inspected);
    };
    let Some(adapter) = fleet.adapters.iter().find(|a| a.name() == session.adapter).copied() else {
        let why = format!("there is no adapter {}", session.adapter);
        return Report::bare(StopVerdict::Refused(why, None), inspected);
    };
    let Some(control) = adapter.control() else {
        let why = format!("{} sessions can only be observed from here", adapter.name());
        return Report::bare(StopVerdict::Refused(why, None), inspected);
    };
    if control.remote().is_some() {
        return remote::stop(fleet, target, (adapter, control), inspected, options);
    }
    if let Some(verdict) = precheck(&session) {
        return Report::bare(verdict, inspected);
    }
    let mut stopping = Stopping {
        fleet,
        target,
        options,
        ordered_by,
        ordered_run: None,
        adapter,
        control,
        deadline: Instant::now() + options.timeout().unwrap_or(STOP_TIMEOUT),
        faults: inspected.faults,
        ended: Vec::new(),
        survivors: Vec::new(),
        left: Vec::new(),
        unseen: None,
        lost_shim: None,
        is_known_home: false,
    };
    let (verdict, after) = stopping.run(&session);
    stopping.settle_order(after.as_ref());
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

/// Returns the verdict for a session that cannot be stopped at all: a live subagent, or one of unknown
/// status without a process.
fn precheck(session: &Session) -> Option<StopVerdict> {
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

/// The stop of one session in progress.
struct Stopping<'a> {
    fleet: &'a Fleet,
    target: &'a Target,
    options: StopOptions,
    ordered_by: &'a EndedBy,
    /// The run into which the order was written.
    ordered_run: Option<Run>,
    adapter: &'static dyn Adapter,
    control: &'a dyn Control,
    deadline: Instant,
    faults: Vec<Fault>,
    ended: Vec<EndedProcess>,
    survivors: Vec<Survivor>,
    left: Vec<Left>,
    /// Why the last process scan was incomplete.
    unseen: Option<String>,
    /// The run's shim died before the agent, so processes that left the agent have another parent and
    /// cannot be found.
    lost_shim: Option<String>,
    /// The user's own settings name the home of the session.
    is_known_home: bool,
}

/// The agent's own processes and their handles.
struct Agents {
    held: Vec<Held>,
    shown: Vec<Process>,
}

impl Stopping<'_> {
    fn run(&mut self, session: &Session) -> (StopVerdict, Option<Session>) {
        let mut session = session.clone();
        let was_live = session.status.is_live();
        // The session may be served by a new process meanwhile; that one is stopped too, up to three times.
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
            let seen = self.seen_without_doubt();
            self.faults.extend(seen.faults.iter().cloned());
            let Some(now) = seen.session else {
                // The session is gone from its store, unless its adapter failed to answer.
                let silent = seen.faults.iter().find(|f| f.adapter == self.adapter.name());
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
                        "its process has ended, but whether another process runs it is unknown: {}",
                        why.unwrap_or_default()
                    );
                    return (StopVerdict::Unknown(why), Some(now));
                }
                _ if self.left() == Duration::ZERO => {
                    return (StopVerdict::Failed("it is still running".into()), Some(now));
                }
                _ => session = now,
            }
        }
        (StopVerdict::Failed("it is started again each time it is stopped".into()), Some(session))
    }

    /// Returns the verdict once no process serves the session. An incomplete process scan makes it unknown
    /// whether everything the session started has ended.
    fn done(&self, was_live: bool) -> StopVerdict {
        match &self.unseen {
            Some(gap) if was_live => StopVerdict::Unknown(format!(
                "its agent has ended, but not all processes that it may have started could be seen: {gap}"
            )),
            _ if was_live => StopVerdict::Stopped,
            _ => StopVerdict::Already,
        }
    }

    /// Returns the verdict for a process that was stopped by its pid, independently of the session it
    /// served.
    fn process_alone(&self, session: &Session) -> Option<StopVerdict> {
        if !self.is_process_alone(session) {
            return None;
        }
        let process = session.processes.iter().find(|p| self.target.pid == Some(p.id.pid))?;
        Some(match self.fleet.host.kernel.liveness(&process.id) {
            Liveness::Gone => self.done(true),
            Liveness::Alive { .. } => StopVerdict::Failed("it is still running".into()),
            Liveness::Unknown(why) => StopVerdict::Unknown(why),
        })
    }

    fn look_again(&mut self) -> Option<Session> {
        fleet::inspect(self.fleet, self.target).session
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Ends the processes that serve the session, and those that they started.
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
        let look = fleet::look(self.fleet, self.fleet.host.deadlines.all);
        let root = self.home()?;
        let plan = self.control.stop(&look, &root, session);
        match &plan {
            Stop::Run { .. } if !root.is_known() => {
                return Err(Objection::foreign_home(self.adapter.name(), &root).into());
            }
            // In a home that is not configured, only a process that named it is asked.
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
            if self.options.timeout_ms.is_none() {
                self.deadline += ladder.iter().map(|(_, time)| *time).sum();
            }
        }
        let asks = matches!(plan, Stop::Ask);
        let mut agents = self.hold(session)?;
        // The handles keep these identities stable, so the proof stays true until the signal.
        let held: Vec<ProcId> = agents.held.iter().map(|h| h.id().clone()).collect();
        orders::verify(self.fleet, self.target, &held)?;
        if asks {
            agents = Agents { held: Vec::new(), shown: Vec::new() };
        }
        let roots = self.roots(session, &agents, others);
        self.write_order(roots.run.as_deref());
        let mut tree = Tree::new(&self.fleet.host, roots);
        // Hold every process that lives now before the first signal.
        while tree.grow() > 0 && !self.left().is_zero() {}
        let since = agents.held.iter().map(|h| h.id().start_ticks).min();
        if tree.is_around_us() {
            // This command runs inside the session: the agent would end it with its tools, so end
            // everything else first.
            tree.end_beside_us(TERM_GRACE.min(self.left() / 4));
        }
        tree.begin_to_end();
        match plan {
            Stop::Signals(ladder) => {
                self.ask_to_leave(&look, session, &agents);
                self.signal(&agents, ladder, &mut tree);
            }
            Stop::Run { program, args, set } => {
                self.ask_program(&agents, &ask::AgentCommand { program, args, set })?;
            }
            Stop::Ask => self.ask_server(&look, &root, session)?,
            Stop::Refuse(_) => {}
        }
        self.record_survivors(agents);
        self.sweep(tree, session, since);
        Ok(())
    }

    /// Returns the current home of the session.
    fn home(&mut self) -> Result<Root, Objection> {
        let root = orders::home(self.fleet, self.target)?;
        self.is_known_home = root.is_known();
        Ok(root)
    }

    /// Refuses a session whose process is joined by directory and start time only. If the user typed the
    /// pid of that process, the process is meant, not the session.
    fn by_inference(&self, session: &Session) -> Result<(), StopVerdict> {
        let inferred = |p: &&ServingProcess| p.join == Join::Inferred;
        match session.processes.iter().find(inferred) {
            Some(process) if !self.is_process_alone(session) => {
                Err(orders::inferred(process.id.pid).into())
            }
            _ => Ok(()),
        }
    }

    /// Says whether the user typed the pid of a process that is not proved to serve the session: then only
    /// that process is ended.
    fn is_process_alone(&self, session: &Session) -> bool {
        session
            .processes
            .iter()
            .any(|p| p.join == Join::Inferred && self.target.pid == Some(p.id.pid))
    }

    /// Opens handles to the agent's own processes.
    fn hold(&self, session: &Session) -> Result<Agents, StopVerdict> {
        let mut agents = Agents { held: Vec::new(), shown: Vec::new() };
        let alone = self.is_process_alone(session).then_some(self.target.pid).flatten();
        let serving = session.processes.iter().map(|serving| &serving.id);
        for id in serving.filter(|id| alone.is_none_or(|pid| pid == id.pid)) {
            let held = self.fleet.host.kernel.hold(id).map_err(|error| {
                StopVerdict::Failed(format!("pid {} could not be opened: {error}", id.pid))
            })?;
            let Some(held) = held else { continue };
            if let Ok(Some(process)) = self.fleet.host.kernel.process(id.pid) {
                agents.shown.push(process);
                agents.held.push(held);
            }
        }
        Ok(agents)
    }

    /// Returns all other live sessions.
    fn others(&mut self, session: &Session) -> Vec<Other> {
        let query = Query { resting: true, ..Query::default() };
        let listing = fleet::list(self.fleet, &query);
        self.faults.extend(listing.faults);
        let same = |s: &Session| {
            s.adapter == session.adapter
                && s.root == session.root
                && s.id == session.id
                && (s.id.is_some() || s.pid == session.pid)
        };
        let others = listing.sessions.into_iter().filter(|s| !same(s));
        others.map(|other| Other::of(self.fleet.adapters, other)).collect()
    }

    fn roots(&self, session: &Session, agents: &Agents, others: Vec<Other>) -> Roots {
        let ids: Vec<ProcId> = agents.held.iter().map(|h| h.id().clone()).collect();
        let markers: Vec<Marker> =
            agents.shown.iter().filter_map(|p| marker_of(&self.fleet.host, p)).collect();
        let run = self.own_run(session, agents, &markers, &others);
        let folders = RunFolders::of(&self.fleet.host);
        let started = run.as_deref().and_then(|run| folders.started(run));
        let marked = ids.iter().cloned().chain(started.map(|s| s.process)).collect();
        // Only with `force`: a process that serves several sessions is ended although it serves the others too.
        let mut others = others;
        for other in &mut others {
            other.processes.retain(|p| !ids.contains(p));
        }
        Roots {
            servers: if ids.is_empty() { session.process_ids() } else { Vec::new() },
            agents: ids,
            run,
            session: session
                .id
                .clone()
                .filter(|_| self.is_known_home)
                .map(|id| (session.adapter, id)),
            earlier_runs: Vec::new(),
            marked,
            by_force: self.options.force,
            marks: self.control.marks(session),
            others,
            doubtful: doubtful(self.fleet.adapters, &self.faults),
        }
    }

    /// Returns the run that launched this session. The marker alone does not prove it: an agent started by
    /// hand inside a launched one inherits the marker, and an agent can write any marker. If the run's
    /// folder names its agent process, only that process counts.
    fn own_run(
        &self,
        session: &Session,
        agents: &Agents,
        markers: &[Marker],
        others: &[Other],
    ) -> Option<String> {
        let folders = RunFolders::of(&self.fleet.host);
        let named = markers.iter().find(|m| {
            let mut held = agents.held.iter().map(Held::id);
            held.any(|id| m.names(id) && folders.may_be_agent(&m.run, id))
        });
        if let Some(marker) = named {
            return Some(marker.run.clone());
        }
        // The marked process may be a wrapper with the agent as its descendant.
        let wrapped = markers.iter().find(|marker| {
            let wrapper = self.fleet.host.kernel.process(marker.pid).ok().flatten();
            wrapper.filter(|w| marker.names(&w.id)).is_some_and(|w| {
                folders.may_be_agent(&marker.run, &w.id)
                    && !others.iter().any(|o| o.processes.contains(&w.id))
                    && agents.shown.iter().any(|agent| descends(&self.fleet.host, agent, &w.id))
            })
        });
        if let Some(marker) = wrapped {
            return Some(marker.run.clone());
        }
        // A run names its session by id only, and another home may hold a session of the same id.
        session.run.clone().filter(|_| self.is_known_home)
    }

    /// Sends the agent's own signals one after the other, then kills.
    fn signal(&mut self, agents: &Agents, ladder: &[(Signal, Duration)], tree: &mut Tree<'_>) {
        let mut how = How::Asked;
        if !self.options.force {
            for (signal, patience) in ladder {
                for held in &agents.held {
                    self.send(held, *signal);
                }
                // Reserve time to kill and to end the other processes.
                let reserve = TERM_GRACE.min(self.left() / 2);
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
            // The next look tells whether it has died.
            let _dead = Held::wait_for_all(&living, KILL_TIMEOUT);
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
        let paused = self.fleet.host.kernel.liveness(held.id()) == Liveness::Alive { paused: true };
        match held.signal(signal) {
            // A stopped process (SIGSTOP) handles the signal only after SIGCONT.
            Ok(true) if paused => drop(held.signal(Signal::CONT)),
            Ok(_) => {}
            Err(error) => {
                let message = format!("pid {} could not be signalled: {error}", held.id().pid);
                let adapter = self.adapter.name();
                self.faults.push(Fault { adapter, root: None, code: FaultCode::Signal, message });
            }
        }
    }

    fn record_survivors(&mut self, agents: Agents) {
        for (held, process) in agents.held.iter().zip(&agents.shown) {
            if !held.has_exited() {
                self.survivors.push(tree::survivor(process, "it does not exit".into()));
            }
        }
    }

    /// Ends the processes that a session without a serving process has left behind, as far as descent
    /// proves that they belong to it.
    fn sweep_after(&mut self, session: &Session) -> Result<(), StopVerdict> {
        let others = self.others(session);
        let none = Agents { held: Vec::new(), shown: Vec::new() };
        let look = fleet::look(self.fleet, self.fleet.host.deadlines.live);
        let root = self.home()?;
        // Keeps a supervisor of the agent from serving the session again.
        if let Stop::Run { program, args, set } = self.control.stop(&look, &root, session) {
            if !root.is_known() {
                return Err(Objection::foreign_home(self.adapter.name(), &root).into());
            }
            self.ask_program(&none, &ask::AgentCommand { program, args, set })?;
        }
        let mut tree = Tree::new(&self.fleet.host, self.roots(session, &none, others));
        while tree.grow() > 0 && !self.left().is_zero() {}
        self.sweep(tree, session, None);
        Ok(())
    }

    /// Ends the processes that the session started: SIGTERM, then SIGKILL, until a scan finds none.
    fn sweep(&mut self, mut tree: Tree<'_>, session: &Session, since: Option<u64>) {
        tree.grow();
        if !tree.is_gone() && !self.options.force {
            tree.signal_all(Signal::TERM, How::Asked);
            tree.wait(TERM_GRACE.min(self.left()));
        }
        let mut killed = false;
        loop {
            let fresh = tree.grow();
            if (tree.is_spent() && fresh == 0) || (killed && self.left().is_zero()) {
                break;
            }
            killed = true;
            // A stopped process starts no others: stop and scan until no new process is found, then kill.
            tree.freeze();
            while tree.grow() > 0 && !self.left().is_zero() {
                tree.freeze();
            }
            tree.signal_all(Signal::KILL, How::Killed);
            tree.wait(KILL_TIMEOUT.min(self.left().max(TERM_GRACE / 4)));
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

/// Returns the adapters with a fault that is not limited to one home: all their sessions may be missing
/// from the list.
fn doubtful(adapters: Adapters, faults: &[Fault]) -> Vec<&'static dyn Adapter> {
    let hides = |adapter: &str| faults.iter().any(|f| f.hides(adapter, HomeScope::Unnamed));
    adapters.iter().filter(|adapter| hides(adapter.name())).copied().collect()
}

fn shares(other: &Other, session: &Session) -> bool {
    other.processes.iter().any(|p| session.is_served_by(p))
}

/// Says whether all processes of a session are among those that named its home.
fn is_served_by_those_that_name(root: &Root, session: &Session) -> bool {
    let names = |serving: &ServingProcess| root.named_by.contains(&serving.id);
    !session.processes.is_empty() && session.processes.iter().all(names)
}

/// Says whether a process descends from another process.
fn descends(host: &Host, process: &Process, from: &ProcId) -> bool {
    host.kernel.ancestors(process).any(|above| above.id == *from)
}

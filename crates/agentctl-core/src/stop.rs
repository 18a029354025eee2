//! Ending a session: ask, wait, kill, sweep what it started, and look again before saying so.
//!
//! Every process is held by a verified handle before the first signal is sent, so that a pid which
//! changes hands meanwhile is never reached. A session in a shared server is ended by asking that server;
//! the server itself is never signalled. No agent is named here.

mod act;
mod remote;
mod run;
mod seen;
mod tree;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use schemars::JsonSchema;
use serde::Serialize;

use crate::adapters::control::{Control, Mark, Stop};
use crate::adapters::{Adapter, Look, Root};
use crate::fleet::{self, Adapters, Inspected, Query};
use crate::host::Host;
use crate::kernel::{Held, Liveness, Process};
use crate::model::{Fault, ProcId, Session, Status, Target};
use crate::runs::{Marker, marker_of};
pub use run::end_run;
pub use seen::DAEMON;
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

/// How a process came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It was asked to.
    Asked,
    /// It was killed.
    Killed,
    /// By itself, or by the agent that had started it.
    Itself,
}

/// A process that has ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Ended {
    /// Its pid.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// How it ended.
    pub how: How,
}

/// A process that lives on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Survivor {
    /// Its pid.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// Why it lives.
    pub why: String,
}

/// A session inside the stopped one that was left alone: it is one of its own.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Left {
    /// The process that serves it.
    pub pid: u32,
    /// Its adapter.
    pub adapter: &'static str,
    /// Its id.
    pub session: Option<String>,
}

/// What became of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was ended, and the next look at it says so.
    Stopped,
    /// Nothing served it when we came.
    Already,
    /// Its turn is over; it rests in this shared server.
    Rests(u32),
    /// It would be unsafe, or it cannot be done from here; and what to do instead.
    Refused(String, Option<String>),
    /// Whether it lives cannot be told.
    Unknown(String),
    /// It lives on.
    Failed(String),
}

/// What was done about one session.
#[derive(Debug)]
pub struct Report {
    /// What became of it.
    pub verdict: Verdict,
    /// The session as it was before.
    pub before: Option<Session>,
    /// The session as the last look showed it; `None` when nothing knows it any more.
    pub after: Option<Session>,
    /// What has ended: the agent first, then what it had started.
    pub ended: Vec<Ended>,
    /// What has not.
    pub survivors: Vec<Survivor>,
    /// Sessions inside it that were left alone.
    pub left: Vec<Left>,
    /// What else is worth saying.
    pub notes: Vec<String>,
    /// What could not be asked on the way.
    pub faults: Vec<Fault>,
}

impl Report {
    fn bare(verdict: Verdict, inspected: Inspected) -> Self {
        Self {
            verdict,
            before: inspected.session.clone(),
            after: inspected.session,
            ended: Vec::new(),
            survivors: Vec::new(),
            left: Vec::new(),
            notes: Vec::new(),
            faults: inspected.faults,
        }
    }
}

/// Stops one session, or one agent process without a session.
#[must_use]
pub fn stop(host: &Arc<Host>, adapters: Adapters, target: &Target, options: Options) -> Report {
    let inspected = fleet::inspect(host, adapters, target);
    let Some(session) = inspected.session.clone() else {
        let verdict = if inspected.faults.is_empty() {
            Verdict::Already
        } else {
            Verdict::Unknown("not every source could be asked".into())
        };
        return Report::bare(verdict, inspected);
    };
    let Some(adapter) = adapters.iter().find(|a| a.name() == session.adapter).copied() else {
        let why = format!("there is no adapter {}", session.adapter);
        return Report::bare(Verdict::Refused(why, None), inspected);
    };
    let Some(control) = adapter.control() else {
        let why = format!("{} can only be looked at from here", adapter.name());
        return Report::bare(Verdict::Refused(why, None), inspected);
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
        faults: stopping.faults,
    }
}

/// What stands in the way before anything is looked at closely.
fn hindrance(session: &Session) -> Option<Verdict> {
    let live = session.status.is_live();
    if let Some(parent) = session.parent.as_ref().filter(|_| live) {
        let why = format!("it is a subagent and lives in the process of its parent, {parent}");
        return Some(Verdict::Refused(why, Some(format!("stop {parent} instead"))));
    }
    if session.status == Status::Unknown && session.processes.is_empty() {
        let why = session.reason.as_ref().and_then(|r| r.detail.clone());
        return Some(Verdict::Unknown(why.unwrap_or_else(|| "no source says".into())));
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
    ended: Vec<Ended>,
    survivors: Vec<Survivor>,
    left: Vec<Left>,
    /// What the last look at the processes could not see.
    unseen: Option<String>,
}

/// The agent's own processes, held.
struct Agents {
    held: Vec<Held>,
    shown: Vec<Process>,
}

impl Stopping<'_> {
    fn run(&mut self, session: &Session) -> (Verdict, Option<Session>) {
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
            let seen = fleet::inspect(self.host, self.adapters, self.target);
            let seen_faults = seen.faults;
            self.faults.extend(seen_faults.iter().cloned());
            let Some(now) = seen.session else {
                // Nobody knows it; or nobody could say so.
                let silent = seen_faults.iter().find(|f| f.adapter == self.adapter.name());
                return match silent {
                    Some(fault) => (Verdict::Unknown(fault.message.clone()), None),
                    None => (self.done(was_live), None),
                };
            };
            match now.status {
                Status::Stopped | Status::Error => return (self.done(was_live), Some(now)),
                _ if session.hosted && now.hosted => {
                    return (Verdict::Rests(now.pid.unwrap_or_default()), Some(now));
                }
                Status::Unknown if now.processes.is_empty() => {
                    let why = now.reason.as_ref().and_then(|r| r.detail.clone());
                    let why = format!(
                        "its process has ended, yet whether it is served is not known: {}",
                        why.unwrap_or_default()
                    );
                    return (Verdict::Unknown(why), Some(now));
                }
                _ if self.left() == Duration::ZERO => {
                    return (Verdict::Failed("it lives on".into()), Some(now));
                }
                _ => session = now,
            }
        }
        (Verdict::Failed("it is served again each time it is stopped".into()), Some(session))
    }

    /// Nobody serves it any more; what it had started must have been seen as well.
    fn done(&self, was_live: bool) -> Verdict {
        match &self.unseen {
            Some(gap) if was_live => Verdict::Unknown(format!(
                "its agent has ended, yet not all it may have started could be seen: {gap}"
            )),
            _ if was_live => Verdict::Stopped,
            _ => Verdict::Already,
        }
    }

    fn look_again(&mut self) -> Option<Session> {
        fleet::inspect(self.host, self.adapters, self.target).session
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Ends what serves the session, and everything it has started.
    fn end(&mut self, session: &Session) -> Result<(), Verdict> {
        let others = self.others(session);
        if let Some(other) = others.iter().find(|o| shares(o, session)).filter(|_| !session.hosted)
            && !self.options.force
        {
            let who = other.id.as_deref().unwrap_or("another session");
            let why = format!("its process serves {} {who} too", other.adapter);
            return Err(Verdict::Refused(why, Some("--force ends both".into())));
        }
        let look = fleet::look(self.host, self.adapters, self.host.deadlines.all);
        let root = self.root(&look, session);
        let plan = self.control.stop(&look, &root, session);
        if let Stop::Refuse(why) = plan {
            return Err(Verdict::Refused(why, None));
        }
        if let Stop::Signals(ladder) = plan {
            if session.hosted {
                let why = "its process serves other sessions and is never signalled";
                return Err(Verdict::Refused(why.into(), None));
            }
            if self.options.timeout.is_none() {
                self.deadline += ladder.iter().map(|(_, time)| *time).sum();
            }
        }
        let asks = matches!(plan, Stop::Ask);
        let agents =
            if asks { Agents { held: Vec::new(), shown: Vec::new() } } else { self.hold(session)? };
        let mut tree = Tree::new(self.host, self.roots(session, &agents, others));
        // All that lives now is held before the first signal.
        while tree.grow() > 0 && !self.left().is_zero() {}
        let since = agents.held.iter().map(|h| h.id().start_ticks).min();
        if tree.is_around_us() {
            // An agent that is asked to end ends its tools, and this command is one: do the rest first.
            tree.end_beside_us(GRACE.min(self.left() / 4));
        }
        match plan {
            Stop::Signals(ladder) => self.signal(&agents, ladder, &mut tree),
            Stop::Run { program, args, set } => {
                self.ask_program(&agents, &act::Order { program, args, set })?;
            }
            Stop::Ask => self.ask_server(&look, &root, session)?,
            Stop::Refuse(_) => {}
        }
        self.bury(agents);
        self.sweep(tree, session, since);
        Ok(())
    }

    /// Takes hold of the agent's own processes.
    fn hold(&self, session: &Session) -> Result<Agents, Verdict> {
        let mut agents = Agents { held: Vec::new(), shown: Vec::new() };
        for id in session.processes.iter().map(|serving| &serving.id) {
            let held = self.host.kernel.hold(id).map_err(|error| {
                Verdict::Failed(format!("pid {} could not be taken hold of: {error}", id.pid))
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

    fn root(&self, look: &Look, session: &Session) -> Root {
        let limit = look.deadline.saturating_duration_since(Instant::now());
        let roots = fleet::roots_of(self.host, self.adapters, self.adapter.name(), limit).rows;
        let known = roots.into_iter().find(|r| r.label() == session.root);
        known.unwrap_or_else(|| Root::named_only_by(session.root.clone().into(), Vec::new()))
    }

    fn roots(&self, session: &Session, agents: &Agents, others: Vec<Other>) -> Roots {
        let ids: Vec<ProcId> = agents.held.iter().map(|h| h.id().clone()).collect();
        let markers: Vec<Marker> =
            agents.shown.iter().filter_map(|p| marker_of(self.host, p)).collect();
        let run = self.own_run(session, agents, &markers, &others);
        let text = markers.first().map(|m| m.run.clone()).or_else(|| run.clone());
        // One process is shared knowingly then: it is ended, whoever else it serves.
        let mut others = others;
        for other in &mut others {
            other.processes.retain(|p| !ids.contains(p));
        }
        Roots {
            servers: if ids.is_empty() { session.process_ids() } else { Vec::new() },
            agents: ids,
            run,
            text,
            marks: self.marks(session),
            others,
            doubtful: doubtful(self.adapters, &self.faults),
        }
    }

    fn marks(&self, session: &Session) -> Vec<Mark> {
        self.control.marks(session)
    }

    /// Returns the run that launched this very session. The text alone does not say so: an agent started
    /// by hand inside a launched one carries that one's.
    fn own_run(
        &self,
        session: &Session,
        agents: &Agents,
        markers: &[Marker],
        others: &[Other],
    ) -> Option<String> {
        let named = markers.iter().find(|m| agents.held.iter().any(|h| m.names(h.id())));
        if let Some(marker) = named {
            return Some(marker.run.clone());
        }
        // The process that was marked may be a wrapper with the agent below it.
        let wrapped = markers.iter().find(|marker| {
            let wrapper = self.host.kernel.process(marker.pid).ok().flatten();
            wrapper.filter(|w| marker.names(&w.id)).is_some_and(|w| {
                !others.iter().any(|o| o.processes.contains(&w.id))
                    && agents.shown.iter().any(|a| self.descends(a, &w.id))
            })
        });
        if let Some(marker) = wrapped {
            return Some(marker.run.clone());
        }
        session.run.clone()
    }

    fn descends(&self, process: &Process, from: &ProcId) -> bool {
        let mut at = process.parent_pid;
        for _ in 0..64 {
            if at == from.pid {
                return true;
            }
            match self.host.kernel.process(at) {
                Ok(Some(above)) if above.parent_pid != at && at > 1 => at = above.parent_pid,
                _ => return false,
            }
        }
        false
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
                self.ended.push(Ended { pid: process.id.pid, command, how });
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
                let (pid, command) = (process.id.pid, tree::command(process));
                self.survivors.push(Survivor { pid, command, why: "it does not end".into() });
            }
        }
    }

    /// Sweeps what a session that nobody serves has left behind, where its marks prove it.
    fn sweep_after(&mut self, session: &Session) -> Result<(), Verdict> {
        let others = self.others(session);
        let none = Agents { held: Vec::new(), shown: Vec::new() };
        let look = fleet::look(self.host, self.adapters, self.host.deadlines.live);
        let root = self.root(&look, session);
        // One that is about to be served again is kept from it.
        if let Stop::Run { program, args, set } = self.control.stop(&look, &root, session) {
            self.ask_program(&none, &act::Order { program, args, set })?;
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
        if let Some(since) = since.filter(|_| !tree.has_shim) {
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

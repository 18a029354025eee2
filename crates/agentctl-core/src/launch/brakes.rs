//! The limits of launches from below an agent: how deep agents may start agents, and how many of them may live.
//!
//! The parent and the depth of a launch are derived from the kernel's line of processes above the launching one.
//! They travel in the environment of the launched agent and are read from there when that agent launches another
//! one; the folder of its run has a copy. The greatest depth that any of these sources proves counts: a process
//! cannot lower it by changing its own environment. A source that cannot be read refuses the launch.
//!
//! A person's launch passes without a look at sessions and without the lock.

use std::fs::File;
use std::time::Instant;

use super::{LaunchError, io};
use crate::adapters::Adapter;
use crate::fleet::Fleet;
use crate::host::{Host, LaunchLimits};
use crate::inbox::{Answerer, AnswererAbove, AnswererLink};
use crate::kernel::{Brief, Environ, Liveness, Process};
use crate::marks::{self, LAUNCHED_BY, LaunchMark, MARKER, Marker, hook};
use crate::model::ProcId;
use crate::native::private;
use crate::runs::Runs;
use crate::state_files::{EnterError, open_mutex, take};

/// The lock file in the runtime folder under which live children are counted.
const LOCK_FILE: &str = "children.lock";
/// Most readings of the line of processes above a launch, if one of them ends while it is read.
const MAX_LOOKS: u32 = 6;

/// A launch from below an agent that may go on.
pub(super) struct Braked {
    /// The mark of the agent that is launched.
    pub(super) mark: LaunchMark,
    limits: LaunchLimits,
}

/// Returns the brakes of a launch by this process; `None` if no agent is above it and no mark of one in the
/// environment. Fails if the launched agent would be too deep, or if that is not known.
///
/// A process of the line that ends while the line is read leaves another line behind, which is read anew: the
/// `agentctl launch` above an agent's shim ends in the moment in which that agent may launch the next one.
pub(super) fn of_this_process(fleet: &Fleet) -> Result<Option<Braked>, LaunchError> {
    let mut looks = 1;
    loop {
        match look(fleet) {
            Err(Unread::Ended(_)) if looks < MAX_LOOKS => {
                std::thread::park_timeout(std::time::Duration::from_millis(1 << looks));
                looks += 1;
            }
            Err(Unread::Ended(why)) => return Err(LaunchError::UnknownDepth { why }),
            Err(Unread::Refused(error)) => return Err(error),
            Ok(braked) => return Ok(braked),
        }
    }
}

/// Why a look at the processes above a launch does not let it go on.
enum Unread {
    /// A process of the line ended while the line was read, for this reason of a refusal.
    Ended(String),
    Refused(LaunchError),
}

impl From<LaunchError> for Unread {
    fn from(error: LaunchError) -> Self {
        Self::Refused(error)
    }
}

fn look(fleet: &Fleet) -> Result<Option<Braked>, Unread> {
    let kernel = &fleet.host.kernel;
    let unknown = |why: String| LaunchError::UnknownDepth { why };
    let this = kernel.process(std::process::id()).map_err(|error| unknown(error.to_string()))?;
    let this = this.ok_or_else(|| unknown("this process cannot be seen".to_owned()))?;
    if !may_be_below(fleet, &this) {
        return Ok(None);
    }
    let caller = Answerer::this_process(fleet);
    if let Some(why) = caller.unseen {
        return Err(unknown(why).into());
    }
    let inherited =
        inherited_marks(&fleet.host, &this).map_err(|error| unknown(error.to_string()))?;
    if caller.above.is_empty() && inherited.is_empty() {
        return Ok(None);
    }
    let mut above = Marked::of(&fleet.host, &caller)?;
    inherited.into_iter().flatten().for_each(|mark| above.count(&mark, 0));
    let limits = above.limits(limits(fleet, &caller));
    let depth = above.depth;
    if depth >= limits.depth {
        return Err(LaunchError::TooDeep { depth, limit: limits.depth }.into());
    }
    let mark = mark(&fleet.host, &caller, (depth + 1, limits));
    Ok(Some(Braked { mark, limits }))
}

/// Checks whether this process may launch so many agents now. The launches themselves check it again, under the
/// lock.
pub(crate) fn check(fleet: &Fleet, agents: usize) -> Result<(), LaunchError> {
    match of_this_process(fleet)? {
        Some(braked) => braked.check_children(&fleet.host, agents),
        None => Ok(()),
    }
}

impl Braked {
    /// Takes the lock and checks that the parent may have one more live child. The lock must be held until the
    /// shim of the child runs, because the next count finds the child by its shim.
    pub(super) fn enter(&self, host: &Host) -> Result<File, LaunchError> {
        const WHAT: &str = "the lock of launches from below an agent cannot be taken";
        private::directory(&host.runtime()).map_err(io(WHAT))?;
        let file = open_mutex(&host.runtime().join(LOCK_FILE)).map_err(io(WHAT))?;
        let lock =
            take(file, Instant::now() + host.deadlines.launch).map_err(|error| match error {
                EnterError::Busy => LaunchError::UnknownDepth {
                    why: "other launches held the lock under which children are counted".to_owned(),
                },
                EnterError::Io(source) => LaunchError::Io { what: WHAT, source },
            })?;
        self.check_children(host, 1)?;
        Ok(lock)
    }

    /// Checks that the parent may have this many more live children.
    pub(super) fn check_children(&self, host: &Host, more: usize) -> Result<(), LaunchError> {
        let alive = self.live_children(host)?;
        let limit = self.limits.children;
        if alive + more > limit as usize {
            let parent = self.mark.session.as_ref();
            let parent = parent.map(|(adapter, id)| format!("{adapter} {id}"));
            return Err(LaunchError::TooManyChildren { parent, alive, more, limit });
        }
        Ok(())
    }

    /// Counts the runs of this parent that live: their shims, and their agents where the shim was killed. Both
    /// have the mark of the launch in their environment.
    fn live_children(&self, host: &Host) -> Result<usize, LaunchError> {
        let until = Instant::now() + host.deadlines.live;
        let table = host.kernel.table(until, |_| true);
        if let Some(gap) = table.gaps.first() {
            return Err(LaunchError::UnknownDepth { why: gap.clone() });
        }
        let mut runs = Vec::new();
        for process in &table.processes {
            let Some(run) = child_of(host, process, &self.mark, until) else { continue };
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
        Ok(runs.len())
    }
}

/// Returns the run of a process, if it is the shim or the agent of a launch by the same parent. A shim whose
/// environment cannot be read counts, because it may be one. A shim whose agent has ended, and that stays above
/// the orphans of the agent, does not.
fn child_of(host: &Host, process: &Process, mark: &LaunchMark, until: Instant) -> Option<String> {
    let shim = marks::shim_of(process).map(str::to_owned);
    if shim.as_deref().is_some_and(|run| Runs::of(host).run(run).agent_has_ended(host)) {
        return None;
    }
    let values = loop {
        match host.kernel.environ_now(&process.id, &[LAUNCHED_BY, MARKER]) {
            Ok(Environ::Values(values)) => break values,
            Ok(Environ::Forming) if Instant::now() < until => {
                std::thread::park_timeout(std::time::Duration::from_micros(200));
            }
            Ok(Environ::Empty) => return None,
            Ok(Environ::Forming) | Err(_) => {
                let lives = host.kernel.process(process.id.pid).ok().flatten();
                return shim.filter(|_| lives.is_some_and(|now| now.id == process.id));
            }
        }
    };
    let theirs = values.first()?.as_deref().and_then(LaunchMark::parse)?;
    let marker = values.get(1)?.as_deref().and_then(Marker::parse);
    let own = marker.filter(|marker| marker.names(&process.id)).map(|marker| marker.run);
    shim.or(own).filter(|_| theirs.has_parent_of(mark))
}

/// Says whether an agent may be above a process, by names, marks and the scripts of runtimes only: a person's launch pays
/// no look.
fn may_be_below(fleet: &Fleet, this: &Process) -> bool {
    let kernel = &fleet.host.kernel;
    // A line that is not complete is left to the whole check.
    let Ok(line) = kernel.line(this) else { return true };
    let controls = fleet.adapters.iter().filter_map(|adapter| adapter.control());
    let mut variables: Vec<&str> =
        controls.flat_map(|control| control.own_variables().iter().copied()).collect();
    variables.extend([MARKER, LAUNCHED_BY, hook::FUSE_ID]);
    line.iter().enumerate().any(|(at, process)| {
        let exe = process.exe.as_deref().and_then(|exe| exe.file_name()?.to_str());
        let brief = Brief { comm: &process.comm, exe_name: exe.unwrap_or_default() };
        let may_be = |a: &&dyn Adapter| a.is_candidate(brief) || a.is_suspect(process);
        let is_candidate = || at > 0 && fleet.adapters.iter().any(may_be);
        let is_marked = || match kernel.environ(&process.id, &variables) {
            Ok(values) => values.iter().any(Option::is_some),
            // Not readable: of another user, or in an exec. The whole check decides.
            Err(_) => process.uid == Some(kernel.uid()),
        };
        marks::shim_of(process).is_some()
            || marks::is_fuse_action(process)
            || is_candidate()
            || is_marked()
    })
}

/// Returns the limits that count for a caller. Raised limits count only in the configuration file with which the
/// agents above were started, and as it was then: a process below an agent can name another file or change this one.
fn limits(fleet: &Fleet, caller: &Answerer) -> LaunchLimits {
    let (configured, usual) = (fleet.host.launch_limits, LaunchLimits::default());
    if caller.shares_configuration(fleet) && caller.began_after_configuration(fleet) {
        return configured;
    }
    LaunchLimits {
        depth: configured.depth.min(usual.depth),
        children: configured.children.min(usual.children),
    }
}

/// An agent above the caller: its links, and the sessions that they name.
struct Level<'a> {
    links: Vec<&'a AnswererAbove>,
}

impl Level<'_> {
    fn is_of(&self, link: &AnswererAbove) -> bool {
        let same = |own: &&AnswererAbove| {
            own.pid == link.pid || (own.session.is_some() && own.session == link.session)
        };
        self.links.iter().any(same)
    }
}

/// The depth of the nearest agent above, as far as the agents above prove it, and the limits that counted for them.
#[derive(Default)]
struct Marked {
    /// The depth: 0 for the first agent, one more for each launch or nested agent.
    depth: u32,
    /// The smallest limits of the launches above.
    most: Option<(u32, u32)>,
}

impl Marked {
    fn of(host: &Host, caller: &Answerer) -> Result<Self, Unread> {
        let mut all = Self::default();
        for (nearer, level) in levels(caller).iter().enumerate() {
            let nearer = u32::try_from(nearer).unwrap_or(u32::MAX);
            all.depth = all.depth.max(nearer);
            for link in &level.links {
                marks_above(host, link)?.iter().for_each(|mark| all.count(mark, nearer));
            }
        }
        Ok(all)
    }

    /// Takes note of the mark of an agent with this many agents between it and the caller.
    fn count(&mut self, mark: &LaunchMark, nearer: u32) {
        self.depth = self.depth.max(mark.depth.saturating_add(nearer));
        let (depth, children) = self.most.unwrap_or(mark.limits);
        self.most = Some((depth.min(mark.limits.0), children.min(mark.limits.1)));
    }

    /// Returns limits that are not greater than those of the launches above.
    fn limits(&self, own: LaunchLimits) -> LaunchLimits {
        let (depth, children) = self.most.unwrap_or((own.depth, own.children));
        LaunchLimits { depth: own.depth.min(depth), children: own.children.min(children) }
    }
}

/// Returns the agents above, nearest first.
fn levels(caller: &Answerer) -> Vec<Level<'_>> {
    let mut levels: Vec<Level<'_>> = Vec::new();
    let is_launcher = |link| matches!(link, AnswererLink::Launcher | AnswererLink::EndedLauncher);
    let above = caller.above.iter().filter(|above| !is_launcher(above.link));
    for link in above {
        let is_agent = matches!(link.link, AnswererLink::Agent | AnswererLink::Shim);
        match levels.iter_mut().find(|level| level.is_of(link)) {
            Some(level) => level.links.push(link),
            // A program without a known session may be a part of the agent below it: it is no level of its own.
            None if is_agent && link.session.is_some() => levels.push(Level { links: vec![link] }),
            None => match levels.last_mut() {
                Some(level) => level.links.push(link),
                None => levels.push(Level { links: vec![link] }),
            },
        }
    }
    levels
}

/// Returns the marks that a process above the caller proves: by its own environment, by that of the agent whose
/// marker it carries, and by the copies in the folders of their runs.
fn marks_above(host: &Host, link: &AnswererAbove) -> Result<Vec<LaunchMark>, Unread> {
    let process = match host.kernel.process(link.pid) {
        Ok(Some(process)) => process,
        Ok(None) => return Err(Unread::Ended(unreadable(link.pid, "it has ended"))),
        Err(error) => {
            let why = unreadable(link.pid, &error.to_string());
            return Err(LaunchError::UnknownDepth { why }.into());
        }
    };
    let copy = |run: &str| {
        let spec = Runs::of(host).run(run).spec()?;
        LaunchMark::parse(&spec.launched_by?)
    };
    let mut found: Vec<LaunchMark> = marks::shim_of(&process).and_then(copy).into_iter().collect();
    let (own, marker) = match marks_of(host, &process.id) {
        Ok(values) => values,
        // The copy in the run's folder says it too.
        Err(_) if !found.is_empty() => return Ok(found),
        Err(error) => return Err(unread(host, &process.id, &error)),
    };
    found.extend(own);
    if let Some(marker) = marker {
        found.extend(copy(&marker.run));
        let agent = host.kernel.process(marker.pid).ok().flatten();
        let agent = agent.filter(|agent| marker.names(&agent.id) && agent.id != process.id);
        if let Some(agent) = agent {
            let (mark, _) =
                marks_of(host, &agent.id).map_err(|error| unread(host, &agent.id, &error))?;
            found.extend(mark);
        }
    }
    Ok(found)
}

fn unreadable(pid: u32, why: &str) -> String {
    format!("the environment of process {pid} above this one cannot be read: {why}")
}

/// Says whether the environment of a process cannot be read because the process has ended.
fn unread(host: &Host, process: &ProcId, error: &std::io::Error) -> Unread {
    let why = unreadable(process.pid, &error.to_string());
    if host.kernel.liveness(process) == Liveness::Gone {
        return Unread::Ended(why);
    }
    LaunchError::UnknownDepth { why }.into()
}

/// Returns the marks that this process and those above it have inherited, also from agents that have ended: a
/// process that an agent left behind is still not a person. `None` stands for an agent without a launch mark.
fn inherited_marks(host: &Host, this: &Process) -> std::io::Result<Vec<Option<LaunchMark>>> {
    let marks =
        host.kernel.line(this)?.into_iter().filter_map(|process| marks_of(host, &process.id).ok());
    let marked = marks.filter(|(mark, marker)| mark.is_some() || marker.is_some());
    Ok(marked.map(|(mark, _)| mark).collect())
}

fn marks_of(
    host: &Host,
    process: &ProcId,
) -> std::io::Result<(Option<LaunchMark>, Option<Marker>)> {
    let values = host.kernel.environ(process, &[LAUNCHED_BY, MARKER])?;
    let text = |at: usize| values.get(at).and_then(Option::as_deref);
    Ok((text(0).and_then(LaunchMark::parse), text(1).and_then(Marker::parse)))
}

/// Returns the mark of an agent that the caller launches. Its parent is the nearest agent above: its session if there
/// is exactly one, and its process. The action of a fuse, a process whose agent has ended, and one that only carries the
/// mark of an agent whose session is not known, have neither: all their launches share one parent.
fn mark(host: &Host, caller: &Answerer, (depth, limits): (u32, LaunchLimits)) -> LaunchMark {
    let nearest = caller.nearest_agent();
    let session = match nearest.as_slice() {
        [one] => one.session.as_ref(),
        _ => None,
    };
    let process = nearest.first().filter(|link| session.is_some() || link.link.is_ancestor());
    let process = process.and_then(|link| host.kernel.process(link.pid).ok().flatten());
    LaunchMark {
        depth,
        limits: (limits.depth, limits.children),
        session: session.map(|session| (session.adapter.to_owned(), session.id.clone())),
        process: process.map(|process| (process.id.pid, process.id.start_ticks)),
    }
}

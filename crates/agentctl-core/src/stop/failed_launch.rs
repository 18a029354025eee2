//! Cleans up after a failed launch: ends the agent of a run without a session, and the processes below its
//! shim.

use std::time::Instant;

use rustix::process::Signal;

use super::tree::{Other, Roots, Tree};
use super::{How, KILL_TIMEOUT, Left, STOP_TIMEOUT, Survivor, doubtful};
use crate::fleet::{self, Fleet, Query};
use crate::host::Host;
use crate::kernel::{Held, Process};
use crate::model::{ProcId, Session};
use crate::runs::{self, Runs};

/// The processes and sessions that outlived the cleanup of a run.
#[derive(Debug)]
pub struct FailedLaunchReport {
    /// Sessions that run inside this one and were not stopped.
    pub left: Vec<Left>,
    /// Processes of the run, or linked to it, that are still alive.
    pub survivors: Vec<Survivor>,
}

/// Ends the processes of a run that has no session. Other sessions that run inside it are not stopped, as
/// in a stop.
#[allow(clippy::must_use_candidate)] // it is called to end them
pub fn end_run(fleet: &Fleet, run: &str) -> FailedLaunchReport {
    let until = Instant::now() + STOP_TIMEOUT;
    let marked = runs::agents(&fleet.host).filter(|(_, marker)| marker.run == run);
    let agents: Vec<Held> =
        marked.filter_map(|(p, _)| fleet.host.kernel.hold(&p.id).ok().flatten()).collect();
    let ids: Vec<ProcId> = agents.iter().map(|h| h.id().clone()).collect();
    let listing = fleet::list(fleet, &Query { resting: true, ..Query::default() });
    let own = own(&fleet.host, run, &ids, &listing.sessions);
    let others = listing.sessions.into_iter().zip(own).filter(|(_, own)| !own);
    let roots = Roots {
        marked: ids.clone(),
        agents: ids,
        run: Some(run.to_owned()),
        others: others.map(|(session, _)| Other::of(fleet.adapters, session)).collect(),
        doubtful: doubtful(fleet.adapters, &listing.faults),
        ..Roots::default()
    };
    let mut tree = Tree::new(&fleet.host, roots);
    // Hold every process that lives now before the first signal.
    while tree.grow() > 0 && Instant::now() < until {}
    loop {
        for agent in &agents {
            let _gone = agent.signal(Signal::KILL);
        }
        tree.signal_all(Signal::KILL, How::Killed);
        // The next scan tells whether they have died.
        let _dead = Held::wait_for_all(&agents, KILL_TIMEOUT);
        tree.wait(KILL_TIMEOUT);
        let over = tree.grow() == 0 && tree.is_spent() && agents.iter().all(Held::has_exited);
        if over || Instant::now() >= until {
            break;
        }
    }
    let survivors = tree.survivors();
    FailedLaunchReport { left: std::mem::take(&mut tree.left).into_values().collect(), survivors }
}

/// Says for each session whether the run was to begin it. A session in a shared server never counts: the
/// server may have been started by the run, but it serves other sessions too.
fn own(host: &Host, run: &str, agents: &[ProcId], sessions: &[Session]) -> Vec<bool> {
    let adapter = Runs::of(host).run(run).spec().map(|spec| spec.adapter);
    let served = |s: &Session| s.processes.iter().any(|p| agents.contains(&p.id));
    // The process that was marked may be a wrapper with the agent below it.
    let wrapped = !sessions.iter().any(served);
    let all = sessions.iter().map(|session| {
        let alike = adapter.as_deref() == Some(session.adapter);
        let below = || {
            let mut processes = session.processes.iter();
            processes.any(|p| is_next_below(host, &p.id, agents, sessions))
        };
        !session.hosted && (served(session) || (wrapped && alike && below()))
    });
    all.collect()
}

/// Says whether a process descends from one of these agents without another session's process in between.
fn is_next_below(host: &Host, from: &ProcId, agents: &[ProcId], sessions: &[Session]) -> bool {
    let Ok(Some(process)) = host.kernel.process(from.pid) else { return false };
    let serves = |above: &Process| sessions.iter().any(|s| s.is_served_by(&above.id));
    let first =
        host.kernel.ancestors(&process).find(|above| agents.contains(&above.id) || serves(above));
    first.is_some_and(|above| agents.contains(&above.id))
}

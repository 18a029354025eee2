//! Stop of a Claude Code session, and the variables that mark its children.
//!
//! On SIGTERM it kills its tools, removes its live record and exits. A background session belongs to
//! Claude Code's own daemon, which would start it again, so that daemon is asked.

use std::time::Duration;

use rustix::process::Signal;
use serde::Deserialize;

use crate::adapters::control::{Mark, Stop};
use crate::adapters::{Look, Root};
use crate::model::{Session, is_session_id};
use crate::native::file;

/// An exit takes a quarter of a second; a busy machine gets more.
const LADDER: &[(Signal, Duration)] = &[(Signal::TERM, Duration::from_secs(5))];
/// Length of the id prefix by which the daemon knows a background session.
const SHORT: usize = 8;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    kind: Option<String>,
    job_id: Option<String>,
}

/// Returns how to stop this session.
pub(in crate::adapters) fn plan(look: &Look, root: &Root, session: &Session) -> Stop {
    let kept = session.processes.iter().find_map(|p| background(look, root, p.id.pid));
    let kept = kept.or_else(|| crashed(look, root, session));
    let Some(kept) = kept else { return Stop::Signals(LADDER) };
    let short = || session.id.as_deref().and_then(|id| id.get(..SHORT)).map(str::to_owned);
    let Some(job) = kept.job_id.filter(|j| is_session_id(j)).or_else(short) else {
        return Stop::Refuse("it is a background session without an id".into());
    };
    // Only the user's own installation: a program that a process chose is never executed.
    let Some(program) = look.host.which("claude") else {
        let why = "only `claude stop` can end it, and there is no `claude` on the PATH";
        return Stop::Refuse(why.into());
    };
    let usual = file::resolve_root(&look.host.home.join(".claude"));
    let moved = (root.path() != usual).then(|| ("CLAUDE_CONFIG_DIR".to_owned(), root.label()));
    let args = vec!["stop".into(), job.into()];
    Stop::Run { program, args, set: moved.into_iter().collect() }
}

/// Returns the live record of a process if Claude Code's daemon owns it.
fn background(look: &Look, root: &Root, pid: u32) -> Option<Kept> {
    let path = root.path().join("sessions").join(format!("{pid}.json"));
    let uid = look.host.kernel.uid();
    // The record is rewritten in place, so a torn read is retried.
    let read = || file::read_small(&path, uid, 256 << 10).ok();
    let kept: Kept =
        (0..5).find_map(|_| read().and_then(|bytes| serde_json::from_slice(&bytes).ok()))?;
    kept.kind.as_deref().is_some_and(|kind| kind == "bg").then_some(kept)
}

/// Returns the job of a background session that was killed: its daemon restarts it within seconds.
fn crashed(look: &Look, root: &Root, session: &Session) -> Option<Kept> {
    let id = session.id.as_deref().filter(|_| session.processes.is_empty())?;
    let job = id.get(..SHORT)?;
    let path = root.path().join("jobs").join(job).join("state.json");
    let bytes = file::read_small(&path, look.host.kernel.uid(), 1 << 20).ok()?;
    let state: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    (state["state"] == "crashed" && state["sessionId"] == id)
        .then(|| Kept { kind: None, job_id: Some(job.to_owned()) })
}

/// Returns the variables that its tools and hooks carry.
pub(in crate::adapters) fn marks(session: &Session) -> Vec<Mark> {
    let id = session.id.iter().map(|id| Mark { name: "CLAUDE_CODE_SESSION_ID", value: id.clone() });
    let pids = session.processes.iter().filter(|_| !session.hosted);
    let pids = pids.map(|p| Mark { name: "CLAUDE_PID", value: p.id.pid.to_string() });
    id.chain(pids).collect()
}

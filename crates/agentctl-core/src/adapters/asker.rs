//! The asker: our own process that an agent starts as a hook when it needs a permission, and that holds the ask
//! until it is answered.
//!
//! The ask lies in a sealed memory file of the asker: every process of the user can read it, nobody can change
//! it, and it ends with the asker. So a living asker below a proved agent *is* the open ask; there is no table.
//! The asker itself is a part of the binary. An adapter says what the input of the hook means ([`AskHook`]).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Look;
use crate::kernel::Process;
use crate::marks::ASKER;
use crate::model::{ProcId, Reply, digest};

/// The folder of the sockets of askers, in the runtime folder.
pub const ASKS_FOLDER: &str = "asks";
/// The short name that an asker gives its process: it is found by it, whatever the file of this program is called.
pub const ASKER_COMM: &str = "agentctl";
/// The name of the memory file.
pub const HELD_ASK: &str = "agentctl-ask";
/// Largest input of a hook that is read.
pub const MAX_INPUT_BYTES: u64 = 1 << 20;
/// Largest held ask that is read: the input, and what the asker adds.
const MAX_HELD_BYTES: u64 = MAX_INPUT_BYTES + (64 << 10);
/// Most processes between an agent and its asker: a shell that runs the hook, and a wrapper.
const MAX_STEPS: usize = 4;

/// The content of the memory file of an asker.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HeldAsk {
    /// The adapter.
    pub adapter: String,
    /// The pid of the agent that asks.
    pub agent_pid: u32,
    /// The start time of the agent.
    pub agent_start_ticks: u64,
    /// The session that asks.
    pub session_id: String,
    /// When the asker began, in milliseconds since 1970.
    pub since_ms: i64,
    /// When the agent stops waiting for the hook, in milliseconds since 1970.
    pub until_ms: Option<i64>,
    /// The socket on which the asker takes the answer.
    pub socket: PathBuf,
    /// The input of the hook.
    pub input: Value,
}

/// A living asker.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Its process.
    pub process: ProcId,
    /// The id of the ask, which covers the process and everything that it holds.
    pub ask: String,
    /// The ask.
    pub held: HeldAsk,
}

/// The answer that an asker is sent: one line.
#[derive(Debug, Deserialize, Serialize)]
pub struct AskerOrder {
    /// The id of the ask.
    pub ask: String,
    /// The answer.
    pub reply: Reply,
}

/// The reply of an asker: one line.
#[derive(Debug, Deserialize, Serialize)]
pub struct AskerReply {
    /// The answer was given to the agent.
    pub taken: bool,
    /// Why not.
    pub why: Option<String>,
}

/// Returns the id of the ask that a process holds.
#[must_use]
pub fn ask_id(process: &ProcId, held: &[u8]) -> String {
    let text = String::from_utf8_lossy(held);
    let process = format!("{}/{}", process.pid, process.start_ticks);
    digest(&[&process, &text])
}

/// Returns the living askers below this agent, oldest first. The process of the agent was proved by the caller.
#[must_use]
pub fn askers_of(look: &Look, agent: &ProcId) -> Vec<Asker> {
    let kernel = &look.host.kernel;
    let is_asker = |process: &&Process| {
        process.argv.get(1).is_some_and(|word| word == ASKER)
            && process.uid == Some(kernel.uid())
            && !process.elsewhere
            && kernel.ancestors(process).take(MAX_STEPS).any(|above| above.id == *agent)
    };
    let found = look.table.processes.iter().filter(is_asker).filter_map(|process| {
        let bytes = kernel.held_text(&process.id, HELD_ASK, MAX_HELD_BYTES).ok()??;
        let held: HeldAsk = serde_json::from_slice(&bytes).ok()?;
        let is_its = held.agent_pid == agent.pid && held.agent_start_ticks == agent.start_ticks;
        let ask = ask_id(&process.id, &bytes);
        is_its.then(|| Asker { process: process.id.clone(), ask, held })
    });
    let mut found: Vec<Asker> = found.collect();
    found.sort_by_key(|asker| (asker.held.since_ms, asker.process.pid));
    found
}

/// The processes above an asker, nearest first: one of them is its agent.
pub fn above<'a>(look: &'a Look, asker: &Process) -> impl Iterator<Item = Process> + 'a {
    look.host.kernel.ancestors(asker).take(MAX_STEPS)
}

/// An ask that a hook was called for.
#[derive(Clone, Debug)]
pub struct HookedAsk {
    /// The agent, proved.
    pub agent: ProcId,
    /// The session.
    pub session_id: String,
    /// The input of the hook.
    pub input: Value,
    /// The ask may also be settled in another way, of which the hook is not told: see [`AskHook::state`].
    pub has_other_ways: bool,
    /// The record of the conversation that asks, and its length in bytes when the hook was called.
    pub record: Option<(PathBuf, u64)>,
}

/// Whether an ask is still open, as far as the agent's own files say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookState {
    /// The agent waits.
    Open,
    /// The agent does not wait.
    NotOpen,
    /// The files do not say.
    Unknown,
}

/// The hook of one agent, as its adapter understands it.
pub trait AskHook: Sync {
    /// Reads the input of the hook and finds the agent above the asker; `None` if the input is none of this
    /// agent, or the agent is not proved to serve that session.
    fn open(&self, look: &Look, asker: &Process, input: &[u8]) -> Option<HookedAsk>;

    /// Says whether the agent still waits for an answer.
    fn state(&self, look: &Look, ask: &HookedAsk) -> HookState;

    /// Returns the output of the hook that gives this answer, or why the ask does not take it.
    fn decision(&self, input: &Value, reply: &Reply) -> Result<Vec<u8>, String>;

    /// Returns settings of the agent, as JSON, with which it starts the asker for every ask.
    fn settings(
        &self,
        program: &std::path::Path,
        runtime: &std::path::Path,
        seconds: u64,
    ) -> String;

    /// Says into which file of the agent a person merges these settings.
    fn settings_file(&self) -> &'static str;
}

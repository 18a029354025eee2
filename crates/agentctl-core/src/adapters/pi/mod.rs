//! Pi: append-only session files below `~/.pi/agent/sessions/`, and processes that reveal almost
//! nothing.
//!
//! Pi keeps no live record, holds no file open and overwrites its own arguments, so a process is joined
//! to a session by the environment of its tools, by its own output, or by its directory and start time;
//! never by a guess between two. `pi_agent_rust` keeps its sessions in the same place and format: the
//! store in this folder serves both, and every file belongs to the program that began it. Facts and
//! versions: `docs/agents/pi.md`.

mod answering;
mod changes;
mod control;
mod exclusion;
mod lines;
mod live;
mod messages;
mod output;
mod owners;
mod process;
mod record;
mod rpc;
mod store;

pub(super) use changes::read as read_changes;
pub(super) use control::{LADDER, advice, file_of, handshake, is_script, moved_home};
pub(super) use messages::read as read_message;
pub(super) use process::{home_of, homes, is_candidate, is_own_program, programs, roots};
pub(super) use store::PiStore;

use std::path::PathBuf;

use super::answering::Answering;
use super::changes::{ChangeNote, ChangesTold};
use super::control::Control;
use super::pi_rust::PiRust;
use super::{Adapter, Capabilities, Installation, Look, Root, Store, Variables, version_beside};
use crate::host::Host;
use crate::kernel::{Brief, Process};
use crate::model::Message;

/// The two packages Pi was published as, newest first.
pub(super) const PACKAGES: [&str; 2] =
    ["@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent"];

/// One of the two programs that share a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pi itself, on Node or as one file with a runtime of its own.
    Pi,
    /// `pi_agent_rust`.
    PiRust,
}

impl Kind {
    /// Returns the adapter's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::PiRust => "pi-rust",
        }
    }

    /// Returns the adapter.
    fn adapter(self) -> &'static dyn Adapter {
        match self {
            Self::Pi => &Pi,
            Self::PiRust => &PiRust,
        }
    }
}

/// The variables that both adapters of this family read.
pub(super) static VARIABLES: Variables = Variables {
    answers: &["PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR", "PI_SESSIONS_DIR"],
    launch: &["PATH", "PI_SESSION_ID"],
};

/// The adapter.
pub struct Pi;

impl Adapter for Pi {
    fn name(&self) -> &'static str {
        Kind::Pi.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live: true,
            history: true,
            waiting: "dialogs of extensions, with --keep",
            tokens: true,
            cost: true,
            subagents: false,
            changes: ChangesTold::Hunks,
        }
    }

    fn is_candidate(&self, brief: Brief<'_>) -> bool {
        is_candidate(brief)
    }

    fn homes(&self, host: &Host) -> Vec<PathBuf> {
        homes(host)
    }

    fn is_own_program(&self, _look: &Look, process: &Process) -> bool {
        is_own_program(process, Kind::Pi)
    }

    fn home_of(&self, look: &Look, process: &Process) -> Option<PathBuf> {
        home_of(look, process)
    }

    fn roots(&self, look: &Look) -> Vec<Root> {
        roots(look)
    }

    fn installation(&self, host: &Host) -> Installation {
        // A program of that name without Pi's package around it is another program.
        let found = programs(host).find_map(|program| {
            let version = PACKAGES.iter().find_map(|name| version_beside(&program, name))?;
            Some((program, version))
        });
        let (program, version) = found.unzip();
        Installation { program, version }
    }

    fn store<'a>(&'a self, look: &'a Look, root: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(PiStore::open(Kind::Pi, look, root))
    }

    fn messages(&self, line: &[u8]) -> Vec<Message> {
        read_message(line)
    }

    fn changes(&self, line: &[u8]) -> Vec<ChangeNote> {
        read_changes(line)
    }

    fn variables(&self) -> &'static Variables {
        &VARIABLES
    }

    fn answering(&self) -> Option<&dyn Answering> {
        Some(self)
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}
